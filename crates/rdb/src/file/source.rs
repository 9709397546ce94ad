//! The bytes of a file in their order: counted, summed up, and never more of them in memory than
//! have come.

use std::fmt;
use std::io::{self, Read};

use crc::{Digest, Table};

use crate::payload::CHECKSUM;

/// How much is read at once.
const BUFFER_BYTES: usize = 128 << 10;
/// How much more memory is taken at once for bytes that are yet to come.
const STEP_BYTES: u64 = 1 << 20;

/// Why a file is not read further.
#[derive(Debug)]
pub struct FileError {
    /// Where: the bytes before what is wrong.
    pub offset: u64,
    /// What is wrong.
    pub fault: Fault,
}

/// What is wrong with a file.
#[derive(Debug)]
pub enum Fault {
    /// The system did not give it.
    System(io::Error),
    /// It ends too early.
    Short,
    /// It does not begin as such a file does.
    Magic,
    /// It is of this version.
    Version(u16),
    /// Something is not what it may be.
    Malformed(&'static str),
    /// It has a mark, or a kind of values, that is not known.
    Unknown(u8),
    /// It has a library of functions, and there are no functions here.
    Function,
    /// It has a value or data of a module, and there are no modules here.
    Module(String),
    /// It is not what was written: the checksum in it, and that of its bytes.
    Checksum {
        /// As the file says.
        expected: u64,
        /// As it is.
        found: u64,
    },
}

impl fmt::Display for FileError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "at byte {}: {}", self.offset, self.fault)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::System(error) => write!(formatter, "it cannot be read: {error}"),
            Fault::Short => formatter.write_str("the file ends in the middle"),
            Fault::Magic => formatter.write_str("Wrong signature trying to load DB from file"),
            Fault::Version(version) => {
                write!(formatter, "Can't handle RDB format version {version}")
            }
            Fault::Malformed(what) => write!(formatter, "{what} is not as it may be"),
            Fault::Unknown(kind) => write!(formatter, "a value or mark of the unknown kind {kind}"),
            Fault::Function => formatter.write_str(
                "a library of functions, which Forebay does not have: remove it with FUNCTION \
                 DELETE where the file comes from",
            ),
            Fault::Module(name) => write!(
                formatter,
                "The RDB file contains module data I can't load: no matching module '{name}'"
            ),
            Fault::Checksum { expected, found } => write!(
                formatter,
                "Wrong RDB checksum expected: ({found:x}) but got ({expected:x}): the file has \
                 changed since it was written"
            ),
        }
    }
}

impl std::error::Error for FileError {}

/// A file that is being read.
pub(super) struct Source<R> {
    input: R,
    buffer: Box<[u8]>,
    /// What of the buffer is yet to be taken.
    start: usize,
    end: usize,
    /// What of the buffer was summed up.
    summed: usize,
    /// The bytes before the buffer.
    before: u64,
    digest: Digest<'static, u64, Table<16>>,
}

impl<R: Read> Source<R> {
    pub fn new(input: R) -> Source<R> {
        let buffer = vec![0; BUFFER_BYTES].into_boxed_slice();
        let digest = CHECKSUM.digest();
        Source { input, buffer, start: 0, end: 0, summed: 0, before: 0, digest }
    }

    /// Returns how many bytes were taken.
    pub fn offset(&self) -> u64 {
        self.before + self.start as u64
    }

    pub fn error(&self, fault: Fault) -> FileError {
        FileError { offset: self.offset(), fault }
    }

    pub fn take<const COUNT: usize>(&mut self) -> Result<[u8; COUNT], FileError> {
        let mut bytes = [0; COUNT];
        let mut filled = 0;
        while filled < COUNT {
            let there = self.available()?;
            let count = there.len().min(COUNT - filled);
            bytes[filled..filled + count].copy_from_slice(&there[..count]);
            filled += count;
            self.start += count;
        }
        Ok(bytes)
    }

    pub fn byte(&mut self) -> Result<u8, FileError> {
        self.take().map(|[byte]| byte)
    }

    /// Appends the next `count` bytes to `out`, which grows only as they come.
    pub fn copy(&mut self, count: u64, out: &mut Vec<u8>) -> Result<(), FileError> {
        let mut left = count;
        while left > 0 {
            if out.len() == out.capacity() {
                out.reserve(left.min(STEP_BYTES) as usize);
            }
            let there = self.available()?;
            let taken = usize::try_from(left).unwrap_or(usize::MAX).min(there.len());
            out.extend_from_slice(&there[..taken]);
            self.start += taken;
            left -= taken as u64;
        }
        Ok(())
    }

    /// Returns the checksum of all that was taken.
    pub fn checksum(&mut self) -> u64 {
        self.sum_up();
        self.digest.clone().finalize()
    }

    /// Returns what was read from the input and not taken, and the input.
    pub fn into_rest(self) -> (Vec<u8>, R) {
        (self.buffer[self.start..self.end].to_vec(), self.input)
    }

    /// Returns bytes that were not taken, at least one.
    fn available(&mut self) -> Result<&[u8], FileError> {
        if self.start == self.end {
            self.sum_up();
            self.before += self.end as u64;
            (self.start, self.end, self.summed) = (0, 0, 0);
            self.end = loop {
                match self.input.read(&mut self.buffer) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(self.error(Fault::System(error))),
                    Ok(0) => return Err(self.error(Fault::Short)),
                    Ok(count) => break count,
                }
            };
        }
        Ok(&self.buffer[self.start..self.end])
    }

    fn sum_up(&mut self) {
        self.digest.update(&self.buffer[self.summed..self.start]);
        self.summed = self.start;
    }
}
