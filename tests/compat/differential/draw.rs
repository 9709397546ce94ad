//! The words of requests, at random: `command::generate` walks the rows and asks for them.

use base::prng::Prng;
use command::generate::{Draw, PAYLOAD_NAME, coordinate, payload};
use command::{Arg, ArgKind, Command, Group};
use harness::Request;

use super::compare::SECONDS_MAX;
use super::sequence::{Profile, Theme};
use crate::compat::dumped_values;

/// Draws the words of requests that both servers answer alike.
#[derive(Debug)]
pub struct Words {
    prng: Prng,
    profile: Profile,
    theme: Theme,
    keys: Vec<Vec<u8>>,
    /// Times drawn so far.
    times: u64,
    /// Which keys the command's group uses most.
    affinity: Option<u64>,
    /// The command is one of streams.
    is_of_streams: bool,
}

impl Draw for Words {
    const OPTION_ONE_IN: u64 = 3;

    fn random(&mut self) -> &mut Prng {
        &mut self.prng
    }

    /// What came after Redis 7.0, or with Valkey, or is Forebay's own, the other server does not
    /// know. What depends on the clock is not drawn, nor what waits; of a stream in full Redis 7.2
    /// says more.
    fn knows(&self, arg: &Arg) -> bool {
        let is_apart =
            ["auto-id", "full-block"].contains(&arg.name) || ["BLOCK", "COST"].contains(&arg.token);
        !is_apart && !arg.since.starts_with(['8', '9']) && !arg.since.starts_with("7.4")
    }

    fn begin(&mut self, command: &Command) {
        self.is_of_streams = command.group == Group::Stream;
        // Where few groups share few keys, all of these are theirs.
        self.affinity = match self.theme {
            Theme::Groups(_) => None,
            Theme::All | Theme::Collections => command.group.key_affinity(),
        };
    }

    fn word(&mut self, word: &'static str) -> Vec<u8> {
        match self.prng.below(8) {
            0 => word.to_ascii_uppercase().into_bytes(),
            1 => word
                .bytes()
                .map(|byte| match self.prng.one_in(2) {
                    true => byte.to_ascii_uppercase(),
                    false => byte.to_ascii_lowercase(),
                })
                .collect(),
            _ => word.as_bytes().to_vec(),
        }
    }

    fn value(&mut self, arg: &Arg) -> Vec<u8> {
        match arg.kind {
            _ if !(arg.words.is_empty() || arg.is_open && self.prng.one_in(4)) => {
                let word = self.prng.pick(arg.words);
                self.spread(word)
            }
            ArgKind::Key(_) => self.key(),
            ArgKind::Integer | ArgKind::UnixTime => self.integer(arg),
            ArgKind::Double => match coordinate(&mut self.prng, arg) {
                Some(coordinate) if !self.prng.one_in(60) => coordinate.into_bytes(),
                _ => self.double(),
            },
            ArgKind::Pattern | ArgKind::KeyPattern(_) => self.pattern(),
            ArgKind::String if arg.name == PAYLOAD_NAME => self.payload(),
            ArgKind::String => self.string(),
            ArgKind::PureToken | ArgKind::Block(_) | ArgKind::OneOf(_) => {
                unreachable!("the walk takes groups apart")
            }
        }
    }
}

impl Words {
    /// Returns the words of `seed`, of an epoch of `theme` about the keys `keys`.
    pub fn new(seed: u64, profile: Profile, theme: Theme, keys: Vec<Vec<u8>>) -> Words {
        Words {
            prng: Prng::new(seed),
            profile,
            theme,
            keys,
            times: 0,
            affinity: None,
            is_of_streams: false,
        }
    }

    /// Returns `word`, or often another identity where it is one that many entries have nearly, in
    /// an epoch whose streams grow long.
    fn spread(&mut self, word: &str) -> Vec<u8> {
        let head = word.trim_end_matches(|letter: char| letter.is_ascii_digit());
        let is_spread = matches!(self.theme, Theme::Groups(_)) && head.ends_with("4-");
        match is_spread && head != word && self.prng.one_in(2) {
            true => format!("{head}{}", self.prng.below(80)).into_bytes(),
            false => word.as_bytes().to_vec(),
        }
    }

