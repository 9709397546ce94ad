//! The most memory that the server ever has under a limit: every row of the command table with
//! large arguments on large keys, and short requests that make the server use much memory; each
//! alone and within EXEC, without eviction and with it.
//!
//! A failure prints the seed: `FOREBAY_PEAKS_SEED=<seed>` repeats it. `FOREBAY_PEAKS_REQUESTS` is
//! the number of requests of each row.

use base::prng::Prng;
use collections::{Collection, End, Hash, List, Listpack, Set};
use command::generate::{Draw, PAYLOAD_NAME, payload};
use command::{Arg, ArgKind, Command, Group, Handler, rows};
use harness::{
    Connection, Kind, Launch, Request, Server, encode, info_field, kernel, number, poll_until,
    request, words,
};
use rdb::Stored;
use rdb::samples::{default_rules, ziplist};
use resp::Value;

use super::assert_healthy;

const MEBIBYTE: u64 = 1024 * 1024;
const LIMIT: u64 = 64 * MEBIBYTE;
/// What memory may pass the limit by: the larger of a twentieth of it and so much.
const SLACK: u64 = 16 * MEBIBYTE;

/// How many requests of each row are drawn for memory that is nearly full, and for such as is not,
/// unless the environment says.
const REQUESTS_PER_ROW: u64 = 1;

/// Rows that no request is drawn of, and why.
const PASSED_OVER: [(&str, &str); 3] = [
    ("shutdown", "it ends the server"),
    ("config|set", "it moves the limit"),
    ("bgsave", "it goes on behind its reply, and holds values that the next request needs gone"),
];

/// Requests that bring little and ask for much.
const WRITTEN: [&str; 46] = [
    "XRANGE stream - +",
    "XREAD STREAMS stream stream stream stream 0 0 0 0",
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
    "ZUNION 3 sorted set sorted WITHSCORES",
    "ZUNIONSTORE new 2 sorted set",
    "ZINTERSTORE sorted 2 sorted set",
    "ZDIFFSTORE new 1 sorted",
    "ZRANGESTORE new sorted 0 -1",
    "GEOSEARCH sorted FROMLONLAT -180 -85 BYRADIUS 100 km DESC WITHCOORD",
    "GEOSEARCHSTORE new sorted FROMLONLAT -180 -85 BYRADIUS 100 km STOREDIST",
    "GEORADIUS sorted -180 -85 100 km STORE sorted",
    "HRANDFIELD hash -1000000 WITHVALUES",
    "ZRANDMEMBER sorted -1000000 WITHSCORES",
    "SINTERSTORE new set set",
    "SUNIONSTORE new set set",
    "SDIFFSTORE new set new",
    "SUNIONSTORE set set new",
    "SUNION set set set set set set",
    "SDIFF set new new new",
    "SSCAN set 0 COUNT 1000000",
    "DEBUG POPULATE 5 new 60000000",
    "DEBUG POPULATE 3 new 536870912",
    "DUMP big",
    "DUMP list",
    "DUMP hash",
    "SORT list ALPHA",
    "SORT set ALPHA DESC STORE new",
    "SORT sorted BY nosort GET # GET # GET # GET # GET # GET # GET # GET # GET # GET #",
    "SORT list BY nosort GET # GET # GET # GET # GET # GET # GET # GET # GET # GET # STORE new",
    "SORT_RO list BY *->x ALPHA GET *",
];

/// The keys that requests find.
const KEYS: [(&str, Made); 10] = [
    ("big", Made::String(24_000_000)),
    ("long", Made::String(4_000_000)),
    ("other", Made::String(3_000_000)),
    ("one", Made::String(1)),
    ("list", Made::Collection("RPUSH")),
    ("set", Made::Collection("SADD")),
    ("sorted", Made::Collection("ZADD")),
    ("hash", Made::Collection("HSET")),
    ("stream", Made::Collection("XADD")),
    ("count", Made::Collection("PFADD")),
];
/// Leaves of the limit so much where it is there, and not twice as much.
const FILLER: &str = "filler";
const FREE_BYTES: u64 = 3 * MEBIBYTE;
const PART_COUNT: usize = 500;
const PART_BYTES: usize = 4_000;
/// By so much a key may differ from what was made before it is made anew.
const DRIFT_BYTES: u64 = 64 * 1024;

