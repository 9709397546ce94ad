//! Hands effects to the sink: each on its own, or all of a guard's as one record.
//!
//! It also carries the block of a value that was received in place, from the guard to the change
//! that stores the value, and records that a lookup has found an expired key.

use std::cell::Cell;

use arena::{ReservedBlock, prefetch_to_write};
use base::{Lsn, UnixMs};
use effects::{Change, EffectSink, Record, RecordBuilder};

use crate::ready::{ReadyKey, ReadyKeys};

/// What a record of a small value takes about, in bytes.
const RECORD_BYTES_USUAL: usize = 192;

/// The part of a guard that knows which effects belong together; small, because every lock makes
/// one.
#[derive(Default)]
pub(crate) struct Recorder {
    last_lsn: Lsn,
    is_atomic: bool,
    /// By how much a change that no request brings the bytes of may pass the memory limit.
    overshoot_bytes_max: u64,
    /// By how much collections that grow by what a request brings may pass the memory limit.
    growth_bytes_max: u64,
    /// Awaited keys that exist now, in the order in which they came.
    ready: Option<Box<ReadyKeys>>,
    /// A lookup has met a key that has expired, and left it: views that read share the recorder.
    has_met_expired: Cell<bool>,
    /// The current change has added an entry.
    pub has_added: bool,
    /// The time that records get, where it is not that of the change.
    pub replayed_at: Option<UnixMs>,
    /// The atomic record, once there is an effect for the sink. Its buffer holds at most the bytes
    /// of the request or of the MULTI queue that caused the effects, plus a short header for each,
    /// and the identity of each entry of a stream that the request gives to a consumer, of which
    /// the group keeps more: the limits on requests and on memory bound it.
    atomic: Option<Box<RecordBuilder>>,
    /// The block that has the value of the current request, if one was received so.
    pub offer: Option<Box<ReservedBlock>>,
}

impl Recorder {
    /// Makes all effects from now on one record; its changes may pass the memory limit.
    pub fn begin_atomic(&mut self) {
        assert!(!self.is_atomic, "the record before has ended");
        self.is_atomic = true;
        self.overshoot_bytes_max = u64::MAX;
        self.growth_bytes_max = u64::MAX;
    }

    /// Lets changes from now on whose bytes no request brings pass the memory limit by `overshoot`
    /// bytes, and collections by `growth`.
    pub fn limit_overshoot(&mut self, overshoot: u64, growth: u64) {
        (self.overshoot_bytes_max, self.growth_bytes_max) = (overshoot, growth);
    }

    /// Returns by how much collections may pass the memory limit.
    pub fn growth_bytes_max(&self) -> u64 {
        self.growth_bytes_max
    }

    /// Returns by how much such a change may pass the memory limit.
    pub fn overshoot_bytes_max(&self) -> u64 {
        self.overshoot_bytes_max
    }

    /// Returns whether all effects become one record.
    #[inline]
    pub fn is_atomic(&self) -> bool {
        self.is_atomic
    }

    /// Records that an awaited key exists.
    #[cold]
    pub fn note_ready(&mut self, key: ReadyKey) {
        self.ready.get_or_insert_default().add(key);
    }

    /// Returns whether such a key has come since [`Recorder::take_ready`].
    #[inline]
    pub fn has_ready(&self) -> bool {
        self.ready.is_some()
    }

    /// Takes the keys that have come.
    pub fn take_ready(&mut self) -> ReadyKeys {
        self.ready.take().map_or_else(ReadyKeys::default, |ready| *ready)
    }

    /// Returns where lookups note that they have met an expired key.
    #[inline]
    pub fn saw_expired(&self) -> &Cell<bool> {
        &self.has_met_expired
    }

    /// Takes the block on offer where it has this very `value`, for a key of `key_length` bytes.
    #[inline]
    pub fn take_offer(&mut self, value: &[u8], key_length: usize) -> Option<Box<ReservedBlock>> {
        self.offer.take_if(|block| block.is_value(value, key_length))
    }

    /// Returns the LSN of the last record, 0 where there was none.
    #[inline]
    pub fn last_lsn(&self) -> Lsn {
        self.last_lsn
    }

    /// Passes `change`, which happened at `now`, on, or keeps it for the one record; returns the
    /// LSN it got at once.
    pub fn record(
        &mut self,
        sink: &dyn EffectSink,
        now: UnixMs,
        change: &Change<'_>,
    ) -> Option<Lsn> {
        let time = self.replayed_at.unwrap_or(now);
        if !self.is_atomic {
            self.last_lsn = sink.append(&Record::one(time, change));
            // Its lines are cold: the next write would wait for them while it holds its shard.
            prefetch_to_write(sink.next_place(), RECORD_BYTES_USUAL);
            return Some(self.last_lsn);
        }
        self.atomic.get_or_insert_default().add(time, change);
        None
    }

    /// Hands the one record to `sink`; returns its LSN, if there were effects.
    ///
    /// # Panics
    /// When no atomic record has begun.
    pub fn finish_atomic(&mut self, sink: Option<&dyn EffectSink>) -> Option<Lsn> {
        assert!(self.is_atomic, "a record ends that began");
        self.is_atomic = false;
        // The guard may serve further changes.
        (self.overshoot_bytes_max, self.growth_bytes_max) = (0, 0);
        let mut atomic = self.atomic.take()?;
        let sink = sink.expect("effects are kept only where a sink listens");
        self.last_lsn = sink.append(&atomic.finish()?);
        Some(self.last_lsn)
    }
}
