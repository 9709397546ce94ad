//! The log of a server on a disk in memory that fails, and that of an instance whose power is cut.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::Write;
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use base::UnixMs;
use base::prng::Prng;
use command::{Answer, Feed, FeedQuestion, FeedRead, FeedStart};
use effects::{Change, Effect, EventClass, Expiry, Record};
use resp::{Protocol, Reply};
use runtime::{Embedded, EmbeddedOptions, Environment, LogFolder, Memory, Options};
use wal::simulated::{Faults, SimulatedDisk};
use wal::{SPARE_NAME, Storage, WriteError, Writer, WriterOptions};

use super::*;
use crate::config::{Config, read_text};
use crate::loading::Loading;
use crate::tests::{TestServer, ask, read_to_end, set, wait_until};

const MISCONF_FULL: &[u8] = b"-MISCONF Errors writing to the AOF file: No space left on device\r\n";
const MISCONF_FAILED: &[u8] = b"-MISCONF Errors writing to the AOF file: Input/output error\r\n";

fn folder(disk: &SimulatedDisk) -> LogFolder {
    let lock = disk.lock().unwrap();
    LogFolder::new("simulated".into(), Arc::new(disk.clone()), lock)
}

pub(super) fn loading() -> Loading {
    Loading::new(None, UnixMs(0))
}

/// Makes a log of one record in each of `seconds`; returns where it begins and the LSN of each.
pub(super) fn log_of_seconds(
    storage: &Arc<dyn Storage>,
    seconds: Range<i64>,
    segment_bytes: u64,
) -> Vec<u64> {
    let options = WriterOptions { segment_bytes, ..WriterOptions::default() };
    let mut writer = Writer::begin(Arc::clone(storage), 0, Begin::Nothing, options).unwrap();
    let mut lsns = vec![0];
    for second in seconds {
        let effect = Effect::Set { key: b"k", value: b"v", expiry: Expiry::Clear };
        let change = Change::new(DatabaseIndex(0), EventClass::String, effect);
        let mut bytes = Vec::new();
        Record::one(UnixMs(second * 1000), &change).encode(Lsn(writer.lsn()), &mut bytes);
        writer.append(&bytes).unwrap();
        lsns.push(writer.lsn());
    }
    writer.sync().unwrap();
    lsns
}

/// Starts a server whose log is on `disk`.
pub(super) fn start(disk: &SimulatedDisk, options: &str) -> TestServer {
    TestServer::start_with(options, |shared| {
        let log = recover(folder(disk), &shared.settings(), &shared.runtime, &loading()).unwrap();
        shared.durability.begin(log, &shared.runtime);
    })
}

#[test]
fn what_was_acknowledged_is_there_after_the_power_was_cut() {
    let disk = SimulatedDisk::new();
    let server = start(&disk, "appendfsync always");
    let mut client = server.client();
    ask(&mut client, b"SET a 1\r\nRPUSH l x y\r\nSPOP none\r\n", b"+OK\r\n:2\r\n$-1\r\n");
    ask(
        &mut client,
        b"MULTI\r\nINCR a\r\nINCR b\r\nEXEC\r\n",
        b"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:2\r\n:1\r\n",
    );
    let contents = disk.contents();
    drop(server);
    // As it was when the last reply had come, and any part of what was not synced then.
    let disk = SimulatedDisk::with_contents(&contents);
    disk.cut_power(&mut Prng::new(1));
    let server = start(&disk, "appendfsync always");
    ask(&mut server.client(), b"GET a\r\nGET b\r\nLLEN l\r\n", b"$1\r\n2\r\n$1\r\n1\r\n:2\r\n");
}