#[derive(Clone, Copy)]
enum Made {
    /// Of so many bytes.
    String(usize),
    /// By this command.
    Collection(&'static str),
}

impl Made {
    /// Returns the request that makes `key`.
    fn request(self, key: &str) -> Request {
        let command = match self {
            Made::String(length) => {
                return vec![b"SET".to_vec(), key.into(), vec![b'v'; length]];
            }
            Made::Collection(command) => command,
        };
        let mut request = words(&format!("{command} {key}"));
        if command == "XADD" {
            request.push(b"*".to_vec());
        }
        for index in 0..PART_COUNT {
            match command {
                "ZADD" => request.extend([b"1".to_vec(), part(index)]),
                "HSET" | "XADD" => request.extend([part(index), b"1".to_vec()]),
                _ => request.push(part(index)),
            }
        }
        request
    }
}

/// Returns the part `index` of each collection.
fn part(index: usize) -> Vec<u8> {
    let mut part = format!("member:{index}:").into_bytes();
    part.resize(PART_BYTES, b'v');
    part
}

/// Draws requests whose numbers are large and whose keys hold much.
struct Large {
    random: Prng,
    command: &'static str,
    keys: &'static [&'static str],
}

impl Draw for Large {
    const OPTION_ONE_IN: u64 = 2;

    fn random(&mut self) -> &mut Prng {
        &mut self.random
    }

    fn begin(&mut self, command: &Command) {
        self.command = command.name;
        self.keys = match command.group {
            Group::String | Group::Bitmap => &["big", "other", "long", "one", "new"],
            Group::List => &["list", "new"],
            Group::Set => &["set", "new"],
            Group::SortedSet | Group::Geo => &["sorted", "new"],
            Group::Stream => &["stream", "new"],
            Group::HyperLogLog => &["count", "big", "new"],
            Group::Hash => &["hash", "new"],
            _ => &["big", "list", "set", "sorted", "hash", "new"],
        };
    }

    fn word(&mut self, word: &'static str) -> Vec<u8> {
        word.into()
    }

    fn value(&mut self, arg: &Arg) -> Vec<u8> {
        // DEBUG's numbers say how long it works, or change how the server runs.
        let is_bounded = arg.is_bounded || self.command.starts_with("debug");
        match arg.kind {
            _ if !(arg.words.is_empty() || arg.is_open && self.random.one_in(2)) => {
                self.random.pick(arg.words).into()
            }
            ArgKind::Key(_) => self.random.pick(self.keys).into(),
            ArgKind::String if arg.name == PAYLOAD_NAME => payload(&mut self.random, MEBIBYTE / 8),
            ArgKind::String if arg.name == "key" => self.random.pick(self.keys).into(),
            // What does not come is not waited for any longer.
            ArgKind::Integer if arg.name == "timeout" => b"1".to_vec(),
            ArgKind::Double if arg.name == "timeout" => b"0.001".to_vec(),
            ArgKind::Integer | ArgKind::UnixTime if is_bounded => arg.range.1.to_string().into(),
            ArgKind::Integer | ArgKind::UnixTime => self.number().to_string().into(),
            // Where the members of the sorted set are.
            ArgKind::Double if arg.name == "longitude" => b"-180".to_vec(),
            ArgKind::Double if arg.name == "latitude" => b"-85".to_vec(),
            ArgKind::Double => b"1e300".to_vec(),
            ArgKind::Pattern | ArgKind::KeyPattern(_) => b"*".to_vec(),
            _ if self.random.one_in(3) => vec![b'x'; MEBIBYTE as usize],
            _ => part(self.random.below(2 * PART_COUNT as u64) as usize),
        }
    }
}

