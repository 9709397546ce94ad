//! Append-only files of Redis: requests one after the other, in one file or in those that a
//! manifest names.
//!
//! ```text
//! *2 | $6 | SELECT | $1 | 0 | *3 | ...     each line ends with CR LF
//! #TS:1700000000                           says when, and is passed over
//! ```
//!
//! Source: Redis 7.2, `loadSingleAppendOnlyFile` and `aofLoadManifestFromFile`.

use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// The longest line: that of a length, or of a note.
const LINE_BYTES_MAX: u64 = 1024;
/// The longest word of a request, and the most of them.
const WORD_BYTES_MAX: u64 = 512 << 20;
const WORDS_MAX: u64 = 1 << 20;

type Request = Vec<Vec<u8>>;

/// What comes next in a file.
pub enum Entry {
    /// A request, or those of a transaction with what is around them.
    Requests(Vec<Request>),
    /// Nothing: the file ends behind a whole request.
    End,
    /// The file ends in the middle of what begins here.
    Cut {
        /// The bytes before it.
        offset: u64,
    },
}

/// Reads a file.
pub struct AppendOnlyReader<R> {
    input: BufReader<R>,
    offset: u64,
}

/// Why there is no request.
enum Stop {
    End,
    Cut,
    Wrong(String),
}

impl<R: Read> AppendOnlyReader<R> {
    pub fn new(input: R) -> AppendOnlyReader<R> {
        AppendOnlyReader { input: BufReader::with_capacity(256 << 10, input), offset: 0 }
    }

    /// Returns how many bytes were read.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns what comes next.
    ///
    /// # Errors
    /// Where the file cannot be read, or is none, with the place.
    pub fn next_entry(&mut self) -> Result<Entry, String> {
        let start = self.offset;
        let mut requests = Vec::new();
        loop {
            match self.request() {
                Ok(request) => {
                    let is = |name: &[u8]| request[0].eq_ignore_ascii_case(name);
                    let (begins, ends) = (is(b"MULTI"), is(b"EXEC"));
                    requests.push(request);
                    if ends || requests.len() == 1 && !begins {
                        return Ok(Entry::Requests(requests));
                    }
                }
                Err(Stop::End) if requests.is_empty() => return Ok(Entry::End),
                Err(Stop::End | Stop::Cut) => return Ok(Entry::Cut { offset: start }),
                Err(Stop::Wrong(reason)) => return Err(reason),
            }
        }
    }

    fn request(&mut self) -> Result<Request, Stop> {
        let line = loop {
            let line = self.line(true)?;
            if !line.starts_with(b"#") {
                break line;
            }
        };
        let count = self.length(&line, b'*', WORDS_MAX)?;
        if count == 0 {
            return Err(self.wrong("a request without words"));
        }
        let mut request = Vec::new();
        for _ in 0..count {
            let line = self.line(false)?;
            let length = self.length(&line, b'$', WORD_BYTES_MAX)?;
            let mut word = Vec::new();
            let read = self.input.by_ref().take(length + 2).read_to_end(&mut word);
            let read = read.map_err(|error| self.wrong(&error.to_string()))?;
            if (read as u64) < length + 2 {
                return Err(Stop::Cut);
            }
            self.offset += length + 2;
            if !word.ends_with(b"\r\n") {
                return Err(self.wrong("a word that is longer than it says"));
            }
            word.truncate(length as usize);
            request.push(word);
        }
        Ok(request)
    }

    /// Reads a line without its end.
    fn line(&mut self, may_end: bool) -> Result<Vec<u8>, Stop> {
        let mut line = Vec::new();
        let read = self.input.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
        match read.map_err(|error| self.wrong(&error.to_string()))? {
            0 if may_end => return Err(Stop::End),
            0 => return Err(Stop::Cut),
            count => {
                if !line.ends_with(b"\n") {
                    let is_long = count as u64 == LINE_BYTES_MAX;
                    return Err(if is_long { self.wrong("a long line") } else { Stop::Cut });
                }
                self.offset += count as u64;
            }
        }
        line.pop();
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        Ok(line)
    }

