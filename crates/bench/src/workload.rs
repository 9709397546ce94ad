//! The requests of a load: those of one kind, ready to be copied, and the expected replies.

use std::fmt;
use std::str::FromStr;

use anyhow::bail;
use base::prng::Prng;
use resp::encode_command;

use crate::key_distribution::{KeyChooser, KeyDistribution, write_digits};
use crate::recipes::{self, Recipe};
use crate::skim::Shape;

/// Keys that one request may name.
const KEYS_PER_REQUEST_MAX: usize = 10_000;

/// One kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// PING as an inline request.
    PingInline,
    /// PING as an array.
    Ping,
    /// SET of one key.
    Set,
    /// GET of one key.
    Get,
    /// INCR of one counter; counters have keys of their own.
    Incr,
    /// MSET of so many keys.
    Mset(usize),
    /// MGET of so many keys.
    Mget(usize),
    /// GET in so many of 100 requests, SET in the others.
    Mixed(u8),
    /// What a row of the table `commands` repeats.
    Recipe(&'static Recipe),
}

impl FromStr for Operation {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Operation> {
        let number = |digits: &str| digits.parse::<usize>().ok();
        let operation = match text {
            "ping-inline" => Operation::PingInline,
            "ping" => Operation::Ping,
            "set" => Operation::Set,
            "get" => Operation::Get,
            "incr" => Operation::Incr,
            _ if recipes::named(text).is_some() => {
                Operation::Recipe(recipes::named(text).expect("it was found"))
            }
            _ => match (text.strip_prefix("mset"), text.strip_prefix("mget")) {
                (Some(digits), _) => Operation::Mset(number(digits).unwrap_or(0)),
                (_, Some(digits)) => Operation::Mget(number(digits).unwrap_or(0)),
                _ => match text.strip_prefix("mixed:").and_then(number) {
                    Some(percent @ 0..=100) => Operation::Mixed(percent as u8),
                    _ => bail!(
                        "'{text}' is none of ping-inline, ping, set, get, incr, mset<keys>, \
                         mget<keys>, mixed:<percent of GET>, or a row of the table 'commands'"
                    ),
                },
            },
        };
        match operation {
            Operation::Mset(keys) | Operation::Mget(keys)
                if !(1..=KEYS_PER_REQUEST_MAX).contains(&keys) =>
            {
                bail!("'{text}': a request names 1 to {KEYS_PER_REQUEST_MAX} keys")
            }
            operation => Ok(operation),
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operation::PingInline => f.write_str("PING inline"),
            Operation::Ping => f.write_str("PING"),
            Operation::Set => f.write_str("SET"),
            Operation::Get => f.write_str("GET"),
            Operation::Incr => f.write_str("INCR"),
            Operation::Mset(keys) => write!(f, "MSET {keys}"),
            Operation::Mget(keys) => write!(f, "MGET {keys}"),
            Operation::Mixed(percent) => write!(f, "GET {percent} % SET"),
            Operation::Recipe(recipe) => f.write_str(recipe.name),
        }
    }
}

/// Requests over a set of keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Workload {
    /// What each request does.
    pub operation: Operation,
    /// Number of keys.
    pub key_count: u64,
    /// Bytes of a key, at least 5 and enough for its number behind a prefix of 4.
    pub key_bytes: usize,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// How keys are chosen.
    pub distribution: KeyDistribution,
}

impl Workload {
    /// Checks that keys are long enough for their numbers.
    ///
    /// # Errors
    /// When they are not.
    pub fn check(&self) -> anyhow::Result<()> {
        let digits = (self.key_count.max(1) - 1).checked_ilog10().unwrap_or(0) as usize + 1;
        if self.key_bytes < PREFIX_BYTES + digits {
            let needed = PREFIX_BYTES + digits;
            bail!("{} keys need {needed} bytes each, not {}", self.key_count, self.key_bytes);
        }
        Ok(())
    }

