//! The groups that read the stream: readers by name, and how far each has come. They are in a file
//! beside the log, which is replaced as a whole.

use std::collections::BTreeMap;

use wal::Storage;

/// The file.
pub const GROUPS_NAME: &str = "feed-groups";
/// How many groups there may be.
pub const GROUPS_MAX: usize = 128;
/// The most bytes of the file: all groups with the longest names.
const FILE_BYTES_MAX: u64 = 64 << 10;
const TITLE: &str = "forebay feed groups 1";

/// All groups: names, and the LSNs that they have acknowledged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Groups {
    /// By name.
    pub lsns: BTreeMap<Box<[u8]>, u64>,
}

impl Groups {
    /// Returns the groups that `storage` has, none where it has no file of them.
    ///
    /// # Errors
    /// A sentence that says what is wrong with the file.
    pub fn load(storage: &dyn Storage) -> Result<Groups, String> {
        let read = wal::read_file(storage, GROUPS_NAME, FILE_BYTES_MAX);
        match read.map_err(|error| format!("'{GROUPS_NAME}' cannot be read: {error}"))? {
            None => Ok(Groups::default()),
            Some(bytes) => Groups::parse(&bytes).ok_or_else(|| {
                format!(
                    "'{GROUPS_NAME}', which has the groups of FEED, is damaged: without it a \
                     server starts, and has none"
                )
            }),
        }
    }

    /// Makes `storage` have these groups, durably.
    ///
    /// # Errors
    /// When the disk fails; what was there before is, or this.
    pub fn save(&self, storage: &dyn Storage) -> std::io::Result<()> {
        wal::replace_file(storage, GROUPS_NAME, &self.text())
    }

    /// Returns the LSN behind which one of them still has to read: those that are more than
    /// `lag_max` bytes behind `end` have no claim, where that is not 0.
    pub fn slowest(&self, end: u64, lag_max: u64) -> Option<u64> {
        let is_held = |lsn: &u64| Groups::is_held(*lsn, end, lag_max);
        self.lsns.values().copied().filter(is_held).min()
    }

    /// Returns whether the log keeps what a group at `lsn` has not read.
    pub fn is_held(lsn: u64, end: u64, lag_max: u64) -> bool {
        lag_max == 0 || end.saturating_sub(lsn) <= lag_max
    }

    fn text(&self) -> Vec<u8> {
        let mut text = format!("{TITLE}\n").into_bytes();
        for (name, lsn) in &self.lsns {
            text.extend_from_slice(format!("{lsn} ").as_bytes());
            text.extend_from_slice(name);
            text.push(b'\n');
        }
        let sum = wal::checksum(&text);
        text.extend_from_slice(format!("sum {sum:08x}\n").as_bytes());
        text
    }

    fn parse(bytes: &[u8]) -> Option<Groups> {
        let text = bytes.strip_suffix(b"\n")?;
        let line = text.iter().rposition(|byte| *byte == b'\n')? + 1;
        let sum = str::from_utf8(text[line..].strip_prefix(b"sum ")?).ok()?;
        if format!("{:08x}", wal::checksum(&bytes[..line])) != sum {
            return None;
        }
        let mut lines = bytes[..line - 1].split(|byte| *byte == b'\n');
        if lines.next()? != TITLE.as_bytes() {
            return None;
        }
        let mut groups = Groups::default();
        for line in lines {
            let space = line.iter().position(|byte| *byte == b' ')?;
            let lsn = str::from_utf8(&line[..space]).ok()?.parse().ok()?;
            groups.lsns.insert(line[space + 1..].into(), lsn);
        }
        Some(groups)
    }
}

#[cfg(test)]
mod tests {
    use wal::simulated::SimulatedDisk;

    use super::*;

    #[test]
    fn what_is_saved_is_loaded_and_damage_is_told() {
        let disk = SimulatedDisk::new();
        assert_eq!(Groups::load(&disk).unwrap(), Groups::default());
        let mut groups = Groups::default();
        for number in 0..GROUPS_MAX as u64 {
            groups.save(&disk).unwrap();
            assert_eq!(Groups::load(&disk).unwrap(), groups);
            let name = format!("{number:0>128}").into_bytes();
            groups.lsns.insert(name.into(), u64::MAX - number);
        }
        groups.save(&disk).unwrap();
        assert_eq!(Groups::load(&disk).unwrap(), groups);
        let mut small = Groups::default();
        small.lsns.insert((*b"readers").into(), 64);
        let text = small.text();
        for bit in 0..text.len() * 8 {
            let mut text = text.clone();
            text[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(Groups::parse(&text), Some(small.clone()), "bit {bit}");
        }
        assert!(Groups::parse(&text[..text.len() - 1]).is_none());
    }

    #[test]
    fn slowest_is_the_one_that_is_not_too_far_behind() {
        let lsns = [(b"a", 10), (b"b", 500), (b"c", 900)];
        let lsns = lsns.map(|(name, lsn)| (Box::<[u8]>::from(*name), lsn)).into();
        let groups = Groups { lsns };
        assert_eq!(groups.slowest(1000, 0), Some(10));
        assert_eq!(groups.slowest(1000, 600), Some(500));
        assert_eq!(groups.slowest(1000, 99), None);
    }
}
