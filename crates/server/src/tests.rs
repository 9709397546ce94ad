//! The server's threads in this process, and clients that treat them badly.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use sys::poll::{Events, Interest, Poller};

use command::{ConfigError, ShutdownRequest};

use crate::accept::Acceptor;
use crate::config::{Config, read_text};
use crate::durability::{HistoryThread, LogThread};
use crate::log::LogControl;
use crate::server_state::{Origin, ServerState};
use crate::service::ServiceThread;
use crate::user_quotas::Resource;
use crate::worker::Worker;
use crate::{descriptor_limits, listen};

/// How long a test waits before it takes silence for a failure.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A running server with a unix socket in a folder of its own.
pub(crate) struct TestServer {
    pub(crate) shared: Arc<ServerState>,
    threads: Vec<JoinHandle<()>>,
    logs: Vec<JoinHandle<Result<(), String>>>,
    folder: PathBuf,
    /// It cannot write its log to the end, which it must say.
    pub(crate) loses_changes: bool,
}

impl TestServer {
    pub(crate) fn start(options: &str) -> TestServer {
        TestServer::start_with(options, |_| ())
    }

    /// As [`TestServer::start`], and calls `prepare` before any thread runs.
    pub(crate) fn start_with(options: &str, prepare: impl FnOnce(&ServerState)) -> TestServer {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("forebay-server-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let socket = folder.join("s").display().to_string();
        let text = format!("port 0\nunixsocket {socket}\nsegment-size 1mb\n{options}\n");
        let mut config = Config::default();
        config.load(read_text(text.as_bytes(), None, 1)).unwrap();
        let shared =
            Arc::new(ServerState::new(config, Origin::default(), LogControl::detached()).unwrap());
        shared.load(false).unwrap();
        prepare(&shared);
        let listeners = listen::open(&shared.settings(), &shared.closer).unwrap();
        shared.listeners.take(&listeners);
        let mut acceptor = Some(Acceptor::new(listeners).unwrap());
        let mut threads: Vec<JoinHandle<()>> = (0..shared.identity.worker_count)
            .map(|index| {
                let (shared, acceptor) = (Arc::clone(&shared), acceptor.take());
                std::thread::spawn(move || {
                    Worker::new(index, &shared, acceptor).unwrap().run().unwrap();
                })
            })
            .collect();
        let service = ServiceThread::new(Arc::clone(&shared), base::prng::Prng::new(1));
        threads.push(std::thread::spawn(move || service.run()));
        let log_thread = LogThread::new(Arc::clone(&shared));
        let history_thread = HistoryThread::new(Arc::clone(&shared));
        let logs = vec![
            std::thread::spawn(move || log_thread.run()),
            std::thread::spawn(move || {
                history_thread.run();
                Ok(())
            }),
        ];
        TestServer { shared, threads, logs, folder, loses_changes: false }
    }

    pub(crate) fn client(&self) -> UnixStream {
        let stream = UnixStream::connect(self.folder.join("s")).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        let _ = self.shared.begin_shutdown(ShutdownRequest::default());
        for thread in self.threads.drain(..) {
            thread.join().unwrap();
        }
        self.shared.durability.end();
        let ended: Vec<_> = self.logs.drain(..).map(|thread| thread.join().unwrap()).collect();
        assert_eq!(ended.iter().any(Result::is_err), self.loses_changes, "{ended:?}");
        assert!(!self.folder.join("s").exists(), "the socket's file goes with the server");
        std::fs::remove_dir_all(&self.folder).unwrap();
    }
}

pub(crate) fn ask(client: &mut UnixStream, request: &[u8], reply: &[u8]) {
    client.write_all(request).unwrap();
    let mut found = vec![0; reply.len()];
    client.read_exact(&mut found).unwrap();
    assert_eq!(found.escape_ascii().to_string(), reply.escape_ascii().to_string());
}

pub(crate) fn set(key: &str, value_bytes: usize) -> Vec<u8> {
    let value = "v".repeat(value_bytes);
    format!("*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n${value_bytes}\r\n{value}\r\n", key.len()).into()
}

/// Waits until `holds`, with another client of `server` to pass the time.
pub(crate) fn wait_until(server: &TestServer, holds: impl Fn() -> bool) {
    let mut observer = server.client();
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "it should have come true");
        ask(&mut observer, b"PING\r\n", b"+PONG\r\n");
    }
}

