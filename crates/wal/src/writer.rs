//! Appends frames to the last segment, begins new segments, and makes what is written durable.

use std::io::IoSlice;
use std::sync::Arc;
use std::{fmt, io};

use rustix::io::Errno;

use crate::block_buffer::{BlockBuffer, lead_bytes};
use crate::frame::{ALIGNMENT, BEGINS, CLOSED, FrameHeader, HEAD, HEADER_BYTES, LEAD_BYTE, Piece};
use crate::reader::LogEnd;
use crate::segment::{
    Preparation, SEGMENT_BYTES, SPARE_NAME, Spare, discard_spare, lsn_of, name_of, remove_log,
    segments_of, zero,
};
use crate::storage::{BLOCK_BYTES, LogFile, Storage, write_all, write_pieces};

/// The file that is to be the next segment where no spare is there.
const NEXT_NAME: &str = "next.tmp";

/// How far a segment that was no spare is filled with zeroes ahead of what is written, so that few
/// syncs have a new length of the file to make durable.
const ZEROED_AHEAD_BYTES: u64 = 1 << 20;

/// How much is written to a segment that was no spare before one is wanted.
const UNPREPARED_BYTES: u64 = 64 * 1024;

/// How a log is written.
#[derive(Clone, Copy, Debug)]
pub struct WriterOptions {
    /// How long segments are, in bytes.
    pub segment_bytes: u64,
    /// The term of the primary that writes.
    pub term: u64,
    /// Random: what the frames of new segments have in common.
    pub salt: u32,
}

impl Default for WriterOptions {
    fn default() -> WriterOptions {
        WriterOptions { segment_bytes: SEGMENT_BYTES, term: 0, salt: 0 }
    }
}

/// What a new log goes on from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// An empty dataset.
    Nothing,
    /// A snapshot that stands for the LSN at which the log begins.
    Snapshot,
}

/// Why nothing was written or made durable.
#[derive(Debug)]
pub enum WriteError {
    /// The disk is full, or the file as large as the process may make one, or the system had no
    /// descriptor or memory for a new segment, of which nothing is there then. The same call
    /// succeeds once there is room.
    Full(io::Error),
    /// The disk has failed. Nothing is written by this writer any more.
    Failed(io::Error),
}

impl fmt::Display for WriteError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (WriteError::Full(error) | WriteError::Failed(error)) = self;
        error.fmt(formatter)
    }
}

impl std::error::Error for WriteError {}

impl WriteError {
    fn of(error: io::Error) -> WriteError {
        match error.kind() {
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => WriteError::Full(error),
            _ => WriteError::Failed(error),
        }
    }

    /// As [`WriteError::of`], where no file could be made.
    fn of_creation(error: io::Error) -> WriteError {
        match Errno::from_io_error(&error) {
            Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM) => WriteError::Full(error),
            _ => WriteError::of(error),
        }
    }
}

/// The end of a log, to be written to. One thread has it.
pub struct Writer {
    storage: Arc<dyn Storage>,
    options: WriterOptions,
    file: Box<dyn LogFile>,
    /// The position at which the segment begins, which is its name.
    begin: u64,
    /// The salt of the segment.
    salt: u32,
    /// Where the next frame begins in the file.
    position: u64,
    /// Up to where the file has been zeroed.
    zeroed_end: u64,
    lsn: u64,
    durable: u64,
    chain: u32,
    /// The frame that is written: kept where the disk was full in its middle.
    frame: Option<Frame>,
    /// What has been written since the last sync, or nothing.
    is_dirty: bool,
    has_failed: bool,
    /// Frames of so many bytes and more are written past the system's cache.
    past_cache_bytes_min: Option<u64>,
    /// The file system has said that it takes no such writes.
    lacks_block_writes: bool,
    blocks: BlockBuffer,
    /// How the segment was prepared; none where it was no spare.
    preparation: Option<Preparation>,
    /// How segments are to be prepared at least.
    wanted: Preparation,
    spare: Option<Spare>,
}

/// A frame that is being written, but for its payload.
struct Frame {
    header: FrameHeader,
    /// How much of the frame has been written.
    written: usize,
}

