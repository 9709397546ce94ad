//! Keyspace events: the classes and names that the options and channels of Redis's keyspace
//! notifications use.
//!
//! Source: Redis documentation, "Redis keyspace notifications".

use base::DatabaseIndex;

use crate::change::{Cause, Change};
use crate::effect::{Arguments, Effect, Expiry};

/// The classes of events, by their letters in `notify-keyspace-events`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum EventClass {
    /// What concerns keys of any type.
    Generic = b'g',
    /// Strings.
    String = b'$',
    /// Lists.
    List = b'l',
    /// Sets.
    Set = b's',
    /// Hashes.
    Hash = b'h',
    /// Sorted sets.
    SortedSet = b'z',
    /// Streams.
    Stream = b't',
    /// A key's time was over.
    Expired = b'x',
    /// A key went to make room.
    Evicted = b'e',
    /// A key that was not there.
    New = b'n',
}

impl EventClass {
    const ALL: [EventClass; 10] = [
        EventClass::Generic,
        EventClass::String,
        EventClass::List,
        EventClass::Set,
        EventClass::Hash,
        EventClass::SortedSet,
        EventClass::Stream,
        EventClass::Expired,
        EventClass::Evicted,
        EventClass::New,
    ];

    /// Returns the letter.
    pub fn letter(self) -> u8 {
        self as u8
    }

    /// Returns the class of this letter.
    pub fn of(letter: u8) -> Option<EventClass> {
        EventClass::ALL.into_iter().find(|class| class.letter() == letter)
    }
}

/// The event of a change that is part of what another one tells, or that Redis does not tell of.
pub const NO_EVENT: &str = "-";

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyspaceEvent<'a> {
    pub class: EventClass,
    /// The name, in lower case.
    pub name: String,
    /// The database of the key.
    pub database: DatabaseIndex,
    pub key: &'a [u8],
}

/// Returns the events of `change`, in the order in which Redis publishes them.
pub fn keyspace_events<'a>(change: &Change<'a>) -> Vec<KeyspaceEvent<'a>> {
    let at = |database, class, name: &str, key| KeyspaceEvent {
        class,
        name: name.to_ascii_lowercase(),
        database,
        key,
    };
    let here = |class, name: &str, key| at(change.database, class, name, key);
    let generic = |name, key| here(EventClass::Generic, name, key);
    let named = |name, key| {
        let name = if change.event.is_empty() { name } else { change.event };
        here(change.class, name, key)
    };
    let mut events = match change.effect {
        _ if change.changes_encoding_only || change.event == NO_EVENT => Vec::new(),
        Effect::Set { key, expiry: Expiry::At(_), .. } => {
            vec![named("set", key), generic("expire", key)]
        }
        Effect::Set { key, .. } => vec![named("set", key)],
        Effect::Append { key, .. } => vec![named("append", key)],
        Effect::SetRange { key, .. } => vec![named("setrange", key)],
        Effect::Command { name, key, arguments } => events_of_command(change, name, key, arguments),
        Effect::MakeText { .. } => Vec::new(),
        Effect::Restore { key, .. } => vec![named("restore", key)],
        Effect::Delete { key } => match change.cause {
            Cause::Command if change.event.is_empty() => vec![generic("del", key)],
            Cause::Command => vec![named("del", key), generic("del", key)],
            Cause::Expired | Cause::ExpiredOnAccess => {
                vec![here(EventClass::Expired, "expired", key)]
            }
            Cause::Evicted => vec![here(EventClass::Evicted, "evicted", key)],
        },
        Effect::ExpireAt { key, .. } => vec![generic("expire", key)],
        // Of LDEL it is the removal that it is to all who take no stale values.
        Effect::ExpireStaleAt { key, .. } => vec![named("expire", key)],
        Effect::Persist { key } => vec![generic("persist", key)],
        Effect::Rename { source, target } => {
            vec![generic("rename_from", source), generic("rename_to", target)]
        }
        Effect::Move { key, database } => {
            let there = at(database, EventClass::Generic, "move_to", key);
            vec![generic("move_from", key), there]
        }
        Effect::Copy { target, database, .. } => {
            vec![at(database, EventClass::Generic, "copy_to", target)]
        }
        Effect::FlushDatabase | Effect::FlushAll | Effect::SwapDatabases { .. } => Vec::new(),
    };
    if let Some(last) = events.last() {
        let (database, key) = (last.database, last.key);
        if change.creates {
            events.insert(0, at(database, EventClass::New, "new", key));
        }
        if change.removes && !matches!(change.effect, Effect::Delete { .. }) {
            events.push(at(database, EventClass::Generic, "del", key));
        }
    }
    events
}

