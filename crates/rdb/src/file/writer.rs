//! Writes a file: its frame, and entries that were encoded elsewhere, maybe by other threads.

use std::io::{self, Write};

use base::{DatabaseIndex, UnixMs};
use collections::{StreamPart, WalkKind, time_of_part, walk_parts};
use crc::{Digest, Table};

use crate::encode::{Stored, put_field_time, put_value};
use crate::lzf::Compressor;
use crate::payload::{CHECKSUM, VERSION_OF_TIMES, Version};
use crate::writer::Writer;
use crate::{container, kind, streams};

use super::{COST_FIELD, GRACE_FIELD, ITEM_FIELD, mark};

/// What a file is like.
#[derive(Clone, Copy, Debug)]
pub struct FileForm {
    /// The version of its values.
    pub version: Version,
    /// Whether it may have hashes with fields that expire: it is of a newer version then.
    pub has_field_times: bool,
    /// Whether it ends with a checksum.
    pub has_checksum: bool,
}

/// A file that is being written.
pub struct FileWriter<W> {
    out: W,
    version: Version,
    digest: Option<Digest<'static, u64, Table<16>>>,
    database: Option<DatabaseIndex>,
    bytes: u64,
    head: Vec<u8>,
}

impl<W: Write> FileWriter<W> {
    /// Writes the beginning of a file to `out`, which holds back what is too little to be worth a
    /// call.
    ///
    /// # Errors
    /// As `out` fails, here and in what follows; the file is none then.
    pub fn begin(out: W, form: &FileForm) -> io::Result<FileWriter<W>> {
        let number = match form.has_field_times {
            true => VERSION_OF_TIMES,
            false => form.version.number(),
        };
        let digest = form.has_checksum.then(|| CHECKSUM.digest());
        let version = form.version;
        let mut writer =
            FileWriter { out, version, digest, database: None, bytes: 0, head: Vec::new() };
        writer.write(format!("REDIS{number:04}").as_bytes())?;
        Ok(writer)
    }

    /// Writes a field of what there is to say of the whole file.
    ///
    /// # Errors
    /// As `out` fails.
    pub fn field(&mut self, name: &[u8], value: &[u8]) -> io::Result<()> {
        self.mark(mark::AUX, |writer| {
            writer.text(name);
            writer.text(value);
        })
    }

    /// Tells how many keys follow in `database` in all, and how many of them expire.
    ///
    /// # Errors
    /// As `out` fails.
    pub fn sizes(&mut self, database: DatabaseIndex, keys: u64, volatile: u64) -> io::Result<()> {
        self.select(database)?;
        self.mark(mark::SIZES, |writer| {
            writer.number(keys);
            writer.number(volatile);
        })
    }

    /// Writes entries of `database`, each as [`EntryEncoder`] has made it.
    ///
    /// # Errors
    /// As `out` fails.
    pub fn entries(&mut self, database: DatabaseIndex, entries: &[u8]) -> io::Result<()> {
        if entries.is_empty() {
            return Ok(());
        }
        self.select(database)?;
        self.write(entries)
    }

    /// Writes the end, and returns what the file was written to: not flushed.
    ///
    /// # Errors
    /// As `out` fails.
    pub fn finish(mut self) -> io::Result<W> {
        self.write(&[mark::END])?;
        let checksum = self.digest.take().map_or(0, Digest::<u64, Table<16>>::finalize);
        self.out.write_all(&checksum.to_le_bytes())?;
        Ok(self.out)
    }

    /// Returns how many bytes were written.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    fn select(&mut self, database: DatabaseIndex) -> io::Result<()> {
        if self.database == Some(database) {
            return Ok(());
        }
        self.database = Some(database);
        self.mark(mark::DATABASE, |writer| writer.number(database.0.into()))
    }

    fn mark(&mut self, mark: u8, put: impl FnOnce(&mut Writer<'_>)) -> io::Result<()> {
        let mut head = std::mem::take(&mut self.head);
        head.clear();
        head.push(mark);
        put(&mut Writer::new(self.version, &mut head));
        let written = self.write(&head);
        self.head = head;
        written
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Some(digest) = &mut self.digest {
            digest.update(bytes);
        }
        self.bytes += bytes.len() as u64;
        self.out.write_all(bytes)
    }
}

fn put_expiry(expires_at: Option<UnixMs>, out: &mut Vec<u8>) {
    if let Some(at) = expires_at {
        out.push(mark::EXPIRES_AT_MS);
        out.extend_from_slice(&at.0.to_le_bytes());
    }
}

/// Makes the bytes of entries; keeps its memory from one to the next.
pub struct EntryEncoder {
    version: Version,
    compressor: Option<Compressor>,
}

