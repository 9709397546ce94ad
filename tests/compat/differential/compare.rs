//! What "the same reply" means, command by command.

use command::Command;
use harness::{Raw, Request};
use resp::{Value, ValueDecoder};

use super::sequence::Profile;
use crate::compat::dumped_values;

/// How two replies are compared whose bytes differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// They are different replies.
    Exact,
    /// Elements may come in any order, also within an element.
    Unordered,
    /// Integers that count down: equal but for the time that passes during the test.
    Near { tolerance: i64 },
    /// Both are nothing or both are something.
    Presence,
    /// Numbers within are equal as numbers, however they are written.
    Numbers,
    /// The same, and elements may come in any order.
    UnorderedNumbers,
    /// Both have as many elements, or both are nothing, or something.
    AsMany,
    /// Names of encodings: Redis 7.2 keeps small lists and sets as listpacks, 7.0 did not.
    Encoding,
    /// Payloads of the same value, in the same blocks where it has the same form: they may be
    /// compressed otherwise, and what has no order may be in another one.
    Payload,
    /// They are different replies, but Redis may refuse numbers that it can read: it looks at an
    /// `errno` that another command has left.
    Sorted,
    /// Not at all.
    Never,
    /// A map or a flat array of pairs; the values of these names are not compared.
    MapWithout(&'static [&'static str]),
    /// An array of such.
    ArrayWithout(&'static [&'static str]),
    /// As for `Near`, of the integers within.
    NearWithin { tolerance: i64 },
}

/// Seconds that an epoch may take before times that count down seem different.
pub const SECONDS_MAX: i64 = 600;

struct Row {
    command: &'static str,
    profile: Option<Profile>,
    how: How,
    reason: &'static str,
}

/// The replies that need not be equal, each with its reason; for a difference between Redis 7.0
/// and 7.2 that is where 7.2's behaviour is written. A command with the tip
/// `nondeterministic_output_order` is compared without order by that tip alone.
const ROWS: &[Row] = &[
    always("ttl", How::Near { tolerance: SECONDS_MAX }, "counts down"),
    always("pttl", How::Near { tolerance: SECONDS_MAX * 1000 }, "counts down"),
    always("expiretime", How::Near { tolerance: SECONDS_MAX }, "set relative to a clock"),
    always("pexpiretime", How::Near { tolerance: SECONDS_MAX * 1000 }, "set relative to a clock"),
    always("object|idletime", How::Presence, "Redis shares small integers, idle since its start"),
    always("object|refcount", How::Presence, "Redis keeps what a queued request or a reply holds"),
    always("scan", How::Unordered, "its order is the hash table's"),
    always("keys", How::Unordered, "its order is the hash table's"),
    always("randomkey", How::Presence, "any key will do"),
    always("zadd", How::Numbers, SHORTEST),
    always("zincrby", How::Numbers, SHORTEST),
    always("zscore", How::Numbers, SHORTEST),
    always("zmscore", How::Numbers, SHORTEST),
    always("zpopmin", How::Numbers, SHORTEST),
    always("zpopmax", How::Numbers, SHORTEST),
    always("zmpop", How::Numbers, SHORTEST),
    always("bzmpop", How::Numbers, SHORTEST),
    always("bzpopmax", How::Numbers, SHORTEST),
    always("bzpopmin", How::Numbers, SHORTEST),
    always("zrange", How::Numbers, SHORTEST),
    always("zrevrange", How::Numbers, SHORTEST),
    always("zrangebyscore", How::Numbers, SHORTEST),
    always("zrevrangebyscore", How::Numbers, SHORTEST),
    always("zunion", How::Numbers, SHORTEST),
    always("zinter", How::Numbers, SHORTEST),
    always("zdiff", How::Numbers, SHORTEST),
    always("dump", How::Payload, "compressed otherwise; 7.0 makes a quicklist of each list"),
    always("client|id", How::Presence, "counts the server's connections"),
    always("object|encoding", How::Encoding, "lists and sets: src/t_set.c, src/t_list.c of 7.2"),
    always("sort", How::Sorted, "src/sort.c refuses by an old errno"),
    always("sort_ro", How::Sorted, "src/sort.c refuses by an old errno"),
    always("srandmember", How::AsMany, "each server draws by itself"),
    always("hrandfield", How::AsMany, "each server draws by itself"),
    always("zrandmember", How::AsMany, "each server draws by itself"),
    always("sscan", How::Unordered, "its order is the hash table's"),
    always("hscan", How::Unordered, "its order is the hash table's"),
    always("zscan", How::UnorderedNumbers, "its order is the hash table's; as for zscore"),
    always("xinfo|stream", How::MapWithout(&["radix-tree-nodes"]), "the trees are not alike"),
    always("xpending", How::NearWithin { tolerance: SECONDS_MAX * 1000 }, "times go on"),
    always("xgroup|createconsumer", How::Never, READERS),
    always("xinfo|groups", How::ArrayWithout(&["consumers", "lag"]), READERS),
    always("time", How::Never, "the clock goes on"),
    always("hello", How::MapWithout(&["version", "id"]), "another version, another connection"),
    expired("dbsize", "a key may expire between the two servers' looks"),
];

