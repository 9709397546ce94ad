//! What an entry costs to have back, which few entries know: it stays, whatever becomes of the
//! value in place.

use std::sync::atomic::Ordering;

use crate::layout::{Cost, Header};

use super::{EntryId, Table};

impl Table {
    /// Makes the entry at `id`, which is large and was stored just now, know `cost`.
    ///
    /// # Panics
    /// When it is small: one that knows a cost is stored so, as its item may be a larger one.
    pub fn set_large_cost(&mut self, id: EntryId, cost: Cost) {
        let header = self.entry(id).header();
        assert!(header.is_large(), "a header without lengths has room for a cost");
        self.set_header_cost(id, header, cost);
    }

    fn set_header_cost(&self, id: EntryId, header: Header, cost: Cost) {
        self.memory.word(id.reference).store(header.with_cost(cost).0, Ordering::Relaxed);
    }

    /// Writes `cost` where the entry at `id` keeps it: after each change that has made its header
    /// anew, or may have moved it. Readers in other processes ignore it.
    #[inline]
    pub(super) fn keep_cost(&self, id: EntryId, cost: Cost) {
        if cost != Cost::ONE {
            self.write_cost(id, cost);
        }
    }

    #[cold]
    fn write_cost(&self, id: EntryId, cost: Cost) {
        let entry = self.entry(id);
        let header = entry.header();
        assert!(header.is_costed(), "a change keeps what the header says");
        if header.has_cost_room() {
            return self.set_header_cost(id, header, cost);
        }
        let word = self.memory.word(entry.last_word());
        let others = word.load(Ordering::Relaxed) & (u64::MAX >> 8);
        word.store(others | u64::from(cost.byte()) << 56, Ordering::Relaxed);
    }
}
