//! Every record of a test: the tests of this workspace look at what a command has recorded, and
//! replay it. No program uses it.
//!
//! *Not here*: following for as long as a server runs. A recording grows with each record; a
//! [`crate::Backlog`] has a bound.

use std::sync::{Mutex, MutexGuard};

use base::{DatabaseIndex, Lsn};

use crate::record::{EffectSink, Record, RecordView};
use crate::replication::ReplicationStream;

/// Keeps all records in memory until they are taken. An LSN is the number of bytes up to a record's
/// end, those of taken ones too.
#[derive(Debug, Default)]
pub struct Recording {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    records: Vec<Vec<u8>>,
    end: Lsn,
}

impl Recording {
    /// Returns the LSN of the last record; 0 where none has come.
    pub fn end(&self) -> Lsn {
        self.lock().end
    }

    /// Shows each record to `visit`, the oldest first. Writes wait meanwhile.
    pub fn for_each(&self, mut visit: impl FnMut(&RecordView<'_>)) {
        for record in &self.lock().records {
            visit(&read(record));
        }
    }

    /// As [`Recording::for_each`], and forgets the records; writes go on meanwhile.
    pub fn take(&self, mut visit: impl FnMut(&RecordView<'_>)) {
        let records = std::mem::take(&mut self.lock().records);
        records.iter().for_each(|record| visit(&read(record)));
    }

    /// Returns each record as the words of its Redis commands with spaces between, for people: what
    /// is no UTF-8 is replaced. In each, the first SELECT comes where it leaves database 0.
    pub fn commands(&self) -> Vec<String> {
        let mut commands = Vec::new();
        self.for_each(|record| commands.push(command_words(record)));
        commands
    }

    /// As [`Recording::commands`], and forgets the records.
    pub fn take_commands(&self) -> Vec<String> {
        let mut commands = Vec::new();
        self.take(|record| commands.push(command_words(record)));
        commands
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().expect("no visitor of a recording panics")
    }
}

impl EffectSink for Recording {
    fn append(&self, record: &Record<'_>) -> Lsn {
        let mut bytes = Vec::new();
        let mut kept = self.lock();
        kept.end = record.encode(kept.end, &mut bytes);
        kept.records.push(bytes);
        kept.end
    }
}

fn read(record: &[u8]) -> RecordView<'_> {
    RecordView::read(record).expect("what was written can be read")
}

fn command_words(record: &RecordView<'_>) -> String {
    let (mut stream, mut bytes) = (ReplicationStream::in_database(DatabaseIndex(0)), Vec::new());
    record.changes().for_each(|change| stream.write_change(&change, &mut bytes));
    let mut words = Vec::new();
    let mut rest = bytes.as_slice();
    while let Some(end) = rest.iter().position(|&byte| byte == b'\r') {
        let (header, content) = (&rest[..end], &rest[end + 2..]);
        rest = content;
        if let Some(length) = header.strip_prefix(b"$") {
            let length = std::str::from_utf8(length).ok().and_then(|length| length.parse().ok());
            let (word, after) = content.split_at(length.expect("the stream writes lengths"));
            words.push(String::from_utf8_lossy(word).into_owned());
            rest = &after[2..];
        }
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use base::UnixMs;

    use super::*;
    use crate::{Change, Effect, EventClass, Expiry};

    fn append(recording: &Recording, database: u8, effect: Effect<'_>) {
        let change = Change::new(DatabaseIndex(database), EventClass::Generic, effect);
        let lsn = recording.append(&Record::one(UnixMs(1), &change));
        assert_eq!(lsn, recording.end());
    }

    #[test]
    fn each_record_is_its_own_line_of_words() {
        let recording = Recording::default();
        append(&recording, 0, Effect::Set { key: b"k", value: b"a\r\n$1", expiry: Expiry::Clear });
        append(&recording, 1, Effect::Delete { key: b"\xff" });
        let expected = ["SET k a\r\n$1", "SELECT 1 DEL \u{fffd}"];
        assert_eq!(recording.commands(), expected);
        assert_eq!(recording.take_commands(), expected, "they were only looked at");
    }

    #[test]
    fn taken_records_are_gone_and_the_next_comes_behind_them() {
        let recording = Recording::default();
        append(&recording, 0, Effect::FlushDatabase);
        let first = recording.end();
        recording.take_commands();
        assert_eq!(recording.commands(), Vec::<String>::new());
        append(&recording, 0, Effect::FlushDatabase);
        assert!(first > Lsn(0));
        assert_eq!(recording.end(), Lsn(2 * first.0));
        assert_eq!(recording.commands(), ["FLUSHDB"]);
    }
}
