//! Descriptors that clients pass, or do not take.
//!
//! Tests of an older kernel show what the server does where SO_PASSRIGHTS is unknown (before Linux
//! 6.16): a filter on system calls makes this kernel behave like that.
//!
//! One test measures how long another session waits while the close of many descriptors blocks;
//! `FOREBAY_LINGERING` sets how many. It prints the time, and no time is a failure.

use std::io::Write;
use std::os::unix::fs::chown;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use client::{Attached, Client, Transport};
use harness::{Connection, Kind, Launch, Server, TempFolder, kernel, number, poll_until, signal};
use resp::Value;

use super::assert_healthy;
use super::hostile_lanes::ask_for_descriptors;
use super::script::Script;

const OLDER_KERNEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/hostile/older_kernel.py");

/// Returns a server with one worker, which everybody has to wait for.
fn server(is_older_kernel: bool) -> Server {
    let launch = Launch::new(Kind::Forebay).option("workers", "1");
    match is_older_kernel {
        true => launch.by(&["python3", "-B", OLDER_KERNEL]).start(),
        false => launch.start(),
    }
}

/// Has a client pass a descriptor whose close does not end; others are served all the same.
/// Returns whether the kernel took it.
fn pass(server: &Server, place: &str) -> bool {
    let mut friend = server.unix();
    friend.call("PING");
    let mut client = Script::start(server, "descriptor_client.py", &[place]);
    assert_eq!(client.step(), "ready");
    if place == "waiting" {
        poll_until("the client to wait", || server.info("blocked_clients") == 1);
    }
    signal(server.process_id(), "STOP");
    client.tell("pass");
    let said = client.step();
    signal(server.process_id(), "CONT");
    if place == "waiting" {
        friend.call("CLIENT KILL TYPE normal SKIPME yes");
    }
    // Each turn of the worker comes after what the client has had it do.
    for _ in 0..3 {
        assert_eq!(friend.call("PING"), Value::Simple(b"PONG".to_vec()));
        assert_healthy(server);
    }
    client.tell("read");
    client.kill("it to be gone", || server.info("connected_clients") <= 2);
    said == "passed"
}

#[test]
fn descriptor_passed_with_a_request_holds_no_worker_up() {
    pass(&server(false), "request");
}

#[test]
fn descriptor_passed_into_the_bell_of_a_lane_holds_no_worker_up() {
    for is_older_kernel in [false, true] {
        assert!(!pass(&server(is_older_kernel), "bell"), "nothing is read from a bell");
    }
}

#[test]
fn descriptor_that_nobody_has_received_holds_no_worker_up() {
    pass(&server(false), "waiting");
}

#[test]
fn descriptor_passed_on_an_older_kernel_holds_no_worker_up() {
    for place in ["request", "waiting"] {
        assert!(pass(&server(true), place), "the kernel takes it");
    }
}

const LINGERING_DEFAULT: u64 = 2;
const MEASURED_REQUESTS: u32 = 5_000;

/// Has `count` clients pass descriptors that linger for ten seconds when closed; returns how many
/// the kernel took, and the longest that another session waited for a reply from then on.
fn longest_wait(is_older_kernel: bool, place: &str, count: u64) -> (usize, Duration) {
    let server = server(is_older_kernel);
    let mut friend = server.unix();
    friend.call("PING");
    let arguments = [place, "10"];
    let mut clients: Vec<Script> = (0..count)
        .map(|_| {
            let mut client = Script::start(&server, "descriptor_client.py", &arguments);
            assert_eq!(client.step(), "ready");
            client
        })
        .collect();
    signal(server.process_id(), "STOP");
    clients.iter_mut().for_each(|client| client.tell("pass"));
    let said: Vec<String> = clients.iter_mut().map(Script::step).collect();
    signal(server.process_id(), "CONT");
    let mut longest = Duration::ZERO;
    for _ in 0..MEASURED_REQUESTS {
        let start = Instant::now();
        assert_eq!(friend.call("PING"), Value::Simple(b"PONG".to_vec()));
        longest = longest.max(start.elapsed());
    }
    clients.iter_mut().for_each(|client| client.tell("read"));
    (said.iter().filter(|said| *said == "passed").count(), longest)
}

