//! Traces in files: plain `time,key,size`, libCacheSim's oracleGeneral, ARC's and Twitter's.
//!
//! * `csv`: a line `time,key,size` is a request. Further columns are ignored, and so are lines that
//!   begin with `#` and a first line whose time is not a number.
//! * `oracle`: 24 bytes are one: time `u32`, key `u64`, size `u32`, next access `i64` (ignored).
//! * `arc`: a line `start count ...` asks for so many blocks of 512 bytes.
//! * `twitter`: a line `time,key,key size,value size,client,operation,TTL` is one if the operation
//!   is `get` or `gets`. Others tell the size of the key; where a `get` says 0 for the value, the
//!   last one told counts.
//!
//! Times are seconds; the first is 0. A reader takes nothing for granted: what does not fit is an
//! error with the line or the record.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::io::{self, BufRead};
use std::str::FromStr;

use crate::simulation::{Request, Trace};

/// The longest line.
const LINE_BYTES_MAX: u64 = 64 * 1024;
/// The most blocks of one line of ARC's format.
const BLOCKS_MAX: u64 = 1 << 20;
const BLOCK_BYTES: u32 = 512;
const RECORD_BYTES: usize = 24;
/// What a compressed file begins with: those of zstd and gzip.
const COMPRESSED: [&[u8]; 2] = [&[0x28, 0xB5, 0x2F, 0xFD], &[0x1F, 0x8B]];

/// How a trace is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Csv,
    Oracle,
    Arc,
    Twitter,
}

/// The formats, each with its name and what it is.
pub const FORMATS: [(&str, Format, &str); 4] = [
    ("csv", Format::Csv, "lines of time,key,size"),
    ("oracle", Format::Oracle, "libCacheSim's oracleGeneral"),
    ("arc", Format::Arc, "that of ARC's authors: lines of first block and number of blocks"),
    ("twitter", Format::Twitter, "that of Twitter's cache traces"),
];

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Format, String> {
        let known = FORMATS.iter().find(|(name, ..)| *name == text);
        known.map(|(_, format, _)| *format).ok_or_else(|| {
            let names = FORMATS.map(|(name, ..)| name).join(", ");
            format!("'{text}' is no format of traces; there are {names}")
        })
    }
}

impl Format {
    /// Returns the format that a file of this name seems to have, by what it begins with.
    pub fn guess(name: &str, beginning: &[u8]) -> Format {
        let name = name.to_ascii_lowercase();
        if name.contains("oraclegeneral") || name.ends_with(".bin") {
            return Format::Oracle;
        }
        let mut lines = beginning.split(|byte| *byte == b'\n');
        let line = lines.find(|line| !line.starts_with(b"#")).unwrap_or_default();
        match line.split(|byte| *byte == b',').count() {
            1 => Format::Arc,
            7.. => Format::Twitter,
            _ => Format::Csv,
        }
    }
}

/// Why a trace cannot be read.
#[derive(Debug)]
pub enum TraceError {
    /// The file cannot be read.
    Io(io::Error),
    /// The file is compressed.
    Compressed,
    /// A line is not what the format says; lines count from 1.
    Line { line: u64, problem: Problem },
    /// The file ends within a record.
    CutRecord { record: u64, bytes: usize },
    /// There are more keys than can be numbered.
    TooManyKeys,
    /// There is no request.
    Empty,
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    Missing { column: &'static str },
    NotANumber { column: &'static str, found: String },
    TooLarge { column: &'static str, found: u64, most: u64 },
    TooLong { most: u64 },
}

impl fmt::Display for TraceError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TraceError::Io(error) => write!(formatter, "the trace cannot be read: {error}"),
            TraceError::Compressed => {
                write!(formatter, "the trace is compressed: decompress it first")
            }
            TraceError::Line { line, problem } => write!(formatter, "line {line}: {problem}"),
            TraceError::CutRecord { record, bytes } => write!(
                formatter,
                "record {record} has {bytes} of {RECORD_BYTES} bytes: the file is cut, or of \
                 another format"
            ),
            TraceError::TooManyKeys => write!(formatter, "there are more than 2^32 - 1 keys"),
            TraceError::Empty => write!(formatter, "there is no request in the trace"),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Missing { column } => write!(formatter, "the {column} is missing"),
            Problem::NotANumber { column, found } => {
                write!(formatter, "the {column} is '{found}', which is no number from 0")
            }
            Problem::TooLarge { column, found, most } => {
                write!(formatter, "the {column} is {found}, more than {most}")
            }
            Problem::TooLong { most } => write!(formatter, "it is longer than {most} bytes"),
        }
    }
}

