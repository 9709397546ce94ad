//! Traces that are made up, each from a seed.

use base::prng::Prng;

use crate::simulation::zipf::{Zipf, log_normal, unit};
use crate::simulation::{Request, Trace};

const MIB: u64 = 1 << 20;

/// A kind of trace.
pub struct Workload {
    pub name: &'static str,
    pub about: &'static str,
    make: fn(u64) -> Made,
}

/// A trace, and the cache that it is meant for.
pub struct Made {
    pub trace: Trace,
    pub capacity_bytes: u64,
}

/// The workloads.
pub const WORKLOADS: &[Workload] = &[
    Workload {
        name: "seed",
        about: "80 % of requests to 20 % of 16,384 keys of up to 1 MiB, for 2 GiB",
        make: |seed| hot_and_cold(seed, 16_384, |random| random.below(MIB + 1), 2048 * MIB),
    },
    Workload {
        name: "seed-512k",
        about: "the same with values of 512 KiB",
        make: |seed| hot_and_cold(seed, 16_384, |_| MIB / 2, 2048 * MIB),
    },
    Workload {
        name: "seed-1k",
        about: "the same with values of up to 1 KiB, for 100 MiB",
        make: |seed| hot_and_cold(seed, 819_200, |random| random.below(1025), 100 * MIB),
    },
    Workload {
        name: "zipf-large",
        about: "Zipf 1.0 over 4 million keys of up to 1 MiB, for 2 GiB",
        make: zipf_large,
    },
    Workload {
        name: "zipf-0.9",
        about: "Zipf over 100,000 keys of log-normal sizes, for a 20th of them",
        make: |seed| zipf(seed, 0.9, Mixture::None),
    },
    Workload { name: "zipf-1.0", about: "the same", make: |seed| zipf(seed, 1.0, Mixture::None) },
    Workload { name: "zipf-1.1", about: "the same", make: |seed| zipf(seed, 1.1, Mixture::None) },
    Workload {
        name: "scan",
        about: "zipf-1.0, and 30 % in bursts of keys that come once",
        make: |seed| zipf(seed, 1.0, Mixture::Scans),
    },
    Workload {
        name: "tiny-scan",
        about: "zipf-1.0, and 30 % of single keys of 200 B that come once",
        make: |seed| zipf(seed, 1.0, Mixture::Tiny),
    },
    Workload {
        name: "loop",
        about: "zipf-0.9, and 40 % go round in twice the keys that fit",
        make: |seed| zipf(seed, 0.9, Mixture::Loop),
    },
    Workload { name: "births", about: "10 % new keys, the others asked for lately", make: births },
    Workload {
        name: "shift-slow",
        about: "seed, 1 % of the hot keys replaced each 1,000 requests",
        make: |seed| shifting(seed, Shift { share: 0.01, period: 1000 }),
    },
    Workload {
        name: "shift-fast",
        about: "seed, 4 % of the hot keys replaced each 1,000 requests",
        make: |seed| shifting(seed, Shift { share: 0.04, period: 1000 }),
    },
    Workload {
        name: "shift-abrupt",
        about: "seed, all hot keys replaced each 40,000 requests",
        make: |seed| shifting(seed, Shift { share: 1.0, period: 40_000 }),
    },
    Workload {
        name: "diurnal",
        about: "two populations, Zipf 0.9, whose shares swing by day and night",
        make: diurnal,
    },
];

impl Workload {
    /// Returns the workload of this name.
    pub fn of(name: &str) -> Option<&'static Workload> {
        WORKLOADS.iter().find(|workload| workload.name == name)
    }

    /// Returns its trace of `seed`.
    pub fn make(&self, seed: u64) -> Made {
        (self.make)(seed)
    }
}

/// A trace that is being made: a thousand requests in each second.
#[derive(Default)]
struct Maker {
    trace: Trace,
    sizes: Vec<u32>,
}

impl Maker {
    fn add_key(&mut self, bytes: u64) -> u32 {
        self.sizes.push(u32::try_from(bytes).expect("sizes are below 4 GiB"));
        self.trace.key_count += 1;
        self.trace.key_count - 1
    }

    fn ask(&mut self, key: u32) {
        let second = (self.trace.requests.len() / 1000) as u32;
        self.trace.requests.push(Request { key, bytes: self.sizes[key as usize], second });
    }

    fn len(&self) -> usize {
        self.trace.requests.len()
    }

    fn done(self, capacity_bytes: u64) -> Made {
        Made { trace: self.trace, capacity_bytes }
    }

    /// Returns the made trace for a cache of this share of its keys.
    fn done_for_share(self, share: f64) -> Made {
        let capacity = (self.trace.footprint_bytes() as f64 * share) as u64;
        self.done(capacity)
    }
}

fn hot_and_cold(seed: u64, keys: u64, size: fn(&mut Prng) -> u64, capacity: u64) -> Made {
    let (random, maker) = (&mut Prng::new(seed), &mut Maker::default());
    (0..keys).for_each(|_| _ = maker.add_key(size(random)));
    let hot = keys / 5;
    for _ in 0..keys * 100_000 / 16_384 {
        let key = match random.below(5) {
            0 => hot + random.below(keys - hot),
            _ => random.below(hot),
        };
        maker.ask(key as u32);
    }
    std::mem::take(maker).done(capacity)
}

