//! The steps of an epoch.

use std::collections::HashSet;

use command::generate::Draw;
use command::{Command, Group, Handler, rows};
use harness::Request;

use super::draw::Words;

/// Two sides of the semantics that do not go together in one comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// No key expires: what counts keys must agree at any moment.
    Lasting,
    /// Keys may be stored that are past their time already. They are absent in both servers, and
    /// each removes them when it pleases, so what counts them is not compared.
    Expired,
}

impl Profile {
    /// Returns the profile of the epoch of `seed`: they take turns.
    pub fn of_seed(seed: u64) -> Profile {
        if seed.is_multiple_of(2) { Profile::Lasting } else { Profile::Expired }
    }
}

/// The sessions of an epoch, by how they connect.
pub const SESSION_COUNT: usize = 3;

/// Requests of one session that are sent together, at most.
pub const BATCH_MAX: u64 = 60;

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Who sends it.
    pub session: usize,
    /// What.
    pub request: Request,
}

/// What an epoch is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theme {
    /// Every command there is.
    All,
    /// Lists, hashes, sets and sorted sets, those of places too, that become large and small
    /// again, HyperLogLogs that become dense, under settings of the epoch's own, and sessions that
    /// wait for elements.
    Collections,
    /// The commands of these groups, on few keys, and sessions that wait for entries of streams.
    Groups(Groups),
}

impl Theme {
    /// Returns the theme of the epoch of `seed`: each comes with both profiles.
    pub fn of_seed(seed: u64) -> Theme {
        if (seed / 2).is_multiple_of(2) { Theme::All } else { Theme::Collections }
    }
}

/// Groups of commands: a bit for each, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Groups(u32);

impl Groups {
    /// Returns those whose names are in `text`, with commas between them.
    ///
    /// # Panics
    /// When no command is of a group that is called so.
    pub fn named(text: &str) -> Groups {
        let bit = |name: &str| {
            let row = rows().find(|row| row.group.name() == name);
            1 << row.unwrap_or_else(|| panic!("'{name}' is no group of commands")).group as u32
        };
        Groups(text.split(',').map(bit).fold(0, |groups, bit| groups | bit))
    }

    /// Returns whether `group` is one of them.
    pub fn has(self, group: Group) -> bool {
        self.0 & 1 << group as u32 != 0
    }
}

/// Steps on empty servers.
#[derive(Clone, Debug)]
pub struct Epoch {
    /// What may be compared.
    pub profile: Profile,
    /// What the steps are about.
    pub theme: Theme,
    /// What is sent to both servers first, so that collections change their encoding soon or late.
    pub settings: Vec<Request>,
    /// All keys that steps may name.
    pub keys: Vec<Vec<u8>>,
    /// In order.
    pub steps: Vec<Step>,
}

const BY_NAME: &str = "not specified where scores differ; compat/scripts/sorted_sets.txt has it";

