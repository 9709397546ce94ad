//! Finds where a value in a file ends, and copies it: what is copied is a payload without its
//! footer, to be decoded or refused by `decode`.

use std::io::Read;

use crate::{container, kind};

use super::source::{Fault, FileError, Source};

/// The kinds that mean something else elsewhere, or nothing.
mod foreign {
    pub const MODULE: u8 = 6;
    pub const MODULE_2: u8 = 7;
    /// Hashes with fields that expire, of Valkey.
    pub const HASH_2: u8 = 22;
    /// As [`crate::kind::HASH_METADATA`] and [`crate::kind::HASH_LISTPACK_EX`], without the first
    /// time: of the candidates of Redis 7.4.
    pub const HASH_METADATA_OF_CANDIDATE: u8 = 22;
    pub const HASH_LISTPACK_EX_OF_CANDIDATE: u8 = 23;
}

/// What a length says.
enum Length {
    Of(u64),
    Encoded(u8),
}

/// Copies one value after the other.
pub(super) struct ValueCopier<'s, R> {
    pub source: &'s mut Source<R>,
    pub out: &'s mut Vec<u8>,
}

impl<R: Read> ValueCopier<'_, R> {
    /// Copies a value of `kind`; in a file of Valkey some kinds are others.
    pub fn value(&mut self, kind: u8, is_of_valkey: bool) -> Result<(), FileError> {
        match kind {
            foreign::MODULE | foreign::MODULE_2 => {
                let identity = self.number()?;
                return Err(self.source.error(Fault::Module(module_name(identity))));
            }
            foreign::HASH_2 if is_of_valkey => return self.hash_of_valkey(),
            foreign::HASH_METADATA_OF_CANDIDATE => {
                // The times count from 1, as they do there from the first of them.
                self.out.push(kind::HASH_METADATA);
                self.out.extend_from_slice(&1u64.to_le_bytes());
                return self.fields(true);
            }
            foreign::HASH_LISTPACK_EX_OF_CANDIDATE => {
                self.out.push(kind::HASH_LISTPACK_EX);
                self.out.extend_from_slice(&1u64.to_le_bytes());
                return self.text();
            }
            _ => {}
        }
        self.out.push(kind);
        match kind {
            kind::STRING
            | kind::HASH_ZIPMAP
            | kind::LIST_ZIPLIST
            | kind::SET_INTSET
            | kind::SORTED_SET_ZIPLIST
            | kind::HASH_ZIPLIST
            | kind::HASH_LISTPACK
            | kind::SORTED_SET_LISTPACK
            | kind::SET_LISTPACK => self.text(),
            kind::LIST | kind::SET | kind::LIST_ZIPLISTS => self.repeated(Self::text),
            kind::HASH => self.fields(false),
            kind::HASH_METADATA => {
                self.bytes(8)?;
                self.fields(true)
            }
            kind::HASH_LISTPACK_EX => {
                self.bytes(8)?;
                self.text()
            }
            kind::SORTED_SET => self.repeated(|copier| {
                copier.text()?;
                copier.bytes(8)
            }),
            kind::SORTED_SET_IN_TEXT => self.repeated(|copier| {
                copier.text()?;
                copier.double_in_text()
            }),
            kind::LIST_LISTPACKS => self.repeated(|copier| {
                let container = copier.number()?;
                if !matches!(container, container::PLAIN | container::PACKED) {
                    return Err(copier.malformed("the form of a part of a list"));
                }
                copier.text()
            }),
            kind::STREAM_LISTPACKS | kind::STREAM_LISTPACKS_2 | kind::STREAM_LISTPACKS_3 => {
                self.stream(kind)
            }
            _ => Err(self.source.error(Fault::Unknown(kind))),
        }
    }

    /// Copies a string.
    pub fn text(&mut self) -> Result<(), FileError> {
        match self.length()? {
            Length::Of(length) => self.bytes(length),
            Length::Encoded(code @ 0..=2) => self.bytes(1 << code),
            Length::Encoded(3) => {
                let compressed = self.number()?;
                self.number()?;
                self.bytes(compressed)
            }
            Length::Encoded(_) => Err(self.malformed("how a string is written")),
        }
    }

    /// Copies a number.
    pub fn number(&mut self) -> Result<u64, FileError> {
        Ok(match self.length()? {
            Length::Of(length) => length,
            Length::Encoded(code) => u64::from(code),
        })
    }

    fn fields(&mut self, have_times: bool) -> Result<(), FileError> {
        self.repeated(|copier| {
            if have_times {
                copier.number()?;
            }
            copier.text()?;
            copier.text()
        })
    }

    /// Copies a hash of Valkey, whose fields have their times behind their values, as one of
    /// Redis, which has them before, counted from 1.
    fn hash_of_valkey(&mut self) -> Result<(), FileError> {
        self.out.push(kind::HASH_METADATA);
        self.out.extend_from_slice(&1u64.to_le_bytes());
        let mut pair = Vec::new();
        let count = self.number()?;
        for _ in 0..count {
            pair.clear();
            let mut copier = ValueCopier { source: &mut *self.source, out: &mut pair };
            copier.text()?;
            copier.text()?;
            let time = i64::from_le_bytes(self.source.take()?);
            let later = match u64::try_from(time) {
                Ok(time) => time,
                Err(_) if time == -1 => 0,
                Err(_) => return Err(self.malformed("the time of a field")),
            };
            self.out.push(0x81);
            self.out.extend_from_slice(&later.swap_bytes().to_le_bytes());
            self.out.extend_from_slice(&pair);
        }
        Ok(())
    }

    fn stream(&mut self, kind: u8) -> Result<(), FileError> {
        self.repeated(|copier| {
            copier.text()?;
            copier.text()
        })?;
        self.numbers(if kind == kind::STREAM_LISTPACKS { 3 } else { 8 })?;
        self.repeated(|copier| copier.group(kind))
    }

    fn group(&mut self, kind: u8) -> Result<(), FileError> {
        self.text()?;
        self.numbers(if kind == kind::STREAM_LISTPACKS { 2 } else { 3 })?;
        self.repeated(|copier| {
            copier.bytes(16 + 8)?;
            copier.number().map(drop)
        })?;
        self.repeated(|copier| {
            copier.text()?;
            copier.bytes(if kind == kind::STREAM_LISTPACKS_3 { 16 } else { 8 })?;
            copier.repeated(|copier| copier.bytes(16))
        })
    }

    fn numbers(&mut self, count: usize) -> Result<(), FileError> {
        for _ in 0..count {
            self.number()?;
        }
        Ok(())
    }

    /// Copies a count and so many of what `copy` copies; each takes a byte at least.
    fn repeated(
        &mut self,
        mut copy: impl FnMut(&mut Self) -> Result<(), FileError>,
    ) -> Result<(), FileError> {
        for _ in 0..self.number()? {
            copy(self)?;
        }
        Ok(())
    }

    fn double_in_text(&mut self) -> Result<(), FileError> {
        let length = self.source.byte()?;
        self.out.push(length);
        self.bytes(if length < 253 { length.into() } else { 0 })
    }

    fn length(&mut self) -> Result<Length, FileError> {
        let first = self.source.byte()?;
        self.out.push(first);
        Ok(match (first >> 6, first) {
            (0, _) => Length::Of(first.into()),
            (1, _) => {
                let low = self.source.byte()?;
                self.out.push(low);
                Length::Of(u64::from(first & 0x3F) << 8 | u64::from(low))
            }
            (2, 0x80) => {
                let bytes = self.source.take()?;
                self.out.extend_from_slice(&bytes);
                Length::Of(u32::from_le_bytes(bytes).swap_bytes().into())
            }
            (2, 0x81) => {
                let bytes = self.source.take()?;
                self.out.extend_from_slice(&bytes);
                Length::Of(u64::from_le_bytes(bytes).swap_bytes())
            }
            (2, _) => return Err(self.malformed("a length")),
            _ => Length::Encoded(first & 0x3F),
        })
    }

    fn bytes(&mut self, count: u64) -> Result<(), FileError> {
        self.source.copy(count, self.out)
    }

    fn malformed(&self, what: &'static str) -> FileError {
        self.source.error(Fault::Malformed(what))
    }
}

/// Returns the name of the module of `identity`: nine characters of six bits, then ten bits of its
/// version.
///
/// Source: Redis 7.2, `moduleTypeNameByID`.
pub(super) fn module_name(identity: u64) -> String {
    const CHARACTERS: &[u8; 64] =
        b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let character =
        |index: u32| char::from(CHARACTERS[(identity >> (58 - 6 * index) & 63) as usize]);
    (0..9).map(character).collect()
}
