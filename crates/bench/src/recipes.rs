//! The rows of the tables `commands` and `instructions`: for each command, the requests that a load
//! repeats.
//!
//! A request is written as one types it. A word that ends in `*` is a key: four bytes of a prefix,
//! and the number of a key instead of the star; a star alone is itself. `key:*` are the keys that a
//! comparison loads, with values like that of the word `VALUE`; `VALUE:1000` is a value of 1,000
//! bytes; `big:1`, `big:2` and the others without a star are those of [`Fixture`].
//!
//! The word `MIDDLE` is half the number of keys, which is the middle of a collection that has one
//! part for each key; `MIDDLE:9` is 9 more.
//!
//! A recipe of several requests is a cycle: a connection sends them in turn, all for one key, which
//! no other connection uses. So a command that deletes its key has one to delete.

mod collections;
mod hyperloglogs;

use crate::workload::Due;

pub use collections::{COLLECTIONS, FILLS, LARGE_COLLECTIONS, STREAM_READS, STREAMS};
pub use hyperloglogs::{HYPERLOGLOGS, UNION_COUNTS, UNIONS};

/// What a load repeats.
#[derive(Debug, PartialEq, Eq)]
pub struct Recipe {
    /// The name in tables; unique.
    pub name: &'static str,
    /// What is sent in turn.
    pub steps: &'static [Step],
    /// Whether all keys of the steps have one number, which no other connection has meanwhile; else
    /// each has a number of its own.
    pub is_cycle: bool,
}

