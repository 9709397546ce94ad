//! The producers of a stream who name their messages, so that a message that is sent again is not
//! added again: which message became which entry, for a while.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use base::UnixMs;

use super::id::StreamId;
use crate::heap_bytes;

/// How long a message is remembered unless a stream says otherwise, in seconds.
const DURATION_DEFAULT_S: u32 = 100;
/// How many messages of each producer are remembered unless a stream says otherwise.
const SIZE_DEFAULT: u32 = 100;
/// What is before the bytes of a name that is shared.
const SHARED_BYTES: usize = 16;
/// A bound of what a message takes in the tree and in the queue of its producer.
const MESSAGE_BYTES: u64 = 200;
/// A bound of what a producer takes in the tree of producers.
const PRODUCER_BYTES: u64 = 200;
/// Other producers that are looked at when a message is added, so that those who have gone are
/// forgotten.
const LOOKS: usize = 2;

/// Who sent which messages.
#[derive(Clone, Debug)]
pub struct Producers {
    duration_s: u32,
    size_max: u32,
    added: u64,
    duplicates: u64,
    by_name: BTreeMap<Arc<[u8]>, Producer>,
    /// The producer that was looked at last.
    looked_at: Arc<[u8]>,
    /// What the producers take.
    bytes: u64,
}

#[derive(Clone, Debug, Default)]
struct Producer {
    messages: BTreeMap<Arc<[u8]>, Message>,
    /// In the order in which they came.
    order: VecDeque<Arc<[u8]>>,
}

#[derive(Clone, Copy, Debug)]
struct Message {
    entry: StreamId,
    added_at: UnixMs,
}

impl Default for Producers {
    fn default() -> Producers {
        Producers {
            duration_s: DURATION_DEFAULT_S,
            size_max: SIZE_DEFAULT,
            added: 0,
            duplicates: 0,
            by_name: BTreeMap::new(),
            looked_at: Arc::default(),
            bytes: 0,
        }
    }
}

impl Producers {
    /// Returns how long a message is remembered, in seconds.
    pub fn duration_s(&self) -> u32 {
        self.duration_s
    }

    /// Returns how many messages of each producer are remembered.
    pub fn size_max(&self) -> u32 {
        self.size_max
    }

    /// Returns how many messages were ever added.
    pub fn added(&self) -> u64 {
        self.added
    }

    /// Returns how many messages were not added, as they had been.
    pub fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// Returns the bytes of memory that they take beside themselves.
    pub fn memory_bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns how many producers and how many messages are remembered at `now`.
    pub fn counts(&self, now: UnixMs) -> (usize, usize) {
        let of_each = self.by_name.values().map(|producer| {
            let is_old = |name: &Arc<[u8]>| self.is_old(&producer.messages[name], now);
            producer.order.len() - producer.order.partition_point(is_old)
        });
        let of_each = of_each.filter(|count| *count > 0);
        of_each.fold((0, 0), |(producers, messages), count| (producers + 1, messages + count))
    }

    /// Sets for how long and how many messages are remembered, where they are given. Whichever
    /// changes has all messages forgotten.
    pub fn configure(&mut self, duration_s: Option<u32>, size_max: Option<u32>) {
        let before = (self.duration_s, self.size_max);
        self.duration_s = duration_s.unwrap_or(self.duration_s);
        self.size_max = size_max.unwrap_or(self.size_max);
        if (self.duration_s, self.size_max) != before {
            self.by_name = BTreeMap::new();
            self.bytes = 0;
        }
    }

    /// Returns a bound of what remembering a message takes.
    pub fn growth_bound(producer: &[u8], message: &[u8]) -> u64 {
        producer_bytes(producer) + message_bytes(message)
    }

    /// Returns the entry that message `message` of `producer` became, if that is remembered at
    /// `now`.
    pub fn find(&self, producer: &[u8], message: &[u8], now: UnixMs) -> Option<StreamId> {
        let found = self.by_name.get(producer)?.messages.get(message)?;
        (!self.is_old(found, now)).then_some(found.entry)
    }

    /// Counts a message that was not added.
    pub fn note_duplicate(&mut self) {
        self.duplicates = self.duplicates.wrapping_add(1);
    }

    /// Remembers that message `message` of `producer` became `entry` at `now`; forgets what is too
    /// much or too old.
    pub fn add(&mut self, producer: &[u8], message: &[u8], entry: StreamId, now: UnixMs) {
        self.added = self.added.wrapping_add(1);
        for _ in 0..LOOKS {
            self.look_at_next(now);
        }
        if !self.by_name.contains_key(producer) {
            self.bytes += producer_bytes(producer);
            self.by_name.insert(producer.into(), Producer::default());
        }
        self.forget_old(producer, now);
        let found = self.by_name.get_mut(producer).expect("it was just made");
        if found.messages.remove(message).is_some() {
            found.order.retain(|name| **name != *message);
            self.bytes -= message_bytes(message);
        }
        while found.order.len() >= self.size_max as usize
            && let Some(oldest) = found.order.pop_front()
        {
            found.messages.remove(&oldest);
            self.bytes -= message_bytes(&oldest);
        }
        let name: Arc<[u8]> = message.into();
        found.order.push_back(name.clone());
        found.messages.insert(name, Message { entry, added_at: now });
        self.bytes += message_bytes(message);
    }

