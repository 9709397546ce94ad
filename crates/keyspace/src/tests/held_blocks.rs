//! Room among blocks that readers hold, which can neither be moved nor freed.

use arena::SegmentSource;
use arena::layout::block_value_offset;
use arena::pins::{HeapPins, PinMemory, publish};
use base::prng::Prng;

use super::accounting::set_with_room_until;
use super::*;
use crate::{EvictionPolicy, Expiry};

const VOLATILE: Expiry = Expiry::At(UnixMs(NOW.0 + 1_000_000));

/// A store of 16 MiB, and a reader that can hold its values.
struct Store {
    fixture: Fixture,
    base: u64,
    pins: Arc<dyn PinMemory>,
    held: usize,
    random: Prng,
    writes: i64,
}

impl Store {
    fn new(seed: u64, policy: EvictionPolicy) -> Store {
        let source = HeapSource::new(2 << 20, 64);
        let base = source.base().addr().get() as u64;
        let fixture = Fixture::over(source);
        fixture.keyspace.set_eviction_policy(policy);
        fixture.keyspace.set_maxmemory(16 << 20);
        let pins: Arc<dyn PinMemory> = Arc::new(HeapPins::new());
        fixture.keyspace.arena().pins().add(1, pins.clone());
        Store { fixture, base, pins, held: 0, random: Prng::new(seed), writes: 0 }
    }

    fn set(&mut self, name: &str, bytes: usize, expiry: Expiry) {
        self.writes += 1;
        let (value, now, random) = (vec![b'v'; bytes], later(self.writes), &mut self.random);
        let result = set_with_room_until(&self.fixture, name, &value, expiry, now, random);
        assert_eq!(result, Ok(()), "{name} with {} held", self.held);
    }

    fn hold(&mut self, name: &str) {
        let key = self.fixture.key(name);
        let guard = self.fixture.keyspace.lock(key.shard);
        let value = guard.read(DB0, NOW).string(&key).unwrap().unwrap().as_ptr().addr() as u64;
        let block = value - block_value_offset(name.len() as u64) - self.base;
        publish(self.pins.words(), self.held, block);
        self.held += 1;
    }
}

/// Readers hold a third of the store.
#[test]
fn writes_find_room_beside_large_values_that_readers_hold() {
    for seed in 0..10 {
        let mut store = Store::new(seed, EvictionPolicy::ALLKEYS_LRU);
        for (kind, held) in [("first", 16), ("second", 8)] {
            for number in 0..63 {
                let name = format!("{kind}:{number}");
                store.set(&name, 256 << 10, Expiry::Clear);
                if number < held {
                    store.hold(&name);
                }
            }
        }
    }
}

/// The least that lies between two holes is held: elsewhere more is to be moved, and can be.
#[test]
fn writes_find_room_elsewhere_than_around_short_values_that_readers_hold() {
    for seed in 0..10 {
        let mut store = Store::new(seed, EvictionPolicy::VOLATILE_LRU);
        for number in 0..60 {
            store.set(&format!("long:{number}"), 200_000, VOLATILE);
            let (name, is_held) = (format!("short:{number}"), number < 40);
            store.set(&name, if is_held { 5_000 } else { 20_000 }, Expiry::Clear);
            if is_held {
                store.hold(&name);
            }
        }
        for number in 0..200 {
            store.set(&format!("longer:{number}"), 300_000 + number, VOLATILE);
        }
    }
}
