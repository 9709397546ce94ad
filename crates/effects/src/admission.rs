//! Whether writes are admitted: checked before anything changes.

use std::sync::atomic::{AtomicU8, Ordering};

/// Why no write is admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum WriteRefusal {
    /// Another server is the primary of these data.
    Fenced = 1,
    /// The disk that keeps the effects is full.
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

/// Whether writes are admitted. Costs one load where they are.
#[derive(Debug, Default)]
pub struct Admission {
    /// One bit for each reason not to.
    reasons: AtomicU8,
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

    /// Takes no write from now on, for this reason. What is under way completes.
    pub fn refuse(&self, reason: WriteRefusal) {
        self.reasons.fetch_or(reason as u8, Ordering::Relaxed);
    }

    /// Takes no write for this reason where `is_refused`, and ends it elsewhere.
    pub fn set(&self, reason: WriteRefusal, is_refused: bool) {
        match is_refused {
            true => self.refuse(reason),
            false => self.allow(reason),
        }
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
        admission.refuse(WriteRefusal::DiskFull);
        assert!(admission.stops_all());
    }
}
