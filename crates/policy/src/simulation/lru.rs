//! LRU: the key that was not used for longest goes first.

use crate::simulation::lists::Lists;
use crate::simulation::{Cache, Request, Setup};

pub(crate) struct Lru {
    capacity: u64,
    list: Lists<1>,
}

impl Lru {
    pub fn new(setup: &Setup) -> Lru {
        Lru { capacity: setup.capacity_bytes, list: Lists::new(setup) }
    }
}

impl Cache for Lru {
    fn request(&mut self, request: Request) -> bool {
        let Request { key, bytes, .. } = request;
        if self.list.queue_of(key).is_some() {
            self.list.shift(key, 0);
            return true;
        }
        if u64::from(bytes) > self.capacity {
            return false;
        }
        self.list.push(0, key, bytes);
        while self.list.bytes(0) > self.capacity {
            let oldest = self.list.oldest(0).expect("it has bytes");
            self.list.remove(oldest);
        }
        false
    }
}
