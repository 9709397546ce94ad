//! The checks before a command runs, in the order in which Redis makes them (processCommand): a
//! request that fails several gets the same answer as from Redis.

use command::{Command, CommandError, Flags, Pause, SessionState};
use effects::{Admission, WriteRefusal};
use keyspace::{Keyspace, SweepContext};
use resp::RequestView;

use crate::execution_context::ExecutionContext;

const MONITORS_ONLY_LOOK: CommandError =
    CommandError::Fixed("ERR Replica can't interact with the keyspace");

/// What to do with a request that passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Run it now.
    Run,
    /// Keep it for EXEC.
    Queue,
    /// Look at it again when the pause is over.
    Wait,
}

/// Checks a request whose name and number of arguments are right already. The caller holds no
/// guard where memory `is_over_limit`. Always inlined: every request passes here, and most pass
/// with one look at each thing that could stop them.
#[inline(always)]
pub(crate) fn check(
    command: &'static Command,
    session: &SessionState,
    keyspace: &Keyspace,
    is_over_limit: bool,
    execution: &mut ExecutionContext<'_>,
) -> Result<Verdict, CommandError> {
    let is_plain = session.authenticated && !session.is_queueing() && !session.is_monitor;
    if is_plain
        && !is_over_limit
        && execution.pause.get().is_none()
        && keyspace.admission().refused().is_none()
        && !command.is(Flags::PROTECTED)
    {
        return Ok(Verdict::Run);
    }
    check_in_order(command, session, keyspace, is_over_limit, execution)
}

/// As [`check`], in Redis's order: which of several things that stop a request is told.
#[inline(never)]
fn check_in_order(
    command: &'static Command,
    session: &SessionState,
    keyspace: &Keyspace,
    is_over_limit: bool,
    execution: &mut ExecutionContext<'_>,
) -> Result<Verdict, CommandError> {
    if command.is(Flags::PROTECTED) && !execution.host.allows_debug(session) {
        return Err(CommandError::DEBUG_NOT_ALLOWED);
    }
    if !session.authenticated && !command.is(Flags::NO_AUTH) {
        return Err(CommandError::NOT_AUTHENTICATED);
    }
    if session.is_queueing() && command.is(Flags::NO_MULTI) {
        return Err(CommandError::NOT_IN_TRANSACTION);
    }
    let pause = execution.pause.get();
    let is_loading = keyspace.admission().is_loading() && !session.is_loader;
    // A pause keeps the data as it is: nothing is evicted, and nothing refused for that.
    if is_over_limit
        && pause.is_none()
        && !is_loading
        && !make_room(keyspace, execution)
        && needs_memory(command, session)
    {
        return Err(CommandError::OUT_OF_MEMORY);
    }
    if is_loading && !command.is(Flags::LOADING) {
        return Err(CommandError::LOADING);
    }
    if !session.is_loader
        && may(command, session, Flags::WRITE, Flags::WRITE)
        && let Some(error) = write_refusal(keyspace)
    {
        return Err(error);
    }
    if session.is_monitor && may(command, session, Flags::WRITE, Flags::READONLY) {
        return Err(MONITORS_ONLY_LOOK);
    }
    if let Some(pause) = pause
        && !session.is_monitor
        && (pause == Pause::All || may(command, session, Flags::WRITE, Flags::MAY_REPLICATE))
    {
        return Ok(Verdict::Wait);
    }
    if session.is_queueing() && !command.is(Flags::UNQUEUED) {
        return Ok(Verdict::Queue);
    }
    Ok(Verdict::Run)
}

/// Returns whether a request may do one of two things, an EXEC by what it would run.
///
/// Source: Redis, processCommand, `is_may_replicate_command` and `is_read_command`.
#[cold]
fn may(command: &Command, session: &SessionState, one: Flags, other: Flags) -> bool {
    let queued = match &session.transaction {
        Some(transaction) if command.name == "exec" => transaction.flags,
        _ => Flags::NONE,
    };
    [one, other].iter().any(|&flag| command.is(flag) || queued.contains(flag))
}

/// Returns what a write is refused with, where none is admitted.
#[inline(always)]
pub(crate) fn write_refusal(keyspace: &Keyspace) -> Option<CommandError> {
    let admission = keyspace.admission();
    admission.refused().map(|reason| refusal_of(reason, admission))
}

/// Returns what a write is refused with for `reason`.
///
/// Source: Redis, `writeCommandsDeniedByDiskError` and `shared.roslaveerr`.
#[cold]
fn refusal_of(reason: WriteRefusal, admission: &Admission) -> CommandError {
    CommandError::Fixed(match reason {
        WriteRefusal::Loading => return CommandError::LOADING,
        WriteRefusal::Fenced => "READONLY You can't write against a read only replica.",
        WriteRefusal::DiskFull => return disk_refusal(admission, "No space left on device"),
        WriteRefusal::LogFailed => return disk_refusal(admission, "Input/output error"),
        WriteRefusal::LogFull => {
            "MISCONF Errors writing to the AOF file: it is too far behind what was written"
        }
        WriteRefusal::Unsaved => {
            "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to \
             persist to disk. Commands that may modify the data set are disabled, because this \
             instance is configured to report errors during writes if RDB snapshotting fails \
             (stop-writes-on-bgsave-error option). Please check the Redis logs for details about \
             the RDB error."
        }
    })
}

/// Returns what a write is refused with where the disk took nothing: the system's words for the
/// reason, or `unknown` where it told none.
fn disk_refusal(admission: &Admission, unknown: &str) -> CommandError {
    let told = admission.disk_error();
    let words = told.as_deref().unwrap_or(unknown);
    CommandError::text_of(&[b"MISCONF Errors writing to the AOF file: ", words.as_bytes()])
}

/// Returns whether a peer speaks HTTP: a browser was made to send its request here.
///
/// Source: Redis, securityWarningCommand.
#[cold]
pub(crate) fn is_attack(request: RequestView<'_>) -> bool {
    [b"post".as_slice(), b"host:"].iter().any(|name| request.at(0).eq_ignore_ascii_case(name))
}

/// Memory is above its limit, from an overshoot or a lower limit: repays before anything else.
#[cold]
fn make_room(keyspace: &Keyspace, execution: &mut ExecutionContext<'_>) -> bool {
    let mut context = SweepContext::new(execution.now, &mut execution.random);
    keyspace.repay(&mut context).is_ok()
}

/// Returns whether a request is refused when there is no room: one that may store something, and
/// inside MULTI everything that does not end it. An EXEC is refused with what it would run.
///
/// Source: Redis, processCommand, `reject_cmd_on_oom`.
#[cold]
fn needs_memory(command: &Command, session: &SessionState) -> bool {
    let Some(transaction) = &session.transaction else { return command.is(Flags::DENYOOM) };
    match command.name {
        "exec" => transaction.flags.contains(Flags::DENYOOM),
        "discard" | "quit" | "reset" => false,
        _ => true,
    }
}
