//! Memory of collections, of two servers in one run: many small ones, and a large one of each type.
//!
//! Each row starts every server anew, adds what the row is about, and compares resident memory and
//! used_memory with those of the empty server.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{bail, ensure};
use base::prng::Prng;
use resp::Value;
use serde_json::json;

use crate::accounting;
use crate::compare::progress;
use crate::record;
use crate::server_process::{ServerProcess, ServerSpec};
use crate::wire::Wire;

/// Elements of a small collection.
const SMALL_ELEMENTS: u64 = 5;
/// Elements that one request adds to a large collection, but for streams, whose entries come one by
/// one.
const REQUEST_ELEMENTS: u64 = 50;
/// Requests that travel together.
const BATCH_REQUESTS: u64 = 64;
/// How long a server may finish what it does in the background before it is measured.
const SETTLE: Duration = Duration::from_millis(1500);

/// What is measured.
#[derive(Clone, Debug)]
pub struct Collections {
    /// The servers, one after the other in each row; the first is compared with the second.
    pub servers: Vec<ServerSpec>,
    /// How many small collections there are, and how many elements a large one has.
    pub count: u64,
    /// Only the rows whose name contains this.
    pub filter: Option<String>,
    /// The scores in random order.
    pub seed: u64,
    /// The folder of the result file; without one nothing is recorded.
    pub results: Option<PathBuf>,
}

/// A load and what its memory may be.
struct Row {
    name: &'static str,
    command: &'static str,
    /// Whether all elements are in one collection.
    is_large: bool,
    /// How many elements a request adds to a large collection.
    request_elements: u64,
    /// Appends the words of element `number` of collection `key`.
    element: fn(key: u64, number: u64, random: &mut Prng, words: &mut Vec<String>),
    /// The most resident memory, in percent of the other server's.
    percent_max: u32,
}

/// What a server takes more than when it was empty, in bytes.
#[derive(Clone, Copy)]
struct Growth {
    resident: u64,
    used: u64,
}

const ROWS: [Row; 11] = [
    Row::small("hashes of 5", "HSET", 78, |key, number, _, words| {
        words.extend([format!("field{number}"), format!("value{:06}", (key + number) % 1_000_000)]);
    }),
    Row::small("sorted sets of 5", "ZADD", 78, |key, number, _, words| {
        let score = (31 * key + 7 * number) % 100_000;
        words.extend([score.to_string(), format!("member{number}")]);
    }),
    Row::small("lists of 5", "RPUSH", 75, |key, number, _, words| {
        words.push(format!("value{:06}", (key + number) % 1_000_000));
    }),
    Row::small("sets of 5", "SADD", 75, |key, number, _, words| {
        words.push(format!("member{number}{:04}", key % 10_000));
    }),
    Row::small("intsets of 5", "SADD", 75, |key, number, _, words| {
        words.push(((7 * key + 1000 * number) % 100_000).to_string());
    }),
    Row::large("sorted set, ascending", "ZADD", 55, |_, number, _, words| {
        words.extend([number.to_string(), member(number)]);
    }),
    Row::large("sorted set, random", "ZADD", 55, |_, number, random, words| {
        words.extend([random.below(1 << 40).to_string(), member(number)]);
    }),
    Row::large("hash", "HSET", 75, |_, number, _, words| {
        words.extend([member(number), format!("value:{number:010}")]);
    }),
    Row::large("set", "SADD", 75, |_, number, _, words| words.push(member(number))),
    Row::large("list", "RPUSH", 105, |_, number, _, words| words.push(member(number))),
    Row {
        request_elements: 1,
        ..Row::large("stream", "XADD", 100, |_, number, random, words| {
            let (user, price) = (random.below(100_000), random.below(1_000));
            words.push(format!("{}-{}", 1_700_000_000_000 + number / 3, number % 3));
            words.extend(["user".into(), format!("u{user}"), "page".into(), "/cart".into()]);
            words.extend(["price".into(), price.to_string()]);
        })
    },
];

/// Returns the element `number` of a large collection, 16 bytes long.
fn member(number: u64) -> String {
    format!("member:{number:09}")
}

type Element = fn(u64, u64, &mut Prng, &mut Vec<String>);

impl Row {
    const fn small(name: &'static str, command: &'static str, max: u32, element: Element) -> Row {
        Row { name, command, is_large: false, request_elements: 0, element, percent_max: max }
    }

    const fn large(name: &'static str, command: &'static str, max: u32, element: Element) -> Row {
        let request_elements = REQUEST_ELEMENTS;
        Row { name, command, is_large: true, request_elements, element, percent_max: max }
    }

    /// Returns the words of request `number`; `None` where there are enough elements.
    fn request(&self, number: u64, count: u64, random: &mut Prng) -> Option<Vec<String>> {
        let (key, elements) = match self.is_large {
            true => {
                let each = self.request_elements;
                (0, number * each..count.min((number + 1) * each))
            }
            false if number < count => (number, 0..SMALL_ELEMENTS),
            false => return None,
        };
        if elements.is_empty() {
            return None;
        }
        let mut words = vec![self.command.to_owned(), format!("key:{key:012}")];
        elements.for_each(|element| (self.element)(key, element, random, &mut words));
        Some(words)
    }
}

