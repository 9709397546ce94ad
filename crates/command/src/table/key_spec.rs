//! Which arguments of a command are keys, and what happens to them.

use base::number::parse_i64;
use resp::RequestView;

/// One group of keys: where they are and what the command does with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeySpec {
    /// Where to begin: the position of the first key, or of their count; 0 is the command's name.
    pub first: u8,
    /// How many there are.
    pub extent: Extent,
    /// The distance from one key to the next.
    pub step: u8,
    /// Access and use.
    pub flags: KeyFlags,
    /// What else there is to say.
    pub notes: &'static str,
}

/// How many keys a [`KeySpec`] stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// To the position so far after the first key, or where negative, from the end: -1 is the last
    /// argument.
    To(i8),
    /// As many as the argument at [`KeySpec::first`] says; they begin right behind it.
    Counted,
    /// The one behind the last `word`, which stands anywhere behind [`KeySpec::first`].
    BehindWord {
        /// The word.
        word: &'static str,
        /// Other words, each with how many arguments follow it that are no such word.
        passed: &'static [(&'static str, usize)],
        /// COMMAND INFO tells the word.
        is_shown: bool,
    },
    /// The one at [`KeySpec::first`], unless the options have the word of this list; an empty one
    /// also where no key follows the word.
    OneWithout(KeyList),
    /// All behind the word of this list, where the argument at [`KeySpec::first`] is empty.
    All(KeyList),
    /// The first half of those behind the word of this list, if they are of an even number.
    FirstHalf(KeyList),
    /// Some, whose names are not in the request.
    Unknown,
}

/// Keys that are the last option of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyList {
    /// The word before them.
    pub word: &'static str,
    /// The position of the first option.
    pub options: u8,
    /// Other options, each with how many arguments follow it that are no option.
    pub passed: &'static [(&'static str, usize)],
}

impl KeyList {
    /// Returns the position behind the word.
    fn first(&self, request: RequestView<'_>) -> Option<usize> {
        let mut index = usize::from(self.options);
        while index < request.len() {
            let is = |word: &str| request.at(index).eq_ignore_ascii_case(word.as_bytes());
            if is(self.word) {
                return Some(index + 1);
            }
            let passed = self.passed.iter().find(|(word, _)| is(word));
            index += 1 + passed.map_or(0, |(_, count)| *count);
        }
        None
    }
}

/// What a command does with the keys of a [`KeySpec`], as Redis's key specifications put it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyFlags(u16);

/// The use of a key, for routing, ACL key patterns and invalidation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyUse {
    /// The key is looked at.
    Read,
    /// The value is created or changed.
    Write,
    /// The key is removed, whatever its value.
    Delete,
}

impl KeyFlags {
    /// Reads only.
    pub const RO: KeyFlags = KeyFlags(1 << 0);
    /// Reads and changes the value.
    pub const RW: KeyFlags = KeyFlags(1 << 1);
    /// Overwrites the value without reading it.
    pub const OW: KeyFlags = KeyFlags(1 << 2);
    /// Removes the key.
    pub const RM: KeyFlags = KeyFlags(1 << 3);
    /// Returns data of the value, or lets it be inferred.
    pub const ACCESS: KeyFlags = KeyFlags(1 << 4);
    /// Changes data of the value.
    pub const UPDATE: KeyFlags = KeyFlags(1 << 5);
    /// Adds data to the value.
    pub const INSERT: KeyFlags = KeyFlags(1 << 6);
    /// Removes data, or the key.
    pub const DELETE: KeyFlags = KeyFlags(1 << 7);
    /// The arguments change what happens to the keys.
    pub const VARIABLE_FLAGS: KeyFlags = KeyFlags(1 << 8);
    /// Other arguments may be taken for the word before the keys.
    pub const INCOMPLETE: KeyFlags = KeyFlags(1 << 9);

    const NAMES: [(KeyFlags, &'static str); 10] = [
        (KeyFlags::RO, "RO"),
        (KeyFlags::RW, "RW"),
        (KeyFlags::OW, "OW"),
        (KeyFlags::RM, "RM"),
        (KeyFlags::ACCESS, "access"),
        (KeyFlags::UPDATE, "update"),
        (KeyFlags::INSERT, "insert"),
        (KeyFlags::DELETE, "delete"),
        (KeyFlags::VARIABLE_FLAGS, "variable_flags"),
        (KeyFlags::INCOMPLETE, "incomplete"),
    ];

    /// Returns the flags of both.
    pub const fn with(self, other: KeyFlags) -> KeyFlags {
        KeyFlags(self.0 | other.0)
    }

    /// Returns the flags that are not in `other`.
    pub const fn without(self, other: KeyFlags) -> KeyFlags {
        KeyFlags(self.0 & !other.0)
    }

    /// Returns whether every flag of `other` is here.
    pub const fn contains(self, other: KeyFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the names that COMMAND INFO prints, in its order.
    pub fn names(self) -> impl Iterator<Item = &'static str> + Clone {
        let held = KeyFlags::NAMES.into_iter().filter(move |(flag, _)| self.contains(*flag));
        held.map(|(_, name)| name)
    }
}

impl KeySpec {
    /// The one key at `position`.
    pub const fn at(position: u8, flags: KeyFlags) -> KeySpec {
        KeySpec { first: position, extent: Extent::To(0), step: 1, flags, notes: "" }
    }

