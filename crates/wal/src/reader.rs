//! Reads a log from its start, checks all of it, and finds its end.

use std::sync::Arc;
use std::{fmt, io};

use crate::frame::{BEGINS, FrameHeader, HEAD, HEADER_BYTES, HeaderError};
use crate::segment::segments_of;
use crate::storage::{LogFile, Storage, read_full};
use crate::tail::{self, Verdict};

/// Why a log cannot be read.
#[derive(Debug)]
pub enum LogError {
    /// The disk failed, or would not let the file be read.
    Disk {
        /// The file; empty for the folder.
        name: String,
        /// What it said.
        error: io::Error,
    },
    /// Bytes that were durable are not what they were.
    Corrupt {
        /// The file.
        name: String,
        /// Where in it the log does not go on.
        offset: u64,
        /// What the log has come to there.
        lsn: u64,
        /// How it is known that this is no torn end.
        reason: &'static str,
    },
    /// A segment is missing.
    Gap {
        /// The file that does not follow on the one before.
        name: String,
        /// The LSN that it begins at.
        begins: u64,
        /// The LSN that the log has come to before it.
        lsn: u64,
    },
    /// A newer program has written it.
    Version {
        /// The file.
        name: String,
        /// Where in it.
        offset: u64,
        /// The version.
        version: u8,
    },
}

impl fmt::Display for LogError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogError::Disk { name, error } if name.is_empty() => {
                write!(formatter, "the log's folder cannot be read: {error}")
            }
            LogError::Disk { name, error } => write!(formatter, "{name} cannot be read: {error}"),
            LogError::Corrupt { name, offset, lsn, reason } => {
                write!(formatter, "{name} is damaged at byte {offset}, behind LSN {lsn}: {reason}")
            }
            LogError::Gap { name, begins, lsn } => write!(
                formatter,
                "{name} begins at LSN {begins}, but the log before it ends at LSN {lsn}: a \
                 segment is missing"
            ),
            LogError::Version { name, offset, version } => write!(
                formatter,
                "{name} has a frame of version {version} at byte {offset}, which is not known"
            ),
        }
    }
}

impl std::error::Error for LogError {}

/// A frame that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadFrame {
    /// The position before its payload.
    pub lsn: u64,
    /// The position behind it.
    pub end_lsn: u64,
    /// The term of the primary that wrote it.
    pub term: u64,
}

/// Where a log ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEnd {
    /// The last segment; none where there is no log.
    pub segment: Option<String>,
    /// Where in it the last frame ends.
    pub offset: u64,
    /// The position there.
    pub lsn: u64,
    /// How many bytes behind it are no zeroes, up to the last such one: a torn end, to be cut.
    pub torn_bytes: u64,
    pub(crate) chain: u32,
    pub(crate) salt: u32,
}

/// What a segment has that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentSummary {
    /// The file's name.
    pub name: String,
    /// The position at which it begins.
    pub lsn: u64,
    /// Whether nothing comes before it.
    pub begins: bool,
    /// Frames with a payload.
    pub frames: u64,
    /// The bytes of their payloads.
    pub payload_bytes: u64,
    /// The file's length.
    pub file_bytes: u64,
}

/// Reads the frames of a log in order.
pub struct Reader {
    storage: Arc<dyn Storage>,
    segments: Vec<(u64, String)>,
    /// How many of them were opened.
    opened: usize,
    file: Option<Box<dyn LogFile>>,
    summaries: Vec<SegmentSummary>,
    /// Where the next frame begins.
    offset: u64,
    lsn: u64,
    chain: u32,
    salt: u32,
    torn_bytes: u64,
    is_at_end: bool,
    frame: Vec<u8>,
}

