//! The stream of changes: what a write did, in a form that gives the same result wherever and
//! whenever it is applied.
//!
//! An effect never depends on time, chance or the state before it, beyond what the earlier effects
//! made. Encoded, effects are RESP commands: readable by every Redis tool.

use base::{DatabaseIndex, Lsn, UnixMs};

/// What happens to a key's time to live when its value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// The key no longer expires.
    Clear,
    /// The key keeps the time to live that it had, if any.
    Keep,
    /// The key expires at this time, which may have passed already.
    At(UnixMs),
}

/// One change to one database, or to all. Borrows from the request that caused it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect<'a> {
    /// The key holds this string now.
    Set {
        /// The key.
        key: &'a [u8],
        /// The whole new value.
        value: &'a [u8],
        /// What became of the time to live.
        expiry: Expiry,
    },
    /// The string at the key grew by `suffix`.
    Append {
        /// The key.
        key: &'a [u8],
        /// What was added.
        suffix: &'a [u8],
    },
    /// Bytes from `offset` on were overwritten; a gap was filled with zeroes.
    SetRange {
        /// The key.
        key: &'a [u8],
        /// Where the bytes start.
        offset: u64,
        /// What was written; never empty.
        bytes: &'a [u8],
    },
    /// The key is gone: deleted, expired or evicted.
    Delete {
        /// The key.
        key: &'a [u8],
    },
    /// The key expires at this time, which may have passed already.
    ExpireAt {
        /// The key.
        key: &'a [u8],
        /// When.
        at: UnixMs,
    },
    /// A command on one key, with these arguments behind it, that asks neither time nor chance.
    Command {
        /// The name in upper case.
        name: &'a str,
        /// The key.
        key: &'a [u8],
        /// What comes behind the key.
        arguments: &'a [&'a [u8]],
    },
    /// The key no longer expires.
    Persist {
        /// The key.
        key: &'a [u8],
    },
    /// What `source` was, `target` is now, its time to live included, whatever `target` was;
    /// `source` is gone.
    Rename {
        /// The key that was.
        source: &'a [u8],
        /// The key that is.
        target: &'a [u8],
    },
    /// The key is in another database now, its time to live included, whatever it was there.
    Move {
        /// The key.
        key: &'a [u8],
        /// Where it is.
        database: DatabaseIndex,
    },
    /// What `source` is, `target` in `database` is too now, its time to live included, whatever it
    /// was.
    Copy {
        /// The key that stays.
        source: &'a [u8],
        /// The key that is the same now.
        target: &'a [u8],
        /// The database of `target`.
        database: DatabaseIndex,
    },
    /// All keys of the database are gone.
    FlushDatabase,
    /// All keys of all databases are gone.
    FlushAll,
    /// Two databases changed places.
    SwapDatabases {
        /// One.
        a: DatabaseIndex,
        /// The other.
        b: DatabaseIndex,
    },
}

