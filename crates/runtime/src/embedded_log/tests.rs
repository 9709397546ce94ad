//! The log of an embedded instance on a disk in memory that fails, is full, and whose power is cut.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base::UnixMs;
use base::prng::Prng;
use wal::Storage;
use wal::simulated::{Faults, SimulatedDisk};

use super::*;
use crate::embedded::EmbeddedOptions;
use crate::environment::Environment;
use crate::options::{Memory, Options};
use crate::simulated::ManualClock;

const UNWRITTEN: &str = "-MISCONF Errors writing to the AOF file";

/// Opens an instance whose log is on `disk`.
fn open(disk: &SimulatedDisk, sync: SyncPolicy) -> (Embedded, Arc<ManualClock>) {
    open_in(disk, sync, PathBuf::from("simulated"))
}

/// As [`open`], with snapshots in `folder`.
fn open_in(
    disk: &SimulatedDisk,
    sync: SyncPolicy,
    folder: PathBuf,
) -> (Embedded, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new(UnixMs(1_000_000)));
    let environment = Environment::simulated(Arc::clone(&clock), 1);
    let memory = Memory::Heap { segment_bytes: 1 << 20, segment_count: 16 };
    let instance = Options { memory, ..Options::default() };
    let options = EmbeddedOptions { instance, allows_debug: true, ..EmbeddedOptions::default() };
    let log = LogOptions { sync, segment_bytes: 16 << 10, ..LogOptions::new("simulated") };
    let embedded = Embedded::open_with(&options, environment, |runtime| {
        let storage: Arc<dyn Storage> = Arc::new(disk.clone());
        let lock = storage.lock().expect("nobody has it");
        let folder = LogFolder::new(folder, storage, lock);
        EmbeddedLog::open_in(folder, &log, runtime).map(Some).map_err(OpenError::Log)
    });
    (embedded.expect("the log can be read"), clock)
}

fn ask(embedded: &Embedded, request: &str) -> String {
    let words: Vec<&str> = request.split(' ').collect();
    String::from_utf8(embedded.session().run(&words)).expect("replies here are text")
}

fn digest(embedded: &Embedded) -> String {
    ask(embedded, "DEBUG DIGEST")
}

fn random_request(random: &mut Prng) -> String {
    let (key, number) = (random.below(20), random.below(1000));
    match random.below(6) {
        0 => format!("RPUSH l{key} {number}"),
        1 => format!("HSET h{key} f{number} {number}"),
        2 => format!("DEL k{key} l{key}"),
        3 => format!("SET k{key} {}", "v".repeat(number as usize)),
        4 => format!("INCR n{key}"),
        _ => format!("GET k{key}"),
    }
}

#[test]
fn what_a_reply_told_is_there_after_any_power_cut() {
    for seed in 0..60 {
        let mut random = Prng::new(seed);
        let disk = SimulatedDisk::new();
        let mut expected = None;
        for _ in 0..6 {
            let (embedded, _) = open(&disk, SyncPolicy::Always);
            if let Some(expected) = &expected {
                assert_eq!(&digest(&embedded), expected, "seed {seed}");
            }
            for _ in 0..random.below(80) {
                ask(&embedded, &random_request(&mut random));
            }
            expected = Some(digest(&embedded));
            // The instance is dropped behind it, when its files are of no more use.
            disk.cut_power(&mut random);
        }
    }
}

#[test]
fn every_second_a_sweep_makes_durable_what_was_written() {
    let disk = SimulatedDisk::new();
    let (embedded, clock) = open(&disk, SyncPolicy::EverySecond);
    ask(&embedded, "SET a 1");
    embedded.sweep();
    let report = embedded.log_report().unwrap();
    assert!(report.durable < report.written, "{report:?}");
    clock.advance(Duration::from_secs(1));
    embedded.sweep();
    let report = embedded.log_report().unwrap();
    assert!(report.durable == report.written && report.written > Lsn(0), "{report:?}");
    // Much is written without waiting for a sweep.
    let value = "v".repeat(4_000);
    for _ in 0..=PROMPT_BYTES / 4_000 {
        ask(&embedded, &format!("SET b {value}"));
    }
    assert!(embedded.log_report().unwrap().written > report.written);
}