/// Reads until the server closes, also where it does so with input unread.
pub(crate) fn read_to_end(client: &mut UnixStream) -> Vec<u8> {
    let mut said = Vec::new();
    let mut piece = [0; 64 * 1024];
    loop {
        match client.read(&mut piece) {
            Ok(0) => return said,
            Ok(count) => said.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return said,
            Err(error) => panic!("after {} bytes: {error}", said.len()),
        }
    }
}

/// CONFIG RESETSTAT on one worker while another one answers INFO: nobody sees a number from before
/// the start.
#[test]
fn counters_are_reset_while_they_are_read() {
    const ROUNDS: usize = 2_000;
    let server = TestServer::start("workers 1");
    let shared = &server.shared;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = server.client();
            for _ in 0..ROUNDS {
                client.write_all(b"PING\r\n").unwrap();
                client.read_exact(&mut [0; 7]).unwrap();
            }
        });
        scope.spawn(|| (0..ROUNDS).for_each(|_| shared.reset_counters()));
        for _ in 0..ROUNDS {
            let totals = shared.counted().totals;
            assert!(totals.commands < 1 << 40 && totals.rounds < 1 << 40, "{totals:?}");
        }
    });
}

#[test]
fn requests_may_come_byte_by_byte() {
    let server = TestServer::start("");
    let mut client = server.client();
    for byte in set("key", 5) {
        client.write_all(&[byte]).unwrap();
    }
    ask(&mut client, b"GET key\r\n", b"+OK\r\n$5\r\nvvvvv\r\n");
}

#[test]
fn replies_that_wait_for_their_peer_are_shown() {
    let server = TestServer::start("");
    let (mut slow, mut other) = (server.client(), server.client());
    ask(&mut slow, &set("key", 1 << 20), b"+OK\r\n");
    let line = |other: &mut UnixStream| {
        other.write_all(b"CLIENT LIST ID 1\r\n").unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n") {
            let mut byte = [0];
            other.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        let count: usize = String::from_utf8_lossy(&head[1..]).trim().parse().unwrap();
        let mut text = vec![0; count + 2];
        other.read_exact(&mut text).unwrap();
        String::from_utf8(text).unwrap()
    };
    let number = |line: &str, name: &str| -> u64 {
        let field = line.split(' ').find_map(|field| field.strip_prefix(name)).unwrap();
        field.parse().unwrap()
    };
    let at_rest = line(&mut other);
    assert!(at_rest.contains(" rbs=0 ") && at_rest.contains(" obl=0 "), "{at_rest}");
    assert!(at_rest.contains(" events=r "), "{at_rest}");
    slow.write_all(&b"GET key\r\n".repeat(8)).unwrap();
    let waiting = loop {
        let line = line(&mut other);
        if line.contains(" events=rw ") {
            break line;
        }
    };
    let [waits, size, most] = ["omem=", "rbs=", "rbp="].map(|name| number(&waiting, name));
    assert!(number(&waiting, "obl=") < 1 << 14 && number(&waiting, "oll=") <= 8, "{waiting}");
    // The values themselves are sent from where they lie.
    assert!(waits > 1 << 20 && size < 1 << 20 && most >= waits, "{waiting}");
    assert!(number(&waiting, "tot-mem=") >= size, "{waiting}");
    let mut replies = vec![0; 8 * ((1 << 20) + b"$1048576\r\n\r\n".len())];
    slow.read_exact(&mut replies).unwrap();
    loop {
        let line = line(&mut other);
        if line.contains(" obl=0 oll=0 omem=0 ") {
            assert!(line.contains(" events=r ") && number(&line, "rbp=") >= waits, "{line}");
            break;
        }
    }
}

