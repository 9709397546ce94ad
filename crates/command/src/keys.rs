//! Which arguments of a command are keys, and what happens to them.

/// One group of keys: where they are and what the command does with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeySpec {
    /// The position of the first key; 0 is the command's name.
    pub first: u8,
    /// The last key: positions after `first`, or where negative, from the end (-1 is the last).
    pub last: i8,
    /// The distance from one key to the next.
    pub step: u8,
    /// Access and use.
    pub flags: KeyFlags,
    /// What else there is to say.
    pub notes: &'static str,
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

    const NAMES: [(KeyFlags, &'static str); 9] = [
        (KeyFlags::RO, "RO"),
        (KeyFlags::RW, "RW"),
        (KeyFlags::OW, "OW"),
        (KeyFlags::RM, "RM"),
        (KeyFlags::ACCESS, "access"),
        (KeyFlags::UPDATE, "update"),
        (KeyFlags::INSERT, "insert"),
        (KeyFlags::DELETE, "delete"),
        (KeyFlags::VARIABLE_FLAGS, "variable_flags"),
    ];

    /// Returns the flags of both.
    pub const fn with(self, other: KeyFlags) -> KeyFlags {
        KeyFlags(self.0 | other.0)
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
        KeySpec { first: position, last: 0, step: 1, flags, notes: "" }
    }

    /// All arguments from `position` on.
    pub const fn all_from(position: u8, flags: KeyFlags) -> KeySpec {
        KeySpec { first: position, last: -1, step: 1, flags, notes: "" }
    }

    /// As it is, but with `step` from key to key: MSET's keys stand before their values.
    pub const fn step(self, step: u8) -> KeySpec {
        KeySpec { step, ..self }
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

    /// Returns the positions of the keys in a request of `count` arguments.
    #[inline]
    pub fn positions(&self, count: usize) -> impl Iterator<Item = usize> + use<> {
        let first = usize::from(self.first);
        let end = match self.last {
            last @ 0.. => (first + last as usize + 1).min(count),
            last => (count + 1).saturating_sub(usize::from(last.unsigned_abs())),
        };
        (first..end).step_by(usize::from(self.step))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn positions(spec: KeySpec, count: usize) -> Vec<usize> {
        spec.positions(count).collect()
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
}