    /// Returns a request that makes a stream longer, or has a group of its consumers read on.
    pub fn of_stream(&mut self) -> Request {
        let key = self.key();
        let mut request = match self.prng.below(8) {
            0 => {
                let (group, id) = (self.prng.pick(&["g", "h"]), self.prng.pick(&["0", "$"]));
                harness::words(&format!("XGROUP CREATE KEY {group} {id} MKSTREAM"))
            }
            1..=2 => {
                let (group, consumer) =
                    (self.prng.pick(&["g", "h"]), self.prng.pick(&["al", "bob"]));
                let count = 1 + self.prng.below(9);
                let head = format!("XREADGROUP GROUP {group} {consumer} COUNT {count}");
                harness::words(&format!("{head} STREAMS KEY >"))
            }
            _ => {
                let mut request = harness::words("XADD KEY 4-*");
                for field in self.prng.pick(&[&["f"][..], &["f"], &["f", "other"], &["other"]]) {
                    request.extend([field.as_bytes().to_vec(), self.string()]);
                }
                request
            }
        };
        request.iter_mut().filter(|word| *word == b"KEY").for_each(|word| word.clone_from(&key));
        request
    }

    /// Returns `request` with something wrong with it, most times.
    pub fn spoil(&mut self, mut request: Request) -> Request {
        let index = self.prng.below(request.len() as u64) as usize;
        match self.prng.below(6) {
            0 => drop(request.pop()),
            1 => drop(request.remove(index)),
            2 => request.push(self.stray()),
            3 => request.insert(index, self.stray()),
            4 => request[index] = self.stray(),
            _ => request[index].extend_from_slice(b"x"),
        }
        if request.is_empty() { vec![b"nothing".to_vec()] } else { request }
    }

    /// Returns a request that gives a collection or a HyperLogLog many parts, or takes many, so
    /// that it changes its encoding.
    pub fn filling(&mut self) -> Request {
        const SHAPES: [(&str, Group); 13] = [
            ("RPUSH", Group::List),
            ("LPUSH", Group::List),
            ("SADD", Group::Set),
            ("SADD", Group::Set),
            ("HSET", Group::Hash),
            ("ZADD", Group::SortedSet),
            ("SREM", Group::Set),
            ("HDEL", Group::Hash),
            ("ZREM", Group::SortedSet),
            ("GEOADD", Group::Geo),
            ("GEOADD", Group::Geo),
            ("PFADD", Group::HyperLogLog),
            ("PFADD", Group::HyperLogLog),
        ];
        let (name, group) = self.prng.pick(&SHAPES);
        self.affinity = group.key_affinity();
        let mut request = vec![name.as_bytes().to_vec(), self.key()];
        let (count, step) = (1 + self.prng.below(200), 1 + self.prng.below(3));
        // Numbers of each width of an intset; what is alike is taken and replaced.
        let (first, scale) = (self.prng.below(100), self.prng.pick(&[1, 1, 300, 70_000, 1 << 33]));
        let are_texts = self.prng.one_in(3);
        for index in 0..count {
            let number = (first + index * step) * scale;
            match name {
                "ZADD" => request.push((number / 4).to_string().into_bytes()),
                "GEOADD" => request.extend(self.place()),
                _ => {}
            }
            request.push(match are_texts {
                true => format!("part:{number}").into_bytes(),
                false => number.to_string().into_bytes(),
            });
            if name == "HSET" {
                request.push(self.string());
            }
        }
        request
    }

    /// Returns a longitude and a latitude, rarely those of many others.
    fn place(&mut self) -> [Vec<u8>; 2] {
        if self.prng.one_in(8) {
            return [self.prng.below(3), self.prng.below(3)].map(|it| it.to_string().into_bytes());
        }
        [Arg::double("longitude"), Arg::double("latitude")]
            .map(|arg| coordinate(&mut self.prng, &arg).expect("it is one").into_bytes())
    }

