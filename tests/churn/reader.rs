//! A thread that reads in memory and judges each answer.

use std::time::{Duration, SystemTime};

use base::prng::Prng;
use client::{Client, Elements, SortedSetRange};

use super::WRITERS;
use super::content::{
    EXTRAS, FIXED, FLUSHED, KEYS, Kind, PAIRS, RING, SWAPPED, WINDOWS, extras, field_value, key,
    member, number_of, part_name, side, version_of,
};

/// A key that is asked for.
#[derive(Clone, Copy)]
struct Place {
    kind: Kind,
    writer: u64,
    index: u64,
    database: u8,
}

/// Asks for everything, believes nothing.
pub struct Reader {
    clients: [Client; 4],
    random: Prng,
    /// The latest version, or first number, of each key, for each side of a swap.
    seen: Vec<u64>,
    names: Vec<Vec<u8>>,
    fixed: Vec<String>,
    elements: Elements,
    scores: Vec<Option<f64>>,
    ranged: Vec<f64>,
    answers: Vec<bool>,
    value: Vec<u8>,
}

impl Reader {
    /// Returns a reader by `clients`, of each database one.
    pub fn new(clients: [Client; 4], seed: u64) -> Reader {
        let mut names = Vec::new();
        for (kind, _) in Kind::ALL {
            for writer in 0..WRITERS {
                names.extend((0..KEYS).map(|index| key(kind, writer, index).into_bytes()));
            }
        }
        Reader {
            clients,
            random: Prng::new(seed),
            seen: vec![0; 2 * names.len()],
            names,
            fixed: (0..FIXED).map(part_name).collect(),
            elements: Elements::new(),
            scores: Vec::new(),
            ranged: Vec::new(),
            answers: Vec::new(),
            value: Vec::new(),
        }
    }

    /// Makes one read.
    ///
    /// # Errors
    /// When its answer cannot be.
    pub fn step(&mut self) -> Result<(), String> {
        let kind = Kind::of(self.random.below(Kind::WEIGHTS));
        let writer = match kind {
            Kind::Swapped => 0,
            _ => self.random.below(WRITERS),
        };
        let database = match kind {
            Kind::Flushed => FLUSHED,
            Kind::Swapped => self.random.pick(&SWAPPED),
            _ => 0,
        };
        let place = Place { kind, writer, index: self.random.below(KEYS), database };
        let answer = match kind {
            Kind::SortedSet => self.read_sorted_set(place),
            Kind::Window => self.read_window(place),
            Kind::Ring => self.read_ring(place),
            Kind::Integers | Kind::Texts => self.read_set(place),
            _ => self.read_hash(place),
        };
        answer.map_err(|what| format!("{} in {database}: {what}", key(kind, writer, place.index)))
    }

    fn number(place: Place) -> usize {
        ((place.kind as u64 * WRITERS + place.writer) * KEYS + place.index) as usize
    }

    /// Checks that `version` is none before the one that was seen last.
    fn follow(&mut self, place: Place, version: u64) -> Result<(), String> {
        let side = if place.kind == Kind::Swapped { side(version) } else { 0 };
        let seen = &mut self.seen[2 * Reader::number(place) + side as usize];
        if version < *seen {
            return Err(format!("version {version} after {seen}"));
        }
        *seen = version;
        Ok(())
    }

    /// Returns how many parts a hash or sorted set of `version` has.
    fn part_count(place: Place, version: u64) -> u64 {
        let more = if place.kind == Kind::Expiring { 0 } else { extras(version) };
        FIXED + more
    }

    fn read_hash(&mut self, place: Place) -> Result<(), String> {
        let now = milliseconds();
        let version = match self.random.below(10) {
            0..3 => self.read_field(place)?,
            3..6 => self.read_fixed_fields(place)?,
            6 | 7 => self.read_all_fields(place)?,
            _ => return self.read_about_hash(place),
        };
        match version {
            None if place.kind.may_be_absent() => Ok(()),
            None => Err("absent".to_owned()),
            Some(time) if place.kind == Kind::Expiring && time < now => {
                Err(format!("there until {time}, and read at {now}"))
            }
            Some(version)
                if place.kind == Kind::Blinking && (version >> 4) % KEYS != place.index =>
            {
                Err(format!("version {version} is of another key"))
            }
            Some(version) => self.follow(place, version),
        }
    }

