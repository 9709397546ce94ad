//! Reads of collections: each is a query, which knows its answer from the compact form of a small
//! collection, and from the server's reply.
//!
//! *Layout*: here is what a query is; `hash.rs`, `list.rs`, `set.rs` and `sorted_set.rs` are those
//! of each type, `replies.rs` what they have in common. `sync_calls.rs` and `async_calls.rs` are
//! the operations of both clients.
//! *Invariants*: a query answers from the compact form as the server does, or not at all.

#[cfg(feature = "tokio")]
mod async_calls;
mod hash;
mod list;
mod replies;
mod set;
mod sorted_set;
mod sync_calls;

use std::borrow::Cow;
use std::sync::LazyLock;

use arena::reader::{FoundCollection, SharedCollection};
use arena::{Encoding, ValueType};
use base::{ChangingBytes, SecretHasher};
use collections::{Compact, IntsetView, Limits, ListpackSearch, ListpackView, Nonsense, Rules};
use resp::Value as Reply;

use crate::error::ClientError;

pub use sorted_set::{SortedSetRange, SortedSetRangeKind};

/// The words of a request.
type Words<'a> = Vec<Cow<'a, [u8]>>;

/// A read of one collection.
pub(crate) trait Query {
    /// The type that the key has to be of.
    const TYPE: ValueType;
    /// What is asked for; what does not fit here goes to memory of the caller.
    type Answer;

    /// Returns whether the server would refuse the request whatever the key is.
    fn is_refused(&self) -> bool {
        false
    }

    /// Returns the answer where there is no such key.
    fn absent(&mut self) -> Self::Answer;

    /// Returns whether [`Query::search`] is asked of a listpack as it lies in the server's memory.
    /// That may change meanwhile: then the answer is dropped, and it is asked once more. Else the
    /// compact form is copied first, for [`Query::compact`].
    fn searches_in_place(&self) -> bool {
        false
    }

    /// Returns the answer of the collection whose listpack this is.
    fn search<B: ChangingBytes>(&mut self, _: ListpackSearch<B>) -> Result<Self::Answer, Nonsense> {
        Err(Nonsense)
    }

    /// Returns the answer of the collection whose compact form this is; `None` where the server has
    /// to say it.
    fn compact(&mut self, compact: Compact<'_>) -> Option<Self::Answer> {
        match compact {
            Compact::Listpack(pack) => self.search(ListpackSearch::new(pack.bytes())).ok(),
            Compact::Intset(_) => None,
        }
    }

    /// Returns the answer of a collection of which the number of elements is known.
    fn counted(&mut self, _count: u64) -> Option<Self::Answer> {
        None
    }

    /// Returns the request to the server.
    fn request<'a>(&'a self, key: &'a [u8]) -> Words<'a>;

    /// Returns the answer that `reply`, which is no error, says.
    fn replied(&mut self, reply: Reply) -> Result<Self::Answer, ClientError>;
}

/// Returns the answer to `query`, which searches, of `found`: `None` where that makes no sense, and
/// `Some(None)` where the server has to say it.
#[inline(always)]
pub(crate) fn searched<Q: Query>(
    query: &mut Q,
    found: SharedCollection<'_>,
) -> Option<Option<Q::Answer>> {
    match found {
        SharedCollection::Compact(Encoding::Listpack, bytes) => {
            query.search(ListpackSearch::new(bytes)).ok().map(Some)
        }
        SharedCollection::Compact(..) => Some(None),
        SharedCollection::Private { count } => Some(count.and_then(|count| query.counted(count))),
    }
}

/// Returns the answer to `query` of a collection as the reader has found it; a compact form is in
/// `compact`.
#[inline]
pub(crate) fn answer<Q: Query>(
    query: &mut Q,
    found: FoundCollection,
    compact: &[u8],
) -> Option<Q::Answer> {
    match found {
        FoundCollection::Compact(Encoding::Intset) => {
            query.compact(Compact::Intset(IntsetView::at_start_of(compact)))
        }
        FoundCollection::Compact(_) => {
            query.compact(Compact::Listpack(ListpackView::at_start_of(compact)))
        }
        FoundCollection::Private { count } => query.counted(count?),
    }
}

/// Returns what reading a collection asks for. Compact forms are no tables, whose members are
/// hashed by a secret of the server.
fn rules() -> &'static Rules {
    static RULES: LazyLock<Rules> =
        LazyLock::new(|| Rules { limits: Limits::default(), hasher: SecretHasher::new([0, 0]) });
    &RULES
}