#[test]
fn what_was_written_before_the_disk_was_full_becomes_durable() {
    let disk = SimulatedDisk::new();
    let (embedded, clock) = open(&disk, SyncPolicy::EverySecond);
    ask(&embedded, "SET a 1");
    embedded.sweep();
    let written = embedded.log_report().unwrap().written;
    disk.set_faults(Faults { capacity: Some(0), ..Faults::default() });
    ask(&embedded, "SET a 2");
    clock.advance(Duration::from_secs(1));
    embedded.sweep();
    let report = embedded.log_report().unwrap();
    assert!(report.failure.is_some() && report.durable == written, "{report:?}");
    assert!(ask(&embedded, "SET a 3").starts_with("-MISCONF"), "writes are refused");
    assert_eq!(ask(&embedded, "GET a"), "$1\r\n2\r\n", "nobody was promised anything");
    let writes = disk.counts().writes;
    ask(&embedded, "GET a");
    assert_eq!(disk.counts().writes, writes, "only sweeps try the disk again");
}

#[test]
fn a_snapshot_makes_room_where_the_disk_is_full() {
    let folder = make_folder("full");
    let disk = SimulatedDisk::new();
    let (embedded, _) = open_in(&disk, SyncPolicy::Always, folder.clone());
    // Two segments and more, the first of which a snapshot makes needless.
    for _ in 0..12 {
        assert_eq!(ask(&embedded, &format!("SET a {}", "v".repeat(4_000))), "+OK\r\n");
    }
    let used: u64 = disk.contents().iter().map(|(_, bytes)| bytes.len() as u64).sum();
    disk.set_faults(Faults { capacity: Some(used), ..Faults::default() });
    let mut refused = String::new();
    for _ in 0..12 {
        refused = ask(&embedded, &format!("SET a {}", "w".repeat(4_000)));
    }
    assert!(refused.starts_with("-MISCONF"), "{refused}");
    embedded.rewrite_log().unwrap();
    embedded.sweep();
    assert_eq!(embedded.log_report().unwrap().failure, None);
    assert_eq!(ask(&embedded, "SET a 3"), "+OK\r\n");
    drop(embedded);
    std::fs::remove_dir_all(folder).unwrap();
}

