//! A session of an embedded instance: words in, the bytes of a reply out.

use std::time::Duration;

use base::prng::Prng;
use command::{Command, SessionState, Wait, Wake};
use engine::{ExecutionContext, MonitorFeed, MonitorSink, SessionStatus};
use resp::{Batch, Decoder, Limits, Next, Output, RequestView, encode_command};

use crate::embedded::Embedded;

/// The error of a request behind one whose reply waits.
const WAITS: &[u8] = b"-ERR this session waits for the reply of an earlier request\r\n";
/// The error of a request behind QUIT.
const ENDED: &[u8] = b"-ERR this session has ended\r\n";
/// How the error of a request begins that was run, but not logged.
const UNLOGGED: &str = "-MISCONF Errors writing to the AOF file";
/// The error of a request whose words are beyond what one buffer takes.
const TOO_LARGE: &[u8] = b"-ERR Protocol error: too big request\r\n";

/// One session: its database, its transaction, what it watches. It ends when it is dropped.
pub struct Session<'r> {
    embedded: &'r Embedded,
    session: engine::Session,
    batch: Batch,
    is_open: bool,
    /// When the current wait ends by itself, by the steady clock in nanoseconds.
    wait_ends: Option<u64>,
}

impl<'r> Session<'r> {
    pub(crate) fn new(embedded: &'r Embedded, id: u64) -> Session<'r> {
        let now = embedded.runtime.clock().wall();
        Session {
            embedded,
            session: engine::Session::new(id, now, true),
            batch: Batch::new(),
            is_open: true,
            wait_ends: None,
        }
    }

    /// Runs the request that `words` are and returns the bytes of its reply, as RESP. They are
    /// empty where there is none yet, as a blocking command waits ([`Session::poll`]), and where
    /// the session wants none (CLIENT REPLY).
    ///
    /// # Panics
    /// When there is no word.
    pub fn run<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Vec<u8> {
        assert!(!words.is_empty(), "a request begins with the name of a command");
        if !self.is_open {
            return ENDED.to_vec();
        }
        if self.is_blocked() {
            return WAITS.to_vec();
        }
        let words: Vec<&[u8]> = words.iter().map(AsRef::as_ref).collect();
        let mut bytes = Vec::new();
        encode_command(&words, &mut bytes);
        if u32::try_from(bytes.len()).is_err() {
            return TOO_LARGE.to_vec();
        }
        let limits = Limits { bulk_bytes_max: self.embedded.value_bytes_max, ..Limits::REDIS };
        let decoded = Decoder::new().decode(&mut bytes, &mut self.batch, 1, &limits);
        let mut out = Output::default();
        if let Next::Failed(error) = decoded.next {
            out.reply(self.session.state.protocol).error(error.text());
            return out.to_vec();
        }
        let (engine, requests) = (self.embedded.runtime.engine(), self.batch.view(&bytes));
        let mut random = self.embedded.turn();
        let outcome = with_execution(self.embedded, &mut random, |execution| {
            engine.execute(&mut self.session, requests, 0, &mut out, execution)
        });
        drop(random);
        self.embedded.count_commands(outcome.commands);
        match outcome.status {
            SessionStatus::Open => {}
            SessionStatus::Blocked => {
                self.wait_ends = self.wait_end();
                // It has changed nothing, and its reply comes later.
                return Vec::new();
            }
            SessionStatus::CloseAfterReplies | SessionStatus::CloseNow => self.is_open = false,
            SessionStatus::Paused => unreachable!("only clients of a network can ask for a pause"),
        }
        self.logged(&out)
    }

    /// Returns whether the session can run more: not after QUIT.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Returns whether a blocking command waits.
    pub fn is_blocked(&self) -> bool {
        self.session.state.blocked.is_some()
    }

    /// Returns the reply of the blocking command that waits, if a key has ended its wait or its
    /// time is over.
    pub fn poll(&mut self) -> Option<Vec<u8>> {
        self.session.state.blocked.as_ref()?;
        let served = self.embedded.take_served(self.session.state.id);
        let is_served = served.is_some_and(|wait| self.session.is_in_wait(wait));
        let now = self.embedded.runtime.clock().steady_ns();
        let is_over = self.wait_ends.is_some_and(|end| now >= end);
        if !is_served && !is_over {
            return None;
        }
        let wake = if is_served { Wake::Served } else { Wake::TimedOut };
        let (engine, mut out) = (self.embedded.runtime.engine(), Output::default());
        let mut random = self.embedded.turn();
        let release = with_execution(self.embedded, &mut random, |execution| {
            engine.wake(&mut self.session, wake, &mut out, execution)
        });
        // Without one it has run its request itself, and waits on.
        drop(random);
        release.map(|_| self.logged(&out))
    }

    /// Returns the reply in `out` once what it tells is as durable as the policy asks, or an error.
    fn logged(&self, out: &Output) -> Vec<u8> {
        let log = self.embedded.log.as_ref();
        let bytes = out.to_vec();
        match log.map_or(Ok(()), |log| log.settle(&self.embedded.runtime)) {
            Ok(()) => bytes,
            // The session wants no reply.
            Err(_) if bytes.is_empty() => bytes,
            Err(reason) => format!(
                "{UNLOGGED}: {}. It is unknown whether what was asked, or what it would tell, is \
                 there after the next start\r\n",
                reason.replace(['\r', '\n'], " ")
            )
            .into_bytes(),
        }
    }

    /// Returns when the wait that begins now ends by itself.
    fn wait_end(&self) -> Option<u64> {
        let timeout = |wait: &Wait| wait.timeout;
        let timeout: Duration = self.session.state.blocked.as_ref().and_then(timeout)?;
        let span = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        Some(self.embedded.runtime.clock().steady_ns().saturating_add(span))
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The shards that it would leave may be locked by whoever panics.
            return;
        }
        let mut random = self.embedded.turn();
        with_execution(self.embedded, &mut random, |execution| {
            self.embedded.runtime.engine().close(&mut self.session, execution);
        });
        drop(random);
        self.embedded.take_served(self.session.state.id);
    }
}

/// Calls `run` with the world as an embedded instance sees it.
fn with_execution<R>(
    embedded: &Embedded,
    random: &mut Prng,
    run: impl FnOnce(&mut ExecutionContext<'_>) -> R,
) -> R {
    let mut execution = ExecutionContext {
        now: embedded.runtime.clock().wall(),
        random: random.clone(),
        host: embedded,
        clock: embedded.runtime.clock(),
        command_stats: &embedded.command_stats,
        timing: &embedded.timing,
        pause: &embedded.pause,
        monitor_feed: MonitorFeed { count: &embedded.monitor_count, sink: Box::new(NoSink) },
        position: &embedded.position,
        value_bytes_max: embedded.value_bytes_max.into(),
        // The reply is taken at once, whatever its size.
        output_bytes_max: usize::MAX,
        references_max: usize::MAX,
    };
    let result = run(&mut execution);
    *random = execution.random;
    result
}

/// Nobody looks on: MONITOR is refused.
struct NoSink;

impl MonitorSink for NoSink {
    fn show(&mut self, _: &Command, _: RequestView<'_>, _: &SessionState) {}

    fn count(&mut self, _: bool) {}

    fn deliver(&mut self) {}
}
