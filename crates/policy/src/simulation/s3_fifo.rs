//! S3-FIFO (Yang et al., SOSP 2023): a small queue of a tenth, a main queue, ghosts for the main
//! one.

use crate::simulation::lists::Lists;
use crate::simulation::{Cache, Request, Setup};

const SMALL: usize = 0;
const MAIN: usize = 1;
const GHOSTS: usize = 2;

const USES_MAX: u8 = 3;
/// So many uses while in the small queue, and a key goes to the main one.
const USES_TO_STAY: u8 = 2;

pub(crate) struct S3Fifo {
    capacity: u64,
    small_max: u64,
    uses: Vec<u8>,
    lists: Lists<3>,
}

impl S3Fifo {
    pub fn new(setup: &Setup) -> S3Fifo {
        let capacity = setup.capacity_bytes;
        let uses = vec![0; setup.key_count as usize];
        S3Fifo { capacity, small_max: capacity / 10, uses, lists: Lists::new(setup) }
    }

    fn evict(&mut self) {
        if self.lists.bytes(SMALL) > self.small_max || self.lists.oldest(MAIN).is_none() {
            self.evict_small();
        } else {
            self.evict_main();
        }
    }

    fn evict_small(&mut self) {
        while let Some(key) = self.lists.oldest(SMALL) {
            if self.uses[key as usize] >= USES_TO_STAY {
                self.uses[key as usize] = 0;
                self.lists.shift(key, MAIN);
                continue;
            }
            self.lists.shift(key, GHOSTS);
            while self.lists.bytes(GHOSTS) > self.capacity - self.small_max {
                let oldest = self.lists.oldest(GHOSTS).expect("it has bytes");
                self.lists.remove(oldest);
            }
            return;
        }
    }

    fn evict_main(&mut self) {
        while let Some(key) = self.lists.oldest(MAIN) {
            if self.uses[key as usize] == 0 {
                return self.lists.remove(key);
            }
            self.uses[key as usize] -= 1;
            self.lists.shift(key, MAIN);
        }
    }
}

impl Cache for S3Fifo {
    fn request(&mut self, request: Request) -> bool {
        let Request { key, bytes, .. } = request;
        let queue = self.lists.queue_of(key);
        if let Some(SMALL | MAIN) = queue {
            let uses = &mut self.uses[key as usize];
            *uses = (*uses + 1).min(USES_MAX);
            return true;
        }
        if u64::from(bytes) > self.capacity {
            return false;
        }
        let target = if queue.is_some() { MAIN } else { SMALL };
        if queue.is_some() {
            self.lists.remove(key);
        }
        while self.lists.bytes(SMALL) + self.lists.bytes(MAIN) + u64::from(bytes) > self.capacity {
            self.evict();
        }
        self.uses[key as usize] = 0;
        self.lists.push(target, key, bytes);
        false
    }
}
