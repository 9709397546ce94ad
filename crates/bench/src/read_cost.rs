//! What one read costs a process on the server's host, in the server's memory and by a request.

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use client::Attached;
use resp::Value;

use crate::target::Target;
use crate::wire::Wire;

/// Reads of the memory that are timed together: reading the clock costs as much as a small read.
const READS_PER_SAMPLE: u32 = 64;
const SAMPLES_MAX: usize = 4001;
/// How long one figure takes at most.
const TIME_MAX: Duration = Duration::from_millis(300);
const KEYS: u64 = 64;
const SMALL_BYTES: usize = 64;
const LARGE_BYTES: usize = 1 << 20;

/// Attaches to the server behind the unix socket at `path`.
///
/// # Errors
/// When the server refuses.
pub fn attach(path: &Path) -> anyhow::Result<Attached> {
    Attached::connect(path, None).with_context(|| format!("attaching to {}", path.display()))
}

/// Stores values of its own with `wire` and reads them through `attached`, then from each of
/// `targets`, many times. Returns the nanoseconds of one read, medians, of 64 B and of 1 MiB; in
/// the memory the first is copied, the second a pinned slice.
///
/// # Errors
/// When a value does not come back.
pub fn measure(
    wire: &mut Wire,
    attached: &Attached,
    targets: &[Target; 3],
) -> anyhow::Result<[[f64; 2]; 4]> {
    let small: Vec<String> = (0..KEYS).map(|number| format!("small:{number:010}")).collect();
    for key in &small {
        wire.call(&[b"SET", key.as_bytes(), &[b's'; SMALL_BYTES]])?;
    }
    wire.call(&[b"SET", b"large", &vec![b'l'; LARGE_BYTES]])?;
    let key = |index: u32| small[index as usize % small.len()].as_bytes();
    let mut times = [[0.0; 2]; 4];
    let mut value = Vec::with_capacity(SMALL_BYTES);
    let copied = median(READS_PER_SAMPLE, |index| {
        let found = attached.get(key(index), &mut value)?;
        ensure!(found && value.len() == SMALL_BYTES, "a value has {} bytes", value.len());
        Ok(())
    })?;
    let mut buffer = Vec::new();
    let pinned = median(READS_PER_SAMPLE, |_| {
        let view = attached.view(b"large", &mut buffer)?.context("the large value is gone")?;
        ensure!(view.len() == LARGE_BYTES && black_box(view[LARGE_BYTES / 2]) == b'l', "wrong");
        Ok(())
    })?;
    times[0] = [copied, pinned];
    for (times, target) in times[1..].iter_mut().zip(targets) {
        let mut wire = Wire::connect(target)?;
        let mut ask = |key: &[u8], bytes| match wire.call(&[b"GET", key])? {
            Value::Bulk(value) if value.len() == bytes => Ok(()),
            other => anyhow::bail!("GET replied {other:?}"),
        };
        *times = [
            median(1, |index| ask(key(index), SMALL_BYTES))?,
            median(1, |_| ask(b"large", LARGE_BYTES))?,
        ];
    }
    for key in small.iter().map(String::as_bytes).chain([&b"large"[..]]) {
        wire.call(&[b"DEL", key])?;
    }
    Ok(times)
}

/// Returns the median time of `read` in nanoseconds, `group` of which are timed together.
fn median(group: u32, mut read: impl FnMut(u32) -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let (mut samples, end) = (Vec::with_capacity(SAMPLES_MAX), Instant::now() + TIME_MAX);
    let mut started = Instant::now();
    while samples.is_empty() || samples.len() < SAMPLES_MAX && started < end {
        for index in 0..group {
            read(samples.len() as u32 * group + index)?;
        }
        let now = Instant::now();
        samples.push((now - started).as_nanos() as f64 / f64::from(group));
        started = now;
    }
    samples.sort_by(f64::total_cmp);
    Ok(samples[samples.len() / 2])
}
