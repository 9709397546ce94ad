//! MONITOR: each command that runs, as a line for the sessions that look on.
//!
//! A line is written once, by the worker that ran the command, and left in the mailbox of every
//! worker that has monitors, its own included: so all monitors of one worker see the same order,
//! and a command that was sent after another's reply stands behind it. Nobody waits: a mailbox
//! takes so much, a connection as much as its output limit says, and whoever reads too slowly is
//! closed.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use command::{Command, SessionState};
use engine::{MonitorFeed, MonitorSink};
use resp::RequestView;

use crate::mailbox::{Mailbox, SHOWN_BYTES_MAX};

/// Memory for lines that is kept from one batch to the next.
const LINES_BYTES_KEPT_MAX: usize = 64 * 1024;

/// How many sessions look on.
#[derive(Debug, Default)]
pub struct Monitors {
    count: AtomicUsize,
}

impl Monitors {
    /// Returns the way of worker `worker` to the monitors of all workers, whose mailboxes are
    /// `mailboxes`.
    pub fn monitor_feed<'h>(
        &'h self,
        worker: usize,
        mailboxes: &'h [Arc<Mailbox>],
    ) -> MonitorFeed<'h> {
        let lines = Lines { monitors: self, worker, mailboxes, lines: Vec::new() };
        MonitorFeed { count: &self.count, sink: Box::new(lines) }
    }

    /// Counts a monitor in or out whose worker has `mailbox`.
    pub fn count(&self, mailbox: &Mailbox, is_monitor: bool) {
        // In the mailbox first: what is counted here is found there.
        mailbox.count_monitor(is_monitor);
        match is_monitor {
            true => self.count.fetch_add(1, Ordering::Relaxed),
            false => self.count.fetch_sub(1, Ordering::Relaxed),
        };
    }
}

/// The lines that one worker has to tell.
struct Lines<'h> {
    monitors: &'h Monitors,
    worker: usize,
    mailboxes: &'h [Arc<Mailbox>],
    lines: Vec<u8>,
}

impl MonitorSink for Lines<'_> {
    fn show(&mut self, command: &Command, request: RequestView<'_>, session: &SessionState) {
        let time = sys::clock::realtime_us();
        let (seconds, rest) = (time / 1_000_000, time % 1_000_000);
        let (database, source) = (session.database.0, &session.source);
        write!(self.lines, "+{seconds}.{rest:06} [{database} {source}]")
            .expect("a Vec takes any bytes");
        for (index, argument) in request.iter().enumerate() {
            // What no mailbox takes need not be written: the monitors are closed for it.
            let Some(room) = (SHOWN_BYTES_MAX + 1).checked_sub(self.lines.len()) else { break };
            match command.is_secret(request, index) {
                true => self.lines.extend_from_slice(b" \"(redacted)\""),
                false => write_quoted(&argument[..argument.len().min(room)], &mut self.lines),
            }
        }
        self.lines.extend_from_slice(b"\r\n");
    }

    fn count(&mut self, is_monitor: bool) {
        self.monitors.count(&self.mailboxes[self.worker], is_monitor);
    }

    fn deliver(&mut self) {
        if self.lines.is_empty() {
            return;
        }
        for mailbox in self.mailboxes {
            mailbox.show(&self.lines);
        }
        match self.lines.capacity() > LINES_BYTES_KEPT_MAX {
            true => self.lines = Vec::new(),
            false => self.lines.clear(),
        }
    }
}

/// Appends a space and `argument` in quotes, as redis-cli would read it.
fn write_quoted(argument: &[u8], line: &mut Vec<u8>) {
    line.extend_from_slice(b" \"");
    for &byte in argument {
        match byte {
            b'"' | b'\\' => line.extend_from_slice(&[b'\\', byte]),
            b'\n' => line.extend_from_slice(b"\\n"),
            b'\r' => line.extend_from_slice(b"\\r"),
            b'\t' => line.extend_from_slice(b"\\t"),
            0x07 => line.extend_from_slice(b"\\a"),
            0x08 => line.extend_from_slice(b"\\b"),
            b' '..=b'~' => line.push(byte),
            _ => write!(line, "\\x{byte:02x}").expect("a Vec takes any bytes"),
        }
    }
    line.push(b'"');
}

#[cfg(test)]
mod tests {
    use resp::OwnedRequest;

    use super::*;

    #[test]
    fn arguments_are_quoted_byte_by_byte() {
        let mut line = Vec::new();
        write_quoted(b"a \"\\\n\r\t\x07\x08\x00\x7f\xff~", &mut line);
        let expected = r#" "a \"\\\n\r\t\a\b\x00\x7f\xff~""#;
        assert_eq!(String::from_utf8(line).unwrap(), expected);
    }

    #[test]
    fn lines_that_no_mailbox_takes_are_not_written_and_their_memory_is_not_kept() {
        let mailboxes = [Arc::new(Mailbox::new().unwrap())];
        let monitors = Monitors::default();
        let mut lines =
            Lines { monitors: &monitors, worker: 0, mailboxes: &mailboxes, lines: Vec::new() };
        lines.count(true);
        let session = SessionState::new(1, base::UnixMs(0), true);
        let much = vec![b'x'; SHOWN_BYTES_MAX];
        let request = OwnedRequest::new([b"SET", &much[..], &much].into_iter());
        let command = command::resolve(request.view()).unwrap();
        lines.show(command, request.view(), &session);
        let written = lines.lines.len();
        assert!((SHOWN_BYTES_MAX + 1..SHOWN_BYTES_MAX + 100).contains(&written), "{written}");
        lines.deliver();
        assert!(lines.lines.capacity() <= LINES_BYTES_KEPT_MAX && mailboxes[0].take().1.is_cut);
    }

    #[test]
    fn line_has_time_database_and_source_and_hides_passwords() {
        let mailboxes = [(); 2].map(|()| Arc::new(Mailbox::new().unwrap()));
        let monitors = Monitors::default();
        monitors.monitor_feed(1, &mailboxes).sink.count(true);
        let mut monitor_feed = monitors.monitor_feed(0, &mailboxes);
        assert!(monitor_feed.is_there());
        let mut session = SessionState::new(1, base::UnixMs(0), true);
        session.source = "unix:/tmp/s".into();
        for line in ["SET k v", "AUTH me secret"] {
            let request = OwnedRequest::new(line.split(' ').map(str::as_bytes));
            let command = command::resolve(request.view()).unwrap();
            monitor_feed.sink.show(command, request.view(), &session);
        }
        monitor_feed.sink.deliver();
        assert!(mailboxes[0].take().1.lines.is_empty());
        let text = String::from_utf8(mailboxes[1].take().1.lines).unwrap();
        let lines: Vec<&str> = text.split_terminator("\r\n").collect();
        assert!(lines[0].starts_with('+') && lines[0].find('.').is_some_and(|dot| dot > 9));
        assert!(lines[0].ends_with(r#" [0 unix:/tmp/s] "SET" "k" "v""#), "{text}");
        assert!(lines[1].ends_with(r#""AUTH" "(redacted)" "(redacted)""#), "{text}");
    }
}
