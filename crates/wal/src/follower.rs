//! Reads a log that is being written, from any place on: for who follows it while it grows.
//!
//! Whoever writes it says up to where it has been written; nothing is read beyond, so that what is
//! read is never torn, and anything that does not read is damage.

use std::rc::Rc;
use std::sync::Arc;

use crate::frame::{FrameHeader, HEAD, HEADER_BYTES};
use crate::reader::LogError;
use crate::segment::segments_of;
use crate::storage::{LogFile, Storage, read_full};
use crate::tail;

/// A place in a log, between two frames. A copy shares the open file.
#[derive(Clone)]
pub struct Follower {
    storage: Arc<dyn Storage>,
    file: Rc<dyn LogFile>,
    name: String,
    /// Where the segment begins in the stream.
    begin: u64,
    /// Where the next frame begins in the file.
    offset: u64,
    lsn: u64,
    chain: u32,
    salt: u32,
}

impl Follower {
    /// Returns the start of the segment of the log in `storage` that has what is behind `lsn`; none
    /// where the log begins later.
    ///
    /// # Errors
    /// [`LogError`].
    pub fn open(storage: &Arc<dyn Storage>, lsn: u64) -> Result<Option<Follower>, LogError> {
        let segments = segments_of(&**storage)
            .map_err(|error| LogError::Disk { name: String::new(), error })?;
        match segments.into_iter().rfind(|(begins, _)| *begins <= lsn) {
            Some((begin, name)) => Follower::at_head(storage, begin, name, None).map(Some),
            None => Ok(None),
        }
    }

    /// Returns the position that it has come to.
    pub fn lsn(&self) -> u64 {
        self.lsn
    }

    /// Returns the position at which its segment begins.
    pub fn segment_begin(&self) -> u64 {
        self.begin
    }

    /// Reads the next frame that has a payload, which takes the place of what is in `payload`;
    /// returns false where the log has come to `limit`, up to which all of it has been written.
    ///
    /// # Errors
    /// [`LogError`].
    pub fn next(&mut self, limit: u64, payload: &mut Vec<u8>) -> Result<bool, LogError> {
        payload.clear();
        while self.lsn < limit {
            let disk = |error| LogError::Disk { name: self.name.clone(), error };
            // It may have grown since.
            let length = self.file.length().map_err(disk)?;
            let found = tail::frame_at(&*self.file, length, self.offset, payload);
            let Ok(header) = found.map_err(disk)? else {
                *self = self.next_segment()?;
                continue;
            };
            let follows = header.lsn == self.lsn && header.previous == self.chain;
            if header.flags & HEAD != 0 || !follows || header.salt != self.salt {
                return Err(self.corrupt("the frame there does not follow on the one before"));
            }
            self.offset += payload.len() as u64;
            (self.chain, self.lsn) = (header.chain, header.end_lsn());
            if header.payload_bytes > 0 {
                payload.drain(..header.payload_at());
                payload.truncate(header.payload_bytes as usize);
                return Ok(true);
            }
        }
        payload.clear();
        Ok(false)
    }

    fn corrupt(&self, reason: &'static str) -> LogError {
        let name = self.name.clone();
        LogError::Corrupt { name, offset: self.offset, lsn: self.lsn, reason }
    }

    /// Returns the start of the segment behind this one, which has come to its end.
    fn next_segment(&self) -> Result<Follower, LogError> {
        let segments = segments_of(&*self.storage)
            .map_err(|error| LogError::Disk { name: String::new(), error })?;
        // One that is removed goes before those behind it.
        let is_there = segments.iter().any(|(begins, _)| *begins == self.begin);
        let next = segments.into_iter().find(|(begins, _)| *begins > self.begin);
        match next {
            Some((begins, name)) if begins == self.lsn => {
                Follower::at_head(&self.storage, begins, name, Some(self.chain))
            }
            Some((begins, name)) if begins > self.lsn && !is_there => {
                Err(LogError::Gap { name, begins, lsn: self.lsn })
            }
            _ => Err(self.corrupt("it was written, and does not read")),
        }
    }

