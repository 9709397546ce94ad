//! The commands that took longest lately: SLOWLOG.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

use command::{SlowCommand, SlowLogEntry};

/// Arguments that an entry keeps; the last one then tells how many more there were.
const ARGUMENTS_MAX: usize = 32;
/// Bytes of an argument that an entry keeps, before words on how many more there were.
const ARGUMENT_BYTES_MAX: usize = 128;
/// What stands for an argument that nobody may read.
const REDACTED: &[u8] = b"(redacted)";

/// The entries, the newest last. Its length is bound by `slowlog-max-len`, an entry's size by the
/// constants above.
#[derive(Debug, Default)]
pub struct SlowLog {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next_id: u64,
    entries: VecDeque<SlowLogEntry>,
    /// What the entries take.
    bytes: u64,
}

impl SlowLog {
    /// Adds `slow`, sent from `address`, and forgets the oldest beyond `len_max`. Tells `account`
    /// how many bytes the log took before and takes now, one change at a time.
    pub fn push(
        &self,
        slow: &SlowCommand<'_>,
        address: String,
        len_max: usize,
        account: impl FnOnce(u64, u64),
    ) {
        let arguments = shortened(slow);
        let mut state = self.state();
        let id = state.next_id;
        state.next_id += 1;
        let entry = SlowLogEntry {
            id,
            time_s: slow.now.0 / 1000,
            microseconds: slow.nanoseconds / 1000,
            arguments,
            address,
            name: slow.session.names.session().into(),
        };
        let before = state.bytes;
        state.bytes += entry_bytes(&entry);
        state.entries.push_back(entry);
        let excess = state.entries.len().saturating_sub(len_max);
        let freed: u64 = state.entries.drain(..excess).map(|entry| entry_bytes(&entry)).sum();
        state.bytes -= freed;
        account(before, state.bytes);
    }

    /// Returns the newest `count` entries, the newest first.
    pub fn newest(&self, count: usize) -> Vec<SlowLogEntry> {
        self.state().entries.iter().rev().take(count).cloned().collect()
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.state().entries.len()
    }

    /// Forgets all entries; numbers go on. Tells `account` as [`SlowLog::push`] does.
    pub fn clear(&self, account: impl FnOnce(u64, u64)) {
        let mut state = self.state();
        state.entries = VecDeque::new();
        account(std::mem::take(&mut state.bytes), 0);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of the slow log panics")
    }
}

/// Returns the memory that `entry` takes.
fn entry_bytes(entry: &SlowLogEntry) -> u64 {
    let arguments: usize =
        entry.arguments.iter().map(|bytes| size_of::<Box<[u8]>>() + bytes.len()).sum();
    let texts = entry.address.len() + entry.name.len();
    (size_of::<SlowLogEntry>() + arguments + texts) as u64
}

/// Returns the arguments as Redis's slow log shows them.
fn shortened(slow: &SlowCommand<'_>) -> Vec<Box<[u8]>> {
    let count = slow.request.len();
    let is_all = count <= ARGUMENTS_MAX;
    let shown = if is_all { count } else { ARGUMENTS_MAX - 1 };
    let mut arguments: Vec<Box<[u8]>> = (0..shown)
        .map(|index| match slow.command.is_secret(slow.request, index) {
            true => REDACTED.into(),
            false => shortened_argument(slow.request.at(index)),
        })
        .collect();
    if !is_all {
        let more = format!("... ({} more arguments)", count - shown);
        arguments.push(more.into_bytes().into());
    }
    arguments
}

fn shortened_argument(argument: &[u8]) -> Box<[u8]> {
    match argument.split_at_checked(ARGUMENT_BYTES_MAX) {
        Some((head, rest)) if !rest.is_empty() => {
            [head, format!("... ({} more bytes)", rest.len()).as_bytes()].concat().into()
        }
        _ => argument.into(),
    }
}

