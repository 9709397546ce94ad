//! What TTL, PTTL, EXPIRETIME and PEXPIRETIME share.

use resp::Reply;

use crate::handler::context::ReadContext;
use crate::handler::request::Args;

/// The reply where the key does not exist.
const ABSENT: i64 = -2;
/// The reply where the key does not expire.
const ENDLESS: i64 = -1;

/// Whether a time is told from now on, or as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Now,
    UnixEpoch,
}

/// Replies with the time of the request's key in milliseconds, which `rounded` may make coarser.
pub(crate) fn reply_time(
    cx: &ReadContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    origin: Origin,
    rounded: fn(i64) -> i64,
) {
    let now = cx.now().0;
    let time = match cx.view.peek(args.key(0)).map(|entry| entry.expiry()) {
        None => ABSENT,
        Some(None) => ENDLESS,
        Some(Some(at)) if origin == Origin::Now => rounded(at.0.saturating_sub(now).max(0)),
        Some(Some(at)) => rounded(at.0.max(0)),
    };
    reply.integer(time);
}

/// Returns `milliseconds` as they are.
pub(crate) fn exact(milliseconds: i64) -> i64 {
    milliseconds
}

/// Returns the nearest number of seconds, as TTL does.
pub(crate) fn nearest_second(milliseconds: i64) -> i64 {
    milliseconds.saturating_add(500) / 1000
}