impl Large {
    fn number(&mut self) -> i64 {
        const NUMBERS: [i64; 14] = [
            0,
            1,
            -1,
            100_000,
            -100_000,
            50_000_000,
            399_999_999,
            (1 << 29) - 1,
            1 << 29,
            u32::MAX as i64 - 7,
            u32::MAX as i64,
            i32::MIN as i64,
            i64::MAX,
            i64::MIN,
        ];
        NUMBERS[self.random.below(NUMBERS.len() as u64) as usize]
    }
}

/// A server under the limit, what it takes without data and its program, and what its keys take.
struct World {
    server: Server,
    idle_bytes: u64,
    key_bytes: Vec<u64>,
}

impl World {
    fn start(policy: &str, list_limit: &str) -> World {
        let launch = Launch::new(Kind::Forebay).option("maxmemory", &LIMIT.to_string());
        let launch = launch.option("enable-debug-command", "yes");
        let launch = launch.option("list-max-listpack-size", list_limit);
        let server = launch.option("maxmemory-policy", policy).start();
        let mut client = server.unix();
        client.call("PING");
        let idle_bytes = own_bytes(server.process_id());
        let replies = client.pipeline(&KEYS.map(|(key, made)| made.request(key)));
        assert!(replies.iter().all(|reply| reply.error().is_none()), "{replies:?}");
        let key_bytes = present_bytes(&mut client);
        World { server, idle_bytes, key_bytes }
    }

    /// Makes the keys that requests name as they were made first, and no others but the filler,
    /// which is there where the memory is to be `full`.
    fn mend(&self, client: &mut Connection, full: bool) {
        /// Eviction may take what has just been made.
        const ATTEMPTS_MAX: usize = 8;
        client.call("DEL new newer");
        for attempt in 0..ATTEMPTS_MAX {
            let is_whole = self.wrong_keys(client).is_empty();
            let has_others = has_other_keys(client);
            let free_bytes = LIMIT.saturating_sub(used_memory(client));
            let is_filled = client.call(&format!("EXISTS {FILLER}")) == Value::Integer(1);
            let is_as_full = is_filled == full && (!full || free_bytes < 2 * FREE_BYTES);
            if is_whole && !has_others && is_as_full {
                return;
            }
            match has_others || attempt > 1 {
                true => client.call("FLUSHALL"),
                false => client.call(&format!("DEL {FILLER}")),
            };
            for (key, made) in self.wrong_keys(client) {
                client.pipeline(&[words(&format!("DEL {key}")), made.request(key)]);
            }
            let free_bytes = LIMIT.saturating_sub(used_memory(client));
            if full && free_bytes > FREE_BYTES {
                let filler = Made::String((free_bytes - FREE_BYTES) as usize);
                client.ask(&filler.request(FILLER));
            }
        }
        panic!("the keys do not stay: {:?}\n{}", present_bytes(client), client.info_text("memory"));
    }

    /// Returns the keys that are not as they were made first.
    fn wrong_keys(&self, client: &mut Connection) -> Vec<(&'static str, Made)> {
        let present = present_bytes(client);
        let is_wrong =
            |index: &usize| present[*index].abs_diff(self.key_bytes[*index]) > DRIFT_BYTES;
        (0..KEYS.len()).filter(is_wrong).map(|index| KEYS[index]).collect()
    }