/// Effects that happen together or not at all: those of one command, or of one MULTI.
///
/// Encoded, a record is a sequence of RESP commands that starts in database 0 whatever came
/// before; a SELECT inside holds until the record ends.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    content: Content<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Content<'a> {
    One(DatabaseIndex, Effect<'a>),
    Encoded(&'a [u8]),
}

/// Takes the record of each write, in the order in which writes that touch the same key happened.
pub trait EffectSink: Send + Sync {
    /// Gives `record` the next LSN, keeps what it needs of it, and returns the LSN.
    ///
    /// Called while the shards that the record touches are locked, from any worker, so that LSN
    /// order is conflict order. Must not lock a shard, and should take about as long as a copy.
    fn append(&self, record: &Record<'_>) -> Lsn;
}

impl<'a> Record<'a> {
    /// Returns the record of a single effect.
    pub fn one(database: DatabaseIndex, effect: Effect<'a>) -> Record<'a> {
        Record { content: Content::One(database, effect) }
    }

    /// Returns a record of effects that are encoded already, as [`Record::encode`] leaves them.
    pub fn encoded(bytes: &'a [u8]) -> Record<'a> {
        Record { content: Content::Encoded(bytes) }
    }

    /// Appends the record's bytes to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self.content {
            Content::Encoded(bytes) => out.extend_from_slice(bytes),
            Content::One(database, ref effect) => {
                if database != DatabaseIndex(0) {
                    encode_select(database, out);
                }
                effect.encode(out);
            }
        }
    }
}

/// Appends `SELECT database` to `out`.
pub(crate) fn encode_select(database: DatabaseIndex, out: &mut Vec<u8>) {
    let number = Decimal::new(i64::from(database.0));
    encode(out, b"*2\r\n$6\r\nSELECT", [number.bytes()]);
}

impl Effect<'_> {
    /// Appends the effect as a RESP command to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match *self {
            Effect::Set { key, value, expiry: Expiry::Clear } => {
                encode(out, b"*3\r\n$3\r\nSET", [key, value]);
            }
            Effect::Set { key, value, expiry: Expiry::Keep } => {
                encode(out, b"*4\r\n$3\r\nSET", [key, value, b"KEEPTTL"]);
            }
            Effect::Set { key, value, expiry: Expiry::At(at) } => {
                let at = Decimal::new(at.0);
                encode(out, b"*5\r\n$3\r\nSET", [key, value, b"PXAT", at.bytes()]);
            }
            Effect::Append { key, suffix } => {
                encode(out, b"*3\r\n$6\r\nAPPEND", [key, suffix]);
            }
            Effect::SetRange { key, offset, bytes } => {
                let offset = Decimal::new(offset as i64);
                encode(out, b"*4\r\n$8\r\nSETRANGE", [key, offset.bytes(), bytes]);
            }
            Effect::Delete { key } => encode(out, b"*2\r\n$3\r\nDEL", [key]),
            Effect::ExpireAt { key, at } => {
                let at = Decimal::new(at.0);
                encode(out, b"*3\r\n$9\r\nPEXPIREAT", [key, at.bytes()]);
            }
            Effect::Command { name, key, arguments } => {
                out.push(b'*');
                out.extend_from_slice(Decimal::new(arguments.len() as i64 + 2).bytes());
                for argument in [name.as_bytes(), key].iter().chain(arguments) {
                    push_frame(out, argument.len());
                    out.extend_from_slice(argument);
                }
                out.extend_from_slice(LINE_END);
            }
            Effect::Persist { key } => encode(out, b"*2\r\n$7\r\nPERSIST", [key]),
            Effect::Rename { source, target } => {
                encode(out, b"*3\r\n$6\r\nRENAME", [source, target]);
            }
            Effect::Move { key, database } => {
                let database = Decimal::new(i64::from(database.0));
                encode(out, b"*3\r\n$4\r\nMOVE", [key, database.bytes()]);
            }
            Effect::Copy { source, target, database } => {
                let database = Decimal::new(i64::from(database.0));
                let arguments = [source, target, b"DB", database.bytes(), b"REPLACE"];
                encode(out, b"*6\r\n$4\r\nCOPY", arguments);
            }
            Effect::FlushDatabase => encode(out, b"*1\r\n$7\r\nFLUSHDB", []),
            Effect::FlushAll => encode(out, b"*1\r\n$8\r\nFLUSHALL", []),
            Effect::SwapDatabases { a, b } => {
                let [a, b] = [a, b].map(|index| Decimal::new(i64::from(index.0)));
                encode(out, b"*3\r\n$6\r\nSWAPDB", [a.bytes(), b.bytes()]);
            }
        }
    }
}

/// Appends a command: `head` is its frame and its name, `arguments` follow.
///
/// Every write pays for this where somebody listens, so that only the arguments themselves are
/// copied with a length that the compiler does not know.
#[inline(always)]
fn encode<const COUNT: usize>(out: &mut Vec<u8>, head: &[u8], arguments: [&[u8]; COUNT]) {
    let bytes: usize = arguments.iter().map(|argument| argument.len()).sum();
    out.reserve(head.len() + bytes + (COUNT + 1) * FRAME_BYTES_MAX);
    out.extend_from_slice(head);
    for argument in arguments {
        push_frame(out, argument.len());
        out.extend_from_slice(argument);
    }
    out.extend_from_slice(LINE_END);
}

/// Appends what stands before an argument of `length` bytes: the end of the line before, and the
/// length's own line.
#[inline(always)]
fn push_frame(out: &mut Vec<u8>, length: usize) {
    let digit = |place: usize| b'0' + (length / place % 10) as u8;
    match length {
        0..10 => out.extend_from_slice(&[b'\r', b'\n', b'$', digit(1), b'\r', b'\n']),
        10..100 => out.extend_from_slice(&[b'\r', b'\n', b'$', digit(10), digit(1), b'\r', b'\n']),
        100..1_000 => out.extend_from_slice(&[
            b'\r',
            b'\n',
            b'$',
            digit(100),
            digit(10),
            digit(1),
            b'\r',
            b'\n',
        ]),
        _ => {
            out.extend_from_slice(b"\r\n$");
            out.extend_from_slice(Decimal::new(length as i64).bytes());
            out.extend_from_slice(LINE_END);
        }
    }
}