impl std::error::Error for TraceError {}

/// Reads at most `requests_max` requests.
///
/// # Errors
/// When the file cannot be read, or is not of the format; the error says where.
pub fn read(
    file: &mut dyn BufRead,
    format: Format,
    requests_max: usize,
) -> Result<Trace, TraceError> {
    let beginning = file.fill_buf().map_err(TraceError::Io)?;
    if COMPRESSED.iter().any(|magic| beginning.starts_with(magic)) {
        return Err(TraceError::Compressed);
    }
    let trace = match format {
        Format::Oracle => read_records(file, requests_max)?,
        Format::Csv => read_lines(file, requests_max, &mut Csv::default())?,
        Format::Arc => read_lines(file, requests_max, &mut Blocks::default())?,
        Format::Twitter => read_lines(file, requests_max, &mut Twitter::default())?,
    };
    if trace.requests.is_empty() { Err(TraceError::Empty) } else { Ok(trace) }
}

/// Numbers keys in the order in which they come.
#[derive(Debug)]
struct Numbers<K>(HashMap<K, u32>);

impl<K> Default for Numbers<K> {
    fn default() -> Numbers<K> {
        Numbers(HashMap::new())
    }
}

impl<K: Hash + Eq> Numbers<K> {
    /// Returns the number of `key`, which is copied if it is new.
    fn of<Q>(&mut self, key: &Q) -> Result<u32, TraceError>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        if let Some(number) = self.0.get(key) {
            return Ok(*number);
        }
        let number = self.count();
        if number == u32::MAX {
            return Err(TraceError::TooManyKeys);
        }
        self.0.insert(key.to_owned(), number);
        Ok(number)
    }

    /// Returns how many keys have a number.
    fn count(&self) -> u32 {
        u32::try_from(self.0.len()).expect("numbers are below 2^32 - 1")
    }
}

fn read_records(file: &mut dyn BufRead, requests_max: usize) -> Result<Trace, TraceError> {
    let (mut trace, mut numbers) = (Trace::default(), Numbers::<u64>::default());
    let mut first_second = None;
    while trace.requests.len() < requests_max {
        let mut record = [0; RECORD_BYTES];
        let bytes = read_up_to(file, &mut record).map_err(TraceError::Io)?;
        match bytes {
            0 => break,
            RECORD_BYTES => {}
            bytes => {
                let record = trace.requests.len() as u64 + 1;
                return Err(TraceError::CutRecord { record, bytes });
            }
        }
        let word = |at: usize| u32::from_le_bytes(record[at..at + 4].try_into().expect("4 bytes"));
        let id = u64::from(word(4)) | u64::from(word(8)) << 32;
        let key = numbers.of(&id)?;
        let first = *first_second.get_or_insert(word(0));
        let second = word(0).saturating_sub(first);
        trace.requests.push(Request { key, bytes: word(12), second });
    }
    trace.key_count = numbers.count();
    Ok(trace)
}

