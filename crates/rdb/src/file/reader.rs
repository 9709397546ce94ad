//! Reads a file, one thing after the other, with the memory of one value at a time.

use std::io::Read;

use base::UnixMs;

use crate::reader::Reader;

use super::source::{Fault, FileError, Source};
use super::values::{ValueCopier, module_name};
use super::{COST_FIELD, GRACE_FIELD, ITEM_FIELD, VERSION_MIN, VERSION_OF_VALKEY, mark};
use crate::payload::VERSION_OF_TIMES;

/// The longest key, and the longest name or value of a field of the whole file.
const NAME_BYTES_MAX: u64 = 512 << 20;

/// What stands in a file.
#[derive(Debug)]
pub enum Item<'f> {
    /// Something that is said of the whole file.
    Field {
        /// Its name.
        name: &'f [u8],
        /// What it says.
        value: &'f [u8],
    },
    /// The entries that follow are of this database.
    Database(u64),
    /// So many entries follow in the database in all, says the file.
    Sizes {
        /// All of them.
        keys: u64,
        /// Those that expire.
        volatile: u64,
    },
    /// A key with its value.
    Entry(FileEntry<'f>),
}

/// A key with its value.
#[derive(Clone, Copy, Debug)]
pub struct FileEntry<'f> {
    /// The key.
    pub key: &'f [u8],
    /// The value: a payload without its footer, which nothing is known of but where it ends.
    pub value: &'f [u8],
    /// When it expires.
    pub expires_at: Option<UnixMs>,
    /// For how many milliseconds behind that its value may be read as a stale one.
    pub grace_ms: u64,
    /// How much dearer than others it is to have back; 1 where the file does not say.
    pub cost: u64,
    /// For how many seconds it had not been used.
    pub idle_seconds: Option<u64>,
    /// How often it was used, as the policies have it that count.
    pub counter: Option<u8>,
    /// What stands behind the value, where it is an item of memcached.
    pub item_tail: Option<&'f [u8]>,
    /// Where it begins in the file.
    pub offset: u64,
}

/// A file that is read.
pub struct FileReader<R> {
    source: Source<R>,
    version: u16,
    is_of_valkey: bool,
    has_ended: bool,
    raw: Vec<u8>,
    name: Vec<u8>,
    value: Vec<u8>,
    tail: Vec<u8>,
}

impl<R: Read> FileReader<R> {
    /// Reads the beginning of a file.
    ///
    /// # Errors
    /// Where it is none that can be read.
    pub fn open(input: R) -> Result<FileReader<R>, FileError> {
        let mut source = Source::new(input);
        let magic: [u8; 9] = source.take()?;
        let digits = magic.strip_prefix(b"REDIS").or_else(|| magic.strip_prefix(b"VALKEY"));
        let number = digits.and_then(|digits| str::from_utf8(digits).ok()?.parse().ok());
        let start = |fault| FileError { offset: 0, fault };
        let version: u16 = number.ok_or_else(|| start(Fault::Magic))?;
        let is_of_valkey = magic.starts_with(b"VALKEY");
        let is_known = match is_of_valkey {
            true => version == VERSION_OF_VALKEY,
            false => (VERSION_MIN..=VERSION_OF_TIMES).contains(&version),
        };
        if !is_known {
            return Err(start(Fault::Version(version)));
        }
        let [raw, name, value, tail] = [const { Vec::new() }; 4];
        Ok(FileReader { source, version, is_of_valkey, has_ended: false, raw, name, value, tail })
    }

    /// Returns the version of the format.
    pub fn version(&self) -> u16 {
        self.version
    }

    /// Returns how many bytes were read.
    pub fn offset(&self) -> u64 {
        self.source.offset()
    }