/// Returns the events of a change that is a command on `key`, but for what becomes of the key.
fn events_of_command<'a>(
    change: &Change<'a>,
    name: &str,
    key: &'a [u8],
    mut arguments: Arguments<'a>,
) -> Vec<KeyspaceEvent<'a>> {
    let here = |name: &str| KeyspaceEvent {
        class: change.class,
        name: name.to_ascii_lowercase(),
        database: change.database,
        key,
    };
    let named = |name| here(if change.event.is_empty() { name } else { change.event });
    match name {
        // Nothing but fields of hashes goes so.
        _ if change.cause != Cause::Command => vec![here("hexpired")],
        "LMOVE" => {
            // Within one list: it names its key twice, and then the ends.
            let (from, to) = (arguments.nth(1), arguments.next());
            let is_head = |end| end == Some(b"LEFT".as_slice());
            let push = if is_head(to) { "lpush" } else { "rpush" };
            let pop = if is_head(from) { "lpop" } else { "rpop" };
            vec![here(push), here(pop)]
        }
        "HPEXPIREAT" => vec![named("hexpire")],
        "XADD" if arguments.next() == Some(b"MAXLEN".as_slice()) => {
            vec![named("xadd"), here("xtrim")]
        }
        // The value comes first.
        "SET" if arguments.nth(1) == Some(b"PXAT".as_slice()) => {
            vec![named("set"), KeyspaceEvent { class: EventClass::Generic, ..here("expire") }]
        }
        // What is pending is nobody's business but the group's.
        "XACK" | "XCLAIM" => Vec::new(),
        _ if name.contains('|') => vec![here(&name.replace('|', "-"))],
        "HSETEX" if arguments.next() == Some(b"PXAT".as_slice()) => {
            vec![named("hset"), here("hexpire")]
        }
        "HSETEX" => vec![named("hset")],
        // Fields that were set with a time that had come.
        "HDEL" if !change.event.is_empty() => vec![named(name), here(name)],
        _ => vec![named(name)],
    }
}

#[cfg(test)]
mod tests {
    use base::UnixMs;

    use super::*;
    use crate::{LastUse, StoredForm};

    const DB0: DatabaseIndex = DatabaseIndex(0);