impl Writer {
    /// Begins a log at `lsn`. Whatever log there was is removed, its latest part first, so that a
    /// power cut in between leaves one that can be read.
    ///
    /// # Errors
    /// [`WriteError`].
    pub fn begin(
        storage: Arc<dyn Storage>,
        lsn: u64,
        begin: Begin,
        options: WriterOptions,
    ) -> Result<Writer, WriteError> {
        tidy(&*storage).map_err(WriteError::of)?;
        remove_log(&*storage).map_err(WriteError::of)?;
        let flags = if begin == Begin::Nothing { HEAD | BEGINS } else { HEAD };
        let head = FrameHeader { flags, ..header(lsn, lsn, 0, &options, options.salt) };
        let (file, chain) = make_segment(&*storage, None, head)?;
        Ok(Writer::new(
            storage,
            options,
            file,
            At {
                begin: lsn,
                lsn,
                chain,
                salt: options.salt,
                position: HEADER_BYTES as u64,
                zeroed_end: 0,
            },
        ))
    }

    /// Goes on behind `end`, where reading the log has come to. What is torn behind it is cut.
    ///
    /// # Errors
    /// [`WriteError`].
    ///
    /// # Panics
    /// When `end` is that of no log: [`Writer::begin`] makes one.
    pub fn resume(
        storage: Arc<dyn Storage>,
        end: &LogEnd,
        options: WriterOptions,
    ) -> Result<Writer, WriteError> {
        let name = end.segment.as_ref().expect("there is a log to go on with");
        tidy(&*storage).map_err(WriteError::of)?;
        let file = storage.open(name).map_err(WriteError::of)?;
        if end.torn_bytes > 0 {
            file.set_length(end.offset).map_err(WriteError::of)?;
        }
        // What was read may not have been durable, and is about to be taken for it.
        file.sync().map_err(WriteError::Failed)?;
        storage.sync_directory().map_err(WriteError::Failed)?;
        let zeroed_end = file.length().map_err(WriteError::of)?;
        let begin = lsn_of(name).expect("a segment is named by its position");
        let (lsn, chain, salt, position) = (end.lsn, end.chain, end.salt, end.offset);
        let at = At { begin, lsn, chain, salt, position, zeroed_end };
        Ok(Writer::new(storage, options, file, at))
    }

    /// Ends the log at `end`, where reading it has come to, whatever is behind: later segments are
    /// removed, the last one first.
    ///
    /// # Errors
    /// [`WriteError`].
    ///
    /// # Panics
    /// When `end` is that of no log.
    pub fn cut(
        storage: Arc<dyn Storage>,
        end: &LogEnd,
        options: WriterOptions,
    ) -> Result<(), WriteError> {
        let last = end.segment.as_ref().expect("there is a log to cut");
        for (_, name) in segments_of(&*storage).map_err(WriteError::of)?.iter().rev() {
            if name <= last {
                break;
            }
            storage.remove(name).map_err(WriteError::of)?;
            storage.sync_directory().map_err(WriteError::of)?;
        }
        let file = storage.open(last).map_err(WriteError::of)?;
        file.set_length(end.offset).map_err(WriteError::of)?;
        drop(file);
        Writer::resume(storage, end, options).map(|_| ())
    }

    fn new(
        storage: Arc<dyn Storage>,
        options: WriterOptions,
        file: Box<dyn LogFile>,
        at: At,
    ) -> Writer {
        Writer {
            storage,
            options,
            file,
            begin: at.begin,
            salt: at.salt,
            position: at.position,
            zeroed_end: at.zeroed_end,
            lsn: at.lsn,
            durable: at.lsn,
            chain: at.chain,
            frame: None,
            is_dirty: false,
            has_failed: false,
            past_cache_bytes_min: None,
            lacks_block_writes: false,
            blocks: BlockBuffer::default(),
            // One that is gone on with does not say how it was prepared. To leave it would take the
            // room of a segment at each start.
            preparation: (at.zeroed_end >= options.segment_bytes).then_some(Preparation::Zeroed),
            wanted: Preparation::Reserved,
            spare: None,
        }
    }

    /// Returns the position behind what is written.
    pub fn lsn(&self) -> u64 {
        self.lsn
    }

    /// Returns the position up to which the log is durable.
    pub fn durable_lsn(&self) -> u64 {
        self.durable
    }

    /// Returns how long segments are.
    pub fn segment_bytes(&self) -> u64 {
        self.options.segment_bytes
    }

    /// Has frames of `bytes_min` and more be written past the system's cache where that can be, or
    /// none: for less of the processor, but each waits for the disk.
    pub fn set_past_cache_bytes_min(&mut self, bytes_min: Option<u64>) {
        self.past_cache_bytes_min = bytes_min;
        if bytes_min.is_none() {
            self.blocks = BlockBuffer::default();
        }
    }

