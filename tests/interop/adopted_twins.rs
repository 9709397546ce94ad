//! Every command with keys, on adopted values and on the same values stored by SET: replies and
//! data are equal.

use client::{Lane, Mode, Uploads};
use command::generate::{Draw, Generator, Profile};
use command::{Command, Flags};
use harness::{Connection, Kind, Launch, Server, poll_until};
use resp::{RequestView, Value as Reply};

const REQUESTS_PER_ROW: u64 = 10;
const VALUE_BYTES: usize = 5000;

/// Commands whose replies tell of places, times and chance.
const TELLS_OF_ITSELF: [&str; 8] = [
    "memory|usage",
    "object|freq",
    "object|idletime",
    "pttl",
    "ttl",
    "pexpiretime",
    "expiretime",
    "shm|take",
];

struct Twins {
    _servers: [Server; 2],
    uploads: Uploads,
    lane: Lane,
    sockets: [Connection; 2],
}

impl Twins {
    fn new() -> Twins {
        let launch = || Launch::new(Kind::Forebay).option("segment-size", "1mb");
        let (adopting, setting) = (launch().start(), launch().start());
        let lane = adopting.bare_lane(65_536);
        let uploads = lane.uploads(1 << 20).expect("there is room");
        let sockets = [adopting.unix(), setting.unix()];
        Twins { _servers: [adopting, setting], uploads, lane, sockets }
    }

    /// Makes `key` hold `value`, adopted in the one server and set in the other.
    fn put(&mut self, key: &[u8], value: &[u8]) {
        let Twins { uploads, lane, .. } = self;
        let length = value.len() as u64;
        let mut room = uploads.allocate(length, |it| lane.pipeline(it)).expect("there is room");
        room.copy_from_slice(value);
        let target: (&[u8], &[&[u8]]) = (key, &[]);
        let committed =
            uploads.commit((room, length), Mode::Adopt, target, 0, |it| lane.pipeline(it));
        assert_eq!(committed.expect("it is open").0, Reply::Simple(b"OK".to_vec()));
        self.sockets[1].ask(&vec![b"SET".to_vec(), key.to_vec(), value.to_vec()]);
    }

    fn both(&mut self, request: &[Vec<u8>]) -> [Reply; 2] {
        self.sockets.each_mut().map(|socket| socket.ask(&request.to_vec()).value)
    }

    fn check(&mut self, row: &Command, request: &[Vec<u8>], in_transaction: bool) {
        for socket in &mut self.sockets {
            socket.call("FLUSHALL");
        }
        let positions = positions(row, request);
        for (seed, &position) in positions.iter().enumerate() {
            let key = request[position].clone();
            self.put(&key, &value(seed));
        }
        let shown = request.iter().map(|word| word.escape_ascii().to_string()).collect::<Vec<_>>();
        let shown = shown.join(" ");
        // The last of them is the one that failed.
        println!("{shown}");
        if in_transaction {
            self.both(&[b"MULTI".to_vec()]);
        }
        let [adopting, setting] = self.both(request);
        assert!(
            in_transaction || TELLS_OF_ITSELF.contains(&row.name) || adopting == setting,
            "{shown}: {adopting:?} beside adopted values, {setting:?} beside others"
        );
        if in_transaction {
            let [adopting, setting] = self.both(&[b"EXEC".to_vec()]);
            let is_same = TELLS_OF_ITSELF.contains(&row.name) || adopting == setting;
            assert!(is_same, "MULTI {shown}: {adopting:?}, {setting:?}");
        }
        let [adopting, setting] = self.both(&[b"DEBUG".to_vec(), b"DIGEST".to_vec()]);
        assert_eq!(adopting, setting, "{shown}: what it leaves");
    }
}

fn value(seed: usize) -> Vec<u8> {
    (0..VALUE_BYTES).map(|index| (index * 7 + seed * 31 + index / 251) as u8).collect()
}

/// Returns where the keys of `request` are.
fn positions(row: &Command, request: &[Vec<u8>]) -> Vec<usize> {
    let buffer = request.concat();
    let mut end = 0;
    let mut ranges = Vec::new();
    for word in request {
        ranges.push((end, end + word.len() as u32));
        end += word.len() as u32;
    }
    row.key_positions(RequestView { buffer: &buffer, ranges: &ranges, aside: &[] }).collect()
}

#[test]
fn every_command_finds_an_adopted_value_as_it_finds_any_other() {
    let mut twins = Twins::new();
    let rows = command::rows().filter(|row| !row.keys.is_empty());
    let rows = rows.filter(|row| !row.effective_flags().contains(Flags::BLOCKING));
    let rows: Vec<&Command> = rows.filter(|row| row.name != "shm|commit").collect();
    assert!(rows.len() > 100, "{} commands have keys", rows.len());
    for (seed, row) in rows.iter().enumerate() {
        let profile = Profile { key_count: 3, ..Profile::default() };
        let mut generator = Generator::new(profile, seed as u64);
        for round in 0..REQUESTS_PER_ROW {
            let request = generator.request(row);
            twins.check(row, &request, round % 3 == 2);
        }
    }
    twins.sockets[0].call("FLUSHALL");
    poll_until("all ranges to be given back", || {
        ["shm_adopted_values", "shm_uploads_open"]
            .iter()
            .all(|field| twins.sockets[0].info(field) == 0)
    });
}
