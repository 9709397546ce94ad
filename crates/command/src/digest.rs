//! The digest of DEBUG DIGEST, as Redis computes it: the same data gives the same 40 digits.
//!
//! Source: Redis 7.2, `debug.c`: `xorDigest`, `mixDigest`, `xorObjectDigest`.

use std::fmt;

use keyspace::{Entry, ValueType};
use sha1::{Digest as _, Sha1};

/// What a value that expires adds to its digest.
const EXPIRES: &[u8] = b"!!expire!!";

/// The number of the type as Redis mixes it in, in network byte order.
const STRING: [u8; 4] = [0; 4];

/// A SHA-1 sum, or several put together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Digest([u8; 20]);

impl Digest {
    /// Returns the digest of an entry's key and value, as it is added to that of all data.
    pub fn of_entry(entry: &Entry<'_>) -> Digest {
        let mut digest = Digest::default();
        digest.mix(entry.key());
        digest.mix_value(entry);
        Digest::sum(&digest.0)
    }

    /// Returns the digest of an entry's value.
    pub fn of_value(entry: &Entry<'_>) -> Digest {
        let mut digest = Digest::default();
        digest.mix_value(entry);
        digest
    }

    /// Adds what has no order: in any order the result is the same.
    pub fn add(&mut self, other: &Digest) {
        self.0.iter_mut().zip(other.0).for_each(|(byte, more)| *byte ^= more);
    }

    /// Adds what has an order.
    pub fn mix(&mut self, bytes: &[u8]) {
        self.add(&Digest::sum(bytes));
        *self = Digest::sum(&self.0);
    }

    fn mix_value(&mut self, entry: &Entry<'_>) {
        match entry.value_type() {
            ValueType::String => {
                self.mix(&STRING);
                self.mix(entry.value());
            }
        }
        if entry.expiry().is_some() {
            self.add(&Digest::sum(EXPIRES));
        }
    }

    fn sum(bytes: &[u8]) -> Digest {
        Digest(Sha1::digest(bytes).into())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}
