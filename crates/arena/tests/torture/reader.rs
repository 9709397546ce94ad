//! The reader in a process of its own: asks for everything, believes nothing.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use arena::reader::{KeptView, Outcome, Reader, View};
use base::prng::Prng;
use base::{DatabaseIndex, UnixMs};
use ring::Mapped;

use crate::content::{
    DATABASE, EXPIRY_BASE, FLUSHED, Growth, KINDS, Kind, SWAPPED, Stamp, UNCOMMITTED,
    database_of_passed, id, name,
};
use crate::link::Link;

/// How many views are held at a time.
const HELD_MAX: usize = 12;
/// Attempts for each read that is asked for: one that gets no answer is made again, but not for
/// ever.
const ATTEMPTS_PER_READ_MAX: u64 = 3;
/// What a read may come to. The first ones are answers, and only those count as reads.
const COUNTS: [&str; 9] = [
    "copied",
    "viewed",
    "pinned and held",
    "part of a value",
    "length or expiry",
    "absent",
    "busy",
    "segments needed",
    "not checked for loss",
];
const COPIED: usize = 0;
const VIEWED: usize = 1;
const HELD: usize = 2;
const PART: usize = 3;
const LENGTH: usize = 4;
const ABSENT: usize = 5;
const BUSY: usize = 6;
const SEGMENTS: usize = 7;
const UNSURE: usize = 8;
/// How many of them are answers.
const ANSWERS: usize = BUSY;
/// Those that each run meets if it is long enough: the answers, and both refusals.
const MET: usize = UNSURE;

/// What the reader has seen so far.
struct Seen {
    /// The latest version of each key.
    versions: Vec<Vec<u64>>,
    swapped: [Vec<u64>; 2],
    growth: Vec<Growth>,
    expiry: Vec<i64>,
    /// The latest generation, and the highest index met in it.
    generation: (u64, u64),
}

/// A view kept for a while.
struct Kept<'a> {
    view: View<'a>,
    kind: Kind,
    index: u64,
    /// What was in it, to be found again.
    first: Content,
}

/// What a value turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    Stamp(Stamp),
    Growth(Growth),
}

struct Checker<'a> {
    reader: &'a Arc<Reader<Mapped>>,
    link: &'a Link,
    random: Prng,
    seen: Seen,
    kept: Vec<Kept<'a>>,
    name: Vec<u8>,
    buffer: Vec<u8>,
    report: Report,
}

/// What a run met.
pub struct Report {
    counts: [u64; COUNTS.len()],
}

impl Report {
    /// Returns the answers: values seen whole, and absences that must be.
    pub fn reads(&self) -> u64 {
        self.counts[..ANSWERS].iter().sum()
    }

    /// Returns the outcomes that were never met and should have been.
    pub fn absent(&self) -> Vec<&'static str> {
        let outcomes = COUNTS.into_iter().zip(self.counts).take(MET);
        outcomes.filter(|(_, count)| *count == 0).map(|(name, _)| name).collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{:>12} reads:", self.reads())?;
        let mut outcomes = COUNTS.iter().zip(self.counts);
        outcomes.try_for_each(|(name, count)| writeln!(formatter, "{count:>12} {name}"))
    }
}

/// Reads until `count` reads got an answer, or too many got none, and returns what it met, or the
/// first thing that must not be.
pub fn check(
    reader: &Arc<Reader<Mapped>>,
    link: &Link,
    seed: u64,
    count: u64,
) -> Result<Report, String> {
    let zeroes = |kind: Kind| vec![0; KINDS[kind as usize].1 as usize];
    let seen = Seen {
        versions: KINDS.iter().map(|(kind, ..)| zeroes(*kind)).collect(),
        swapped: [zeroes(Kind::Swapped), zeroes(Kind::Swapped)],
        growth: vec![Growth::default(); KINDS[Kind::Grown as usize].1 as usize],
        expiry: vec![0; KINDS[Kind::Lasting as usize].1 as usize],
        generation: (0, 0),
    };
    let mut checker = Checker {
        reader,
        link,
        random: Prng::new(seed),
        seen,
        kept: Vec::new(),
        name: Vec::new(),
        buffer: Vec::new(),
        report: Report { counts: [0; COUNTS.len()] },
    };
    for _ in 0..count.saturating_mul(ATTEMPTS_PER_READ_MAX) {
        if checker.report.reads() >= count {
            break;
        }
        checker.step()?;
    }
    Ok(checker.report)
}

fn forever() -> UnixMs {
    UnixMs(0)
}