#[test]
fn lingering_descriptors_have_the_longest_wait_of_others_measured() {
    let count = number("FOREBAY_LINGERING").unwrap_or(LINGERING_DEFAULT);
    // The first is what the machine makes others wait, without any.
    for (is_older_kernel, place, count) in [
        (true, "request", 0),
        (false, "request", count),
        (false, "bell", count),
        (true, "request", count),
    ] {
        let (passed, longest) = longest_wait(is_older_kernel, place, count);
        let kernel = if is_older_kernel { "older kernel" } else { "this kernel" };
        println!(
            "{kernel:12} {place:8} {passed:4} of {count} descriptors taken, the longest of \
             {MEASURED_REQUESTS} replies after {:.1} ms",
            longest.as_secs_f64() * 1e3
        );
        // Whether this kernel takes one with a request depends on its version.
        match (is_older_kernel, place) {
            (_, "bell") => assert_eq!(passed, 0, "nothing is read from a bell"),
            (true, _) => assert_eq!(passed as u64, count, "the kernel takes it"),
            (false, _) => {}
        }
    }
}

/// The user of a server that is not to have root's rights, and two of clients.
const SERVER_USER: u32 = 20_001;
const CLIENT_USERS: [u32; 2] = [20_002, 20_003];

/// Returns whether this process may take on other users.
///
/// # Panics
/// Where it may not, if everything has to be run (`FOREBAY_STRICT`).
fn has_users() -> bool {
    if sys::process::user_id() == 0 {
        return true;
    }
    assert!(std::env::var_os("FOREBAY_STRICT").is_none(), "only root can be several users");
    // Not by a macro, whose output nobody sees of a test that passes.
    let line = format!("DID NOT RUN: {}: only root can be several users\n", module_path!());
    std::io::stderr().write_all(line.as_bytes()).expect("standard error is open");
    false
}

/// A server of a user of its own, whose memory other users may read.
struct SharedServer {
    server: Server,
    _folder: TempFolder,
}

impl SharedServer {
    /// Starts one that may have `descriptor_count` descriptors, with `options`.
    fn start(descriptor_count: u32, options: &[(&str, &str)]) -> SharedServer {
        let folder = TempFolder::new();
        chown(folder.path(), Some(SERVER_USER), None).expect("this is root");
        let (limit, user) =
            (format!("--nofile={descriptor_count}:{descriptor_count}"), SERVER_USER);
        let (user, group) = (format!("--reuid={user}"), format!("--regid={user}"));
        let by = ["prlimit", &limit, "setpriv", &user, &group, "--clear-groups", "--"];
        let readers = format!("0 {} {}", CLIENT_USERS[0], CLIENT_USERS[1]);
        let mut launch = Launch::new(Kind::Forebay)
            .by(&by)
            .socket(&folder.join("s"))
            .option("unixsocketperm", "777")
            .option("shm-read-uids", &readers)
            .option("segment-size", "1mb")
            .option("workers", "1");
        for (name, value) in options {
            launch = launch.option(name, value);
        }
        SharedServer { server: launch.start(), _folder: folder }
    }

    /// Stores values of 900 kB, each in a segment of its own, as the keys of `range`.
    fn store(&self, range: std::ops::Range<u32>) {
        SharedServer::store_over(&mut self.server.unix(), range);
    }

    fn store_over(client: &mut Connection, range: std::ops::Range<u32>) {
        let value = vec![b'x'; 900_000];
        for index in range {
            let key = format!("key:{index}");
            let request = harness::request(&[b"SET".as_slice(), key.as_bytes(), &value]);
            let reply = client.ask(&request).value;
            assert_eq!(reply, Value::Simple(b"OK".to_vec()), "{key}");
        }
    }

    /// Returns a client of user `index` that takes so much of `what`, and what it says of it.
    fn client(&self, index: usize, what: &str, arguments: &[&str]) -> (Script, u32, String) {
        let user = CLIENT_USERS[index].to_string();
        let arguments = [&[user.as_str(), what], arguments].concat();
        let mut client = Script::start(&self.server, "share_client.py", &arguments);
        let said = client.step();
        let (count, why) = said.split_once(' ').expect("a number and a reason");
        (client, count.parse().expect("a number"), why.to_owned())
    }
}

/// Returns whether this process, of another user than the clients, can attach and read.
fn can_attach(server: &Server) -> bool {
    let attached = Attached::connect(server.socket(), None).expect("this user may attach");
    attached.exists(b"key:0").expect("it can be read")
}

