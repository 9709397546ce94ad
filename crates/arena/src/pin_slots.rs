//! Which slots of a pin table are taken; a thread of its session claims one, pins, and releases it.
//! The server's own threads are such a session too.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::access_reports::AccessReport;
use crate::pins::{self, PIN_SLOTS, PinMemory};
use crate::protocol_rules::{Rule, holds};

const GROUPS: usize = PIN_SLOTS.div_ceil(64);

/// A session's pin table and, in private memory, a bit for each slot in use.
pub(crate) struct PinSlots {
    memory: Arc<dyn PinMemory>,
    taken: [AtomicU64; GROUPS],
    /// Of the values that pins under a limit hold.
    held_bytes: AtomicU64,
}

impl PinSlots {
    pub fn new(memory: Arc<dyn PinMemory>) -> PinSlots {
        PinSlots { memory, taken: Default::default(), held_bytes: AtomicU64::new(0) }
    }

    /// Publishes a pin on `block` in a free slot; `None` when all are taken. It holds if what led
    /// to the block still stands afterwards.
    pub fn pin<S: Deref<Target = PinSlots>>(slots: S, block: u64) -> Option<Pin<S>> {
        let slot = slots.claim()?;
        Some(Pin::publish(slots, slot, block, 0))
    }

    /// As [`PinSlots::pin`]; `None` also where no more than `spare` slots are free.
    pub fn pin_sparing<S: Deref<Target = PinSlots>>(
        slots: S,
        block: u64,
        spare: usize,
    ) -> Option<Pin<S>> {
        // Others may claim some meanwhile: it is about a few more or less.
        if PIN_SLOTS - slots.taken_count() > spare { PinSlots::pin(slots, block) } else { None }
    }

    /// Returns how many slots are taken.
    pub fn taken_count(&self) -> usize {
        let taken = self.taken.iter().map(|group| group.load(Ordering::Relaxed).count_ones());
        taken.sum::<u32>() as usize
    }

    /// As [`PinSlots::pin`], for a value of `bytes` bytes: `None` also where this value and those
    /// that are held so would be more than `bytes_max` together; 0 is no limit, and such a pin
    /// counts towards none.
    pub fn pin_within<S: Deref<Target = PinSlots>>(
        slots: S,
        block: u64,
        bytes: u64,
        bytes_max: u64,
    ) -> Option<Pin<S>> {
        let bytes = if bytes_max == 0 { 0 } else { bytes };
        if bytes > 0 && !slots.charge(bytes, bytes_max) {
            return None;
        }
        let Some(slot) = slots.claim() else {
            slots.discharge(bytes);
            return None;
        };
        Some(Pin::publish(slots, slot, block, bytes))
    }

    fn charge(&self, bytes: u64, bytes_max: u64) -> bool {
        // Not added first and looked at after: what another thread finds too much, or what no
        // value's length is, must not have this one copy.
        let sum = |held: u64| held.checked_add(bytes).filter(|&sum| sum <= bytes_max);
        self.held_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum).is_ok()
    }

    fn discharge(&self, bytes: u64) {
        if bytes > 0 {
            self.held_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// Tells the server of a use.
    pub fn report(&self, access: AccessReport) {
        pins::report(self.memory.words(), access);
    }

    /// The lowest free slot: the writer's walk over the table stays short.
    fn claim(&self) -> Option<usize> {
        for (group, word) in self.taken.iter().enumerate() {
            let mut taken = word.load(Ordering::Relaxed);
            while taken != u64::MAX {
                let bit = (!taken).trailing_zeros();
                let slot = group * 64 + bit as usize;
                if slot >= PIN_SLOTS {
                    return None;
                }
                // SYNC POINT: the slot is empty. Pairs with the drop of the pin that was in it.
                let (success, failure) = (Ordering::Acquire, Ordering::Relaxed);
                match word.compare_exchange_weak(taken, taken | 1 << bit, success, failure) {
                    Ok(_) => return Some(slot),
                    Err(found) => taken = found,
                }
            }
        }
        None
    }
}

/// A pin on one block; released when dropped.
pub(crate) struct Pin<S: Deref<Target = PinSlots>> {
    slots: S,
    slot: usize,
    /// What it counts for towards the limit.
    bytes: u64,
}

impl<S: Deref<Target = PinSlots>> Pin<S> {
    fn publish(slots: S, slot: usize, block: u64, bytes: u64) -> Pin<S> {
        if holds(Rule::ReaderPins) {
            pins::publish(slots.memory.words(), slot, block);
        }
        Pin { slots, slot, bytes }
    }

    /// Returns what the pin is held with.
    pub fn slots(&self) -> &S {
        &self.slots
    }
}

impl<S: Deref<Target = PinSlots>> Drop for Pin<S> {
    fn drop(&mut self) {
        pins::release(self.slots.memory.words(), self.slot);
        let bit = 1 << (self.slot % 64);
        // SYNC POINT: the slot is empty. Pairs with the claim of whoever takes it next.
        self.slots.taken[self.slot / 64].fetch_and(!bit, Ordering::Release);
        self.slots.discharge(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pins::HeapPins;

    #[test]
    fn every_slot_is_handed_out_once_and_again_after_release() {
        let slots = PinSlots::new(Arc::new(HeapPins::new()));
        let mut pins: Vec<_> =
            (0..PIN_SLOTS).map(|index| PinSlots::pin(&slots, 64 + index as u64)).collect();
        assert!(pins.iter().all(Option::is_some));
        assert!(PinSlots::pin(&slots, 1 << 20).is_none());
        let mut seen = 0;
        crate::pins::for_each_pinned(slots.memory.words(), |_| seen += 1);
        assert_eq!(seen, PIN_SLOTS);
        pins.remove(100);
        assert!(PinSlots::pin(&slots, 64).is_some());
    }

    #[test]
    fn pins_that_spare_slots_leave_them_to_others() {
        let slots = PinSlots::new(Arc::new(HeapPins::new()));
        let pins: Vec<_> =
            (0..PIN_SLOTS).map_while(|_| PinSlots::pin_sparing(&slots, 64, 100)).collect();
        assert_eq!(pins.len(), PIN_SLOTS - 100);
        assert!(PinSlots::pin(&slots, 64).is_some());
        drop(pins);
        assert!(PinSlots::pin_sparing(&slots, 64, 100).is_some());
    }

    #[test]
    fn pins_under_a_limit_hold_no_more_than_it_says() {
        let slots = PinSlots::new(Arc::new(HeapPins::new()));
        let pin = |bytes: u64, bytes_max: u64| PinSlots::pin_within(&slots, 64, bytes, bytes_max);
        let unlimited = pin(1 << 40, 0);
        assert!(unlimited.is_some() && pin(101, 100).is_none() && pin(u64::MAX, 100).is_none());
        let first = pin(60, 100);
        assert!(first.is_some() && pin(41, 100).is_none());
        let second = pin(40, 100);
        assert!(second.is_some() && pin(1, 100).is_none() && PinSlots::pin(&slots, 64).is_some());
        drop((first, unlimited));
        assert!(pin(61, 100).is_none() && pin(60, 100).is_some());
        drop(second);
        assert!(pin(100, 100).is_some());
        // Those that find no slot count for nothing.
        let all: Vec<_> = (0..PIN_SLOTS).map(|_| PinSlots::pin(&slots, 64)).collect();
        assert!(pin(100, 100).is_none());
        drop(all);
        assert!(pin(100, 100).is_some());
    }
}