impl<'a> Checker<'a> {
    fn step(&mut self) -> Result<(), String> {
        let kind = self.kind();
        let highest = self.seen.generation.1;
        let index = match kind {
            Kind::Flushed => self.random.below(2 * highest + 16),
            _ => self.random.below(KINDS[kind as usize].1),
        };
        name(kind, index, &mut self.name);
        let database = match kind {
            Kind::Swapped => SWAPPED[self.random.below(2) as usize],
            Kind::Flushed => FLUSHED,
            Kind::Passed => database_of_passed(index),
            _ => DATABASE,
        };
        let result = match self.random.below(100) {
            0..60 => self.copy(kind, index, database),
            60..80 => self.view(kind, index, database),
            80..84 => self.hold(kind, index, database),
            84..88 => self.read_several(kind, index, database),
            88..92 => self.part(kind, index, database),
            _ => self.length_or_expiry(kind, index, database),
        };
        let context = |what| format!("{kind:?}:{index} in database {database}: {what}");
        result.map_err(context)?;
        self.let_go()
    }

    fn kind(&mut self) -> Kind {
        let mut chosen = self.random.below(KINDS.iter().map(|row| row.2).sum());
        for (kind, _, weight) in KINDS {
            if chosen < weight {
                return kind;
            }
            chosen -= weight;
        }
        unreachable!("the weights add up")
    }

