//! Writes a report: write(2), and a buffer of one line.

use std::ffi::CString;
use std::fmt::{self, Arguments, Write};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicI32, AtomicI64, Ordering};

use super::Report;
use crate::clock::{date_of_day, local_parts, realtime};

/// Bytes that are written in one piece at most.
const BUFFER_BYTES: usize = 512;
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Where a report goes.
#[derive(Clone, Debug)]
pub enum Log {
    /// The end of a file, by its absolute path; standard error where it cannot be opened.
    File(CString),
    /// Standard output.
    Output,
    /// Nowhere.
    Nothing,
}

/// The log while it is open for a report; -1 before.
static DESCRIPTOR: AtomicI32 = AtomicI32::new(-1);
/// Seconds that local time is ahead of UTC, as of [`prepare`]: to ask for it needs a lock.
static ZONE_SECONDS: AtomicI64 = AtomicI64::new(0);

/// Finds out what may not be asked for later.
pub(super) fn prepare() {
    ZONE_SECONDS.store(local_parts(realtime()).tm_gmtoff, Ordering::SeqCst);
}

/// Writes to the log without allocating or locking; what cannot be written is lost.
pub struct Output {
    descriptor: i32,
    buffer: [u8; BUFFER_BYTES],
    count: usize,
}

impl Output {
    /// Returns what writes to the log of `report`; to standard error without one.
    pub(super) fn open(report: Option<&Report>) -> Output {
        let known = DESCRIPTOR.load(Ordering::SeqCst);
        let descriptor = if known >= 0 { known } else { descriptor_of(report) };
        DESCRIPTOR.store(descriptor, Ordering::SeqCst);
        Output { descriptor, buffer: [0; BUFFER_BYTES], count: 0 }
    }

    /// Returns what writes to `file`, as long as that is open.
    pub fn to(file: &File) -> Output {
        Output { descriptor: file.as_raw_fd(), buffer: [0; BUFFER_BYTES], count: 0 }
    }

    /// Writes `text` as it is.
    pub fn raw(&mut self, text: &str) {
        self.push(text.as_bytes());
        self.flush();
    }

    /// Writes `text` as it is.
    pub fn formatted(&mut self, text: Arguments<'_>) {
        // It takes any text.
        let _ = self.write_fmt(text);
        self.flush();
    }

    /// Writes `text` as a line of the log, of the highest level.
    pub fn line(&mut self, text: Arguments<'_>) {
        self.begin_line(text);
        self.raw("\n");
    }

    /// Writes `text` as the beginning of such a line.
    pub fn begin_line(&mut self, text: Arguments<'_>) {
        let now = realtime().0;
        let local = now.div_euclid(1000) + ZONE_SECONDS.load(Ordering::SeqCst);
        let (year, month, day) = date_of_day(local.div_euclid(86_400));
        let second = local.rem_euclid(86_400);
        let clock = (second / 3600, second / 60 % 60, second % 60, now.rem_euclid(1000));
        let (hour, minute, second, millisecond) = clock;
        let month = MONTHS[usize::from(month) - 1];
        let process = std::process::id();
        self.formatted(format_args!(
            "{process}:M {day:02} {month} {year} {hour:02}:{minute:02}:{second:02}.\
             {millisecond:03} # {text}"
        ));
    }

    /// Writes `bytes` in double quotes, those that are no printable ASCII as Redis escapes them.
    pub fn quoted(&mut self, bytes: &[u8]) {
        self.push(b"\"");
        for &byte in bytes {
            match byte {
                b'\\' | b'"' => self.push(&[b'\\', byte]),
                b'\n' => self.push(b"\\n"),
                b'\r' => self.push(b"\\r"),
                b'\t' => self.push(b"\\t"),
                0x07 => self.push(b"\\a"),
                0x08 => self.push(b"\\b"),
                b' '..=b'~' => self.push(&[byte]),
                _ => {
                    // It takes any text.
                    let _ = write!(self, "\\x{byte:02x}");
                }
            }
        }
        self.push(b"\"");
        self.flush();
    }

    fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.count == BUFFER_BYTES {
                self.flush();
            }
            let taken = bytes.len().min(BUFFER_BYTES - self.count);
            self.buffer[self.count..self.count + taken].copy_from_slice(&bytes[..taken]);
            self.count += taken;
            bytes = &bytes[taken..];
        }
    }

    fn flush(&mut self) {
        let mut rest = &self.buffer[..self.count];
        while !rest.is_empty() {
            // SAFETY: the bytes are a live buffer of that length.
            let written = unsafe { libc::write(self.descriptor, rest.as_ptr().cast(), rest.len()) };
            match usize::try_from(written) {
                Ok(1..) => rest = &rest[written as usize..],
                // Interrupted by the limit of time, whose handler has gone on; or not possible.
                _ => break,
            }
        }
        self.count = 0;
    }
}

impl Write for Output {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text.as_bytes());
        Ok(())
    }
}

fn descriptor_of(report: Option<&Report>) -> i32 {
    const ERRORS: i32 = libc::STDERR_FILENO;
    let path = match report.map(|report| &report.log) {
        None => return ERRORS,
        Some(Log::Output) => return libc::STDOUT_FILENO,
        Some(Log::Nothing) => c"/dev/null",
        Some(Log::File(path)) => path.as_c_str(),
    };
    let flags = libc::O_WRONLY | libc::O_APPEND | libc::O_CREAT | libc::O_CLOEXEC;
    const MODE: libc::c_uint = 0o644;
    // SAFETY: the path is a string that lives as long as the process.
    match unsafe { libc::open(path.as_ptr(), flags, MODE) } {
        ..0 => ERRORS,
        descriptor => descriptor,
    }
}
