//! Which changes a reader wants, and how they are told.

use base::DatabaseIndex;
use command::FeedRead;
use effects::{Cause, Change, EventClass, Filter, RecordHeader, RecordView, ReplicationStream};
use keyspace::ValueType;
use resp::Reply;

/// What of the stream is wanted.
pub struct Wanted {
    /// One for each prefix, and one at least: a change is wanted that any of them accepts.
    filters: Vec<Filter>,
    kind: Option<ValueType>,
}

impl Wanted {
    /// Returns what `read` wants.
    pub fn of(read: &FeedRead) -> Wanted {
        let database = read.database.map(DatabaseIndex);
        let filter = |prefix: &[u8]| Filter { database, slots: None, key_prefix: prefix.to_vec() };
        let mut filters: Vec<Filter> = read.prefixes.iter().map(|it| filter(it)).collect();
        if filters.is_empty() {
            filters.push(filter(b""));
        }
        Wanted { filters, kind: read.kind }
    }

    /// Returns whether a record may have changes that are wanted.
    pub fn may_accept(&self, record: &RecordHeader) -> bool {
        self.filters.iter().any(|filter| filter.may_accept(record))
    }

    /// Tells the changes of `record` that are wanted; returns how many.
    pub fn tell(&self, record: &RecordView<'_>, reply: &mut Reply<'_>) -> usize {
        let mut count = 0;
        for change in record.changes().filter(|change| self.accepts(change)) {
            tell(record.header(), &change, reply);
            count += 1;
        }
        count
    }

    fn accepts(&self, change: &Change<'_>) -> bool {
        let is_of_kind = match (self.kind, type_of(change.class)) {
            (Some(wanted), Some(kind)) => wanted == kind,
            _ => true,
        };
        is_of_kind && self.filters.iter().any(|filter| filter.accepts(change))
    }
}

/// Returns the type that a change of `class` is about, where that says it.
fn type_of(class: EventClass) -> Option<ValueType> {
    match class {
        EventClass::String => Some(ValueType::String),
        EventClass::List => Some(ValueType::List),
        EventClass::Set => Some(ValueType::Set),
        EventClass::Hash => Some(ValueType::Hash),
        EventClass::SortedSet => Some(ValueType::SortedSet),
        EventClass::Stream => Some(ValueType::Stream),
        EventClass::Generic | EventClass::Expired | EventClass::Evicted | EventClass::New => None,
    }
}

fn tell(record: &RecordHeader, change: &Change<'_>, reply: &mut Reply<'_>) {
    reply.map(6);
    reply.bulk("lsn");
    reply.integer(record.lsn.0 as i64);
    reply.bulk("time");
    reply.integer(record.time.0);
    reply.bulk("database");
    reply.integer(i64::from(change.database.0));
    reply.bulk("slot");
    match change.slot {
        Some(slot) => reply.integer(i64::from(slot.0)),
        None => reply.null(),
    }
    reply.bulk("cause");
    reply.bulk(match change.cause {
        Cause::Command => "command",
        Cause::Expired => "expired",
        Cause::ExpiredOnAccess => "expired-on-access",
        Cause::Evicted => "evicted",
    });
    reply.bulk("command");
    // An array of strings is the same in both versions of the protocol.
    let mut command = Vec::new();
    ReplicationStream::in_database(change.database).write_change(change, &mut command);
    reply.raw(&command);
}