/// A request and the reply that it is due.
pub type Step = (&'static str, Due);

const OK: Due = Due::Marker(b'+');
const NUMBER: Due = Due::Marker(b':');
const BULK: Due = Due::Marker(b'$');
const ARRAY: Due = Due::Marker(b'*');

const fn one(name: &'static str, step: &'static [Step; 1]) -> Recipe {
    Recipe { name, steps: step, is_cycle: false }
}

const fn cycle(name: &'static str, steps: &'static [Step]) -> Recipe {
    Recipe { name, steps, is_cycle: true }
}

/// Commands on values of usual size.
pub static SMALL: &[Recipe] = &[
    one("GETSET", &[("GETSET key:* VALUE", BULK)]),
    cycle("SET, GETDEL", &[("SET own:* VALUE", OK), ("GETDEL own:*", BULK)]),
    one("GETEX", &[("GETEX key:*", BULK)]),
    one("GETEX EX", &[("GETEX exp:* EX 1000", BULK)]),
    one("SETEX", &[("SETEX exp:* 1000 VALUE", OK)]),
    one("PSETEX", &[("PSETEX exp:* 1000000 VALUE", OK)]),
    one("SET EX", &[("SET exp:* VALUE EX 1000", OK)]),
    one("SET NX", &[("SET key:* VALUE NX", BULK)]),
    one("SET XX GET", &[("SET key:* VALUE XX GET", BULK)]),
    one("SETNX", &[("SETNX key:* VALUE", NUMBER)]),
    one("MSETNX", &[("MSETNX key:* VALUE key:* VALUE", NUMBER)]),
    one("APPEND", &[("APPEND app:* 12345678", NUMBER)]),
    one("STRLEN", &[("STRLEN key:*", NUMBER)]),
    one("DECR", &[("DECR ctr:*", NUMBER)]),
    one("INCRBY", &[("INCRBY ctr:* 7", NUMBER)]),
    one("DECRBY", &[("DECRBY ctr:* 7", NUMBER)]),
    one("INCRBYFLOAT", &[("INCRBYFLOAT flt:* 1.5", BULK)]),
    one("SETRANGE", &[("SETRANGE key:* 8 xxxxxxxx", NUMBER)]),
    one("GETRANGE", &[("GETRANGE key:* 8 15", BULK)]),
    one("SUBSTR", &[("SUBSTR key:* 8 15", BULK)]),
    one("LCS", &[("LCS key:* key:*", BULK)]),
    one("LCS LEN", &[("LCS key:* key:* LEN", NUMBER)]),
    one("SETBIT", &[("SETBIT bit:* 77 1", NUMBER)]),
    one("GETBIT", &[("GETBIT key:* 77", NUMBER)]),
    one("BITCOUNT", &[("BITCOUNT key:*", NUMBER)]),
    one("BITPOS", &[("BITPOS key:* 1", NUMBER)]),
    one("BITOP AND", &[("BITOP AND dst:* key:* key:*", NUMBER)]),
    one("BITOP NOT", &[("BITOP NOT dst:* key:*", NUMBER)]),
    one("BITFIELD", &[("BITFIELD bit:* INCRBY u8 0 1 GET u4 16", ARRAY)]),
    one("BITFIELD_RO", &[("BITFIELD_RO key:* GET u8 8", ARRAY)]),
    cycle("SET, DEL", &[("SET own:* VALUE", OK), ("DEL own:*", NUMBER)]),
    cycle("SET, UNLINK", &[("SET own:* VALUE", OK), ("UNLINK own:*", NUMBER)]),
    one("EXISTS", &[("EXISTS key:*", NUMBER)]),
    one("TOUCH", &[("TOUCH key:*", NUMBER)]),
    one("TYPE", &[("TYPE key:*", OK)]),
    one("TTL", &[("TTL key:*", NUMBER)]),
    one("PTTL", &[("PTTL key:*", NUMBER)]),
    one("EXPIRETIME", &[("EXPIRETIME key:*", NUMBER)]),
    cycle("EXPIRE, PERSIST", &[("EXPIRE key:* 1000", NUMBER), ("PERSIST key:*", NUMBER)]),
    cycle("PEXPIRE, PERSIST", &[("PEXPIRE key:* 1000000", NUMBER), ("PERSIST key:*", NUMBER)]),
    cycle("EXPIREAT, PERSIST", &[("EXPIREAT key:* 4000000000", NUMBER), ("PERSIST key:*", NUMBER)]),
    cycle(
        "RENAME",
        &[
            ("SET own:* VALUE", OK),
            ("RENAME own:* ren:*", OK),
            ("RENAME ren:* own:*", OK),
            ("RENAME own:* ren:*", OK),
            ("RENAME ren:* own:*", OK),
        ],
    ),
    cycle(
        "RENAMENX",
        &[
            ("DEL ren:*", NUMBER),
            ("SET own:* VALUE", OK),
            ("RENAMENX own:* ren:*", NUMBER),
            ("RENAMENX ren:* own:*", NUMBER),
        ],
    ),
    one("COPY", &[("COPY key:* cpy:* REPLACE", NUMBER)]),
    cycle(
        "MOVE",
        &[
            ("SET own:* VALUE", OK),
            ("MOVE own:* 1", NUMBER),
            ("SELECT 1", OK),
            ("MOVE own:* 0", NUMBER),
            ("SELECT 0", OK),
        ],
    ),
    cycle(
        "RPUSH, LMOVE, LPOS, LMPOP",
        &[
            ("RPUSH one:* VALUE", NUMBER),
            ("LMOVE one:* two:* LEFT RIGHT", BULK),
            ("LPOS two:* VALUE", NUMBER),
            ("LMPOP 1 two:* RIGHT", ARRAY),
        ],
    ),
    one("OBJECT ENCODING", &[("OBJECT ENCODING key:*", BULK)]),
    one("OBJECT REFCOUNT", &[("OBJECT REFCOUNT key:*", NUMBER)]),
    one("MEMORY USAGE", &[("MEMORY USAGE key:*", NUMBER)]),
    one("RANDOMKEY", &[("RANDOMKEY", BULK)]),
    one("SCAN", &[("SCAN 0 COUNT 10", ARRAY)]),
    one("DBSIZE", &[("DBSIZE", NUMBER)]),
    one("ECHO", &[("ECHO VALUE", BULK)]),
    one("SELECT", &[("SELECT 0", OK)]),
    one("TIME", &[("TIME", ARRAY)]),
    one("CLIENT ID", &[("CLIENT ID", NUMBER)]),
    one("CLIENT SETNAME", &[("CLIENT SETNAME somebody", OK)]),
    one("COMMAND COUNT", &[("COMMAND COUNT", NUMBER)]),
    one("CONFIG GET", &[("CONFIG GET maxmemory", ARRAY)]),
    cycle("WATCH, UNWATCH", &[("WATCH key:*", OK), ("UNWATCH", OK)]),
    cycle("MULTI, DISCARD", &[("MULTI", OK), ("DISCARD", OK)]),
    cycle("MULTI, GET, EXEC", &[("MULTI", OK), ("GET key:*", OK), ("EXEC", ARRAY)]),
    cycle("MULTI, SET, EXEC", &[("MULTI", OK), ("SET key:* VALUE", OK), ("EXEC", ARRAY)]),
];

/// What the table of instructions has and the others have not: those that are counted without
/// another to make good what they did.
pub static COUNTED: &[Recipe] =
    &[one("EXPIRE", &[("EXPIRE key:* 1000", NUMBER)]), one("DEL", &[("DEL key:*", NUMBER)])];

/// Commands on values of a mebibyte, and LCS on what its table of lengths allows: Redis keeps all
/// of it, four bytes for each pair of bytes and at most 512 MiB.
pub static LARGE: &[Recipe] = &[
    one("SET 64 KiB", &[("SET target VALUE:65536", OK)]),
    one("SET 1 MiB", &[("SET target VALUE:1048576", OK)]),
    one("SET 4 MiB", &[("SET target VALUE:4194304", OK)]),
    one("BITCOUNT 1 MiB", &[("BITCOUNT big:1", NUMBER)]),
    one("BITCOUNT 1 MiB, odd range", &[("BITCOUNT big:1 3 -5 BIT", NUMBER)]),
    one("BITPOS 0 in 1 MiB", &[("BITPOS ones:1 0", NUMBER)]),
    one("BITPOS 1 in 1 MiB", &[("BITPOS zero:1 1", NUMBER)]),
    one("BITOP AND 1 MiB", &[("BITOP AND target big:1 big:2", NUMBER)]),
    one("BITOP OR 1 MiB", &[("BITOP OR target big:1 big:2", NUMBER)]),
    one("BITOP XOR 1 MiB", &[("BITOP XOR target big:1 big:2 big:3", NUMBER)]),
    one("BITOP NOT 1 MiB", &[("BITOP NOT target big:1", NUMBER)]),
    one("LCS 4 KiB, 4 KiB", &[("LCS page:1 page:2", BULK)]),
    one("LCS 4 KiB, 4 KiB LEN", &[("LCS page:1 page:2 LEN", NUMBER)]),
    one("LCS 4 KiB, 4 KiB IDX", &[("LCS page:1 page:2 IDX", ARRAY)]),
    one("LCS 1 MiB, 16 B", &[("LCS big:1 line:1", BULK)]),
    one("LCS 1 MiB, 16 B LEN", &[("LCS big:1 line:1 LEN", NUMBER)]),
    one("LCS 1 MiB, 16 B IDX", &[("LCS line:1 big:1 IDX", ARRAY)]),
];

/// A key that [`LARGE`] or another list names.
#[derive(Clone, Copy, Debug)]
pub struct Fixture {
    pub key: &'static str,
    pub content: Content,
}

/// What a fixture holds.
#[derive(Clone, Copy, Debug)]
pub enum Content {
    /// So many random letters of an alphabet of 26.
    Letters(usize),
    /// So many of the one byte.
    Same(usize, u8),
    /// A set of so many members: the text, and numbers from `first` on.
    Members { text: &'static str, first: usize, count: usize },
    /// A list of so many elements, numbered from 0 on.
    Elements(usize),
    /// A list of so many random numbers.
    Numbers(usize),
    /// A hash of so many fields, numbered from 0 on.
    Fields(usize),
    /// A sorted set of so many members, numbered from `first` on, with scores in another order.
    Ranked { first: usize, count: usize },
    /// A sorted set of so many places in and around a city.
    Places(usize),
    /// A stream of so many entries of three short fields.
    Entries { count: usize },
    /// A HyperLogLog of so many elements, numbered from `first` on.
    Counted { first: usize, count: usize },
}

const MEBIBYTE: usize = 1 << 20;

const fn members(key: &'static str, text: &'static str, (first, count): (usize, usize)) -> Fixture {
    Fixture { key, content: Content::Members { text, first, count } }
}

/// The keys that [`LARGE`] and others name.
pub const FIXTURES: [Fixture; 26] = [
    Fixture { key: "big:1", content: Content::Letters(MEBIBYTE) },
    Fixture { key: "big:2", content: Content::Letters(MEBIBYTE) },
    Fixture { key: "big:3", content: Content::Letters(MEBIBYTE - 4321) },
    Fixture { key: "zero:1", content: Content::Same(MEBIBYTE, 0x00) },
    Fixture { key: "ones:1", content: Content::Same(MEBIBYTE, 0xff) },
    Fixture { key: "page:1", content: Content::Letters(4096) },
    Fixture { key: "page:2", content: Content::Letters(4096) },
    Fixture { key: "line:1", content: Content::Letters(16) },
    Fixture { key: "row:1", content: Content::Elements(600) },
    Fixture { key: "nums:1", content: Content::Numbers(1_000) },
    Fixture { key: "dict:1", content: Content::Fields(50) },
    Fixture { key: "dict:2", content: Content::Fields(1_000) },
    members("set:1", "member:", (0, 1_000)),
    members("set:2", "member:", (500, 1_000)),
    members("few:1", "member:", (0, 100)),
    members("few:2", "member:", (50, 100)),
    members("int:1", "", (1_000, 500)),
    members("int:2", "", (1_250, 500)),
    Fixture { key: "rank:1", content: Content::Ranked { first: 0, count: 1_000 } },
    Fixture { key: "rank:2", content: Content::Ranked { first: 500, count: 1_000 } },
    Fixture { key: "map:1", content: Content::Places(10_000) },
    Fixture { key: "log:1", content: Content::Entries { count: 1_000 } },
    Fixture { key: "uni:1", content: Content::Counted { first: 0, count: 50_000 } },
    Fixture { key: "uni:2", content: Content::Counted { first: 25_000, count: 50_000 } },
    Fixture { key: "uni:3", content: Content::Counted { first: 50_000, count: 50_000 } },
    Fixture { key: "few:3", content: Content::Counted { first: 0, count: 1_000 } },
];

impl Fixture {
    /// Returns the requests that make the key: the same in every run.
    pub fn requests(&self) -> Vec<Vec<Vec<u8>>> {
        let entry = |number: usize| {
            let line = format!("XADD {} {number}-0 kind click place oslo count {number}", self.key);
            line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
        };
        match self.content {
            Content::Entries { count } => (1..=count).map(entry).collect(),
            _ => vec![self.request()],
        }
    }

    fn request(&self) -> Vec<Vec<u8>> {
        let seed = self.key.bytes().fold(0, |seed, byte| seed << 8 | u64::from(byte));
        let mut prng = base::prng::Prng::new(seed);
        let (command, parts): (&str, Vec<Vec<u8>>) = match self.content {
            Content::Same(bytes, byte) => ("SET", vec![vec![byte; bytes]]),
            Content::Letters(bytes) => {
                ("SET", vec![(0..bytes).map(|_| b'a' + prng.below(26) as u8).collect()])
            }
            Content::Members { text, first, count } => {
                let members = (first..first + count).map(|number| format!("{text}{number}"));
                ("SADD", members.map(String::into_bytes).collect())
            }
            Content::Elements(count) => {
                let elements = (0..count).map(|number| format!("element:{number:06}"));
                ("RPUSH", elements.map(String::into_bytes).collect())
            }
            Content::Numbers(count) => {
                let numbers = (0..count).map(|_| prng.below(1_000_000).to_string());
                ("RPUSH", numbers.map(String::into_bytes).collect())
            }
            Content::Fields(count) => {
                let pairs = (0..count)
                    .flat_map(|number| [format!("field:{number}"), format!("value:{number:06}")]);
                ("HSET", pairs.map(String::into_bytes).collect())
            }
            Content::Ranked { first, count } => {
                let pairs = (first..first + count).flat_map(|number| {
                    [prng.below(1_000_000).to_string(), format!("member:{number:06}")]
                });
                ("ZADD", pairs.map(String::into_bytes).collect())
            }
            Content::Places(count) => {
                let places = (0..count).flat_map(|number| {
                    let longitude = format!("{:.6}", 13.0 + prng.below(800_000) as f64 / 1e6);
                    let latitude = format!("{:.6}", 52.3 + prng.below(400_000) as f64 / 1e6);
                    [longitude, latitude, format!("place:{number:06}")]
                });
                ("GEOADD", places.map(String::into_bytes).collect())
            }
            Content::Counted { first, count } => {
                let elements = (first..first + count).map(|number| format!("element:{number}"));
                ("PFADD", elements.map(String::into_bytes).collect())
            }
            Content::Entries { .. } => unreachable!("each entry has a request of its own"),
        };
        [command.into(), self.key.into()].into_iter().chain(parts).collect()
    }
}

/// Returns the recipe whose name is `text` in any case, with dashes for what is not a letter.
pub fn named(text: &str) -> Option<&'static Recipe> {
    all().find(|recipe| slug(recipe.name) == text.to_ascii_lowercase())
}

/// Returns all recipes but those of [`FILLS`].
pub fn all() -> impl Iterator<Item = &'static Recipe> {
    let small = [SMALL, COLLECTIONS, STREAMS, STREAM_READS, HYPERLOGLOGS, UNION_COUNTS, UNIONS];
    small.into_iter().chain([LARGE, LARGE_COLLECTIONS, COUNTED]).flatten()
}

