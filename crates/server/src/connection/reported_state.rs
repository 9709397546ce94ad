//! What a connection's record shows of it, brought up to date where it has changed.

use base::DatabaseIndex;
use command::Transaction;
use engine::Session;
use keyspace::WatchMark;
use resp::Protocol;

use super::Connection;

/// What the record showed last, to see cheaply whether it changed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ReportedState {
    command: Option<*const command::Command>,
    /// How often the names have changed.
    name_changes: u64,
    database: DatabaseIndex,
    protocol: Protocol,
    /// Requests and bytes of the queue of a MULTI.
    queued: Option<(usize, usize)>,
    watches: WatchMark,
    /// Monitor, no eviction, no touch.
    modes: [bool; 3],
    input_bytes: usize,
    /// Arguments of the request that waits for a key.
    argument_bytes: usize,
    is_closing: bool,
}

impl ReportedState {
    pub fn of(session: &Session, input_bytes: usize, is_closing: bool) -> ReportedState {
        let state = &session.state;
        ReportedState {
            command: state.last_command.map(std::ptr::from_ref),
            name_changes: state.names.changes(),
            database: state.database,
            protocol: state.protocol,
            queued: state.transaction.as_ref().map(Transaction::size),
            watches: session.watch_mark(),
            modes: [state.is_monitor, state.no_evict, state.no_touch],
            input_bytes,
            argument_bytes: session.waiting_argument_bytes(),
            is_closing,
        }
    }
}

impl Connection {
    /// Brings the record up to date where what it shows has changed.
    pub(super) fn show(&mut self) {
        let kept = self.kept_bytes();
        let reported = ReportedState::of(&self.session, kept, self.is_closing);
        if reported == self.reported {
            return;
        }
        let waiting_argument_bytes = reported.argument_bytes;
        self.reported = reported;
        self.record.update(&self.session, |info| {
            info.query_bytes = kept;
            info.query_bytes_free =
                self.input.capacity() - self.input.len() + self.direct_receive.missing_bytes();
            info.is_closing = self.is_closing;
            info.argument_bytes = self.decoder.memory_bytes() + waiting_argument_bytes;
            info.total_bytes = self.memory_bytes() - self.output.memory_bytes();
        });
    }
}
