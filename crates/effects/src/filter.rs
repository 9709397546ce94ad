//! Which changes a consumer wants.

use std::ops::RangeInclusive;

use base::{DatabaseIndex, Slot};

use crate::change::Change;
use crate::record::RecordHeader;

/// Changes of one database, of some slots, of keys that begin with some bytes: what is not set
/// accepts all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only changes about this database.
    pub database: Option<DatabaseIndex>,
    /// Only changes of keys in these slots.
    pub slots: Option<RangeInclusive<u16>>,
    /// Only changes of keys that begin so.
    pub key_prefix: Vec<u8>,
}

impl Filter {
    /// Returns whether a record may have changes that are wanted: where not, it need not be read.
    pub fn may_accept(&self, record: &RecordHeader) -> bool {
        let is_wanted =
            |slot: Slot| self.slots.as_ref().is_none_or(|slots| slots.contains(&slot.0));
        let of_database = self.database.zip(record.database).is_none_or(|(a, b)| a == b);
        of_database && record.slot.is_none_or(is_wanted)
    }

    /// Returns whether `change` is wanted. One about whole databases is, wherever its keys would
    /// have been.
    pub fn accepts(&self, change: &Change<'_>) -> bool {
        let of_database = self.database.is_none_or(|database| {
            change.database == database || change.effect.crosses_databases()
        });
        let mut keys = change.effect.keys().peekable();
        let is_wanted = |key: &[u8]| {
            let of_slots = |slots: &RangeInclusive<u16>| slots.contains(&base::key_slot(key).0);
            key.starts_with(&self.key_prefix) && self.slots.as_ref().is_none_or(of_slots)
        };
        of_database && (keys.peek().is_none() || keys.any(is_wanted))
    }
}

#[cfg(test)]
mod tests {
    use base::{Lsn, UnixMs};

    use super::*;
    use crate::{Effect, EventClass, Record, RecordHeader};

    #[test]
    fn changes_are_wanted_by_database_slot_and_prefix() {
        let check = |filter: &Filter, database, effect, is_wanted| {
            let change = Change::new(DatabaseIndex(database), EventClass::Generic, effect);
            assert_eq!(filter.accepts(&change), is_wanted, "{filter:?} {change:?}");
            let mut bytes = Vec::new();
            Record::one(UnixMs(0), &change).encode(Lsn(0), &mut bytes);
            let header = RecordHeader::read(&bytes).unwrap();
            assert!(filter.may_accept(&header) || !is_wanted, "{filter:?} {change:?}");
        };
        let delete = |key: &'static [u8]| Effect::Delete { key };
        let all = Filter::default();
        check(&all, 3, delete(b"k"), true);
        let of_database = Filter { database: Some(DatabaseIndex(3)), ..Filter::default() };
        check(&of_database, 3, delete(b"k"), true);
        check(&of_database, 4, delete(b"k"), false);
        check(&of_database, 4, Effect::Move { key: b"k", database: DatabaseIndex(3) }, true);
        check(&of_database, 4, Effect::FlushAll, true);
        check(&of_database, 4, Effect::FlushDatabase, false);
        let slot = base::key_slot(b"k").0;
        let of_slot = Filter { slots: Some(slot..=slot), ..Filter::default() };
        check(&of_slot, 0, delete(b"k"), true);
        check(&of_slot, 0, delete(b"{k}other"), true);
        check(&of_slot, 0, delete(b"l"), false);
        check(&of_slot, 0, Effect::Rename { source: b"l", target: b"k" }, true);
        check(&of_slot, 0, Effect::FlushDatabase, true);
        let of_prefix = Filter { key_prefix: b"user:".to_vec(), ..Filter::default() };
        check(&of_prefix, 0, delete(b"user:1"), true);
        check(&of_prefix, 0, delete(b"item:1"), false);
        check(&of_prefix, 0, Effect::Rename { source: b"item:1", target: b"user:2" }, true);
        let header = |effect| {
            let change = Change::new(DatabaseIndex(4), EventClass::Generic, effect);
            let mut bytes = Vec::new();
            Record::one(UnixMs(0), &change).encode(Lsn(0), &mut bytes);
            RecordHeader::read(&bytes).unwrap()
        };
        assert!(!of_database.may_accept(&header(delete(b"k"))), "no look at the changes");
        assert!(!of_slot.may_accept(&header(delete(b"l"))));
    }
}
