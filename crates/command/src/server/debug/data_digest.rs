//! The digest of DEBUG DIGEST, as Redis computes it: the same data gives the same 40 digits.
//!
//! Source: Redis 7.2, `debug.c`: `xorDigest`, `mixDigest`, `xorObjectDigest`.

use std::fmt;

use base::number_text::double_in_17_digits;
use collections::{Collection, Direction};
use keyspace::{Content, Object, ValueType};
use sha1::{Digest as _, Sha1};

/// What a value that expires adds to its digest.
const EXPIRES: &[u8] = b"!!expire!!";

/// A SHA-1 sum, or several put together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Digest([u8; 20]);

impl Digest {
    /// Returns the digest of an entry's key and value, as it is added to that of all data.
    pub fn of_entry(entry: &Object<'_>) -> Digest {
        let mut digest = Digest::default();
        digest.mix(entry.key());
        digest.mix_value(entry);
        Digest::sum(&digest.0)
    }

    /// Returns the digest of an entry's value.
    pub fn of_value(entry: &Object<'_>) -> Digest {
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

    fn mix_value(&mut self, entry: &Object<'_>) {
        self.mix(&[0, 0, 0, type_number(entry.value_type())]);
        match entry.content() {
            Content::String(value) => self.mix(&value),
            Content::Collection(Collection::List(list)) => {
                list.iter().for_each(|element| element.with_bytes(|bytes| self.mix(bytes)));
            }
            Content::Collection(Collection::Set(set)) => {
                set.for_each(|member| self.add(&member.with_bytes(Digest::sum)));
            }
            Content::Collection(Collection::Hash(hash)) => hash.for_each(|field, value| {
                let mut pair = Digest::default();
                field.with_bytes(|bytes| pair.mix(bytes));
                value.with_bytes(|bytes| pair.mix(bytes));
                self.add(&Digest::sum(&pair.0));
            }),
            Content::Collection(Collection::SortedSet(set)) => {
                set.for_each(0, usize::MAX, Direction::Up, |member, score| {
                    let mut pair = Digest::default();
                    member.with_bytes(|bytes| pair.mix(bytes));
                    pair.mix(double_in_17_digits(score).as_bytes());
                    self.add(&Digest::sum(&pair.0));
                });
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

/// Returns the number of the type as Redis mixes it in.
fn type_number(value_type: ValueType) -> u8 {
    match value_type {
        ValueType::String => 0,
        ValueType::List => 1,
        ValueType::Set => 2,
        ValueType::SortedSet => 3,
        ValueType::Hash => 4,
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}