/// Commands that do not belong into random sequences, with the reason.
pub const LEFT_OUT: &[(&str, &str)] = &[
    ("auth", "compat/scripts/sessions.txt has it; no password is set here"),
    ("await", "Forebay's own"),
    ("backup|status", "Forebay's own"),
    ("backup|to", "Forebay's own"),
    ("bgrewriteaof", "writes to disk; compat/snapshots.rs has it"),
    ("bgsave", "writes to disk; compat/snapshots.rs has it"),
    ("client|info", "shows addresses and ages; compat/information.rs compares its fields"),
    ("client|list", "shows addresses and ages; compat/information.rs compares its fields"),
    ("client|kill", "would end sessions; compat/sessions.rs has it"),
    ("client|no-touch", "unknown to Redis 7.0; compat/scripts/clients.txt has it"),
    ("client|pause", "would make sessions wait; compat/sessions.rs has it"),
    ("client|reply", "replies would be missing; compat/scripts/clients.txt has it"),
    ("client|setinfo", "unknown to Redis 7.0; compat/scripts/sessions.txt has it"),
    ("client|tracking", "Forebay refuses ON; compat/scripts/clients.txt has it"),
    ("command", "compat/command_rows.rs compares the rows"),
    ("command|count", "the servers have different numbers of commands"),
    ("command|docs", "compat/command_rows.rs compares the rows"),
    ("command|info", "compat/command_rows.rs compares the rows"),
    ("command|list", "the servers have different commands"),
    ("config|get", "compat/scripts/sessions.txt has it; the servers have different options"),
    ("config|set", "changes the server for all epochs"),
    ("config|resetstat", "no reply depends on it"),
    ("debug", "its subcommands differ; the digests are compared at the end of each epoch"),
    ("delex", "a command of Redis 8.4; command/tests/table has it"),
    ("delifeq", "a command of Valkey; command/tests/table has it"),
    ("digest", "a command of Redis 8.4; command/tests/table has it"),
    ("feed|ack", "Forebay's own"),
    ("feed|create", "Forebay's own"),
    ("feed|drop", "Forebay's own"),
    ("feed|groups", "Forebay's own"),
    ("feed|info", "Forebay's own"),
    ("feed|logs", "Forebay's own"),
    ("feed|read", "Forebay's own"),
    ("help", "names the subcommands that the server has"),
    ("info", "shows the server's own numbers; compat/information.rs compares its fields"),
    ("lastsave", "when the server started"),
    ("latency|doctor", "tells in words of its own what the server saw"),
    ("latency|graph", "shows what the server saw; compat/observation.rs compares its form"),
    ("latency|histogram", "shows what the server saw; compat/observation.rs compares its form"),
    ("latency|history", "shows what the server saw; compat/observation.rs compares its form"),
    ("latency|latest", "shows what the server saw; compat/observation.rs compares its form"),
    ("latency|reset", "tells what the server saw"),
    ("lolwut", "a picture of each server's own"),
    ("object|cost", "Forebay's own"),
    ("memory|doctor", "tells in words of its own what the server saw"),
    ("memory|malloc-stats", "the servers have different allocators"),
    ("memory|stats", "shows the server's own numbers; compat/observation.rs compares its fields"),
    ("memory|usage", "the servers lay memory out differently"),
    ("migrate", "waits for another server; compat/migrations.rs has it"),
    ("monitor", "sends more than replies; compat/sessions.rs has it"),
    ("hexpire", "a command of Redis 7.4; command/tests/table has it"),
    ("hexpireat", "a command of Redis 7.4; command/tests/table has it"),
    ("hexpiretime", "a command of Redis 7.4; command/tests/table has it"),
    ("hgetdel", "a command of Redis 8; command/tests/table has it"),
    ("hgetex", "a command of Redis 8; command/tests/table has it"),
    ("hpersist", "a command of Redis 7.4; command/tests/table has it"),
    ("hpexpire", "a command of Redis 7.4; command/tests/table has it"),
    ("hpexpireat", "a command of Redis 7.4; command/tests/table has it"),
    ("hpexpiretime", "a command of Redis 7.4; command/tests/table has it"),
    ("hpttl", "a command of Redis 7.4; command/tests/table has it"),
    ("hsetex", "a command of Redis 8; command/tests/table has it"),
    ("httl", "a command of Redis 7.4; command/tests/table has it"),
    ("increx", "a command of Redis 8.8; command/tests/table has it"),
    ("ldel", "Forebay's own"),
    ("lextend", "Forebay's own"),
    ("lfill", "Forebay's own"),
    ("lfree", "Forebay's own"),
    ("lget", "Forebay's own"),
    ("mlget", "Forebay's own"),
    ("itemset", "Forebay's own"),
    ("msetex", "a command of Redis 8.4; command/tests/table has it"),
    ("pfselftest", "takes a second in Redis; compat/scripts/hyperloglogs.txt has it"),
    ("purgelogsto", "Pika's own"),
    ("quit", "compat/scripts/sessions.txt has it; the connection would be gone"),
    ("save", "Redis writes to disk; compat/observation.rs has the refusal"),
    ("cache|advise", "Forebay's own"),
    ("shm|alloc", "Forebay's own"),
    ("shm|attach", "Forebay's own"),
    ("shm|close", "Forebay's own"),
    ("shm|commit", "Forebay's own"),
    ("shm|copy", "Forebay's own"),
    ("shm|free", "Forebay's own"),
    ("shm|lane", "Forebay's own"),
    ("shm|open", "Forebay's own"),
    ("shm|seal", "Forebay's own"),
    ("shm|segments", "Forebay's own"),
    ("shm|take", "Forebay's own"),
    ("shm|upload", "Forebay's own"),
    ("shutdown", "hostile/start_and_stop.rs has it; the server would be gone"),
    ("spop", "takes members by chance; compat/scripts has it where there is one to take"),
    ("slowlog|get", "shows what the server saw; compat/observation.rs compares its entries"),
    ("slowlog|len", "tells what the server saw"),
    ("wait", "may wait for long; compat/scripts/clients.txt has it"),
    ("xackdel", "a command of Redis 8.2; command/tests/table has it"),
    ("xcfgset", "a command of Redis 8.6; command/tests/table has it"),
    ("xdelex", "a command of Redis 8.2; command/tests/table has it"),
    ("xidmprecord", "a command of Redis 8.8; command/tests/table has it"),
    ("xnack", "a command of Redis 8.8; command/tests/table has it"),
    ("xsetid", "7.2 refuses identities that 7.0 takes; compat/scripts/streams.txt has it"),
    ("xinfo|consumers", "7.2 says more, and times go on; command/tests/table has it"),
    ("zlexcount", BY_NAME),
    ("zrangebylex", BY_NAME),
    ("zremrangebylex", BY_NAME),
    ("zrevrangebylex", BY_NAME),
    ("waitaof", "unknown to Redis 7.0; compat/scripts/clients.txt has it"),
];