/// Reads until `buffer` is full or the file ends; returns how many bytes that were.
fn read_up_to(file: &mut dyn BufRead, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// A format of lines.
trait Lines {
    /// Adds the requests of `line`, the one of this number.
    fn add(&mut self, line: &Line<'_>, trace: &mut Trace) -> Result<(), TraceError>;
}

/// A line, and its number from 1.
struct Line<'l> {
    text: &'l [u8],
    number: u64,
}

impl Line<'_> {
    fn error(&self, problem: Problem) -> TraceError {
        TraceError::Line { line: self.number, problem }
    }

    fn columns(&self) -> impl Iterator<Item = &[u8]> {
        self.text.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
    }

    fn take<'c>(
        &self,
        columns: &mut impl Iterator<Item = &'c [u8]>,
        column: &'static str,
    ) -> Result<&'c [u8], TraceError> {
        let found = columns.next().filter(|found| !found.is_empty());
        found.ok_or_else(|| self.error(Problem::Missing { column }))
    }

    fn take_number<'c>(
        &self,
        columns: &mut impl Iterator<Item = &'c [u8]>,
        column: &'static str,
        most: u64,
    ) -> Result<u64, TraceError> {
        let found = self.take(columns, column)?;
        let Some(number) = number(found) else {
            let found = String::from_utf8_lossy(found).into_owned();
            return Err(self.error(Problem::NotANumber { column, found }));
        };
        match number > most {
            true => Err(self.error(Problem::TooLarge { column, found: number, most })),
            false => Ok(number),
        }
    }
}

/// Returns the number that `text` is, without what follows a decimal point.
fn number(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let is_part = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    whole.parse().ok().filter(|_| is_part && !whole.starts_with('+'))
}

fn read_lines(
    file: &mut dyn BufRead,
    requests_max: usize,
    lines: &mut dyn Lines,
) -> Result<Trace, TraceError> {
    let mut trace = Trace::default();
    let mut text = Vec::new();
    for number in 1.. {
        text.clear();
        let mut limited = io::Read::take(&mut *file, LINE_BYTES_MAX + 1);
        let bytes = limited.read_until(b'\n', &mut text).map_err(TraceError::Io)?;
        if bytes == 0 || trace.requests.len() >= requests_max {
            break;
        }
        let line = Line { text: text.trim_ascii(), number };
        if bytes as u64 > LINE_BYTES_MAX {
            return Err(line.error(Problem::TooLong { most: LINE_BYTES_MAX }));
        }
        if !line.text.is_empty() && !line.text.starts_with(b"#") {
            lines.add(&line, &mut trace)?;
        }
    }
    trace.requests.truncate(requests_max);
    Ok(trace)
}

/// Seconds since the first time.
#[derive(Debug, Default)]
struct Clock(Option<u64>);

impl Clock {
    fn second(&mut self, time: u64) -> u32 {
        let first = *self.0.get_or_insert(time);
        u32::try_from(time.saturating_sub(first)).unwrap_or(u32::MAX)
    }
}

const SIZE_MAX: u64 = u32::MAX as u64;

#[derive(Debug, Default)]
struct Csv {
    numbers: Numbers<Vec<u8>>,
    clock: Clock,
}

impl Lines for Csv {
    fn add(&mut self, line: &Line<'_>, trace: &mut Trace) -> Result<(), TraceError> {
        let is_header = line.number == 1 && line.columns().next().and_then(number).is_none();
        if is_header && line.columns().count() >= 3 {
            return Ok(());
        }
        let columns = &mut line.columns();
        let time = line.take_number(columns, "time", u64::MAX)?;
        let key = self.numbers.of(line.take(columns, "key")?)?;
        let bytes = line.take_number(columns, "size", SIZE_MAX)? as u32;
        let second = self.clock.second(time);
        trace.requests.push(Request { key, bytes, second });
        trace.key_count = trace.key_count.max(key + 1);
        Ok(())
    }
}

#[derive(Debug, Default)]
struct Blocks {
    numbers: Numbers<u64>,
}