#[test]
fn failed_sync_closes_who_waits_and_refuses_all_writes_from_then_on() {
    // Alone a client has its worker write the log, beside one that waits for nothing the thread.
    for has_other in [false, true] {
        let disk = SimulatedDisk::new();
        let server = start(&disk, "appendfsync always\nworkers 1");
        let mut client = server.client();
        let mut other = has_other.then(|| server.client());
        if let Some(other) = &mut other {
            ask(other, b"PING\r\n", b"+PONG\r\n");
        }
        ask(&mut client, b"SET a 1\r\n", b"+OK\r\n");
        disk.set_faults(Faults { syncs_left: Some(0), ..Faults::default() });
        client.write_all(b"SET a 2\r\n").unwrap();
        assert_eq!(read_to_end(&mut client), b"", "whether it is on the disk nobody knows");
        let syncs = disk.counts().syncs;
        let mut client = server.client();
        ask(&mut client, b"SET a 3\r\n", MISCONF_FAILED);
        ask(&mut client, b"GET a\r\n", b"$1\r\n2\r\n");
        let report = server.shared.durability.report();
        assert!(report.is_on && !report.is_well);
        assert_eq!(disk.counts().syncs, syncs, "a sync that failed is not tried again");
    }
}

#[test]
fn disk_is_woken_where_many_wait_for_a_sync() {
    const ROUNDS_MAX: usize = 10_000;
    let disk = SimulatedDisk::new();
    let server = start(&disk, "appendfsync always\nworkers 1");
    let mut clients: Vec<_> = (0..16).map(|_| server.client()).collect();
    let round = |clients: &mut [UnixStream]| {
        {
            // The worker waits with the first request, so that all are there when it goes on.
            let _guard = server.shared.keyspace().lock_all();
            clients.iter_mut().for_each(|client| client.write_all(b"SET a 1\r\n").unwrap());
        }
        clients.iter_mut().for_each(|client| ask(client, b"", b"+OK\r\n"));
        disk.counts()
    };
    // The first segment is none that frames pass the cache to.
    let mut rounds = (0..ROUNDS_MAX).map(|_| round(&mut clients));
    assert!(rounds.any(|counts| counts.wakes > 0), "many wait");
    let before = disk.counts();
    let after = (0..100).map(|_| round(&mut clients)).last().unwrap();
    let [wakes, syncs] = [after.wakes - before.wakes, after.syncs - before.syncs];
    assert!((1..=syncs).contains(&wakes), "{wakes} times for {syncs} syncs");
    clients.truncate(2);
    wait_until(&server, || server.shared.clients.len() == 3);
    // The last syncs for many.
    (0..3).map(|_| round(&mut clients)).last();
    let before = disk.counts().wakes;
    let after = (0..100).map(|_| round(&mut clients)).last().unwrap().wakes;
    assert_eq!(after, before, "few wait");
}

/// Leaves no room on `disk` for what `client` writes, whose reply waits then, and returns once the
/// server has noticed.
pub(super) fn fill(disk: &SimulatedDisk, server: &TestServer, client: &mut impl Write) {
    disk.set_faults(Faults { capacity: Some(0), ..Faults::default() });
    client.write_all(b"SET a 2\r\n").unwrap();
    wait_until(server, || server.shared.keyspace().admission().refused().is_some());
}

#[test]
fn full_disk_refuses_writes_before_they_change_anything_and_is_waited_out() {
    let disk = SimulatedDisk::new();
    let server = start(&disk, "appendfsync always\nworkers 1");
    let [mut held, mut client] = [(); 2].map(|()| server.client());
    ask(&mut client, b"SET a 1\r\n", b"+OK\r\n");
    fill(&disk, &server, &mut held);
    ask(&mut client, b"SET b 3\r\n", MISCONF_FULL);
    ask(&mut client, b"GET b\r\nGET a\r\n", b"$-1\r\n$1\r\n2\r\n");
    disk.set_faults(Faults::default());
    ask(&mut held, b"", b"+OK\r\n");
    ask(&mut client, b"SET b 3\r\n", b"+OK\r\n");
}

#[test]
fn single_client_waits_for_room_on_the_disk() {
    let disk = SimulatedDisk::new();
    let server = start(&disk, "appendfsync always\nworkers 1");
    let mut client = server.client();
    disk.set_faults(Faults { capacity: Some(0), ..Faults::default() });
    client.write_all(b"SET a 2\r\nGET a\r\n").unwrap();
    while server.shared.keyspace().admission().refused().is_none() {
        std::thread::yield_now();
    }
    disk.set_faults(Faults::default());
    ask(&mut client, b"", b"+OK\r\n$1\r\n2\r\n");
}

