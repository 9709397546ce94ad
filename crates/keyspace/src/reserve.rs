//! Blocks for long values that are received in place, or copied there while no shard is locked.

use arena::{Claim, HeldUpload, NeedRoom, ReservedBlock};
use base::{Key, ShardIndex};

use crate::keyspace::Keyspace;
use crate::memory_limit::SweepContext;

/// How often a block is asked for anew after room was made for it.
const ATTEMPTS_MAX: u32 = 16;
/// The share of the memory limit that blocks without an entry may take, where there is more than
/// one: none of it can be evicted.
const RESERVED_SHARE: u64 = 4;

impl Keyspace {
    /// Returns a block for a value of `length` bytes under a key of `key_length` that belongs to
    /// `shard`; evicts for it as a write would. The caller holds no guard. `None` where there is no
    /// room, or where other values that are still to come leave too little of a quarter of the
    /// memory limit.
    ///
    /// # Panics
    /// When the value may be part of a small entry.
    pub fn reserve_block(
        &self,
        shard: ShardIndex,
        key_length: usize,
        length: usize,
        context: &mut SweepContext<'_>,
    ) -> Option<Box<ReservedBlock>> {
        let (key_length, length) = (key_length as u64, length as u64);
        let most = self.maxmemory() / RESERVED_SHARE;
        let reserved = self.arena().reserved_bytes();
        if most > 0 && reserved > 0 && reserved + key_length + length > most {
            return None;
        }
        self.with_room(shard, context, || self.arena().reserve_block(key_length, length))
    }

    /// Returns a block with a copy of the claimed upload, for `key`; evicts for it as a write does.
    /// The caller holds no guard. `None` where there is no room.
    pub fn copy_upload(
        &self,
        key: &Key<'_>,
        claim: &Claim<'_>,
        context: &mut SweepContext<'_>,
    ) -> Option<Box<ReservedBlock>> {
        let key_length = key.bytes.len() as u64;
        self.with_room(key.shard, context, || self.arena().copy_upload(key_length, claim))
    }

    /// As [`Keyspace::copy_upload`], with a copy of an adopted value of `key`.
    pub fn copy_adopted(
        &self,
        key: &Key<'_>,
        held: &HeldUpload,
        context: &mut SweepContext<'_>,
    ) -> Option<Box<ReservedBlock>> {
        let key_length = key.bytes.len() as u64;
        self.with_room(key.shard, context, || self.arena().copy_adopted(key_length, held))
    }

    /// Returns the block that `make` makes, once there is room for it.
    fn with_room(
        &self,
        shard: ShardIndex,
        context: &mut SweepContext<'_>,
        make: impl Fn() -> Result<ReservedBlock, NeedRoom>,
    ) -> Option<Box<ReservedBlock>> {
        for _ in 0..ATTEMPTS_MAX {
            match make() {
                Ok(block) => return Some(Box::new(block)),
                Err(need) => self.reserve(need, shard, context).ok()?,
            }
        }
        None
    }
}
