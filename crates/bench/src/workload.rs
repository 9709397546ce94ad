//! What a load asks for: the requests of one kind, ready to be copied, and the replies due.

use std::fmt;
use std::str::FromStr;

use anyhow::bail;
use resp::encode_command;

use crate::keys::{Distribution, KeyChooser, write_digits};
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
            _ => match (text.strip_prefix("mset"), text.strip_prefix("mget")) {
                (Some(digits), _) => Operation::Mset(number(digits).unwrap_or(0)),
                (_, Some(digits)) => Operation::Mget(number(digits).unwrap_or(0)),
                _ => match text.strip_prefix("mixed:").and_then(number) {
                    Some(percent @ 0..=100) => Operation::Mixed(percent as u8),
                    _ => bail!(
                        "'{text}' is none of ping-inline, ping, set, get, incr, mset<keys>, \
                         mget<keys>, mixed:<percent of GET>"
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
    pub distribution: Distribution,
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

    fn template(&self, operation: Operation) -> Template {
        let prefix: &[u8; PREFIX_BYTES] =
            if operation == Operation::Incr { b"ctr:" } else { b"key:" };
        let key = [&prefix[..], &vec![KEY_DIGIT_MARK; self.key_bytes - PREFIX_BYTES]].concat();
        let value = vec![b'x'; self.value_bytes];
        let (arguments, due): (Vec<&[u8]>, Due) = match operation {
            Operation::PingInline => {
                return Template { bytes: b"PING\r\n".to_vec(), digits: vec![], due: Due::Simple };
            }
            Operation::Ping => (vec![b"PING"], Due::Simple),
            Operation::Set => (vec![b"SET", &key, &value], Due::Simple),
            Operation::Get => (vec![b"GET", &key], Due::Bulk),
            Operation::Incr => (vec![b"INCR", &key], Due::Integer),
            Operation::Mset(count) => {
                let pairs = std::iter::repeat_n([&key[..], &value[..]], count).flatten();
                (std::iter::once(&b"MSET"[..]).chain(pairs).collect(), Due::Simple)
            }
            Operation::Mget(count) => {
                let keys = std::iter::repeat_n(&key[..], count);
                (std::iter::once(&b"MGET"[..]).chain(keys).collect(), Due::Bulks(count as i64))
            }
            Operation::Mixed(_) => unreachable!("a mix is made of two templates"),
        };
        let mut bytes = Vec::new();
        encode_command(&arguments, &mut bytes);
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
    /// A simple string.
    Simple,
    /// An integer.
    Integer,
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
    first: Template,
    /// The other half of a mix, and how many of 100 requests are of the first.
    second: Option<(Template, u64)>,
}

impl Writer {
    /// Returns the writer of one thread; see [`KeyChooser::new`] for `first_key` and `seed`.
    pub fn new(workload: &Workload, first_key: u64, seed: u64) -> Writer {
        let (first, second) = match workload.operation {
            Operation::Mixed(percent) => {
                let second = workload.template(Operation::Set);
                (workload.template(Operation::Get), Some((second, u64::from(percent))))
            }
            operation => (workload.template(operation), None),
        };
        Writer {
            keys: KeyChooser::new(workload.distribution, workload.key_count, first_key, seed),
            digit_bytes: workload.key_bytes - PREFIX_BYTES,
            value_bytes: workload.value_bytes as u64,
            first,
            second,
        }
    }

    /// Appends one request to `out` and returns the reply that it is due.
    #[inline]
    pub fn append(&mut self, out: &mut Vec<u8>) -> Due {
        let template = match &self.second {
            Some((second, percent)) if !self.keys.chance(*percent) => second,
            _ => &self.first,
        };
        let start = out.len();
        out.extend_from_slice(&template.bytes);
        for &offset in &template.digits {
            let index = self.keys.next_index();
            let at = start + offset;
            write_digits(index, &mut out[at..at + self.digit_bytes]);
        }
        template.due
    }

    /// Judges the reply to a request that was due `due`.
    #[inline]
    pub fn judge(&self, due: Due, shape: &Shape) -> Verdict {
        let is_right = shape.error_count == 0
            && match due {
                Due::Simple => shape.marker == b'+',
                Due::Integer => shape.marker == b':',
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
        match (is_right, shape.null_count) {
            (false, _) => Verdict::Wrong,
            (true, 0) => Verdict::Right,
            (true, _) => Verdict::Missing,
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
            distribution: Distribution::Sequential,
        }
    }

    fn check(operation: &str, expected: &[u8]) {
        let operation: Operation = operation.parse().unwrap();
        let mut writer = Writer::new(&workload(operation), 7, 0);
        let mut out = Vec::new();
        writer.append(&mut out);
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
        check("mixed:100", b"*2\r\n$3\r\nGET\r\n$8\r\nkey:0007\r\n");
    }

    #[test]
    fn what_is_no_operation_is_refused() {
        for text in ["del", "mget", "mget0", "mset10001", "mixed", "mixed:101"] {
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
        let due = writer.append(&mut Vec::new());
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