    /// Returns the requests of the operation, in turn.
    fn templates(&self) -> Vec<Template> {
        let value = vec![b'x'; self.value_bytes];
        let [key, counter] = [b"key:", b"ctr:"].map(|prefix| self.key(prefix));
        let one = |arguments: &[&[u8]], due| vec![self.template(arguments, due)];
        match self.operation {
            Operation::PingInline => {
                let bytes = b"PING\r\n".to_vec();
                vec![Template { bytes, digits: vec![], due: Due::Marker(b'+') }]
            }
            Operation::Ping => one(&[b"PING"], Due::Marker(b'+')),
            Operation::Set => one(&[b"SET", &key, &value], Due::Marker(b'+')),
            Operation::Get => one(&[b"GET", &key], Due::Bulk),
            Operation::Incr => one(&[b"INCR", &counter], Due::Marker(b':')),
            Operation::Mset(count) => {
                let pairs = std::iter::repeat_n([&key[..], &value[..]], count).flatten();
                let arguments: Vec<&[u8]> = std::iter::once(&b"MSET"[..]).chain(pairs).collect();
                one(&arguments, Due::Marker(b'+'))
            }
            Operation::Mget(count) => {
                let keys = std::iter::repeat_n(&key[..], count);
                let arguments: Vec<&[u8]> = std::iter::once(&b"MGET"[..]).chain(keys).collect();
                one(&arguments, Due::Bulks(count as i64))
            }
            Operation::Mixed(_) => vec![
                self.template(&[b"GET", &key], Due::Bulk),
                self.template(&[b"SET", &key, &value], Due::Marker(b'+')),
            ],
            Operation::Recipe(recipe) => {
                let step = |(request, due): &(&str, Due)| {
                    let words: Vec<Vec<u8>> =
                        request.split(' ').map(|word| self.word(word, &value)).collect();
                    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
                    self.template(&words, *due)
                };
                recipe.steps.iter().map(step).collect()
            }
        }
    }

    /// Returns a word of a recipe as it is sent.
    fn word(&self, word: &str, value: &[u8]) -> Vec<u8> {
        if let Some(rest) = word.strip_prefix("MIDDLE") {
            let beyond: u64 = rest.strip_prefix(':').map_or(0, |digits| {
                digits.parse().expect("a recipe says how far beyond the middle")
            });
            return (self.key_count / 2 + beyond).to_string().into_bytes();
        }
        match word.strip_suffix('*') {
            Some(prefix) if !prefix.is_empty() => {
                self.key(prefix.as_bytes().try_into().expect("a prefix has four bytes"))
            }
            _ if word == "VALUE" => value.to_vec(),
            _ if let Some(bytes) = word.strip_prefix("VALUE:") => {
                vec![b'x'; bytes.parse().expect("a recipe says a number of bytes")]
            }
            _ => word.as_bytes().to_vec(),
        }
    }

    /// Returns a key whose number is to be filled in.
    fn key(&self, prefix: &[u8; PREFIX_BYTES]) -> Vec<u8> {
        [&prefix[..], &vec![KEY_DIGIT_MARK; self.key_bytes - PREFIX_BYTES]].concat()
    }

    fn template(&self, arguments: &[&[u8]], due: Due) -> Template {
        let mut bytes = Vec::new();
        encode_command(arguments, &mut bytes);
        let digit_bytes = self.key_bytes - PREFIX_BYTES;
        let mut digits = Vec::new();
        let mut position = 0;
        while let Some(offset) = bytes[position..].iter().position(|&b| b == KEY_DIGIT_MARK) {
            digits.push(position + offset);
            position += offset + digit_bytes;
        }
        Template { bytes, digits, due }
    }
}

const PREFIX_BYTES: usize = 4;
/// Stands for a digit of a key in a template; occurs nowhere else in one.
const KEY_DIGIT_MARK: u8 = 0;

/// A request whose keys are filled in after it was copied.
#[derive(Debug)]
struct Template {
    bytes: Vec<u8>,
    /// Where the digits of each key begin.
    digits: Vec<usize>,
    due: Due,
}

/// The reply that a request is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Anything but an error that begins with this byte of RESP.
    Marker(u8),
    /// A value, or null for an absent key.
    Bulk,
    /// So many values or nulls.
    Bulks(i64),
}

/// What a reply came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// What was asked for.
    Right,
    /// Right, but a key was absent.
    Missing,
    /// An error, another type or another length.
    Wrong,
}

/// Writes the requests of one thread.
#[derive(Debug)]
pub struct Writer {
    keys: KeyChooser,
    digit_bytes: usize,
    value_bytes: u64,
    templates: Vec<Template>,
    choice: TemplateChoice,
    /// The key of the next cycle.
    cycle_key: u64,
    key_count: u64,
}

/// Which of its templates a writer takes.
#[derive(Clone, Copy, Debug)]
enum TemplateChoice {
    /// The only one.
    Only,
    /// The first in so many of 100 requests, the second in the others.
    Mixed(u64),
    /// One after the other, all with one key.
    Cycle,
}

/// Where a connection is in the cycle of its requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct CyclePosition {
    step: usize,
    key: u64,
}

