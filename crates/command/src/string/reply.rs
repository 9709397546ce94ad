//! Replies with strings: a large one is not copied, but referred to.

use std::ops::Range;

use base::Key;
use keyspace::{ReadView, WrongType};
use resp::Reply;

/// From this length on a value is sent from where it lies. A reference costs a pin, a second lookup
/// and two more pieces to send, a copy of so much more than all of them.
pub(crate) const REFERENCED_BYTES_MIN: usize = 16 * 1024;

/// How many values the replies of a session may refer to whatever is left for others.
const REFERENCES_MIN: usize = 96;

/// Replies with the string at `key`, or null. A large one is not copied while its shard is locked:
/// the reply refers to it, as it is now.
///
/// # Errors
/// When the key holds another type; nothing is written then.
#[inline]
pub(super) fn reply_string(
    view: ReadView<'_>,
    key: &Key<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), WrongType> {
    match view.string(key)? {
        None => reply.null(),
        Some(value) => reply_part(view, key, value, 0..value.len(), reply),
    }
    Ok(())
}

/// Replies with `range` of `value`, which is the string at `key`; a large one is not copied, unless
/// the reply refers to so many that too few could be held for others.
#[inline]
pub(crate) fn reply_part(
    view: ReadView<'_>,
    key: &Key<'_>,
    value: &[u8],
    range: Range<usize>,
    reply: &mut Reply<'_>,
) {
    if range.len() < REFERENCED_BYTES_MIN {
        return reply.bulk(&value[range]);
    }
    let held = match reply.reference_count() < REFERENCES_MIN {
        true => view.hold(key),
        false => view.hold_sparing(key),
    };
    match held {
        Some(held) => reply.bulk_referenced(Box::new(held.narrow(range))),
        None => reply.bulk(&value[range]),
    }
}
