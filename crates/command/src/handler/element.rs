//! Replies with parts of collections.

use collections::Element;
use resp::Reply;

/// Replies with one part, as a bulk string.
#[inline]
pub(crate) fn reply_element(element: Element<'_>, reply: &mut Reply<'_>) {
    match element {
        Element::Bytes(bytes) => reply.bulk(bytes),
        Element::Integer(integer) => reply.bulk_integer(integer),
    }
}
