//! Random requests, generated from the command table, to Forebay and to redis-server at once: equal
//! replies, and in the end equal data.
//!
//! A run consists of epochs that begin with empty servers and new connections; an epoch follows
//! from its seed alone. Every other pair of epochs is about collections: they grow and shrink under
//! limits of the epoch's own, sessions wait for elements, and in the end the payloads of DUMP are
//! compared as well. A second run is about few groups of commands alone, those that
//! `FOREBAY_DIFF_GROUPS` names, on few keys: of streams unless it says otherwise. A failure prints
//! the seed and the fewest steps found that show it: `FOREBAY_DIFF_SEED=<seed>` runs that one epoch
//! again. `FOREBAY_DIFF_COMMANDS` is the number of requests, `FOREBAY_DIFF_GROUP_COMMANDS` that of
//! the second run, `FOREBAY_DIFF_FIRST_SEED` the seed of the first epoch. Several pairs of servers
//! work at once, one for each processor up to [`WORLDS_MAX`], each on an epoch of its own.
//!
//! *Layout*: `draw.rs` generates words, `sequence.rs` orders them into an epoch, `world.rs` runs an
//! epoch on both servers, `compare.rs` judges pairs of replies and lists the known differences,
//! `shrink.rs` searches for the fewest steps.

mod compare;
mod draw;
mod sequence;
mod shrink;
mod world;

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use harness::{Kind, Launch, number};

use sequence::{Epoch, Groups};
use world::World;

const COMMANDS_DEFAULT: u64 = 40_000;
const GROUP_COMMANDS_DEFAULT: u64 = 16_000;
const COMMANDS_PER_EPOCH: u64 = 2_000;
/// The groups of the run over few of them.
const GROUPS_DEFAULT: &str = "stream";
/// Pairs of servers that work at once.
const WORLDS_MAX: usize = 4;

#[test]
fn replies_and_data_equal_those_of_redis_server() {
    run(None, number("FOREBAY_DIFF_COMMANDS").unwrap_or(COMMANDS_DEFAULT));
}

#[test]
fn replies_and_data_of_some_groups_equal_those_of_redis_server() {
    let groups = std::env::var("FOREBAY_DIFF_GROUPS");
    let groups = Groups::named(groups.as_deref().unwrap_or(GROUPS_DEFAULT));
    run(Some(groups), number("FOREBAY_DIFF_GROUP_COMMANDS").unwrap_or(GROUP_COMMANDS_DEFAULT));
}

/// Compares `commands` requests, or a few more, of all commands or of those of `groups`.
fn run(groups: Option<Groups>, commands: u64) {
    if let Some(seed) = number("FOREBAY_DIFF_SEED") {
        run_epoch(&World::new(subject()), seed, groups);
        return;
    }
    let first_seed = number("FOREBAY_DIFF_FIRST_SEED").unwrap_or_else(seed_of_this_run);
    println!("seeds from {first_seed}");
    let worlds = thread::available_parallelism().map_or(1, usize::from).min(WORLDS_MAX);
    let (epochs, sent) = (AtomicU64::new(0), AtomicU64::new(0));
    let work = || {
        let world = World::new(subject());
        let _end = End { sent: &sent, commands };
        while sent.load(Ordering::Relaxed) < commands {
            let seed = first_seed.wrapping_add(epochs.fetch_add(1, Ordering::Relaxed));
            sent.fetch_add(run_epoch(&world, seed, groups), Ordering::Relaxed);
        }
    };
    thread::scope(|scope| {
        (0..worlds).for_each(|_| drop(scope.spawn(work)));
    });
    println!("{} commands in {} epochs", sent.into_inner(), epochs.into_inner());
}

#[test]
fn every_number_at_its_limits_is_answered_as_redis_server_does() {
    let world = World::new(subject());
    for epoch in Epoch::at_limits(1) {
        if let Err(failure) = world.run(&epoch) {
            panic!("{failure}\n\n{}", shrink::shrink(&world, &epoch));
        }
    }
}

/// Returns how the server under test is launched: with as many unread replies as redis-server lets
/// a client have, as strings of 512 MiB are drawn, and more than one may be asked for at a time. It
/// dumps values for that server's version.
fn subject() -> Launch {
    let launch = Launch::new(Kind::Forebay).option("client-output-buffer-limit", "normal 0 0 0");
    launch.option("rdb-export-version", "10")
}

/// Lets the other threads come to their end when one has failed.
struct End<'a> {
    sent: &'a AtomicU64,
    commands: u64,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.sent.fetch_max(self.commands, Ordering::Relaxed);
    }
}

/// Returns how many commands were compared.
fn run_epoch(world: &World, seed: u64, groups: Option<Groups>) -> u64 {
    let epoch = Epoch::draw(seed, COMMANDS_PER_EPOCH as usize, groups);
    if let Err(failure) = world.run(&epoch) {
        let shrunk = shrink::shrink(world, &epoch);
        panic!("FOREBAY_DIFF_SEED={seed}\n{failure}\n\n{shrunk}");
    }
    epoch.steps.len() as u64
}

/// Returns a seed that other runs do not have: every run looks at new sequences.
fn seed_of_this_run() -> u64 {
    let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    time.expect("it is later than 1970").as_nanos() as u64 >> 10 << 10
}