    /// All arguments from `position` on.
    pub const fn all_from(position: u8, flags: KeyFlags) -> KeySpec {
        KeySpec { first: position, extent: Extent::To(-1), step: 1, flags, notes: "" }
    }

    /// All arguments from `position` on but the last.
    pub const fn all_but_last_from(position: u8, flags: KeyFlags) -> KeySpec {
        KeySpec { first: position, extent: Extent::To(-2), step: 1, flags, notes: "" }
    }

    /// The keys behind their count, which is the argument at `position`.
    pub const fn counted_at(position: u8, flags: KeyFlags) -> KeySpec {
        KeySpec { first: position, extent: Extent::Counted, step: 1, flags, notes: "" }
    }

    /// As it is, but with `step` from key to key: MSET's keys stand before their values.
    pub const fn step(self, step: u8) -> KeySpec {
        KeySpec { step, ..self }
    }

    /// As it is, with `count` more keys right behind.
    pub const fn followed_by(self, count: i8) -> KeySpec {
        KeySpec { extent: Extent::To(count), ..self }
    }

    /// As it is, with a note.
    pub const fn note(self, notes: &'static str) -> KeySpec {
        KeySpec { notes, ..self }
    }

    /// Returns what happens to the keys.
    pub const fn key_use(&self) -> KeyUse {
        if self.flags.contains(KeyFlags::RO) {
            KeyUse::Read
        } else if self.flags.contains(KeyFlags::RM) {
            KeyUse::Delete
        } else {
            KeyUse::Write
        }
    }

    /// Returns the positions of the keys in `request`: none where their count is no positive number
    /// or that of more arguments than there are.
    #[inline]
    pub fn positions(&self, request: RequestView<'_>) -> impl Iterator<Item = usize> + use<> {
        let (begin, count) = (usize::from(self.first), request.len());
        let (first, end) = match self.extent {
            Extent::To(last @ 0..) => (begin, (begin + last as usize + 1).min(count)),
            Extent::To(last) => (begin, (count + 1).saturating_sub(last.unsigned_abs().into())),
            Extent::Counted => self.counted(request).unwrap_or_default(),
            Extent::BehindWord { word, passed, .. } => {
                behind_word(request, begin + 1, word, passed).unwrap_or_default()
            }
            Extent::OneWithout(list) => match list.first(request) {
                Some(first) if first < count || !request.at(begin).is_empty() => (0, 0),
                _ => (begin, (begin + 1).min(count)),
            },
            Extent::All(list) => match list.first(request) {
                Some(first) if request.at(begin).is_empty() => (first, count),
                _ => (0, 0),
            },
            Extent::FirstHalf(list) => match list.first(request) {
                Some(first) if (count - first).is_multiple_of(2) => {
                    (first, first + (count - first) / 2)
                }
                _ => (0, 0),
            },
            Extent::Unknown => (0, 0),
        };
        (first..end).step_by(usize::from(self.step))
    }

    /// Returns the position of the first key behind a count, and one beyond that of the last.
    fn counted(&self, request: RequestView<'_>) -> Option<(usize, usize)> {
        let at = usize::from(self.first);
        let count = usize::try_from(parse_i64(request.iter().nth(at)?)?).ok()?;
        // A key at least, and each within the request.
        let last = count.checked_sub(1)?.checked_mul(self.step.into())?.checked_add(at + 1)?;
        (last < request.len()).then_some((at + 1, last + 1))
    }
}

/// Returns the position of the key behind the last `word` from position `first` on, and one beyond
/// it.
fn behind_word(
    request: RequestView<'_>,
    first: usize,
    word: &str,
    passed: &[(&str, usize)],
) -> Option<(usize, usize)> {
    let (mut found, mut index) = (None, first);
    while index < request.len() {
        let is = |word: &str| request.at(index).eq_ignore_ascii_case(word.as_bytes());
        let following = match passed.iter().find(|(word, _)| is(word)) {
            Some((_, count)) => *count,
            None if is(word) && index + 1 < request.len() => {
                found = Some((index + 1, index + 2));
                1
            }
            None => 0,
        };
        index += 1 + following;
    }
    found
}

#[cfg(test)]
mod tests {
    use resp::OwnedRequest;

    use super::*;

    fn positions(spec: KeySpec, count: usize) -> Vec<usize> {
        positions_in(spec, &vec!["word"; count].join(" "))
    }

    fn positions_in(spec: KeySpec, words: &str) -> Vec<usize> {
        spec.positions(OwnedRequest::new(words.split(' ').map(str::as_bytes)).view()).collect()
    }

