//! Replies with parts of collections.

use collections::Element;
use resp::{Protocol, Reply};

/// Replies with one part, as a bulk string.
#[inline]
pub(crate) fn reply_element(element: Element<'_>, reply: &mut Reply<'_>) {
    match element {
        Element::Bytes(bytes) => reply.bulk(bytes),
        Element::Integer(integer) => reply.bulk_integer(integer),
    }
}

/// How a reply carries elements that may come with a second part each: a field's value, a member's
/// score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PairForm {
    /// The first parts alone.
    First,
    /// One array, in which each second part follows its first.
    Flat,
    /// An array for each pair.
    Nested,
}

impl PairForm {
    /// Returns the form for a request that asks for second parts or not: RESP3 nests them.
    pub fn new(has_second: bool, reply: &Reply<'_>) -> PairForm {
        match (has_second, reply.protocol()) {
            (false, _) => PairForm::First,
            (true, Protocol::Resp2 | Protocol::Memcached) => PairForm::Flat,
            (true, Protocol::Resp3) => PairForm::Nested,
        }
    }

    /// Begins the array of `count` elements.
    pub fn begin(self, count: usize, reply: &mut Reply<'_>) {
        reply.array(if self == PairForm::Flat { 2 * count } else { count });
    }

    /// Writes one of them: `first`, and where it is wanted `second`.
    #[inline]
    pub fn write(
        self,
        reply: &mut Reply<'_>,
        first: impl FnOnce(&mut Reply<'_>),
        second: impl FnOnce(&mut Reply<'_>),
    ) {
        if self == PairForm::Nested {
            reply.array(2);
        }
        first(reply);
        if self != PairForm::First {
            second(reply);
        }
    }

    /// Writes a member, and where it is wanted its score.
    #[inline]
    pub fn write_scored(self, member: Element<'_>, score: f64, reply: &mut Reply<'_>) {
        self.write(reply, |reply| reply_element(member, reply), |reply| reply.double(score));
    }
}