impl Writer {
    /// Returns the writer of one thread; see [`KeyChooser::new`] for `first_key` and `seed`.
    pub fn new(workload: &Workload, first_key: u64, seed: u64) -> Writer {
        let templates = workload.templates();
        let choice = match workload.operation {
            Operation::Mixed(percent) => TemplateChoice::Mixed(u64::from(percent)),
            Operation::Recipe(recipe) if recipe.is_cycle => TemplateChoice::Cycle,
            _ => TemplateChoice::Only,
        };
        Writer {
            keys: KeyChooser::new(workload.distribution, workload.key_count, first_key, seed),
            digit_bytes: workload.key_bytes - PREFIX_BYTES,
            value_bytes: workload.value_bytes as u64,
            templates,
            choice,
            cycle_key: match workload.distribution {
                KeyDistribution::Sequential => first_key % workload.key_count,
                _ => Prng::new(seed).below(workload.key_count),
            },
            key_count: workload.key_count,
        }
    }

    /// Appends the next request of the connection at `position` to `out` and returns the reply that
    /// it is due.
    #[inline]
    pub fn append(&mut self, position: &mut CyclePosition, out: &mut Vec<u8>) -> Due {
        let step = match self.choice {
            TemplateChoice::Only => 0,
            TemplateChoice::Mixed(percent) => usize::from(!self.keys.chance(percent)),
            TemplateChoice::Cycle => self.advance(position),
        };
        let template = &self.templates[step];
        let start = out.len();
        out.extend_from_slice(&template.bytes);
        for &offset in &template.digits {
            let index = match self.choice {
                TemplateChoice::Cycle => position.key,
                _ => self.keys.next_index(),
            };
            let at = start + offset;
            write_digits(index, &mut out[at..at + self.digit_bytes]);
        }
        template.due
    }

    /// Returns the step at `position`, which moves on. A cycle begins with a key that no other has
    /// until all have been taken.
    fn advance(&mut self, position: &mut CyclePosition) -> usize {
        if position.step == 0 {
            position.key = self.cycle_key;
            self.cycle_key = (self.cycle_key + 1) % self.key_count;
        }
        let step = position.step;
        position.step = (step + 1) % self.templates.len();
        step
    }

