//! Hands effects to the sink: each on its own, or all of a guard's as one record.

use base::{DatabaseIndex, Lsn, ShardIndex};

use crate::effect::{Effect, EffectSink, Record, encode_select};

/// The part of a guard that knows which effects belong together.
///
/// An atomic guard's buffer holds at most the bytes of the request or of the MULTI queue that
/// caused the effects, plus a short frame for each key: the limits on those bound it.
#[derive(Default)]
pub(crate) struct Recorder {
    atomic: bool,
    buffer: Vec<u8>,
    /// The database that the buffer's last SELECT chose.
    selected: DatabaseIndex,
    last_lsn: Lsn,
    /// The tables that are frozen for readers in other processes until the record is complete.
    frozen: Vec<(ShardIndex, DatabaseIndex)>,
}

impl Recorder {
    /// Makes all effects from now on one record.
    pub fn begin_atomic(&mut self) {
        assert!(!self.atomic, "a guard makes one record at most");
        self.atomic = true;
    }

    /// Returns whether all effects become one record.
    #[inline]
    pub fn is_atomic(&self) -> bool {
        self.atomic
    }

    /// Returns the LSN of the last record, 0 where there was none.
    pub fn last_lsn(&self) -> Lsn {
        self.last_lsn
    }

    /// Notes that the table of `database` in `shard` was frozen.
    pub fn note_frozen(&mut self, shard: ShardIndex, database: DatabaseIndex) {
        self.frozen.push((shard, database));
    }

    /// Returns the frozen tables and forgets them.
    pub fn take_frozen(&mut self) -> Vec<(ShardIndex, DatabaseIndex)> {
        std::mem::take(&mut self.frozen)
    }

    /// Passes `effect` on, or keeps it for the one record; returns the LSN it got at once.
    pub fn record(
        &mut self,
        sink: &dyn EffectSink,
        database: DatabaseIndex,
        effect: &Effect<'_>,
    ) -> Option<Lsn> {
        if !self.atomic {
            self.last_lsn = sink.append(&Record::one(database, *effect));
            return Some(self.last_lsn);
        }
        if database != self.selected {
            encode_select(database, &mut self.buffer);
            self.selected = database;
        }
        effect.encode(&mut self.buffer);
        None
    }

    /// Hands the one record to `sink` and returns its LSN; `None` where there were no effects.
    pub fn finish_atomic(&mut self, sink: Option<&dyn EffectSink>) -> Option<Lsn> {
        self.atomic = false;
        self.selected = DatabaseIndex(0);
        let buffer = std::mem::take(&mut self.buffer);
        if buffer.is_empty() {
            return None;
        }
        let sink = sink.expect("effects are kept only where a sink listens");
        self.last_lsn = sink.append(&Record::encoded(&buffer));
        Some(self.last_lsn)
    }
}
