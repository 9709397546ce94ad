//! Random requests to Forebay and to memcached: equal replies.
//!
//! Unique numbers are others on each side: they are compared by what they admit. Times to live are
//! compared as none, over or to come. `FOREBAY_MEMCACHED_COMMANDS` is the number of requests,
//! `FOREBAY_MEMCACHED_SEED` the seed.
//!
//! Left out: flush_all, which memcached applies to items of seconds that are over; `E`, which
//! 1.6.18 does not have, of the meta commands that have it here; `T` of `ma`, which it loses where
//! it does not count in place.

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use base::prng::Prng;
use harness::number;

use super::{Wire, forebay, memcached};

const COMMANDS_DEFAULT: u64 = 40_000;
/// Requests that are sent together.
const ROUND_COMMANDS_MAX: u64 = 24;

/// A server, and the unique numbers that it gave.
struct Side {
    wire: Wire,
    uniques: HashMap<String, Vec<String>>,
}

impl Side {
    fn new(port: u16) -> Side {
        Side { wire: Wire::connect(port), uniques: HashMap::new() }
    }

    /// Sends `lines` with unique numbers of this side; returns the replies without them.
    fn ask(&mut self, lines: &[Vec<Piece>]) -> String {
        let mut bytes = Vec::new();
        for piece in lines.iter().flatten() {
            match piece {
                Piece::Text(text) => bytes.extend_from_slice(text),
                Piece::Unique(key, age) => {
                    let known = self.uniques.get(key).map_or(&[][..], |known| known);
                    let index = known.len().checked_sub(1 + age);
                    let unique = index.map_or("0", |index| &known[index]);
                    bytes.extend_from_slice(unique.as_bytes());
                }
            }
        }
        // Ends a line also where a length that is one too long has taken the end of the last.
        bytes.extend_from_slice(b"\r\n");
        let replies = self.wire.ask(&bytes);
        let lines = replies.split_inclusive(|byte| *byte == b'\n');
        lines.map(|line| self.normal(line)).collect()
    }

    /// Returns a line of a reply without what may differ, and notes a unique number.
    fn normal(&mut self, line: &[u8]) -> String {
        let line = line.escape_ascii().to_string();
        let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let end = words.last_mut().expect("a line has a word");
        let ending = match end.strip_suffix("\\r\\n") {
            Some(word) => {
                *end = word.to_owned();
                "\\r\\n\n"
            }
            None => "",
        };
        let mut found = None;
        match words[0].as_str() {
            "VALUE" if words.len() == 5 => {
                found = Some((words[1].clone(), std::mem::replace(&mut words[4], "#".into())));
            }
            "HD" | "VA" => {
                let key = words.iter().find_map(|word| word.strip_prefix('k')).map(str::to_owned);
                for word in &mut words[1..] {
                    let (letter, rest) = word.split_at(word.len().min(1));
                    if rest.parse::<u64>().is_err() {
                        continue;
                    }
                    match letter {
                        "c" => {
                            found = key.clone().map(|key| (key, rest.to_owned()));
                            *word = "c#".to_owned();
                        }
                        "t" if rest != "0" => *word = "t#".to_owned(),
                        "l" => *word = "l#".to_owned(),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
        if let Some((key, unique)) = found {
            let known = self.uniques.entry(key).or_default();
            if known.last() != Some(&unique) {
                known.push(unique);
            }
        }
        words.join(" ") + ending
    }
}

/// A part of a request.
#[derive(Clone, Debug)]
enum Piece {
    Text(Vec<u8>),
    /// A unique number that was replied for the key: the last one, or one before it.
    Unique(String, usize),
}

/// Draws requests.
struct Draw {
    random: Prng,
}

impl Draw {
    fn pick<'t>(&mut self, words: &[&'t str]) -> &'t str {
        words[self.random.below(words.len() as u64) as usize]
    }

    fn chance(&mut self, one_in: u64) -> bool {
        self.random.one_in(one_in)
    }

    fn key(&mut self) -> String {
        self.pick(&["a", "b", "c", "dd", "key:5", "0", "longer_key_name"]).to_owned()
    }

    fn exptime(&mut self) -> &'static str {
        self.pick(&[
            "0",
            "0",
            "0",
            "1000",
            "100000",
            "-1",
            "4294967295",
            "-9223372036854775808",
            "9223372036854775808",
            "2147483647",
            "3000000",
            "x",
            "1.5",
            "+9999",
        ])
    }

