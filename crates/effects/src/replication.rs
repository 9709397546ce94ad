//! Records as Redis's replication stream: RESP commands, with SELECT where the database changes
//! and MULTI around what happens together.

use base::number_text::IntegerText;
use base::{DatabaseIndex, UnixMs};

use crate::change::Change;
use crate::effect::{Effect, Expiry, LastUse};
use crate::record::RecordView;

/// The stream to one replica.
#[derive(Clone, Debug, Default)]
pub struct ReplicationStream {
    /// The database that the last SELECT chose; none where the replica has had no SELECT.
    selected: Option<DatabaseIndex>,
}

impl ReplicationStream {
    /// Returns the stream to a replica that has had nothing yet.
    pub fn new() -> ReplicationStream {
        ReplicationStream::default()
    }

    /// Returns a stream whose last SELECT chose `database`.
    pub fn in_database(database: DatabaseIndex) -> ReplicationStream {
        ReplicationStream { selected: Some(database) }
    }

    /// Appends `record` to `out`.
    pub fn write(&mut self, record: &RecordView<'_>, out: &mut Vec<u8>) {
        let mut changes = record.changes();
        let Some(first) = changes.next() else { return };
        let mut others = changes.peekable();
        let is_several = others.peek().is_some();
        if is_several {
            put_command(out, [b"MULTI".as_slice()].into_iter());
        }
        self.write_change(&first, out);
        others.for_each(|change| self.write_change(&change, out));
        if is_several {
            put_command(out, [b"EXEC".as_slice()].into_iter());
        }
    }

    /// Appends `change` to `out`, without a MULTI.
    pub fn write_change(&mut self, change: &Change<'_>, out: &mut Vec<u8>) {
        if self.selected != Some(change.database) {
            self.selected = Some(change.database);
            let number = database_text(change.database);
            put_command(out, [b"SELECT".as_slice(), number.as_bytes()].into_iter());
        }
        put_effect(&change.effect, out);
    }
}

fn database_text(database: DatabaseIndex) -> IntegerText {
    IntegerText::new(i64::from(database.0))
}

fn put_effect(effect: &Effect<'_>, out: &mut Vec<u8>) {
    let mut put = |words: &[&[u8]]| put_command(out, words.iter().copied());
    match *effect {
        Effect::Set { key, value, expiry } => match expiry {
            Expiry::Clear => put(&[b"SET", key, value]),
            Expiry::Keep => put(&[b"SET", key, value, b"KEEPTTL"]),
            Expiry::At(at) => {
                put(&[b"SET", key, value, b"PXAT", IntegerText::new(at.0).as_bytes()]);
            }
        },
        Effect::Append { key, suffix } => put(&[b"APPEND", key, suffix]),
        Effect::SetRange { key, offset, bytes } => {
            put(&[b"SETRANGE", key, IntegerText::unsigned(offset).as_bytes(), bytes]);
        }
        // Nothing is added to the number, which Redis stores as text then.
        Effect::MakeText { key } => put(&[b"INCRBYFLOAT", key, b"0"]),
        Effect::Restore { key, payload, expires_at, last_use, .. } => {
            put_restore(key, payload, expires_at, last_use, out);
        }
        Effect::Delete { key } => put(&[b"DEL", key]),
        // Redis keeps no value behind its time.
        Effect::ExpireAt { key, at } | Effect::ExpireStaleAt { key, at, .. } => {
            put(&[b"PEXPIREAT", key, IntegerText::new(at.0).as_bytes()]);
        }
        Effect::Persist { key } => put(&[b"PERSIST", key]),
        Effect::Command { name, key, arguments } => {
            // A subcommand stands between the name and the key.
            let names = name.split('|').map(str::as_bytes);
            put_command(out, names.chain([key]).chain(arguments));
        }
        Effect::Rename { source, target } => put(&[b"RENAME", source, target]),
        Effect::Move { key, database } => put(&[b"MOVE", key, database_text(database).as_bytes()]),
        Effect::Copy { source, target, database } => {
            let database = database_text(database);
            put(&[b"COPY", source, target, b"DB", database.as_bytes(), b"REPLACE"]);
        }
        Effect::FlushDatabase => put(&[b"FLUSHDB"]),
        Effect::FlushAll => put(&[b"FLUSHALL"]),
        Effect::SwapDatabases { a, b } => {
            put(&[b"SWAPDB", database_text(a).as_bytes(), database_text(b).as_bytes()]);
        }
    }
}

fn put_restore(
    key: &[u8],
    payload: &[u8],
    expires_at: Option<UnixMs>,
    last_use: LastUse,
    out: &mut Vec<u8>,
) {
    // Zero would be for ever, and less is refused: what is long over is as long over then.
    let at = expires_at.map_or(0, |at| at.0.max(1));
    let at = IntegerText::new(at);
    let words = [b"RESTORE".as_slice(), key, at.as_bytes(), payload, b"REPLACE", b"ABSTTL"];
    let last_use = match last_use {
        LastUse::Now => None,
        // More seconds than Redis reads are as long as it can tell.
        LastUse::Ago { seconds } => Some((b"IDLETIME".as_slice(), seconds.min(i64::MAX as u64))),
        LastUse::Counted(counter) => Some((b"FREQ".as_slice(), u64::from(counter))),
    };
    let last_use = last_use.map(|(name, number)| (name, IntegerText::unsigned(number)));
    let option = last_use.as_ref().map(|(name, number)| [*name, number.as_bytes()]);
    put_command(out, words.into_iter().chain(option.into_iter().flatten()));
}

