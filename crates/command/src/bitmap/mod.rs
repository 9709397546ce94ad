//! The commands that see a string as bits: the first is the highest bit of the first byte.

mod bit_fields;
mod bit_offset;
mod bit_range;
mod bitcount;
mod bitfield;
mod bitfield_ro;
mod bitop;
mod bitpos;
mod getbit;
mod setbit;

use crate::table::row::Command;

pub(crate) static BITMAP: &[&Command] = &[
    &bitcount::BITCOUNT,
    &bitfield::BITFIELD,
    &bitfield_ro::BITFIELD_RO,
    &bitop::BITOP,
    &bitpos::BITPOS,
    &getbit::GETBIT,
    &setbit::SETBIT,
];