/// Commands that would leave little to compare if they came as often as others.
const RARE: [&str; 8] =
    ["flushall", "flushdb", "swapdb", "reset", "hello", "select", "discard", "unwatch"];

/// Containers that Redis 7.0 has and a request may name without a subcommand.
const CONTAINERS: [&str; 6] = ["config", "client", "object", "memory", "slowlog", "latency"];
/// A name that no server has.
const NO_NAME: &str = "nosuchcommand";

/// The settings at which collections change their encoding, each with its default and with values
/// that few parts reach. One that Redis 7.0 does not know is not among them.
const SETTINGS: [(&str, &[&str]); 9] = [
    ("hash-max-listpack-entries", &["512", "3", "40", "0"]),
    ("hash-max-listpack-value", &["64", "5", "300"]),
    ("set-max-intset-entries", &["512", "4", "60", "0"]),
    ("zset-max-listpack-entries", &["128", "3", "20", "0"]),
    ("zset-max-listpack-value", &["64", "5", "300"]),
    ("list-max-listpack-size", &["-2", "2", "10", "-1"]),
    ("hll-sparse-max-bytes", &["3000", "20", "60", "500"]),
    ("stream-node-max-entries", &["100", "3", "10", "1"]),
    ("stream-node-max-bytes", &["4096", "100", "300"]),
];

impl Epoch {
    /// Returns the epoch of `seed` with about `count` steps, about `groups` if these are given.
    pub fn draw(seed: u64, count: usize, groups: Option<Groups>) -> Epoch {
        let profile = Profile::of_seed(seed);
        let theme = groups.map_or(Theme::of_seed(seed), Theme::Groups);
        let keys = keys(theme);
        let mut draw = Words::new(seed, profile, theme, keys.clone());
        let settings = settings(&mut draw, theme);
        let rows: Vec<_> = candidates().into_iter().filter(|row| is_about(row, theme)).collect();
        let (own, others) = rows.into_iter().partition(|row| is_main(row, theme));
        let rows = [own, others];
        let mut steps: Vec<Step> = (0..SESSION_COUNT).map(first_step).collect();
        let mut in_transaction = [false; SESSION_COUNT];
        while steps.len() < count {
            let session = draw.random().below(SESSION_COUNT as u64) as usize;
            for _ in 0..=draw.random().below(BATCH_MAX) {
                let request = match theme {
                    Theme::Collections if draw.random().one_in(20) => draw.filling(),
                    Theme::Collections if draw.random().one_in(80) => waiting(&mut draw),
                    Theme::Collections if draw.random().one_in(100) => draw.damaging(),
                    Theme::Groups(groups) if groups.has(Group::Stream) => {
                        match draw.random().below(160) {
                            0..=1 => waiting_reader(&mut draw),
                            2..=30 => draw.of_stream(),
                            _ => next_request(&mut draw, &rows, in_transaction[session]),
                        }
                    }
                    _ => next_request(&mut draw, &rows, in_transaction[session]),
                };
                let request = match theme {
                    Theme::Groups(_) => leaving_awaited(request, in_transaction[session]),
                    _ => replacing_no_awaited(request),
                };
                follow(&request, &mut in_transaction[session]);
                let may_wait = may_wait(&request);
                steps.push(Step { session, request });
                if may_wait {
                    // What follows would wait with it.
                    break;
                }
            }
        }
        Epoch { profile, theme, settings, keys, steps }
    }
}

