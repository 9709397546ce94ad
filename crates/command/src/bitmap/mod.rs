//! The commands that see a string as bits: the first is the highest bit of the first byte.

mod bitcount;
mod bitop;
mod bitpos;
mod getbit;
mod setbit;

use crate::row::Command;

/// The rows of the family.
pub static BITMAP: &[&Command] =
    &[&bitcount::BITCOUNT, &bitop::BITOP, &bitpos::BITPOS, &getbit::GETBIT, &setbit::SETBIT];