    /// Sends `requests` and returns by how many bytes the server's memory passed the bound
    /// meanwhile, beside what the requests bring themselves, and what it took beside its memory
    /// when idle. Where the reply is more than it may keep, the server ends the session.
    fn excess(&self, requests: &[Request], full: bool) -> (u64, u64) {
        self.mend(&mut self.server.unix(), full);
        let mut client = self.server.unix();
        let bytes = [encode(requests), encode(&[words("QUIT")])].concat();
        // What the requests before have left with the allocator is bounded by itself: it depends
        // on their order and on how threads took turns, and is nothing that one request takes.
        self.server.unix().call("MEMORY PURGE");
        let process_id = self.server.process_id();
        let left = own_bytes(process_id).saturating_sub(self.idle_bytes);
        let watch = self.watch_peak();
        // A session that the server ends takes no more requests.
        if client.send(&bytes).is_ok() {
            let _ = client.read_to_end();
        }
        let peak = watch();
        let excess = peak.saturating_sub(left.max(LIMIT) + SLACK + bytes.len() as u64);
        (excess.max(left.saturating_sub(LIMIT + SLACK)), peak)
    }

    /// Returns what tells the most memory that the server has had since, beside what it took when
    /// idle. Its program counts with what of it is there now: parts that were not used go when
    /// memory is first nearly full.
    fn watch_peak(&self) -> impl Fn() -> u64 {
        let process_id = self.server.process_id();
        let base = kernel::resident_bytes_of_files(process_id) + self.idle_bytes;
        kernel::reset_resident_max(process_id);
        move || kernel::resident_bytes_max(process_id).saturating_sub(base)
    }

    /// Returns what passes the limit while the request runs, alone and within EXEC, where memory is
    /// nearly `full` or is not.
    fn excesses(&self, drawn: &Request, full: bool) -> Vec<String> {
        let exec = [words("MULTI"), drawn.clone(), drawn.clone(), words("EXEC")];
        let forms = [(std::slice::from_ref(drawn), "alone"), (&exec[..], "within EXEC")];
        let mut excesses = Vec::new();
        for (requests, form) in forms {
            let (excess, peak) = self.excess(requests, full);
            if excess > 0 {
                let (peak, shown) = (peak / MEBIBYTE, shown(drawn));
                excesses.push(format!("{peak} MiB {form}, full {full}: {shown}"));
            }
        }
        excesses
    }
}

/// Returns the resident memory of the process, its program left out.
fn own_bytes(process_id: u32) -> u64 {
    kernel::resident_bytes(process_id) - kernel::resident_bytes_of_files(process_id)
}

fn used_memory(client: &mut Connection) -> u64 {
    // All that INFO tells would take longer than most requests.
    info_field(&client.info_text("memory"), "used_memory")
}

/// Returns what each of the keys takes; 0 for none.
fn present_bytes(client: &mut Connection) -> Vec<u64> {
    let replies = client.pipeline(&KEYS.map(|(key, _)| words(&format!("MEMORY USAGE {key}"))));
    let bytes = |value: &Value| if let Value::Integer(bytes) = value { *bytes as u64 } else { 0 };
    replies.iter().map(|reply| bytes(&reply.value)).collect()
}

/// Returns whether there are other keys than those, in any database.
fn has_other_keys(client: &mut Connection) -> bool {
    let names = KEYS.map(|(key, _)| key).join(" ");
    let own = client.call(&format!("EXISTS {names} {FILLER}"));
    let text = client.info_text("keyspace");
    let mut databases = text.lines().filter(|line| line.starts_with("db"));
    let Value::Integer(own) = own else { panic!("EXISTS counts") };
    !databases.all(|line| line.starts_with(&format!("db0:keys={own},")))
}

/// Asserts that memory stays within the limit under `policy` whichever of `requests` runs; `origin`
/// says where they come from.
fn check(policy: &str, origin: &str, requests: impl Iterator<Item = (Request, bool)>) {
    check_world(&World::start(policy, LIST_LIMIT), origin, requests);
}

fn check_world(world: &World, origin: &str, requests: impl Iterator<Item = (Request, bool)>) {
    let excesses: Vec<String> =
        requests.flat_map(|(drawn, full)| world.excesses(&drawn, full)).collect();
    assert!(excesses.is_empty(), "{origin}:\n{}", excesses.join("\n"));
    world.server.unix().call("FLUSHALL");
    assert_healthy(&world.server);
}

