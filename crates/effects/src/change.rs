//! An effect with where and why it happened.

use base::{DatabaseIndex, Slot, key_slot};

use crate::effect::Effect;
use crate::events::EventClass;

/// Why something changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Cause {
    /// A client's command.
    #[default]
    Command = 0,
    /// The time of the key, or of fields of a hash, was over, and the sweep found it.
    Expired = 1,
    /// The time of the key, or of fields of a hash, was over, and a command met it.
    ExpiredOnAccess = 2,
    /// The key went to make room; for which memory is not told.
    Evicted = 3,
}

impl Cause {
    /// Returns the cause with this number in a record.
    pub(crate) fn of(number: u8) -> Option<Cause> {
        [Cause::Command, Cause::Expired, Cause::ExpiredOnAccess, Cause::Evicted]
            .into_iter()
            .find(|cause| *cause as u8 == number)
    }
}

/// One effect, and what its consumers want to know of it beside.
///
/// In this order no mark lies at a multiple of four. From such an address LLVM reads four bytes for
/// x86-64 where it needs one, and a load of four bytes that were stored one by one cannot be served
/// from the store buffer: it waits until they are in the cache, behind all stores before them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Change<'a> {
    /// What happened.
    pub effect: Effect<'a>,
    /// The name of its keyspace event, where it differs from the effect's own event: INCR is a SET
    /// whose event is `incrby`. Empty elsewhere; at most 255 bytes.
    pub event: &'a str,
    /// The cluster slot of all its keys; none where they are in several, or there is no key.
    pub slot: Option<Slot>,
    /// The database in which it happened.
    pub database: DatabaseIndex,
    /// The key, or the target of two, was not there before.
    pub creates: bool,
    /// The key does not exist any more: a collection is deleted with its last element.
    pub removes: bool,
    /// Only how the value is stored has changed: clients see no difference.
    pub changes_encoding_only: bool,
    /// Why it happened.
    pub cause: Cause,
    /// The class of its keyspace event.
    pub class: EventClass,
}

const _: () = {
    assert!(std::mem::offset_of!(Change<'_>, creates) % 4 == 1);
    assert!(std::mem::offset_of!(Change<'_>, removes) % 4 == 2);
    assert!(std::mem::offset_of!(Change<'_>, changes_encoding_only) % 4 == 3);
};

impl<'a> Change<'a> {
    /// Returns `effect` in `database`, caused by a command and without any mark. Where it is a
    /// command, its event is one of `class`.
    pub fn new(database: DatabaseIndex, class: EventClass, effect: Effect<'a>) -> Change<'a> {
        let mut slots = effect.keys().map(key_slot);
        let slot = slots.next().filter(|first| slots.all(|slot| slot == *first));
        Change::in_slot(database, class, effect, slot)
    }

    /// As [`Change::new`], where the `slot` of all keys of `effect` is known.
    #[inline]
    pub fn in_slot(
        database: DatabaseIndex,
        class: EventClass,
        effect: Effect<'a>,
        slot: Option<Slot>,
    ) -> Change<'a> {
        Change {
            effect,
            database,
            slot,
            cause: Cause::Command,
            class,
            event: "",
            creates: false,
            removes: false,
            changes_encoding_only: false,
        }
    }
}
