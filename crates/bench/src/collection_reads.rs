//! Compares reads of small collections through shared memory with the same reads over the unix
//! socket, by the same client.

use std::path::Path;
use std::time::Instant;

use anyhow::ensure;
use base::prng::Prng;
use client::{Client, Elements};
use serde_json::{Value as Json, json};

use crate::compare::progress;

/// Keys of each type, which fit in the first caches of a processor.
const KEY_COUNT: u64 = 16;
/// Fields of a hash, and members of a sorted set.
const PART_COUNT: u64 = 20;
/// The fields of one HMGET.
const FIELDS_READ: u64 = 10;

/// What a read puts its answer to.
#[derive(Default)]
struct Buffers {
    value: Vec<u8>,
    elements: Elements,
}

/// Reads one part, which is drawn, of the collection at a key; returns whether it was there.
type Read = fn(&Client, &[u8], &mut Prng, &mut Buffers) -> anyhow::Result<bool>;

const ROWS: [(&str, Read); 5] = [
    ("HGET of 20 fields", |client, key, random, buffers| {
        Ok(client.hget_into(key, &part(random.below(PART_COUNT)), &mut buffers.value)?)
    }),
    ("HMGET of 10 of 20 fields", |client, key, random, buffers| {
        let first = random.below(PART_COUNT - FIELDS_READ);
        let parts: [[u8; 7]; FIELDS_READ as usize] =
            std::array::from_fn(|index| part(first + index as u64));
        let fields: [&[u8]; FIELDS_READ as usize] = std::array::from_fn(|index| &parts[index][..]);
        client.hmget(key, &fields, &mut buffers.elements)?;
        Ok(buffers.elements.iter().flatten().count() == fields.len())
    }),
    ("HGETALL of 20 fields", |client, key, _, buffers| {
        client.hgetall(key, &mut buffers.elements)?;
        Ok(buffers.elements.len() == 2 * PART_COUNT as usize)
    }),
    ("ZSCORE of 20 members", |client, key, random, _| {
        Ok(client.zscore(&sorted_key(key), &part(random.below(PART_COUNT)))?.is_some())
    }),
    ("HLEN", |client, key, _, _| Ok(client.hlen(key)? == PART_COUNT)),
];

/// Stores collections at the server behind the unix socket at `path`, reads them both ways, prints
/// a line for each and returns the rows of the result file.
///
/// # Errors
/// When a read returns something else than what was stored.
pub fn measure(path: &Path, samples: usize) -> anyhow::Result<Vec<Json>> {
    let connect = |scheme: &str| Client::connect(&format!("{scheme}://{}", path.display()));
    let (shared, socket) = (connect("shm")?, connect("unix")?);
    load(&socket)?;
    let mut rows = Vec::new();
    for (name, read) in ROWS {
        let ways = [("", &shared, 64), (" over the unix socket", &socket, 1)];
        for (suffix, client, reads_per_sample) in ways {
            let name = format!("{name}{suffix}");
            progress(&name);
            let (median, p99) = times(client, read, samples, reads_per_sample)?;
            progress("");
            println!("{name:<46} {median:>9.0} ns {p99:>9.0} ns");
            rows.push(json!({
                "row": name,
                "p50_ns": median,
                "p99_ns": p99,
                "reads_per_sample": reads_per_sample,
                "samples": samples,
            }));
        }
    }
    Ok(rows)
}

/// Returns the nanoseconds of one read: the median over samples, and the 99th percentile.
fn times(
    client: &Client,
    read: Read,
    samples: usize,
    reads_per_sample: u32,
) -> anyhow::Result<(f64, f64)> {
    let (mut random, mut buffers) = (Prng::new(1), Buffers::default());
    let mut times = Vec::with_capacity(samples);
    for _ in 0..samples {
        let started = Instant::now();
        for _ in 0..reads_per_sample {
            let key = hash_key(random.below(KEY_COUNT));
            ensure!(read(client, &key, &mut random, &mut buffers)?, "a part is gone");
        }
        times.push(started.elapsed().as_nanos() as f64 / f64::from(reads_per_sample));
    }
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    Ok((at(0.5), at(0.99)))
}

fn load(client: &Client) -> anyhow::Result<()> {
    for index in 0..KEY_COUNT {
        let key = hash_key(index);
        for number in 0..PART_COUNT {
            let (part, score) = (part(number), number.to_string());
            client.call(&[b"HSET", &key, &part, b"value000000"])?;
            client.call(&[b"ZADD", &sorted_key(&key), score.as_bytes(), &part])?;
        }
    }
    Ok(())
}

fn hash_key(index: u64) -> [u8; 8] {
    let mut key = *b"hash:000";
    crate::key_distribution::write_digits(index, &mut key[5..]);
    key
}

/// Returns the key of the sorted set beside the hash at `key`.
fn sorted_key(key: &[u8]) -> [u8; 8] {
    let mut sorted: [u8; 8] = key.try_into().expect("keys have eight bytes");
    sorted[..4].copy_from_slice(b"zset");
    sorted
}

fn part(index: u64) -> [u8; 7] {
    let mut part = *b"field00";
    crate::key_distribution::write_digits(index, &mut part[5..]);
    part
}
