//! DEBUG: for tests and for people who look closely.
//!
//! Redis knows no subcommands here: one row of COMMAND INFO, one text for what it does not know.
//! The rows of this folder are in no other table. What is not here is refused with the reason, and
//! what switches something that is not here does nothing.

mod client_eviction;
mod config_rewrite_force_all;
mod crash;
mod digest;
mod error;
mod htstats;
mod htstats_key;
mod listpack;
mod log;
mod object;
mod pause_cron;
mod populate;
mod protocol;
mod reload;
mod sdslen;
mod set_active_expire;
mod sleep;
mod stringmatch_len;

use keyspace::{Object, WriteView};

use crate::prelude::*;
use crate::table::help::{self, reply_help};

pub(crate) static DEBUG: Command = Command {
    name: "debug",
    summary: "Helps to test the server; option enable-debug-command allows it.",
    since: "1.0.0",
    complexity: "Depends on the subcommand",
    group: Group::Server,
    arity: Arity::at_least(2),
    flags: Flags::ADMIN
        .with(Flags::NOSCRIPT)
        .with(Flags::LOADING)
        .with(Flags::STALE)
        .with(Flags::PROTECTED),
    args: &[Arg::one_of(
        "subcommand",
        &[
            Arg::word("digest", "DIGEST"),
            Arg::string("key").token("DIGEST-VALUE").multiple(),
            Arg::block("error", error::ERROR.args).token("ERROR"),
            Arg::word("help", "HELP"),
            Arg::block("htstats", htstats::HTSTATS.args).token("HTSTATS"),
            Arg::block("log", log::LOG.args).token("LOG"),
            Arg::block("object", object::OBJECT.args).token("OBJECT"),
            Arg::block("pause", pause_cron::PAUSE_CRON.args).token("PAUSE-CRON"),
            Arg::block("populate", populate::POPULATE.args).token("POPULATE"),
            Arg::block("protocol", protocol::PROTOCOL.args).token("PROTOCOL"),
            Arg::block("expire", set_active_expire::SET_ACTIVE_EXPIRE.args)
                .token("SET-ACTIVE-EXPIRE"),
            Arg::double("seconds").token("SLEEP").among(&["0", "0.001"]),
        ],
    )],
    example: "> DEBUG DIGEST\n0000000000000000000000000000000000000000",
    handler: Handler::Control(run),
    ..Command::DEFAULT
};

/// The rows that DEBUG chooses from. Their arity is theirs alone: Redis has one refusal for both.
static SUBCOMMANDS: &[&Command] = &[
    &crash::ASSERT,
    &client_eviction::CLIENT_EVICTION,
    &config_rewrite_force_all::CONFIG_REWRITE_FORCE_ALL,
    &digest::DIGEST,
    &digest::DIGEST_VALUE,
    &error::ERROR,
    &HELP,
    &htstats::HTSTATS,
    &htstats_key::HTSTATS_KEY,
    &listpack::LISTPACK,
    &log::LOG,
    &object::OBJECT,
    &crash::OOM,
    &crash::PANIC,
    &pause_cron::PAUSE_CRON,
    &populate::POPULATE,
    &protocol::PROTOCOL,
    &reload::RELOAD,
    &sdslen::SDSLEN,
    &crash::SEGFAULT,
    &set_active_expire::SET_ACTIVE_EXPIRE,
    &sleep::SLEEP,
    &stringmatch_len::STRINGMATCH_LEN,
];

static HELP: Command = Command {
    name: "debug|help",
    flags: Flags::NONE,
    group: Group::Server,
    example: "> DEBUG HELP\n...",
    handler: Handler::Control(|_, _, reply| {
        reply_help("debug", SUBCOMMANDS, reply);
        Ok(())
    }),
    ..help::ROW
};

/// Switches of Redis's own tests for what is not here, and the number of their arguments: they are
/// accepted, so that the tests behind them run, and do nothing.
const WITHOUT_EFFECT: &[(&str, usize)] = &[
    ("client-enforce-reply-list", 1),
    ("dict-resizing", 1),
    ("quicklist-packed-threshold", 1),
    ("replybuffer", 2),
    ("set-disable-deny-scripts", 1),
    ("set-skip-checksum-validation", 1),
];

/// What Redis can do and Forebay does not, and why.
const REFUSED: &[(&str, &str)] = &[
    ("aof-flush-sleep", "the log is not slowed down on request"),
    ("change-repl-id", "there is no replication"),
    ("crash-and-recover", "the server does not start itself again"),
    ("clusterlink", "there is no cluster"),
    ("drop-cluster-packet-filter", "there is no cluster"),
    ("leak", "no memory is lost on request"),
    ("loadaof", "a log is read when the server starts, and then alone"),
    ("mallctl", "the allocator has no such numbers"),
    ("mallctl-str", "the allocator has no such texts"),
    ("replicate", "there is no replication"),
    ("restart", "the server does not start itself again"),
    ("structsize", "there are no such structures"),
];

fn run(
    cx: &mut ControlContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Unfinished> {
    let name = args.at(1);
    if let Some(Handler::Control(run)) = chosen(name, args.len()).map(|row| row.handler) {
        return run(cx, args, reply);
    }
    let is_named = |known: &str| known.as_bytes().eq_ignore_ascii_case(name);
    if let Some((known, reason)) = REFUSED.iter().find(|(known, _)| is_named(known)) {
        let known = known.to_ascii_uppercase();
        let text = format!("ERR DEBUG {known} is not supported: {reason}");
        return Err(CommandError::Text(text.into_bytes().into()).into());
    }
    if !WITHOUT_EFFECT.iter().any(|(known, count)| is_named(known) && args.len() == 2 + count) {
        return Err(CommandError::subcommand_syntax("DEBUG", name).into());
    }
    reply.ok();
    Ok(())
}

/// Returns whether a DEBUG of `length` arguments, its own name included, that has `name` behind it
/// may wait for the system.
pub(crate) fn may_wait(name: &[u8], length: usize) -> bool {
    chosen(name, length).is_some_and(|row| row.is(Flags::UNGUARDED))
}

fn chosen(name: &[u8], length: usize) -> Option<&'static Command> {
    let is_meant = |row: &&&Command| {
        row.own_name().as_bytes().eq_ignore_ascii_case(name) && row.arity.accepts(length)
    };
    SUBCOMMANDS.iter().find(is_meant).copied()
}

/// Returns what `look` makes of the entry at the key `name`, if there is one.
fn peek<R>(
    cx: &mut ControlContext<'_>,
    name: &[u8],
    look: impl FnOnce(&Object<'_>) -> R,
) -> Option<R> {
    let (database, now) = (cx.session.database, cx.now);
    let hasher = *cx.access.keyspace().hasher();
    let key = hasher.key(name);
    let view = |view: &mut WriteView<'_>| Some(look(&view.as_read().peek(&key)?));
    cx.access.write(&key, database, now, view)
}

/// Returns whether `text` begins with a number that is not 0, as Redis reads its switches.
fn truth(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").or(text.strip_prefix(b"+")).unwrap_or(text);
    let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
    digits.clone().any(|byte| *byte != b'0')
}