#[test]
fn server_that_cannot_write_its_log_to_the_end_says_so_as_it_ends() {
    let disk = SimulatedDisk::new();
    let mut server = start(&disk, "appendfsync everysec\nworkers 1");
    ask(&mut server.client(), b"SET a 1\r\n", b"+OK\r\n");
    wait_until(&server, || server.shared.durability.report().written > 0);
    disk.set_faults(Faults { capacity: Some(0), ..Faults::default() });
    ask(&mut server.client(), b"SET a 2\r\n", b"+OK\r\n");
    server.loses_changes = true;
}

/// A reader need not wait for what others wrote: docs/decisions/0018-log.md.
#[test]
fn reads_of_what_is_not_durable_yet_do_not_wait() {
    let disk = SimulatedDisk::new();
    let server = start(&disk, "appendfsync always");
    let [mut writer, mut reader] = [(); 2].map(|()| server.client());
    ask(&mut writer, b"SET a 1\r\n", b"+OK\r\n");
    disk.set_faults(Faults { capacity: Some(0), ..Faults::default() });
    writer.write_all(b"SET a 2\r\n").unwrap();
    wait_until(&server, || server.shared.keyspace().counters().changes == 2);
    ask(&mut reader, b"GET a\r\n", b"$1\r\n2\r\n");
    disk.set_faults(Faults::default());
    ask(&mut writer, b"", b"+OK\r\n");
}

#[test]
fn waitaof_makes_durable_what_no_policy_would() {
    let disk = SimulatedDisk::new();
    let server = start(&disk, "appendfsync no\nworkers 1");
    let [mut client, mut other] = [(); 2].map(|()| server.client());
    ask(&mut client, b"WAITAOF 1 0 0\r\n", b"*2\r\n:1\r\n:0\r\n");
    ask(&mut client, b"SET a 1\r\nWAITAOF 1 0 0\r\n", b"+OK\r\n*2\r\n:1\r\n:0\r\n");
    assert_eq!(
        server.shared.durability.report().durable,
        server.shared.durability.report().written
    );
    // Who has written nothing waits for nothing, and within MULTI nobody waits.
    disk.set_faults(Faults { capacity: Some(0), ..Faults::default() });
    ask(&mut client, b"SET a 2\r\nWAITAOF 1 0 1\r\n", b"+OK\r\n*2\r\n:0\r\n:0\r\n");
    ask(&mut other, b"WAITAOF 1 0 0\r\n", b"*2\r\n:1\r\n:0\r\n");
    // The wait for one LSN does not end another wait of the same client.
    client.write_all(b"XREAD BLOCK 0 STREAMS stream 0\r\n").unwrap();
    wait_until(&server, || server.shared.clients.waits.all() == 1);
    disk.set_faults(Faults::default());
    server.shared.durability.want_sync();
    let report = || server.shared.durability.report();
    wait_until(&server, || report().durable == server.shared.runtime.backlog().extent().end.0);
    assert_eq!(server.shared.clients.waits.all(), 1);
    ask(&mut other, b"EXISTS a\r\n", b":1\r\n");
}

#[test]
fn under_everysec_replies_wait_only_where_the_disk_is_far_behind() {
    let disk = SimulatedDisk::new();
    let server = start(&disk, "appendfsync everysec\nworkers 1");
    let mut client = server.client();
    ask(&mut client, b"SET a 1\r\n", b"+OK\r\n");
    wait_until(&server, || server.shared.durability.report().written > 0);
    let written = server.shared.durability.report().written;
    let gate = server.shared.runtime.engine().gate();
    let is_due = |lsn| gate.is_due(engine::Release { lsn: Lsn(lsn) });
    // The gate moves a moment later.
    let last_due = written + UNWRITTEN_BYTES_MAX;
    wait_until(&server, || is_due(last_due) && !is_due(last_due + 1));
    ask(&mut client, b"CONFIG SET appendfsync always\r\n", b"+OK\r\n");
    assert!(!is_due(written + 1), "from now on");
    ask(&mut client, b"SET a 2\r\n", b"+OK\r\n");
}

