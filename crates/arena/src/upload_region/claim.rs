//! The right to one range of upload memory while it is committed.

use std::marker::PhantomData;
use std::sync::atomic::Ordering;

use crate::atomic_copy::load_bytes;

use super::{RangeState, RunState, UploadError, Uploads};

/// Upload memory as one session sees it.
#[derive(Clone, Copy)]
pub struct Uploader<'a> {
    uploads: &'a Uploads,
    session: u64,
}

/// A value in upload memory: where it is, and whether it stays there.
#[derive(Clone, Copy, Debug)]
pub struct Uploaded<'a> {
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) stays: bool,
    /// While the claim is there, so is the memory.
    pub(crate) claim: PhantomData<&'a ()>,
}

/// An open range that nobody else can commit or give back meanwhile. Dropped, it is open again.
pub struct Claim<'a> {
    uploads: &'a Uploads,
    offset: u64,
    length: u64,
    may_adopt: bool,
    is_over: bool,
}

impl<'a> Uploader<'a> {
    /// Returns `uploads` as `session` sees them.
    pub fn new(uploads: &'a Uploads, session: u64) -> Uploader<'a> {
        Uploader { uploads, session }
    }

    /// As [`Uploads::has_adopted`].
    pub fn has_adopted(&self) -> bool {
        self.uploads.has_adopted()
    }

    /// Returns the offset of `bytes` that the session's client may write.
    ///
    /// # Errors
    /// Where no run of the session has room, or it has too many open ranges.
    pub fn allocate(&self, bytes: u64) -> Result<u64, UploadError> {
        self.uploads.allocate(self.session, bytes)
    }

    /// Takes back the open range at `offset`.
    ///
    /// # Errors
    /// Where the session has none.
    pub fn give_back(&self, offset: u64) -> Result<(), UploadError> {
        self.uploads.give_back(self.session, offset)
    }

    /// Claims `length` bytes of the open range at `offset`.
    ///
    /// # Errors
    /// Where the session has none, or it is shorter.
    pub fn claim(&self, offset: u64, length: u64) -> Result<Claim<'a>, UploadError> {
        let uploads = self.uploads;
        let mut state = uploads.state();
        let (range, may_adopt) = state.own_range(self.session, offset)?;
        if length > range.bytes {
            return Err(UploadError::TooLong { range_bytes: range.bytes });
        }
        range.state = RangeState::Claimed;
        // Nobody reads what lies there while readers are turned off.
        let may_adopt = may_adopt && uploads.memory.allows_readers();
        Ok(Claim { uploads, offset, length, may_adopt, is_over: false })
    }
}

impl Claim<'_> {
    /// Returns the length of the value in bytes.
    #[expect(clippy::len_without_is_empty, reason = "nobody asks whether a value is empty")]
    pub fn len(&self) -> u64 {
        self.length
    }

    /// Returns whether the value may stay where it is.
    pub fn may_adopt(&self) -> bool {
        self.may_adopt
    }

    /// Returns the value as tables take it, to stay where it is or to be copied.
    ///
    /// # Panics
    /// Where it may not stay.
    pub fn uploaded(&self, stays: bool) -> Uploaded<'_> {
        assert!(!stays || self.may_adopt, "whether it may stay was asked before");
        Uploaded { offset: self.offset, length: self.length, stays, claim: PhantomData }
    }

    /// Returns a copy of the value, of whatever it is at this moment.
    pub fn copied(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.length as usize];
        self.uploads.memory.load_upload(self.offset, &mut bytes);
        bytes
    }

    /// Ends the claim and the range: the value has been copied.
    pub fn finish_copy(self) {
        self.uploads.copies.fetch_add(1, Ordering::Relaxed);
        self.finish_unused();
    }

    /// Ends the claim and the range: the value is not wanted.
    pub fn finish_unused(mut self) {
        self.is_over = true;
        let mut state = self.uploads.state();
        self.uploads.remove(&mut state, self.offset);
    }

    /// Ends the claim: a block refers to the value, which stays until that is freed. The caller
    /// holds the shard of its entry.
    pub fn finish_adoption(mut self) {
        self.is_over = true;
        let uploads = self.uploads;
        uploads.adoptions.fetch_add(1, Ordering::Relaxed);
        uploads.adopted_count.fetch_add(1, Ordering::Relaxed);
        let mut state = uploads.state();
        let (_, run) = state.runs.range_mut(..=self.offset).next_back().expect("a range's run");
        let range = run.ranges.get_mut(&self.offset).expect("a claimed range exists");
        assert!(range.state == RangeState::Claimed, "a range is adopted once");
        range.state = RangeState::Adopted;
        let bytes = range.bytes;
        run.open_count -= 1;
        state.open_count -= 1;
        state.adopted_bytes += bytes;
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let mut state = self.uploads.state();
        let (_, run) = state.runs.range_mut(..=self.offset).next_back().expect("a range's run");
        if matches!(run.state, RunState::Ended { .. }) {
            return self.uploads.remove(&mut state, self.offset);
        }
        let range = run.ranges.get_mut(&self.offset).expect("a claimed range exists");
        range.state = RangeState::Open;
    }
}

impl crate::mapped_range::MappedRange {
    /// Copies upload memory, which its client may change meanwhile.
    pub(crate) fn load_upload(&self, offset: u64, target: &mut [u8]) {
        // SAFETY: a claimed range lies in a run, whose segments are mapped, and stay so for as long
        // as something of the run is claimed. It starts at a line, and what the run gives out are
        // whole lines, so that widening to words does not leave it.
        unsafe { load_bytes(self.pointer(offset), target) };
    }
}