    /// Returns a request that changes a byte of a HyperLogLog, if its key holds one: that of its
    /// form, those that are kept as they are, or those of its count. Where runs are no longer those
    /// of all registers the servers differ in what they have added before they find out;
    /// compat/scripts/hyperloglogs.txt has them.
    pub fn damaging(&mut self) -> Request {
        self.affinity = Group::HyperLogLog.key_affinity();
        let offset = self.prng.pick(&[4, 5, 8, 9, 14, 15]);
        // A dense one that is said to be sparse has such runs.
        let byte = match offset {
            4 => self.prng.pick(&[0, 2, 0x7f, 0x80, 0xff]),
            _ => self.prng.pick(&[0, 1, 2, 0x7f, 0x80, 0xff]),
        };
        let mut request = vec![b"SETRANGE".to_vec(), self.key()];
        request.extend([offset.to_string().into_bytes(), vec![byte]]);
        request
    }

    /// Returns one of the keys, the first ones more often.
    fn key(&mut self) -> Vec<u8> {
        let count = self.keys.len() as u64;
        let bound = 1 + self.prng.below(count);
        let mut number = self.prng.below(bound);
        // Each type has keys of its own, most times, or few requests would find theirs.
        if let Some(rest) = self.affinity
            && !self.prng.one_in(10)
        {
            let own = number - number % Group::KEY_AFFINITIES + rest;
            number = if own < count { own } else { rest.min(count - 1) };
        }
        self.keys[number as usize].clone()
    }

    /// Returns the bytes of a value that both servers know, or rarely of none.
    fn payload(&mut self) -> Vec<u8> {
        let payload = loop {
            let payload = payload(&mut self.prng, 100);
            if let Some(payload) = dumped_values::for_redis_7_0(&payload) {
                break payload;
            }
        };
        match self.prng.one_in(20) {
            true => payload[1..].to_vec(),
            false => payload,
        }
    }

    /// Returns a number that makes sense, or rarely one at the limits.
    fn integer(&mut self, arg: &Arg) -> Vec<u8> {
        if let Some(time) = self.time(arg) {
            return time.to_string().into_bytes();
        }
        const LIMITS: [i64; 6] = [i64::MIN, i64::MAX, -1, i64::MAX - 1, 1 << 40, i64::MIN + 1];
        let (low, high) = arg.range;
        let number = match self.prng.below(30) {
            0 if !arg.is_bounded => self.prng.pick(&LIMITS),
            1..10 => self.prng.pick(&[0, 1, 2, -1, 7, 10, 100, -100]).clamp(low, high),
            10..13 => self.prng.pick(&[low, high]),
            _ => {
                let span = high.abs_diff(low).saturating_add(1).min(1000);
                low.max(-500).min(high).saturating_add_unsigned(self.prng.below(span)).min(high)
            }
        };
        number.to_string().into_bytes()
    }

    /// Returns a time that is far away or long past, for the arguments that are times: replies
    /// must not depend on how fast the servers are.
    fn time(&mut self, arg: &Arg) -> Option<i64> {
        const FAR_UNIX: [i64; 3] = [4_000_000_000, 9_999_999_999, 4_000_000_001];
        let name = arg.name;
        if name == "ttl" {
            // As a point in time a span is long past.
            return Some(if self.prng.one_in(3) { 0 } else { self.far_seconds() * 1000 });
        }
        let is_absolute = matches!(arg.kind, ArgKind::UnixTime);
        if !is_absolute && !["seconds", "milliseconds"].contains(&name) {
            return None;
        }
        let scale = if name.contains("milliseconds") { 1000 } else { 1 };
        let is_odd = self.prng.one_in(12);
        Some(match (is_odd, is_absolute) {
            (false, true) => self.prng.pick(&FAR_UNIX) * scale,
            (false, false) => self.far_seconds() * scale,
            (true, true) if self.profile == Profile::Expired => {
                self.prng.pick(&[1, 1000, 1_000_000])
            }
            (true, false) if self.profile == Profile::Expired => self.prng.pick(&[0, -1, -1000]),
            (true, _) => self.prng.pick(&[0, -1, i64::MIN, i64::MAX, i64::MAX / 1000]),
        })
    }