#[cfg(test)]
mod tests {
    use base::UnixMs;
    use command::SessionState;
    use resp::{Batch, Decoder, Limits, encode_command};

    use super::*;

    /// Returns how the slow log shows a request.
    fn logged(words: &[&[u8]]) -> Vec<String> {
        let mut bytes = Vec::new();
        encode_command(words, &mut bytes);
        let mut batch = Batch::new();
        let _ = Decoder::new().decode(&mut bytes, &mut batch, 1, &Limits::REDIS);
        let request = batch.view(&bytes).at(0);
        let log = SlowLog::default();
        let session = SessionState::new(1, UnixMs(0), true);
        let command = command::lookup(words[0]).unwrap();
        let command = words.get(1).and_then(|name| command.subcommand(name)).unwrap_or(command);
        let (nanoseconds, now) = (5_999, UnixMs(7_999));
        let slow = SlowCommand { command, request, session: &session, nanoseconds, now };
        log.push(&slow, "peer".to_owned(), 1, |_, _| {});
        let entries = log.newest(9);
        assert_eq!((entries[0].time_s, entries[0].microseconds), (7, 5));
        let arguments = entries[0].arguments.iter();
        arguments.map(|bytes| String::from_utf8_lossy(bytes).into_owned()).collect()
    }

    #[test]
    fn long_requests_are_shortened_as_redis_does() {
        let words = [b"DEL".as_slice(); 32];
        assert_eq!(logged(&words).len(), 32);
        let found = logged(&[b"DEL".as_slice(); 33]);
        assert_eq!((found.len(), found[31].as_str()), (32, "... (2 more arguments)"));
        assert_eq!(logged(&[b"GET", &[b'x'; 128]])[1].len(), 128);
        assert!(logged(&[b"GET", &[b'x'; 130]])[1].ends_with("xx... (2 more bytes)"));
    }

    #[test]
    fn secrets_are_not_kept() {
        let check = |request: &str, expected: &str| {
            let words: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
            assert_eq!(logged(&words).join(" "), expected);
        };
        check("AUTH pw", "AUTH (redacted)");
        check("AUTH me pw", "AUTH (redacted) (redacted)");
        check("HELLO 3 AUTH me pw SETNAME auth", "HELLO 3 AUTH (redacted) (redacted) SETNAME auth");
        check(
            "CONFIG SET maxmemory 1 RequirePass pw port requirepass",
            "CONFIG SET maxmemory 1 RequirePass (redacted) port requirepass",
        );
        check("GET AUTH", "GET AUTH");
    }

    #[test]
    fn the_oldest_go_and_numbers_stay_unique() {
        let mut bytes = Vec::new();
        encode_command(&[b"PING"], &mut bytes);
        let mut batch = Batch::new();
        let _ = Decoder::new().decode(&mut bytes, &mut batch, 1, &Limits::REDIS);
        let session = SessionState::new(1, UnixMs(0), true);
        let slow = SlowCommand {
            command: command::lookup(b"PING").unwrap(),
            request: batch.view(&bytes).at(0),
            session: &session,
            nanoseconds: 1,
            now: UnixMs(0),
        };
        let log = SlowLog::default();
        let ids = || log.newest(9).iter().map(|entry| entry.id).collect::<Vec<_>>();
        let taken = std::cell::Cell::new(0);
        let account = |before, after| assert_eq!(taken.replace(after), before);
        for _ in 0..5 {
            log.push(&slow, String::new(), 3, account);
        }
        assert_eq!(ids(), [4, 3, 2]);
        let of_three = taken.get();
        log.push(&slow, String::new(), 1, account);
        assert_eq!(ids(), [5]);
        assert_eq!(taken.get() * 3, of_three);
        assert!(taken.get() > size_of::<SlowLogEntry>() as u64);
        log.clear(account);
        assert_eq!(taken.get(), 0);
        log.push(&slow, String::new(), 9, account);
        assert_eq!((ids(), log.len()), (vec![6], 1));
    }
}
