//! Commands that loop over strings, on strings of all sizes up to some hundred kilobytes: the
//! random differential run generates short ones, and the loops take other paths for long ones.
//!
//! A failure prints the seed: `FOREBAY_LARGE_SEED=<seed>` repeats it. `FOREBAY_LARGE_ROUNDS` is the
//! number of rounds.

use base::prng::Prng;
use harness::{Connection, Kind, Request, Server, number, request};

const KEYS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const ROUNDS_DEFAULT: u64 = 60;
/// LCS makes a table of all pairs in redis-server.
const LCS_BYTES_MAX: u64 = 3_000;

struct Pair {
    ours: Connection,
    oracle: Connection,
    prng: Prng,
    seed: u64,
}

#[test]
fn loops_over_large_strings_give_what_redis_server_gives() {
    let servers = [Kind::Forebay, Kind::Redis].map(Server::start);
    let first = number("FOREBAY_LARGE_SEED").unwrap_or(u64::from(std::process::id()) << 20);
    let rounds = number("FOREBAY_LARGE_ROUNDS").unwrap_or(ROUNDS_DEFAULT);
    for seed in first..first + rounds {
        let (ours, oracle) = (servers[0].unix(), servers[1].unix());
        Pair { ours, oracle, prng: Prng::new(seed), seed }.run();
    }
}

impl Pair {
    fn run(&mut self) {
        for key in KEYS {
            let value = self.value(300_000);
            self.same(request(&[b"SET".as_slice(), key.as_bytes(), &value]));
        }
        for _ in 0..20 {
            let request = self.bits();
            self.same(request);
        }
        for key in KEYS {
            self.same(request(&["GET", key]));
            self.same(request(&["OBJECT", "ENCODING", key]));
        }
        for key in ["a", "b"] {
            let value = self.value(LCS_BYTES_MAX);
            self.same(request(&[b"SET".as_slice(), key.as_bytes(), &value]));
        }
        for options in [&[][..], &["LEN"], &["IDX"], &["IDX", "WITHMATCHLEN", "MINMATCHLEN", "3"]] {
            self.same(request(&[&["LCS", "a", "b"][..], options].concat()));
        }
    }

    fn same(&mut self, request: Request) {
        let (ours, oracle) = (self.ours.ask(&request), self.oracle.ask(&request));
        let shown: Vec<String> = request
            .iter()
            .map(|word| word[..word.len().min(60)].escape_ascii().to_string())
            .collect();
        let seed = self.seed;
        assert!(ours == oracle, "FOREBAY_LARGE_SEED={seed} {shown:?}\n{ours:?}\n{oracle:?}");
    }

    /// Returns bytes of a random length, few of them up to `length_max`: all alike, of few letters,
    /// or any.
    fn value(&mut self, length_max: u64) -> Vec<u8> {
        let bound = self.prng.pick(&[0, 9, 200, 5_000, length_max]).min(length_max);
        let length = self.prng.below(bound + 1) as usize;
        let same = self.prng.pick(&[0x00, 0xff, 0x61]);
        let mut bytes = vec![same; length];
        match self.prng.below(3) {
            0 => self.prng.fill(&mut bytes),
            1 => bytes.iter_mut().for_each(|byte| *byte = b'a' + self.prng.below(3) as u8),
            // One byte is another: BITPOS has something to look for.
            _ if length > 0 => bytes[self.prng.below(length as u64) as usize] ^= 0x10,
            _ => {}
        }
        bytes
    }

    fn bits(&mut self) -> Request {
        let mut words: Vec<String> = Vec::new();
        match self.prng.below(4) {
            0 => words.extend(["BITCOUNT".to_owned(), self.key()]),
            1 => {
                let bit = self.prng.pick(&["0", "1"]).to_owned();
                words.extend(["BITPOS".to_owned(), self.key(), bit]);
            }
            _ => {
                let operation = self.prng.pick(&["AND", "OR", "XOR", "NOT"]);
                words.extend(["BITOP".to_owned(), operation.to_owned(), self.key(), self.key()]);
                if operation != "NOT" {
                    words.extend((0..self.prng.below(4)).map(|_| self.key()).collect::<Vec<_>>());
                }
                return request(&words);
            }
        }
        if self.prng.one_in(2) {
            words.extend([self.position(), self.position()]);
            if self.prng.one_in(2) {
                words.push(self.prng.pick(&["BIT", "BYTE"]).to_owned());
            }
        }
        request(&words)
    }

    fn key(&mut self) -> String {
        self.prng.pick(&KEYS).to_owned()
    }

    fn position(&mut self) -> String {
        let bound = self.prng.pick(&[10, 10_000, 3_000_000]);
        (self.prng.below(2 * bound + 1) as i64 - bound as i64).to_string()
    }
}
