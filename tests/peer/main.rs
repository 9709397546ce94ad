//! A client in a process of its own, for the tests whose subject is that process: in which
//! namespaces it runs, and how it dies.
#![forbid(unsafe_code)]

use std::io::{Write, stdin, stdout};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use client::{Attached, Client, Lane, LaneShape, Reply, View};
use harness::Connection;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["exchange", socket] => exchange(socket),
        ["prepare", socket] => prepare(socket),
        ["wait", socket, transport, request] => wait(socket, transport, request),
        ["victim", socket, steps] => Victim::begin(socket).work(steps.parse().expect("a number")),
        _ => panic!(
            "exchange|prepare <socket> | victim <socket> <steps> | wait <socket> unix|lane <line>"
        ),
    }
}

/// Does what the lines of standard input say, with a line of standard output for each.
///
/// ```text
/// put <key> <seed> <length>    ok
/// view <key>                   pinned|copied <length> <digest of the bytes>
/// hold                         the same, of the view that is still held
/// ```
fn exchange(socket: &str) {
    let client = Client::connect(&format!("shm://{socket}")).expect("the server is there");
    let mut held: Option<View> = None;
    say(&format!("{:?}", client.transport().expect("it is connected")));
    for line in stdin().lines() {
        let line = line.expect("lines are text");
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["put", key, seed, length] => {
                let number = |word: &str| word.parse().expect("a number");
                let value = harness::bytes(number(seed), number(length));
                client.put(key.as_bytes(), &value).expect("the server takes it");
                say("ok");
            }
            ["view", key] => {
                let view = client.get(key.as_bytes()).expect("the key is no list");
                let view = held.insert(view.expect("it is there"));
                say(&describe(view));
            }
            ["hold"] => say(&describe(held.as_ref().expect("there was a view"))),
            _ => panic!("{line}"),
        }
    }
}

fn describe(view: &View) -> String {
    let kind = if view.is_pinned() { "pinned" } else { "copied" };
    format!("{kind} {} {}", view.len(), harness::digest(view))
}

fn say(line: &str) {
    println!("{line}");
    stdout().flush().expect("somebody listens");
}

/// Says the id of its session, and sends the request `line`, for whose reply it waits.
fn wait(socket: &str, transport: &str, line: &str) {
    let connection = match transport {
        "lane" => Connection::lane(Path::new(socket), RING_BYTES),
        _ => Connection::unix(Path::new(socket)),
    };
    let mut connection = connection.expect("the server is there");
    let Reply::Integer(id) = connection.call("CLIENT ID") else { panic!("an id is a number") };
    say(&id.to_string());
    connection.call(line);
    say("answered");
}

/// Sets the keys that victims use, and says how many they are.
fn prepare(socket: &str) {
    let client = Client::connect(&format!("unix://{socket}")).expect("the server is there");
    let put = |key: &str, value: &[u8]| client.put(key.as_bytes(), value).expect("it is taken");
    for index in 0..VICTIM_KEYS {
        put(&format!("{VICTIM_PREFIX}{index}"), &harness::bytes(1, 9000));
    }
    put(LARGE_KEY, &harness::bytes(2, 100_000));
    say(&(VICTIM_KEYS + 1).to_string());
}

/// What the names of the keys that a victim views begin with; a number follows.
const VICTIM_PREFIX: &str = "victim:";
/// The number of those keys.
const VICTIM_KEYS: u64 = 8;
/// The key that a lane is asked for more of than it takes.
const LARGE_KEY: &str = "large";

/// A client that holds what a client can hold, until it is killed. Its child keeps the socket open
/// afterwards, until standard input ends, with which the client ends too.
struct Victim {
    stream: Option<UnixStream>,
    attached: Option<Attached>,
    child: Child,
}

const RING_BYTES: u64 = 4096;

impl Victim {
    fn begin(socket: &str) -> Victim {
        let stream = UnixStream::connect(socket).expect("the server is there");
        let copy = OwnedFd::from(stream.try_clone().expect("a descriptor is left"));
        // It inherits this process's standard input, and holds the socket as its output.
        let child = Command::new("cat").stdout(Stdio::from(copy)).spawn().expect("cat is there");
        Victim { stream: Some(stream), attached: None, child }
    }

    /// Takes `count` steps, says how many sessions, pins and lanes it has, and stays.
    fn work(mut self, count: u64) {
        if count > 0 {
            let stream = self.stream.take().expect("it was not used");
            self.attached =
                Some(Attached::over_stream(stream, None).expect("this user may attach"));
        }
        let (mut buffers, mut lanes) = (vec![Vec::new(); count as usize], Vec::new());
        let mut views = Vec::new();
        if let Some(attached) = &self.attached {
            for (step, buffer) in (1..count).zip(&mut buffers) {
                // The values are as many as there are kinds of steps, so that some are shared.
                let key = format!("{VICTIM_PREFIX}{}", step % VICTIM_KEYS);
                let view = attached.view(key.as_bytes(), buffer).expect("the key is no list");
                views.push(view.expect("it is there"));
                if step % 3 == 0 {
                    lanes.push(begin_lane(attached, step));
                }
            }
        }
        say(&format!("ready {} {} {}", count.min(1), views.len(), lanes.len()));
        self.child.wait().expect("it is this process's own");
    }
}

/// Returns a lane in one of the states in which its client can die.
fn begin_lane(attached: &Attached, step: u64) -> Lane {
    let shape = LaneShape::new(RING_BYTES, RING_BYTES).expect("a power of two within bounds");
    let mut lane = attached.new_lane(shape).expect("there may be one more");
    let bytes: &[u8] = match step / 3 % 4 {
        0 => b"",
        1 => b"*3\r\n$3\r\nSET\r\n$6\r\nvictim\r\n$9000\r\nhalf a value",
        // More than the ring takes, and not so much that the server pins what it sends.
        2 => b"GETRANGE large 0 8999\r\nGETRANGE large 0 8999\r\n",
        _ => b"MULTI\r\nSET victim value\r\n",
    };
    lane.send(bytes).expect("the server takes requests");
    lane
}