    fn flags(&mut self) -> &'static str {
        self.pick(&["0", "0", "1", "7", "65536", "4294967295", "4294967296", "-1", "f", ""])
    }

    fn number(&mut self) -> &'static str {
        self.pick(&[
            "0",
            "1",
            "2",
            "10",
            "99",
            "18446744073709551615",
            "18446744073709551616",
            "-1",
            "z",
        ])
    }

    fn data(&mut self) -> Vec<u8> {
        if self.chance(3) {
            // None with a minus: of a large number memcached looks for one behind the value,
            // too, in what an older item has left there.
            let digits = ["0", "1", "9", "10", "100", "99", "18446744073709551615", "5 ", " 5"];
            return self.pick(&digits).as_bytes().to_vec();
        }
        let length = match self.random.below(8) {
            0 => 0,
            1..=5 => self.random.below(40),
            6 => self.random.below(600),
            // A line that is longer than a line may be ends the session here.
            _ => self.random.below(1_900),
        };
        (0..length).map(|at| b'a' + ((at * 7 + length) % 26) as u8).collect()
    }

    /// Returns the length that a request says `data` has: mostly the true one.
    fn length(&mut self, data: &[u8]) -> String {
        match self.random.below(60) {
            0 => (data.len() + 1).to_string(),
            1 => data.len().saturating_sub(1).to_string(),
            2 => "-1".to_owned(),
            3 => "x".to_owned(),
            4 => (data.len() + (1 << 32)).to_string(),
            _ => data.len().to_string(),
        }
    }

    fn noreply(&mut self) -> &'static str {
        if self.chance(6) { " noreply" } else { "" }
    }

    fn request(&mut self) -> Vec<Piece> {
        match self.random.below(20) {
            0..=3 => self.storage(),
            4 => self.cas(),
            5..=7 => self.retrieval(),
            8 => self.arithmetic(),
            9 => self.removal(),
            10..=12 => self.meta_get(),
            13..=15 => self.meta_set(),
            16 => self.meta_delete(),
            17 | 18 => self.meta_arithmetic(),
            _ => self.odd(),
        }
    }

    fn storage(&mut self) -> Vec<Piece> {
        let verb = self.pick(&["set", "set", "add", "replace", "append", "prepend"]);
        let (key, flags, exptime) = (self.key(), self.flags(), self.exptime());
        let data = self.data();
        let (length, noreply) = (self.length(&data), self.noreply());
        text(&[
            format!("{verb} {key} {flags} {exptime} {length}{noreply}\r\n").as_bytes(),
            &data,
            b"\r\n",
        ])
    }

    fn cas(&mut self) -> Vec<Piece> {
        let (key, flags, exptime) = (self.key(), self.flags(), self.exptime());
        let data = self.data();
        let head = format!("cas {key} {flags} {exptime} {} ", data.len());
        let age = self.random.below(3) as usize;
        let tail = [self.noreply().as_bytes(), b"\r\n", &data, b"\r\n"].concat();
        vec![Piece::Text(head.into_bytes()), Piece::Unique(key, age), Piece::Text(tail)]
    }

    fn retrieval(&mut self) -> Vec<Piece> {
        let verb = self.pick(&["get", "gets", "gets", "gat", "gats"]);
        let mut line = verb.to_owned();
        if verb.starts_with("gat") {
            line += &format!(" {}", self.exptime());
        }
        for _ in 0..self.random.below(5) {
            line += &format!(" {}", self.key());
        }
        text(&[line.as_bytes(), b"\r\n"])
    }

    fn arithmetic(&mut self) -> Vec<Piece> {
        let verb = self.pick(&["incr", "decr"]);
        let line = format!("{verb} {} {}{}\r\n", self.key(), self.number(), self.noreply());
        text(&[line.as_bytes()])
    }

    fn removal(&mut self) -> Vec<Piece> {
        let key = self.key();
        let line = match self.random.below(4) {
            0 => format!("touch {key} {}{}\r\n", self.exptime(), self.noreply()),
            1 => format!("delete {key} {}{}\r\n", self.pick(&["0", "1", "x"]), self.noreply()),
            _ => format!("delete {key}{}\r\n", self.noreply()),
        };
        text(&[line.as_bytes()])
    }

    /// Returns a key with the flags that say how it is written.
    fn meta_key(&mut self) -> (String, &'static str) {
        match self.random.below(8) {
            0 => ("cTE=".to_owned(), " b"),
            1 => (self.pick(&["cTI=", "cTM=", "!", "YQ", "="]).to_owned(), " b"),
            _ => (self.key(), ""),
        }
    }

    /// Returns flags, with that of the key among them, where it has one: memcached reads them in
    /// their order, and decodes the key where it finds its flag.
    fn flags_with_key(&mut self, from: &[&'static str], most: u64, binary: &str) -> String {
        let count = self.random.below(most);
        let mut flags: Vec<String> = (0..count).map(|_| format!(" {}", self.pick(from))).collect();
        if !binary.is_empty() {
            // What shows the key is left out: memcached shows it as whoever stored the item has
            // written it.
            flags.retain(|flag| flag != " k");
            let place = self.random.below(flags.len() as u64 + 1) as usize;
            flags.insert(place, binary.to_owned());
        }
        flags.concat()
    }

    fn meta_get(&mut self) -> Vec<Piece> {
        let (key, binary) = self.meta_key();
        let all = [
            "v",
            "v",
            "s",
            "f",
            "t",
            "h",
            "l",
            "k",
            "q",
            "Oabc",
            "O123456789",
            "T0",
            "T1000",
            "N0",
            "N1000",
            "R30",
            "R2000",
            "c",
            "x",
            "Tx",
            "S1",
            "I",
            "D1",
            "E",
            "E1",
            "Ex",
        ];
        let flags = self.flags_with_key(&all, 6, binary);
        let seen = if binary.is_empty() && self.chance(2) && !flags.contains(['c', 'k']) {
            " k c"
        } else {
            ""
        };
        text(&[format!("mg {key}{flags}{seen}\r\n").as_bytes()])
    }

    fn meta_set(&mut self) -> Vec<Piece> {
        let (key, binary) = self.meta_key();
        let all = [
            "F1",
            "F4294967295",
            "T0",
            "T1000",
            "T-1",
            "MS",
            "ME",
            "MA",
            "MP",
            "MR",
            "MX",
            "M",
            "I",
            "q",
            "k",
            "Oxyz",
            "Fx",
            "z",
        ];
        let flags = self.flags_with_key(&all, 5, binary);
        let data = self.data();
        let length = self.length(&data);
        let head = format!("ms {key} {length}{flags}");
        let tail = [b"\r\n", &data[..], b"\r\n"].concat();
        if binary.is_empty() && self.chance(3) {
            let age = self.random.below(3) as usize;
            let head = Piece::Text(format!("{head} C").into_bytes());
            return vec![head, Piece::Unique(key, age), Piece::Text(tail)];
        }
        text(&[head.as_bytes(), &tail])
    }

    fn meta_delete(&mut self) -> Vec<Piece> {
        let (key, binary) = self.meta_key();
        let all = ["q", "I", "I", "T1000", "T0", "k", "Oq", "v"];
        let flags = self.flags_with_key(&all, 5, binary);
        let head = format!("md {key}{flags}");
        if binary.is_empty() && self.chance(3) {
            let age = self.random.below(2) as usize;
            let head = Piece::Text(format!("{head} C").into_bytes());
            return vec![head, Piece::Unique(key, age), Piece::Text(b"\r\n".to_vec())];
        }
        text(&[head.as_bytes(), b"\r\n"])
    }

    fn meta_arithmetic(&mut self) -> Vec<Piece> {
        let (key, binary) = self.meta_key();
        let all = [
            "v",
            "v",
            "t",
            "c",
            "k",
            "q",
            "N0",
            "N1000",
            "J5",
            "J18446744073709551615",
            "Jx",
            "D2",
            "D18446744073709551615",
            "Dx",
            "MI",
            "MD",
            "M+",
            "M-",
            "MX",
            "Oz",
        ];
        let flags = self.flags_with_key(&all, 6, binary);
        text(&[format!("ma {key}{flags}\r\n").as_bytes()])
    }

    /// Returns a line that is none, or hardly one.
    fn odd(&mut self) -> Vec<Piece> {
        let lines = [
            "\r\n",
            "x\r\n",
            "bogus\r\n",
            "get\r\n",
            "gets \r\n",
            "gat\r\n",
            "set\r\n",
            "set a\r\n",
            "set a 0 0\r\n",
            "incr a\r\n",
            "incr a 1 2 3\r\n",
            "delete\r\n",
            "delete a 0 0 noreply\r\n",
            "touch a\r\n",
            "mg\r\n",
            "ms\r\n",
            "ms a\r\n",
            "md\r\n",
            "ma\r\n",
            "mx a\r\n",
            "mg a\n",
            "get a\n",
            " get a\r\n",
            "get  a   b\r\n",
            "GET a\r\n",
            "verbosity\r\n",
            "verbosity 1\r\n",
            "verbosity 1 noreply\r\n",
            "verbosity noreply\r\n",
            "version noreply\r\n",
            "cas a 0 0 1\r\n",
            "flush_all x\r\n",
            "mg a v v\r\n",
            "mg a 1 2 3 4 5 6 7 8 9 0 a b c d e f g h i j\r\n",
            "ms a 1 v v\r\nx\r\n",
            "shutdown\r\n",
            "add a 0 0 1 2 3\r\n",
            "me\r\n",
            "set a 0 0 3 noreply x\r\n",
            // Of an item that is there, memcached notes that it was fetched before it refuses.
            "mg absent Oabcdefghijklmnopqrstuvwxyzabcdefg\r\n",
            "mg ! b Oabcdefghijklmnopqrstuvwxyzabcdefg\r\n",
            "mg ! Oabcdefghijklmnopqrstuvwxyzabcdefg v b\r\n",
            "mg ==== b\r\n",
            "mg A=== v b\r\n",
        ];
        let line = self.pick(&lines);
        text(&[line.as_bytes()])
    }
}