fn put_command<'a>(out: &mut Vec<u8>, words: impl Iterator<Item = &'a [u8]> + Clone) {
    let put_line = |sign: u8, number: usize, out: &mut Vec<u8>| {
        out.push(sign);
        out.extend_from_slice(IntegerText::unsigned(number as u64).as_bytes());
        out.extend_from_slice(b"\r\n");
    };
    put_line(b'*', words.clone().count(), out);
    for word in words {
        put_line(b'$', word.len(), out);
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use base::Lsn;

    use super::*;
    use crate::{Arguments, EventClass, RecordBuilder, StoredForm};

    /// Writes `effects`, each with its database, as one record to `stream`.
    fn text(stream: &mut ReplicationStream, effects: &[(u8, Effect<'_>)]) -> String {
        let mut builder = RecordBuilder::default();
        for (database, effect) in effects {
            let change = Change::new(DatabaseIndex(*database), EventClass::Generic, *effect);
            builder.add(UnixMs(0), &change);
        }
        let (mut bytes, mut out) = (Vec::new(), Vec::new());
        builder.finish().unwrap().encode(Lsn(0), &mut bytes);
        stream.write(&RecordView::read(&bytes).unwrap(), &mut out);
        String::from_utf8(out).unwrap().replace("\r\n", " ")
    }

    #[test]
    fn effects_are_resp_commands() {
        let [key, value] = [b"k".as_slice(), b"0123456789".as_slice()];
        let mut stream = ReplicationStream::in_database(DatabaseIndex(0));
        for (effect, expected) in [
            (Effect::Set { key, value, expiry: Expiry::Clear }, "*3 $3 SET $1 k $10 0123456789 "),
            (
                Effect::Set { key, value, expiry: Expiry::Keep },
                "*4 $3 SET $1 k $10 0123456789 $7 KEEPTTL ",
            ),
            (
                Effect::Set { key, value: b"", expiry: Expiry::At(UnixMs(-7)) },
                "*5 $3 SET $1 k $0  $4 PXAT $2 -7 ",
            ),
            (Effect::Append { key, suffix: b"x" }, "*3 $6 APPEND $1 k $1 x "),
            (
                Effect::SetRange { key, offset: u64::MAX, bytes: b"x" },
                "*4 $8 SETRANGE $1 k $20 18446744073709551615 $1 x ",
            ),
            (Effect::MakeText { key }, "*3 $11 INCRBYFLOAT $1 k $1 0 "),
            (Effect::Delete { key }, "*2 $3 DEL $1 k "),
            (Effect::ExpireAt { key, at: UnixMs(5) }, "*3 $9 PEXPIREAT $1 k $1 5 "),
            (
                Effect::ExpireStaleAt { key, at: UnixMs(5), grace_ms: 7 },
                "*3 $9 PEXPIREAT $1 k $1 5 ",
            ),
            (Effect::Persist { key }, "*2 $7 PERSIST $1 k "),
            (
                Effect::Command {
                    name: "RPUSH",
                    key,
                    arguments: Arguments::Slices(&[value, b"x"]),
                },
                "*4 $5 RPUSH $1 k $10 0123456789 $1 x ",
            ),
            (Effect::Rename { source: key, target: b"l" }, "*3 $6 RENAME $1 k $1 l "),
            (Effect::Move { key, database: DatabaseIndex(12) }, "*3 $4 MOVE $1 k $2 12 "),
            (
                Effect::Copy { source: key, target: b"l", database: DatabaseIndex(3) },
                "*6 $4 COPY $1 k $1 l $2 DB $1 3 $7 REPLACE ",
            ),
            (Effect::FlushDatabase, "*1 $7 FLUSHDB "),
            (Effect::FlushAll, "*1 $8 FLUSHALL "),
            (
                Effect::SwapDatabases { a: DatabaseIndex(0), b: DatabaseIndex(15) },
                "*3 $6 SWAPDB $1 0 $2 15 ",
            ),
        ] {
            assert_eq!(text(&mut stream, &[(0, effect)]), expected);
        }
    }

    #[test]
    fn whole_values_come_with_their_expiry_and_use() {
        let mut stream = ReplicationStream::in_database(DatabaseIndex(0));
        for (expires_at, last_use, expected) in [
            (None, LastUse::Now, "*6 $7 RESTORE $1 k $1 0 $1 x $7 REPLACE $6 ABSTTL "),
            (
                None,
                LastUse::Ago { seconds: u64::MAX },
                "*8 $7 RESTORE $1 k $1 0 $1 x $7 REPLACE $6 ABSTTL $8 IDLETIME \
                 $19 9223372036854775807 ",
            ),
            (
                Some(UnixMs(-9)),
                LastUse::Counted(77),
                "*8 $7 RESTORE $1 k $1 1 $1 x $7 REPLACE $6 ABSTTL $4 FREQ $2 77 ",
            ),
        ] {
            let (payload, form) = (b"x".as_slice(), StoredForm::Listpack);
            let effect = Effect::Restore { key: b"k", payload, form, expires_at, last_use };
            assert_eq!(text(&mut stream, &[(0, effect)]), expected);
        }
    }

    #[test]
    fn database_is_selected_where_it_changes_and_several_changes_are_a_transaction() {
        let mut stream = ReplicationStream::new();
        let delete = Effect::Delete { key: b"k" };
        assert_eq!(text(&mut stream, &[(0, delete)]), "*2 $6 SELECT $1 0 *2 $3 DEL $1 k ");
        assert_eq!(text(&mut stream, &[(0, delete)]), "*2 $3 DEL $1 k ");
        assert_eq!(
            text(&mut stream, &[(11, delete), (11, delete), (0, delete)]),
            "*1 $5 MULTI *2 $6 SELECT $2 11 *2 $3 DEL $1 k *2 $3 DEL $1 k \
             *2 $6 SELECT $1 0 *2 $3 DEL $1 k *1 $4 EXEC "
        );
    }
}