    /// From now on takes only spares that were prepared in this way, or in one that makes syncs
    /// quicker, and drops one that was not.
    pub fn set_preparation(&mut self, wanted: Preparation) {
        self.wanted = wanted;
        self.spare = self.spare.take().filter(|spare| spare.preparation >= wanted);
    }

    /// Has the disk awake where a frame follows within some 100 us, without waiting for it where
    /// the system allows that.
    ///
    /// # Errors
    /// When it cannot be woken, such as where usual frames are written to the system's cache.
    pub fn wake_disk(&self) -> io::Result<()> {
        match self.past_cache_bytes_min {
            Some(0) if self.takes_block_writes() => self.file.wake_disk(),
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Returns the memory from which frames are written past the system's cache, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.blocks.memory_bytes()
    }

    /// Returns whether a spare segment would be taken: one is, from [`crate::prepare_spare`].
    pub fn wants_spare(&self) -> bool {
        self.spare_due_bytes() > 0
    }

    /// Returns how much of a spare segment is to be zeroed by now, 0 where none would be taken.
    ///
    /// Where the segment that is written was prepared as wanted, that is twice as much as it has
    /// behind its first quarter: the disk has time for the log in between, and the spare is there
    /// when three quarters are written.
    pub fn spare_due_bytes(&self) -> u64 {
        let segment_bytes = self.options.segment_bytes;
        let quarter = segment_bytes / 4;
        let is_slow = self.is_slow();
        // Not for a log that hardly grows.
        let near = if is_slow { UNPREPARED_BYTES.min(quarter) } else { quarter };
        if self.position < near || self.spare.is_some() || self.has_failed {
            return 0;
        }
        match is_slow {
            true => segment_bytes,
            false => segment_bytes.min(2 * (self.position - near) + 1),
        }
    }

    /// Returns whether syncs of the segment that is written take longer than they have to, as it
    /// was not prepared as wanted.
    fn is_slow(&self) -> bool {
        self.preparation < Some(self.wanted)
    }

    /// Takes `spare` to become the next segment, unless another preparation is wanted by now.
    pub fn offer_spare(&mut self, spare: Spare) {
        self.spare = Some(spare).filter(|spare| spare.preparation >= self.wanted);
    }

    /// Gives the room of the spare back to the disk. None may be being prepared.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn discard_spare(&mut self) -> io::Result<()> {
        self.spare = None;
        discard_spare(&*self.storage)
    }

    /// Appends `payload` as one frame; returns the bytes that the frame takes. It is not durable
    /// before [`Writer::sync`].
    ///
    /// # Errors
    /// [`WriteError::Full`], whereupon the caller appends the same payload once more, before any
    /// other and as often as it likes; or [`WriteError::Failed`].
    ///
    /// # Panics
    /// When the payload is empty, or another than the one that is still to be appended.
    pub fn append(&mut self, payload: &[u8]) -> Result<u64, WriteError> {
        self.append_pieces([Piece::from(payload)].into_iter())
    }

