//! A thread that changes its keys without a pause, over sockets.

use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use base::prng::Prng;
use harness::{Connection, Request, request};
use resp::Value;

use super::Run;
use super::content::{
    EXTRAS, FIXED, FLUSHED, KEYS, Kind, PAIRS, RING, SWAPPED, WINDOWS, element, extras,
    field_value, key, member, part_name, version,
};

/// Requests that are sent together.
const BATCH: usize = 60;
/// Milliseconds that an expiring key lives, at most.
const LIFETIME_MS_MAX: u64 = 30;
/// Keys beside those that blink, which stay.
const NEIGHBOURS: u64 = 500;
/// The database of most keys.
const DATABASE: u8 = 0;

/// Changes keys; nobody else changes those.
pub struct Writer<'r> {
    run: &'r Run,
    number: u64,
    random: Prng,
    connections: [Connection; 4],
    pending: Vec<Request>,
    /// How many versions there were.
    count: u64,
    /// The version of each hash and sorted set.
    versions: Vec<[u64; KEYS as usize]>,
    /// The first number of each window, and how many there are.
    windows: [(u64, u64); KEYS as usize],
    /// Which member of each pair is in each set.
    chosen: [[u64; KEYS as usize]; 2],
    /// Which side of a swap is in the first of both databases.
    first_side: u64,
    fillers: u64,
}

