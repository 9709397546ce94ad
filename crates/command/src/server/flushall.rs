//! FLUSHALL and FLUSHDB: remove all keys.

use crate::prelude::*;

/// ASYNC or SYNC, as COMMAND DOCS tells it.
const FLUSH_MODE: Arg = Arg::one_of(
    "flush-type",
    &[Arg::word("async", "ASYNC").since("4.0.0"), Arg::word("sync", "SYNC").since("6.2.0")],
)
.optional();

pub(super) static FLUSHALL: Command = Command {
    name: "flushall",
    summary: "Removes all keys of all databases.",
    since: "1.0.0",
    complexity: "O(N), N being the number of keys in all databases",
    group: Group::Server,
    arity: Arity::at_least(1),
    flags: Flags::WRITE.with(Flags::KEYLESS),
    categories: Categories::KEYSPACE.with(Categories::DANGEROUS),
    args: &[FLUSH_MODE],
    history: &[
        ("4.0.0", "Added the `ASYNC` flushing mode modifier."),
        ("6.2.0", "Added the `SYNC` flushing mode modifier."),
    ],
    tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
    example: "> SET lake deep\nOK\n> FLUSHALL\nOK\n> DBSIZE\n(integer) 0",
    handler: Handler::Control(|cx, args, reply| {
        check_mode(args)?;
        cx.access.flush_all(cx.now);
        reply.ok();
        Ok(())
    }),
    ..Command::DEFAULT
};

pub(super) static FLUSHDB: Command = Command {
    name: "flushdb",
    summary: "Removes all keys of the database.",
    complexity: "O(N), N being the number of keys in the database",
    example: "> SET lake deep\nOK\n> FLUSHDB\nOK\n> DBSIZE\n(integer) 0",
    handler: Handler::Control(|cx, args, reply| {
        check_mode(args)?;
        cx.access.flush_database(cx.session.database, cx.now);
        reply.ok();
        Ok(())
    }),
    ..FLUSHALL
};

/// Checks the option, which changes nothing here: what is flushed is never freed key by key.
///
/// # Errors
/// When it is another word, or there are more.
fn check_mode(args: Args<'_>) -> Result<(), CommandError> {
    match args.len() {
        1 => Ok(()),
        2 if args.is(1, "SYNC") || args.is(1, "ASYNC") => Ok(()),
        _ => Err(CommandError::Syntax),
    }
}