impl Reader {
    /// Opens the log in `storage`, and reads nothing of it yet.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn open(storage: Arc<dyn Storage>) -> Result<Reader, LogError> {
        let segments = segments_of(&*storage)
            .map_err(|error| LogError::Disk { name: String::new(), error })?;
        Ok(Reader {
            storage,
            segments,
            opened: 0,
            file: None,
            summaries: Vec::new(),
            offset: 0,
            lsn: 0,
            chain: 0,
            salt: 0,
            torn_bytes: 0,
            is_at_end: false,
            frame: Vec::new(),
        })
    }

    /// Opens the part of the log in `storage` that has what is behind `lsn`: segments that end
    /// before it are not read.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn open_from(storage: Arc<dyn Storage>, lsn: u64) -> Result<Reader, LogError> {
        let mut reader = Reader::open(storage)?;
        let first = reader.segments.iter().rposition(|(begins, _)| *begins <= lsn);
        reader.segments.drain(..first.unwrap_or(0));
        Ok(reader)
    }

    /// Returns the LSN at which the log begins, and none where there is no log.
    pub fn begins_at(&self) -> Option<u64> {
        self.segments.first().map(|(lsn, _)| *lsn)
    }

    /// Returns the bytes of all segments, those that are prepared and not used included.
    ///
    /// # Errors
    /// When one cannot be opened.
    pub fn file_bytes(&self) -> Result<u64, LogError> {
        let bytes = |name: &str| self.storage.open_read(name)?.length();
        let of = |(_, name): &(u64, String)| {
            bytes(name).map_err(|error| LogError::Disk { name: name.clone(), error })
        };
        self.segments.iter().map(of).sum()
    }

    /// Returns how many of these were read.
    pub fn read_bytes(&self) -> u64 {
        let past = self.summaries.split_last().map_or(&[][..], |(_, past)| past);
        past.iter().map(|summary| summary.file_bytes).sum::<u64>() + self.offset
    }

    /// Reads the next frame that has a payload, which takes the place of what is in `payload`;
    /// returns none at the end of the log. Takes as much memory as the file has bytes for it.
    ///
    /// # Errors
    /// [`LogError`]; then nothing more is read.
    pub fn next(&mut self, payload: &mut Vec<u8>) -> Result<Option<ReadFrame>, LogError> {
        payload.clear();
        while !self.is_at_end {
            if self.file.is_none() && !self.open_next()? {
                self.is_at_end = true;
                break;
            }
            let Some(header) = self.read_frame()? else { continue };
            if header.payload_bytes == 0 {
                continue;
            }
            std::mem::swap(&mut self.frame, payload);
            payload.drain(..header.payload_at());
            payload.truncate(header.payload_bytes as usize);
            let (lsn, end_lsn, term) = (header.lsn, header.end_lsn(), header.term);
            return Ok(Some(ReadFrame { lsn, end_lsn, term }));
        }
        Ok(None)
    }

    /// Returns where the log ends, or how far it was read.
    pub fn end(&self) -> LogEnd {
        LogEnd {
            segment: self.summaries.last().map(|summary| summary.name.clone()),
            offset: self.offset,
            lsn: self.lsn,
            torn_bytes: self.torn_bytes,
            chain: self.chain,
            salt: self.salt,
        }
    }

    /// Returns what the segments have that were read so far.
    pub fn segments(&self) -> &[SegmentSummary] {
        &self.summaries
    }

    fn name(&self) -> String {
        self.summaries.last().map_or_else(String::new, |summary| summary.name.clone())
    }

    fn disk(&self, error: io::Error) -> LogError {
        LogError::Disk { name: self.name(), error }
    }

    fn corrupt(&self, reason: &'static str) -> LogError {
        LogError::Corrupt { name: self.name(), offset: self.offset, lsn: self.lsn, reason }
    }

    /// Opens the next segment and reads its head; returns false where there is none.
    fn open_next(&mut self) -> Result<bool, LogError> {
        let Some((begins, name)) = self.segments.get(self.opened).cloned() else {
            return Ok(false);
        };
        let is_first = self.opened == 0;
        if !is_first && begins != self.lsn {
            return Err(LogError::Gap { name, begins, lsn: self.lsn });
        }
        let opened = self.storage.open_read(&name);
        let file = opened.and_then(|file| Ok((file.length()?, file)));
        let (file_bytes, file) =
            file.map_err(|error| LogError::Disk { name: name.clone(), error })?;
        self.opened += 1;
        self.summaries.push(SegmentSummary {
            name,
            lsn: begins,
            begins: false,
            frames: 0,
            payload_bytes: 0,
            file_bytes,
        });
        (self.offset, self.lsn) = (0, begins);
        let mut bytes = [0; HEADER_BYTES];
        read_full(&*file, 0, &mut bytes).map_err(|error| self.disk(error))?;
        let head = match FrameHeader::read(&bytes) {
            Ok(head) if head.flags & HEAD != 0 && head.lsn == begins => head,
            Err(HeaderError::Version(version)) => {
                return Err(LogError::Version { name: self.name(), offset: 0, version });
            }
            _ => return Err(self.corrupt("it has no head, which was durable before its name")),
        };
        if !head.is_of(&bytes, &[]) || (!is_first && head.previous != self.chain) {
            return Err(self.corrupt("its head does not follow on the segment before"));
        }
        let is_begin = head.flags & BEGINS != 0;
        self.summaries.last_mut().expect("it was added").begins = is_begin;
        (self.chain, self.salt, self.offset) = (head.chain, head.salt, HEADER_BYTES as u64);
        self.file = Some(file);
        Ok(true)
    }

    /// Reads the next frame of the segment into `frame`; none at its end, which closes it.
    fn read_frame(&mut self) -> Result<Option<FrameHeader>, LogError> {
        let file = self.file.take().expect("a segment is open");
        let length = self.summaries.last().expect("a segment is open").file_bytes;
        let header = match self.frame_here(&*file, length)? {
            Ok(header) => header,
            Err(HeaderError::Version(version)) => {
                return Err(LogError::Version { name: self.name(), offset: self.offset, version });
            }
            Err(_) => match self.judge_end(&*file, length)? {
                Some(header) => header,
                None => return Ok(None),
            },
        };
        if header.flags & HEAD != 0
            || header.lsn != self.lsn
            || header.previous != self.chain
            || header.salt != self.salt
        {
            return Err(self.corrupt("the frame there does not follow on the one before"));
        }
        self.file = Some(file);
        self.offset += self.frame.len() as u64;
        (self.chain, self.lsn) = (header.chain, header.end_lsn());
        let summary = self.summaries.last_mut().expect("a segment is open");
        summary.frames += u64::from(header.payload_bytes > 0);
        summary.payload_bytes += header.payload_bytes;
        Ok(Some(header))
    }

    fn frame_here(
        &mut self,
        file: &dyn LogFile,
        length: u64,
    ) -> Result<Result<FrameHeader, HeaderError>, LogError> {
        let found = tail::frame_at(file, length, self.offset, &mut self.frame);
        found.map_err(|error| self.disk(error))
    }

    /// No frame is at the offset: it is the segment's end, a torn one or not, or damage. Returns
    /// the frame that is there now, of a log that is written meanwhile.
    fn judge_end(
        &mut self,
        file: &dyn LogFile,
        length: u64,
    ) -> Result<Option<FrameHeader>, LogError> {
        let is_last = self.opened == self.segments.len();
        let verdict = tail::judge(file, length, self.offset, self.lsn, self.salt);
        let verdict = verdict.map_err(|error| self.disk(error))?;
        if verdict == Verdict::End {
            return Ok(None);
        }
        // The frame may have been written behind the look for it and before the look at what
        // follows, which then seems to be behind damage.
        if let Ok(header) = self.frame_here(file, length)? {
            return Ok(Some(header));
        }
        match verdict {
            Verdict::End => Ok(None),
            Verdict::Torn { bytes } if is_last => {
                self.torn_bytes = bytes;
                Ok(None)
            }
            Verdict::Torn { .. } => {
                Err(self.corrupt("a later segment follows, before which this one was durable"))
            }
            Verdict::Corrupt(reason) => Err(self.corrupt(reason)),
        }
    }
}

#[cfg(test)]
mod tests;