/// Returns whether `request` is arithmetic. Memcached counts in place only where no reply that
/// waits to be sent refers to the item, so that it is a round by itself.
fn is_arithmetic(request: &[Piece]) -> bool {
    let Some(Piece::Text(text)) = request.first() else { return false };
    [&b"incr "[..], b"decr ", b"ma "].iter().any(|verb| text.starts_with(verb))
}

/// Returns whether memcached, which replied `expected` to `round`, took a number of 2^63 and more
/// for none: it looks for a minus in the memory behind such a number, too, which may have one by
/// chance. The key is then deleted on both sides.
fn took_number_for_none(
    round: &[Vec<Piece>],
    expected: &str,
    ours: &mut Side,
    theirs: &mut Side,
) -> bool {
    let [request] = round else { return false };
    let (true, [Piece::Text(line)]) = (is_arithmetic(request), &request[..]) else { return false };
    if !expected.starts_with("CLIENT_ERROR cannot increment or decrement non-numeric value") {
        return false;
    }
    let line = String::from_utf8_lossy(line);
    let mut words = line.split_ascii_whitespace().skip(1);
    let key = words.next().expect("arithmetic is on a key");
    // The key is in base64 where the request says so.
    let form = if line.starts_with("ma ") && words.any(|flag| flag == "b") { " b" } else { "" };
    let ask = |side: &mut Side, line: String| side.ask(&[text(&[line.as_bytes()])]);
    let item = ask(theirs, format!("mg {key}{form} v\r\n"));
    let value = item.lines().nth(1).and_then(|value| value.trim_end_matches("\\r\\n").parse().ok());
    if value.is_none_or(|value: u64| value < 1 << 63) {
        return false;
    }
    for side in [ours, theirs] {
        ask(side, format!("md {key}{form}\r\n"));
    }
    true
}