    fn length(&self, line: &[u8], mark: u8, most: u64) -> Result<u64, Stop> {
        let digits = line.strip_prefix(&[mark]).and_then(|digits| str::from_utf8(digits).ok());
        let number = digits.and_then(|digits| digits.parse().ok());
        number
            .filter(|number| *number <= most)
            .ok_or_else(|| self.wrong("no length where one has to be"))
    }

    fn wrong(&self, what: &str) -> Stop {
        Stop::Wrong(format!(
            "Bad file format reading the append only file at byte {}: {what}",
            self.offset
        ))
    }
}

/// Returns the files that the manifest at `path` names, the base first, without those that are
/// history.
pub fn files_of_manifest(path: &Path) -> io::Result<Vec<PathBuf>> {
    let wrong = |line: &str| {
        io::Error::new(io::ErrorKind::InvalidData, format!("Invalid AOF manifest line: {line}"))
    };
    let text = fs::read_to_string(path)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut files = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let words: Vec<&str> = line.split(' ').collect();
        let value = |name: &str| {
            let at = words.iter().position(|word| *word == name)?;
            words.get(at + 1).copied()
        };
        let parts = (value("file"), value("seq").and_then(|number| number.parse().ok()));
        let (Some(name), Some(number)) = parts else { return Err(wrong(line)) };
        let number: u64 = number;
        let is_plain = !name.contains(['/', '\\', '"']);
        match (value("type"), is_plain) {
            (Some("b"), true) => files.push((0, number, folder.join(name))),
            (Some("i"), true) => files.push((1, number, folder.join(name))),
            (Some("h"), true) => {}
            _ => return Err(wrong(line)),
        }
    }
    files.sort();
    Ok(files.into_iter().map(|(_, _, path)| path).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<(Vec<String>, Option<u64>), String> {
        let mut reader = AppendOnlyReader::new(bytes);
        let mut requests = Vec::new();
        loop {
            match reader.next_entry()? {
                Entry::Requests(all) => requests.extend(all.into_iter().map(|words| {
                    let words: Vec<String> = words
                        .iter()
                        .map(|word| String::from_utf8_lossy(word).into_owned())
                        .collect();
                    words.join(" ")
                })),
                Entry::End => return Ok((requests, None)),
                Entry::Cut { offset } => return Ok((requests, Some(offset))),
            }
        }
    }

    const FILE: &[u8] = b"#TS:1\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*1\r\n$5\r\nMULTI\r\n\
        *3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\n\r\n\r\n*1\r\n$4\r\nEXEC\r\n";

    #[test]
    fn requests_are_read_and_a_transaction_is_whole_or_absent() {
        let (requests, cut) = read(FILE).unwrap();
        assert_eq!(requests, ["SELECT 0", "MULTI", "SET k \r\n", "EXEC"]);
        assert_eq!(cut, None);
        let start = 7 + 23;
        for length in 0..FILE.len() {
            let (requests, cut) = read(&FILE[..length]).unwrap();
            match length {
                0 | 7 => assert_eq!((requests.len(), cut), (0, None), "{length}"),
                30 => assert_eq!((requests.len(), cut), (1, None), "{length}"),
                _ if length < start => assert_eq!((requests.len(), cut), (0, Some(0)), "{length}"),
                _ => assert_eq!((requests.len(), cut), (1, Some(30)), "{length}"),
            }
        }
    }

    #[test]
    fn what_is_no_append_only_file_is_refused_with_its_place() {
        for (bytes, place) in [
            (&b"hello\r\n"[..], 7),
            (b"*1\r\n:1\r\n", 8),
            (b"*0\r\n", 4),
            (b"*1\r\n$1\r\nabc", 11),
            (b"*1\r\n$99999999999\r\n", 18),
        ] {
            let error = read(bytes).unwrap_err();
            assert!(error.contains(&format!("at byte {place}:")), "{error}");
        }
    }
}
