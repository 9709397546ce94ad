//! A folder of the file system that keeps a log.

use std::cell::Cell;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, IoSlice};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::Errno;
use sys::background_read::BackgroundRead;

use crate::storage::{Lock, LogFile, Storage};

/// The file that is locked while a process uses the folder.
const LOCK_NAME: &str = "lock";
/// Only this user reads what clients wrote.
const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;

/// A folder, by the path that it had when it was opened.
pub struct Directory {
    path: PathBuf,
    /// The folder itself, to be synced.
    handle: File,
    /// The read that wakes its disk; made when it is first wanted, for all files.
    waking_read: Arc<Mutex<Option<BackgroundRead>>>,
}

impl Directory {
    /// Opens the folder at `path`, which is made if it is not there; its parent is.
    ///
    /// # Errors
    /// When it cannot be made or opened.
    pub fn open(path: &Path) -> io::Result<Directory> {
        // Later changes of the working directory do not matter.
        let path = std::path::absolute(path)?;
        match fs::DirBuilder::new().mode(FOLDER_MODE).create(&path) {
            Ok(()) => {
                if let Some(parent) = path.parent() {
                    File::open(parent)?.sync_all()?;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        Directory::open_existing(&path)
    }

    /// Opens the folder at `path`.
    ///
    /// # Errors
    /// When it is not there, or is no folder.
    pub fn open_existing(path: &Path) -> io::Result<Directory> {
        let path = std::path::absolute(path)?;
        let handle = File::open(&path)?;
        if !handle.metadata()?.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(Directory { path, handle, waking_read: Arc::default() })
    }

    /// Removes the file that is locked while the folder is used, if it is there: for who has made
    /// the folder and gives it up.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn remove_lock(&self) -> io::Result<()> {
        match fs::remove_file(self.path.join(LOCK_NAME)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn file(&self, options: &mut OpenOptions, name: &str) -> io::Result<Box<dyn LogFile>> {
        Ok(Box::new(DiskFile {
            file: options.open(self.path.join(name))?,
            passes_cache: Cell::new(false),
            waking_read: Arc::clone(&self.waking_read),
        }))
    }
}

impl Storage for Directory {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            // A name that is not UTF-8 is none of the log's.
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn LogFile>> {
        let mut options = OpenOptions::new();
        self.file(options.read(true).write(true).create_new(true).mode(FILE_MODE), name)
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn LogFile>> {
        self.file(OpenOptions::new().read(true).write(true), name)
    }

    fn open_read(&self, name: &str) -> io::Result<Box<dyn LogFile>> {
        self.file(OpenOptions::new().read(true), name)
    }

    fn rename(&self, source: &str, target: &str) -> io::Result<()> {
        fs::rename(self.path.join(source), self.path.join(target))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.handle.sync_all()
    }

    fn lock(&self) -> io::Result<Lock> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(FILE_MODE);
        let file = options.open(self.path.join(LOCK_NAME))?;
        match file.try_lock() {
            Ok(()) => Ok(Lock::new(file)),
            Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

struct DiskFile {
    file: File,
    /// The system moves bytes between memory and disk without a copy of its own.
    passes_cache: Cell<bool>,
    waking_read: Arc<Mutex<Option<BackgroundRead>>>,
}

impl DiskFile {
    /// Returns the file, which passes the system's cache or not.
    fn file(&self, passes_cache: bool) -> io::Result<&File> {
        if self.passes_cache.get() != passes_cache {
            let flags = if passes_cache { OFlags::DIRECT } else { OFlags::empty() };
            rustix::fs::fcntl_setfl(&self.file, flags)?;
            self.passes_cache.set(passes_cache);
        }
        Ok(&self.file)
    }
}

impl LogFile for DiskFile {
    fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        self.file(false)?.read_at(bytes, offset)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        self.file(false)?.write_at(bytes, offset)
    }

    fn write_pieces_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(rustix::io::pwritev(self.file(false)?, pieces, offset)?)
    }

    fn write_blocks_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let written =
            self.file(true).and_then(|file| Ok(rustix::io::pwritev(file, pieces, offset)?));
        written.map_err(|error| match Errno::from_io_error(&error) {
            Some(Errno::INVAL | Errno::OPNOTSUPP) => io::ErrorKind::Unsupported.into(),
            _ => error,
        })
    }

    fn wake_disk(&self) -> io::Result<()> {
        // The cache would answer in the disk's place, or the caller would wait for the block.
        let file = self.file(true)?;
        let mut waking_read = self.waking_read.lock().unwrap_or_else(PoisonError::into_inner);
        let read = match &mut *waking_read {
            Some(read) => read,
            none => none.insert(BackgroundRead::new()?),
        };
        // The first block of a segment is there as long as the segment.
        read.begin(file, 0)
    }

    fn reserve(&self, length: u64) -> io::Result<()> {
        match rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, length) {
            // A file system that cannot: room is taken as it is written.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.set_length(length),
            reserved => Ok(reserved?),
        }
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_disk_is_woken_past_the_cache() {
        let path = std::env::temp_dir().join(format!("forebay-wal-wakes-{}", std::process::id()));
        let directory = Directory::open(&path).unwrap();
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(true).open(path.join("s"));
        let file = DiskFile {
            file: file.unwrap(),
            passes_cache: Cell::new(false),
            waking_read: Arc::clone(&directory.waking_read),
        };
        file.set_length(8192).unwrap();
        let flags = || rustix::fs::fcntl_getfl(&file.file).unwrap();
        let takes_direct = file.file(true).is_ok();
        file.file(false).unwrap();
        assert!(!flags().contains(OFlags::DIRECT));
        let is_woken = file.wake_disk().is_ok();
        assert_eq!(is_woken, takes_direct && BackgroundRead::new().is_ok());
        assert_eq!(flags().contains(OFlags::DIRECT), takes_direct);
        assert_eq!(directory.waking_read.lock().unwrap().is_some(), is_woken);
        std::fs::remove_dir_all(&path).unwrap();
    }
}