/// Numbers at which arithmetic goes over, and texts that nearly are numbers.
const LIMITS: [&str; 26] = [
    "9223372036854775807",
    "9223372036854775808",
    "9223372036854775806",
    "-9223372036854775808",
    "-9223372036854775807",
    "-9223372036854775809",
    "18446744073709551615",
    "18446744073709551616",
    "4611686018427387904",
    "-4611686018427387905",
    "4294967295",
    "4294967296",
    "2147483647",
    "2147483648",
    "-2147483648",
    "-2147483649",
    "-1",
    "-0",
    "+1",
    " 1",
    "1 ",
    "0x10",
    "1e308",
    "-inf",
    "nan",
    "1.7976931348623157e309",
];
/// Requests of each command that get such numbers.
const LIMITED_REQUESTS: usize = 12;

impl Epoch {
    /// Returns an epoch for each command of collections, whose requests have each number in turn
    /// replaced by each of [`LIMITS`].
    pub fn at_limits(seed: u64) -> Vec<Epoch> {
        let is_sent = |name: &str| !LEFT_OUT.iter().any(|(left_out, _)| *left_out == name);
        let rows = rows().filter(|row| is_about(row, Theme::Collections) && is_sent(row.name));
        let rows = rows.filter(|row| !WAITING.contains(&row.name));
        // A time to live that passes the last point in time wraps around in Redis's RESTORE.
        let rows = rows.filter(|row| row.name != "restore");
        rows.filter(|row| row.group != Group::Transactions)
            .map(|row| Epoch::of_row_at_limits(seed, row))
            .collect()
    }

    fn of_row_at_limits(seed: u64, row: &Command) -> Epoch {
        let (profile, theme) = (Profile::Lasting, Theme::Collections);
        let keys = keys(theme);
        let mut draw = Words::new(seed, profile, theme, keys.clone());
        let settings = settings(&mut draw, Theme::All);
        let mut steps = vec![first_step(0)];
        let step = |request| Step { session: 0, request: comparable(far_away(request)) };
        for _ in 0..LIMITED_REQUESTS {
            steps.extend((0..6).map(|_| step(draw.filling())));
            let request = draw.request(row);
            for index in 1..request.len() {
                let is_number =
                    str::from_utf8(&request[index]).is_ok_and(|it| it.parse::<f64>().is_ok());
                let limits = LIMITS.iter().filter(|it| is_number && is_bounded(row, it));
                steps.extend(limits.map(|limit| {
                    let mut request = request.clone();
                    request[index] = limit.as_bytes().to_vec();
                    step(request)
                }));
            }
        }
        Epoch { profile, theme, settings, keys, steps }
    }
}

/// Returns whether a request of `row` with `limit` for a number has a reply of bounded length: a
/// negative count of random parts has as many. Which of them 7.2 refuses compat/scripts/scans.txt
/// has.
fn is_bounded(row: &Command, limit: &str) -> bool {
    let is_random = row.name.ends_with("randfield") || row.name.ends_with("randmember");
    !is_random || limit.parse::<i64>().is_ok_and(|count| count >= -1)
}

/// Returns what is set before the steps: the defaults, unless it is an epoch of collections.
fn settings(draw: &mut Words, theme: Theme) -> Vec<Request> {
    let setting = |(name, values): (&str, &[&str])| {
        let is_default = theme == Theme::All || draw.random().one_in(2);
        let value = if is_default { values[0] } else { draw.random().pick(values) };
        harness::request(&["CONFIG", "SET", name, value])
    };
    SETTINGS.map(setting).into()
}

/// Returns whether an epoch of `theme` has requests of `row`.
fn is_about(row: &Command, theme: Theme) -> bool {
    let is_of_all = matches!(row.group, Group::Generic | Group::Transactions);
    let is_of_collections = matches!(
        row.group,
        Group::List | Group::Set | Group::SortedSet | Group::Geo | Group::Hash | Group::HyperLogLog
    );
    match theme {
        Theme::All => true,
        Theme::Collections => is_of_all || is_of_collections,
        // What exchanges databases would serve those who wait for emptied streams, in Redis 7.0.
        Theme::Groups(groups) => is_of_all && row.name != "swapdb" || groups.has(row.group),
    }
}

/// Returns whether most requests of an epoch of `theme` are of rows like `row`.
fn is_main(row: &Command, theme: Theme) -> bool {
    match theme {
        Theme::Groups(groups) => groups.has(row.group),
        _ => true,
    }
}