    /// Returns what comes next; none where the file has ended, and its checksum is right.
    ///
    /// # Errors
    /// What is wrong, and where; nothing more can be read then.
    pub fn next_item(&mut self) -> Result<Option<Item<'_>>, FileError> {
        if self.has_ended {
            return Ok(None);
        }
        let mut offset = self.source.offset();
        let (mut expires_at, mut idle_seconds, mut counter) = (None, None, None);
        let (mut grace_ms, mut cost) = (None, None);
        let mut is_item = false;
        loop {
            match self.source.byte()? {
                mark::EXPIRES_AT_S => {
                    let seconds = i32::from_le_bytes(self.source.take()?);
                    expires_at = Some(UnixMs(i64::from(seconds) * 1000));
                }
                mark::EXPIRES_AT_MS => {
                    expires_at = Some(UnixMs(i64::from_le_bytes(self.source.take()?)));
                }
                mark::FREQUENCY => counter = Some(self.source.byte()?),
                mark::IDLE => idle_seconds = Some(self.number()?),
                mark::AUX => {
                    self.field()?;
                    match &self.name[..] {
                        GRACE_FIELD => grace_ms = number_in(&self.value),
                        COST_FIELD => cost = number_in(&self.value),
                        ITEM_FIELD => {
                            is_item = true;
                            std::mem::swap(&mut self.tail, &mut self.value);
                        }
                        _ => {
                            let (name, value) = (&self.name[..], &self.value[..]);
                            return Ok(Some(Item::Field { name, value }));
                        }
                    }
                }
                mark::DATABASE => return Ok(Some(Item::Database(self.number()?))),
                mark::SIZES => {
                    let (keys, volatile) = (self.number()?, self.number()?);
                    return Ok(Some(Item::Sizes { keys, volatile }));
                }
                mark::END => {
                    self.end()?;
                    return Ok(None);
                }
                other if other >= mark::SLOT_IMPORT => self.skip(other)?,
                kind => {
                    self.raw_name()?;
                    self.value.clear();
                    let (source, out) = (&mut self.source, &mut self.value);
                    ValueCopier { source, out }.value(kind, self.is_of_valkey)?;
                    let (key, value) = (&self.name[..], &self.value[..]);
                    let item_tail = is_item.then_some(&self.tail[..]);
                    let entry = FileEntry {
                        key,
                        value,
                        expires_at,
                        grace_ms: grace_ms.unwrap_or(0),
                        cost: cost.unwrap_or(1),
                        idle_seconds,
                        counter,
                        item_tail,
                        offset,
                    };
                    return Ok(Some(Item::Entry(entry)));
                }
            }
            if expires_at.is_none() && idle_seconds.is_none() && counter.is_none() {
                offset = self.source.offset();
            }
        }
    }

    /// Returns the memory that what was read takes: that of one entry, and what it was read into.
    pub fn memory_bytes(&self) -> usize {
        self.raw.capacity() + self.name.capacity() + self.value.capacity()
    }

    /// Returns what was read of the input and belongs to no file, and the input.
    pub fn into_rest(self) -> (Vec<u8>, R) {
        self.source.into_rest()
    }

    /// Passes over what is no part of the dataset, and refuses what would be lost.
    fn skip(&mut self, mark: u8) -> Result<(), FileError> {
        match mark {
            mark::SLOT_INFO => {
                for _ in 0..3 {
                    self.number()?;
                }
                Ok(())
            }
            mark::FUNCTION | mark::FUNCTION_OF_CANDIDATE => Err(self.source.error(Fault::Function)),
            mark::MODULE_AUX => {
                let identity = self.number()?;
                Err(self.source.error(Fault::Module(module_name(identity))))
            }
            // The half of a move between nodes of a cluster among others: whether what has come
            // counts is not for this file to say.
            _ => Err(self.source.error(Fault::Unknown(mark))),
        }
    }

    fn end(&mut self) -> Result<(), FileError> {
        let found = self.source.checksum();
        let expected = u64::from_le_bytes(self.source.take()?);
        if expected != 0 && expected != found {
            return Err(self.source.error(Fault::Checksum { expected, found }));
        }
        self.has_ended = true;
        Ok(())
    }

    /// Reads a field to `name` and `value`.
    fn field(&mut self) -> Result<(), FileError> {
        self.raw_name()?;
        let mut value = std::mem::take(&mut self.value);
        value.clear();
        let read = self.expanded(&mut value);
        self.value = value;
        read
    }

    fn number(&mut self) -> Result<u64, FileError> {
        self.raw.clear();
        ValueCopier { source: &mut self.source, out: &mut self.raw }.number()
    }

    /// Reads a string to `name`.
    fn raw_name(&mut self) -> Result<(), FileError> {
        let mut name = std::mem::take(&mut self.name);
        name.clear();
        let read = self.expanded(&mut name);
        self.name = name;
        read
    }

    /// Appends a string to `out` as it is when it is not compressed.
    fn expanded(&mut self, out: &mut Vec<u8>) -> Result<(), FileError> {
        self.raw.clear();
        ValueCopier { source: &mut self.source, out: &mut self.raw }.text()?;
        let text = Reader::new(&self.raw, NAME_BYTES_MAX).text();
        let mut buffer = Vec::new();
        let read = text
            .and_then(|text| text.with_bytes(&mut buffer, |bytes| out.extend_from_slice(bytes)));
        read.ok_or_else(|| self.source.error(Fault::Malformed("a name")))
    }
}

/// Returns the number that `text` is, where it is one.
fn number_in(text: &[u8]) -> Option<u64> {
    str::from_utf8(text).ok()?.parse().ok()
}