impl<'r> Writer<'r> {
    /// Returns the writer `number` of `run`.
    pub fn new(run: &'r Run, number: u64) -> Writer<'r> {
        let connections = [0, 1, 2, 3].map(|database| {
            let mut connection = run.server.unix();
            connection.call(&format!("SELECT {database}"));
            connection
        });
        Writer {
            run,
            number,
            random: Prng::new(run.seed + number),
            connections,
            pending: Vec::new(),
            count: 1,
            versions: vec![[0; KEYS as usize]; Kind::ALL.len() + 1],
            windows: [(0, 0); KEYS as usize],
            chosen: [[0; KEYS as usize]; 2],
            first_side: 0,
            fillers: 0,
        }
    }

    /// Makes all keys.
    pub fn fill(&mut self) -> Result<(), String> {
        // So many of one size that they have pages of their own, on which memory is used again.
        for index in 0..NEIGHBOURS {
            let version = self.next(0, 0);
            self.push(
                Kind::Blinking,
                KEYS + index,
                "HSET",
                Writer::parts(Kind::Blinking, version, 0, FIXED),
            );
        }
        for index in 0..KEYS {
            for kind in [Kind::Hash, Kind::Volatile, Kind::SortedSet] {
                self.put_anew(kind, index)?;
            }
            for side in 0..2 {
                self.change_swapped(index, side)?;
            }
            self.renew_window(index, WINDOWS[0]);
            let ring: Vec<Vec<u8>> = (0..RING).map(|number| element(index, number)).collect();
            self.push(Kind::Ring, index, "RPUSH", ring);
            for kind in [Kind::Integers, Kind::Texts] {
                let members = (0..PAIRS).map(|pair| member(kind, index, pair, 0)).collect();
                self.push(kind, index, "SADD", members);
            }
        }
        self.send()
    }

    /// Makes one change.
    pub fn step(&mut self) -> Result<(), String> {
        if self.random.one_in(3) {
            self.fill_memory();
        }
        let (kind, index) = (Kind::of(self.random.below(Kind::WEIGHTS)), self.random.below(KEYS));
        match kind {
            Kind::Hash | Kind::Volatile | Kind::SortedSet => self.change_versioned(kind, index)?,
            Kind::Expiring => self.renew_expiring(index),
            Kind::Flushed => self.change_flushed(index)?,
            Kind::Swapped if self.number == 0 && self.random.one_in(4) => self.swap()?,
            Kind::Swapped => {
                let side = self.random.below(2);
                self.change_swapped(index, side)?;
            }
            Kind::Window => self.change_window(index),
            Kind::Ring => self.turn(index),
            Kind::Integers | Kind::Texts => self.change_set(kind, index),
            Kind::Blinking => self.blink(index),
        }
        match self.pending.len() >= BATCH {
            true => self.send(),
            false => Ok(()),
        }
    }

    /// Adds a key that may be evicted, so that others have been, and pages are compacted.
    fn fill_memory(&mut self) {
        self.fillers += 1;
        let number = self.fillers % 60_000;
        let name = match number % 2 {
            0 => format!("filler:{}:{number}", self.number),
            _ => format!("{{{}:{}}}filler:{number}", self.number, number / 2 % KEYS),
        };
        let length = match self.random.below(40) {
            0 => 20_000,
            1..4 => 4000,
            _ => 20 + self.random.below(900),
        };
        let value = vec![b'f'; length as usize];
        let words = [b"SET".as_slice(), name.as_bytes(), &value, b"EX", b"10000"];
        self.pending.push(request(&words));
        if self.fillers.is_multiple_of(20_000) && self.number == 0 {
            let limit = if self.random.one_in(2) { "16mb" } else { "24mb" };
            self.pending.push(request(&["CONFIG", "SET", "maxmemory", limit]));
        }
    }

    fn name(&self, kind: Kind, index: u64) -> Vec<u8> {
        key(kind, self.number, index).into_bytes()
    }

    fn push(&mut self, kind: Kind, index: u64, command: &str, words: Vec<Vec<u8>>) {
        let mut request = vec![command.as_bytes().to_vec(), self.name(kind, index)];
        request.extend(words);
        self.pending.push(request);
    }

    /// Returns the next version, with as many parts as `extras_index` says.
    fn next(&mut self, side: u64, extras_index: u64) -> u64 {
        self.count += 1;
        version(self.count, side, extras_index)
    }

    /// Returns how many parts the next version has: seldom many.
    fn draw_extras(&mut self) -> u64 {
        let bound = if self.random.one_in(30) { EXTRAS.len() as u64 } else { 5 };
        self.random.below(bound)
    }

    /// Returns the parts of `kind` from `from` to `to` in `version`, as words of HSET or ZADD.
    fn parts(kind: Kind, version: u64, from: u64, to: u64) -> Vec<Vec<u8>> {
        let parts = (from..to).flat_map(|index| {
            let name = part_name(index).into_bytes();
            match kind {
                Kind::SortedSet => [version.to_string().into_bytes(), name],
                _ => [name, field_value(version, index)],
            }
        });
        parts.collect()
    }

    /// Makes a hash or a sorted set of a new version where there was none.
    fn put_anew(&mut self, kind: Kind, index: u64) -> Result<(), String> {
        let version = self.next(0, 0);
        self.versions[kind as usize][index as usize] = version;
        let put = if kind == Kind::SortedSet { "ZADD" } else { "HSET" };
        self.push(kind, index, put, Writer::parts(kind, version, 0, FIXED));
        if kind == Kind::Volatile {
            self.push(kind, index, "EXPIRE", vec![b"10000".to_vec()]);
        }
        self.send()
    }

    /// Gives a hash or a sorted set a new version in one of the ways in which all of its parts
    /// change at one moment.
    fn change_versioned(&mut self, kind: Kind, index: u64) -> Result<(), String> {
        let (put, take) = match kind {
            Kind::SortedSet => ("ZADD", "ZREM"),
            _ => ("HSET", "HDEL"),
        };
        let before = self.versions[kind as usize][index as usize];
        let (had, same) = (extras(before), before & 7);
        let way = self.random.below(12);
        let is_volatile = kind == Kind::Volatile;
        // What may be evicted may have lost all that it had.
        let way = if is_volatile { 8 } else { way };
        let extras_index = if way < 8 { same } else { self.draw_extras() };
        let version = self.next(0, extras_index);
        self.versions[kind as usize][index as usize] = version;
        let count = FIXED + extras(version);
        let parts = |from, to| Writer::parts(kind, version, from, to);
        let begin = |writer: &mut Writer<'_>| writer.pending.push(request(&["MULTI"]));
        match way {
            0..6 => self.push(kind, index, put, parts(0, count)),
            6 | 7 => {
                begin(self);
                self.push(kind, index, put, parts(0, 2));
                self.push(kind, index, put, parts(2, count));
            }
            8 => {
                begin(self);
                self.push(kind, index, "DEL", Vec::new());
                self.push(kind, index, put, parts(0, count));
                if is_volatile {
                    self.push(kind, index, "EXPIRE", vec![b"10000".to_vec()]);
                }
            }
            9 => {
                begin(self);
                if count < FIXED + had {
                    let names = count..FIXED + had;
                    let names = names.map(|part| part_name(part).into_bytes()).collect();
                    self.push(kind, index, take, names);
                }
                self.push(kind, index, put, parts(0, count));
            }
            _ => {
                let other = format!("other:{}", self.number);
                let mut filled = vec![put.as_bytes().to_vec(), other.clone().into_bytes()];
                filled.extend(parts(0, count));
                self.pending.push(filled);
                let name = key(kind, self.number, index);
                self.pending.push(match way {
                    10 => request(&["RENAME", &other, &name]),
                    _ => request(&["COPY", &other, &name, "REPLACE"]),
                });
                self.pending.push(request(&["DEL", &other]));
                return Ok(());
            }
        }
        if way >= 6 {
            self.pending.push(request(&["EXEC"]));
        }
        Ok(())
    }

    /// Deletes a hash and makes another one, whose entry is as long: it gets the same memory.
    fn blink(&mut self, index: u64) {
        let gone = self.random.below(KEYS);
        self.push(Kind::Blinking, gone, "DEL", Vec::new());
        self.count += KEYS - self.count % KEYS + index;
        let version = version(self.count, 0, 0);
        let parts = Writer::parts(Kind::Blinking, version, 0, FIXED);
        self.push(Kind::Blinking, index, "HSET", parts);
    }

    /// Makes a hash that is there until the time that its version is.
    fn renew_expiring(&mut self, index: u64) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = now.unwrap_or(Duration::ZERO).as_millis() as u64;
        let seen = &mut self.versions[Kind::Expiring as usize][index as usize];
        let time = (now + 1 + self.random.below(LIFETIME_MS_MAX)).max(*seen + 1);
        *seen = time;
        let name = self.name(Kind::Expiring, index);
        let mut filled = vec![b"HSET".to_vec(), name.clone()];
        filled.extend(Writer::parts(Kind::Expiring, time, 0, FIXED));
        self.pending.push(request(&["MULTI"]));
        self.pending.push(request(&[b"DEL".as_slice(), &name]));
        self.pending.push(filled);
        let time = time.to_string().into_bytes();
        self.pending.push(vec![b"PEXPIREAT".to_vec(), name, time]);
        self.pending.push(request(&["EXEC"]));
    }