    fn at_head(
        storage: &Arc<dyn Storage>,
        begin: u64,
        name: String,
        chain: Option<u32>,
    ) -> Result<Follower, LogError> {
        let opened = storage.open_read(&name);
        let mut bytes = [0; HEADER_BYTES];
        let read = opened.and_then(|file| read_full(&*file, 0, &mut bytes).map(|_| file));
        let file = read.map_err(|error| LogError::Disk { name: name.clone(), error })?;
        let head = FrameHeader::read(&bytes).ok().filter(|head| {
            let is_head = head.flags & HEAD != 0 && head.lsn == begin && head.is_of(&bytes, &[]);
            is_head && chain.is_none_or(|chain| head.previous == chain)
        });
        let Some(head) = head else {
            let reason = "its head does not follow on the segment before";
            return Err(LogError::Corrupt { name, offset: 0, lsn: begin, reason });
        };
        Ok(Follower {
            storage: Arc::clone(storage),
            file: Rc::from(file),
            name,
            begin,
            offset: HEADER_BYTES as u64,
            lsn: begin,
            chain: head.chain,
            salt: head.salt,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::SimulatedDisk;
    use crate::{Begin, Writer, WriterOptions, forget_before};

    #[test]
    fn log_is_followed_while_it_grows_from_any_place() {
        let storage: Arc<dyn Storage> = Arc::new(SimulatedDisk::new());
        let options = WriterOptions { segment_bytes: 300, salt: 7, ..WriterOptions::default() };
        let writer = Writer::begin(Arc::clone(&storage), 0, Begin::Nothing, options);
        let mut writer = writer.unwrap();
        let mut follower = Follower::open(&storage, 0).unwrap().unwrap();
        let mut payload = Vec::new();
        let mut ends = Vec::new();
        for number in 0..20_u8 {
            assert!(!follower.next(writer.lsn(), &mut payload).unwrap());
            writer.append(&vec![number; 40 + usize::from(number)]).unwrap();
            assert!(
                !follower
                    .next(
                        writer.lsn() - payload.len() as u64 - 40 - u64::from(number),
                        &mut payload
                    )
                    .unwrap()
            );
            assert!(follower.next(writer.lsn(), &mut payload).unwrap());
            assert_eq!(payload, vec![number; 40 + usize::from(number)]);
            ends.push(follower.lsn());
        }
        for (number, end) in ends.iter().enumerate() {
            let mut follower = Follower::open(&storage, end - 1).unwrap().unwrap();
            while follower.lsn() < *end {
                assert!(follower.next(*end, &mut payload).unwrap());
            }
            assert_eq!(payload, vec![number as u8; 40 + number]);
        }
        forget_before(&*storage, ends[10]).unwrap();
        assert!(Follower::open(&storage, 0).unwrap().is_none());
    }

    #[test]
    fn what_was_written_and_does_not_read_is_damage() {
        let disk = SimulatedDisk::new();
        let storage: Arc<dyn Storage> = Arc::new(disk.clone());
        let writer =
            Writer::begin(Arc::clone(&storage), 0, Begin::Nothing, WriterOptions::default());
        let mut writer = writer.unwrap();
        writer.append(b"one").unwrap();
        writer.append(b"two").unwrap();
        let file = storage.open(&crate::segment::name_of(0)).unwrap();
        let place = HEADER_BYTES as u64 + crate::frame::frame_bytes(3) + HEADER_BYTES as u64;
        file.write_at(place, b"T").unwrap();
        let mut follower = Follower::open(&storage, 0).unwrap().unwrap();
        let mut payload = Vec::new();
        assert!(follower.next(6, &mut payload).unwrap());
        assert_eq!(payload, b"one");
        let error = follower.next(6, &mut payload).unwrap_err();
        assert!(matches!(error, LogError::Corrupt { lsn: 3, .. }), "{error}");
    }

    #[test]
    fn damage_before_the_last_segment_is_damage_and_what_was_removed_is_a_gap() {
        let disk = SimulatedDisk::new();
        let storage: Arc<dyn Storage> = Arc::new(disk.clone());
        let options = WriterOptions { segment_bytes: 300, salt: 7, ..WriterOptions::default() };
        let writer = Writer::begin(Arc::clone(&storage), 0, Begin::Nothing, options);
        let mut writer = writer.unwrap();
        for number in 0..20_u8 {
            writer.append(&[number; 40]).unwrap();
        }
        let mut follower = Follower::open(&storage, 0).unwrap().unwrap();
        let mut payload = Vec::new();
        assert!(follower.next(writer.lsn(), &mut payload).unwrap());
        let file = storage.open(&crate::segment::name_of(0)).unwrap();
        file.write_at(follower.offset + HEADER_BYTES as u64, b"T").unwrap();
        let mut removed = follower.clone();
        let error = follower.next(writer.lsn(), &mut payload).unwrap_err();
        assert!(matches!(error, LogError::Corrupt { lsn: 40, .. }), "{error}");
        storage.remove(&crate::segment::name_of(0)).unwrap();
        let error = removed.next(writer.lsn(), &mut payload).unwrap_err();
        assert!(matches!(error, LogError::Gap { lsn: 40, .. }), "{error}");
    }
}