impl Collections {
    /// Runs it, prints its table and writes its file.
    ///
    /// # Errors
    /// When a server fails.
    pub fn run(&self) -> anyhow::Result<()> {
        ensure!(self.count > 0, "a number of collections is needed");
        let filter = self.filter.as_deref().unwrap_or("");
        let rows = ROWS.iter().filter(|row| row.name.contains(filter));
        let (mut lines, mut missed) = (Vec::new(), Vec::new());
        self.print_head();
        for row in rows {
            let growths = self.servers.iter().map(|spec| self.growth(row, spec));
            let growths: Vec<Growth> = growths.collect::<anyhow::Result<_>>()?;
            progress("");
            let ratio = ratio(&growths, |growth| growth.resident);
            let is_missed = ratio.is_some_and(|ratio| 100.0 * ratio > f64::from(row.percent_max));
            missed.extend(is_missed.then_some(row.name));
            self.print(row, &growths, ratio, is_missed);
            lines.push(line(row, &growths));
        }
        println!("\nbytes above the empty server's, for each small collection or element");
        match &*missed {
            [] if self.servers.len() < 2 => {}
            [] => println!("each row with a bound is within it"),
            missed => println!("above their bound: {}", missed.join(", ")),
        }
        let record = json!({
            "servers": self.servers.iter().map(ServerSpec::record).collect::<Vec<_>>(),
            "count": self.count,
            "seed": self.seed,
            "rows": lines,
        });
        record::keep(self.results.as_deref(), "memory-collections", record)
    }

    fn growth(&self, row: &Row, spec: &ServerSpec) -> anyhow::Result<Growth> {
        progress(&format!("{}: {}", row.name, spec.name));
        let server = ServerProcess::start(spec)?;
        let mut wire = Wire::connect(&server.unix())?;
        let look = |wire: &mut Wire| {
            std::thread::sleep(SETTLE);
            let used = accounting::used_memory(wire)?;
            anyhow::Ok(Growth { resident: accounting::resident(server.id())?.total, used })
        };
        let empty = look(&mut wire)?;
        self.add(row, &mut wire)?;
        let full = look(&mut wire)?;
        Ok(Growth {
            resident: full.resident.saturating_sub(empty.resident),
            used: full.used.saturating_sub(empty.used),
        })
    }

    /// Adds what `row` is about, many requests at once.
    fn add(&self, row: &Row, wire: &mut Wire) -> anyhow::Result<()> {
        let mut random = Prng::new(self.seed);
        let (mut number, mut added) = (0, 0);
        loop {
            let start = number;
            while number < start + BATCH_REQUESTS
                && let Some(words) = row.request(number, self.count, &mut random)
            {
                let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
                wire.queue(&words);
                number += 1;
            }
            if number == start {
                break;
            }
            wire.send()?;
            for _ in start..number {
                match wire.receive()? {
                    // Of a list it is the length, of others how many are new.
                    Value::Integer(count) if row.command == "RPUSH" && row.is_large => {
                        added = count as u64;
                    }
                    Value::Integer(count) => added += count as u64,
                    Value::Bulk(_) if row.command == "XADD" => added += 1,
                    other => bail!("{} answered {other:?}", row.command),
                }
            }
        }
        let wanted = self.count * if row.is_large { 1 } else { SMALL_ELEMENTS };
        ensure!(added == wanted, "{}: {added} of {wanted} elements were added", row.name);
        Ok(())
    }

    fn print_head(&self) {
        println!("{} collections, or elements of a large one\n", self.count);
        print!("{:<22}", "resident, used_memory");
        self.servers.iter().for_each(|spec| print!(" {:>20}", spec.name));
        println!("{:>9} {:>9} {:>7}", "ratio", "of used", "bound");
    }

    fn print(&self, row: &Row, growths: &[Growth], resident: Option<f64>, is_missed: bool) {
        let each = |bytes: u64| bytes as f64 / self.count as f64;
        print!("{:<22}", row.name);
        for growth in growths {
            print!(" {:>10.2} {:>9.2}", each(growth.resident), each(growth.used));
        }
        if let (Some(resident), Some(used)) = (resident, ratio(growths, |growth| growth.used)) {
            let bound = f64::from(row.percent_max) / 100.0;
            print!(" {resident:>8.3} {used:>9.3} {bound:>7.2}");
            print!("{}", if is_missed { "  NOT MET" } else { "" });
        }
        println!();
    }
}

/// Returns the first server's figure by the second's, where there are two.
fn ratio(growths: &[Growth], figure: impl Fn(&Growth) -> u64) -> Option<f64> {
    let [own, other, ..] = growths else { return None };
    Some(figure(own) as f64 / figure(other) as f64)
}

fn line(row: &Row, growths: &[Growth]) -> serde_json::Value {
    let bytes = |figure: fn(&Growth) -> u64| growths.iter().map(figure).collect::<Vec<_>>();
    json!({
        "row": row.name,
        "resident_bytes": bytes(|growth| growth.resident),
        "used_memory_bytes": bytes(|growth| growth.used),
        "resident_ratio": ratio(growths, |growth| growth.resident),
        "used_memory_ratio": ratio(growths, |growth| growth.used),
        "bound": f64::from(row.percent_max) / 100.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_add_each_element_once() {
        for row in &ROWS {
            for count in [1, 49, 50, 101] {
                let mut random = Prng::new(1);
                let requests = (0..).map_while(|number| row.request(number, count, &mut random));
                let requests: Vec<Vec<String>> = requests.collect();
                let parts = match row.command {
                    "HSET" | "ZADD" => 2,
                    // An identity, and three fields with their values.
                    "XADD" => 7,
                    _ => 1,
                };
                let elements =
                    requests.iter().map(|words| (words.len() - 2) / parts).sum::<usize>();
                let (keys, each) = if row.is_large { (1, count) } else { (count, SMALL_ELEMENTS) };
                assert_eq!(elements as u64, keys * each, "{}", row.name);
                let mut names: Vec<&String> = requests.iter().map(|words| &words[1]).collect();
                names.dedup();
                assert_eq!(names.len() as u64, keys, "{}", row.name);
            }
        }
        assert_eq!(member(999_999).len(), 16);
    }
}