/// Makes a folder of its own for the snapshots of the test `name`.
fn make_folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("forebay-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn a_forked_child_leaves_its_parents_log_alone() {
    let folder = make_folder("forked");
    let disk = SimulatedDisk::new();
    let (embedded, _) = open_in(&disk, SyncPolicy::EverySecond, folder.clone());
    ask(&embedded, "SET a 1");
    let snapshot = embedded.log.as_ref().unwrap().snapshot_path.clone();
    let written = disk.counts().writes;
    let child = || {
        embedded.sweep();
        embedded.rewrite_log().is_err()
            && embedded.sync_log().is_err()
            && disk.counts().writes == written
    };
    assert!(sys::fork::run_in_child(child).unwrap());
    assert!(!snapshot.exists(), "the child has put its own in that place");
    embedded.rewrite_log().unwrap();
    assert!(snapshot.exists());
    drop(embedded);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn who_waits_for_the_disk_waits_together_with_others() {
    let disk = SimulatedDisk::new();
    let (embedded, _) = open(&disk, SyncPolicy::Always);
    ask(&embedded, "SET first 1");
    let log = embedded.log.as_ref().unwrap();
    let (syncs, held) = (disk.counts().syncs, locked(&log.log));
    std::thread::scope(|scope| {
        let ask_one = |thread| {
            let embedded = &embedded;
            scope.spawn(move || assert_eq!(ask(embedded, &format!("INCR n{thread}")), ":1\r\n"))
        };
        let asking: Vec<_> = (0..4).map(ask_one).collect();
        // All have run their requests, and none has its reply.
        while embedded.runtime().keyspace().key_count(base::DatabaseIndex(0)) < 5 {
            assert!(!asking.iter().any(|thread| thread.is_finished()), "one did not wait");
            std::thread::yield_now();
        }
        drop(held);
    });
    assert_eq!(disk.counts().syncs, syncs + 1);
}

#[test]
fn a_full_disk_refuses_writes_until_there_is_room() {
    let disk = SimulatedDisk::new();
    let (embedded, _) = open(&disk, SyncPolicy::Always);
    assert_eq!(ask(&embedded, "SET a 1"), "+OK\r\n");
    disk.set_faults(Faults { capacity: Some(0), ..Faults::default() });
    let refused = ask(&embedded, "SET a 2");
    assert!(refused.starts_with(&format!("{UNWRITTEN}: No space left on device. ")), "{refused}");
    // What it would tell is not durable.
    let writes = disk.counts().writes;
    assert!(ask(&embedded, "GET a").starts_with(UNWRITTEN));
    assert_eq!(disk.counts().writes, writes, "only sweeps try the disk again");
    assert!(embedded.log_report().unwrap().failure.is_some());
    // Who waits has one reply, once it is there.
    let mut session = embedded.session();
    assert_eq!(session.run(&["XREAD", "BLOCK", "0", "STREAMS", "q", "$"]), b"");
    assert!(session.is_blocked());
    drop(session);
    disk.set_faults(Faults::default());
    embedded.sweep();
    assert_eq!(embedded.log_report().unwrap().failure, None);
    assert_eq!(ask(&embedded, "GET a"), "$1\r\n2\r\n");
    assert_eq!(ask(&embedded, "INCR a"), ":3\r\n");
}

/// Returns an instance under `always` on `disk` of whose log nothing is written: one change would
/// be a frame, up to the LSN that is returned too, and a second one is behind that.
fn open_with_two_frames(disk: &SimulatedDisk) -> (Embedded, Lsn) {
    let (mut embedded, _) = open(disk, SyncPolicy::Never);
    let stick = |embedded: &Embedded, is_stuck| {
        embedded.log.as_ref().unwrap().is_stuck.store(is_stuck, Ordering::Relaxed);
    };
    stick(&embedded, true);
    // Longer than a piece of the backlog: what comes then is in a piece of its own, and a frame has
    // full ones alone where there are any.
    assert_eq!(ask(&embedded, &format!("SET a {}", "v".repeat(300_000))), "+OK\r\n");
    let first = embedded.runtime().latest_lsn();
    assert_eq!(ask(&embedded, &format!("SET b {}", "v".repeat(8_000))), "+OK\r\n");
    stick(&embedded, false);
    embedded.log.as_mut().unwrap().sync = SyncPolicy::Always;
    assert_eq!(embedded.log_report().unwrap().written, Lsn(0));
    (embedded, first)
}

#[test]
fn who_writes_leaves_what_was_changed_later() {
    let (embedded, first) = open_with_two_frames(&SimulatedDisk::new());
    let mut log = locked(&embedded.log.as_ref().unwrap().log);
    log.write_until(first).unwrap();
    assert_eq!(log.writer().unwrap().lsn(), first.0);
    let latest = log.consumer().latest();
    log.write_until(latest).unwrap();
    assert_eq!(log.writer().unwrap().lsn(), latest.0);
}

#[test]
fn what_became_durable_before_the_disk_was_full_has_its_reply() {
    let disk = SimulatedDisk::new();
    let (embedded, first) = open_with_two_frames(&disk);
    let used: u64 = disk.contents().iter().map(|(_, bytes)| bytes.len() as u64).sum();
    disk.set_faults(Faults { capacity: Some(used + 304_000), ..Faults::default() });
    let log = embedded.log.as_ref().unwrap();
    assert_eq!(log.settle_to(first.0, embedded.runtime()), Ok(()));
    assert_eq!(log.report().durable, first);
    // The second change has found no room.
    let failure = log.report().failure.unwrap();
    assert_eq!(log.settle(embedded.runtime()), Err(failure));
    disk.set_faults(Faults::default());
    embedded.sync_log().unwrap();
    assert_eq!(log.settle(embedded.runtime()), Ok(()));
}

#[test]
fn sweeps_write_snapshots_after_one_that_panicked() {
    let folder = make_folder("panicked");
    let disk = SimulatedDisk::new();
    let (mut embedded, _) = open_in(&disk, SyncPolicy::Always, folder.clone());
    embedded.log.as_mut().unwrap().rewrite_bytes = 1;
    ask(&embedded, "SET a 1");
    let log = embedded.log.as_ref().unwrap();
    let panicked = std::thread::scope(|scope| {
        let panics = || {
            let _one = locked(&log.rewriting);
            panic!("as a snapshot may");
        };
        scope.spawn(panics).join()
    });
    assert!(panicked.is_err());
    embedded.sweep();
    assert!(log.report().snapshot_bytes > 0, "{:?}", log.report());
    drop(embedded);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn after_a_failed_sync_nothing_is_promised_any_more() {
    let disk = SimulatedDisk::new();
    let (embedded, _) = open(&disk, SyncPolicy::Always);
    assert_eq!(ask(&embedded, "SET a 1"), "+OK\r\n");
    disk.set_faults(Faults { syncs_left: Some(0), ..Faults::default() });
    assert!(ask(&embedded, "SET a 2").starts_with(UNWRITTEN));
    disk.set_faults(Faults::default());
    assert!(ask(&embedded, "SET a 3").starts_with(UNWRITTEN));
    assert!(ask(&embedded, "GET a").starts_with(UNWRITTEN));
    assert!(embedded.close().is_err());
}