#[test]
fn replies_behind_a_change_to_always_wait_though_much_is_not_written_yet() {
    let disk = SimulatedDisk::new();
    let server = start(&disk, "appendfsync everysec\nworkers 1");
    let mut client = server.client();
    ask(&mut client, b"SET a 1\r\n", b"+OK\r\n");
    // A step that has begun under the former policy, and goes on when the policy has changed.
    let mut log = server.shared.durability.log();
    ask(&mut client, b"SET a 2\r\n", b"+OK\r\n");
    ask(&mut client, b"CONFIG SET appendfsync always\r\n", b"+OK\r\n");
    let gate = server.shared.runtime.engine().gate();
    let is_due = |lsn| gate.is_due(engine::Release { lsn });
    let latest = server.shared.runtime.backlog().extent().end;
    let is_closed = !is_due(latest);
    log.as_mut().unwrap().step(SyncPolicy::EverySecond, &server.shared);
    let stays_closed = !is_due(Lsn(latest.0 + 1));
    drop(log);
    assert!(is_closed, "it is not written");
    assert!(stays_closed, "what comes next is not durable");
    ask(&mut client, b"SET a 3\r\n", b"+OK\r\n");
}

#[test]
fn under_everysec_large_frames_pass_the_cache_from_memory_that_counts() {
    let disk = SimulatedDisk::new();
    let server = start(&disk, "appendfsync everysec\nworkers 1");
    let mut client = server.client();
    let value_bytes = PROMPT_BYTES as usize / 4;
    let mut write = || {
        ask(&mut client, &set("a", value_bytes), b"+OK\r\n");
        let end = server.shared.runtime.backlog().extent().end.0;
        wait_until(&server, || server.shared.durability.report().written == end);
    };
    // The first segment was not prepared, and is left for one that is.
    while disk.counts().block_writes == 0 {
        write();
    }
    let used = || server.shared.keyspace().used_memory();
    let with_buffer = used();
    ask(&mut server.client(), b"CONFIG SET appendfsync no\r\n", b"+OK\r\n");
    write();
    let block_writes = disk.counts().block_writes;
    write();
    assert_eq!(disk.counts().block_writes, block_writes, "nobody is to wait for the disk");
    // Beside it the buffers of clients come and go.
    let others = 64 << 10;
    let buffer = 2 * value_bytes as u64;
    assert!(used() + buffer < with_buffer + others, "{} after {with_buffer}", used());
}

fn has_spare(disk: &SimulatedDisk) -> bool {
    disk.contents().iter().any(|(name, _)| name == SPARE_NAME)
}

