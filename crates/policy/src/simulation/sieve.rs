//! SIEVE (Zhang et al., NSDI 2024): a hand goes over one queue and spares what was used since.

use crate::simulation::lists::Lists;
use crate::simulation::{Cache, Request, Setup};

pub(crate) struct Sieve {
    capacity: u64,
    hand: Option<u32>,
    is_used: Vec<bool>,
    list: Lists<1>,
}

impl Sieve {
    pub fn new(setup: &Setup) -> Sieve {
        let is_used = vec![false; setup.key_count as usize];
        Sieve { capacity: setup.capacity_bytes, hand: None, is_used, list: Lists::new(setup) }
    }

    fn evict(&mut self) {
        let mut key = self.hand.or(self.list.oldest(0)).expect("it has bytes");
        while std::mem::take(&mut self.is_used[key as usize]) {
            key = self.list.newer(key).or(self.list.oldest(0)).expect("it has keys");
        }
        self.hand = self.list.newer(key);
        self.list.remove(key);
    }
}

impl Cache for Sieve {
    fn request(&mut self, request: Request) -> bool {
        let Request { key, bytes, .. } = request;
        if self.list.queue_of(key).is_some() {
            self.is_used[key as usize] = true;
            return true;
        }
        if u64::from(bytes) > self.capacity {
            return false;
        }
        while self.list.bytes(0) + u64::from(bytes) > self.capacity {
            self.evict();
        }
        self.is_used[key as usize] = false;
        self.list.push(0, key, bytes);
        false
    }
}