    fn is_old(&self, message: &Message, now: UnixMs) -> bool {
        now.0.saturating_sub(message.added_at.0) >= i64::from(self.duration_s) * 1000
    }

    /// Looks at the producer behind the one that was looked at last, and forgets it where nothing
    /// of it is remembered any more.
    fn look_at_next(&mut self, now: UnixMs) {
        let behind = (Bound::Excluded(self.looked_at.clone()), Bound::Unbounded);
        let next = self.by_name.range::<Arc<[u8]>, _>(behind).next();
        let Some(name) = next.or(self.by_name.first_key_value()).map(|(name, _)| name.clone())
        else {
            return;
        };
        self.forget_old(&name, now);
        if self.by_name[&name].order.is_empty() {
            self.by_name.remove(&name);
            self.bytes -= producer_bytes(&name);
        }
        self.looked_at = name;
    }

    /// Forgets the messages of `producer`, which is there, that are too old.
    fn forget_old(&mut self, producer: &[u8], now: UnixMs) {
        let age_max_ms = i64::from(self.duration_s) * 1000;
        let found = self.by_name.get_mut(producer).expect("the caller has looked");
        while let Some(oldest) = found.order.front()
            && now.0.saturating_sub(found.messages[oldest].added_at.0) >= age_max_ms
        {
            self.bytes -= message_bytes(oldest);
            found.messages.remove(oldest);
            found.order.pop_front();
        }
    }
}

fn producer_bytes(name: &[u8]) -> u64 {
    PRODUCER_BYTES + heap_bytes(SHARED_BYTES + name.len())
}

fn message_bytes(name: &[u8]) -> u64 {
    MESSAGE_BYTES + heap_bytes(SHARED_BYTES + name.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixMs = UnixMs(1_000_000);

    fn id(ms: u64) -> StreamId {
        StreamId::new(ms, 0)
    }

    #[test]
    fn a_message_is_remembered_for_its_time() {
        let mut producers = Producers::default();
        producers.add(b"p", b"one", id(1), NOW);
        let at = |after_ms: i64| UnixMs(NOW.0 + after_ms);
        assert_eq!(producers.find(b"p", b"one", at(99_999)), Some(id(1)));
        assert_eq!(producers.find(b"p", b"one", at(100_000)), None);
        assert_eq!(producers.find(b"q", b"one", NOW), None);
        assert_eq!((producers.counts(NOW), producers.counts(at(100_000))), ((1, 1), (0, 0)));
        // It may come again by then.
        producers.add(b"p", b"one", id(2), at(100_000));
        assert_eq!(producers.find(b"p", b"one", at(100_000)), Some(id(2)));
        assert_eq!(producers.added(), 2);
    }

    #[test]
    fn the_oldest_make_room_for_the_newest() {
        let mut producers = Producers::default();
        producers.configure(None, Some(3));
        for number in 0..5_u64 {
            producers.add(b"p", number.to_string().as_bytes(), id(number), NOW);
        }
        let found = |name: &str| producers.find(b"p", name.as_bytes(), NOW).is_some();
        assert_eq!(["0", "1", "2", "3", "4"].map(found), [false, false, true, true, true]);
        assert_eq!(producers.counts(NOW), (1, 3));
    }

    #[test]
    fn what_changes_how_long_they_are_remembered_has_them_forgotten() {
        let mut producers = Producers::default();
        producers.add(b"p", b"one", id(1), NOW);
        producers.configure(Some(100), Some(100));
        assert_eq!(producers.find(b"p", b"one", NOW), Some(id(1)));
        producers.configure(Some(99), None);
        assert_eq!(producers.find(b"p", b"one", NOW), None);
        assert_eq!((producers.memory_bytes(), producers.added()), (0, 1));
    }

    #[test]
    fn producers_who_have_gone_are_forgotten_and_their_memory_is_given_back() {
        let mut producers = Producers::default();
        for number in 0..1_000_u64 {
            producers.add(format!("p{number}").as_bytes(), b"message", id(number), NOW);
        }
        let later = UnixMs(NOW.0 + 200_000);
        for number in 0..1_000_u64 {
            producers.add(b"last", number.to_string().as_bytes(), id(number), later);
        }
        assert_eq!(producers.by_name.len(), 1);
        let of_messages: u64 =
            producers.by_name.values().flat_map(|it| &it.order).map(|it| message_bytes(it)).sum();
        assert_eq!(producers.memory_bytes(), producer_bytes(b"last") + of_messages);
    }
}