fn text(parts: &[&[u8]]) -> Vec<Piece> {
    vec![Piece::Text(parts.concat())]
}

fn seed_of_this_run() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_nanos() as u64)
}

#[test]
fn replies_equal_those_of_memcached() {
    let commands = number("FOREBAY_MEMCACHED_COMMANDS").unwrap_or(COMMANDS_DEFAULT);
    let seed = number("FOREBAY_MEMCACHED_SEED").unwrap_or_else(seed_of_this_run);
    println!("FOREBAY_MEMCACHED_SEED={seed}");
    let (_server, our_port) = forebay(&[]);
    // Its threads refer to items at times, which are then not counted in place.
    let threads = ["-o", "no_lru_maintainer,no_lru_crawler"];
    let (_peer, their_port) = memcached(&threads);
    let (mut ours, mut theirs) = (Side::new(our_port), Side::new(their_port));
    let mut draw = Draw { random: Prng::new(seed) };
    let (mut done, mut next) = (0, None::<Vec<Piece>>);
    while done < commands {
        let count = draw.random.below(ROUND_COMMANDS_MAX) + 1;
        let mut lines: Vec<Vec<Piece>> = next.take().into_iter().collect();
        while lines.is_empty() || lines.len() < count as usize && !is_arithmetic(&lines[0]) {
            match draw.request() {
                request if is_arithmetic(&request) && !lines.is_empty() => {
                    next = Some(request);
                    break;
                }
                request => lines.push(request),
            }
        }
        let count = lines.len() as u64;
        let (found, expected) = (ours.ask(&lines), theirs.ask(&lines));
        let is_same =
            found == expected || took_number_for_none(&lines, &expected, &mut ours, &mut theirs);
        if !is_same {
            let shown: String = lines.iter().map(|line| shown(line)).collect();
            panic!(
                "seed {seed}, after {done} requests:\n{shown}\nForebay:\n{}\nmemcached:\n{}",
                marked(&found, &expected),
                marked(&expected, &found)
            );
        }
        done += count;
    }
    println!("{done} requests");
}