#[test]
fn descriptors_that_a_user_does_not_receive_leave_others_theirs() {
    const SESSIONS: u32 = 8;
    if !has_users() {
        return;
    }
    let shared = SharedServer::start(512, &[]);
    shared.store(0..30);
    let (mut hog, count, _) = shared.client(0, "segments", &[&SESSIONS.to_string()]);
    assert!(count >= SESSIONS / 2, "{count} sessions");
    assert!(can_attach(&shared.server));
    hog.tell("read");
    let replies: Vec<String> = (0..count).map(|_| hog.step()).collect();
    let counts = |text: &String| text.split(' ').count();
    assert!(replies.iter().all(|text| counts(text) == 1), "one reply on its way: {replies:?}");
    let total: u32 = replies.iter().flat_map(|text| text.parse::<u32>()).sum();
    assert!(total <= 512 / 4 + 1, "{replies:?}");
    assert!(can_attach(&shared.server));
}

#[test]
fn clients_that_do_not_read_hold_no_descriptors_of_the_segments() {
    const SESSIONS: u32 = 12;
    if !has_users() {
        return;
    }
    let shared = SharedServer::start(400, &[]);
    shared.store(0..30);
    let large = harness::request(&[b"SET".as_slice(), b"large", &vec![b'x'; 8 << 20]]);
    shared.server.unix().ask(&large);
    let before = kernel::descriptor_count(shared.server.process_id());
    let (_hog, count, why) = shared.client(0, "deaf", &[&SESSIONS.to_string()]);
    assert!(count >= SESSIONS / 3, "{count} sessions");
    assert_eq!(why, "-ERR too many descriptors are on their way to processes of this user");
    // Each its connection, its table and its process.
    let held = kernel::descriptor_count(shared.server.process_id()) - before;
    assert!(held <= 3 * count as usize + 8, "{held} descriptors");
    shared.store(30..60);
    assert!(can_attach(&shared.server));
}

#[test]
fn memory_grows_though_clients_have_taken_all_descriptors() {
    if !has_users() {
        return;
    }
    let shared = SharedServer::start(400, &[]);
    let mut friend = shared.server.unix();
    SharedServer::store_over(&mut friend, 0..1);
    let (_hog, count, why) = shared.client(0, "sessions", &["200"]);
    assert!(count > 0 && why.starts_with("-ERR shared memory takes too many descriptors"), "{why}");
    let mut connections = Vec::new();
    while let Ok(mut connection) = Connection::unix(shared.server.socket()) {
        let reply = connection.send(b"PING\r\n").and_then(|()| connection.read());
        // Those beyond `maxclients` are told so, or find the connection closed already.
        if reply.is_ok_and(|reply| reply.error().is_none()) {
            connections.push(connection);
        } else {
            break;
        }
        assert!(connections.len() < 400, "there are only so many");
    }
    SharedServer::store_over(&mut friend, 1..40);
}

#[test]
fn reply_whose_descriptors_the_system_has_no_room_for_comes_later() {
    if !has_users() {
        return;
    }
    let shared = SharedServer::start(400, &[]);
    let mut other = Script::start(
        &shared.server,
        "share_client.py",
        &[&SERVER_USER.to_string(), "flight", "1000"],
    );
    assert_eq!(other.step(), "4 all");
    let mut waiting = UnixStream::connect(shared.server.socket()).expect("it is there");
    std::thread::scope(|scope| {
        let reply = scope.spawn(|| ask_for_descriptors(&mut waiting, "SHM ATTACH"));
        poll_until("the request to be served", || shared.server.info("shm_sessions") == 1);
        assert_healthy(&shared.server);
        other.tell("let go");
        assert_eq!(other.step(), "gone");
        let (reply, descriptors) = reply.join().expect("the connection stays");
        assert!(matches!(reply, Value::Array(_)), "{reply:?}");
        assert_eq!(descriptors.len(), 1);
    });
}

#[test]
fn sessions_of_one_process_and_one_user_are_bounded() {
    if !has_users() {
        return;
    }
    let options = [("shm-sessions-process-max", "40"), ("shm-sessions-user-max", "100")];
    let shared = SharedServer::start(8000, &options);
    shared.store(0..1);
    let take = || shared.client(0, "sessions", &["500"]);
    let of_process = "-ERR this process shares the memory too often";
    let of_user = "-ERR too many processes of this user share the memory";
    let taken = [take(), take(), take(), take()];
    let said = taken.each_ref().map(|(_, count, why)| (*count, why.as_str()));
    assert_eq!(said, [(40, of_process), (40, of_process), (20, of_user), (0, of_user)]);
    assert_eq!(shared.client(1, "sessions", &["30"]).1, 30);
    assert!(can_attach(&shared.server));
    drop(taken);
    poll_until("the sessions to end", || shared.server.info("shm_sessions") == 0);
    assert_eq!(take().1, 40);
}

