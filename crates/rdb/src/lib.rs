//! Values as bytes: what Redis's DUMP gives and its RESTORE takes, and the files of many values
//! that its SAVE writes.
//!
//! A payload is a type byte, the value in the format of RDB files, and a footer with the version of
//! that format and a checksum.
//!
//! *Layout*: `payload.rs` is the footer. `encode.rs` writes a value, `writer.rs` the lengths and
//! strings that it is made of. `decode.rs` reads one, `reader.rs` lengths and strings, `strings.rs`
//! what a value of single strings becomes, `blobs.rs` values that lie in one block, `streams.rs`
//! streams; `ziplist.rs`
//! and `zipmap.rs` are the blocks of older versions. `lzf.rs` compresses. `file.rs` draws a file,
//! and has what writes and reads one. `samples.rs` is for tests.
//! *Invariants*: no bytes make reading panic; nothing is allocated that was not asked for before,
//! and a length that the bytes cannot justify is refused; the cost is linear in the bytes, but for
//! a sort.
//! *Not here*: what a file is opened with, and where what was read is stored.
//!
//! Source: Redis 7.2, `rdb.c`; versions up to 11 are read, 9 to 11 are written. Hashes with fields
//! that expire are those of Redis 7.4, in version 12, whichever version is asked for. Files of
//! version 80, of Valkey, are read too.
#![forbid(unsafe_code)]

mod blobs;
mod decode;
mod encode;
pub mod file;
mod lzf;
mod payload;
mod reader;
pub mod samples;
mod streams;
mod strings;
mod writer;
mod ziplist;
mod zipmap;

pub use decode::{DecodeError, DecodeOptions, Value, decode, is_string};
pub use encode::{Stored, encode, encode_as, encoded_bytes_max, encoded_bytes_max_as};
pub use payload::{PayloadError, Version, open, seal, seal_as, seal_newest};

/// The kinds of values, as their first byte says.
///
/// Source: Redis 7.2 and, of the last two, 7.4, `rdb.h`.
mod kind {
    pub const STRING: u8 = 0;
    pub const LIST: u8 = 1;
    pub const SET: u8 = 2;
    pub const SORTED_SET_IN_TEXT: u8 = 3;
    pub const HASH: u8 = 4;
    pub const SORTED_SET: u8 = 5;
    pub const HASH_ZIPMAP: u8 = 9;
    pub const LIST_ZIPLIST: u8 = 10;
    pub const SET_INTSET: u8 = 11;
    pub const SORTED_SET_ZIPLIST: u8 = 12;
    pub const HASH_ZIPLIST: u8 = 13;
    pub const LIST_ZIPLISTS: u8 = 14;
    pub const HASH_LISTPACK: u8 = 16;
    pub const SORTED_SET_LISTPACK: u8 = 17;
    pub const LIST_LISTPACKS: u8 = 18;
    pub const SET_LISTPACK: u8 = 20;
    pub const STREAM_LISTPACKS: u8 = 15;
    pub const STREAM_LISTPACKS_2: u8 = 19;
    pub const STREAM_LISTPACKS_3: u8 = 21;
    pub const HASH_METADATA: u8 = 24;
    pub const HASH_LISTPACK_EX: u8 = 25;
}

/// How a node of a list of listpacks is marked: one element as it is, or a listpack.
mod container {
    pub const PLAIN: u64 = 1;
    pub const PACKED: u64 = 2;
}

#[cfg(test)]
mod tests;