const LINE_END: &[u8] = b"\r\n";
/// The end of one line, `$`, up to 20 digits, the end of the next line.
const FRAME_BYTES_MAX: usize = 2 + 1 + 20 + 2;

/// A number as decimal text, on the stack.
struct Decimal {
    text: [u8; 20],
    start: usize,
}

impl Decimal {
    fn new(number: i64) -> Decimal {
        let mut text = [0; 20];
        let mut start = text.len();
        let mut rest = number.unsigned_abs();
        loop {
            start -= 1;
            text[start] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        if number < 0 {
            start -= 1;
            text[start] = b'-';
        }
        Decimal { text, start }
    }

    fn bytes(&self) -> &[u8] {
        &self.text[self.start..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(record: Record<'_>) -> String {
        let mut out = Vec::new();
        record.encode(&mut out);
        String::from_utf8(out).expect("the effects of these tests are text").replace("\r\n", " ")
    }

    #[test]
    fn effects_are_resp_commands() {
        let [key, value] = [b"k".as_slice(), b"0123456789".as_slice()];
        for (effect, expected) in [
            (Effect::Set { key, value, expiry: Expiry::Clear }, "*3 $3 SET $1 k $10 0123456789 "),
            (
                Effect::Set { key, value, expiry: Expiry::Keep },
                "*4 $3 SET $1 k $10 0123456789 $7 KEEPTTL ",
            ),
            (
                Effect::Set { key, value: b"", expiry: Expiry::At(UnixMs(-7)) },
                "*5 $3 SET $1 k $0  $4 PXAT $2 -7 ",
            ),
            (Effect::Append { key, suffix: b"x" }, "*3 $6 APPEND $1 k $1 x "),
            (Effect::SetRange { key, offset: 12, bytes: b"x" }, "*4 $8 SETRANGE $1 k $2 12 $1 x "),
            (Effect::Delete { key }, "*2 $3 DEL $1 k "),
            (Effect::ExpireAt { key, at: UnixMs(5) }, "*3 $9 PEXPIREAT $1 k $1 5 "),
            (Effect::Persist { key }, "*2 $7 PERSIST $1 k "),
            (
                Effect::Command { name: "RPUSH", key, arguments: &[value, b"x"] },
                "*4 $5 RPUSH $1 k $10 0123456789 $1 x ",
            ),
            (Effect::Rename { source: key, target: b"l" }, "*3 $6 RENAME $1 k $1 l "),
            (Effect::Move { key, database: DatabaseIndex(12) }, "*3 $4 MOVE $1 k $2 12 "),
            (
                Effect::Copy { source: key, target: b"l", database: DatabaseIndex(3) },
                "*6 $4 COPY $1 k $1 l $2 DB $1 3 $7 REPLACE ",
            ),
            (Effect::FlushDatabase, "*1 $7 FLUSHDB "),
            (Effect::FlushAll, "*1 $8 FLUSHALL "),
            (
                Effect::SwapDatabases { a: DatabaseIndex(0), b: DatabaseIndex(15) },
                "*3 $6 SWAPDB $1 0 $2 15 ",
            ),
        ] {
            assert_eq!(text(Record::one(DatabaseIndex(0), effect)), expected);
        }
    }

    #[test]
    fn record_selects_its_database_unless_it_is_the_first() {
        let effect = Effect::FlushDatabase;
        assert_eq!(
            text(Record::one(DatabaseIndex(11), effect)),
            "*2 $6 SELECT $2 11 *1 $7 FLUSHDB "
        );
    }

    #[test]
    fn argument_of_any_length_has_its_frame() {
        for length in [0, 1, 9, 10, 11, 99, 100, 101, 907, 999, 1_000, 1_001, 123_456] {
            let key = vec![b'k'; length];
            let expected = format!("*2 $3 DEL ${length} {} ", "k".repeat(length));
            assert_eq!(text(Record::one(DatabaseIndex(0), Effect::Delete { key: &key })), expected);
        }
    }

    #[test]
    fn decimal_covers_the_whole_range() {
        for number in [0, 9, 10, -1, i64::MAX, i64::MIN] {
            assert_eq!(Decimal::new(number).bytes(), number.to_string().as_bytes());
        }
    }
}