/// How the hot keys change.
#[derive(Clone, Copy)]
struct Shift {
    share: f64,
    period: usize,
}

fn shifting(seed: u64, shift: Shift) -> Made {
    const REQUESTS: usize = 400_000;
    let (random, maker) = (&mut Prng::new(seed), &mut Maker::default());
    let mut keys: Vec<u32> = (0..16_384).map(|_| maker.add_key(random.below(MIB + 1))).collect();
    let (count, hot) = (keys.len() as u64, keys.len() as u64 / 5);
    let mut due = 0.0;
    for position in 1..=REQUESTS {
        let index = match random.below(5) {
            0 => hot + random.below(count - hot),
            _ => random.below(hot),
        };
        maker.ask(keys[index as usize]);
        if position % shift.period == 0 {
            due += shift.share * hot as f64;
            while due >= 1.0 {
                keys.swap(random.below(hot) as usize, (hot + random.below(count - hot)) as usize);
                due -= 1.0;
            }
        }
    }
    std::mem::take(maker).done(2048 * MIB)
}

fn zipf_large(seed: u64) -> Made {
    let (random, maker) = (&mut Prng::new(seed), &mut Maker::default());
    let (keys, requests) = (4_096_000, 32 * 4096);
    (0..keys).for_each(|_| _ = maker.add_key(random.below(MIB + 1)));
    let zipf = Zipf::new(keys, 1.0001);
    (0..requests).for_each(|_| maker.ask(zipf.draw(random)));
    std::mem::take(maker).done(2048 * MIB)
}

/// What is asked for beside the Zipf distribution.
#[derive(Clone, Copy, PartialEq)]
enum Mixture {
    None,
    Scans,
    Tiny,
    Loop,
}

fn value_bytes(random: &mut Prng) -> u64 {
    (log_normal(random, 4096.0, 1.5) as u64).clamp(1, 64 * MIB)
}

fn zipf(seed: u64, exponent: f64, mixture: Mixture) -> Made {
    const KEYS: u32 = 100_000;
    const REQUESTS: usize = 1_000_000;
    const BURST: usize = 3000;
    const SHARE: f64 = 0.05;
    let (random, maker) = (&mut Prng::new(seed), &mut Maker::default());
    let keys: Vec<u32> = (0..KEYS).map(|_| maker.add_key(value_bytes(random))).collect();
    let footprint: u64 = maker.sizes.iter().map(|bytes| u64::from(*bytes)).sum();
    let circle: Vec<u32> = match mixture {
        Mixture::Loop => (0..KEYS / 10).map(|_| maker.add_key(value_bytes(random))).collect(),
        _ => Vec::new(),
    };
    let zipf = Zipf::new(KEYS, exponent);
    let mut round = 0;
    while maker.len() < REQUESTS {
        let is_other = match mixture {
            Mixture::None => false,
            Mixture::Scans => maker.len() % (BURST * 10 / 3) < BURST,
            Mixture::Tiny => unit(random) < 0.3,
            Mixture::Loop => unit(random) < 0.4,
        };
        let key = match mixture {
            _ if !is_other => keys[zipf.draw(random) as usize],
            Mixture::Tiny => maker.add_key(200),
            Mixture::Loop => {
                round += 1;
                circle[round % circle.len()]
            }
            _ => maker.add_key(value_bytes(random)),
        };
        maker.ask(key);
    }
    std::mem::take(maker).done((footprint as f64 * SHARE) as u64)
}

fn births(seed: u64) -> Made {
    const REQUESTS: usize = 600_000;
    const SHARE: f64 = 0.05;
    let (random, maker) = (&mut Prng::new(seed), &mut Maker::default());
    let ages = Zipf::new(20_000, 1.2);
    maker.add_key(value_bytes(random));
    while maker.len() < REQUESTS {
        let count = maker.trace.key_count;
        let key = match unit(random) < 0.1 {
            true => maker.add_key(value_bytes(random)),
            false => count - 1 - ages.draw(random).min(count - 1),
        };
        maker.ask(key);
    }
    std::mem::take(maker).done_for_share(SHARE)
}

fn diurnal(seed: u64) -> Made {
    const KEYS: u32 = 50_000;
    const REQUESTS: usize = 1_200_000;
    const DAYS: f64 = 4.0;
    const SHARE: f64 = 0.05;
    let (random, maker) = (&mut Prng::new(seed), &mut Maker::default());
    (0..2 * KEYS).for_each(|_| _ = maker.add_key(value_bytes(random)));
    let zipf = Zipf::new(KEYS, 0.9);
    for position in 0..REQUESTS {
        let time = position as f64 / REQUESTS as f64 * DAYS;
        let share = 0.5 + 0.45 * (time * std::f64::consts::TAU).sin();
        let population = if unit(random) < share { 0 } else { KEYS };
        maker.ask(population + zipf.draw(random));
    }
    std::mem::take(maker).done_for_share(SHARE)
}
