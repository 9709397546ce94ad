//! The power is cut at any moment of a log's life: what was durable is read back, and what is read
//! is a beginning of what was written.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use base::prng::Prng;

use crate::simulated::{Faults, SimulatedDisk};
use crate::tests::{LaidPieces, memory_of_blocks};
use crate::*;

/// How many cuts there are in each run of the tests; `FOREBAY_POWER_CUTS` sets another number.
const CUTS: u64 = 20_000;

/// What one log was told, and what it said.
struct History {
    disk: SimulatedDisk,
    /// All payloads, one after the other.
    written: Vec<u8>,
    /// How much of that the log called durable.
    durable: usize,
    segment_bytes: u64,
}

impl History {
    fn options(&self, salt: u32) -> WriterOptions {
        WriterOptions { segment_bytes: self.segment_bytes, term: 1, salt }
    }

    fn storage(&self) -> Arc<dyn Storage> {
        Arc::new(self.disk.clone())
    }

    /// Writes for a while, with faults now and then.
    fn write(&mut self, mut writer: Writer, random: &mut Prng) {
        let passes_cache = random.below(4) == 0;
        for _ in 0..random.below(30) {
            if random.below(40) == 0 {
                self.disk.set_faults(faults(random));
            }
            if writer.wants_spare()
                && random.below(4) == 0
                && let Ok(spare) =
                    prepare_spare(&self.disk, self.segment_bytes, preparation(random), |_| true)
            {
                writer.offer_spare(spare);
            }
            if passes_cache {
                let bytes_min = [None, Some(0), Some(400)][random.below(3) as usize];
                writer.set_past_cache_bytes_min(bytes_min);
            }
            let payload = payload(random, passes_cache);
            let pieces = lay_out(&payload, random);
            let pieces = || pieces.iter();
            let mut appended = writer.append_pieces(pieces());
            if let Err(WriteError::Full(_)) = appended {
                if random.below(2) == 0 {
                    self.written.extend_from_slice(&payload);
                    return;
                }
                self.disk.set_faults(Faults::default());
                // What was written before is made durable while the frame waits for room.
                if random.below(2) == 0 && writer.sync().is_err() {
                    self.written.extend_from_slice(&payload);
                    return;
                }
                appended = writer.append_pieces(pieces());
            }
            self.written.extend_from_slice(&payload);
            if appended.is_err() {
                return;
            }
            if random.below(3) > 0 && writer.sync().is_err() {
                return;
            }
            self.durable = writer.durable_lsn() as usize;
        }
        if random.below(8) == 0 && writer.close().is_ok() {
            self.durable = self.written.len();
        }
    }

    /// Reads the log back after a cut, checks it, and returns a writer that goes on.
    fn recover(&mut self, options: WriterOptions) -> Result<Writer, String> {
        let mut reader = Reader::open(self.storage()).map_err(|error| error.to_string())?;
        let (mut found, mut payload) = (Vec::new(), Vec::new());
        while reader.next(&mut payload).map_err(|error| error.to_string())?.is_some() {
            found.extend_from_slice(&payload);
        }
        if found.len() < self.durable {
            return Err(format!("{} of {} durable bytes are there", found.len(), self.durable));
        }
        if !self.written.starts_with(&found) {
            return Err("what was read is not what was written".to_owned());
        }
        (self.durable, self.written) = (found.len(), found);
        let end = reader.end();
        match end.segment {
            Some(_) => Writer::resume(self.storage(), &end, options),
            None => Writer::begin(self.storage(), 0, Begin::Nothing, options),
        }
        .map_err(|error| error.to_string())
    }
}

/// Lays a payload out as the backlog of a server has it, or in any other way.
fn lay_out(payload: &[u8], random: &mut Prng) -> LaidPieces {
    // The checksums of all are known, of none, or of some.
    let knows = random.below(3);
    let chunk_bytes = 1 + random.below(payload.len() as u64) as usize;
    // One of them lies elsewhere now and then, so that not all go on in the same block.
    let odd = random.below(6) as usize;
    let mut memory = memory_of_blocks(4096 + payload.len() + 7);
    memory.resize(memory.len() + random.below(4096) as usize, 0);
    let mut places = Vec::new();
    for (number, chunk) in payload.chunks(chunk_bytes).enumerate() {
        memory.extend_from_slice(&[0; 7][..if number == odd { 7 } else { 0 }]);
        let is_known = knows == 0 || knows == 1 && random.below(2) == 0;
        places.push((memory.len()..memory.len() + chunk.len(), is_known));
        memory.extend_from_slice(chunk);
    }
    LaidPieces { memory, places }
}

/// How long segments are: a block, or several.
const SEGMENT_BYTES: [u64; 2] = [4096, 16_384];

fn faults(random: &mut Prng) -> Faults {
    let mut faults = Faults::default();
    match random.below(6) {
        0 => faults.writes_left = Some(random.below(4)),
        1 => faults.syncs_left = Some(random.below(4)),
        2 => faults.capacity = Some(4096 + random.below(8192)),
        3 => faults.lacks_block_writes = true,
        4 if random.below(2) == 0 => faults.block_writes_left = Some(random.below(3)),
        4 => {
            faults.writes_until_full = Some(random.below(3));
            faults.write_bytes_max = Some(700);
        }
        _ => faults.write_bytes_max = Some(1 + random.below(700) as usize),
    }
    faults
}

fn preparation(random: &mut Prng) -> Preparation {
    match random.below(2) {
        0 => Preparation::Reserved,
        _ => Preparation::Zeroed,
    }
}

/// Bytes of which some sectors are all zeroes.
fn payload(random: &mut Prng, passes_cache: bool) -> Vec<u8> {
    let length = 1 + match random.below(20) {
        // So long that the disk may take blocks of it from where they are.
        0..4 if passes_cache => random.below(15_000),
        0..2 => random.below(6000),
        _ => random.below(300),
    };
    let byte = random.below(4) as u8;
    (0..length).map(|_| byte.wrapping_mul(random.below(256) as u8)).collect()
}

/// Cuts the power of one log some times; returns how often.
fn run(seed: u64) -> Result<u64, String> {
    let mut random = Prng::new(seed);
    let segment_bytes = SEGMENT_BYTES[random.below(2) as usize];
    let (disk, written) = (SimulatedDisk::new(), Vec::new());
    let mut history = History { disk, written, durable: 0, segment_bytes };
    let lives = 1 + random.below(6);
    for _ in 0..lives {
        let salt = random.below(u64::from(u32::MAX)) as u32;
        let writer = history.recover(history.options(salt))?;
        history.write(writer, &mut random);
        history.disk.cut_power(&mut random);
    }
    history.recover(history.options(5))?;
    Ok(lives)
}

#[test]
fn no_power_cut_loses_what_was_durable() {
    let wanted = std::env::var("FOREBAY_POWER_CUTS").ok();
    let wanted = wanted.map_or(CUTS, |count| count.parse().expect("it is a number"));
    let (cuts, seeds) = (AtomicU64::new(0), AtomicU64::new(0));
    // Each log depends on its seed alone, whichever thread cuts it.
    let cut = || {
        while cuts.load(Ordering::Relaxed) < wanted {
            let seed = seeds.fetch_add(1, Ordering::Relaxed);
            let times = run(seed).unwrap_or_else(|error| {
                cuts.store(wanted, Ordering::Relaxed);
                panic!("seed {seed}: {error}")
            });
            cuts.fetch_add(times, Ordering::Relaxed);
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(cut))));
    println!("{} power cuts, {} logs", cuts.into_inner(), seeds.into_inner());
}