    /// Returns the events as `class name@database key`.
    fn texts(change: &Change<'_>) -> Vec<String> {
        let text = |event: KeyspaceEvent<'_>| {
            let (class, key) = (char::from(event.class.letter()), event.key.escape_ascii());
            format!("{class} {}@{} {key}", event.name, event.database.0)
        };
        keyspace_events(change).into_iter().map(text).collect()
    }

    fn of_hash<'a>(name: &'a str, arguments: &'a [&'a [u8]]) -> Change<'a> {
        let arguments = Arguments::Slices(arguments);
        let effect = Effect::Command { name, key: b"k", arguments };
        Change::new(DB0, EventClass::Hash, effect)
    }

    #[test]
    fn fields_set_with_a_past_time_are_set_and_gone() {
        let change = Change { event: "hset", removes: true, ..of_hash("HDEL", &[b"f"]) };
        assert_eq!(texts(&change), ["h hset@0 k", "h hdel@0 k", "g del@0 k"]);
    }

    #[test]
    fn events_of_streams_are_those_of_redis() {
        let events = |name: &str, event: &str, arguments: &[&[u8]]| {
            let arguments = Arguments::Slices(arguments);
            let effect = Effect::Command { name, key: b"k", arguments };
            texts(&Change { event, ..Change::new(DB0, EventClass::Stream, effect) })
        };
        assert_eq!(events("XADD", "", &[b"1-1", b"f", b"v"]), ["t xadd@0 k"]);
        let trimmed: &[&[u8]] = &[b"MAXLEN", b"=", b"1", b"1-1", b"f", b"v"];
        assert_eq!(events("XADD", "", trimmed), ["t xadd@0 k", "t xtrim@0 k"]);
        assert_eq!(events("XGROUP|CREATE", "", &[b"g", b"0"]), ["t xgroup-create@0 k"]);
        assert_eq!(events("XGROUP|SETID", "", &[b"g", b"0"]), ["t xgroup-setid@0 k"]);
        assert_eq!(events("XGROUP|SETID", NO_EVENT, &[b"g", b"0"]), [""; 0]);
        assert_eq!(events("XCLAIM", "", &[b"g"]), [""; 0]);
    }

    #[test]
    fn events_of_a_set_with_a_cost_are_those_of_one_without() {
        let events = |arguments: &[&[u8]]| {
            let arguments = Arguments::Slices(arguments);
            let effect = Effect::Command { name: "SET", key: b"k", arguments };
            texts(&Change::new(DB0, EventClass::String, effect))
        };
        assert_eq!(events(&[b"v", b"COST", b"40"]), ["$ set@0 k"]);
        assert_eq!(events(&[b"v", b"KEEPTTL", b"COST", b"40"]), ["$ set@0 k"]);
        let timed: &[&[u8]] = &[b"v", b"PXAT", b"9", b"COST", b"40"];
        assert_eq!(events(timed), ["$ set@0 k", "g expire@0 k"]);
        // The value is nobody's option.
        assert_eq!(events(&[b"PXAT", b"COST", b"40"]), ["$ set@0 k"]);
    }

    #[test]
    fn events_of_hyperloglogs_are_those_of_redis() {
        let events = |name: &str, event: &str| {
            let effect = Effect::Command { name, key: b"k", arguments: Arguments::Slices(&[]) };
            texts(&Change { event, ..Change::new(DB0, EventClass::String, effect) })
        };
        assert_eq!(events("PFADD", ""), ["$ pfadd@0 k"]);
        assert_eq!(events("PFCOUNT", NO_EVENT), [""; 0]);
        assert_eq!(events("PFDEBUG|TODENSE", NO_EVENT), [""; 0]);
        let set = Effect::Set { key: b"k", value: b"HYLL", expiry: Expiry::Keep };
        let merged = Change { event: "pfadd", ..Change::new(DB0, EventClass::String, set) };
        assert_eq!(texts(&merged), ["$ pfadd@0 k"]);
    }

    #[test]
    fn events_are_those_of_redis() {
        let key = b"k".as_slice();
        let set = Effect::Set { key, value: b"1", expiry: Expiry::Clear };
        let of_string = Change::new(DB0, EventClass::String, set);
        let pop =
            Effect::Command { name: "LPOP", key, arguments: Arguments::Slices(&[b"1".as_slice()]) };
        let of_list = Change::new(DB0, EventClass::List, pop);
        let words: [&[u8]; 3] = [key, b"LEFT", b"RIGHT"];
        let arguments = Arguments::Slices(&words);
        let rotation = Effect::Command { name: "LMOVE", key, arguments };
        let rotation = Change::new(DB0, EventClass::List, rotation);
        let change = |effect| Change::new(DatabaseIndex(2), EventClass::Generic, effect);
        let delete = change(Effect::Delete { key });
        let until = Effect::Set { key, value: b"1", expiry: Expiry::At(UnixMs(9)) };
        let (form, expires_at, last_use) = (StoredForm::Raw, Some(UnixMs(9)), LastUse::Now);
        let restore = change(Effect::Restore { key, payload: b"", form, expires_at, last_use });
        let store = Effect::Restore { key, payload: b"", form, expires_at: None, last_use };
        let store = Change::new(DB0, EventClass::SortedSet, store);
        let stored = Change { event: "sortstore", class: EventClass::List, ..restore };
        let union = Change { event: "sunionstore", class: EventClass::Set, ..restore };
        let rename = change(Effect::Rename { source: key, target: b"l" });
        for (change, expected) in [
            (of_string, vec!["$ set@0 k"]),
            (Change { creates: true, ..of_string }, vec!["n new@0 k", "$ set@0 k"]),
            (Change { event: "incrby", ..of_string }, vec!["$ incrby@0 k"]),
            (Change { effect: until, ..of_string }, vec!["$ set@0 k", "g expire@0 k"]),
            (Change { changes_encoding_only: true, ..of_string }, vec![]),
            (of_list, vec!["l lpop@0 k"]),
            (rotation, vec!["l rpush@0 k", "l lpop@0 k"]),
            (Change { removes: true, ..of_list }, vec!["l lpop@0 k", "g del@0 k"]),
            (Change { removes: true, ..delete }, vec!["g del@2 k"]),
            (
                Change { removes: true, event: "spop", class: EventClass::Set, ..delete },
                vec!["s spop@2 k", "g del@2 k"],
            ),
            (Change { cause: Cause::Evicted, ..delete }, vec!["e evicted@2 k"]),
            (Change { cause: Cause::Expired, ..delete }, vec!["x expired@2 k"]),
            (Change { cause: Cause::ExpiredOnAccess, ..delete }, vec!["x expired@2 k"]),
            (change(Effect::ExpireAt { key, at: UnixMs(1) }), vec!["g expire@2 k"]),
            (change(Effect::Persist { key }), vec!["g persist@2 k"]),
            (Change { creates: true, ..restore }, vec!["n new@2 k", "g restore@2 k"]),
            (Change { event: "zunionstore", ..store }, vec!["z zunionstore@0 k"]),
            (stored, vec!["l sortstore@2 k"]),
            (union, vec!["s sunionstore@2 k"]),
            (
                Change { creates: true, ..rename },
                vec!["n new@2 l", "g rename_from@2 k", "g rename_to@2 l"],
            ),
            (change(Effect::Move { key, database: DB0 }), vec!["g move_from@2 k", "g move_to@0 k"]),
            (
                change(Effect::Copy { source: key, target: b"l", database: DatabaseIndex(5) }),
                vec!["g copy_to@5 l"],
            ),
            (change(Effect::FlushAll), vec![]),
        ] {
            assert_eq!(texts(&change), expected, "{change:?}");
        }
    }

    #[test]
    fn events_of_fields_with_times_are_those_of_redis() {
        for (change, expected) in [
            (of_hash("HPEXPIREAT", &[b"9"]), vec!["h hexpire@0 k"]),
            (of_hash("HPERSIST", &[b"FIELDS"]), vec!["h hpersist@0 k"]),
            (of_hash("HSETEX", &[b"PXAT", b"9"]), vec!["h hset@0 k", "h hexpire@0 k"]),
            (
                Change { event: "hincrby", ..of_hash("HSETEX", &[b"KEEPTTL"]) },
                vec!["h hincrby@0 k"],
            ),
            (
                Change { cause: Cause::Expired, removes: true, ..of_hash("HDEL", &[b"f"]) },
                vec!["h hexpired@0 k", "g del@0 k"],
            ),
        ] {
            assert_eq!(texts(&change), expected, "{change:?}");
        }
    }
}