#[test]
fn memcached_takes_a_large_number_for_none_where_a_minus_lies_behind_it() {
    let (_server, our_port) = forebay(&[]);
    let (_peer, their_port) = memcached(&["-o", "no_lru_maintainer,no_lru_crawler"]);
    let (mut ours, mut theirs) = (Side::new(our_port), Side::new(their_port));
    let round = |line: &[u8]| vec![text(&[line])];
    let mut ask = |line: &[u8]| (ours.ask(&round(line)), theirs.ask(&round(line)));
    // The second item has the memory of the first.
    let minuses = "-".repeat(28);
    ask(format!("set a 0 0 28\r\n{minuses}\r\n").as_bytes());
    ask(b"delete a\r\n");
    ask(b"set a 0 0 20\r\n18446744073709551615\r\n");
    let count = b"decr a 1\r\n";
    let (found, expected) = ask(count);
    assert_eq!(found.lines().next(), Some("18446744073709551614\\r\\n"));
    assert!(took_number_for_none(&round(count), &expected, &mut ours, &mut theirs), "{expected}");
    let get = round(b"get a\r\n");
    assert_eq!(ours.ask(&get), theirs.ask(&get), "the key is gone on both sides");
}

/// Returns `one` with a mark before each line that is another in `other`.
fn marked(one: &str, other: &str) -> String {
    let mut others = other.lines();
    let mark = |line: &str| {
        let is_same = others.next() == Some(line);
        format!("{} {}\n", if is_same { ' ' } else { '>' }, &line[..line.len().min(120)])
    };
    one.lines().map(mark).collect()
}

fn shown(line: &[Piece]) -> String {
    let mut text = String::new();
    for piece in line {
        match piece {
            Piece::Text(bytes) => text += &bytes[..bytes.len().min(160)].escape_ascii().to_string(),
            Piece::Unique(key, age) => text += &format!("<unique {age} of {key}>"),
        }
    }
    text + "\n"
}