    /// Returns a time span that no other request of the epoch has: whether one of two is later, as
    /// EXPIRE GT asks, must not hang on the millisecond in which they arrive.
    fn far_seconds(&mut self) -> i64 {
        const SPACING: u64 = 2 * SECONDS_MAX.unsigned_abs();
        self.times += 1;
        // The factor has no divisor in common with the bound: each product is another one.
        (1_000_000 + (self.times * 7_919 % 100_003) * SPACING) as i64
    }

    fn double(&mut self) -> Vec<u8> {
        const DOUBLES: [&str; 14] = [
            "0",
            "1.5",
            "-1.5",
            "3.0e3",
            "1e-17",
            "0.1",
            "-0.30000000000000004",
            "1e300",
            "-1e300",
            "123456789.123456789",
            "17179869184.000001",
            "inf",
            "nan",
            "1e5000",
        ];
        match self.prng.below(3) {
            0 => self.prng.pick(&DOUBLES).as_bytes().to_vec(),
            1 => ((self.prng.below(2001) as f64 - 1000.0) / 8.0).to_string().into_bytes(),
            _ => format!("{}.{}", self.prng.below(1000), self.prng.below(1_000_000)).into_bytes(),
        }
    }

    fn pattern(&mut self) -> Vec<u8> {
        const PATTERNS: [&str; 9] =
            ["*", "k*", "k?", "k[0-4]*", "{tag}*", "[^k]*", "*\\**", "", "*1*"];
        self.prng.pick(&PATTERNS).as_bytes().to_vec()
    }

    /// Returns a value: numbers and short texts mostly, all lengths at which encodings change.
    fn string(&mut self) -> Vec<u8> {
        const WORDS: [&str; 12] = [
            "",
            "0",
            "-0",
            "007",
            "9223372036854775807",
            "-9223372036854775808",
            " 1",
            "1.5",
            "9223372036854775808",
            "1e3",
            "nan",
            "0x10",
        ];
        let length = match self.prng.below(40) {
            0..10 => return self.prng.below(100_000).to_string().into_bytes(),
            10..13 => return self.prng.pick(&WORDS).as_bytes().to_vec(),
            13..30 => self.prng.below(20),
            30..34 => 40 + self.prng.below(10),
            34..38 => self.prng.below(600),
            38 => self.prng.below(9000),
            // A waiting XREADGROUP reads more than 64 KiB a moment later.
            _ if self.is_of_streams || matches!(self.theme, Theme::Groups(_)) => {
                self.prng.below(12_000)
            }
            _ if self.prng.one_in(20) => 60_000 + self.prng.below(10_000),
            _ => self.prng.below(50),
        };
        let mut bytes = vec![0; length as usize];
        self.prng.fill(&mut bytes);
        if self.prng.one_in(2) {
            bytes.iter_mut().for_each(|byte| *byte = b'a' + *byte % 26);
        }
        bytes
    }

    /// Returns a word that may mean something in the wrong place.
    fn stray(&mut self) -> Vec<u8> {
        const WORDS: [&str; 16] = [
            "",
            "x",
            "NX",
            "xx",
            "EX",
            "get",
            "KEEPTTL",
            "1",
            "-1",
            "0",
            "ch",
            "GT",
            "abc",
            "1.5",
            "99999999999999999999",
            "MATCH",
        ];
        match self.prng.below(4) {
            0 => self.key(),
            1 => self.string(),
            _ => self.prng.pick(&WORDS).as_bytes().to_vec(),
        }
    }
}