    fn read_field(&mut self, place: Place) -> Result<Option<u64>, String> {
        let field = self.random.below(FIXED);
        let client = &self.clients[usize::from(place.database)];
        let (name, field_name) = (&self.names[Reader::number(place)], part_name(field));
        let found = client.hget_into(name, field_name.as_bytes(), &mut self.value);
        match found.map_err(refused)? {
            true => version_of(&self.value, field).map(Some),
            false => Ok(None),
        }
    }

    fn read_fixed_fields(&mut self, place: Place) -> Result<Option<u64>, String> {
        let client = &self.clients[usize::from(place.database)];
        let mut fields: Vec<&[u8]> = self.fixed.iter().map(String::as_bytes).collect();
        fields.push(b"none");
        let name = &self.names[Reader::number(place)];
        client.hmget(name, &fields, &mut self.elements).map_err(refused)?;
        if self.elements.len() != fields.len() || self.elements.get(fields.len() - 1).is_some() {
            return Err(format!("HMGET: {:?}", shown(&self.elements)));
        }
        let Some(first) = self.elements.get(0) else {
            let is_absent = self.elements.iter().all(|value| value.is_none());
            return if is_absent { Ok(None) } else { Err(shown(&self.elements)) };
        };
        let version = version_of(first, 0)?;
        for field in 1..FIXED {
            let expected = field_value(version, field);
            if self.elements.get(field as usize) != Some(&expected) {
                return Err(format!("HMGET, version {version}: {}", shown(&self.elements)));
            }
        }
        Ok(Some(version))
    }

    fn read_all_fields(&mut self, place: Place) -> Result<Option<u64>, String> {
        let client = &self.clients[usize::from(place.database)];
        let name = &self.names[Reader::number(place)];
        client.hgetall(name, &mut self.elements).map_err(refused)?;
        let first = self.elements.pairs().find(|(field, _)| *field == b"a");
        let Some((_, first)) = first else {
            let is_empty = self.elements.is_empty();
            return if is_empty { Ok(None) } else { Err(shown(&self.elements)) };
        };
        let version = version_of(first, 0)?;
        let count = Reader::part_count(place, version);
        let mut sum = 0;
        for (field, value) in self.elements.pairs() {
            let index = index_of(field)?;
            sum += index;
            if field_value(version, index) != value {
                return Err(format!("HGETALL, version {version}: {}", shown(&self.elements)));
            }
        }
        // As many as there are to be, and each once.
        if self.elements.len() as u64 != 2 * count || sum != count * (count - 1) / 2 {
            return Err(format!("HGETALL, not {count} fields: {}", shown(&self.elements)));
        }
        Ok(Some(version))
    }

    fn read_about_hash(&mut self, place: Place) -> Result<(), String> {
        let client = &self.clients[usize::from(place.database)];
        let name = &self.names[Reader::number(place)];
        let may_be_absent = place.kind.may_be_absent();
        match self.random.below(4) {
            0 => {
                let count = client.hlen(name).map_err(refused)?;
                let is_known = EXTRAS.iter().any(|extras| FIXED + extras == count);
                let is_right = is_known || count == 0 && may_be_absent;
                is_right.then_some(()).ok_or_else(|| format!("HLEN {count}"))
            }
            1 => {
                let exists = client.hexists(name, b"bn").map_err(refused)?;
                let other = client.hexists(name, b"none").map_err(refused)?;
                let is_right = (exists || may_be_absent) && !other;
                is_right.then_some(()).ok_or_else(|| format!("HEXISTS {exists} {other}"))
            }
            2 => {
                let length = client.hstrlen(name, b"cnn").map_err(refused)?;
                let is_right = (2..60).contains(&length) || length == 0 && may_be_absent;
                is_right.then_some(()).ok_or_else(|| format!("HSTRLEN {length}"))
            }
            _ => {
                client.hvals(name, &mut self.elements).map_err(refused)?;
                let values = self.elements.iter().flatten();
                let versions: Result<Vec<u64>, String> = values.map(first_number).collect();
                let versions = versions?;
                let is_one = versions.windows(2).all(|pair| pair[0] == pair[1]);
                let count = versions.first().map(|version| Reader::part_count(place, *version));
                let is_right = is_one && count.unwrap_or(0) == versions.len() as u64;
                is_right.then_some(()).ok_or_else(|| format!("HVALS {}", shown(&self.elements)))
            }
        }
    }

