//! What INCR, INCRBY, DECR and DECRBY share.

use base::number::parse_i64;
use keyspace::Expiry;
use resp::{IntegerText, Reply};

use crate::handler::context::WriteContext;
use crate::handler::error::CommandError;
use crate::handler::outcome::Unfinished;
use crate::handler::request::Args;

/// Adds `delta` to the integer at the request's key, which is 0 where absent, and replies with the
/// sum.
///
/// # Errors
/// When the value is no integer, or the sum is beyond 64 bits.
pub(crate) fn add(
    cx: &mut WriteContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    delta: i64,
) -> Result<(), Unfinished> {
    let key = args.key(0);
    let value = match cx.view.string(key)? {
        Some(text) => parse_i64(text).ok_or(CommandError::NotInteger)?,
        None => 0,
    };
    let sum = value.checked_add(delta).ok_or(CommandError::OVERFLOW)?;
    cx.view.name_event("incrby");
    cx.view.set(key, IntegerText::new(sum).as_bytes(), Expiry::Keep)?;
    reply.integer(sum);
    Ok(())
}