/// Commands that wait for an element, which sessions send in epochs of collections.
const WAITING: [&str; 8] =
    ["blmove", "blmpop", "blpop", "brpop", "brpoplpush", "bzmpop", "bzpopmax", "bzpopmin"];

/// Returns whether `request` may make its session wait.
pub fn may_wait(request: &Request) -> bool {
    let is = |word: &[u8], name: &str| word.eq_ignore_ascii_case(name.as_bytes());
    let reads = request[0].to_ascii_lowercase().starts_with(b"xread");
    reads && request.iter().any(|word| is(word, "block"))
        || WAITING.iter().any(|name| is(&request[0], name))
}

/// The streams for which sessions wait; they share a shard, as [`WAITED`] do.
const WAITED_STREAMS: [&str; 2] = ["{tag}s", "{tag}t"];

/// Returns a request that waits for entries for as long as it takes, where there is none. Of one
/// stream: where several get entries at once, Redis 7.0 replies with those of one of them.
fn waiting_reader(draw: &mut Words) -> Request {
    let random = draw.random();
    let key = random.pick(&WAITED_STREAMS);
    let count = if random.one_in(3) { "COUNT 2 " } else { "" };
    harness::words(&match random.one_in(2) {
        true => {
            let id = random.pick(&["$", "$", "0", "4-3"]);
            format!("XREAD {count}BLOCK 0 STREAMS {key} {id}")
        }
        false => {
            let (group, consumer) = (random.pick(&["g", "h"]), random.pick(&["alice", "bob"]));
            let no_ack = if random.one_in(4) { "NOACK " } else { "" };
            format!("XREADGROUP GROUP {group} {consumer} {count}{no_ack}BLOCK 0 STREAMS {key} >")
        }
    })
}

/// Returns `request` with another key for one for which sessions wait, where Redis 7.0 serves them
/// by a stream that has no entry for them, or has lost it again by then: what comes to be there
/// under another name, what a transaction does, what loses entries by themselves.
fn leaving_awaited(mut request: Request, in_transaction: bool) -> Request {
    const LEAVING: [&str; 7] = ["rename", "renamenx", "copy", "restore", "move", "xdel", "xtrim"];
    let is = |word: &[u8], name: &str| word.eq_ignore_ascii_case(name.as_bytes());
    let trims = |word: &Vec<u8>| is(word, "maxlen") || is(word, "minid");
    let leaves = in_transaction
        || LEAVING.iter().any(|name| is(&request[0], name))
        || is(&request[0], "xadd") && request.iter().any(trims);
    let is_awaited = |word: &Vec<u8>| WAITED_STREAMS.iter().any(|key| *word == key.as_bytes());
    if leaves {
        let awaited = request.iter_mut().skip(1).filter(|word| is_awaited(word));
        awaited.for_each(|word| *word = b"s0".to_vec());
    }
    request
}

/// The keys for which sessions wait. They share a shard: a session whose move needs the locks of
/// another one runs it by itself, and what comes meanwhile may come first
/// (docs/decisions/0013-outcomes.md).
const WAITED: [&str; 3] = ["{tag}list", "{tag}zset", "{tag}other"];

/// Returns a request that waits for as long as it takes, where there is no element.
fn waiting(draw: &mut Words) -> Request {
    let random = draw.random();
    let name = random.pick(&WAITING);
    let keys: Vec<&str> = (0..=random.below(2)).map(|_| random.pick(&WAITED)).collect();
    let end = if name.starts_with("bz") { ["MIN", "MAX"] } else { ["LEFT", "RIGHT"] };
    let end = random.pick(&end);
    let line = match name {
        "blmove" => format!("{name} {} {} {end} RIGHT 0", keys[0], random.pick(&WAITED)),
        "brpoplpush" => format!("{name} {} {} 0", keys[0], random.pick(&WAITED)),
        "blmpop" | "bzmpop" => {
            let count = 1 + random.below(3);
            format!("{name} 0 {} {} {end} COUNT {count}", keys.len(), keys.join(" "))
        }
        _ => format!("{name} {} 0", keys.join(" ")),
    };
    harness::words(&line)
}

