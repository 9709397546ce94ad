//! Effects of what becomes pending: the requests that Redis sends to its replicas, for several
//! entries at once where these are alike.

use std::borrow::Cow;

use base::UnixMs;
use collections::{Group, StreamId};
use keyspace::{NO_EVENT, StreamEffects, StreamPart};

use super::id_text;

/// Entries that a command gives to a consumer, in order.
#[derive(Default)]
pub(super) struct Claims {
    /// With how often each was delivered; consecutive ones with the same number together.
    given: Vec<(u64, Vec<StreamId>)>,
    /// Entries that are not pending any more, as they are not there any more.
    gone: Vec<StreamId>,
    has_any: bool,
}

impl Claims {
    /// Notes that entry `id` was delivered so often.
    #[inline]
    pub fn give(&mut self, effects: &StreamEffects<'_>, id: StreamId, delivery_count: u64) {
        self.has_any = true;
        if effects.is_heard() {
            match self.given.last_mut() {
                Some((count, ids)) if *count == delivery_count => ids.push(id),
                _ => self.given.push((delivery_count, vec![id])),
            }
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
        if self.has_any && !effects.is_heard() {
            effects.add(StreamPart::Groups, ("XCLAIM", ""), Vec::new);
        }
        for (count, ids) in self.given {
            effects.add(StreamPart::Groups, ("XCLAIM", ""), || {
                let words = |words: &[&[u8]]| {
                    words.iter().map(|word| Cow::Owned(word.to_vec())).collect::<Vec<_>>()
                };
                let mut arguments = words(&[name, consumer, b"0"]);
                arguments.extend(ids.into_iter().map(id_text));
                let (at, count) = (delivered_at.0.to_string(), count.to_string());
                arguments.extend(words(&[b"TIME", at.as_bytes()]));
                arguments.extend(words(&[b"RETRYCOUNT", count.as_bytes(), b"FORCE", b"JUSTID"]));
                arguments.extend(words(&[b"LASTID", group.last_id().to_text().as_bytes()]));
                arguments
            });
        }
        if !self.gone.is_empty() {
            effects.add(StreamPart::Groups, ("XACK", ""), || {
                let ids = self.gone.into_iter().map(id_text);
                std::iter::once(Cow::Owned(name.to_vec())).chain(ids).collect()
            });
        }
    }
}

/// Adds the effect that the group called `name` has a consumer that it had not.
pub(super) fn tell_new_consumer(effects: &mut StreamEffects<'_>, name: &[u8], consumer: &[u8]) {
    effects.add(StreamPart::Groups, ("XGROUP|CREATECONSUMER", ""), || {
        vec![name.to_vec().into(), consumer.to_vec().into()]
    });
}

/// Adds the effect that the group called `name` has read as far as `group` says, which is no event
/// of its own.
pub(super) fn tell_position(effects: &mut StreamEffects<'_>, name: &[u8], group: &Group) {
    effects.add(StreamPart::Groups, ("XGROUP|SETID", NO_EVENT), || position_of(name, group));
}

/// Returns what is behind the key in a request that sets how far the group called `name` has read.
pub(super) fn position_of(name: &[u8], group: &Group) -> Vec<Cow<'static, [u8]>> {
    let read = group.entries_read().map_or("-1".into(), |read| read.to_string());
    let read = Cow::Owned(read.into_bytes());
    vec![name.to_vec().into(), id_text(group.last_id()), b"ENTRIESREAD".as_slice().into(), read]
}
