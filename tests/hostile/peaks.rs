//! The most memory that the server ever has under a limit: commands that would build or store much
//! for a short request, alone and within EXEC.

use harness::{Connection, Kind, Launch, Request, Server, encode, kernel, poll_until, words};

use super::assert_healthy;

const MEBIBYTE: u64 = 1024 * 1024;
const LIMIT: u64 = 64 * MEBIBYTE;
/// What memory may pass the limit by: the larger of a twentieth of it and so much.
const SLACK: u64 = 16 * MEBIBYTE;

/// Requests that bring little and ask for much.
const WRITTEN: [&str; 19] = [
    "BITFIELD new OVERFLOW FAIL SET u8 0 300 SET u8 4294967288 300",
    "BITFIELD new SET u8 0 1 SET u8 240000000 1",
    "BITFIELD big SET u8 0 1 SET u8 159999992 1 GET u8 0",
    "BITFIELD new SET u8 400000000 1",
    "SETRANGE new 50000000 x",
    "SETRANGE new 500000000 x",
    "SETBIT new 4294967295 1",
    "BITOP NOT new big",
    "BITOP OR new big other",
    "BITOP XOR big big other",
    "COPY big new",
    "COPY list new REPLACE",
    "RENAME big other",
    "APPEND big x",
    "LCS long one IDX",
    "LCS long one",
    "SRANDMEMBER set -1000000",
    "DEBUG POPULATE 5 new 60000000",
    "DEBUG POPULATE 3 new 536870912",
];

/// A server under the limit, and what it takes without data.
struct World {
    server: Server,
    empty_bytes: u64,
}

impl World {
    fn start(policy: &str) -> World {
        let launch = Launch::new(Kind::Forebay).option("maxmemory", &LIMIT.to_string());
        let launch = launch.option("enable-debug-command", "yes");
        let server = launch.option("maxmemory-policy", policy).start();
        let world = World { empty_bytes: 0, server };
        world.fill(&mut world.server.unix());
        world.server.unix().call("FLUSHALL");
        let empty_bytes = kernel::resident_bytes(world.server.process_id());
        World { empty_bytes, ..world }
    }

    /// Makes the keys that requests name: about 40 MiB.
    fn fill(&self, client: &mut Connection) {
        let value = vec![b'v'; 1000];
        let mut requests = vec![
            words("FLUSHALL"),
            words("SETRANGE big 20000000 x"),
            words("SETRANGE long 6000000 x"),
            words("SETRANGE other 3000000 x"),
            words("SET one x"),
        ];
        for number in 0..20 {
            let names: Vec<Vec<u8>> = (0..100)
                .map(|part| [format!("member:{}", 100 * number + part).as_bytes(), &value].concat())
                .collect();
            let of = |head: &[&str], each: &dyn Fn(&Vec<u8>) -> Vec<Vec<u8>>| -> Request {
                let head = head.iter().map(|word| word.as_bytes().to_vec());
                head.chain(names.iter().flat_map(each)).collect()
            };
            requests.push(of(&["RPUSH", "list"], &|name| vec![name.clone()]));
            requests.push(of(&["SADD", "set"], &|name| vec![name.clone()]));
            requests.push(of(&["ZADD", "sorted"], &|name| vec![b"1".to_vec(), name.clone()]));
            requests.push(of(&["HSET", "hash"], &|name| vec![name.clone(), b"1".to_vec()]));
        }
        client.pipeline(&requests);
    }

    /// Sends `requests` and returns the most memory that the server had meanwhile beyond what it
    /// takes without data. Where the reply is more than it may keep it ends the session.
    fn peak(&self, requests: &[Request]) -> u64 {
        let mut client = self.server.unix();
        self.fill(&mut client);
        kernel::reset_resident_max(self.server.process_id());
        if client.send(&encode(requests)).is_ok() {
            let _ = (0..requests.len()).try_for_each(|_| client.read().map(drop));
        }
        let peak = kernel::resident_bytes_max(self.server.process_id());
        peak.saturating_sub(self.empty_bytes)
    }

    /// Returns what passes the limit while the request runs, alone and within EXEC.
    fn excesses(&self, drawn: &Request) -> Vec<String> {
        let alone = self.peak(std::slice::from_ref(drawn));
        let in_exec = self.peak(&[words("MULTI"), drawn.clone(), drawn.clone(), words("EXEC")]);
        let peaks = [(alone, "alone"), (in_exec, "within EXEC")].into_iter();
        let excesses = peaks.filter(|(peak, _)| *peak > LIMIT + SLACK);
        let text = |(peak, place)| format!("{} MiB {place}: {}", peak / MEBIBYTE, shown(drawn));
        excesses.map(text).collect()
    }
}

/// Asserts that memory stays within the limit under `policy` whichever of `requests` runs.
fn check(policy: &str, requests: impl Iterator<Item = Request>) {
    let world = World::start(policy);
    let excesses: Vec<String> = requests.flat_map(|drawn| world.excesses(&drawn)).collect();
    assert!(excesses.is_empty(), "{}", excesses.join("\n"));
    assert_healthy(&world.server);
}

fn shown(request: &Request) -> String {
    let word = |word: &Vec<u8>| word[..word.len().min(60)].escape_ascii().to_string();
    request.iter().map(word).collect::<Vec<_>>().join(" ")
}

fn written() -> impl Iterator<Item = Request> {
    let pairs = ["new", "newer"].map(|name| [name.as_bytes().to_vec(), vec![b'v'; 7_000_000]]);
    let set = [b"MSET".to_vec()].into_iter().chain(pairs.into_iter().flatten()).collect();
    WRITTEN.into_iter().map(words).chain([set])
}

#[test]
fn scratch_values_find_room_before_they_are_built() {
    check("noeviction", written());
}

#[test]
fn scratch_values_evict_before_they_are_built() {
    check("allkeys-lru", written());
}

/// Replies that nobody reads are asked for many at once: the session ends before they have taken
/// more than the limit leaves.
#[test]
fn replies_of_one_pipeline_count_before_it_has_ended() {
    let world = World::start("noeviction");
    let reads = vec![words("HGETALL hash"); 400];
    let mut client = world.server.unix();
    world.fill(&mut client);
    kernel::reset_resident_max(world.server.process_id());
    let mut slow = world.server.unix();
    slow.send(&encode(&reads)).expect("it is read");
    // Another is served meanwhile; the first one reads nothing until its session has ended.
    poll_until("the session to end", || client.info("connected_clients") == 1);
    let peak = kernel::resident_bytes_max(world.server.process_id()) - world.empty_bytes;
    assert!(peak <= LIMIT + SLACK, "{} MiB", peak / MEBIBYTE);
}