    fn copy(&mut self, kind: Kind, index: u64, database: u8) -> Result<(), String> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let database = DatabaseIndex(database);
        let outcome = self.reader.get(database, &self.name, forever, &mut buffer);
        let result = match outcome {
            Outcome::Found(()) => self.accept(kind, index, &buffer).map(|_| COPIED),
            other => self.without(kind, index, other.map(|()| ())),
        };
        self.buffer = buffer;
        self.report.counts[result?] += 1;
        Ok(())
    }

    fn view(&mut self, kind: Kind, index: u64, database: u8) -> Result<(), String> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let reader = self.reader;
        let database = DatabaseIndex(database);
        let result = match reader.view(database, &self.name, forever, &mut buffer) {
            Outcome::Found(view) => self.accept(kind, index, &view).map(|_| VIEWED),
            other => self.without(kind, index, other.map(drop)),
        };
        self.buffer = buffer;
        self.report.counts[result?] += 1;
        Ok(())
    }

    /// Reads the key beside others, whose values are not looked at.
    fn read_several(&mut self, kind: Kind, index: u64, database: u8) -> Result<(), String> {
        let mut buffers = [const { Vec::new() }; 3];
        let keys = [&self.name[..], b"none", &self.name];
        let mut last = None;
        let read = |outcome: Outcome<Option<KeptView<Mapped>>>, buffer: &mut Vec<u8>| {
            last = Some(outcome.map(|view| view.map_or_else(|| buffer.clone(), |it| it.to_vec())));
            ControlFlow::Continue(())
        };
        let database = DatabaseIndex(database);
        self.reader.keep_each(database, &keys, forever, &mut buffers, read);
        let result = match last.expect("each key has an outcome") {
            Outcome::Found(value) => self.accept(kind, index, &value).map(|_| COPIED),
            other => self.without(kind, index, other.map(drop)),
        };
        self.report.counts[result?] += 1;
        Ok(())
    }

    fn hold(&mut self, kind: Kind, index: u64, database: u8) -> Result<(), String> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let reader = self.reader;
        let result = match reader.pin(DatabaseIndex(database), &self.name, forever, &mut buffer) {
            Outcome::Found(Some(view)) => self.accept(kind, index, &view).map(|first| {
                self.kept.push(Kept { view, kind, index, first });
                HELD
            }),
            Outcome::Found(None) => self.accept(kind, index, &buffer).map(|_| COPIED),
            other => self.without(kind, index, other.map(drop)),
        };
        self.buffer = buffer;
        self.report.counts[result?] += 1;
        Ok(())
    }

    /// Looks at a held view again, at random, and releases it: it has not changed.
    fn let_go(&mut self) -> Result<(), String> {
        if self.kept.is_empty() || (self.kept.len() < HELD_MAX && !self.random.one_in(30)) {
            return Ok(());
        }
        let at = self.random.below(self.kept.len() as u64) as usize;
        let Kept { view, kind, index, first } = self.kept.swap_remove(at);
        let content = content(kind, index, &view);
        if content != Ok(first) {
            let now = match content {
                Ok(content) => format!("{content:?}"),
                Err(what) => what,
            };
            return Err(format!("view of {kind:?}:{index} was {first:?} and became {now}"));
        }
        Ok(())
    }

    fn part(&mut self, kind: Kind, index: u64, database: u8) -> Result<(), String> {
        if kind == Kind::Grown {
            return self.copy(kind, index, database);
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        let (database, range) = (DatabaseIndex(database), (0, 31));
        let outcome = self.reader.getrange(database, &self.name, forever, range, &mut buffer);
        let result = match outcome {
            Outcome::Found(()) => Stamp::head(&buffer)
                .and_then(|stamp| self.accept_stamp(kind, index, stamp))
                .map(|()| PART),
            other => self.without(kind, index, other),
        };
        self.buffer = buffer;
        self.report.counts[result?] += 1;
        Ok(())
    }

    fn length_or_expiry(&mut self, kind: Kind, index: u64, database: u8) -> Result<(), String> {
        let database = DatabaseIndex(database);
        let outcome = match kind {
            Kind::Lasting => {
                let outcome = self.reader.expiry(database, &self.name, forever);
                if let Outcome::Found(Some(expiry)) = outcome {
                    let seen = &mut self.seen.expiry[index as usize];
                    if expiry.0 < (*seen).max(EXPIRY_BASE) {
                        return Err(format!("expiry {expiry:?} after {seen}"));
                    }
                    *seen = expiry.0;
                }
                outcome.map(drop)
            }
            Kind::Written => {
                let expected =
                    if index.is_multiple_of(2) { [60, 200 + index] } else { [60, 9000 + index] };
                let outcome = self.reader.strlen(database, &self.name, forever);
                if let Outcome::Found(length) = outcome
                    && !expected.contains(&length)
                {
                    return Err(format!("length {length}"));
                }
                outcome.map(drop)
            }
            _ => self.reader.exists(database, &self.name, forever),
        };
        let counted = match outcome {
            Outcome::Found(()) => LENGTH,
            other => self.without(kind, index, other)?,
        };
        self.report.counts[counted] += 1;
        Ok(())
    }

    /// Checks a value and remembers it.
    fn accept(&mut self, kind: Kind, index: u64, value: &[u8]) -> Result<Content, String> {
        let content = content(kind, index, value)?;
        match content {
            Content::Stamp(stamp) => self.accept_stamp(kind, index, stamp)?,
            Content::Growth(growth) => {
                let seen = &mut self.seen.growth[index as usize];
                if growth < *seen {
                    return Err(format!("{growth:?} after {seen:?}"));
                }
                *seen = growth;
            }
        }
        Ok(content)
    }

    fn accept_stamp(&mut self, kind: Kind, index: u64, stamp: Stamp) -> Result<(), String> {
        // What is passed on was made for the first of the row.
        let made_for = if kind == Kind::Passed { 0 } else { index };
        if stamp.key != id(kind, made_for) {
            return Err(format!("foreign: {stamp:?}"));
        }
        if stamp.mark == UNCOMMITTED {
            return Err(format!("uncommitted: {stamp:?}"));
        }
        let seen = match kind {
            Kind::Flushed => return self.accept_generation(index, stamp),
            Kind::Swapped => &mut self.seen.swapped[stamp.mark as usize & 1],
            _ => &mut self.seen.versions[kind as usize],
        };
        let seen = &mut seen[index as usize];
        if stamp.version < *seen {
            return Err(format!("{stamp:?} after version {seen}"));
        }
        *seen = stamp.version;
        Ok(())
    }

    fn accept_generation(&mut self, index: u64, stamp: Stamp) -> Result<(), String> {
        let (generation, highest) = self.seen.generation;
        if stamp.mark < generation {
            return Err(format!("{stamp:?} after generation {generation}"));
        }
        let highest = if stamp.mark == generation { highest } else { 0 };
        self.seen.generation = (stamp.mark, highest.max(index));
        Ok(())
    }

    /// Judges an outcome without a value.
    fn without(&mut self, kind: Kind, index: u64, outcome: Outcome<()>) -> Result<usize, String> {
        match outcome {
            Outcome::Busy => Ok(BUSY),
            Outcome::NeedSegments => {
                let refreshed = self.link.refresh(self.reader.segments());
                refreshed.map_err(|error| format!("no segments: {error}"))?;
                Ok(SEGMENTS)
            }
            Outcome::Absent if matches!(kind, Kind::Gone | Kind::Blinking) => Ok(ABSENT),
            Outcome::Absent if kind == Kind::Passed && index + 1 < KINDS[kind as usize].1 => {
                Ok(ABSENT)
            }
            Outcome::Absent if kind == Kind::Flushed => self.absent_since(index),
            other => Err(format!("{other:?}")),
        }
    }

    /// The keys of the flushed database come in order: while one is there, those before it are.
    fn absent_since(&mut self, index: u64) -> Result<usize, String> {
        let (generation, highest) = self.seen.generation;
        if index >= highest {
            return Ok(ABSENT);
        }
        name(Kind::Flushed, highest, &mut self.name);
        let database = DatabaseIndex(FLUSHED);
        let outcome = self.reader.get(database, &self.name, forever, &mut self.buffer);
        if outcome != Outcome::Found(()) {
            return Ok(UNSURE);
        }
        let stamp = Stamp::read(&self.buffer)?;
        if stamp.mark == generation {
            return Err(format!("lost, while {highest} is there in generation {generation}"));
        }
        self.accept_generation(highest, stamp)?;
        Ok(UNSURE)
    }
}

fn content(kind: Kind, index: u64, value: &[u8]) -> Result<Content, String> {
    match kind {
        Kind::Grown => Growth::read(id(kind, index), value).map(Content::Growth),
        _ => Stamp::read(value).map(Content::Stamp),
    }
}
