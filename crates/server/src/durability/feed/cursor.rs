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

    /// Returns the bytes of all frames that are kept, some of them counted more than once.
    fn kept_bytes(&self) -> usize {
        self.kept.iter().map(|cursor| cursor.payload.len()).sum()
    }
}
