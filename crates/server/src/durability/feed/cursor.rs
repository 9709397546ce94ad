//! Reads records of the log from any place on, and keeps the places where readers have come to, so
//! that the next of their questions does not look for its place anew.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use wal::{Follower, LogError, Storage};

/// How many places are kept: as many files may be open.
pub const CURSORS_MAX: usize = 64;
/// The most bytes of frames that are kept with them.
const KEPT_BYTES_MAX: usize = 32 << 20;

/// A place in the log, between two records. A copy shares its file and its bytes.
#[derive(Clone)]
pub struct Cursor {
    follower: Follower,
    /// The frame that it is in.
    payload: Rc<Vec<u8>>,
    /// Where in that.
    offset: usize,
    lsn: u64,
}

impl Cursor {
    /// Returns what follows in the frame.
    pub fn rest(&self) -> &[u8] {
        &self.payload[self.offset..]
    }

    /// Passes a record of so many bytes, behind which the stream has come to `lsn`.
    pub fn pass(&mut self, bytes: usize, lsn: u64) {
        self.offset += bytes;
        self.lsn = lsn;
        if self.rest().is_empty() {
            // A record longer than a frame has one of its own, which may be large.
            (self.payload, self.offset) = (Rc::default(), 0);
        }
    }

    /// Reads the next frame, where the one before has been passed; returns its bytes, none where
    /// the log has come to `limit`.
    ///
    /// # Errors
    /// [`LogError`].
    pub fn read_on(&mut self, limit: u64) -> Result<usize, LogError> {
        let mut payload = Vec::new();
        self.follower.next(limit, &mut payload)?;
        let bytes = payload.len();
        (self.payload, self.offset) = (Rc::new(payload), 0);
        Ok(bytes)
    }
}

/// The places that readers have come to, the latest last.
#[derive(Default)]
pub struct Cursors {
    storage: Option<Arc<dyn Storage>>,
    kept: VecDeque<Cursor>,
}

impl Cursors {
    /// Returns the place of `lsn` in the log of `storage`, or one before it in the same segment;
    /// none where the log begins later.
    ///
    /// # Errors
    /// [`LogError`].
    pub fn find(
        &mut self,
        storage: &Arc<dyn Storage>,
        lsn: u64,
    ) -> Result<Option<Cursor>, LogError> {
        if !self.storage.as_ref().is_some_and(|known| Arc::ptr_eq(known, storage)) {
            self.kept.clear();
            self.storage = Some(Arc::clone(storage));
        }
        if let Some(index) = self.kept.iter().position(|cursor| cursor.lsn == lsn) {
            let cursor = self.kept.remove(index).expect("it was found there");
            self.kept.push_back(cursor.clone());
            return Ok(Some(cursor));
        }
        let Some(follower) = Follower::open(storage, lsn)? else { return Ok(None) };
        let begin = follower.segment_begin();
        let near = self.kept.iter().filter(|cursor| (begin..lsn).contains(&cursor.lsn));
        if let Some(cursor) = near.max_by_key(|cursor| cursor.lsn) {
            return Ok(Some(cursor.clone()));
        }
        Ok(Some(Cursor { follower, payload: Rc::default(), offset: 0, lsn: begin }))
    }

    /// Keeps `cursor`, in place of the one that was found longest ago where there are many.
    pub fn keep(&mut self, cursor: Cursor) {
        self.kept.retain(|other| other.lsn != cursor.lsn);
        self.kept.push_back(cursor);
        while self.kept.len() > CURSORS_MAX
            || self.kept.len() > 1 && self.kept_bytes() > KEPT_BYTES_MAX
        {
            self.kept.pop_front();
        }
    }

    /// Drops the places in segments that begin before `lsn`: they are removed, and the system keeps
    /// their bytes only for who has them open.
    pub fn forget_before(&mut self, lsn: u64) {
        self.kept.retain(|cursor| cursor.follower.segment_begin() >= lsn);
    }

    /// Drops all places.
    pub fn clear(&mut self) {
        self.kept.clear();
    }

    /// Returns the bytes of all frames that are kept, some of them counted more than once.
    fn kept_bytes(&self) -> usize {
        self.kept.iter().map(|cursor| cursor.payload.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use wal::simulated::SimulatedDisk;
    use wal::{Begin, Writer, WriterOptions};

    use super::*;

    #[test]
    fn no_place_is_kept_in_a_segment_that_is_removed() {
        let storage: Arc<dyn Storage> = Arc::new(SimulatedDisk::new());
        let options = WriterOptions { segment_bytes: 100, ..WriterOptions::default() };
        let begun = Writer::begin(Arc::clone(&storage), 0, Begin::Nothing, options);
        let mut writer = begun.unwrap();
        let mut cursors = Cursors::default();
        for lsn in (0..400).step_by(40) {
            writer.append(&[1; 40]).unwrap();
            let cursor = cursors.find(&storage, lsn).unwrap().unwrap();
            assert_eq!(cursor.follower.segment_begin(), lsn);
            cursors.keep(cursor);
        }
        assert_eq!(cursors.kept.len(), 10);
        wal::forget_before(&*storage, 240).unwrap();
        cursors.forget_before(wal::first_lsn(&*storage).unwrap().unwrap());
        assert_eq!(cursors.kept.front().map(|cursor| cursor.lsn), Some(240));
        assert_eq!(cursors.kept.len(), 4);
    }
}