    fn read_sorted_set(&mut self, place: Place) -> Result<(), String> {
        let client = &self.clients[usize::from(place.database)];
        let name = &self.names[Reader::number(place)];
        let mut members: Vec<&[u8]> = self.fixed.iter().map(String::as_bytes).collect();
        let version = match self.random.below(8) {
            0..3 => {
                members.push(b"none");
                client.zmscore(name, &members, &mut self.scores).map_err(refused)?;
                let [scores @ .., None] = &self.scores[..] else {
                    return Err(format!("ZMSCORE {:?}", self.scores));
                };
                if scores.len() as u64 != FIXED || scores.iter().any(|it| *it != scores[0]) {
                    return Err(format!("ZMSCORE {:?}", self.scores));
                }
                scores[0].ok_or("absent")?
            }
            3 | 4 => {
                let member = self.random.pick(&members);
                client.zscore(name, member).map_err(refused)?.ok_or("absent")?
            }
            5 | 6 => {
                let range = SortedSetRange::ranks(0, -1);
                let (members, scores) = (&mut self.elements, &mut self.ranged);
                client.zrange_with_scores(name, &range, members, scores).map_err(refused)?;
                let first = *scores.first().ok_or("absent")?;
                let count = Reader::part_count(place, first as u64);
                let are_members = members.iter().zip(0..).all(|(member, index)| {
                    member.is_some_and(|member| member == part_name(index).as_bytes())
                });
                let is_whole = [scores.len(), members.len()].iter().all(|it| *it as u64 == count);
                if !are_members || !is_whole || scores.iter().any(|score| *score != first) {
                    return Err(format!("ZRANGE, of {count}: {} {scores:?}", shown(members)));
                }
                first
            }
            _ => {
                let count = client.zcard(name).map_err(refused)?;
                let rank = client.zrank(name, b"cnn").map_err(refused)?;
                let is_known = EXTRAS.iter().any(|extras| FIXED + extras == count);
                let is_right = is_known && rank == Some(2);
                return is_right.then_some(()).ok_or(format!("ZCARD {count}, ZRANK {rank:?}"));
            }
        };
        self.follow(place, version as u64)
    }

    fn read_window(&mut self, place: Place) -> Result<(), String> {
        let client = &self.clients[usize::from(place.database)];
        let name = &self.names[Reader::number(place)];
        // Long windows are asked of the server, and seldom wholly.
        let (start, stop) = match self.random.below(12) {
            0..4 => (0, -1),
            4..6 => (0, 3),
            6..8 => (-3, -1),
            8 | 9 => {
                let element = client.lindex(name, 0).map_err(refused)?.ok_or("absent")?;
                let first = number_of(place.index, &element)?;
                return self.follow(place, first);
            }
            _ => {
                let length = client.llen(name).map_err(refused)?;
                let is_right = WINDOWS.contains(&length);
                return is_right.then_some(()).ok_or_else(|| format!("LLEN {length}"));
            }
        };
        client.lrange(name, start, stop, &mut self.elements).map_err(refused)?;
        let numbers = numbers(place.index, &self.elements)?;
        let first = *numbers.first().ok_or("absent")?;
        let is_right_length = match (start, stop) {
            (0, -1) => WINDOWS.contains(&(numbers.len() as u64)),
            (0, _) => numbers.len() == 4,
            _ => numbers.len() == 3,
        };
        if !is_right_length || numbers.windows(2).any(|pair| pair[0] + 1 != pair[1]) {
            return Err(format!("LRANGE {start} {stop}: {numbers:?}"));
        }
        if start == 0 { self.follow(place, first) } else { Ok(()) }
    }