#[test]
fn lanes_of_one_user_leave_clients_and_lanes_to_others() {
    if !has_users() {
        return;
    }
    let shared = SharedServer::start(8000, &[("maxclients", "100")]);
    shared.store(0..1);
    let too_many = "-ERR too many lanes";
    let takers = [0, 0, 0].map(|user| shared.client(user, "lanes", &["256", "4096"]));
    let said = takers.each_ref().map(|(_, count, why)| (*count, why.as_str()));
    assert_eq!(said, [(25, too_many), (0, too_many), (0, too_many)]);
    let (_other, count, _) = shared.client(1, "lanes", &["10", "4096"]);
    assert_eq!(count, 10);
    let _clients: Vec<_> = (0..40).map(|_| shared.server.unix()).collect();
    assert_healthy(&shared.server);
}

#[test]
fn lanes_take_their_share_of_memory_and_evict_no_more_than_that() {
    const VALUES: u32 = 60;
    if !has_users() {
        return;
    }
    let options = [("maxmemory", "64mb"), ("maxmemory-policy", "allkeys-lru")];
    let shared = SharedServer::start(8000, &options);
    shared.store(0..VALUES);
    let before = shared.server.info("evicted_keys");
    let large = shared.client(0, "lanes", &["256", &(16 << 20).to_string()]);
    assert_eq!((large.1, large.2.as_str()), (0, "-ERR too many lanes"));
    let small = shared.client(0, "lanes", &["256", &(1 << 20).to_string()]);
    // A quarter of the limit is for lanes, half of that for one user; each has 4 KiB beside.
    assert_eq!((small.1, small.2.as_str()), (3, "-ERR too many lanes"));
    let evicted = shared.server.info("evicted_keys") - before;
    assert!(evicted <= 12, "{evicted} values of 900 kB for 8 MiB of lanes");
}

#[test]
fn connection_that_has_received_descriptors_is_idle_as_others_are() {
    let server = Launch::new(Kind::Forebay).option("timeout", "1").start();
    let attached = Attached::connect(server.socket(), None).expect("this user may attach");
    let _lane = server.lane(4096);
    let mut idle = UnixStream::connect(server.socket()).expect("it is there");
    let (reply, _descriptors) = ask_for_descriptors(&mut idle, "SHM LANE 4096 4096");
    let Value::Array(fields) = &reply else { panic!("a map: {reply:?}") };
    let Value::Integer(lane) = fields[1] else { panic!("a number: {reply:?}") };
    ask_for_descriptors(&mut idle, &format!("SHM CLOSE {lane}"));
    let count = std::io::Read::read(&mut idle, &mut [0]).expect("the server closes");
    assert_eq!(count, 0);
    assert!(!attached.exists(b"key").expect("the session goes on"));
    assert_eq!(server.info("shm_sessions"), 1);
    // A lane is a client, and closed as such; then nothing keeps its parent.
    poll_until("the lane and its parent to be closed", || server.info("connected_clients") == 2);
}

#[test]
fn client_that_gets_no_session_works_by_a_lane_or_the_socket() {
    let server = Launch::new(Kind::Forebay)
        .option("shm-sessions-process-max", "1")
        .option("shm-lane-total-max", "300kb")
        .start();
    let url = format!("shm://{}", server.socket().display());
    let mut transports = Vec::new();
    let mut clients = Vec::new();
    for round in 0..4 {
        let client = Client::connect(&url).expect("it works all the same");
        client.put(b"key", format!("{round}").as_bytes()).expect("it writes");
        let value = client.get(b"key").expect("it reads");
        assert_eq!(value.as_deref(), Some(format!("{round}").as_bytes()));
        transports.push(client.transport().expect("the server answers"));
        clients.push(client);
    }
    assert_eq!(transports[0], Transport::SharedMemory);
    assert!(transports[1..].iter().all(|it| *it != Transport::SharedMemory), "{transports:?}");
    assert!(transports.contains(&Transport::Unix), "{transports:?}");
}
