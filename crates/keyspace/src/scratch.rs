//! Private memory that a command takes while it runs: requested before it is allocated, and charged
//! until it is freed.

use std::sync::Arc;

use arena::{NeedRoom, Region};
use base::Key;

use crate::guard::ShardsRef;
use crate::keyspace::Keyspace;
use crate::memory_limit::MemoryAccount;
use crate::view::ReadView;
use crate::write::WriteView;

/// Less is taken without asking.
pub(crate) const SCRATCH_BYTES_MIN: u64 = 64 * 1024;

/// The right to so much private memory, until it is dropped.
#[must_use = "the memory is charged as long as this is there"]
pub struct Scratch {
    account: Option<Arc<MemoryAccount>>,
    bytes: u64,
}

impl Scratch {
    /// Charges `bytes` to `account` where they and the `more` that the command stores besides pass
    /// the memory limit by no more than `overshoot` bytes.
    fn charge(
        account: &Arc<MemoryAccount>,
        bytes: u64,
        more: u64,
        overshoot: u64,
    ) -> Result<Scratch, NeedRoom> {
        if bytes < SCRATCH_BYTES_MIN {
            return Ok(Scratch { account: None, bytes: 0 });
        }
        let wanted = bytes.saturating_add(more);
        if account.excess_with(wanted) > overshoot {
            return Err(NeedRoom { bytes: wanted, region: Region::Private });
        }
        account.charge(bytes);
        account.give_back_excess();
        Ok(Scratch { account: Some(account.clone()), bytes })
    }
}

impl Scratch {
    /// Gives back the right to all but `bytes`, where it is one to more.
    pub fn shrink(&mut self, bytes: u64) {
        if let Some(account) = &self.account {
            let kept = bytes.min(self.bytes);
            account.discharge(self.bytes - kept);
            self.bytes = kept;
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Some(account) = &self.account {
            account.discharge(self.bytes);
        }
    }
}

impl Keyspace {
    /// Returns the right to `bytes` of private memory, beside `more` bytes that are to be stored.
    ///
    /// # Errors
    /// NeedRoom where that passes the memory limit.
    pub fn scratch(&self, bytes: u64, more: u64) -> Result<Scratch, NeedRoom> {
        Scratch::charge(&self.account, bytes, more, 0)
    }
}

impl ReadView<'_> {
    /// Returns the right to `bytes` of private memory, for a command on `key`.
    ///
    /// # Errors
    /// NeedRoom where that passes the memory limit.
    pub fn scratch(&self, key: &Key<'_>, bytes: u64) -> Result<Scratch, NeedRoom> {
        Scratch::charge(account_of(self.shards(), key), bytes, 0, 0)
    }
}

impl WriteView<'_> {
    /// Returns the right to `bytes` of private memory, beside `more` bytes that are to be stored,
    /// for a command on `key`.
    ///
    /// # Errors
    /// NeedRoom where that passes the memory limit, within an atomic record by more than that may.
    pub fn scratch(&self, key: &Key<'_>, bytes: u64, more: u64) -> Result<Scratch, NeedRoom> {
        let overshoot = match self.recorder.is_atomic() {
            true => self.recorder.overshoot_bytes_max(),
            false => 0,
        };
        Scratch::charge(account_of(self.shards.as_ref(), key), bytes, more, overshoot)
    }
}

fn account_of<'g>(shards: ShardsRef<'g>, key: &Key<'_>) -> &'g Arc<MemoryAccount> {
    shards.shard(key.shard).account()
}