/// Writes to the log of `server`, whose segments are of 1 MiB, until a new one begins.
fn fill_segment(server: &TestServer, disk: &SimulatedDisk) {
    let segments = wal::segment_lsns(disk).unwrap();
    for _ in 0..40 {
        ask(&mut server.client(), &set("a", 40_000), b"+OK\r\n");
        if wal::segment_lsns(disk).unwrap() != segments {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("no segment has begun");
}

/// As [`fill_segment`], until a new one begins that was prepared, and the next one is in work.
fn fill_until_spare_is_in_work(server: &TestServer, disk: &SimulatedDisk) {
    // One that is not ready when the next segment begins is there beside it.
    let was_ready = (0..20).any(|_| {
        fill_segment(server, disk);
        !has_spare(disk)
    });
    assert!(was_ready, "none became the next segment");
    while !has_spare(disk) {
        ask(&mut server.client(), &set("a", 40_000), b"+OK\r\n");
    }
}

#[test]
fn next_segment_is_zeroed_while_this_one_fills_up() {
    let disk = SimulatedDisk::new();
    let server = start(&disk, "appendfsync always\nworkers 1\nappend-segment-size 1mb");
    fill_until_spare_is_in_work(&server, &disk);
    drop(server);
    assert!(!has_spare(&disk), "it was given up");
}

#[test]
fn a_segment_in_work_gives_its_room_to_the_log() {
    let disk = SimulatedDisk::new();
    let server = start(&disk, "appendfsync always\nworkers 1\nappend-segment-size 1mb");
    fill_until_spare_is_in_work(&server, &disk);
    let taken: usize = disk.contents().iter().map(|(_, content)| content.len()).sum();
    let capacity = Some(taken as u64 + 100_000);
    disk.set_faults(Faults { capacity, ..Faults::default() });
    // More than is left of the segment.
    ask(&mut server.client(), &set("a", 900_000), b"+OK\r\n");
    assert!(!has_spare(&disk));
}

#[test]
fn a_segment_that_is_ready_gives_its_room_to_a_frame_that_is_begun() {
    let disk = SimulatedDisk::new();
    let server = start(&disk, "appendfsync always\nworkers 1\nappend-segment-size 1mb");
    ask(&mut server.client(), &set("a", 100_000), b"+OK\r\n");
    // The first segment was not prepared: what passes the cache are zeroes.
    wait_until(&server, || disk.counts().block_writes == 8);
    let taken: usize = disk.contents().iter().map(|(_, content)| content.len()).sum();
    let capacity = Some(taken as u64 + 100_000);
    disk.set_faults(Faults { capacity, ..Faults::default() });
    // The log has not looked at the next segment yet, and makes another.
    ask(&mut server.client(), &set("a", 1_000_000), b"+OK\r\n");
    assert!(!has_spare(&disk));
}

#[test]
fn log_is_turned_off_and_on() {
    let name = format!("forebay-toggled-{}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let options = format!("dir {}\nappendonly yes\nappendfsync always", folder.display());
    let server = TestServer::start(&options);
    let mut client = server.client();
    ask(&mut client, b"SET a 1\r\nCONFIG SET appendonly no\r\n", b"+OK\r\n+OK\r\n");
    let refusal: &[u8] = b"-ERR WAITAOF cannot be used when numlocal is set but appendonly is \
                           disabled.\r\n";
    ask(&mut client, b"SET a 2\r\nWAITAOF 1 0 0\r\n", &[b"+OK\r\n", refusal].concat());
    ask(&mut client, b"CONFIG SET appendonly yes\r\nSET b 1\r\n", b"+OK\r\n+OK\r\n");
    drop(server);
    let server = TestServer::start(&options);
    ask(&mut server.client(), b"GET a\r\nGET b\r\n", b"$1\r\n2\r\n$1\r\n1\r\n");
    drop(server);
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A power cut would leave a log that ends before its snapshot, and of which nothing is used.
#[test]
fn snapshot_takes_its_place_once_the_log_is_durable_as_far() {
    let name = format!("forebay-rewritten-{}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let options = format!("dir {}\nappendonly yes\nappendfsync no", folder.display());
    let server = TestServer::start(&options);
    let rewriting: &[u8] = b"+Background append only file rewriting started\r\n";
    let expected = [b"+OK\r\n", rewriting].concat();
    ask(&mut server.client(), b"SET a 1\r\nBGREWRITEAOF\r\n", &expected);
    wait_until(&server, || server.shared.persistence_report().rewrite.count == 1);
    let durability = &server.shared.durability;
    let report = durability.report();
    assert!(report.written > 0 && report.bytes_behind_snapshot == 0, "{report:?}");
    assert_eq!(report.durable, report.written, "no policy has made it durable");
    // What has not happened never is.
    let behind = Lsn(report.written + 1);
    assert!(!durability.wait_until_durable(behind, || true));
    drop(server);
    std::fs::remove_dir_all(&folder).unwrap();
}

/// The snapshot is what drops the part of the log that fills the disk.
#[test]
fn snapshot_does_not_wait_for_a_log_that_has_no_room() {
    let disk = SimulatedDisk::new();
    let mut server = start(&disk, "appendfsync always\nworkers 1");
    server.loses_changes = true;
    let mut client = server.client();
    ask(&mut client, b"SET a 1\r\n", b"+OK\r\n");
    fill(&disk, &server, &mut client);
    let durability = &server.shared.durability;
    let behind = Lsn(durability.report().durable + 1);
    let is_cancelled = Cell::new(false);
    let waited = durability.wait_until_durable(behind, || is_cancelled.replace(true));
    assert!(waited && !is_cancelled.get(), "it goes on without a look whether it is to end");
}

#[test]
fn reader_is_told_where_the_log_cannot_be_listed() {
    let disk = SimulatedDisk::new();
    let server = start(&disk, "appendfsync always");
    let mut client = server.client();
    ask(&mut client, b"SET a 1\r\n", b"+OK\r\n");
    disk.set_faults(Faults { lacks_descriptors: true, ..Faults::default() });
    let refusal = b"-ERR the log cannot be read: Too many open files (os error 24)\r\n";
    for question in ["READ FROM -", "READ FROM 0", "CREATE a FROM -", "INFO", "GROUPS", "LOGS"] {
        ask(&mut client, format!("FEED {question}\r\n").as_bytes(), refusal);
    }
    disk.set_faults(Faults::default());
    ask(&mut client, b"FEED CREATE a FROM -\r\n", b"+OK\r\n");
}

#[test]
fn group_is_not_made_at_a_place_that_is_being_removed() {
    let disk = SimulatedDisk::new();
    let server = start(&disk, "appendfsync always\nappend-segment-size 64kb");
    let mut client = server.client();
    let set = format!("SET a {}\r\n", "v".repeat(40_000));
    (0..3).for_each(|_| ask(&mut client, set.as_bytes(), b"+OK\r\n"));
    let removal = server.shared.durability.history.removal();
    client.write_all(b"FEED CREATE a FROM 0\r\n").unwrap();
    wait_until(&server, || server.shared.durability.history.desk.asker_count() == 1);
    (0..100).for_each(|_| ask(&mut server.client(), b"PING\r\n", b"+PONG\r\n"));
    wal::forget_before(&disk, u64::MAX).unwrap();
    drop(removal);
    ask(&mut client, b"", b"-ERR LSN 0 is not in the log any more");
}

/// What readers ask for at once is made as they take it.
#[test]
fn answers_that_nobody_takes_have_a_bound_together() {
    const ASKERS: usize = 90;
    let server = TestServer::start("effect-backlog-size 8mb");
    let set = format!("SET a {}\r\n", "v".repeat(100_000));
    (0..20).for_each(|_| ask(&mut server.client(), set.as_bytes(), b"+OK\r\n"));
    let question = FeedRead {
        from: FeedStart::First,
        count: 1000,
        database: None,
        prefixes: Vec::new(),
        kind: None,
        waits: false,
    };
    let ask_all = |_| {
        let question = FeedQuestion::Read(question.clone());
        server.shared.ask(u64::MAX, Protocol::Resp2, question).unwrap()
    };
    let mut answers: Vec<Box<dyn Answer>> = (0..ASKERS).map(ask_all).collect();
    let untaken = || server.shared.durability.history.desk.untaken_bytes();
    let are_there = |answers: &[Box<dyn Answer>]| answers.iter().all(|answer| answer.is_there());
    while !answers.is_empty() {
        wait_until(&server, || are_there(&answers) || untaken() >= 64 << 20);
        let passes = if answers.len() == ASKERS { 500 } else { 1 };
        (0..passes).for_each(|_| ask(&mut server.client(), b"PING\r\n", b"+PONG\r\n"));
        assert!(untaken() < 70 << 20, "{} bytes", untaken());
        let index = answers.iter().position(|answer| answer.is_there()).unwrap();
        let mut bytes = Vec::new();
        answers.swap_remove(index).write(&mut Reply::new(&mut bytes, Protocol::Resp2));
        assert!(bytes.len() > 1 << 20);
    }
    assert_eq!(untaken(), 0);
}

/// How many histories of an instance the test below has.
const HISTORIES: u64 = 60;

/// An instance on a simulated disk: what its log says is durable is there after a power cut, and
/// the data are those of the moment at which the log ends.
#[test]
fn data_after_a_power_cut_are_those_of_the_lsn_that_the_log_ends_at() {
    let wanted = std::env::var("FOREBAY_CUT_HISTORIES").ok();
    let wanted = wanted.map_or(HISTORIES, |count| count.parse().expect("it is a number"));
    let mut cuts = 0;
    for seed in 0..wanted {
        let mut random = Prng::new(seed);
        let disk = SimulatedDisk::new();
        let mut digests = BTreeMap::from([(0, digest(&instance()))]);
        let mut durable = 0;
        for _ in 0..1 + random.below(4) {
            cuts += 1;
            durable = live(&disk, &mut digests, durable, &mut random, seed);
            disk.cut_power(&mut random);
        }
    }
    println!("{cuts} power cuts");
}

/// Recovers, checks what is there, writes for a while; returns what was durable at the end.
fn live(
    disk: &SimulatedDisk,
    digests: &mut BTreeMap<u64, Vec<u8>>,
    durable: u64,
    random: &mut Prng,
    seed: u64,
) -> u64 {
    let mut config = Config::default();
    config.load(read_text(b"append-segment-size 64kb", None, 1)).unwrap();
    let embedded = instance();
    let runtime = embedded.runtime();
    let log = recover(folder(disk), &config.settings(), runtime, &loading());
    let mut log = log.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    let lsn = log.writer.lsn();
    assert!(lsn >= durable, "seed {seed}: {lsn} is left of {durable}");
    assert!(digests.get(&lsn) == Some(&digest(&embedded)), "seed {seed}: other data at {lsn}");
    digests.retain(|other, _| *other <= lsn);
    let mut consumer = runtime.backlog().required_consumer(UNTAKEN_BYTES_MAX);
    let mut session = embedded.session();
    for _ in 0..random.below(60) {
        session.run(&request(random));
        digests.insert(runtime.backlog().extent().end.0, digest(&embedded));
        if random.below(3) > 0 {
            continue;
        }
        let mut records = Vec::new();
        consumer.read(1 << 20, &mut records).unwrap();
        if !records.is_empty() && log.writer.append(&records).is_err() {
            break;
        }
        if random.below(30) == 0 {
            disk.set_faults(Faults { syncs_left: Some(random.below(2)), ..Faults::default() });
        }
        if random.below(2) == 0
            && let Err(WriteError::Failed(_)) = log.writer.sync()
        {
            break;
        }
    }
    log.writer.durable_lsn()
}

pub(super) fn instance() -> Embedded {
    let memory = Memory::Heap { segment_bytes: 1 << 20, segment_count: 16 };
    let instance = Options { memory, worker_count: 1, ..Options::default() };
    let options = EmbeddedOptions { instance, allows_debug: true, ..EmbeddedOptions::default() };
    Embedded::open(&options, Environment::system()).unwrap()
}

pub(super) fn digest(embedded: &Embedded) -> Vec<u8> {
    let mut session = embedded.session();
    session.run(&[b"DEBUG".as_slice(), b"DIGEST"])
}

pub(super) fn request(random: &mut Prng) -> Vec<Vec<u8>> {
    let key = |random: &mut Prng| format!("k{}", random.below(8));
    let words = match random.below(12) {
        0 => format!("DEL {}", key(random)),
        1 => format!("APPEND {} {}", key(random), random.below(1000)),
        2 => format!("RPUSH l{} a b {}", key(random), random.below(100)),
        3 => format!("LPOP l{}", key(random)),
        4 => format!("SADD s{} {} {}", key(random), random.below(50), random.below(50)),
        5 => format!("SPOP s{}", key(random)),
        6 => format!("HSET h{} f{} {}", key(random), random.below(9), random.below(100)),
        7 => format!("ZADD z{} {} m{}", key(random), random.below(100), random.below(9)),
        8 => format!("EXPIRE {} 100000", key(random)),
        9 => format!("XADD x{} * f {}", key(random), random.below(9)),
        10 => format!("MSET {} 1 {} 2", key(random), key(random)),
        _ => format!("SET {} {}", key(random), "v".repeat(random.below(600) as usize + 1)),
    };
    words.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}