    /// Judges the reply to a request that was due `due`.
    #[inline]
    pub fn judge(&self, due: Due, shape: &Shape) -> Verdict {
        let is_right = shape.error_count == 0
            && match due {
                Due::Marker(marker) => shape.marker == marker,
                Due::Bulk => {
                    shape.null_count == 1
                        || (shape.marker == b'$' && shape.bulk_bytes == self.value_bytes)
                }
                Due::Bulks(count) => {
                    shape.marker == b'*'
                        && shape.number == count
                        && shape.bulk_count + shape.null_count == count as u64
                        && shape.bulk_bytes == shape.bulk_count * self.value_bytes
                }
            };
        let is_missing = !matches!(due, Due::Marker(_)) && shape.null_count > 0;
        match (is_right, is_missing) {
            (false, _) => Verdict::Wrong,
            (true, false) => Verdict::Right,
            (true, true) => Verdict::Missing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skim::Skimmer;

    fn workload(operation: Operation) -> Workload {
        Workload {
            operation,
            key_count: 1000,
            key_bytes: 8,
            value_bytes: 3,
            distribution: KeyDistribution::Sequential,
        }
    }

    fn check(operation: &str, expected: &[u8]) {
        let operation: Operation = operation.parse().unwrap();
        let mut writer = Writer::new(&workload(operation), 7, 0);
        let mut out = Vec::new();
        writer.append(&mut CyclePosition::default(), &mut out);
        assert_eq!(out.escape_ascii().to_string(), expected.escape_ascii().to_string());
    }

    #[test]
    fn requests_are_written_with_their_keys() {
        check("ping-inline", b"PING\r\n");
        check("ping", b"*1\r\n$4\r\nPING\r\n");
        check("set", b"*3\r\n$3\r\nSET\r\n$8\r\nkey:0007\r\n$3\r\nxxx\r\n");
        check("get", b"*2\r\n$3\r\nGET\r\n$8\r\nkey:0007\r\n");
        check("incr", b"*2\r\n$4\r\nINCR\r\n$8\r\nctr:0007\r\n");
        check("mget2", b"*3\r\n$4\r\nMGET\r\n$8\r\nkey:0007\r\n$8\r\nkey:0008\r\n");
        check("mset1", b"*3\r\n$4\r\nMSET\r\n$8\r\nkey:0007\r\n$3\r\nxxx\r\n");
        check("mixed:0", b"*3\r\n$3\r\nSET\r\n$8\r\nkey:0007\r\n$3\r\nxxx\r\n");
        check(
            "setrange",
            b"*4\r\n$8\r\nSETRANGE\r\n$8\r\nkey:0007\r\n$1\r\n8\r\n$8\r\nxxxxxxxx\r\n",
        );
        check("mixed:100", b"*2\r\n$3\r\nGET\r\n$8\r\nkey:0007\r\n");
        check(
            "zrange-10-one-sorted-set",
            b"*4\r\n$6\r\nZRANGE\r\n$4\r\nzset\r\n$3\r\n500\r\n$3\r\n509\r\n",
        );
    }

    #[test]
    fn every_recipe_is_written() {
        for recipe in recipes::all().chain(recipes::FILLS) {
            let templates = workload(Operation::Recipe(recipe)).templates();
            assert_eq!(templates.len(), recipe.steps.len(), "{}", recipe.name);
        }
        let head = b"*12\r\n$4\r\nXADD\r\n$3\r\nlog\r\n$6\r\nMAXLEN\r\n$1\r\n~\r\n$6\r\n100000\r\n";
        let tail = b"$1\r\n*\r\n$4\r\nkind\r\n$5\r\nclick\r\n$5\r\nplace\r\n$4\r\noslo\r\n\
            $5\r\ncount\r\n$2\r\n12\r\n";
        check("xadd", &[&head[..], tail].concat());
    }

    #[test]
    fn a_cycle_stays_at_its_key() {
        let mut writer = Writer::new(&workload("set-getdel".parse().unwrap()), 0, 5);
        let (mut first, mut second) = (CyclePosition::default(), CyclePosition::default());
        let mut request = |position: &mut CyclePosition| {
            let mut out = Vec::new();
            let due = writer.append(position, &mut out);
            let text = String::from_utf8(out).unwrap();
            let words: Vec<&str> = text.split("\r\n").collect();
            (words[2].to_owned(), words[4].to_owned(), due)
        };
        let (set, key, due) = request(&mut first);
        assert_eq!((set.as_str(), due), ("SET", Due::Marker(b'+')));
        let (_, other, _) = request(&mut second);
        assert_ne!(key, other, "two connections are at two keys");
        let (getdel, same, due) = request(&mut first);
        assert_eq!((getdel.as_str(), same, due), ("GETDEL", key.clone(), Due::Marker(b'$')));
        assert_ne!(request(&mut first).1, key);
    }

    #[test]
    fn what_is_no_operation_is_refused() {
        for text in ["delete", "mget", "mget0", "mset10001", "mixed", "mixed:101"] {
            assert!(text.parse::<Operation>().is_err(), "{text}");
        }
    }

    #[test]
    fn keys_too_short_for_their_number_are_refused() {
        let fits = workload(Operation::Get);
        assert!(Workload { key_count: 10_000, ..fits }.check().is_ok());
        assert!(Workload { key_count: 10_001, ..fits }.check().is_err());
    }

    fn judge(operation: &str, reply: &[u8]) -> Verdict {
        let mut writer = Writer::new(&workload(operation.parse().unwrap()), 0, 0);
        let due = writer.append(&mut CyclePosition::default(), &mut Vec::new());
        let mut verdict = None;
        Skimmer::default().feed(reply, |shape| verdict = Some(writer.judge(due, shape)));
        verdict.unwrap()
    }

    #[test]
    fn replies_are_judged_by_type_and_length() {
        assert_eq!(judge("set", b"+OK\r\n"), Verdict::Right);
        assert_eq!(judge("set", b":1\r\n"), Verdict::Wrong);
        assert_eq!(judge("set", b"-OOM\r\n"), Verdict::Wrong);
        assert_eq!(judge("incr", b":1\r\n"), Verdict::Right);
        assert_eq!(judge("get", b"$3\r\nxxx\r\n"), Verdict::Right);
        assert_eq!(judge("get", b"$4\r\nxxxx\r\n"), Verdict::Wrong);
        assert_eq!(judge("get", b"$-1\r\n"), Verdict::Missing);
        assert_eq!(judge("mget2", b"*2\r\n$3\r\nxxx\r\n$3\r\nxxx\r\n"), Verdict::Right);
        assert_eq!(judge("mget2", b"*2\r\n$3\r\nxxx\r\n$-1\r\n"), Verdict::Missing);
        assert_eq!(judge("mget2", b"*2\r\n$3\r\nxxx\r\n$2\r\nxx\r\n"), Verdict::Wrong);
        assert_eq!(judge("mget2", b"*1\r\n$3\r\nxxx\r\n"), Verdict::Wrong);
    }
}
