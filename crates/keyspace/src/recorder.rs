//! Hands effects to the sink: each on its own, or all of a guard's as one record.

use base::{DatabaseIndex, Lsn, ShardIndex};

use crate::effect::{Effect, EffectSink, Record, encode_select};

/// The part of a guard that knows which effects belong together; small, because every lock makes
/// one.
#[derive(Default)]
pub(crate) struct Recorder {
    last_lsn: Lsn,
    atomic: Option<Box<AtomicRecord>>,
}

/// A record under construction.
///
/// Its buffer holds at most the bytes of the request or of the MULTI queue that caused the
/// effects, plus a short frame for each key: the limits on those bound it.
#[derive(Default)]
struct AtomicRecord {
    buffer: Vec<u8>,
    /// The database that the buffer's last SELECT chose.
    selected: DatabaseIndex,
    /// The tables that are frozen for readers in other processes until the record is complete.
    frozen: Vec<(ShardIndex, DatabaseIndex)>,
}

impl Recorder {
    /// Makes all effects from now on one record.
    pub fn begin_atomic(&mut self) {
        assert!(self.atomic.is_none(), "a guard makes one record at most");
        self.atomic = Some(Box::default());
    }

    /// Returns whether all effects become one record.
    #[inline]
    pub fn is_atomic(&self) -> bool {
        self.atomic.is_some()
    }

    /// Returns the LSN of the last record, 0 where there was none.
    #[inline]
    pub fn last_lsn(&self) -> Lsn {
        self.last_lsn
    }

    /// Notes that the table of `database` in `shard` was frozen.
    ///
    /// # Panics
    /// When no atomic record has begun.
    pub fn note_frozen(&mut self, shard: ShardIndex, database: DatabaseIndex) {
        let atomic = self.atomic.as_mut().expect("tables are frozen for atomic records");
        atomic.frozen.push((shard, database));
    }

    /// Passes `effect` on, or keeps it for the one record; returns the LSN it got at once.
    pub fn record(
        &mut self,
        sink: &dyn EffectSink,
        database: DatabaseIndex,
        effect: &Effect<'_>,
    ) -> Option<Lsn> {
        let Some(atomic) = &mut self.atomic else {
            self.last_lsn = sink.append(&Record::one(database, *effect));
            return Some(self.last_lsn);
        };
        if database != atomic.selected {
            encode_select(database, &mut atomic.buffer);
            atomic.selected = database;
        }
        effect.encode(&mut atomic.buffer);
        None
    }

    /// Hands the one record to `sink`; returns its LSN, if there were effects, and what is frozen.
    ///
    /// # Panics
    /// When no atomic record has begun.
    pub fn finish_atomic(
        &mut self,
        sink: Option<&dyn EffectSink>,
    ) -> (Option<Lsn>, Vec<(ShardIndex, DatabaseIndex)>) {
        let atomic = self.atomic.take().expect("a record ends that began");
        if atomic.buffer.is_empty() {
            return (None, atomic.frozen);
        }
        let sink = sink.expect("effects are kept only where a sink listens");
        self.last_lsn = sink.append(&Record::encoded(&atomic.buffer));
        (Some(self.last_lsn), atomic.frozen)
    }
}