const READERS: &str = "7.2 makes the consumer whatever it reads or claims, and counts the lag \
    otherwise where the first entries were deleted (t_stream.c)";
const SHORTEST: &str = "7.2 writes scores with the fewest digits (d2string in util.c)";

const fn always(command: &'static str, how: How, reason: &'static str) -> Row {
    Row { command, profile: None, how, reason }
}

const fn expired(command: &'static str, reason: &'static str) -> Row {
    Row { command, profile: Some(Profile::Expired), how: How::Never, reason }
}

/// Compares the replies of one session, request by request.
#[derive(Debug, Default)]
pub struct Comparison {
    /// What the transaction underway will answer.
    queued: Vec<Request>,
}

impl Comparison {
    /// Compares the replies to `request`.
    ///
    /// # Errors
    /// Says what differs.
    pub fn check(
        &mut self,
        profile: Profile,
        request: &Request,
        ours: &Raw,
        oracle: &Raw,
    ) -> Result<(), &'static str> {
        let queued = self.follow(request, &oracle.value);
        if ours.bytes == oracle.bytes {
            return Ok(());
        }
        match (queued, &ours.value, &oracle.value) {
            (Some(queued), Value::Array(_), Value::Array(_)) => {
                let (ours, oracle) = (elements(&ours.bytes), elements(&oracle.bytes));
                if ours.len() != queued.len() || oracle.len() != queued.len() {
                    return Err("a transaction answers each of its commands");
                }
                let mut pairs = queued.iter().zip(ours.iter().zip(&oracle));
                pairs.try_for_each(|(request, (a, b))| agree(profile, request, a, b))
            }
            _ => agree(profile, request, ours, oracle),
        }
    }

    /// Returns the commands of the transaction that this reply answers.
    fn follow(&mut self, request: &Request, reply: &Value) -> Option<Vec<Request>> {
        match (lowercase(&request[0]).as_str(), reply) {
            (_, Value::Simple(text)) if text == b"QUEUED" => {
                self.queued.push(request.clone());
                None
            }
            ("exec", _) => Some(std::mem::take(&mut self.queued)),
            ("discard" | "reset", Value::Simple(_)) => {
                self.queued.clear();
                None
            }
            _ => None,
        }
    }
}

/// Returns the elements of an array, each with its own bytes.
fn elements(array: &[u8]) -> Vec<Raw> {
    let header_end = array.iter().position(|byte| *byte == b'\n').expect("a header is a line") + 1;
    let mut rest = &array[header_end..];
    let mut elements = Vec::new();
    while !rest.is_empty() {
        let decoded = ValueDecoder::default().decode(rest);
        let (Ok((size, Some(value))), bytes) = (decoded, rest) else { panic!("an array is whole") };
        elements.push(Raw { bytes: bytes[..size].to_vec(), value });
        rest = &rest[size..];
    }
    elements
}