impl EntryEncoder {
    /// Returns an encoder of values in `version`, which compresses them or not.
    pub fn new(version: Version, compresses: bool) -> EntryEncoder {
        EntryEncoder { version, compressor: compresses.then(Compressor::default) }
    }

    /// Appends the entry of `key` to `out`.
    ///
    /// # Panics
    /// When the value is a collection without parts.
    pub fn put(
        &mut self,
        key: &[u8],
        expires_at: Option<UnixMs>,
        value: Stored<'_>,
        out: &mut Vec<u8>,
    ) {
        put_expiry(expires_at, out);
        put_value(value, &mut self.writer(Some(key), out));
    }

    /// Appends the begin of the entry of `key`, whose value is `count` fields, members or listpacks
    /// that [`EntryEncoder::put_parts`] appends.
    ///
    /// # Panics
    /// When a list is not written as listpacks in the encoder's version.
    pub fn begin_parts(
        &mut self,
        key: &[u8],
        expires_at: Option<UnixMs>,
        (kind, count): (WalkKind, usize),
        out: &mut Vec<u8>,
    ) {
        put_expiry(expires_at, out);
        let mut writer = self.writer(Some(key), out);
        writer.kind(match kind {
            WalkKind::List => {
                assert!(writer.version.has_listpacks(), "the caller knows the version");
                kind::LIST_LISTPACKS
            }
            WalkKind::Set => kind::SET,
            WalkKind::Hash => kind::HASH,
            WalkKind::TimedHash { .. } => kind::HASH_METADATA,
            WalkKind::SortedSet => kind::SORTED_SET,
            WalkKind::Stream => streams::kind_in(writer.version),
        });
        if let WalkKind::TimedHash { first } = kind {
            writer.out.extend_from_slice(&first.0.to_le_bytes());
        }
        writer.length(count);
    }

    /// Appends `parts` as a walk has given them, in whole fields, members, listpacks and parts of
    /// streams.
    pub fn put_parts(&mut self, kind: WalkKind, parts: &[u8], out: &mut Vec<u8>) {
        let mut writer = self.writer(None, out);
        let mut parts = walk_parts(parts);
        while let Some(part) = parts.next() {
            match kind {
                WalkKind::Set | WalkKind::Hash => writer.text(part),
                WalkKind::Stream => streams::put_part(StreamPart::of(part), &mut writer),
                WalkKind::List => {
                    writer.length(container::PACKED as usize);
                    writer.text(part);
                }
                WalkKind::TimedHash { first } => {
                    put_field_time(time_of_part(part), first, &mut writer);
                    writer.text(parts.next().expect("a field comes behind its time"));
                    writer.text(parts.next().expect("a field has a value"));
                }
                WalkKind::SortedSet => {
                    writer.text(part);
                    writer.out.extend_from_slice(parts.next().expect("a member has a score"));
                }
            }
        }
    }

    fn writer<'o>(&'o mut self, key: Option<&'o [u8]>, out: &'o mut Vec<u8>) -> Writer<'o> {
        let compressor = self.compressor.as_mut();
        Writer { key, compressor, ..Writer::new(self.version, out) }
    }

    /// Appends for how long the value of the entry that follows may be read as a stale one once it
    /// has expired, where it may. Whoever does not know the field passes over it: Redis does.
    pub fn put_grace(&self, grace_ms: u64, out: &mut Vec<u8>) {
        if grace_ms > 0 {
            self.put_number(GRACE_FIELD, grace_ms, out);
        }
    }

    /// Appends how much dearer than others the entry that follows is to have back, where it is at
    /// all. Whoever does not know the field passes over it: Redis does.
    pub fn put_cost(&self, cost: u64, out: &mut Vec<u8>) {
        if cost > 1 {
            self.put_number(COST_FIELD, cost, out);
        }
    }

    fn put_number(&self, field: &[u8], number: u64, out: &mut Vec<u8>) {
        out.push(mark::AUX);
        let mut writer = Writer::new(self.version, out);
        writer.text(field);
        writer.text(number.to_string().as_bytes());
    }

    /// Appends what the entry that follows has behind its value, as an item of memcached: before
    /// all else of it.
    pub fn put_item_tail(&self, tail: &[u8], out: &mut Vec<u8>) {
        out.push(mark::AUX);
        let mut writer = Writer::new(self.version, out);
        writer.text(ITEM_FIELD);
        writer.text(tail);
    }

    /// Appends when the entry that follows was used last: for how many seconds not, or how often.
    pub fn put_last_use(&self, idle_seconds: Option<u64>, counter: Option<u8>, out: &mut Vec<u8>) {
        if let Some(seconds) = idle_seconds {
            out.push(mark::IDLE);
            Writer::new(self.version, out).number(seconds);
        }
        if let Some(counter) = counter {
            out.extend_from_slice(&[mark::FREQUENCY, counter]);
        }
    }
}
