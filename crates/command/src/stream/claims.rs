//! Effects of what becomes pending: the requests that Redis sends to its replicas, for several
//! entries at once where these are alike.

use std::borrow::Cow;

use base::UnixMs;
use collections::{ConsumerIndex, Group, StreamId};
use keyspace::{NO_EVENT, StreamEffects};

use super::id_text;
use super::removal::{effect_count, requests};

/// The most entries that one effect names, however many a command gives to a consumer.
pub(super) const IDS_PER_EFFECT_MAX: usize = 1024;

/// Entries that a command gives to a consumer, in order.
#[derive(Default)]
pub(super) struct Claims {
    given: Vec<Given>,
    /// Entries that are not pending any more, as they are not there any more.
    gone: Vec<StreamId>,
    has_any: bool,
}

struct Given {
    id: StreamId,
    delivery_count: u64,
}

impl Claims {
    /// A bound of what it takes for each entry while the command runs.
    pub const BYTES_PER_ENTRY: u64 = 2 * size_of::<Given>() as u64;

    /// Notes that entry `id` was delivered so often.
    #[inline]
    pub fn give(&mut self, effects: &StreamEffects<'_>, id: StreamId, delivery_count: u64) {
        self.has_any = true;
        if effects.is_heard() {
            self.given.push(Given { id, delivery_count });
        }
    }

    /// Notes that entry `id` is not pending any more.
    pub fn take(&mut self, effects: &StreamEffects<'_>, id: StreamId) {
        self.has_any = true;
        if effects.is_heard() {
            self.gone.push(id);
        }
    }

    /// Adds the effects: what `consumer` of `group`, which is called `name`, was given at
    /// `delivered_at`.
    pub fn tell(
        self,
        effects: &mut StreamEffects<'_>,
        (name, group): (&[u8], &Group),
        consumer: &[u8],
        delivered_at: UnixMs,
    ) {
        if !self.has_any {
            return;
        }
        if !effects.is_heard() {
            return effects.add_each(("XCLAIM", ""), 1, std::iter::empty());
        }
        let Claims { given, gone, .. } = self;
        let (mut claim_count, mut rest) = (0, &given[..]);
        while !rest.is_empty() {
            (claim_count, rest) = (claim_count + 1, &rest[alike_count(rest)..]);
        }
        let head = [name, consumer, b"0"].map(|word| Cow::Owned(word.to_vec()));
        let words = ["TIME", &delivered_at.0.to_string(), "RETRYCOUNT"].map(owned);
        let last = ["FORCE", "JUSTID", "LASTID"].map(owned);
        let last_id = id_text(group.last_id());
        let mut first = 0;
        let claims = std::iter::from_fn(move || {
            let rest = given.get(first..).filter(|rest| !rest.is_empty())?;
            let given = &rest[..alike_count(rest)];
            first += given.len();
            let count = owned(&given[0].delivery_count.to_string());
            let ids = given.iter().map(|given| id_text(given.id));
            let tail = words.iter().cloned().chain([count]).chain(last.iter().cloned());
            Some(head.iter().cloned().chain(ids).chain(tail).chain([last_id.clone()]).collect())
        });
        effects.add_each(("XCLAIM", ""), claim_count, claims);
        effects.add_each(("XACK", ""), effect_count(&gone), requests(Some(name.to_vec()), gone));
    }
}

/// Returns how many of `given`, which are not none, the next effect names: those that were
/// delivered as often as the first.
fn alike_count(given: &[Given]) -> usize {
    let alike = |other: &&Given| other.delivery_count == given[0].delivery_count;
    given.iter().take(IDS_PER_EFFECT_MAX).take_while(alike).count()
}

fn owned(word: &str) -> Cow<'static, [u8]> {
    Cow::Owned(word.as_bytes().to_vec())
}

/// Returns the consumer called `consumer` of `group`, which is called `name`, and is made where it
/// is not there, as one that was seen at `now`.
#[inline]
pub(super) fn attending_consumer(
    group: &mut Group,
    (name, consumer): (&[u8], &[u8]),
    now: UnixMs,
    effects: &mut StreamEffects<'_>,
) -> ConsumerIndex {
    let index = group.find_consumer(consumer).unwrap_or_else(|| {
        tell_new_consumer(effects, name, consumer);
        group.add_consumer(consumer, now)
    });
    group.note_seen(index, now, false);
    index
}

/// Adds the effect that the group called `name` has a consumer that it had not.
pub(super) fn tell_new_consumer(effects: &mut StreamEffects<'_>, name: &[u8], consumer: &[u8]) {
    effects.add(("XGROUP|CREATECONSUMER", ""), || {
        vec![name.to_vec().into(), consumer.to_vec().into()]
    });
}

/// Adds the effect that the group called `name` has read as far as `group` says, which is no event
/// of its own.
pub(super) fn tell_position(effects: &mut StreamEffects<'_>, name: &[u8], group: &Group) {
    effects.add(("XGROUP|SETID", NO_EVENT), || position_of(name, group));
}

/// Returns what is behind the key in a request that sets how far the group called `name` has read.
pub(super) fn position_of(name: &[u8], group: &Group) -> Vec<Cow<'static, [u8]>> {
    let read = group.entries_read().map_or("-1".into(), |read| read.to_string());
    let read = Cow::Owned(read.into_bytes());
    vec![name.to_vec().into(), id_text(group.last_id()), b"ENTRIESREAD".as_slice().into(), read]
}