impl Lines for Blocks {
    fn add(&mut self, line: &Line<'_>, trace: &mut Trace) -> Result<(), TraceError> {
        let words = line.text.split(u8::is_ascii_whitespace);
        let words = &mut words.filter(|word| !word.is_empty());
        let start = line.take_number(words, "first block", u64::MAX - BLOCKS_MAX)?;
        let count = line.take_number(words, "number of blocks", BLOCKS_MAX)?;
        for block in start..start + count {
            let key = self.numbers.of(&block)?;
            // The format has no times: one request in a millisecond.
            let second = (trace.requests.len() / 1000) as u32;
            trace.requests.push(Request { key, bytes: BLOCK_BYTES, second });
        }
        trace.key_count = self.numbers.count();
        Ok(())
    }
}

#[derive(Debug, Default)]
struct Twitter {
    numbers: Numbers<Vec<u8>>,
    /// The size of each key that was told last.
    sizes: Vec<u32>,
    clock: Clock,
}

impl Lines for Twitter {
    fn add(&mut self, line: &Line<'_>, trace: &mut Trace) -> Result<(), TraceError> {
        let columns = &mut line.columns();
        let time = line.take_number(columns, "time", u64::MAX)?;
        let key = self.numbers.of(line.take(columns, "key")?)?;
        let key_bytes = line.take_number(columns, "key size", SIZE_MAX / 2)?;
        let value_bytes = line.take_number(columns, "value size", SIZE_MAX / 2)?;
        line.take(columns, "client")?;
        let operation = line.take(columns, "operation")?;
        let second = self.clock.second(time);
        self.sizes.resize(self.sizes.len().max(key as usize + 1), 0);
        let size = &mut self.sizes[key as usize];
        if value_bytes > 0 || *size == 0 {
            *size = (key_bytes + value_bytes) as u32;
        }
        if matches!(operation, b"get" | b"gets") {
            trace.requests.push(Request { key, bytes: *size, second });
        }
        trace.key_count = self.sizes.len() as u32;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(format: Format, text: impl AsRef<[u8]>) -> Result<Trace, TraceError> {
        read(&mut text.as_ref(), format, usize::MAX)
    }

    fn requests(format: Format, text: impl AsRef<[u8]>) -> Vec<(u32, u32, u32)> {
        let trace = parse(format, text).expect("it is of the format");
        assert!(trace.requests.iter().all(|one| one.key < trace.key_count));
        trace.requests.iter().map(|one| (one.key, one.bytes, one.second)).collect()
    }

    fn refusal(format: Format, text: impl AsRef<[u8]>) -> String {
        parse(format, text).expect_err("it is not of the format").to_string()
    }

    fn record(time: u32, key: u64, bytes: u32) -> Vec<u8> {
        let next = (-1_i64).to_le_bytes();
        [&time.to_le_bytes()[..], &key.to_le_bytes(), &bytes.to_le_bytes(), &next].concat()
    }

    #[test]
    fn csv_is_time_key_and_size() {
        let text = "time,key,size\n100,a,5\r\n# no request\n\n100.7, b ,6,more\n103,a,5";
        assert_eq!(requests(Format::Csv, text), [(0, 5, 0), (1, 6, 0), (0, 5, 3)]);
    }

    #[test]
    fn malformed_csv_is_refused_with_its_line() {
        let cases = [
            ("1,a,5\n2,b", "line 2: the size is missing"),
            ("1,a,5\n2,,5", "line 2: the key is missing"),
            ("1,a,5\nx,b,5", "line 2: the time is 'x', which is no number from 0"),
            ("1,a,-5", "line 1: the size is '-5', which is no number from 0"),
            ("1,a,4294967296", "line 1: the size is 4294967296, more than 4294967295"),
            ("hello", "line 1: the time is 'hello', which is no number from 0"),
            ("", "there is no request in the trace"),
            ("# nothing\n", "there is no request in the trace"),
        ];
        for (text, expected) in cases {
            assert_eq!(refusal(Format::Csv, text), expected);
        }
        let long = [b'1'; LINE_BYTES_MAX as usize + 2];
        assert_eq!(refusal(Format::Csv, long), "line 1: it is longer than 65536 bytes");
    }

    #[test]
    fn oracle_records_are_read_in_little_endian() {
        let file = [record(1000, u64::MAX, 7), record(1001, 5, 8), record(900, u64::MAX, 7)];
        assert_eq!(requests(Format::Oracle, file.concat()), [(0, 7, 0), (1, 8, 1), (0, 7, 0)]);
    }

    #[test]
    fn cut_record_is_refused_with_its_number() {
        let mut file = [record(1, 2, 3), record(4, 5, 6)].concat();
        file.pop();
        assert_eq!(
            refusal(Format::Oracle, file),
            "record 2 has 23 of 24 bytes: the file is cut, or of another format"
        );
        assert_eq!(refusal(Format::Oracle, []), "there is no request in the trace");
    }

    #[test]
    fn line_of_arcs_format_asks_for_each_of_its_blocks() {
        let found = requests(Format::Arc, "100 2 0 1\n101 1 0 2\n");
        assert_eq!(found, [(0, 512, 0), (1, 512, 0), (1, 512, 0)]);
    }

    #[test]
    fn malformed_lines_of_arcs_format_are_refused() {
        let cases = [
            ("100", "line 1: the number of blocks is missing"),
            ("1 2\nx 2", "line 2: the first block is 'x', which is no number from 0"),
            ("1 9999999", "line 1: the number of blocks is 9999999, more than 1048576"),
            (
                "18446744073709551615 1",
                "line 1: the first block is 18446744073709551615, more \
              than 18446744073708503039",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(refusal(Format::Arc, text), expected);
        }
    }

    #[test]
    fn gets_of_twitters_format_have_the_size_that_was_told_last() {
        let text = "10,k,2,0,1,get,0\n10,k,2,50,1,set,60\n12,k,2,0,1,gets,0\n13,j,3,4,2,get,0\n";
        assert_eq!(requests(Format::Twitter, text), [(0, 2, 0), (0, 52, 2), (1, 7, 3)]);
    }

    #[test]
    fn malformed_lines_of_twitters_format_are_refused() {
        let cases = [
            ("1,k,2,3,4", "line 1: the operation is missing"),
            ("1,k,2,3", "line 1: the client is missing"),
            ("1,k,x,3,4,get,0", "line 1: the key size is 'x', which is no number from 0"),
        ];
        for (text, expected) in cases {
            assert_eq!(refusal(Format::Twitter, text), expected);
        }
    }

    #[test]
    fn compressed_file_is_refused_in_every_format() {
        for (_, format, _) in FORMATS {
            for magic in COMPRESSED {
                let refused = refusal(format, [magic, b"..."].concat());
                assert_eq!(refused, "the trace is compressed: decompress it first");
            }
        }
    }

    #[test]
    fn formats_are_guessed_by_name_and_first_line() {
        let cases = [
            ("x.oracleGeneral.bin", "", Format::Oracle),
            ("P1.lis", "12 1 0 0\n", Format::Arc),
            ("t.csv", "# a comment\n1,k,9\n", Format::Csv),
            ("cluster52", "0,k,10,0,1,get,0\n", Format::Twitter),
        ];
        for (name, beginning, expected) in cases {
            assert_eq!(Format::guess(name, beginning.as_bytes()), expected);
        }
        assert!("lcs".parse::<Format>().expect_err("unknown").contains("csv, oracle, arc"));
    }

    #[test]
    fn reading_stops_at_the_number_of_requests_that_is_wanted() {
        let trace = read(&mut &b"5 100 0 0\n"[..], Format::Arc, 7).expect("it is of the format");
        assert_eq!(trace.requests.len(), 7);
    }
}
