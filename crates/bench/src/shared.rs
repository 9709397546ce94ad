//! Reading through shared memory: what one read costs a process beside the server.

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, ensure};
use client::Attached;

use crate::wire::Wire;

/// Reads timed together: reading the clock costs as much as a small read.
const READS_PER_SAMPLE: u32 = 64;
const SAMPLES: usize = 4001;
const KEYS: u64 = 64;
const SMALL_BYTES: usize = 64;
const LARGE_BYTES: usize = 1 << 20;

/// Nanoseconds of one read, the median over samples.
#[derive(Clone, Copy, Debug)]
pub struct ReadTimes {
    /// A value of 64 bytes, copied; keys that are in the cache.
    pub copied_ns: f64,
    /// A value of 1 MiB as a pinned slice.
    pub pinned_ns: f64,
}

/// Attaches to the server behind the unix socket at `path`.
///
/// # Errors
/// When the server refuses.
pub fn attach(path: &Path) -> anyhow::Result<Attached> {
    Attached::connect(path, None).with_context(|| format!("attaching to {}", path.display()))
}

/// Stores values of its own with `wire` and reads them through `attached`, many times.
///
/// # Errors
/// When a value does not come back.
pub fn measure(wire: &mut Wire, attached: &Attached) -> anyhow::Result<ReadTimes> {
    let small: Vec<String> = (0..KEYS).map(|number| format!("small:{number:010}")).collect();
    for key in &small {
        wire.call(&[b"SET", key.as_bytes(), &[b's'; SMALL_BYTES]])?;
    }
    let large = vec![b'l'; LARGE_BYTES];
    wire.call(&[b"SET", b"large", &large])?;
    let mut value = Vec::with_capacity(SMALL_BYTES);
    let copied_ns = median(|index| {
        let key = &small[index as usize % small.len()];
        let found = attached.get(key.as_bytes(), &mut value)?;
        ensure!(found && value.len() == SMALL_BYTES, "{key} has {} bytes", value.len());
        Ok(())
    })?;
    let mut buffer = Vec::new();
    let pinned_ns = median(|_| {
        let view = attached.view(b"large", &mut buffer)?.context("the large value is gone")?;
        ensure!(view.len() == LARGE_BYTES && black_box(view[LARGE_BYTES / 2]) == b'l', "wrong");
        Ok(())
    })?;
    for key in small.iter().map(String::as_bytes).chain([&b"large"[..]]) {
        wire.call(&[b"DEL", key])?;
    }
    Ok(ReadTimes { copied_ns, pinned_ns })
}

/// Returns the median time of `read` in nanoseconds.
fn median(mut read: impl FnMut(u32) -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let mut samples = Vec::with_capacity(SAMPLES);
    for _ in 0..SAMPLES {
        let started = Instant::now();
        for index in 0..READS_PER_SAMPLE {
            read(index)?;
        }
        samples.push(started.elapsed().as_nanos() as f64 / f64::from(READS_PER_SAMPLE));
    }
    samples.sort_by(f64::total_cmp);
    Ok(samples[SAMPLES / 2])
}