    fn read_ring(&mut self, place: Place) -> Result<(), String> {
        let client = &self.clients[usize::from(place.database)];
        let name = &self.names[Reader::number(place)];
        client.lrange(name, 0, -1, &mut self.elements).map_err(refused)?;
        let numbers = numbers(place.index, &self.elements)?;
        let is_turned = numbers.windows(2).all(|pair| (pair[0] + 1) % RING == pair[1]);
        let is_right = numbers.len() as u64 == RING && is_turned;
        is_right.then_some(()).ok_or_else(|| format!("LRANGE of a ring: {numbers:?}"))
    }

    fn read_set(&mut self, place: Place) -> Result<(), String> {
        let client = &self.clients[usize::from(place.database)];
        let name = &self.names[Reader::number(place)];
        let Place { kind, index, .. } = place;
        match self.random.below(6) {
            0..3 => {
                let pairs: Vec<Vec<u8>> = (0..2 * PAIRS)
                    .map(|number| member(kind, index, number / 2, number % 2))
                    .collect();
                let members: Vec<&[u8]> = pairs.iter().map(Vec::as_slice).collect();
                client.smismember(name, &members, &mut self.answers).map_err(refused)?;
                let is_right = self.answers.len() as u64 == 2 * PAIRS
                    && self.answers.chunks(2).all(|pair| pair[0] != pair[1]);
                is_right.then_some(()).ok_or_else(|| format!("SMISMEMBER {:?}", self.answers))
            }
            3 | 4 => {
                client.smembers(name, &mut self.elements).map_err(refused)?;
                let mut found: Vec<&[u8]> = self.elements.iter().flatten().collect();
                found.retain(|member| !member.starts_with(b"more:"));
                found.sort_unstable();
                let has = |pair, which| {
                    found.binary_search(&&member(kind, index, pair, which)[..]).is_ok()
                };
                let is_right = found.len() as u64 == PAIRS
                    && (0..PAIRS).all(|pair| has(pair, 0) != has(pair, 1));
                is_right.then_some(()).ok_or_else(|| format!("SMEMBERS {}", shown(&self.elements)))
            }
            _ => {
                let count = client.scard(name).map_err(refused)?;
                let more = count.checked_sub(PAIRS);
                let is_right = more.is_some_and(|more| [0, 3, 30, 600].contains(&more));
                is_right.then_some(()).ok_or_else(|| format!("SCARD {count}"))
            }
        }
    }
}

fn refused(error: client::ClientError) -> String {
    format!("{error}")
}

fn shown(elements: &Elements) -> String {
    let text = |part: Option<&[u8]>| part.map(|part| part.escape_ascii().to_string());
    format!("{:?}", elements.iter().map(text).collect::<Vec<_>>())
}

fn numbers(key: u64, elements: &Elements) -> Result<Vec<u64>, String> {
    elements.iter().flatten().map(|element| number_of(key, element)).collect()
}

/// Returns the number that a value begins with.
fn first_number(value: &[u8]) -> Result<u64, String> {
    let digits = value.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let number = str::from_utf8(&value[..digits]).expect("digits are text").parse();
    number.map_err(|_| format!("no version: {}", value.escape_ascii()))
}

/// Returns which part of a hash has the name `field`.
fn index_of(field: &[u8]) -> Result<u64, String> {
    let text = str::from_utf8(field).unwrap_or_default();
    let index = match text.strip_prefix('x') {
        Some(number) => number.parse().ok(),
        None => (0..FIXED).find(|index| part_name(*index) == text),
    };
    index.ok_or_else(|| format!("no field: {}", field.escape_ascii()))
}

fn milliseconds() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.unwrap_or(Duration::ZERO).as_millis() as u64
}