fn shown(request: &Request) -> String {
    let word = |word: &Vec<u8>| word[..word.len().min(60)].escape_ascii().to_string();
    request.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// Returns each written request, for memory that is nearly full where one of `fulls` says so.
fn written(fulls: &[bool]) -> impl Iterator<Item = (Request, bool)> {
    let pairs = ["new", "newer"].map(|name| [name.as_bytes().to_vec(), vec![b'v'; 7_000_000]]);
    let set = [b"MSET".to_vec()].into_iter().chain(pairs.into_iter().flatten()).collect();
    let restores = payloads().into_iter().flat_map(|payload| restores(&payload));
    let requests: Vec<Request> =
        WRITTEN.into_iter().map(words).chain([set]).chain(restores).collect();
    fulls
        .iter()
        .flat_map(move |&full| requests.clone().into_iter().map(move |request| (request, full)))
}

/// Returns the requests that restore `payload` to a key that is new, and to one that is large.
fn restores(payload: &[u8]) -> [Request; 2] {
    ["new", "big"]
        .map(|key| request(&[b"RESTORE".as_slice(), key.as_bytes(), b"0", payload, b"REPLACE"]))
}

/// Returns the payload of the value that is `parts`, one after the other: its type, its lengths and
/// its strings.
fn sealed(parts: &[&[u8]]) -> Vec<u8> {
    let mut payload = parts.concat();
    rdb::seal(&mut payload);
    payload
}

/// Returns `bytes` as a string within a value, compressed.
fn compressed(bytes: &[u8]) -> Vec<u8> {
    let mut payload = Vec::new();
    rdb::encode(Stored::String(bytes), &mut payload);
    // All but its type.
    rdb::open(&payload).expect("it was just made")[1..].to_vec()
}

/// Returns payloads that expand to much more than they are, and one that says that it does. Their
/// parts are of the size that the allocator gives back once they are freed.
fn payloads() -> Vec<Vec<u8>> {
    const EXPANDED_BYTES: usize = 40_000_000;
    let zeroes = vec![0; EXPANDED_BYTES];
    let mut rules = default_rules();
    (rules.limits.hash_entries, rules.limits.set_entries) = (u64::MAX, u64::MAX);
    let mut hash = Hash::default();
    for number in 0..30_u32 {
        hash.set(format!("{number:03}").as_bytes(), &vec![b'v'; 1_000_000], &rules);
    }
    let mut list = List::large();
    (0..30).for_each(|_| list.push(End::Tail, &vec![b'e'; 1_000_000], rules.limits.list));
    let mut set = Listpack::new();
    (0..20_000_u32).for_each(|number| set.push_back(&number.to_le_bytes()));
    let set = Set::from_pack(set).expect("no member is there twice");
    let hash = Collection::Hash(hash);
    let (list, set) = (Collection::List(list), Collection::Set(set));
    let values = [
        Stored::String(&zeroes),
        Stored::Collection(hash.view()),
        Stored::Collection(list.view()),
        Stored::Collection(set.view()),
    ];
    let payload = |value: Stored<'_>| {
        let mut payload = Vec::new();
        rdb::encode(value, &mut payload);
        payload
    };
    let mut payloads: Vec<Vec<u8>> = values.into_iter().map(payload).collect();
    // The string again, with a byte more than it expands to.
    let mut longer = rdb::open(&payloads[0]).expect("it was just made").to_vec();
    let length = (EXPANDED_BYTES as u32).swap_bytes().to_le_bytes();
    let at = longer.windows(4).position(|word| word == length).expect("its length is there");
    longer[at + 3] += 1;
    rdb::seal(&mut longer);
    payloads.push(longer);
    // A list of one node that is one element, and a hash of one field.
    let element = compressed(&vec![0; 45_000_000]);
    payloads.push(sealed(&[&[18, 1, 1], &element]));
    let part = compressed(&vec![0; 17_000_000]);
    payloads.push(sealed(&[&[4, 1], &part, &part]));
    payloads
}