fn slug(name: &str) -> String {
    let words = name.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    words.join("-").to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recipes_have_names_of_their_own_and_are_found_by_them() {
        for recipe in all() {
            assert!(std::ptr::eq(named(&slug(recipe.name)).unwrap(), recipe), "{}", recipe.name);
        }
        assert!(named("no-such-row").is_none());
    }

    #[test]
    fn keys_without_a_star_are_fixtures_or_targets() {
        let is_known =
            |word: &str| word == "target" || FIXTURES.iter().any(|known| known.key == word);
        let lists = [LARGE, LARGE_COLLECTIONS, STREAM_READS, UNION_COUNTS, UNIONS];
        for (request, _) in lists.into_iter().flatten().flat_map(|recipe| recipe.steps) {
            let command = request.split(' ').next().unwrap();
            let has_word_first =
                ["BITOP", "SINTERCARD", "XREAD", "ZUNION", "ZINTER", "ZDIFF", "ZINTERCARD"];
            let first = if has_word_first.contains(&command) { 2 } else { 1 };
            assert!(is_known(request.split(' ').nth(first).unwrap()), "{request}");
        }
        for fixture in FIXTURES {
            let requests = fixture.requests();
            let request = &requests[0];
            let (found, expected) = match fixture.content {
                Content::Entries { count } => (requests.len(), count),
                Content::Letters(bytes) | Content::Same(bytes, _) => (request[2].len(), bytes),
                Content::Members { count, .. }
                | Content::Elements(count)
                | Content::Numbers(count)
                | Content::Counted { count, .. } => (request.len() - 2, count),
                Content::Fields(count) | Content::Ranked { count, .. } => {
                    ((request.len() - 2) / 2, count)
                }
                Content::Places(count) => ((request.len() - 2) / 3, count),
            };
            assert_eq!(found, expected, "{}", fixture.key);
        }
    }
}
