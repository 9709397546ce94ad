//! Whether writes are admitted: checked before anything changes.

use std::io;
use std::sync::atomic::{AtomicI32, AtomicU8, Ordering};

use sys::error_text::base_text;

/// Why no write is admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum WriteRefusal {
    /// Another server is the primary of these data.
    Fenced = 1,
    /// The disk that keeps the effects is full, or another limit on what it takes is reached.
    DiskFull = 2,
    /// A consumer that has to have every effect is too far behind.
    LogFull = 4,
    /// The disk that keeps the effects has failed.
    LogFailed = 8,
    /// The dataset could not be saved. Keys expire and are evicted all the same.
    Unsaved = 16,
    /// The data are being read at start. Most reads are refused as well.
    Loading = 32,
}

/// The reasons that an error of the disk is behind.
const OF_DISK: u8 = WriteRefusal::DiskFull as u8 | WriteRefusal::LogFailed as u8;

/// Whether writes are admitted. Costs one load where they are.
#[derive(Debug, Default)]
pub struct Admission {
    /// One bit for each reason not to.
    reasons: AtomicU8,
    /// The number of the system's error (errno) behind `DiskFull` or `LogFailed`, the latest; 0
    /// where that had none.
    disk_error: AtomicI32,
}

impl Admission {
    /// Returns why no write is taken, the weightiest reason first; none where writes are.
    #[inline]
    pub fn refused(&self) -> Option<WriteRefusal> {
        match self.reasons.load(Ordering::Relaxed) {
            0 => None,
            reasons => Some(weightiest(reasons)),
        }
    }

    /// Returns whether nothing may change at all, neither by a request nor by itself.
    pub fn stops_all(&self) -> bool {
        self.reasons.load(Ordering::Relaxed) & !(WriteRefusal::Unsaved as u8) != 0
    }

    /// Returns whether the data are being read at start.
    #[inline]
    pub fn is_loading(&self) -> bool {
        self.reasons.load(Ordering::Relaxed) & WriteRefusal::Loading as u8 != 0
    }

    /// Takes no write from now on, for this reason, which no error of the disk is behind. What is
    /// under way completes.
    pub fn refuse(&self, reason: WriteRefusal) {
        self.reasons.fetch_or(reason as u8, Ordering::Relaxed);
    }

    /// Takes no write from now on, as the disk did not take what came before: `reason` is
    /// `DiskFull` or `LogFailed`, `error` what the disk said.
    pub fn refuse_for(&self, reason: WriteRefusal, error: &io::Error) {
        debug_assert!(reason as u8 & OF_DISK != 0, "{reason:?} has no error of the disk");
        self.disk_error.store(error.raw_os_error().unwrap_or(0), Ordering::Relaxed);
        // SYNC POINT: the error before its reason. Pairs with the load in `disk_error`.
        self.reasons.fetch_or(reason as u8, Ordering::Release);
    }

    /// Returns the system's words for the error of the disk for which writes are refused, where
    /// there is one and the system gave it a number.
    pub fn disk_error(&self) -> Option<String> {
        // SYNC POINT: the error before its reason. Pairs with the addition in `refuse_for`.
        let reasons = self.reasons.load(Ordering::Acquire);
        let number = self.disk_error.load(Ordering::Relaxed);
        let is_known = reasons & OF_DISK != 0 && number != 0;
        is_known.then(|| base_text(&io::Error::from_raw_os_error(number)))
    }

    /// Ends this reason.
    pub fn allow(&self, reason: WriteRefusal) {
        self.reasons.fetch_and(!(reason as u8), Ordering::Relaxed);
    }
}

#[cold]
fn weightiest(reasons: u8) -> WriteRefusal {
    use WriteRefusal::{DiskFull, Fenced, Loading, LogFailed, LogFull, Unsaved};
    let by_weight = [Loading, Fenced, LogFailed, DiskFull, LogFull, Unsaved];
    let weightiest = by_weight.into_iter().find(|reason| reasons & *reason as u8 != 0);
    weightiest.expect("each bit is that of a reason")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_refused_until_the_last_reason_is_gone() {
        let admission = Admission::default();
        assert_eq!(admission.refused(), None);
        admission.refuse(WriteRefusal::LogFull);
        admission.refuse(WriteRefusal::Fenced);
        assert_eq!(admission.refused(), Some(WriteRefusal::Fenced));
        admission.allow(WriteRefusal::Fenced);
        admission.refuse(WriteRefusal::LogFull);
        assert_eq!(admission.refused(), Some(WriteRefusal::LogFull));
        admission.allow(WriteRefusal::LogFull);
        assert_eq!(admission.refused(), None);
        admission.refuse(WriteRefusal::Unsaved);
        assert_eq!(admission.refused(), Some(WriteRefusal::Unsaved));
        assert!(!admission.stops_all());
        admission.refuse_for(WriteRefusal::DiskFull, &io::ErrorKind::StorageFull.into());
        assert!(admission.stops_all());
    }

    #[test]
    fn error_of_the_disk_is_the_latest_until_its_reason_is_gone() {
        let admission = Admission::default();
        let check = |words: Option<&str>| assert_eq!(admission.disk_error().as_deref(), words);
        let refuse = |reason, number| {
            admission.refuse_for(reason, &io::Error::from_raw_os_error(number));
        };
        admission.refuse(WriteRefusal::Fenced);
        check(None);
        refuse(WriteRefusal::DiskFull, 28);
        check(Some("No space left on device"));
        refuse(WriteRefusal::DiskFull, 27);
        check(Some("File too large"));
        refuse(WriteRefusal::LogFailed, 5);
        admission.allow(WriteRefusal::DiskFull);
        check(Some("Input/output error"));
        admission.refuse_for(WriteRefusal::LogFailed, &io::Error::other("no number"));
        check(None);
        refuse(WriteRefusal::LogFailed, 5);
        admission.allow(WriteRefusal::LogFailed);
        check(None);
    }
}
