//! The footer of a payload: the version of the format, and a checksum of all before it.
//!
//! ```text
//! value ... | version u16 | CRC-64 of the value and the version u64
//! ```
//!
//! Source: Redis 7.2, `createDumpPayload` and `verifyDumpPayload`.

use std::fmt;

use crc::{CRC_64_REDIS, Crc, Table};

/// A version of the format that can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(u16);

impl Version {
    /// The newest: that of Redis 7.2.
    pub const NEWEST: Version = Version(11);
    /// The oldest: that of Redis 5.
    pub const OLDEST: Version = Version(9);

    /// Returns the version of this number, if it can be written.
    pub fn new(number: u16) -> Option<Version> {
        let version = Version(number);
        (Version::OLDEST..=Version::NEWEST).contains(&version).then_some(version)
    }

    /// Returns the number.
    pub const fn number(self) -> u16 {
        self.0
    }

    /// Returns whether hashes, sorted sets and the parts of lists are written as listpacks: from
    /// Redis 7.0 on. The blocks before those, ziplists, are not written; every version has the
    /// values part by part.
    pub fn has_listpacks(self) -> bool {
        self >= Version(10)
    }

    /// Returns whether small sets are written as listpacks: from Redis 7.2 on.
    pub(crate) fn has_listpacks_of_sets(self) -> bool {
        self >= Version(11)
    }

    /// Returns whether consumers of streams have the time at which they were active: from Redis
    /// 7.2 on.
    pub(crate) fn has_active_times(self) -> bool {
        self >= Version(11)
    }
}

/// The version of what Redis 7.2 cannot read, and the newest that is read: that of Redis 7.4.
pub(crate) const VERSION_OF_TIMES: u16 = 12;

/// Bytes of the footer.
pub(crate) const FOOTER_BYTES: usize = VERSION_BYTES + CHECKSUM_BYTES;
const VERSION_BYTES: usize = 2;
const CHECKSUM_BYTES: usize = 8;

pub(crate) static CHECKSUM: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&CRC_64_REDIS);

/// Why bytes are no payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadError {
    /// They are shorter than the footer.
    Short,
    /// A newer server has written them.
    Version(u16),
    /// They are not those that were written.
    Checksum,
}

impl fmt::Display for PayloadError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PayloadError::Short => write!(formatter, "a payload has {FOOTER_BYTES} bytes at least"),
            PayloadError::Version(version) => {
                write!(formatter, "a payload of version {version}, beyond {VERSION_OF_TIMES}")
            }
            PayloadError::Checksum => formatter.write_str("the checksum of a payload is wrong"),
        }
    }
}

impl std::error::Error for PayloadError {}

/// Appends the footer to `value`, which is all of the payload before it.
pub fn seal(value: &mut Vec<u8>) {
    seal_as(Version::NEWEST.number(), value);
}

/// As [`seal`], as of the newest version that is read: for values of any.
pub fn seal_newest(value: &mut Vec<u8>) {
    seal_as(VERSION_OF_TIMES, value);
}

/// As [`seal`], with any version.
pub fn seal_as(version: u16, value: &mut Vec<u8>) {
    value.extend_from_slice(&version.to_le_bytes());
    let checksum = CHECKSUM.checksum(value);
    value.extend_from_slice(&checksum.to_le_bytes());
}

/// Returns the value of `payload`, whose footer is right.
///
/// # Errors
/// [`PayloadError`].
pub fn open(payload: &[u8]) -> Result<&[u8], PayloadError> {
    let Some((signed, checksum)) = payload.split_last_chunk() else {
        return Err(PayloadError::Short);
    };
    let Some((value, version)) = signed.split_last_chunk() else {
        return Err(PayloadError::Short);
    };
    let version = u16::from_le_bytes(*version);
    if version > VERSION_OF_TIMES {
        return Err(PayloadError::Version(version));
    }
    if CHECKSUM.checksum(signed) != u64::from_le_bytes(*checksum) {
        return Err(PayloadError::Checksum);
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// DUMP of the string `deep` by redis-server 7.0.15.
    const OF_REDIS: &[u8] = b"\x00\x04deep\n\x007V\xe6\x95\xc8\xaf\xaf\xb3";

    #[test]
    fn a_footer_is_that_of_redis() {
        assert_eq!(open(OF_REDIS), Ok(&b"\x00\x04deep"[..]));
        let mut payload = b"\x00\x04deep".to_vec();
        seal(&mut payload);
        assert_eq!(open(&payload), Ok(&b"\x00\x04deep"[..]));
    }

    #[test]
    fn what_is_short_newer_or_changed_is_refused() {
        for length in 0..OF_REDIS.len() {
            let error = if length < FOOTER_BYTES {
                PayloadError::Short
            } else {
                open(&OF_REDIS[..length]).unwrap_err()
            };
            assert_eq!(open(&OF_REDIS[..length]), Err(error));
        }
        for at in 0..OF_REDIS.len() {
            let mut changed = OF_REDIS.to_vec();
            changed[at] ^= 0x40;
            let error = open(&changed).unwrap_err();
            let is_version = at == OF_REDIS.len() - 10 || at == OF_REDIS.len() - 9;
            assert_eq!(matches!(error, PayloadError::Version(_)), is_version, "{at}");
        }
    }
}