/// Returns `request` with another key for its result where sessions may wait for that: Redis serves
/// nobody by a key that was there, and whose value a command has replaced by one of another type
/// (`setKey` in src/db.c).
fn replacing_no_awaited(mut request: Request) -> Request {
    let name = request[0].to_ascii_lowercase();
    let is_option = name.starts_with(b"sort") || name.starts_with(b"georadius");
    let is_store = |word: &Vec<u8>| {
        word.eq_ignore_ascii_case(b"store") || word.eq_ignore_ascii_case(b"storedist")
    };
    let place = match is_option {
        true => request.iter().position(is_store),
        false if name.ends_with(b"store") => Some(0),
        false => None,
    };
    if let Some(target) = place.and_then(|place| request.get_mut(place + 1))
        && WAITED.iter().any(|key| *target == key.as_bytes())
    {
        *target = b"k0".to_vec();
    }
    request
}

/// Returns the protocol that a session begins with.
fn first_step(session: usize) -> Step {
    let protocol = if session == 1 { "3" } else { "2" };
    Step { session, request: harness::request(&["HELLO", protocol]) }
}

/// Returns the rows to draw from.
fn candidates() -> Vec<&'static Command> {
    let is_left_out = |name: &str| LEFT_OUT.iter().any(|(left_out, _)| *left_out == name);
    let rows = rows().filter(|row| !matches!(row.handler, Handler::Container));
    let is_drawn = |name: &str| !is_left_out(name) && !WAITING.contains(&name);
    rows.filter(|row| is_drawn(row.name) && !is_left_out(group(row))).collect()
}

