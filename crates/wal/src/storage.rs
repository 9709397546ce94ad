//! What the log asks of a disk. All of it may fail; none of it is retried here.

use std::io::{self, IoSlice};

/// Blocks are of this: a multiple of what disks ask for.
pub const BLOCK_BYTES: usize = 4096;
/// How many pieces are written in one step at most (IOV_MAX of Linux).
const PIECES_MAX: usize = 1024;

/// A folder that has the files of one log.
pub trait Storage: Send + Sync {
    /// Returns the names of the files in it, in no order.
    ///
    /// # Errors
    /// When it cannot be read.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Creates the file `name`, empty; it survives a power cut only after
    /// [`Storage::sync_directory`].
    ///
    /// # Errors
    /// When there is one of this name, or none can be made.
    fn create(&self, name: &str) -> io::Result<Box<dyn LogFile>>;

    /// Opens the file `name`, to be read and written.
    ///
    /// # Errors
    /// When it is not there, or may not be written.
    fn open(&self, name: &str) -> io::Result<Box<dyn LogFile>>;

    /// Opens the file `name`, to be read only.
    ///
    /// # Errors
    /// When it is not there, or may not be read.
    fn open_read(&self, name: &str) -> io::Result<Box<dyn LogFile>>;

    /// Gives the file `source` the name `target`, in one step, in place of what had it.
    ///
    /// # Errors
    /// When that is not possible.
    fn rename(&self, source: &str, target: &str) -> io::Result<()>;

    /// Removes the file `name`.
    ///
    /// # Errors
    /// When it is not there or cannot be removed.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes the names of the files durable.
    ///
    /// # Errors
    /// When the disk fails.
    fn sync_directory(&self) -> io::Result<()>;

    /// Claims the folder for this process until the lock is dropped.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when another holds it.
    fn lock(&self) -> io::Result<Lock>;
}

/// One file of a log.
pub trait LogFile: Send {
    /// Returns the file's length in bytes.
    ///
    /// # Errors
    /// When the disk fails.
    fn length(&self) -> io::Result<u64>;

    /// Reads into `bytes` from byte `offset` on; returns how many, 0 at the end of the file.
    ///
    /// # Errors
    /// When the disk fails.
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize>;

    /// Writes `bytes` from byte `offset` on, perhaps not all of them; returns how many, never 0 of
    /// any. A file that ends before `offset` has zeroes between.
    ///
    /// # Errors
    /// When the disk fails or is full.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<usize>;

    /// As [`LogFile::write_at`], of `pieces` one after the other, in one step where that can be.
    ///
    /// # Errors
    /// When the disk fails or is full.
    fn write_pieces_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> io::Result<usize>;

    /// As [`LogFile::write_pieces_at`], which the system keeps no copy of: the disk takes each
    /// piece from where it is. Each is whole blocks of [`BLOCK_BYTES`], in the
    /// file as in memory. Durable as after any write, by a sync.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] where the file system has no such writes, or asks for more of
    /// them; else when the disk fails or is full.
    fn write_blocks_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Has the disk awake where a write of blocks follows within some 100 us. Asks it for something
    /// whose end is not waited for, where the system does not have everybody wait. Nothing is to be
    /// done for a disk that does not sleep.
    ///
    /// # Errors
    /// When it cannot be woken, such as where the file system has no writes of blocks. That says
    /// nothing about writes.
    fn wake_disk(&self) -> io::Result<()> {
        Ok(())
    }

    /// Makes the file `length` bytes long, and has the disk keep room for all of them where its
    /// file system can: new bytes are zeroes, which nobody has to write.
    ///
    /// # Errors
    /// When the disk fails or is full.
    fn reserve(&self, length: u64) -> io::Result<()> {
        self.set_length(length)
    }

    /// Makes the file `length` bytes long; new bytes are zeroes.
    ///
    /// # Errors
    /// When the disk fails or is full.
    fn set_length(&self, length: u64) -> io::Result<()>;

    /// Makes the content and the length durable (fdatasync). After a failure nobody knows what of
    /// it is, and a later success says nothing about it.
    ///
    /// # Errors
    /// When the disk fails.
    fn sync(&self) -> io::Result<()>;
}

/// A folder's lock, released when it is dropped.
pub struct Lock {
    /// What holds it.
    _held: Box<dyn Send + Sync>,
}

impl Lock {
    /// Returns the lock that `held` holds until it is dropped.
    pub fn new(held: impl Send + Sync + 'static) -> Lock {
        Lock { _held: Box::new(held) }
    }
}

/// Returns what the file `name` has, none where it is not there.
///
/// # Errors
/// When it cannot be read, or has more than `bytes_max` bytes.
pub fn read_file(storage: &dyn Storage, name: &str, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    let file = match storage.open_read(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let length = file.length()?;
    if length > bytes_max {
        return Err(io::Error::other(format!("it has {length} bytes, {bytes_max} are expected")));
    }
    let mut bytes = vec![0; length as usize];
    let read = read_full(&*file, 0, &mut bytes)?;
    bytes.truncate(read);
    Ok(Some(bytes))
}

/// Makes `bytes` what the file `name` has, in one step and durably.
///
/// # Errors
/// When the disk fails or is full; what was there before is, or these bytes are.
pub fn replace_file(storage: &dyn Storage, name: &str, bytes: &[u8]) -> io::Result<()> {
    let own = format!("{name}.tmp");
    match storage.remove(&own) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = storage.create(&own)?;
    write_all(&*file, 0, bytes, &mut 0)?;
    file.sync()?;
    storage.rename(&own, name)?;
    storage.sync_directory()
}

/// Returns the checksum of `bytes` that files of a log have.
pub fn checksum(bytes: &[u8]) -> u32 {
    base::crc32c::of(bytes)
}

/// Writes all of `bytes` from byte `offset` on, in as many steps as it takes; `done` counts what is
/// written, also where it fails.
pub(crate) fn write_all(
    file: &dyn LogFile,
    offset: u64,
    bytes: &[u8],
    done: &mut usize,
) -> io::Result<()> {
    while *done < bytes.len() {
        match file.write_at(offset + *done as u64, &bytes[*done..]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => *done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// As [`write_all`], of `pieces` one after the other.
pub(crate) fn write_pieces(
    file: &dyn LogFile,
    offset: u64,
    pieces: &mut [IoSlice<'_>],
    done: &mut usize,
) -> io::Result<()> {
    write_by(|offset, pieces| file.write_pieces_at(offset, pieces), offset, pieces, done)
}

/// As [`write_pieces`], by [`LogFile::write_blocks_at`].
pub(crate) fn write_blocks(
    file: &dyn LogFile,
    offset: u64,
    pieces: &mut [IoSlice<'_>],
) -> io::Result<()> {
    write_by(|offset, pieces| file.write_blocks_at(offset, pieces), offset, pieces, &mut 0)
}

fn write_by(
    write: impl Fn(u64, &[IoSlice<'_>]) -> io::Result<usize>,
    offset: u64,
    pieces: &mut [IoSlice<'_>],
    done: &mut usize,
) -> io::Result<()> {
    let mut left = pieces;
    IoSlice::advance_slices(&mut left, *done);
    while !left.is_empty() {
        // As many as every system takes at once.
        let some = &left[..left.len().min(PIECES_MAX)];
        match write(offset + *done as u64, some) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                *done += count;
                IoSlice::advance_slices(&mut left, count);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads from byte `offset` on until `bytes` are full or the file ends; returns how many.
pub(crate) fn read_full(file: &dyn LogFile, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < bytes.len() {
        match file.read_at(offset + done as u64, &mut bytes[done..]) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}
