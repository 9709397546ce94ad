//! W-TinyLFU (Einziger et al., 2017), as in Caffeine: a window of 1 %, a segmented LRU behind it,
//! and between them a comparison of frequencies that a sketch estimates.

use base::prng::mix;

use crate::simulation::lists::Lists;
use crate::simulation::{Cache, Request, Setup};

const WINDOW: usize = 0;
const PROBATION: usize = 1;
const PROTECTED: usize = 2;

const ROWS: u64 = 4;
const COUNT_MAX: u8 = 15;
/// Counters are halved after so many additions for each key of a full cache.
const SAMPLE_FACTOR: u64 = 10;

/// A count-min sketch of four rows of counters up to 15.
struct Sketch {
    counts: Vec<u8>,
    row_length: u64,
    additions: u64,
    additions_max: u64,
}

impl Sketch {
    fn new(keys: u64) -> Sketch {
        let row_length = (keys * 2).next_power_of_two().max(64);
        let counts = vec![0; (row_length * ROWS) as usize];
        Sketch { counts, row_length, additions: 0, additions_max: keys.max(8) * SAMPLE_FACTOR }
    }

    fn slot(&self, key: u32, row: u64) -> usize {
        (row * self.row_length + (mix(u64::from(key) << 2 | row) & (self.row_length - 1))) as usize
    }

    fn count(&self, key: u32) -> u8 {
        let counts = (0..ROWS).map(|row| self.counts[self.slot(key, row)]);
        counts.min().expect("there are rows")
    }

    fn add(&mut self, key: u32) {
        for row in 0..ROWS {
            let slot = self.slot(key, row);
            self.counts[slot] = (self.counts[slot] + 1).min(COUNT_MAX);
        }
        self.additions += 1;
        if self.additions == self.additions_max {
            self.counts.iter_mut().for_each(|count| *count /= 2);
            self.additions /= 2;
        }
    }
}

pub(crate) struct WTinyLfu {
    capacity: u64,
    window_max: u64,
    protected_max: u64,
    sketch: Sketch,
    lists: Lists<3>,
}

impl WTinyLfu {
    pub fn new(setup: &Setup) -> WTinyLfu {
        let capacity = setup.capacity_bytes;
        let window_max = capacity / 100;
        WTinyLfu {
            capacity,
            window_max,
            protected_max: (capacity - window_max) / 5 * 4,
            sketch: Sketch::new(capacity / setup.key_bytes.max(1)),
            lists: Lists::new(setup),
        }
    }

    fn admit_from_window(&mut self) {
        while self.lists.bytes(WINDOW) > self.window_max {
            let candidate = self.lists.oldest(WINDOW).expect("it has bytes");
            self.lists.shift(candidate, PROBATION);
            let main = |lists: &Lists<3>| lists.bytes(PROBATION) + lists.bytes(PROTECTED);
            while main(&self.lists) > self.capacity - self.window_max {
                let oldest = self.lists.oldest(PROBATION).filter(|victim| *victim != candidate);
                let victim = oldest.or(self.lists.oldest(PROTECTED));
                let victim = victim
                    .filter(|victim| self.sketch.count(candidate) > self.sketch.count(*victim));
                self.lists.remove(victim.unwrap_or(candidate));
                if victim.is_none() {
                    break;
                }
            }
        }
    }
}

impl Cache for WTinyLfu {
    fn request(&mut self, request: Request) -> bool {
        let Request { key, bytes, .. } = request;
        self.sketch.add(key);
        if let Some(queue) = self.lists.queue_of(key) {
            self.lists.shift(key, if queue == WINDOW { WINDOW } else { PROTECTED });
            while self.lists.bytes(PROTECTED) > self.protected_max {
                let oldest = self.lists.oldest(PROTECTED).expect("it has bytes");
                self.lists.shift(oldest, PROBATION);
            }
            return true;
        }
        if u64::from(bytes) > self.capacity - self.window_max {
            return false;
        }
        self.lists.push(WINDOW, key, bytes);
        self.admit_from_window();
        false
    }
}