fn agree(
    profile: Profile,
    request: &Request,
    ours: &Raw,
    oracle: &Raw,
) -> Result<(), &'static str> {
    if ours.bytes == oracle.bytes {
        return Ok(());
    }
    let (ours, oracle) = (&ours.value, &oracle.value);
    let (how, reason) = how(profile, request);
    if how == How::Numbers && numbered(ours) == numbered(oracle) {
        return Ok(());
    }
    if ours == oracle && how != How::AsMany {
        return Err("the same meaning in different bytes");
    }
    let is_error = |value: &Value| matches!(value, Value::Error(_));
    let refuses_scores =
        |value: &Value| matches!(value, Value::Error(text) if text.starts_with(SCORES.as_bytes()));
    if how == How::Sorted && refuses_scores(oracle) && matches!(ours, Value::Array(_)) {
        return Ok(());
    }
    if is_error(ours) || is_error(oracle) {
        return Err("an error on one side, or two different ones");
    }
    let agrees = match how {
        How::Exact | How::Numbers => false,
        // To strcoll a text ends with its first NUL, so that the order of some is open.
        How::Sorted => has_nul(oracle) && sorted(ours) == sorted(oracle),
        How::Never => true,
        How::Unordered => sorted(ours) == sorted(oracle),
        How::UnorderedNumbers => sorted(&numbered(ours)) == sorted(&numbered(oracle)),
        How::AsMany => shape(ours) == shape(oracle),
        How::Presence => is_nothing(ours) == is_nothing(oracle),
        How::Payload => match (ours.as_bytes(), oracle.as_bytes()) {
            (Some(ours), Some(oracle)) => dumped_values::are_same(ours, oracle),
            _ => false,
        },
        How::Encoding => is_newer_encoding(ours, oracle),
        How::Near { tolerance } => are_near(ours, oracle, tolerance),
        How::MapWithout(names) => without(ours, names) == without(oracle, names),
        How::NearWithin { tolerance } => are_near_within(ours, oracle, tolerance),
        How::ArrayWithout(names) => match (ours, oracle) {
            (Value::Array(ours), Value::Array(oracle)) => {
                let each = |maps: &[Value]| -> Vec<_> {
                    maps.iter().map(|map| without(map, names)).collect()
                };
                each(ours) == each(oracle)
            }
            _ => false,
        },
    };
    if agrees { Ok(()) } else { Err(reason) }
}

fn how(profile: Profile, request: &Request) -> (How, &'static str) {
    let name = name(request);
    let fits = |row: &&Row| row.command == name && row.profile.is_none_or(|only| only == profile);
    match ROWS.iter().find(fits) {
        Some(row) => (row.how, row.reason),
        None if has_tip(&name, "nondeterministic_output_order") => (How::Unordered, "any order"),
        None => (How::Exact, "different replies"),
    }
}

/// Returns the name of the row that answers `request`.
fn name(request: &Request) -> String {
    let name = lowercase(&request[0]);
    let row = command::table().iter().find(|row| row.name == name);
    match (row, request.get(1)) {
        (Some(Command { subcommands: [_, ..], .. }), Some(word)) => {
            format!("{name}|{}", lowercase(word))
        }
        _ => name,
    }
}

fn has_tip(name: &str, tip: &str) -> bool {
    command::rows().any(|row| row.name == name && row.tips.contains(&tip))
}

fn lowercase(word: &[u8]) -> String {
    String::from_utf8_lossy(word).to_ascii_lowercase()
}

/// How Redis refuses numbers in SORT.
const SCORES: &str = "ERR One or more scores can't be converted into double";

/// Returns whether Redis 7.2 may say `ours` where 7.0 says `oracle`. SORT makes a sorted set a
/// skiplist in Redis, and changes nothing here. The intersection of sets that are no intsets is
/// none in 7.2, and one in 7.0 if it has few integers alone (`sinterGenericCommand` in
/// src/t_set.c).
fn is_newer_encoding(ours: &Value, oracle: &Value) -> bool {
    const NEWER: [(&[u8], &[u8]); 5] = [
        (b"listpack", b"quicklist"),
        (b"listpack", b"hashtable"),
        (b"listpack", b"skiplist"),
        (b"listpack", b"intset"),
        (b"hashtable", b"intset"),
    ];
    let names = (ours.as_bytes(), oracle.as_bytes());
    NEWER.iter().any(|&(newer, older)| names == (Some(newer), Some(older)))
}