/// `list-max-listpack-size` as in Redis.
const LIST_LIMIT: &str = "-2";

/// Asserts that memory stays within the limit under `policy` whichever row has requests drawn.
fn check_rows(policy: &str) {
    let seed = number("FOREBAY_PEAKS_SEED").unwrap_or(1);
    let count = number("FOREBAY_PEAKS_REQUESTS").unwrap_or(REQUESTS_PER_ROW);
    let is_drawn = |row: &&Command| {
        !matches!(row.handler, Handler::Container)
            && PASSED_OVER.iter().all(|(name, _)| *name != row.name)
    };
    let mut draw = Large { random: Prng::new(seed), command: "", keys: &[] };
    let mut requests = Vec::new();
    for full in [false, true] {
        for row in rows().filter(is_drawn) {
            requests.extend((0..count).map(|_| (draw.request(row), full)));
        }
    }
    let origin = format!("{policy}, FOREBAY_PEAKS_SEED={seed}");
    println!("{origin}: {} requests, each alone and within EXEC", requests.len());
    check(policy, &origin, requests.into_iter());
}

#[test]
fn scratch_values_find_room_before_they_are_built() {
    check("noeviction", "written", written(&[false, true]));
}

#[test]
fn scratch_values_evict_before_they_are_built() {
    // Where there is room nothing is evicted.
    check("allkeys-lru", "written", written(&[true]));
}

#[test]
fn a_list_of_many_nodes_finds_room_before_it_is_built() {
    let entries: Vec<&[u8]> = vec![b"\xF1"; 1_000_000];
    let payload = sealed(&[&[10], &compressed(&ziplist(&entries))]);
    let world = World::start("noeviction", "1");
    let requests = restores(&payload);
    let reply = world.server.unix().ask(&requests[0]);
    assert!(reply.error().is_some_and(|error| error.starts_with(b"OOM")), "{reply:?}");
    let requests = requests.map(|request| (request, false));
    check_world(&world, "a ziplist", requests.into_iter());
}

#[test]
fn no_row_passes_the_limit_without_eviction() {
    check_rows("noeviction");
}

#[test]
fn no_row_passes_the_limit_with_eviction() {
    check_rows("allkeys-lru");
}

#[test]
fn rows_that_are_passed_over_exist() {
    for (name, reason) in PASSED_OVER {
        assert!(rows().any(|row| row.name == name) && !reason.is_empty(), "{name}");
    }
}

/// Replies that nobody reads are asked for many at once: the session ends before they have taken
/// more than the limit leaves.
#[test]
fn replies_of_one_pipeline_count_before_it_has_ended() {
    let world = World::start("noeviction", LIST_LIMIT);
    let reads = vec![words("HGETALL hash"); 400];
    let mut client = world.server.unix();
    world.mend(&mut client, false);
    let peak = world.watch_peak();
    let mut slow = world.server.unix();
    slow.send(&encode(&reads)).expect("it is read");
    // Another is served meanwhile; the first one reads nothing until its session has ended.
    poll_until("the session to end", || client.info("connected_clients") == 1);
    assert!(peak() <= LIMIT + SLACK, "{} MiB", peak() / MEBIBYTE);
}

#[test]
fn code_that_the_start_alone_needed_goes_as_memory_fills() {
    let launch = Launch::new(Kind::Forebay).option("maxmemory", &(16 * MEBIBYTE).to_string());
    let server = launch.option("maxmemory-policy", "allkeys-lru").start();
    let mut client = server.unix();
    client.call("PING");
    let before = kernel::resident_bytes_of_files(server.process_id());
    for key in 0..32 {
        client.call(&format!("SETRANGE {key} {MEBIBYTE} x"));
    }
    let has_shrunk = || kernel::resident_bytes_of_files(server.process_id()) < before;
    poll_until("code to go", has_shrunk);
    client.call("PING");
}
