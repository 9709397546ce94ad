//! Segmented LRU: new keys are on probation, a fifth of the memory; those used again are protected.

use crate::simulation::lists::Lists;
use crate::simulation::{Cache, Request, Setup};

const PROBATION: usize = 0;
const PROTECTED: usize = 1;

pub(crate) struct Slru {
    capacity: u64,
    protected_max: u64,
    lists: Lists<2>,
}

impl Slru {
    pub fn new(setup: &Setup) -> Slru {
        let capacity = setup.capacity_bytes;
        Slru { capacity, protected_max: capacity / 5 * 4, lists: Lists::new(setup) }
    }
}

impl Cache for Slru {
    fn request(&mut self, request: Request) -> bool {
        let Request { key, bytes, .. } = request;
        if self.lists.queue_of(key).is_some() {
            self.lists.shift(key, PROTECTED);
            while self.lists.bytes(PROTECTED) > self.protected_max {
                let oldest = self.lists.oldest(PROTECTED).expect("it has bytes");
                self.lists.shift(oldest, PROBATION);
            }
            return true;
        }
        if u64::from(bytes) > self.capacity {
            return false;
        }
        while self.lists.bytes(PROBATION) + self.lists.bytes(PROTECTED) + u64::from(bytes)
            > self.capacity
        {
            let oldest = self.lists.oldest(PROBATION).or(self.lists.oldest(PROTECTED));
            self.lists.remove(oldest.expect("they have bytes"));
        }
        self.lists.push(PROBATION, key, bytes);
        false
    }
}