/// Returns the value with every number in it written in one way.
fn numbered(value: &Value) -> Value {
    match value {
        Value::Array(values) => Value::Array(values.iter().map(numbered).collect()),
        Value::Bulk(bytes) => match std::str::from_utf8(bytes).ok().map(str::parse::<f64>) {
            Some(Ok(number)) if !number.is_nan() => Value::Double(number),
            _ => value.clone(),
        },
        other => other.clone(),
    }
}

fn is_nothing(value: &Value) -> bool {
    matches!(value, Value::Null | Value::NullArray)
}

/// Returns the value without what its elements are, but for their number.
fn shape(value: &Value) -> Value {
    match value {
        Value::Array(values) => Value::Array(values.iter().map(shape).collect()),
        Value::Bulk(_) | Value::Double(_) => Value::Bulk(Vec::new()),
        other => other.clone(),
    }
}

/// Returns whether bytes with a NUL are among the elements of `value`.
fn has_nul(value: &Value) -> bool {
    match value {
        Value::Array(values) => values.iter().any(has_nul),
        other => other.as_bytes().is_some_and(|bytes| bytes.contains(&0)),
    }
}

/// Returns the value with every aggregate in it sorted.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Array(values) | Value::Set(values) => {
            let mut values: Vec<Value> = values.iter().map(sorted).collect();
            values.sort_by_cached_key(|value| format!("{value:?}"));
            Value::Array(values)
        }
        Value::Map(pairs) => {
            let mut pairs = pairs.clone();
            pairs.sort_by_cached_key(|pair| format!("{pair:?}"));
            Value::Map(pairs)
        }
        other => other.clone(),
    }
}

/// Returns whether both count down to about the same moment. Negative numbers are not times.
fn are_near(ours: &Value, oracle: &Value, tolerance: i64) -> bool {
    match (ours, oracle) {
        (Value::Integer(a), Value::Integer(b)) => {
            a == b || *a >= 0 && *b >= 0 && a.abs_diff(*b) <= tolerance.unsigned_abs()
        }
        _ => false,
    }
}

/// As [`are_near`], for arrays of integers and of others, which are equal.
fn are_near_within(ours: &Value, oracle: &Value, tolerance: i64) -> bool {
    match (ours, oracle) {
        (Value::Array(ours), Value::Array(oracle)) => {
            let mut pairs = ours.iter().zip(oracle);
            ours.len() == oracle.len() && pairs.all(|(a, b)| are_near_within(a, b, tolerance))
        }
        _ => ours == oracle || are_near(ours, oracle, tolerance),
    }
}

/// Returns the pairs of a map, or of a flat array, without the values of `names`.
fn without(value: &Value, names: &[&str]) -> Option<Vec<(Value, Value)>> {
    let pairs: Vec<(Value, Value)> = match value {
        Value::Map(pairs) => pairs.clone(),
        Value::Array(values) if values.len() % 2 == 0 => {
            values.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
        }
        _ => return None,
    };
    let is_named =
        |name: &Value| names.iter().any(|known| name.as_bytes() == Some(known.as_bytes()));
    let blank = |(name, value)| match is_named(&name) {
        true => (name, Value::Null),
        false => (name, value),
    };
    Some(pairs.into_iter().map(blank).collect())
}

#[cfg(test)]
mod tests {
    use super::super::sequence::LEFT_OUT;
    use super::*;

    fn raw(bytes: &[u8]) -> Raw {
        let value = Value::from_bytes(bytes).expect("it is RESP").expect("it is complete");
        Raw { bytes: bytes.to_vec(), value }
    }