/// The peer sends far more than the sockets hold before it reads anything.
#[test]
fn pipeline_larger_than_every_buffer_is_answered_whole() {
    const COUNT: usize = 100_000;
    let server = TestServer::start("");
    let mut client = server.client();
    ask(&mut client, &set("key", 100), b"+OK\r\n");
    client.write_all(&b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n".repeat(COUNT)).unwrap();
    let reply = format!("$100\r\n{}\r\n", "v".repeat(100));
    let mut said = vec![0; reply.len() * COUNT];
    client.read_exact(&mut said).unwrap();
    assert!(said.chunks_exact(reply.len()).all(|chunk| chunk == reply.as_bytes()));
}

#[test]
fn greedy_client_does_not_starve_another() {
    let server = TestServer::start("workers 1");
    let mut greedy = server.client();
    ask(&mut greedy, &set("key", 1000), b"+OK\r\n");
    greedy.write_all(&b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n".repeat(100_000)).unwrap();
    let mut modest = server.client();
    for _ in 0..100 {
        ask(&mut modest, b"PING\r\n", b"+PONG\r\n");
    }
}

#[test]
fn large_value_is_stored_and_read_back_by_two_workers() {
    const BYTES: usize = 5_000_000;
    let server = TestServer::start("workers 2");
    let (mut one, mut two) = (server.client(), server.client());
    ask(&mut one, &set("large", BYTES), b"+OK\r\n");
    let expected = [format!("${BYTES}\r\n").as_bytes(), &b"v".repeat(BYTES), b"\r\n"].concat();
    two.write_all(b"GET large\r\n").unwrap();
    let mut found = vec![0; expected.len()];
    two.read_exact(&mut found).unwrap();
    assert!(found == expected);
}

#[test]
fn end_after_the_last_request_comes_after_its_reply() {
    let server = TestServer::start("");
    let mut client = server.client();
    client.write_all(b"PING\r\nPING\r\n").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_to_end(&mut client), b"+PONG\r\n+PONG\r\n");
}

#[test]
fn protocol_error_is_told_after_the_replies_before_it() {
    let server = TestServer::start("");
    let mut client = server.client();
    client.write_all(b"PING\r\n*1\r\n$-5\r\nPING\r\n").unwrap();
    let said = read_to_end(&mut client);
    let expected = "+PONG\\r\\n-ERR Protocol error: invalid bulk length\\r\\n";
    assert_eq!(said.escape_ascii().to_string(), expected);
}

#[test]
fn client_beyond_the_hard_output_limit_is_closed() {
    let server = TestServer::start("client-output-buffer-limit normal 1mb 0 0");
    let mut client = server.client();
    ask(&mut client, &set("key", 100_000), b"+OK\r\n");
    // The send fails where the server closes first.
    let _ = client.write_all(&b"GET key\r\n".repeat(1000));
    assert!(read_to_end(&mut client).len() < 10_000_000);
    assert_eq!(server.shared.totals_since_start().output_limit_closes, 1);
}

#[test]
fn one_request_may_not_ask_for_more_than_the_hard_output_limit() {
    let server = TestServer::start("client-output-buffer-limit normal 1mb 0 0");
    let mut client = server.client();
    ask(&mut client, &set("key", 10_000), b"+OK\r\n");
    let request = format!("MGET{}\r\n", " key".repeat(1_000));
    client.write_all(request.as_bytes()).unwrap();
    assert_eq!(read_to_end(&mut client), b"");
    assert_eq!(server.shared.totals_since_start().output_limit_closes, 1);
}

#[test]
fn client_above_the_soft_output_limit_for_too_long_is_closed() {
    let server = TestServer::start("client-output-buffer-limit normal 0 64kb 1");
    let mut client = server.client();
    ask(&mut client, &set("key", 1_000_000), b"+OK\r\n");
    client.write_all(&b"GET key\r\n".repeat(3)).unwrap();
    let mut observer = server.client();
    while server.shared.totals_since_start().output_limit_closes == 0 {
        ask(&mut observer, b"PING\r\n", b"+PONG\r\n");
    }
    assert!(read_to_end(&mut client).len() < 3_000_000);
}

#[test]
fn client_beyond_the_query_limit_is_closed_unanswered() {
    let server = TestServer::start("client-query-buffer-limit 1mb");
    let mut client = server.client();
    let _ = client.write_all(&set("key", 3_000_000));
    assert_eq!(read_to_end(&mut client), b"");
    assert_eq!(server.shared.totals_since_start().query_limit_closes, 1);
    ask(&mut server.client(), b"EXISTS key\r\n", b":0\r\n");
}

#[test]
fn stranger_may_neither_send_nor_cause_much() {
    let server = TestServer::start("requirepass secret");
    let mut sender = server.client();
    let refusal: &[u8] = b"-ERR Protocol error: unauthenticated bulk length\r\n";
    ask(&mut sender, b"*2\r\n$4\r\nECHO\r\n$20000\r\n", refusal);
    let mut causer = server.client();
    // Each line brings 39 bytes of refusal that the stranger does not read.
    let _ = causer.write_all(&b"G\r\n".repeat(1_000_000));
    let said = read_to_end(&mut causer);
    assert!(said.len() < 1_000_000, "{} bytes", said.len());
    let mut friend = server.client();
    ask(&mut friend, b"AUTH secret\r\nPING\r\n", b"+OK\r\n+PONG\r\n");
}

#[test]
fn idle_connections_own_no_buffers() {
    const COUNT: usize = 200;
    let server = TestServer::start("");
    let before = server.shared.keyspace().private_bytes();
    let mut clients: Vec<UnixStream> = (0..COUNT).map(|_| server.client()).collect();
    for client in &mut clients {
        ask(client, b"PING\r\n", b"+PONG\r\n");
    }
    let grown = server.shared.keyspace().private_bytes() - before;
    // The worker reports in pieces of 16 KiB.
    assert!(grown <= (COUNT * 1152 + 16 * 1024) as u64, "{grown} bytes for {COUNT} clients");
}

#[test]
fn request_underway_is_counted_as_memory() {
    let server = TestServer::start("");
    let used = || server.shared.keyspace().used_memory();
    let before = used();
    // The one has a place in the arena before it is complete, the other is private until then.
    let append = b"*3\r\n$6\r\nAPPEND\r\n$3\r\nkey\r\n$3000000\r\n";
    for request in [set("key", 3_000_000), [&append[..], &[b'v'; 3_000_000]].concat()] {
        let mut client = server.client();
        client.write_all(&request[..2_000_000]).unwrap();
        wait_until(&server, || used() > before + 1_900_000);
        drop(client);
        wait_until(&server, || used() < before + 100_000);
    }
}

#[test]
fn replies_that_nobody_reads_are_counted_as_memory() {
    let server = TestServer::start("");
    let mut client = server.client();
    ask(&mut client, &set("key", 3_000), b"+OK\r\n");
    let before = server.shared.keyspace().private_bytes();
    for megabytes in [3, 6, 9] {
        client.write_all(&b"GET key\r\n".repeat(1_000)).unwrap();
        let expected = before + (megabytes - 1) * 1_000_000;
        wait_until(&server, || server.shared.keyspace().private_bytes() > expected);
    }
}

#[test]
fn time_passes_within_a_pipeline() {
    let server = TestServer::start("enable-debug-command yes");
    let mut client = server.client();
    let sleep = "DEBUG SLEEP 0.05";
    let pipeline = format!("SET k v PX 20\r\n{sleep}\r\nGET k\r\n");
    ask(&mut client, pipeline.as_bytes(), b"+OK\r\n+OK\r\n$-1\r\n");
    let transaction = format!("MULTI\r\n{sleep}\r\nEXEC\r\n");
    let pipeline = format!("SET k v PX 20\r\n{transaction}GET k\r\n");
    let replies = b"+OK\r\n+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n$-1\r\n";
    ask(&mut client, pipeline.as_bytes(), replies);
}

#[test]
fn time_passes_from_one_client_of_a_round_to_the_next() {
    let server = TestServer::start("workers 1\nenable-debug-command yes");
    let [mut first, mut slow, mut last] = [(); 3].map(|()| server.client());
    {
        // The worker waits with the first request, and the others share its next round.
        let _guard = server.shared.keyspace().lock_all();
        first.write_all(b"SET a 1\r\n").unwrap();
        std::thread::sleep(Duration::from_millis(50));
        slow.write_all(b"SET k v PX 20\r\nDEBUG SLEEP 0.05\r\n").unwrap();
        last.write_all(b"GET k\r\n").unwrap();
    }
    ask(&mut last, b"", b"$-1\r\n");
    ask(&mut slow, b"", b"+OK\r\n+OK\r\n");
}

#[test]
fn shutdown_that_waits_for_a_slow_reader_sleeps_meanwhile() {
    let mut server = TestServer::start("workers 1\nshutdown-timeout 1");
    let mut client = server.client();
    ask(&mut client, &set("key", 1_000_000), b"+OK\r\n");
    client.write_all(&b"GET key\r\n".repeat(3)).unwrap();
    wait_until(&server, || server.shared.pending_checks.load(Ordering::Relaxed) > 0);
    // The worker tells itself too, in the round that is its last.
    server.client().write_all(b"SHUTDOWN\r\n").unwrap();
    server.threads.drain(..).for_each(|thread| thread.join().unwrap());
    let poller = Poller::new().unwrap();
    poller.add(server.shared.mailboxes[0].waker(), 0, Interest::ReadableLevel).unwrap();
    let mut events = Events::with_capacity(1);
    poller.wait(&mut events, Some(Duration::ZERO)).unwrap();
    assert_eq!(events.len(), 0, "a mailbox left full ends every wait at once");
}

#[test]
fn descriptors_of_one_reply_at_most_wait_for_a_client() {
    let server = TestServer::start("");
    let mut client = server.client();
    client.write_all(b"SHM ATTACH\r\n").unwrap();
    let mut descriptors = Vec::new();
    sys::descriptors::receive(&client, &mut [0; 4096], &mut descriptors).unwrap();
    sys::memfd_segments::close_for_writers(&descriptors[0]).unwrap();
    let mut say = |lines: &str| {
        client.write_all(format!("{lines}ECHO end\r\n").as_bytes()).unwrap();
        let mut said = Vec::new();
        while !said.ends_with(b"\r\nend\r\n") {
            let mut piece = [0; 4096];
            let count = client.read(&mut piece).unwrap();
            assert!(count > 0, "the session goes on: {}", said.escape_ascii());
            said.extend_from_slice(&piece[..count]);
        }
        let said = String::from_utf8(said).unwrap();
        let refusals = said.lines().filter(|line| line.starts_with("-ERR descriptors")).count();
        (said.matches("segments\r\n").count() - said.matches("\r\n*0\r\n").count(), refusals)
    };
    let begin = Instant::now();
    while say("SHM SEGMENTS 1000\r\n") == (0, 0) {
        assert!(begin.elapsed() < PATIENCE, "the pin table is sealed, and there are segments");
    }
    assert_eq!(say(&"SHM SEGMENTS 0\r\n".repeat(300)), (1, 299));
    assert_eq!(say("SHM SEGMENTS 0\r\n"), (1, 0));
    assert_eq!(say(&"SHM SEGMENTS 1000\r\n".repeat(3)), (3, 0), "replies without descriptors");
}

#[test]
fn socket_is_born_with_its_mode() {
    let server = TestServer::start("");
    let mode = |server: &TestServer| {
        let status = std::fs::metadata(server.folder.join("s")).unwrap();
        status.permissions().mode() & 0o777
    };
    assert_eq!(mode(&server), 0o600);
    assert_eq!(mode(&TestServer::start("unixsocketperm 770")), 0o770);
}

#[test]
fn backlog_follows_the_writes() {
    let server = TestServer::start("effect-backlog-size 1mb");
    let mut client = server.client();
    ask(&mut client, b"SET a 1\r\nGET a\r\nDEL a\r\n", b"+OK\r\n$1\r\n1\r\n:1\r\n");
    let extent = server.shared.runtime.backlog().extent();
    assert!(extent.end > extent.start, "{extent:?}");
}

#[test]
fn memory_of_the_backlog_is_counted_as_it_grows_and_shrinks() {
    let server = TestServer::start("effect-backlog-size 4mb");
    let private_bytes = || server.shared.keyspace().private_bytes();
    let mut client = server.client();
    ask(&mut client, b"SET a 1\r\n", b"+OK\r\n");
    let before = private_bytes();
    ask(&mut client, &set("key", 3_500_000), b"+OK\r\n");
    wait_until(&server, || private_bytes() > before + 1_000_000);
    ask(&mut client, &set("key", 2_100_000).repeat(4), &b"+OK\r\n".repeat(4));
    wait_until(&server, || private_bytes() < before + 500_000);
}

/// Asserts that the server has sent nothing to `client`.
fn assert_silent(client: &UnixStream) {
    client.set_nonblocking(true).unwrap();
    let mut byte = [0];
    let error = (&*client).read(&mut byte).expect_err("nothing was to be sent");
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
    client.set_nonblocking(false).unwrap();
}

fn receive(client: &mut UnixStream, reply: &[u8]) {
    ask(client, b"", reply);
}

#[test]
fn replies_leave_when_their_records_are_released_and_not_before() {
    let server = TestServer::start("effect-backlog-size 1mb");
    let end = || server.shared.runtime.backlog().extent().end;
    server.shared.release_replies(|_| end());
    let [mut first, mut second, mut reader] = [(); 3].map(|()| server.client());
    first.write_all(b"SET a 1\r\n").unwrap();
    wait_until(&server, || end() > base::Lsn(0));
    let after_first = end();
    second.write_all(b"APPEND b 22\r\nGET b\r\n").unwrap();
    wait_until(&server, || end() > after_first);
    // Who writes nothing waits for nobody's record.
    ask(&mut reader, b"GET a\r\nGET b\r\n", b"$1\r\n1\r\n$2\r\n22\r\n");
    first.write_all(b"GET a\r\nSET a 3\r\n").unwrap();
    for client in [&first, &second] {
        assert_silent(client);
    }
    server.shared.release_replies(|_| after_first);
    receive(&mut first, b"+OK\r\n");
    assert_silent(&second);
    // What came meanwhile is executed now, and held in its turn.
    wait_until(&server, || server.shared.keyspace().counters().changes >= 3);
    ask(&mut reader, b"GET a\r\n", b"$1\r\n3\r\n");
    assert_silent(&first);
    server.shared.release_replies(|_| engine::ReleaseGate::ALL);
    receive(&mut first, b"$1\r\n1\r\n+OK\r\n");
    receive(&mut second, b":2\r\n$2\r\n22\r\n");
    ask(&mut first, b"SET a 4\r\n", b"+OK\r\n");
}

#[test]
fn replies_of_served_waits_leave_when_their_records_are_released() {
    let server = TestServer::start("effect-backlog-size 1mb");
    let end = || server.shared.runtime.backlog().extent().end;
    let [mut waiter, mut pusher] = [(); 2].map(|()| server.client());
    waiter.write_all(b"BLPOP list 0\r\n").unwrap();
    wait_until(&server, || server.shared.clients.waits.all() == 1);
    server.shared.release_replies(|_| end());
    pusher.write_all(b"RPUSH list a\r\n").unwrap();
    wait_until(&server, || server.shared.clients.waits.all() == 0);
    for client in [&waiter, &pusher] {
        assert_silent(client);
    }
    server.shared.release_replies(|_| end());
    receive(&mut pusher, b":1\r\n");
    receive(&mut waiter, b"*2\r\n$4\r\nlist\r\n$1\r\na\r\n");
}

#[test]
fn requests_behind_held_replies_are_executed_though_the_peer_sends_no_more() {
    let server = TestServer::start("workers 1\neffect-backlog-size 1mb");
    server.shared.release_replies(|_| server.shared.runtime.backlog().extent().end);
    let mut client = server.client();
    client.write_all(b"SET a 1\r\n").unwrap();
    wait_until(&server, || server.shared.keyspace().counters().changes == 1);
    client.write_all(b"SET b 2\r\n").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    server.shared.release_replies(|_| engine::ReleaseGate::ALL);
    assert_eq!(read_to_end(&mut client), b"+OK\r\n+OK\r\n");
}

#[test]
fn client_that_hangs_up_while_its_replies_are_held_is_closed() {
    let server = TestServer::start("workers 1\neffect-backlog-size 1mb");
    server.shared.release_replies(|_| server.shared.runtime.backlog().extent().end);
    let checks = || server.shared.pending_checks.load(Ordering::Relaxed);
    let mut clients = [(); 2].map(|()| server.client());
    // One has ended its session besides, and waits for its last reply.
    for (client, requests) in clients.iter_mut().zip(["SET a 1\r\n", "SET b 2\r\nQUIT\r\n"]) {
        client.write_all(requests.as_bytes()).unwrap();
    }
    wait_until(&server, || checks() == 2);
    drop(clients);
    wait_until(&server, || checks() == 0 && server.shared.clients.len() == 1);
}

#[test]
fn replies_that_are_held_leave_in_the_end_though_many_clients_hung_up_meanwhile() {
    let server = TestServer::start("workers 1\neffect-backlog-size 1mb");
    server.shared.release_replies(|_| server.shared.runtime.backlog().extent().end);
    let checks = || server.shared.pending_checks.load(Ordering::Relaxed);
    let mut first = server.client();
    first.write_all(b"SET a 1\r\n").unwrap();
    // More than a worker keeps in mind of those that are gone.
    for _ in 0..150 {
        server.client().write_all(b"SET b 2\r\n").unwrap();
    }
    wait_until(&server, || server.shared.keyspace().counters().changes == 151 && checks() == 1);
    let mut last = server.client();
    last.write_all(b"SET c 3\r\n").unwrap();
    wait_until(&server, || checks() == 2);
    server.shared.release_replies(|_| engine::ReleaseGate::ALL);
    for client in [&mut first, &mut last] {
        receive(client, b"+OK\r\n");
    }
    wait_until(&server, || checks() == 0);
}

#[test]
fn held_replies_above_the_soft_output_limit_for_too_long_end_their_client() {
    let options = "client-output-buffer-limit normal 0 64kb 1\neffect-backlog-size 1mb";
    let server = TestServer::start(options);
    let mut client = server.client();
    ask(&mut client, &set("key", 100_000), b"+OK\r\n");
    server.shared.release_replies(|_| server.shared.runtime.backlog().extent().end);
    client.write_all(b"SET a 1\r\nGET key\r\n").unwrap();
    wait_until(&server, || server.shared.totals_since_start().output_limit_closes == 1);
    assert_eq!(read_to_end(&mut client), b"");
}

#[test]
fn client_whose_replies_are_held_is_not_idle() {
    let server = TestServer::start("workers 1\ntimeout 1\neffect-backlog-size 1mb");
    server.shared.release_replies(|_| server.shared.runtime.backlog().extent().end);
    let [mut held, mut idle] = [(); 2].map(|()| server.client());
    held.write_all(b"SET a 1\r\n").unwrap();
    wait_until(&server, || server.shared.keyspace().counters().changes == 1);
    ask(&mut idle, b"PING\r\n", b"+PONG\r\n");
    // The other was active before, and would have been closed in the same round.
    assert_eq!(read_to_end(&mut idle), b"");
    ask(&mut server.client(), b"PING\r\n", b"+PONG\r\n");
    server.shared.release_replies(|_| engine::ReleaseGate::ALL);
    receive(&mut held, b"+OK\r\n");
}

#[test]
fn held_replies_leave_while_the_server_shuts_down() {
    let server = TestServer::start("workers 1\neffect-backlog-size 1mb");
    server.shared.release_replies(|_| server.shared.runtime.backlog().extent().end);
    let mut held = server.client();
    held.write_all(b"SET a 1\r\n").unwrap();
    wait_until(&server, || server.shared.keyspace().counters().changes == 1);
    let mut last = server.client();
    ask(&mut last, b"PING\r\n", b"+PONG\r\n");
    server.shared.begin_shutdown(ShutdownRequest::default()).unwrap();
    // It was the last one to be told, so that the worker waits for the other alone.
    assert_eq!(read_to_end(&mut last), b"");
    assert_silent(&held);
    server.shared.release_replies(|_| engine::ReleaseGate::ALL);
    assert_eq!(read_to_end(&mut held), b"+OK\r\n");
}

#[test]
fn descriptors_for_memory_follow_the_segments_that_there_are() {
    let server = TestServer::start("segment-size 0\nmaxmemory 100mb");
    let shared = &server.shared;
    let segment_bytes = shared.segments.segment_bytes();
    assert_eq!(segment_bytes, 1 << 20);
    shared.change_config(&[(b"maxmemory", b"0")], false).unwrap();
    let settings = shared.settings();
    let descriptor_count = sys::process::descriptor_limit();
    let quotas = descriptor_limits::quotas(descriptor_count, &settings, segment_bytes);
    let (resource, limit) = quotas[3];
    assert_eq!(resource, Resource::Descriptors);
    // One user may have half, the larger one of an odd number.
    let (owner, half) = (shared.quotas.owner(0), limit.total.div_ceil(2));
    assert!(shared.quotas.take(resource, owner, half + 1).is_none());
    assert!(shared.quotas.take(resource, owner, half).is_some());
}

#[test]
fn only_the_listeners_that_change_are_exchanged_and_those_before_stay_where_that_fails() {
    let server = TestServer::start("bind 127.0.0.1");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let set = || server.shared.change_config(&[(b"port", port.as_bytes())], false);
    let refused = set().unwrap_err();
    let reason = "Unable to listen on this port. Check server logs.".to_owned();
    assert_eq!(refused, ConfigError::Refused { name: "port".to_owned(), reason });
    ask(&mut server.client(), b"CONFIG GET port\r\n", b"*2\r\n$4\r\nport\r\n$1\r\n0\r\n");
    drop(taken);
    set().unwrap();
    let mut client = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    client.write_all(b"PING\r\n").unwrap();
    let mut reply = [0; 7];
    client.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"+PONG\r\n");
    ask(&mut server.client(), b"PING\r\n", b"+PONG\r\n");
}
