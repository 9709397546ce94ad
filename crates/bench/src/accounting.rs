//! Processor time and resident memory of a process, as the kernel accounts them, and what a server
//! reports of itself.

use std::fs;
use std::time::Duration;

use anyhow::{Context, bail};
use resp::Value;

use crate::wire::Wire;

/// Resident memory of a process in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resident {
    /// VmRSS: all of it.
    pub total: u64,
    /// RssShmem: pages of shared memory, such as a memfd's, that the process has touched.
    pub shared: u64,
}

/// Returns the processor time, user and system, of all threads that process `id` has or had: those
/// that it starts for a moment count too.
///
/// # Errors
/// When there is no such process.
pub fn cpu_time(id: u32) -> anyhow::Result<Duration> {
    sys::clock::cpu_of(id).with_context(|| format!("the processor time of process {id}"))
}

/// Returns the resident memory of process `id`.
///
/// # Errors
/// When there is no such process.
pub fn resident(id: u32) -> anyhow::Result<Resident> {
    let path = format!("/proc/{id}/status");
    let text = fs::read_to_string(&path).with_context(|| path.clone())?;
    let kib = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(first_number).with_context(|| format!("{path} has no {name}"))
    };
    Ok(Resident { total: kib("VmRSS")? * 1024, shared: kib("RssShmem")? * 1024 })
}

/// Returns the most resident memory that process `id` ever had (VmHWM), in bytes.
///
/// # Errors
/// When there is no such process.
pub fn peak_resident(id: u32) -> anyhow::Result<u64> {
    let path = format!("/proc/{id}/status");
    let text = fs::read_to_string(&path).with_context(|| path.clone())?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(first_number).with_context(|| format!("{path} has no VmHWM"))?;
    Ok(kib * 1024)
}

/// Returns the used_memory that the server at `wire` tells of.
///
/// # Errors
/// When it tells nothing.
pub fn used_memory(wire: &mut Wire) -> anyhow::Result<u64> {
    info(wire, "memory", ["used_memory"]).map(|[used]| used)
}

/// Returns the numbers called `names` of a section of INFO, as of one moment.
///
/// # Errors
/// When the server at `wire` does not tell them.
pub fn info<const COUNT: usize>(
    wire: &mut Wire,
    section: &str,
    names: [&str; COUNT],
) -> anyhow::Result<[u64; COUNT]> {
    let text = match wire.call(&[b"INFO", section.as_bytes()])? {
        Value::Bulk(text) => String::from_utf8_lossy(&text).into_owned(),
        other => bail!("INFO answered {other:?}"),
    };
    let mut numbers = [0; COUNT];
    for (name, number) in names.iter().zip(&mut numbers) {
        let field = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let found = field.and_then(first_number);
        *number = found.with_context(|| format!("INFO {section} has no {name}"))?;
    }
    Ok(numbers)
}

fn first_number(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_time_and_memory_are_seen() {
        let id = std::process::id();
        let before = cpu_time(id).unwrap();
        let mut sum = 0u64;
        let started = std::time::Instant::now();
        while started.elapsed() < Duration::from_millis(50) {
            sum = std::hint::black_box(sum.wrapping_mul(31) + 1);
        }
        assert!(cpu_time(id).unwrap() > before);
        let resident = resident(id).unwrap();
        assert!(resident.total > 100_000 && resident.shared <= resident.total);
    }

    #[test]
    fn a_process_that_is_not_there_is_an_error() {
        assert!(cpu_time(u32::MAX).is_err());
        assert!(resident(u32::MAX).is_err());
    }
}