    fn check(line: &str, ours: &[u8], oracle: &[u8]) -> Result<(), &'static str> {
        let request = harness::words(line);
        Comparison::default().check(Profile::Lasting, &request, &raw(ours), &raw(oracle))
    }

    #[test]
    fn every_listed_reply_is_of_a_command_that_is_drawn() {
        for row in ROWS {
            let is_row = command::rows().any(|command| command.name == row.command);
            let is_left_out = LEFT_OUT.iter().any(|(name, _)| *name == row.command);
            assert!(is_row && !is_left_out && !row.reason.is_empty(), "{}", row.command);
        }
    }

    #[test]
    fn replies_that_differ_are_seen() {
        assert!(check("GET k", b"$1\r\na\r\n", b"$1\r\na\r\n").is_ok());
        assert!(check("GET k", b"$1\r\na\r\n", b"$1\r\nb\r\n").is_err());
        assert!(check("GET k", b"$-1\r\n", b"_\r\n").is_err());
        assert!(check("GET k", b"$-1\r\n", b"*-1\r\n").is_err());
        assert!(check("GET k", b"-ERR a\r\n", b"-ERR b\r\n").is_err());
        assert!(check("PING", b"+PONG\r\n", b"$4\r\nPONG\r\n").is_err());
    }

    #[test]
    fn order_is_ignored_where_it_means_nothing() {
        let (ab, ba) = (b"*2\r\n$1\r\na\r\n$1\r\nb\r\n", b"*2\r\n$1\r\nb\r\n$1\r\na\r\n");
        assert!(check("KEYS *", ab, ba).is_ok());
        assert!(check("MGET a b", ab, ba).is_err());
        assert!(check("KEYS *", ab, b"*2\r\n$1\r\na\r\n$1\r\na\r\n").is_err());
    }

    #[test]
    fn what_is_drawn_has_as_many_elements() {
        let (one, other) = (b"*2\r\n$1\r\na\r\n$1\r\nb\r\n", b"*2\r\n$1\r\nb\r\n$1\r\nb\r\n");
        assert!(check("HRANDFIELD h 2", one, other).is_ok());
        assert!(check("HRANDFIELD h 2", one, b"*1\r\n$1\r\na\r\n").is_err());
        assert!(check("HRANDFIELD h 2", one, b"*2\r\n$1\r\na\r\n$-1\r\n").is_err());
        assert!(check("HRANDFIELD h", b"$1\r\na\r\n", b"$1\r\nb\r\n").is_ok());
        assert!(check("HRANDFIELD h", b"$1\r\na\r\n", b"$-1\r\n").is_err());
    }

    #[test]
    fn times_may_pass_and_nothing_else() {
        assert!(check("TTL k", b":1000\r\n", b":1001\r\n").is_ok());
        assert!(check("TTL k", b":1000\r\n", b":100000\r\n").is_err());
        assert!(check("TTL k", b":-1\r\n", b":-2\r\n").is_err());
        assert!(check("TTL k", b":-1\r\n", b":1\r\n").is_err());
        assert!(check("TTL k", b"-ERR\r\n", b":1\r\n").is_err());
    }

    #[test]
    fn the_replies_of_a_transaction_are_compared_one_by_one() {
        let mut comparison = Comparison::default();
        let queued = raw(b"+QUEUED\r\n");
        let mut check = |line: &str, ours: &Raw, oracle: &Raw| {
            comparison.check(Profile::Lasting, &harness::words(line), ours, oracle)
        };
        assert!(check("TTL k", &queued, &queued).is_ok());
        assert!(check("GET k", &queued, &queued).is_ok());
        let ours = raw(b"*2\r\n:100000\r\n$1\r\na\r\n");
        assert!(check("EXEC", &ours, &raw(b"*2\r\n:100001\r\n$1\r\na\r\n")).is_ok());
        assert!(check("TTL k", &queued, &queued).is_ok());
        assert!(check("GET k", &queued, &queued).is_ok());
        assert!(check("EXEC", &ours, &raw(b"*2\r\n:100001\r\n$1\r\nb\r\n")).is_err());
    }
}