    /// Puts a hash of a new version into `database`, at once.
    fn put_in(&mut self, database: u8, kind: Kind, index: u64, version: u64) -> Result<(), String> {
        let mut filled = vec![b"HSET".to_vec(), self.name(kind, index)];
        filled.extend(Writer::parts(kind, version, 0, FIXED));
        self.ask(database, &[filled])
    }

    fn change_flushed(&mut self, index: u64) -> Result<(), String> {
        if self.number == 0 && self.random.one_in(20) {
            return self.ask(FLUSHED, &[request(&["FLUSHDB"])]);
        }
        let version = self.next(0, 0);
        self.put_in(FLUSHED, Kind::Flushed, index, version)
    }

    /// Only one writer swaps, and only its keys are in those databases.
    fn change_swapped(&mut self, index: u64, side: u64) -> Result<(), String> {
        if self.number > 0 {
            return Ok(());
        }
        let version = self.next(side, 0);
        let database = SWAPPED[(side ^ self.first_side) as usize];
        self.put_in(database, Kind::Swapped, index, version)
    }

    fn swap(&mut self) -> Result<(), String> {
        self.first_side ^= 1;
        let [one, other] = SWAPPED.map(|database| database.to_string());
        self.ask(SWAPPED[0], &[request(&["SWAPDB", &one, &other])])
    }

    fn renew_window(&mut self, index: u64, length: u64) {
        let (first, before) = self.windows[index as usize];
        let first = first + before;
        self.windows[index as usize] = (first, length);
        self.pending.push(request(&["MULTI"]));
        self.push(Kind::Window, index, "DEL", Vec::new());
        let elements = (first..first + length).map(|number| element(index, number)).collect();
        self.push(Kind::Window, index, "RPUSH", elements);
        self.pending.push(request(&["EXEC"]));
    }