/// Returns the name under which a row may be left out: its own, or that of a whole group.
fn group(row: &'static Command) -> &'static str {
    match row.name.split_once('|') {
        Some(("debug", _)) => "debug",
        Some((_, "help")) => "help",
        _ => row.name,
    }
}

/// Returns a request of one of the first of `rows`, or rarely of the others, if there are any.
fn next_request(
    draw: &mut Words,
    [own, others]: &[Vec<&Command>; 2],
    in_transaction: bool,
) -> Request {
    if in_transaction && draw.random().one_in(9) {
        return harness::words("EXEC");
    }
    if draw.random().one_in(300) {
        let name = if draw.random().one_in(5) { NO_NAME } else { draw.random().pick(&CONTAINERS) };
        return draw.spoil(harness::words(name));
    }
    let row = loop {
        let rows = if !others.is_empty() && draw.random().one_in(6) { others } else { own };
        let row = draw.random().pick(rows);
        let is_rare = RARE.contains(&row.name);
        if !is_rare || draw.random().one_in(12) {
            break row;
        }
    };
    let request = draw.request(row);
    // A request that is refused while it is queued spoils the whole transaction.
    let spoiled_one_in = if in_transaction { 150 } else { 15 };
    if draw.random().one_in(spoiled_one_in) {
        return comparable(far_away(unknown_to_both(draw.spoil(request))));
    }
    comparable(request)
}

/// Returns `request` with no small number where a time may stand: what ends within the epoch ends
/// at different steps in the two servers.
fn far_away(mut request: Request) -> Request {
    // As a point in time it is far away too.
    const FAR: u64 = 4_000_000_000;
    const TIMED: [&str; 4] = ["expire", "set", "getex", "restore"];
    let name = String::from_utf8_lossy(&request[0]).to_ascii_lowercase();
    if TIMED.iter().any(|timed| name.contains(timed)) {
        for word in request.iter_mut().skip(2) {
            let number = str::from_utf8(word).ok().and_then(|text| text.parse::<u64>().ok());
            if let Some(number) = number.filter(|number| (1..FAR).contains(number)) {
                *word = (FAR + number).to_string().into_bytes();
            }
        }
    }
    request
}

/// Returns `request` with a name that Redis has neither if Forebay does not have it.
fn unknown_to_both(mut request: Request) -> Request {
    let is_known = |row: &&Command| request[0].eq_ignore_ascii_case(row.name.as_bytes());
    if !command::table().iter().any(is_known) {
        request[0].extend_from_slice(b"-x");
    }
    request
}

/// Returns `request` such that its reply does not depend on the order of keys: a scan begins at
/// the beginning and takes all. The lowest count of LREM and LPOS is refused by 7.2 and not by 7.0
/// (src/t_list.c); it gets the next one. A HELLO has one option at most, as Redis 7.0 obeys each
/// option when it reads it, and 7.2 all of them in the end (compat/scripts/sessions.txt).
fn comparable(mut request: Request) -> Request {
    without_repeated_members(&mut request);
    if [&b"lrem"[..], b"lpos"].iter().any(|name| request[0].eq_ignore_ascii_case(name)) {
        let lowest = request.iter_mut().skip(2).filter(|word| **word == b"-9223372036854775808");
        lowest.for_each(|number| *number = b"-9223372036854775807".to_vec());
    }
    if request[0].to_ascii_lowercase().starts_with(b"x") {
        request = comparable_of_stream(request);
    }
    if request[0].eq_ignore_ascii_case(b"bitfield") {
        // A write that fails may leave a longer string, of which Redis tells no watcher;
        // compat/scripts/bitmaps.txt has FAIL.
        let words = request.iter_mut().filter(|word| word.eq_ignore_ascii_case(b"fail"));
        words.for_each(|word| *word = b"SAT".to_vec());
    }
    if request[0].to_ascii_lowercase().ends_with(b"rank") {
        // Redis 7.0 does not know WITHSCORE; compat/scripts/sorted_sets.txt has it.
        request.truncate(3);
    }
    if [&b"zrange"[..], b"zrangestore"].iter().any(|name| request[0].eq_ignore_ascii_case(name)) {
        // Ranges of names are not specified where scores differ.
        let words = request.iter_mut().filter(|word| word.eq_ignore_ascii_case(b"bylex"));
        words.for_each(|word| *word = b"BYSCORE".to_vec());
    }
    if request[0].to_ascii_lowercase().starts_with(b"sort") {
        return comparable_sort(request);
    }
    if request[0].eq_ignore_ascii_case(b"hello") && request.len() > 3 {
        let is_name = request.iter().any(|word| word.eq_ignore_ascii_case(b"setname"));
        request.truncate(2);
        if is_name {
            request.extend(harness::words("SETNAME somebody"));
        } else {
            request.extend(harness::words("AUTH default anything"));
        }
    }
    let cursor = match request[0].to_ascii_lowercase().as_slice() {
        b"scan" => 1,
        b"sscan" | b"hscan" | b"zscan" => 2,
        _ => request.len(),
    };
    if request.len() > cursor {
        request[cursor] = b"0".to_vec();
        let is_count = |word: &Vec<u8>| word.eq_ignore_ascii_case(b"count");
        if !request.iter().any(is_count) {
            request.extend([b"COUNT".to_vec(), b"100000".to_vec()]);
        }
        for index in cursor + 1..request.len() {
            let is_number = request[index].iter().all(u8::is_ascii_digit);
            if is_number && is_count(&request[index - 1]) && request[index] != b"0" {
                request[index] = b"100000".to_vec();
            }
        }
    }
    request
}

/// Returns a request of streams without what is a matter of time, or of Redis's version.
fn comparable_of_stream(mut request: Request) -> Request {
    if request[0].to_ascii_lowercase().starts_with(b"xread")
        && let Some(at) = request.iter().position(|word| word.eq_ignore_ascii_case(b"streams"))
        && (request.len() - at).is_multiple_of(2)
    {
        // Of keys and identities that are no pairs 7.0 says other words; compat/scripts/streams.txt
        // has them.
        request.pop();
    }
    let is_claim = |name: &[u8]| name.ends_with(b"claim") || name == b"xpending";
    if is_claim(&request[0].to_ascii_lowercase())
        && let Some(idle) = request.get_mut(4)
        && str::from_utf8(idle).is_ok_and(|it| it.parse().is_ok_and(|it: i64| it < 3_600_000))
    {
        // How long an entry has been pending is another time in the other server.
        *idle = b"0".to_vec();
    }
    if request[0].eq_ignore_ascii_case(b"xgroup") {
        // The greatest number of entries read is followed by no other, in Redis by the least.
        let greatest = request.iter_mut().filter(|word| word.starts_with(b"922337203685477580"));
        greatest.for_each(|word| *word = b"1000000".to_vec());
    }
    request
}

/// Returns a SORT without what Redis does not specify: the order of equal texts of other keys, and
/// that of a set; compat/scripts/sort.txt has them for lists. Redis refuses numbers that are text
/// once any command has met one out of range (src/sort.c reads an `errno` that nobody has reset),
/// so that what is stored is sorted as text.
fn comparable_sort(mut request: Request) -> Request {
    let is = |word: &[u8], name: &str| word.eq_ignore_ascii_case(name.as_bytes());
    let stores = request.iter().skip(2).any(|word| is(word, "store"));
    let mut index = 2;
    while index < request.len() {
        if is(&request[index], "by") && stores {
            request.drain(index..request.len().min(index + 2));
            continue;
        }
        if is(&request[index], "by") && index + 1 < request.len() {
            if !request[index + 1].contains(&b'*') {
                request[index + 1] = b"k*".to_vec();
            }
            request.iter_mut().filter(|word| is(word, "alpha")).for_each(|word| {
                *word = b"ASC".to_vec();
            });
        }
        index += 1;
    }
    if stores {
        request.push(b"ALPHA".to_vec());
    }
    request
}

/// Leaves a member that comes twice out of `request` where it adds more members than the least
/// limit of [`SETTINGS`]: the encoding of a new key follows how many the request brings in 7.2, and
/// one that comes twice counts twice (`setTypeCreate` in src/t_set.c, `zsetTypeCreate` in
/// src/t_zset.c).
fn without_repeated_members(request: &mut Request) {
    const LIMIT_LEAST: usize = 3;
    const OPTIONS: [&str; 6] = ["NX", "XX", "GT", "LT", "CH", "INCR"];
    let words_per_member = match request[0].to_ascii_lowercase().as_slice() {
        b"sadd" => 1,
        b"zadd" => 2,
        b"geoadd" => 3,
        _ => return,
    };
    let is_option = |word: &&Vec<u8>| {
        words_per_member > 1 && OPTIONS.iter().any(|it| word.eq_ignore_ascii_case(it.as_bytes()))
    };
    let first = 2 + request.iter().skip(2).take_while(is_option).count();
    let words = request.len().saturating_sub(first);
    if words <= LIMIT_LEAST * words_per_member || !words.is_multiple_of(words_per_member) {
        return;
    }
    let members = request.split_off(first);
    let mut seen = HashSet::new();
    let once = members.chunks(words_per_member).filter(|words| seen.insert(words.last()));
    request.extend(once.flatten().cloned());
}

/// Keeps track of whether the session is within MULTI, as well as one can without the replies.
fn follow(request: &Request, in_transaction: &mut bool) {
    let name = request[0].to_ascii_lowercase();
    match name.as_slice() {
        b"multi" if request.len() == 1 => *in_transaction = true,
        b"exec" | b"discard" | b"reset" if request.len() == 1 => *in_transaction = false,
        _ => {}
    }
}

/// Returns the keys of the epochs of `theme`: few, so that requests meet; of every length and kind.
fn keys(theme: Theme) -> Vec<Vec<u8>> {
    if matches!(theme, Theme::Groups(_)) {
        let few = ["s0", WAITED_STREAMS[0], "s1", WAITED_STREAMS[1], "s2", "12345"];
        return few.map(|key| key.as_bytes().to_vec()).into();
    }
    let mut keys: Vec<Vec<u8>> = (0..12).map(|index| format!("k{index}").into_bytes()).collect();
    keys.extend((0..6).map(|index| format!("{{tag}}{index}").into_bytes()));
    keys.extend((0..4).map(|index| format!("k:{index}:*").into_bytes()));
    keys.extend([vec![], vec![0, 255, 13, 10], b"12345".to_vec(), vec![b'l'; 300]]);
    keys.push(vec![b'v'; 5_000]);
    for (index, key) in [1, 3, 6].into_iter().zip(WAITED) {
        keys.insert(index, key.into());
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_in_the_tables_is_that_of_a_row_or_a_group() {
        let is_known = |name: &str| rows().any(|row| row.name == name || group(row) == name);
        for (name, reason) in LEFT_OUT {
            assert!(is_known(name) && !reason.is_empty(), "{name}");
        }
        for name in RARE.iter().chain(&CONTAINERS) {
            assert!(rows().any(|row| row.name == *name), "{name}");
        }
        assert!(!is_known(NO_NAME));
        for name in WAITING {
            assert!(rows().any(|row| row.name == name), "{name}");
        }
    }

    #[test]
    fn what_comes_rarely_does_come() {
        for name in RARE {
            assert!(candidates().iter().any(|row| row.name == name), "{name} is left out");
        }
    }

    #[test]
    fn no_request_gives_a_key_a_time_that_ends_within_the_epoch() {
        let mut restored = 0;
        for seed in 0..400 {
            let epoch = Epoch::draw(seed, 500, None);
            for request in epoch.steps.iter().map(|step| &step.request) {
                if !request[0].eq_ignore_ascii_case(b"restore") || request.len() < 4 {
                    continue;
                }
                restored += 1;
                let time = str::from_utf8(&request[2]).ok().and_then(|text| text.parse().ok());
                assert!(!time.is_some_and(|time: u64| (1..100_000_000).contains(&time)), "{seed}");
            }
        }
        assert!(restored > 50, "{restored}");
    }
}
