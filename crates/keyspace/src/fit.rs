//! Whether room can be made at all, asked before any key goes for it.

use std::sync::atomic::Ordering;

use arena::layout::PAGE_BYTES;
use arena::{APPEND_SPARE_BYTES_MAX, NeedRoom, Region};

use crate::keyspace::Keyspace;
use crate::memory_limit::SweepContext;

/// Where a need can be met within the memory limit, once whatever may go for it is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// Nowhere: no key is to go for it.
    Nowhere,
    /// Only where the value of a spared key lies, which grows to what is needed.
    InPlace,
    /// Beside the values of the keys that are spared.
    Anywhere,
}

impl Keyspace {
    /// Returns where `need` would fit within the memory limit once every key was gone that is not
    /// spared. What stays in any case is what no key refers to, such as the buffers of
    /// connections, the index as far as it was ever touched, upload memory, and blocks that are
    /// reserved or pinned. Keys that the policy does not evict are taken for such as go: they are
    /// not counted. The caller holds no guard.
    pub(crate) fn fit(&self, need: NeedRoom, context: &SweepContext<'_>) -> Fit {
        let (arena, maxmemory) = (self.arena(), self.maxmemory());
        if maxmemory == 0 {
            return Fit::Anywhere;
        }
        let (root, touched_index) = arena.index_floor();
        let (bytes, index, slack) = match need.region {
            // What was not enough is asked for again in larger numbers; no more fits at once.
            Region::Slab | Region::Index => {
                (need.bytes.min(PAGE_BYTES), touched_index, arena.slack_bytes())
            }
            Region::Extent => (need.bytes, touched_index, 0),
            // The index counts as far as it is in use.
            Region::Private => (need.bytes, root, 0),
        };
        let private = self.account.lasting_bytes() + arena.uploads().usage().bytes;
        let beside = private + index + arena.reserved_bytes();
        let wanted = beside.saturating_add(bytes);
        let in_place = beside.saturating_add(bytes_in_place(need).min(bytes));
        let most = maxmemory + slack;
        if in_place > most {
            return Fit::Nowhere;
        }
        if bytes < arena.segment_bytes() && wanted <= most {
            return Fit::Anywhere;
        }
        // Only here, as this costs a look at every pin: keys that are spared may be pinned too.
        let (spared, pinned) = (self.spared_bytes(context), arena.pinned_bytes());
        if wanted.saturating_add(spared.max(pinned)) <= most {
            Fit::Anywhere
        } else if in_place.saturating_add(pinned.saturating_sub(spared)) <= most {
            Fit::InPlace
        } else {
            Fit::Nowhere
        }
    }

    /// Returns the bytes of the values of keys that are spared.
    fn spared_bytes(&self, context: &SweepContext<'_>) -> u64 {
        let (database, keys) = context.spared.keys();
        let bytes = keys.iter().map(|key| {
            let mut guard = self.lock(key.shard);
            let part = guard.shard_mut(key.shard).database(database)?;
            let id = part.table.find(key.hash, key.bytes)?;
            let object = part.object(id);
            // One in upload memory counts there.
            let value = if object.is_adopted() { 0 } else { object.value_length() };
            Some(value + object.private_bytes())
        });
        bytes.flatten().sum()
    }
}

/// Returns how large the block of a value has to become that has asked for `need`, where it grows
/// without room to spare.
pub(crate) fn bytes_in_place(need: NeedRoom) -> u64 {
    match need.region {
        Region::Extent => need.bytes.saturating_sub(APPEND_SPARE_BYTES_MAX),
        _ => need.bytes,
    }
}

impl crate::memory_limit::MemoryAccount {
    /// Returns the private bytes that no key is the reason of.
    fn lasting_bytes(&self) -> u64 {
        let of_keys = self.of_keys.load(Ordering::Relaxed);
        self.private.load(Ordering::Relaxed).saturating_sub(of_keys)
    }
}