    fn change_window(&mut self, index: u64) {
        if self.random.one_in(40) {
            let kinds = if self.random.one_in(6) { WINDOWS.len() } else { 3 };
            let length = self.random.pick(&WINDOWS[..kinds]);
            return self.renew_window(index, length);
        }
        let (first, length) = self.windows[index as usize];
        let end = first + length;
        let length = match self.random.below(12) {
            0 => self.random.pick(&WINDOWS[..3]),
            _ => length,
        };
        // It goes on by some, and is then as long as it is to be.
        let end = end + 1 + self.random.below(length.min(6));
        let begin = first.max(end.saturating_sub(length));
        let is_grown = length > end - begin;
        let end = if is_grown { begin + length } else { end };
        let (old_first, old_length) = (first, self.windows[index as usize].1);
        self.windows[index as usize] = (begin, end - begin);
        let new = (old_first + old_length..end).map(|number| element(index, number)).collect();
        self.pending.push(request(&["MULTI"]));
        self.push(Kind::Window, index, "RPUSH", new);
        let dropped = (begin - old_first).to_string().into_bytes();
        match self.random.one_in(2) {
            true => self.push(Kind::Window, index, "LTRIM", vec![dropped, b"-1".to_vec()]),
            false if begin > old_first => self.push(Kind::Window, index, "LPOP", vec![dropped]),
            false => {}
        }
        self.pending.push(request(&["EXEC"]));
    }

    fn turn(&mut self, index: u64) {
        let name = self.name(Kind::Ring, index);
        let ends = if self.random.one_in(2) { ["LEFT", "RIGHT"] } else { ["RIGHT", "LEFT"] };
        let words = [b"LMOVE".as_slice(), &name, &name, ends[0].as_bytes(), ends[1].as_bytes()];
        self.pending.push(request(&words));
    }

    fn change_set(&mut self, kind: Kind, index: u64) {
        let chosen = &mut self.chosen[usize::from(kind == Kind::Texts)][index as usize];
        let before = *chosen;
        *chosen = self.random.below(1 << PAIRS);
        let (old, new) = (before, *chosen);
        let changed: Vec<u64> = (0..PAIRS).filter(|pair| (old ^ new) >> pair & 1 == 1).collect();
        let members = |bits: u64, pairs: &[u64]| -> Vec<Vec<u8>> {
            pairs.iter().map(|&pair| member(kind, index, pair, bits >> pair & 1)).collect()
        };
        self.pending.push(request(&["MULTI"]));
        let choice = self.random.below(12);
        if choice < 2 {
            self.push(kind, index, "DEL", Vec::new());
            self.push(kind, index, "SADD", members(new, &Vec::from_iter(0..PAIRS)));
        } else {
            if choice == 2 {
                let count = self.random.pick(&[3, 3, 3, 30, 30, 600]);
                let more = (0..count).map(|more| format!("more:{more}").into_bytes()).collect();
                self.push(kind, index, "SADD", more);
            }
            if !changed.is_empty() {
                self.push(kind, index, "SREM", members(old, &changed));
                self.push(kind, index, "SADD", members(new, &changed));
            }
        }
        self.pending.push(request(&["EXEC"]));
    }

    fn send(&mut self) -> Result<(), String> {
        let pending = std::mem::take(&mut self.pending);
        self.ask(DATABASE, &pending)
    }

    fn ask(&mut self, database: u8, requests: &[Request]) -> Result<(), String> {
        self.run.requests.fetch_add(requests.len() as u64, Ordering::Relaxed);
        let connection = &mut self.connections[usize::from(database)];
        let lost = |error: std::io::Error| format!("the server is gone: {error}");
        connection.send(&harness::encode(requests)).map_err(lost)?;
        for request in requests {
            let reply = connection.read().map_err(lost)?.value;
            let replies = match &reply {
                Value::Array(replies) => replies,
                other => std::slice::from_ref(other),
            };
            if replies.iter().any(|reply| matches!(reply, Value::Error(_))) {
                let name = String::from_utf8_lossy(&request[0]).into_owned();
                return Err(format!("{name} was answered by {reply:?}"));
            }
        }
        Ok(())
    }
}