    #[test]
    fn positions_follow_the_specification() {
        assert_eq!(positions(KeySpec::at(1, KeyFlags::RO), 2), [1]);
        assert_eq!(positions(KeySpec::at(1, KeyFlags::RO), 5), [1]);
        assert_eq!(positions(KeySpec::at(2, KeyFlags::RO), 2), []);
        assert_eq!(positions(KeySpec::all_from(1, KeyFlags::RO), 4), [1, 2, 3]);
        assert_eq!(positions(KeySpec::all_from(1, KeyFlags::OW).step(2), 5), [1, 3]);
        assert_eq!(positions(KeySpec::all_from(1, KeyFlags::OW).step(2), 4), [1, 3]);
        assert_eq!(positions(KeySpec::all_from(1, KeyFlags::RO), 1), []);
    }

    #[test]
    fn counted_keys_stand_behind_their_count() {
        let (keys, pairs) = (KeySpec::counted_at(1, KeyFlags::RO), KeySpec::step);
        assert_eq!(positions_in(keys, "zunion 2 a b weights"), [2, 3]);
        assert_eq!(positions_in(keys, "zunion 3 a b c"), [2, 3, 4]);
        assert_eq!(positions_in(pairs(keys, 2), "msetex 2 a 1 b 2"), [2, 4]);
        assert_eq!(positions_in(pairs(keys, 2), "msetex 2 a 1 b"), [2, 4]);
        assert_eq!(positions_in(pairs(keys, 2), "msetex 2 a 1"), []);
    }

    #[test]
    fn a_key_stands_behind_its_last_word() {
        let passed = &[("LIMIT", 2), ("BY", 1)];
        let extent = Extent::BehindWord { word: "STORE", passed, is_shown: false };
        let spec = KeySpec { extent, ..KeySpec::at(1, KeyFlags::OW) };
        for (words, expected) in [
            ("sort k", &[][..]),
            ("sort store a", &[]),
            ("sort k store", &[]),
            ("sort k store a", &[3]),
            ("sort k alpha Store a desc", &[4]),
            ("sort k store a store b", &[5]),
            ("sort k store store", &[3]),
            ("sort k store by store b", &[5]),
            ("sort k by store alpha", &[]),
            ("sort k by store store a", &[5]),
            ("sort k limit store a", &[]),
        ] {
            assert_eq!(positions_in(spec, words), expected, "{words}");
        }
        assert_eq!(positions_in(KeySpec { extent: Extent::Unknown, ..spec }, "sort k by *"), []);
    }

    #[test]
    fn a_list_of_keys_takes_the_place_of_the_one() {
        let list = KeyList { word: "KEYS", options: 4, passed: &[("AUTH", 1)] };
        let one = KeySpec { extent: Extent::OneWithout(list), ..KeySpec::at(2, KeyFlags::RW) };
        let all = KeySpec { extent: Extent::All(list), ..one };
        for (words, of_one, of_all) in [
            ("m host k db", &[2][..], &[][..]),
            ("m host  db", &[2], &[]),
            ("m host  db keys a b", &[], &[5, 6]),
            ("m host k db keys a b", &[], &[]),
            ("m host  db auth keys copy", &[2], &[]),
            ("m host  db auth keys KEYS keys a", &[], &[7, 8]),
            ("m host  db other keys", &[2], &[]),
            ("m host k db other keys", &[], &[]),
            ("m host", &[], &[]),
        ] {
            assert_eq!(positions_in(one, words), of_one, "{words}");
            assert_eq!(positions_in(all, words), of_all, "{words}");
        }
    }

    #[test]
    fn half_of_a_list_are_keys() {
        let list = KeyList { word: "STREAMS", options: 1, passed: &[("COUNT", 1), ("GROUP", 2)] };
        let spec = KeySpec { extent: Extent::FirstHalf(list), ..KeySpec::at(1, KeyFlags::RO) };
        for (words, expected) in [
            ("xread streams a 0", &[2][..]),
            ("xread count 1 streams a b 0 0", &[4, 5]),
            ("xread count streams streams a 0", &[4]),
            ("xread group streams b noack Streams a 0", &[6]),
            ("xread streams a b 0", &[]),
            ("xread streams", &[]),
            ("xread count 1", &[]),
        ] {
            assert_eq!(positions_in(spec, words), expected, "{words}");
        }
    }

    #[test]
    fn a_count_that_makes_no_sense_counts_no_keys() {
        let max = i64::MAX.to_string();
        for count in ["0", "-1", "x", "1x", "01", "4", "9223372036854775808", &max] {
            for step in [1, 2, 255] {
                let spec = KeySpec::counted_at(1, KeyFlags::RO).step(step);
                assert_eq!(positions_in(spec, &format!("zunion {count} a b c")), [], "{count}");
            }
        }
        assert_eq!(positions_in(KeySpec::counted_at(1, KeyFlags::RO), "zunion"), []);
    }
}
