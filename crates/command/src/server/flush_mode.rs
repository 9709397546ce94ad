//! The one option of FLUSHDB and FLUSHALL.

use crate::handler::error::CommandError;
use crate::handler::request::Args;
use crate::table::argument::Arg;

/// ASYNC or SYNC, as COMMAND DOCS tells it.
pub(crate) const FLUSH_MODE: Arg = Arg::one_of(
    "flush-type",
    &[Arg::word("async", "ASYNC").since("4.0.0"), Arg::word("sync", "SYNC").since("6.2.0")],
)
.optional();

/// Checks the option, which changes nothing here: what is flushed is never freed key by key.
///
/// # Errors
/// When it is another word, or there are more.
pub(crate) fn check(args: Args<'_>) -> Result<(), CommandError> {
    match args.len() {
        1 => Ok(()),
        2 if args.is(1, "SYNC") || args.is(1, "ASYNC") => Ok(()),
        _ => Err(CommandError::Syntax),
    }
}
