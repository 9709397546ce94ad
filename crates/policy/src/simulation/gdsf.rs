//! GDSF (Cherkasova, 1998), each key at the same cost: a key's priority is its uses since it came
//! over its size, and the priority of the last victim when it was used last.

use std::collections::BTreeSet;

use crate::simulation::{Cache, Request, Setup};

#[derive(Clone, Copy, Default)]
struct Key {
    bytes: u32,
    /// 0 where it is not there.
    uses: u32,
    /// The bits of a positive number, which are in its order.
    priority: u64,
}

pub(crate) struct Gdsf {
    capacity: u64,
    used: u64,
    clock: f64,
    keys: Vec<Key>,
    order: BTreeSet<(u64, u32)>,
}

impl Gdsf {
    pub fn new(setup: &Setup) -> Gdsf {
        let keys = vec![Key::default(); setup.key_count as usize];
        let capacity = setup.capacity_bytes;
        Gdsf { capacity, used: 0, clock: 0.0, keys, order: BTreeSet::new() }
    }

    fn enter(&mut self, key: u32) {
        let one = &mut self.keys[key as usize];
        let priority = self.clock + f64::from(one.uses) / f64::from(one.bytes.max(1));
        one.priority = priority.to_bits();
        self.order.insert((one.priority, key));
    }
}

impl Cache for Gdsf {
    fn request(&mut self, request: Request) -> bool {
        let Request { key, bytes, .. } = request;
        let known = self.keys[key as usize];
        if known.uses > 0 {
            self.order.remove(&(known.priority, key));
            self.keys[key as usize].uses += 1;
            self.enter(key);
            return true;
        }
        if u64::from(bytes) > self.capacity {
            return false;
        }
        while self.used + u64::from(bytes) > self.capacity {
            let (priority, victim) = self.order.pop_first().expect("it has bytes");
            self.clock = f64::from_bits(priority);
            self.used -= u64::from(self.keys[victim as usize].bytes);
            self.keys[victim as usize].uses = 0;
        }
        self.keys[key as usize] = Key { bytes, uses: 1, priority: 0 };
        self.used += u64::from(bytes);
        self.enter(key);
        false
    }
}
