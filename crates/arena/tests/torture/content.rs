//! Values whose bytes say which key, version and length they have, down to the last byte, so that a
//! torn or a foreign one shows.

/// What a key is used for; the reader knows what to expect of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Small, overwritten all the time, in place or not.
    Hot,
    /// Now small, now large.
    Cross,
    /// Large, replaced.
    Large,
    /// Grows by APPEND, small and large.
    Grown,
    /// Overwritten in place over its whole length, small and large.
    Written,
    /// Comes and goes.
    Gone,
    /// Comes and goes all the time, each time where another one has just been.
    Blinking,
    /// Has a time to live, now and then.
    Lasting,
    /// Changed in two steps inside MULTI; nobody may see the first.
    Paired,
    /// Lives in the two databases that are swapped.
    Swapped,
    /// Lives in the database that grows and is flushed.
    Flushed,
    /// A row of keys in two databases: the value of one goes on to the next, in place of what that
    /// had, or a copy of it does. Only the first gets new values, so that versions never go back at
    /// any, and only the last always has one.
    Passed,
}

/// Each kind, how many keys it has, and in how many of a hundred reads it is asked for.
pub const KINDS: [(Kind, u64, u64); 12] = [
    (Kind::Hot, 24, 18),
    (Kind::Cross, 10, 10),
    (Kind::Large, 10, 8),
    (Kind::Grown, 6, 5),
    (Kind::Written, 12, 8),
    (Kind::Gone, 1500, 7),
    (Kind::Blinking, 6, 10),
    (Kind::Lasting, 8, 5),
    (Kind::Paired, 6, 7),
    (Kind::Swapped, 40, 10),
    (Kind::Flushed, 0, 12),
    (Kind::Passed, 8, 12),
];

/// The database that holds the keys of every kind but the last three.
pub const DATABASE: u8 = 0;
/// The databases that are swapped.
pub const SWAPPED: [u8; 2] = [1, 2];
/// The database that is flushed.
pub const FLUSHED: u8 = 3;
/// The database to which values of the first one move, and from which they come back.
pub const MOVED: u8 = 4;
/// Added to a version to make a time far in the future.
pub const EXPIRY_BASE: i64 = 1 << 50;
/// The mark of a value that MULTI has not committed.
pub const UNCOMMITTED: u64 = u64::MAX;

/// Returns the number of the key, which its values carry.
pub fn id(kind: Kind, index: u64) -> u64 {
    (kind as u64) << 32 | index
}

/// Returns the database of a key that values are passed to: two there, two elsewhere, so that half
/// of them change their database.
pub fn database_of_passed(index: u64) -> u8 {
    if index % 4 < 2 { DATABASE } else { MOVED }
}

/// Returns the key: names of many lengths, so that values begin at every alignment.
pub fn name(kind: Kind, index: u64, name: &mut Vec<u8>) {
    use std::io::Write;
    name.clear();
    write!(name, "{kind:?}:{index}").expect("a vector takes all");
    let length = name.len() + (index % 13) as usize;
    name.resize(length, b'.');
}

/// What a value says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    pub key: u64,
    pub version: u64,
    /// Meaning depends on the kind: the side of a swap, the generation between two flushes.
    pub mark: u64,
    pub length: u64,
}

/// The bytes of a stamp: no value is shorter.
pub const STAMP_BYTES: u64 = 32;

impl Stamp {
    /// Writes the value: the stamp, then words that follow from it.
    pub fn write(self, value: &mut Vec<u8>) {
        value.clear();
        for word in [self.key, self.version, self.mark, self.length] {
            value.extend_from_slice(&word.to_le_bytes());
        }
        let base = base_of(self.key, self.version);
        let count = (self.length - STAMP_BYTES).div_ceil(8);
        for index in 0..count {
            value.extend_from_slice(&pattern(base, index).to_le_bytes());
        }
        value.truncate(self.length as usize);
    }

    /// Returns what `value` says, if all of it agrees.
    pub fn read(value: &[u8]) -> Result<Stamp, String> {
        let stamp = Stamp::head(value)?;
        if stamp.length != value.len() as u64 {
            return Err(format!("{} bytes of {stamp:?}", value.len()));
        }
        let base = base_of(stamp.key, stamp.version);
        let mut words = value[STAMP_BYTES as usize..].chunks_exact(8);
        for (index, word) in (0_u64..).zip(&mut words) {
            if word != pattern(base, index).to_le_bytes() {
                return Err(format!("torn at word {index}: {stamp:?}"));
            }
        }
        let index = (stamp.length - STAMP_BYTES) / 8;
        let tail = words.remainder();
        if *tail != pattern(base, index).to_le_bytes()[..tail.len()] {
            return Err(format!("torn at its end: {stamp:?}"));
        }
        Ok(stamp)
    }

    /// Returns what the first bytes say.
    pub fn head(value: &[u8]) -> Result<Stamp, String> {
        if (value.len() as u64) < STAMP_BYTES {
            return Err(format!("only {} bytes", value.len()));
        }
        let word = |index: usize| {
            let bytes = value[8 * index..8 * index + 8].try_into().expect("eight bytes");
            u64::from_le_bytes(bytes)
        };
        Ok(Stamp { key: word(0), version: word(1), mark: word(2), length: word(3) })
    }
}

/// A value that grows: the key, the round, then words that follow from both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Growth {
    pub round: u64,
    pub words: u64,
}

impl Growth {
    /// Appends the words from `from` up to `self.words` to `value`.
    pub fn write(self, key: u64, from: u64, value: &mut Vec<u8>) {
        let base = base_of(key, self.round);
        for index in from..self.words {
            let word = match index {
                0 => key,
                1 => self.round,
                _ => pattern(base, index),
            };
            value.extend_from_slice(&word.to_le_bytes());
        }
    }

    /// Returns the round and the length of `value`, if all of it belongs to `key` and the round.
    pub fn read(key: u64, value: &[u8]) -> Result<Growth, String> {
        let words = value.len() as u64 / 8;
        if words < 2 || !value.len().is_multiple_of(8) {
            return Err(format!("{} bytes", value.len()));
        }
        let round = u64::from_le_bytes(value[8..16].try_into().expect("eight bytes"));
        let base = base_of(key, round);
        for (index, word) in (0_u64..).zip(value.chunks_exact(8)) {
            let expected = match index {
                0 => key,
                1 => round,
                _ => pattern(base, index),
            };
            if word != expected.to_le_bytes() {
                return Err(format!("torn at word {index} of {words}, round {round}"));
            }
        }
        Ok(Growth { round, words })
    }
}

fn base_of(key: u64, version: u64) -> u64 {
    let mixed =
        key.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ version.wrapping_mul(0xD6E8_FEB8_6659_FD93);
    mixed ^ mixed >> 29
}

fn pattern(base: u64, index: u64) -> u64 {
    base.wrapping_add(index.wrapping_mul(0xA076_1D64_78BD_642F))
}
