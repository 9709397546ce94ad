//! What is in each kind of key. A version says how many parts belong to it, and each part says its
//! version.

/// The databases that are read: that of most kinds, one that is flushed, two that are swapped.
pub const DATABASES: [u8; 4] = [0, 1, 2, 3];
/// The database that is flushed.
pub const FLUSHED: u8 = 1;
/// The databases that are swapped.
pub const SWAPPED: [u8; 2] = [2, 3];

/// What a key is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A hash of one version.
    Hash,
    /// The same, until the time that its version is.
    Expiring,
    /// The same, which may be evicted.
    Volatile,
    /// The same, in the database that is flushed.
    Flushed,
    /// The same, in the databases that are swapped; the version says which of both it is.
    Swapped,
    /// A sorted set all of whose scores are one version.
    SortedSet,
    /// A list of numbers one after the other.
    Window,
    /// A list of the same numbers always, which is turned.
    Ring,
    /// A set of integers, one of each two.
    Integers,
    /// A set of texts, one of each two.
    Texts,
    /// A hash that comes where another one has just been; its version says which of them it is.
    Blinking,
}

impl Kind {
    /// Every kind, and how often it is read and changed.
    pub const ALL: [(Kind, u64); 11] = [
        (Kind::Hash, 4),
        (Kind::Expiring, 1),
        (Kind::Volatile, 1),
        (Kind::Flushed, 1),
        (Kind::Swapped, 1),
        (Kind::SortedSet, 3),
        (Kind::Window, 2),
        (Kind::Ring, 1),
        (Kind::Integers, 2),
        (Kind::Texts, 2),
        (Kind::Blinking, 3),
    ];

    /// Returns the kind that `random`, a number below the sum of all weights, stands for.
    pub fn of(mut random: u64) -> Kind {
        for (kind, weight) in Kind::ALL {
            if random < weight {
                return kind;
            }
            random -= weight;
        }
        unreachable!("the weights add up")
    }

    /// The sum of all weights.
    pub const WEIGHTS: u64 = {
        let (mut sum, mut index) = (0, 0);
        while index < Kind::ALL.len() {
            sum += Kind::ALL[index].1;
            index += 1;
        }
        sum
    };

    /// Returns whether its keys may be absent.
    pub fn may_be_absent(self) -> bool {
        matches!(self, Kind::Expiring | Kind::Volatile | Kind::Flushed | Kind::Blinking)
    }
}

/// Keys of each kind that each writer has.
pub const KEYS: u64 = 5;

/// Returns the key `index` of `writer`. Those of one index share a shard, and with it its memory;
/// all that blink share one that no transaction holds.
pub fn key(kind: Kind, writer: u64, index: u64) -> String {
    match kind {
        Kind::Blinking => format!("{{blinking:{writer}}}{index}"),
        _ => format!("{{{writer}:{index}}}{kind:?}"),
    }
}

/// How many parts a version may have beside those that each has.
pub const EXTRAS: [u64; 8] = [0, 1, 3, 8, 20, 50, 150, 600];

/// Returns the version that follows from `count`, for the side of a swap that it is on.
pub fn version(count: u64, side: u64, extras_index: u64) -> u64 {
    count << 4 | side << 3 | extras_index
}

/// Returns how many parts beside the fixed ones a version has.
pub fn extras(version: u64) -> u64 {
    EXTRAS[(version & 7) as usize]
}

/// Returns the side of a swap that a version is of.
pub fn side(version: u64) -> u64 {
    version >> 3 & 1
}

/// Fields that each hash has, and members that each sorted set has.
pub const FIXED: u64 = 4;

/// Returns the name of field or member `index`: the fixed ones come first, in order.
pub fn part_name(index: u64) -> String {
    match index {
        0..FIXED => {
            format!("{}{}", "abcd".as_bytes()[index as usize] as char, "n".repeat(index as usize))
        }
        _ => format!("x{index:04}"),
    }
}

/// Returns the value of field `index` in a hash of `version`: the first is a number, others have
/// lengths that stay for some versions and then change.
pub fn field_value(version: u64, index: u64) -> Vec<u8> {
    let mut value = version.to_string().into_bytes();
    if index > 0 {
        let letter = b'a' + ((version + index) % 26) as u8;
        let length = value.len() as u64 + 1 + ((version >> 7) * 7 + index * 13) % 30;
        value.push(b':');
        value.resize(length as usize, letter);
    }
    value
}

/// Returns the version that `value`, that of field `index`, is of.
///
/// # Errors
/// When it is not wholly of one version.
pub fn version_of(value: &[u8], index: u64) -> Result<u64, String> {
    let digits = value.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let text = str::from_utf8(&value[..digits]).expect("digits are text");
    let version = text.parse().map_err(|_| format!("no version: {}", value.escape_ascii()))?;
    if field_value(version, index) != value {
        return Err(format!("torn: {} is not of field {index}", value.escape_ascii()));
    }
    Ok(version)
}

/// Lengths of lists that are windows.
pub const WINDOWS: [u64; 5] = [4, 10, 40, 300, 3000];
/// The numbers in a list that is turned.
pub const RING: u64 = 12;

/// Returns the element `number` of the list with the index `key`: an integer, or a text.
pub fn element(key: u64, number: u64) -> Vec<u8> {
    match key % 2 {
        0 => number.to_string().into_bytes(),
        _ => format!("{number}:{}", "l".repeat((number % 11) as usize)).into_bytes(),
    }
}

/// Returns the number of an element.
///
/// # Errors
/// When it is none of the list with the index `key`.
pub fn number_of(key: u64, bytes: &[u8]) -> Result<u64, String> {
    let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let number = str::from_utf8(&bytes[..digits]).expect("digits are text").parse();
    number
        .ok()
        .filter(|number| element(key, *number) == bytes)
        .ok_or_else(|| format!("no element: {}", bytes.escape_ascii()))
}

/// Pairs of members, of each of which a set has one.
pub const PAIRS: u64 = 12;

/// Returns a member of the set with the index `key`: one of the pair `pair`.
pub fn member(kind: Kind, key: u64, pair: u64, which: u64) -> Vec<u8> {
    let number = 2 * pair + which;
    match kind {
        // Integers of each width of an intset.
        Kind::Integers => {
            let scale = [1, 1, 2000, 100_000, 1 << 40][(key % 5) as usize];
            (number * scale).to_string().into_bytes()
        }
        _ => format!("{number}{}", "t".repeat((pair + key) as usize % 7)).into_bytes(),
    }
}