    /// As [`Writer::append`], of a payload that is in `pieces`, none of which is empty.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// As there.
    pub fn append_pieces<'a>(
        &mut self,
        pieces: impl Iterator<Item = Piece<'a>> + Clone,
    ) -> Result<u64, WriteError> {
        self.check()?;
        let appended = self.try_append(pieces);
        self.note(appended)
    }

    /// Makes all that was appended durable.
    ///
    /// # Errors
    /// [`WriteError::Failed`]: what was appended since the last sync may be lost or not.
    pub fn sync(&mut self) -> Result<(), WriteError> {
        self.check()?;
        let synced = self.try_sync();
        self.note(synced)
    }

    /// Ends the log in order: all is durable, and what is read later says so.
    ///
    /// # Errors
    /// [`WriteError`]. The log can be read nevertheless.
    pub fn close(mut self) -> Result<(), WriteError> {
        self.sync()?;
        if self.frame.is_none() {
            let closed = FrameHeader { flags: CLOSED, ..self.header() };
            self.write_frame(closed, std::iter::empty())?;
            self.file.sync().map_err(WriteError::Failed)?;
        }
        self.spare = None;
        tidy(&*self.storage).map_err(WriteError::of)
    }

    fn check(&self) -> Result<(), WriteError> {
        match self.has_failed {
            true => Err(WriteError::Failed(io::Error::other("the log has failed before"))),
            false => Ok(()),
        }
    }

    fn note<T>(&mut self, result: Result<T, WriteError>) -> Result<T, WriteError> {
        self.has_failed |= matches!(result, Err(WriteError::Failed(_)));
        result
    }

    fn header(&self) -> FrameHeader {
        header(self.lsn, self.durable, self.chain, &self.options, self.salt)
    }

    fn try_append<'a>(
        &mut self,
        pieces: impl Iterator<Item = Piece<'a>> + Clone,
    ) -> Result<u64, WriteError> {
        let payload_bytes = pieces.clone().map(|piece| piece.bytes.len() as u64).sum();
        assert!(payload_bytes > 0, "a frame has a payload");
        let header = |writer: &Writer| FrameHeader { payload_bytes, ..writer.header() };
        if self.frame.is_none() {
            let end = self.position + header(self).file_bytes();
            // The next one would have the same name, though a mark of an end in order is in this.
            let is_empty = self.lsn == self.begin;
            let is_left = self.is_slow() && self.spare.is_some();
            if (end > self.options.segment_bytes || is_left) && !is_empty {
                self.begin_segment()?;
            }
        }
        let position = self.position;
        self.write_frame(header(self), pieces)?;
        self.lsn += payload_bytes;
        Ok(self.position - position)
    }

    /// Writes the frame of `header` and `pieces`, or what is left of it.
    fn write_frame<'a>(
        &mut self,
        mut header: FrameHeader,
        pieces: impl Iterator<Item = Piece<'a>> + Clone,
    ) -> Result<(), WriteError> {
        if self.frame.is_none() && self.write_past_cache(&mut header, pieces.clone())? {
            return Ok(());
        }
        let frame = match &mut self.frame {
            Some(frame) => {
                let chain = frame.header.chain_of(pieces.clone());
                let is_same = (frame.header.payload_bytes, frame.header.chain)
                    == (header.payload_bytes, chain);
                assert!(is_same, "a frame that the disk had no room for comes before any other");
                frame
            }
            none => {
                header.chain = header.chain_of(pieces.clone());
                none.insert(Frame { header, written: 0 })
            }
        };
        let header = frame.header;
        let frame_bytes = header.file_bytes();
        let end = self.position + frame_bytes;
        if end > self.zeroed_end {
            let zeroed_end = (end + ZEROED_AHEAD_BYTES).min(self.options.segment_bytes).max(end);
            zero(&*self.file, end, zeroed_end).map_err(WriteError::of)?;
            self.zeroed_end = zeroed_end;
        }
        self.is_dirty = true;
        self.blocks.forget();
        let mut head = header.encode().to_vec();
        head.resize(header.payload_at(), LEAD_BYTE);
        let padding = [0; ALIGNMENT as usize];
        let padding_bytes = (frame_bytes - header.payload_bytes) as usize - header.payload_at();
        let mut parts = vec![IoSlice::new(&head)];
        parts.extend(pieces.map(|piece| IoSlice::new(piece.bytes)));
        parts.push(IoSlice::new(&padding[..padding_bytes]));
        let mut written = frame.written;
        let ended = write_pieces(&*self.file, self.position, &mut parts, &mut written);
        frame.written = written;
        ended.map_err(WriteError::of)?;
        (self.position, self.chain) = (end, header.chain);
        self.frame = None;
        Ok(())
    }

    /// Returns whether the segment takes writes past the system's cache. Where it was not prepared
    /// the cache has zeroes ahead of the frame, which would be written before it.
    fn takes_block_writes(&self) -> bool {
        self.zeroed_end >= self.options.segment_bytes && !self.lacks_block_writes
    }

    /// Writes the frame of `header` and `pieces` past the system's cache where that is wanted and
    /// can be; returns whether it is written. Where it cannot be after all, it is to have the
    /// header that is there then, as a part of it may have been written. Where the disk has no
    /// room, nothing of it counts.
    fn write_past_cache<'a>(
        &mut self,
        header: &mut FrameHeader,
        pieces: impl Iterator<Item = Piece<'a>> + Clone,
    ) -> Result<bool, WriteError> {
        let bytes_min = self.past_cache_bytes_min;
        let is_large = bytes_min.is_some_and(|bytes_min| header.file_bytes() >= bytes_min);
        if !is_large || !self.takes_block_writes() {
            return Ok(false);
        }
        let lead_bytes = lead_bytes(self.position + HEADER_BYTES as u64, pieces.clone());
        if self.has_room_past_cache(&FrameHeader { lead_bytes, ..*header }) {
            header.lead_bytes = lead_bytes;
        }
        if !self.has_room_past_cache(header) {
            return Ok(false);
        }
        self.is_dirty = true;
        match self.blocks.write(&*self.file, self.position, *header, pieces.clone()) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                (self.lacks_block_writes, self.blocks) = (true, BlockBuffer::default());
                Ok(false)
            }
            written => {
                let written = written.map_err(WriteError::of);
                if let Err(WriteError::Full(_)) = written {
                    // A part of it may be there: with another header, of a later sync, the two
                    // would be mixed where the power is cut meanwhile, which is damage.
                    header.chain = header.chain_of(pieces);
                    self.frame = Some(Frame { header: *header, written: 0 });
                }
                self.chain = written?;
                self.position += header.file_bytes();
                Ok(true)
            }
        }
    }

    /// Returns whether the segment and the buffer have room for the frame of `header`, with what
    /// fills its last block.
    fn has_room_past_cache(&self, header: &FrameHeader) -> bool {
        let frame_bytes = header.file_bytes();
        let end = (self.position + frame_bytes).next_multiple_of(BLOCK_BYTES as u64);
        BlockBuffer::has_room_for(frame_bytes) && end <= self.options.segment_bytes
    }

    fn try_sync(&mut self) -> Result<(), WriteError> {
        if self.is_dirty {
            // Whatever the reason, a full disk too: what was to be durable is perhaps not.
            self.file.sync().map_err(WriteError::Failed)?;
            self.is_dirty = false;
        }
        self.durable = self.lsn;
        Ok(())
    }

    /// Goes on in a new segment. The one before is durable first, so that its end is no torn one
    /// where a later segment is there.
    fn begin_segment(&mut self) -> Result<(), WriteError> {
        self.try_sync()?;
        let salt = self.options.salt;
        let flags = HEAD;
        let head = FrameHeader {
            flags,
            ..header(self.lsn, self.durable, self.chain, &self.options, salt)
        };
        let spare = self.spare.take();
        let preparation = spare.as_ref().map(|spare| spare.preparation);
        let file = spare.map(|spare| spare.file);
        (self.file, self.chain) = make_segment(&*self.storage, file, head)?;
        self.salt = salt;
        self.begin = self.lsn;
        self.position = HEADER_BYTES as u64;
        self.zeroed_end = if preparation.is_some() { self.options.segment_bytes } else { 0 };
        self.preparation = preparation;
        self.blocks.forget();
        Ok(())
    }
}

