//! Many clients at once, or one after the other.

use std::net::{TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::thread;

use base::prng::Prng;
use harness::{Connection, Kind, Launch, Server, kernel, poll_until};
use resp::Value;

use super::assert_healthy;

/// Of which a fifth over TCP: the system has 28,000 ports for connections to one address, and
/// keeps each for a minute.
const QUICK_CONNECTS: u64 = 50_000;
const QUICK_THREADS: u64 = 4;

#[test]
fn quick_connects_leave_nothing_behind() {
    let server = Server::start(Kind::Forebay);
    assert_healthy(&server);
    let process_id = server.process_id();
    poll_until("the first clients to be gone", || server.info(CONNECTED) == 1);
    let descriptors = kernel::descriptor_count(process_id);
    let received = server.info("total_connections_received");
    thread::scope(|scope| {
        for thread in 0..QUICK_THREADS {
            let server = &server;
            scope.spawn(move || connect_quickly(server, thread));
        }
    });
    poll_until("all clients to be gone", || server.info(CONNECTED) == 1);
    poll_until("all descriptors to be closed", || {
        kernel::descriptor_count(process_id) <= descriptors
    });
    let received = server.info("total_connections_received") - received;
    assert!(received >= QUICK_CONNECTS, "{received} connections were counted");
    assert_healthy(&server);
}

const CONNECTED: &str = "connected_clients";

fn connect_quickly(server: &Server, thread: u64) {
    for round in 0..QUICK_CONNECTS / QUICK_THREADS {
        match (round % 5, (round + thread) % 2) {
            (0, 0) => drop(TcpStream::connect(server.address()).expect("the server accepts")),
            (0, _) => ping(Connection::tcp(server.address()).expect("the server accepts")),
            (_, 0) => drop(UnixStream::connect(server.socket()).expect("the server accepts")),
            _ => ping(Connection::unix(server.socket()).expect("the server accepts")),
        }
    }
}

fn ping(mut connection: Connection) {
    assert_eq!(connection.call("PING"), Value::Simple(b"PONG".to_vec()));
}

#[test]
fn garbage_on_many_connections_disturbs_nobody() {
    const CLIENTS: u64 = 400;
    let server = Server::start(Kind::Forebay);
    let mut friend = server.tcp();
    friend.call("SET mine precious");
    let descriptors = kernel::descriptor_count(server.process_id());
    let mut prng = Prng::new(7);
    for _ in 0..CLIENTS / 20 {
        let mut clients: Vec<Connection> = (0..20).map(|_| server.tcp()).collect();
        for client in &mut clients {
            let mut bytes = vec![0; 1 + prng.below(20_000) as usize];
            prng.fill(&mut bytes);
            let _ = client.send(&bytes); // It fails once the server has seen enough.
        }
        assert_eq!(friend.call("GET mine"), Value::Bulk(b"precious".to_vec()));
    }
    poll_until("the clients to be gone", || {
        kernel::descriptor_count(server.process_id()) <= descriptors
    });
    assert_healthy(&server);
}

#[test]
fn clients_that_vanish_in_the_middle_are_forgotten() {
    let server = Server::start(Kind::Forebay);
    let mut friend = server.tcp();
    friend.call("SET big x");
    friend.ask(&harness::request(&[b"SETRANGE".as_slice(), b"big", b"8000000", b"x"]));
    let descriptors = kernel::descriptor_count(server.process_id());
    for round in 0..60 {
        let mut client = if round % 2 == 0 { server.tcp() } else { server.unix() };
        let bytes: &[u8] = match round % 3 {
            0 => b"*2\r\n$3\r\nGET\r\n$3\r\nbi", // In the middle of a request.
            1 => b"GET big\r\nGET big\r\n",      // With replies unread.
            _ => b"WATCH big\r\nMULTI\r\nSET big 1\r\n", // In a transaction.
        };
        client.send(bytes).expect("the server takes a few bytes");
    }
    poll_until("the clients to be gone", || {
        kernel::descriptor_count(server.process_id()) <= descriptors
    });
    assert_eq!(friend.call("STRLEN big"), Value::Integer(8_000_001));
}

#[test]
fn half_open_clients_do_not_hold_others_up() {
    let server = Server::start(Kind::Forebay);
    let mut half_open: Vec<Connection> = (0..500).map(|_| server.tcp()).collect();
    for client in half_open.iter_mut().step_by(2) {
        client.send(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$100\r\nabc").expect("a few bytes are taken");
    }
    assert_healthy(&server);
    for client in half_open.iter_mut().step_by(2) {
        client.send(&[&[b'x'; 97][..], b"\r\n"].concat()).expect("the rest is taken");
        assert_eq!(client.read().expect("the server answers").bytes, b"+OK\r\n");
    }
}

#[test]
fn without_descriptors_clients_stay_served_and_new_ones_come_later() {
    let server = Launch::new(Kind::Forebay).option("maxclients", "1000").start();
    let mut friends: Vec<Connection> = (0..10).map(|_| server.tcp()).collect();
    for friend in &mut friends {
        assert_eq!(friend.call("PING"), Value::Simple(b"PONG".to_vec()));
    }
    let limit = kernel::descriptor_count(server.process_id()) + 3;
    limit_descriptors(&server, limit);
    // The system completes these connections; the server cannot accept them all.
    let waiting: Vec<TcpStream> = (0..30)
        .map(|_| TcpStream::connect(server.address()).expect("the backlog has room"))
        .collect();
    poll_until("the server to run out of descriptors", || {
        kernel::descriptor_count(server.process_id()) >= limit
    });
    for _ in 0..100 {
        for friend in &mut friends {
            assert_eq!(friend.call("INCR n").as_bytes(), None, "friends are served");
        }
    }
    drop(waiting);
    poll_until("room for descriptors", || kernel::descriptor_count(server.process_id()) < limit);
    assert_eq!(server.tcp().call("PING"), Value::Simple(b"PONG".to_vec()));
    assert_healthy(&server);
}

#[test]
fn without_descriptors_the_server_does_not_spin() {
    let server = Launch::new(Kind::Forebay).option("maxclients", "1000").start();
    let limit = kernel::descriptor_count(server.process_id()) + 1;
    limit_descriptors(&server, limit);
    let waiting: Vec<TcpStream> = (0..20)
        .map(|_| TcpStream::connect(server.address()).expect("the backlog has room"))
        .collect();
    poll_until("the server to run out of descriptors", || {
        kernel::descriptor_count(server.process_id()) >= limit
    });
    let before = kernel::processor_ns(server.process_id());
    harness::let_pass(std::time::Duration::from_secs(2));
    let ran_ms = (kernel::processor_ns(server.process_id()) - before) / 1_000_000;
    // A loop that retries without pause runs for 2,000 ms.
    assert!(ran_ms < 400, "the server ran for {ran_ms} ms in 2 s");
    drop(waiting);
}

fn limit_descriptors(server: &Server, limit: usize) {
    let mut prlimit = harness::command("prlimit");
    prlimit.arg(format!("--pid={}", server.process_id())).arg(format!("--nofile={limit}:"));
    let finished = harness::run(prlimit, b"");
    assert!(finished.status.success(), "{}", finished.errors);
}

#[test]
fn a_server_that_starts_with_few_descriptors_admits_fewer_clients() {
    let launch = Launch::new(Kind::Forebay).option("maxclients", "1000");
    let server = launch.by(&["prlimit", "--nofile=300:300", "--"]).start();
    let mut friend = server.tcp();
    friend.call("PING");
    let others: Vec<TcpStream> = (0..400)
        .map(|_| TcpStream::connect(server.address()).expect("the backlog has room"))
        .collect();
    for _ in 0..100 {
        assert_eq!(friend.call("PING"), Value::Simple(b"PONG".to_vec()));
    }
    drop(others);
    poll_until("the clients to be gone", || {
        let list = friend.call("CLIENT LIST");
        let list = list.as_bytes().expect("CLIENT LIST is a text").to_vec();
        list.iter().filter(|byte| **byte == b'\n').count() == 1
    });
    assert_healthy(&server);
}

/// Returns an address of this machine that other machines use, if it has one. Connecting a UDP
/// socket sends nothing.
pub fn outside_address() -> Option<std::net::IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}
