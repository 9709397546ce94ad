//! A read that a disk does while its caller goes on (libaio's system calls, io_submit(2)).

use std::ffi::{c_long, c_ulong};
use std::os::fd::{AsFd, AsRawFd};
use std::{io, mem, ptr};

use crate::fork::Generation;
use crate::wide_buffer::WideBuffer;

/// The size of a read: the block of every disk, or some of them.
const READ_BYTES: usize = 4096;
/// IOCB_CMD_PREAD.
const READ_COMMAND: u16 = 0;

/// One read at a time whose bytes nobody looks at.
///
/// The system's context for it belongs to this process: in a forked child each read fails.
#[derive(Debug)]
pub struct BackgroundRead {
    context: c_ulong,
    /// Where the system puts the bytes, at any time until the read has ended.
    buffer: WideBuffer,
    /// One was begun and its end has not been seen.
    is_begun: bool,
    /// The process that has the context.
    owner: Generation,
}

/// What the system tells of an end (struct io_event), which nobody looks at.
type Completion = [u64; 4];

impl BackgroundRead {
    /// # Errors
    /// When the system has no such reads, or no more of them.
    pub fn new() -> io::Result<BackgroundRead> {
        let buffer = WideBuffer::new(READ_BYTES)?;
        let mut context: c_ulong = 0;
        // SAFETY: the system writes the new context, and nothing else, where it is told to.
        let made = unsafe { libc::syscall(libc::SYS_io_setup, 1_u32, &raw mut context) };
        checked(made)?;
        Ok(BackgroundRead { context, buffer, is_begun: false, owner: Generation::current() })
    }

    /// Begins to read the block of `file` at `offset`, unless the last read has not ended. The
    /// caller does not wait for the bytes where the file is read past the system's cache (O_DIRECT)
    /// and its file system reads so; it may wait for room in the queue of a busy disk.
    ///
    /// How the read ends nobody is told.
    ///
    /// # Errors
    /// When none can be begun, such as at an offset that the disk has no block at.
    pub fn begin(&mut self, file: impl AsFd, offset: u64) -> io::Result<()> {
        if self.is_begun && !self.has_ended()? {
            return Ok(());
        }
        self.is_begun = false;
        // SAFETY: zeroes are a value of it.
        let mut request: libc::iocb = unsafe { mem::zeroed() };
        request.aio_lio_opcode = READ_COMMAND;
        request.aio_fildes = file.as_fd().as_raw_fd() as u32;
        request.aio_buf = self.buffer.as_mut_ptr().expose_provenance() as u64;
        request.aio_nbytes = READ_BYTES as u64;
        request.aio_offset = offset as i64;
        let mut requests = [&raw mut request];
        let count: c_long = 1;
        // SAFETY: the system has read request and array when the call ends. It writes to the
        // buffer, of so many bytes, until the read ends: nobody else uses that, and it is only
        // given back once the context is gone, which waits for the read.
        let begun = unsafe {
            libc::syscall(libc::SYS_io_submit, self.context, count, requests.as_mut_ptr())
        };
        self.is_begun = checked(begun)? == 1;
        Ok(())
    }

    /// Returns whether the read that was begun has ended.
    fn has_ended(&self) -> io::Result<bool> {
        let mut completion = Completion::default();
        let (min, max): (c_long, c_long) = (0, 1);
        let no_limit = ptr::null::<libc::timespec>();
        // SAFETY: the system writes one completion at most, which there is room for. It waits for
        // none.
        let ended = unsafe {
            let room = &raw mut completion;
            libc::syscall(libc::SYS_io_getevents, self.context, min, max, room, no_limit)
        };
        Ok(checked(ended)? == 1)
    }
}

impl Drop for BackgroundRead {
    /// Waits for the read, if one has not ended.
    fn drop(&mut self) {
        // SAFETY: the context is not used any more. The call ends when its read has; in a forked
        // child, where the read is none of this memory, it fails.
        let destroyed = unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
        debug_assert!(destroyed == 0 || !self.owner.is_current(), "it is there");
    }
}

fn checked(result: c_long) -> io::Result<c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::os::unix::fs::{FileExt, OpenOptionsExt};
    use std::time::{Duration, Instant};

    use super::*;

    /// Returns one, none where the system has none.
    fn background_read() -> Option<BackgroundRead> {
        match BackgroundRead::new() {
            // A container may be without.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => None,
            made => Some(made.unwrap()),
        }
    }

    #[test]
    fn block_is_read_again_and_again() {
        let Some(mut read) = background_read() else { return };
        let path = std::env::temp_dir().join(format!("sys-background-{}", std::process::id()));
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).mode(0o600);
        let file = options.open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        // More often than the system keeps ends that nobody has asked for.
        for byte in (0..1000).map(|number| number as u8) {
            file.write_all_at(&[byte; 3 * READ_BYTES], 0).unwrap();
            read.begin(&file, READ_BYTES as u64).unwrap();
            let begun = Instant::now();
            while !read.has_ended().unwrap() {
                assert!(begun.elapsed() < Duration::from_secs(60), "it ends");
            }
            read.is_begun = false;
            assert_eq!(*read.buffer, [byte; READ_BYTES]);
        }
        // As who does not ask for the ends.
        (0..1000).for_each(|_| read.begin(&file, 0).unwrap());
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        let Some(mut read) = background_read() else { return };
        let file = OpenOptions::new().write(true).open("/dev/null").unwrap();
        assert_eq!(read.begin(&file, 0).unwrap_err().raw_os_error(), Some(libc::EBADF));
        let file = OpenOptions::new().read(true).open("/dev/null").unwrap();
        assert!(read.begin(&file, u64::MAX).is_err());
        read.begin(&file, 0).unwrap();
    }
}