/// Where a writer begins.
struct At {
    begin: u64,
    lsn: u64,
    chain: u32,
    salt: u32,
    position: u64,
    zeroed_end: u64,
}

fn header(
    lsn: u64,
    durable: u64,
    previous: u32,
    options: &WriterOptions,
    salt: u32,
) -> FrameHeader {
    let term = options.term;
    FrameHeader {
        flags: 0,
        lead_bytes: 0,
        payload_bytes: 0,
        lsn,
        term,
        durable,
        previous,
        chain: 0,
        salt,
    }
}

/// Makes the segment of `head`, of `spare` where there is one. It has its name only once its head
/// is durable: a segment without a head is damaged.
fn make_segment(
    storage: &dyn Storage,
    spare: Option<Box<dyn LogFile>>,
    head: FrameHeader,
) -> Result<(Box<dyn LogFile>, u32), WriteError> {
    let (file, source) = match spare {
        Some(spare) => (spare, SPARE_NAME),
        None => {
            discard(storage, NEXT_NAME).map_err(WriteError::of)?;
            (storage.create(NEXT_NAME).map_err(WriteError::of_creation)?, NEXT_NAME)
        }
    };
    let mut bytes = Vec::new();
    let chain = head.put(&[], &mut bytes);
    write_all(&*file, 0, &bytes, &mut 0).map_err(WriteError::of)?;
    file.sync().map_err(WriteError::Failed)?;
    storage.rename(source, &name_of(head.lsn)).map_err(WriteError::of)?;
    storage.sync_directory().map_err(WriteError::Failed)?;
    Ok((file, chain))
}

fn discard(storage: &dyn Storage, name: &str) -> io::Result<()> {
    match storage.remove(name) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Removes what has not become a segment.
fn tidy(storage: &dyn Storage) -> io::Result<()> {
    discard_spare(storage)?;
    discard(storage, NEXT_NAME)
}
