//! Blocks to which at most a pin refers: those that a pin is known to hold, and those whose pins
//! have not been checked yet.
//!
//! A block can be freed once a scan of the pins, begun after the block had become unreachable, has
//! found none on it. Where that scan is short, the thread that releases the block makes it. Where
//! sessions are many, and hostile ones fill their tables, the release is deferred, and one scan,
//! without a shard lock, serves all blocks deferred before it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::mapped_range::MappedRange;

/// How many bytes of blocks may be put off before a scan of the pins is due. Writing as much takes
/// longer than the scan of the tables of a thousand sessions.
const DEFERRED_BYTES_MAX: u64 = 16 << 20;

/// To free so many takes about as long as a request may.
const FEW_MAX: u64 = 1024;

/// The lists, and what is known of them without their lock.
pub(crate) struct Retired {
    lists: Mutex<Lists>,
    /// Held by the thread that scans the pins: a thread that comes meanwhile needs what is about to
    /// be freed, and waits.
    turn: Mutex<()>,
    /// Of both lists, and of those taken out for a scan.
    count: AtomicU64,
    /// Of the blocks whose release is put off.
    deferred_bytes: AtomicU64,
    memory: Arc<MappedRange>,
}

#[derive(Default)]
struct Lists {
    held: Vec<u64>,
    deferred: Vec<u64>,
    /// What the memory was told that they take.
    private_bytes: u64,
}

impl Retired {
    /// Returns empty lists, whose private bytes `memory` is told of.
    pub fn new(memory: Arc<MappedRange>) -> Retired {
        Retired {
            lists: Mutex::default(),
            turn: Mutex::default(),
            count: AtomicU64::new(0),
            deferred_bytes: AtomicU64::new(0),
            memory,
        }
    }

    /// Adds a block that a pin holds.
    pub fn hold(&self, block: u64) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.change(|lists| lists.held.push(block));
    }

    /// Adds a block of `bytes` whose pins are to be checked later.
    pub fn defer(&self, block: u64, bytes: u64) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.change(|lists| {
            // Under the lock, or a scan could take the block for one of none.
            self.deferred_bytes.fetch_add(bytes, Ordering::Relaxed);
            lists.deferred.push(block);
        });
    }

    /// Returns whether there are some blocks, and few enough to be freed along with a request.
    pub fn are_few(&self) -> bool {
        (1..=FEW_MAX).contains(&self.count.load(Ordering::Relaxed))
    }

    /// Returns whether there is any block.
    pub fn is_any(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Returns whether a release is put off.
    pub fn is_any_deferred(&self) -> bool {
        self.deferred_bytes.load(Ordering::Relaxed) > 0
    }

    /// Returns whether so much is put off that a scan is due.
    #[inline]
    pub fn is_scan_due(&self) -> bool {
        self.deferred_bytes.load(Ordering::Relaxed) >= DEFERRED_BYTES_MAX
    }

    /// Takes the blocks whose release was put off out, and those that a pin held last too where
    /// `all` are to be checked; has `keep_pinned` free what no pin holds of them (ascending), and
    /// returns what `weigh` makes of those that it leaves. One caller at a time, holding no shard.
    pub fn recheck(
        &self,
        all: bool,
        keep_pinned: impl FnOnce(&mut Vec<u64>),
        weigh: impl Fn(u64) -> u64,
    ) -> u64 {
        let _turn = self.turn.lock().expect("no holder of the turn panics");
        // Taken out, so that whoever releases a block meanwhile, and holds a shard, does not wait.
        let mut blocks = {
            let mut lists = self.lists();
            self.deferred_bytes.store(0, Ordering::Relaxed);
            let mut blocks = std::mem::take(&mut lists.deferred);
            if all {
                blocks.append(&mut lists.held);
            }
            blocks
        };
        if blocks.is_empty() {
            return 0;
        }
        blocks.sort_unstable();
        let before = blocks.len();
        keep_pinned(&mut blocks);
        let bytes = blocks.iter().map(|&block| weigh(block)).sum();
        self.count.fetch_sub((before - blocks.len()) as u64, Ordering::Relaxed);
        self.change(|lists| {
            lists.held.append(&mut blocks);
            lists.held.shrink_to(2 * lists.held.len());
        });
        bytes
    }

    /// Changes the lists and tells the memory what they take.
    fn change(&self, change: impl FnOnce(&mut Lists)) {
        let mut lists = self.lists();
        change(&mut lists);
        let capacity = lists.held.capacity() + lists.deferred.capacity();
        let bytes = (capacity * size_of::<u64>()) as u64;
        let before = std::mem::replace(&mut lists.private_bytes, bytes);
        if before != bytes {
            self.memory.change_private(before, bytes);
        }
    }

    fn lists(&self) -> MutexGuard<'_, Lists> {
        self.lists.lock().expect("no holder of the retired lists panics")
    }
}
