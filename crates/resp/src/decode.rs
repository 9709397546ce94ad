//! The server's decoder: requests out of a byte stream that arrives in any pieces.
//!
//! A request is an array of bulk strings (`*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n`) or an inline line
//! (`GET key\r\n`). Two paths read it. The fast path takes a whole request written the usual way.
//! Everything else (incomplete, unusual or wrong) goes through the resuming path, which remembers
//! how far it came, so that it reads no byte more than a fixed number of times however the stream
//! is cut. The pieces never change the result.
//!
//! The bytes of one long argument may be taken out of the stream while it arrives
//! ([`Decoder::take_out`]), by a caller that receives them elsewhere.
//!
//! Leniencies are Redis's own: `\r` ends a length line whatever follows it, the two bytes after a
//! bulk are skipped unread, and a NUL hides the rest of a line until the line is too long.

use base::number::parse_i64;

use crate::batch::{ASIDE, Batch, RequestView};
use crate::error::ProtocolError;
use crate::inline;

/// Requests that a server decodes per call: enough to overlap their cache misses.
pub const REQUESTS_PER_BATCH_MAX: usize = 64;

/// Arguments per request before authentication (`networking.c`).
const UNAUTHENTICATED_MULTIBULK_COUNT_MAX: i64 = 10;
/// Bytes per argument before authentication (`networking.c`).
const UNAUTHENTICATED_BULK_BYTES_MAX: i64 = 16 * 1024;
/// Bytes of a line that says a length, without its end (`PROTO_INLINE_MAX_SIZE`).
const LENGTH_LINE_BYTES_MAX: u32 = 64 * 1024;
/// Ranges of an unfinished request that a session keeps allocated between requests.
const PARTIAL_RANGES_KEPT: usize = 128;

/// What a peer may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one argument (`proto-max-bulk-len`).
    pub bulk_bytes_max: u32,
    /// Arguments of one request.
    pub multibulk_count_max: u32,
    /// Bytes of an inline request without its line end; of a length line too where they are fewer
    /// than 64 KiB.
    pub inline_bytes_max: u32,
    /// False while a password is required and none was given: 10 arguments of 16 KiB at most.
    pub authenticated: bool,
}

impl Limits {
    /// Redis 7.2's limits for an authenticated session. It takes a line above 64 KiB where its end
    /// has come with the rest, and its buffers take 160 KiB of one; here the limit is the same
    /// however a line arrives, so that it is the larger one.
    pub const REDIS: Limits = Limits {
        bulk_bytes_max: 512 * 1024 * 1024,
        multibulk_count_max: i32::MAX as u32,
        inline_bytes_max: 160 * 1024,
        authenticated: true,
    };
}

impl Default for Limits {
    fn default() -> Limits {
        Limits::REDIS
    }
}

/// What one decode call did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Decoded {
    /// Bytes at the start of the buffer that no later call needs. The batch refers to them, so
    /// they go once its requests have been executed. The rest comes first in the next call's
    /// buffer.
    pub consumed: usize,
    /// What to do after the batch has been executed.
    pub next: Next,
}

/// How the byte stream goes on behind the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The batch is full, or ends with a request that has an argument outside of the buffer, or
    /// before one without arguments: decode again before reading more.
    Full,
    /// All requests are out. The next one needs at least this many bytes more than the buffer
    /// held, 1 or more: the exact rest of an argument whose length is known.
    Wanted(usize),
    /// What follows the batch breaks the protocol: reply with the error and close the session.
    Failed(ProtocolError),
}

/// The decoder of one session: what is known of a request that has not arrived in full.
#[derive(Debug, Default)]
pub struct Decoder {
    /// Arguments still to come of the current request; 0 between requests.
    arguments_left: u32,
    /// Length of the argument whose length line was read last and whose bytes are awaited.
    bulk_bytes: Option<u32>,
    /// First byte not yet decoded, from the first byte of the current request.
    position: usize,
    /// Bytes from `position` on that are known to hold no line end.
    scanned: usize,
    /// Arguments of the current request, from its first byte.
    partial: Vec<(u32, u32)>,
    /// The bytes of the argument awaited were taken out of the stream.
    is_taken_out: bool,
    /// So were those of an argument of the current request, maybe an earlier one.
    has_aside: bool,
}

/// An argument of which some bytes are still to come.
#[derive(Clone, Copy, Debug)]
pub struct Awaited<'a> {
    /// The arguments before it, the command name first.
    pub before: RequestView<'a>,
    /// How many arguments the request has.
    pub count: usize,
    /// Its length.
    pub bytes: usize,
    /// The bytes of the request up to its first one.
    pub head_bytes: usize,
}

/// How far a request came.
enum Progress {
    /// It ends before this position and has arguments.
    Complete(usize),
    /// It ends before this position and asks for nothing (`*0`, an empty line).
    Empty(usize),
    /// It needs that many more bytes.
    Wanted(usize),
}

/// A search for a line end.
enum Line {
    /// Position of the byte that ends the line.
    End(usize),
    Incomplete,
    TooLong,
}

impl Decoder {
    /// Returns the decoder of a new session.
    pub fn new() -> Decoder {
        Decoder::default()
    }

    /// Returns how many bytes of the current request have been looked at: what is decoded next has
    /// so many at least.
    #[inline]
    pub fn seen_bytes(&self) -> usize {
        self.position + self.scanned
    }

    /// Replaces the contents of `batch` by up to `requests_max` requests of `buffer`.
    ///
    /// `buffer` begins with the first byte that no earlier call consumed and ends with the last
    /// one received. Inline arguments with escapes are rewritten in place, which is why it is
    /// borrowed mutably; only bytes that the call consumes, or that fail, change. Where a request
    /// can change the limits of those behind it (AUTH), pass 1 as `requests_max`. After
    /// `Next::Failed` neither the decoder nor the rest of the buffer is of use. Allocates only
    /// while a table grows.
    ///
    /// # Panics
    /// When `buffer` is longer than `u32::MAX`; the limit of a session's buffer is below that.
    pub fn decode(
        &mut self,
        buffer: &mut [u8],
        batch: &mut Batch,
        requests_max: usize,
        limits: &Limits,
    ) -> Decoded {
        assert!(u32::try_from(buffer.len()).is_ok(), "a receive buffer is below 4 GiB");
        batch.clear();
        let mut consumed = 0;
        while batch.len() < requests_max {
            if self.is_between_requests()
                && let Some(end) = decode_whole(buffer, consumed, limits, batch)
            {
                consumed = end;
                continue;
            }
            match self.resume(buffer, consumed, limits, batch) {
                Ok(Progress::Complete(end)) => {
                    let ends_batch = self.has_aside;
                    self.forget_request();
                    consumed = end;
                    if ends_batch {
                        break;
                    }
                }
                Ok(Progress::Empty(end)) => {
                    self.forget_request();
                    if !batch.is_empty() {
                        // The next batch tells of it, so that it is between the right requests.
                        break;
                    }
                    batch.note_empty_request();
                    consumed = end;
                }
                Ok(Progress::Wanted(bytes)) => {
                    return Decoded { consumed, next: Next::Wanted(bytes) };
                }
                Err(error) => return Decoded { consumed, next: Next::Failed(error) },
            }
        }
        Decoded { consumed, next: Next::Full }
    }

    /// Returns the argument that the last call of [`Decoder::decode`] waits for, if it knows its
    /// length and the request has no argument outside of the stream yet. `request` is what that
    /// call did not consume.
    pub fn awaited<'a>(&'a self, request: &'a [u8]) -> Option<Awaited<'a>> {
        let bytes = self.bulk_bytes.filter(|_| !self.has_aside)? as usize;
        if self.partial.is_empty() {
            return None;
        }
        let before = RequestView { buffer: request, ranges: &self.partial, aside: &[] };
        let count = self.partial.len() + self.arguments_left as usize;
        Some(Awaited { before, count, bytes, head_bytes: self.position })
    }

    /// Goes on as if the argument awaited had no bytes: the caller takes them out of the stream,
    /// those that it has seen and those to come, and gives them to [`Batch::view_with`].
    ///
    /// # Panics
    /// When no argument is awaited.
    pub fn take_out(&mut self) {
        assert!(self.bulk_bytes.is_some() && !self.has_aside, "one argument is awaited");
        self.bulk_bytes = Some(0);
        (self.is_taken_out, self.has_aside) = (true, true);
    }

    /// Returns the bytes of memory that the decoder holds beside itself, for accounting.
    pub fn memory_bytes(&self) -> usize {
        self.partial.capacity() * size_of::<(u32, u32)>()
    }

    #[inline]
    fn is_between_requests(&self) -> bool {
        self.position == 0 && self.scanned == 0
    }

    fn forget_request(&mut self) {
        self.position = 0;
        self.scanned = 0;
        self.has_aside = false;
        self.partial.clear();
        if self.partial.capacity() > PARTIAL_RANGES_KEPT {
            self.partial = Vec::new();
        }
    }

    /// Goes on with the request that begins at `start`, from where the last call stopped.
    fn resume(
        &mut self,
        buffer: &mut [u8],
        start: usize,
        limits: &Limits,
        batch: &mut Batch,
    ) -> Result<Progress, ProtocolError> {
        match buffer.get(start) {
            None => Ok(Progress::Wanted(1)),
            Some(b'*') => self.resume_multibulk(&buffer[start..], start, limits, batch),
            Some(_) => self.resume_inline(buffer, start, limits, batch),
        }
    }

    fn resume_inline(
        &mut self,
        buffer: &mut [u8],
        start: usize,
        limits: &Limits,
        batch: &mut Batch,
    ) -> Result<Progress, ProtocolError> {
        let newline = match self.find_line_end(&buffer[start..], b'\n', limits) {
            Line::End(end) => start + end,
            Line::Incomplete => return Ok(Progress::Wanted(1)),
            Line::TooLong => return Err(ProtocolError::InlineTooLong),
        };
        let has_return = newline > start && buffer[newline - 1] == b'\r';
        let end = if has_return { newline - 1 } else { newline };
        let mark = batch.mark();
        if inline::split(buffer, start, end, batch).is_err() {
            batch.rewind(mark);
            return Err(ProtocolError::UnbalancedQuotes);
        }
        if batch.mark() == mark {
            return Ok(Progress::Empty(newline + 1));
        }
        batch.close_request(mark);
        Ok(Progress::Complete(newline + 1))
    }

    /// `request` is the buffer from the request's first byte, which is at `start` of the buffer.
    fn resume_multibulk(
        &mut self,
        request: &[u8],
        start: usize,
        limits: &Limits,
        batch: &mut Batch,
    ) -> Result<Progress, ProtocolError> {
        if self.position == 0 {
            let Some(count) = self.multibulk_count(request, limits)? else {
                return Ok(Progress::Wanted(1));
            };
            if count == 0 {
                return Ok(Progress::Empty(start + self.position));
            }
            self.arguments_left = count;
        }
        while self.arguments_left > 0 {
            if self.bulk_bytes.is_none() {
                self.bulk_bytes = self.bulk_length(request, limits)?;
            }
            let Some(bytes) = self.bulk_bytes else { return Ok(Progress::Wanted(1)) };
            let end = self.position + bytes as usize;
            if end + 2 > request.len() {
                return Ok(Progress::Wanted(end + 2 - request.len()));
            }
            let range = (self.position as u32, end as u32);
            self.partial.push(if self.is_taken_out { ASIDE } else { range });
            self.is_taken_out = false;
            self.position = end + 2;
            self.bulk_bytes = None;
            self.arguments_left -= 1;
        }
        let mark = batch.mark();
        for &range in &self.partial {
            let (first, end) = range;
            match range {
                ASIDE => batch.push_range(first, end),
                _ => batch.push_range(start as u32 + first, start as u32 + end),
            }
        }
        batch.close_request(mark);
        Ok(Progress::Complete(start + self.position))
    }

    /// Reads the `*` line; none when it is incomplete, 0 for a count of 0 or less.
    fn multibulk_count(
        &mut self,
        request: &[u8],
        limits: &Limits,
    ) -> Result<Option<u32>, ProtocolError> {
        let line = match self.find_line_end(request, b'\r', limits) {
            // The byte after the `\r` belongs to the line, whatever it is.
            Line::End(end) if end + 1 < request.len() => &request[self.position..end],
            Line::End(_) | Line::Incomplete => return Ok(None),
            Line::TooLong => return Err(ProtocolError::MultibulkCountTooLong),
        };
        let count = parse_i64(&line[1..]).ok_or(ProtocolError::InvalidMultibulkCount)?;
        if count > i64::from(limits.multibulk_count_max) {
            return Err(ProtocolError::InvalidMultibulkCount);
        }
        if count > UNAUTHENTICATED_MULTIBULK_COUNT_MAX && !limits.authenticated {
            return Err(ProtocolError::UnauthenticatedMultibulkCount);
        }
        self.finish_line(line.len());
        Ok(Some(count.max(0) as u32))
    }

    /// Reads a `$` line; none when it is incomplete.
    fn bulk_length(
        &mut self,
        request: &[u8],
        limits: &Limits,
    ) -> Result<Option<u32>, ProtocolError> {
        let line = match self.find_line_end(request, b'\r', limits) {
            Line::End(end) if end + 1 < request.len() => &request[self.position..end],
            Line::End(_) | Line::Incomplete => return Ok(None),
            Line::TooLong => return Err(ProtocolError::BulkLengthTooLong),
        };
        let found = request[self.position];
        if found != b'$' {
            return Err(ProtocolError::ExpectedBulk { found });
        }
        let bytes = parse_i64(&line[1..]).ok_or(ProtocolError::InvalidBulkLength)?;
        if bytes < 0 || bytes > i64::from(limits.bulk_bytes_max) {
            return Err(ProtocolError::InvalidBulkLength);
        }
        if bytes > UNAUTHENTICATED_BULK_BYTES_MAX && !limits.authenticated {
            return Err(ProtocolError::UnauthenticatedBulkLength);
        }
        self.finish_line(line.len());
        Ok(Some(bytes as u32))
    }

    /// Searches from `position` for the first `terminator` that no NUL precedes.
    ///
    /// An inline request may have `inline_bytes_max` bytes before its terminator, a length line
    /// [`LENGTH_LINE_BYTES_MAX`] of them. Counting from the line's start, not from what happened to
    /// arrive together, keeps the outcome the same for any cut.
    fn find_line_end(&mut self, bytes: &[u8], terminator: u8, limits: &Limits) -> Line {
        let most = if terminator == b'\r' { LENGTH_LINE_BYTES_MAX } else { u32::MAX };
        let bytes_max = limits.inline_bytes_max.min(most) as usize;
        let line = &bytes[self.position..];
        let window = &line[self.scanned..line.len().min(bytes_max + 1)];
        match window.iter().position(|&byte| byte == terminator || byte == 0) {
            Some(offset) if window[offset] == terminator => {
                Line::End(self.position + self.scanned + offset)
            }
            // A NUL is met again by the next call, and so hides all that follows.
            _ if line.len() > bytes_max => Line::TooLong,
            Some(offset) => {
                self.scanned += offset;
                Line::Incomplete
            }
            None => {
                self.scanned += window.len();
                Line::Incomplete
            }
        }
    }

    /// Steps over a length line of `line_bytes` and its two end bytes.
    fn finish_line(&mut self, line_bytes: usize) {
        self.position += line_bytes + 2;
        self.scanned = 0;
    }
}

/// Decodes the request at `start` when all of it is there in its usual form; returns its end.
///
/// Declines (and leaves `batch` as it was) whenever anything is incomplete, unusual or wrong: the
/// resuming path then says what it is.
#[inline]
fn decode_whole(buffer: &[u8], start: usize, limits: &Limits, batch: &mut Batch) -> Option<usize> {
    let (count, mut position) = length_line(buffer, start, b'*')?;
    let within = count <= limits.multibulk_count_max && limits.authenticated;
    if count == 0 || !within {
        return None;
    }
    let mark = batch.mark();
    for _ in 0..count {
        match length_line(buffer, position, b'$') {
            Some((bytes, first))
                if bytes <= limits.bulk_bytes_max && buffer.len() - first >= bytes as usize + 2 =>
            {
                let end = first + bytes as usize;
                batch.push_range(first as u32, end as u32);
                position = end + 2;
            }
            _ => {
                batch.rewind(mark);
                return None;
            }
        }
    }
    batch.close_request(mark);
    Some(position)
}

/// Reads `marker`, a number of at most nine digits and a line end; returns the number and the
/// position behind the line. The number of most lines has one digit or two.
#[inline]
fn length_line(buffer: &[u8], start: usize, marker: u8) -> Option<(u32, usize)> {
    let digit = |byte: u8| u32::from(byte.wrapping_sub(b'0'));
    if let Some(&[found, first, second, third, _]) = buffer.get(start..)?.first_chunk()
        && found == marker
        && digit(first) <= 9
    {
        if second == b'\r' {
            return Some((digit(first), start + 4));
        }
        // No digit may follow a leading zero: `string2ll` refuses that.
        if third == b'\r' && first != b'0' && digit(second) <= 9 {
            return Some((digit(first) * 10 + digit(second), start + 5));
        }
    }
    any_length_line(buffer, start, marker)
}

/// As [`length_line`], whatever the number of digits.
#[inline(never)]
fn any_length_line(buffer: &[u8], start: usize, marker: u8) -> Option<(u32, usize)> {
    const DIGITS_MAX: usize = 9;
    let line = buffer.get(start..)?;
    let [found, first_digit, rest @ ..] = line else { return None };
    let mut number = u32::from(first_digit.wrapping_sub(b'0'));
    if *found != marker || number > 9 {
        return None;
    }
    for (index, &byte) in rest.iter().take(DIGITS_MAX).enumerate() {
        let digit = u32::from(byte.wrapping_sub(b'0'));
        // No digit may follow a leading zero: `string2ll` refuses that.
        if digit <= 9 && number > 0 && index + 1 < DIGITS_MAX {
            number = number * 10 + digit;
        } else if byte == b'\r' && index + 1 < rest.len() {
            return Some((number, start + 2 + index + 2));
        } else {
            return None;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::OwnedRequest;

    /// What a stream comes to: its requests, and its error if it has one.
    #[derive(Debug, PartialEq, Eq)]
    struct Outcome {
        requests: Vec<Vec<Vec<u8>>>,
        error: Option<ProtocolError>,
    }

    fn decode_with(stream: &[u8], limits: &Limits) -> Outcome {
        let mut buffer = stream.to_vec();
        let mut batch = Batch::new();
        let mut requests = Vec::new();
        let mut decoder = Decoder::new();
        loop {
            let decoded = decoder.decode(&mut buffer, &mut batch, 3, limits);
            for request in batch.view(&buffer).iter() {
                requests.push(request.iter().map(<[u8]>::to_vec).collect());
            }
            buffer.drain(..decoded.consumed);
            match decoded.next {
                Next::Full => {}
                Next::Wanted(_) => return Outcome { requests, error: None },
                Next::Failed(error) => return Outcome { requests, error: Some(error) },
            }
        }
    }

    fn check(stream: &[u8], requests: &[&[&[u8]]], error: Option<ProtocolError>) {
        let own = |request: &&[&[u8]]| request.iter().map(|bytes| bytes.to_vec()).collect();
        let expected = Outcome { requests: requests.iter().map(own).collect(), error };
        let found = decode_with(stream, &Limits::REDIS);
        assert_eq!(found, expected, "stream {}", stream.escape_ascii());
    }

    fn check_error(stream: &[u8], limits: &Limits, expected: Option<&str>) {
        let found = decode_with(stream, limits).error.map(|error| error.text());
        let found = found.map(|text| text.escape_ascii().to_string());
        let shown = String::from_utf8_lossy(&stream[..stream.len().min(40)]);
        assert_eq!(found.as_deref(), expected, "stream {shown}");
    }

    const PING: &[&[u8]] = &[b"PING"];

    #[test]
    fn requests_of_both_kinds_are_decoded() {
        check(b"", &[], None);
        check(b"*1\r\n$4\r\nPING\r\n", &[PING], None);
        check(b"PING\r\nPING\n*1\r\n$4\r\nPING\r\n", &[PING, PING, PING], None);
        check(
            b"*3\r\n$3\r\nSET\r\n$0\r\n\r\n$4\r\n\0\r\n*\r\n",
            &[&[b"SET", b"", b"\0\r\n*"]],
            None,
        );
        check(b"SET k \"a\\x00\" 'b c'\r\n", &[&[b"SET", b"k", b"a\0", b"b c"]], None);
        check(b"PING \"\"\r\n", &[&[b"PING", b""]], None);
    }

    #[test]
    fn more_than_a_batch_comes_in_several() {
        let stream = b"PING\r\n".repeat(10);
        check(&stream, &[PING; 10], None);
    }

    #[test]
    fn requests_without_arguments_are_skipped() {
        check(b"\r\n\n  \t\r\n*0\r\n*-1\r\n*-9223372036854775808\r\nPING\r\n", &[PING], None);
    }

    #[test]
    fn what_redis_tolerates_is_tolerated() {
        check(b"*1\rX$4\rYPINGab", &[PING], None);
        check(b"PING\x0bx a\rb\r\n", &[&[b"PING\x0bx", b"a", b"b"]], None);
        check(b"\0PING\r\nPING\r\n", &[], None);
        check(b"*1\0\r\n$4\r\nPING\r\n", &[], None);
        check(b"*1\r\n$4\0\r\nPING\r\n", &[], None);
    }

    #[test]
    fn errors_have_the_texts_of_redis() {
        let limits = &Limits::REDIS;
        for text in [
            "*2147483648",
            "*01",
            "*+1",
            "*",
            "*-",
            "*-0",
            "*1x",
            "* 1",
            "*1 ",
            "*-9223372036854775809",
        ] {
            let stream = format!("{text}\r\n");
            check_error(
                stream.as_bytes(),
                limits,
                Some("ERR Protocol error: invalid multibulk length"),
            );
        }
        for text in ["$-1", "$04", "$536870913", "$", "$x", "$+1", "$99999999999999999999"] {
            let stream = format!("*1\r\n{text}\r\n");
            check_error(stream.as_bytes(), limits, Some("ERR Protocol error: invalid bulk length"));
        }
        for (stream, found) in [
            (&b"*1\r\n!4\r\n"[..], "!"),
            (b"*1\r\n\r\n", "\\r"),
            (b"*1\r\n\xff4\r\n", "\\xff"),
            (b"*3\r\n$3\r\nSET\r\n:5\r\n", ":"),
        ] {
            let expected = format!("ERR Protocol error: expected \\'$\\', got \\'{found}\\'");
            check_error(stream, limits, Some(&expected));
        }
        check_error(
            b"PING 'a'b\r\n",
            limits,
            Some("ERR Protocol error: unbalanced quotes in request"),
        );
    }

    #[test]
    fn lines_have_a_limit_wherever_they_are_cut() {
        let limits = &Limits { inline_bytes_max: 100, ..Limits::REDIS };
        let line = |start: &str, bytes: usize, end: &str| {
            format!("{start}{}{end}", "1".repeat(bytes - start.len())).into_bytes()
        };
        check_error(&line("P", 100, "\n"), limits, None);
        check_error(&line("P", 100, ""), limits, None);
        for (start, error) in [
            ("P", "too big inline request"),
            ("*", "too big mbulk count string"),
            ("*1\r\n$", "too big bulk count string"),
        ] {
            let expected = format!("ERR Protocol error: {error}");
            let bytes = start.len() + 100;
            check_error(&line(start, bytes, ""), limits, Some(&expected));
            check_error(&line(start, bytes, "\r\n"), limits, Some(&expected));
        }
        check_error(
            &[b"\0", &[b'\n'; 100][..]].concat(),
            limits,
            Some("ERR Protocol error: too big inline request"),
        );
    }

    #[test]
    fn unauthenticated_sessions_have_smaller_limits() {
        let limits = &Limits { authenticated: false, ..Limits::REDIS };
        check_error(b"*10\r\n$16384\r\n", limits, None);
        check_error(
            b"*11\r\n",
            limits,
            Some("ERR Protocol error: unauthenticated multibulk length"),
        );
        check_error(
            b"*1\r\n$16385\r\n",
            limits,
            Some("ERR Protocol error: unauthenticated bulk length"),
        );
        check_error(
            b"*1\r\n$536870913\r\n",
            limits,
            Some("ERR Protocol error: invalid bulk length"),
        );
        let ping = decode_with(b"*1\r\n$4\r\nPING\r\n", limits);
        assert_eq!(ping.requests, [[b"PING".to_vec()]]);
    }

    #[test]
    fn requests_before_an_error_are_delivered() {
        check(b"PING\r\n*x\r\n", &[PING], Some(ProtocolError::InvalidMultibulkCount));
        check(b"*1\r\n$4\r\nPING\r\n'\r\n", &[PING], Some(ProtocolError::UnbalancedQuotes));
    }

    fn wanted(stream: &[u8]) -> (usize, Next) {
        let mut buffer = stream.to_vec();
        let mut batch = Batch::new();
        let decoded = Decoder::new().decode(&mut buffer, &mut batch, 64, &Limits::REDIS);
        (decoded.consumed, decoded.next)
    }

    #[test]
    fn wanted_is_the_rest_of_an_argument() {
        assert_eq!(wanted(b""), (0, Next::Wanted(1)));
        assert_eq!(wanted(b"*2\r"), (0, Next::Wanted(1)));
        assert_eq!(wanted(b"*2\r\n$3\r\nGET\r\n$1000000\r\nabc"), (0, Next::Wanted(999_999)));
        assert_eq!(wanted(b"PING\r\n*1\r\n$4\r\nPIN"), (6, Next::Wanted(3)));
        assert_eq!(wanted(b"PING\r\n*1\r\n$4\r\nPING"), (6, Next::Wanted(2)));
        assert_eq!(wanted(b"PING\r\nPI"), (6, Next::Wanted(1)));
    }

    #[test]
    fn argument_taken_out_is_the_same_argument() {
        let stream =
            b"*4\r\n$3\r\nSET\r\n$1\r\nk\r\n$9\r\nthe\r\nlong\r\n$2\r\nNX\r\n*1\r\n$4\r\nPING\r\n";
        let value = 0..9;
        let first = stream.windows(3).position(|window| window == b"the").unwrap();
        for cut in first..first + value.len() {
            let (mut decoder, mut batch) = (Decoder::new(), Batch::new());
            let mut head = stream[..cut].to_vec();
            let decoded = decoder.decode(&mut head, &mut batch, 64, &Limits::REDIS);
            assert_eq!(decoded, Decoded { consumed: 0, next: Next::Wanted(first + 11 - cut) });
            let awaited = decoder.awaited(&head).unwrap();
            assert_eq!((awaited.bytes, awaited.count, awaited.head_bytes), (9, 4, first));
            assert_eq!(awaited.before.iter().collect::<Vec<_>>(), [&b"SET"[..], b"k"]);
            decoder.take_out();
            head.truncate(first);
            assert!(decoder.awaited(&head).is_none(), "one is enough");
            // What follows the value comes byte by byte.
            let mut behind = stream[first + 9..].iter();
            let decoded = loop {
                let decoded = decoder.decode(&mut head, &mut batch, 64, &Limits::REDIS);
                if batch.has_aside() {
                    break decoded;
                }
                assert_eq!((decoded.consumed, batch.len()), (0, 0));
                head.push(*behind.next().unwrap());
            };
            assert_eq!((batch.len(), decoded.next), (1, Next::Full));
            let aside = stream[first..first + 9].to_vec();
            let found: Vec<&[u8]> = batch.view_with(&head, &aside).at(0).iter().collect();
            assert_eq!(found, [&b"SET"[..], b"k", b"the\r\nlong", b"NX"]);
            head.drain(..decoded.consumed);
            head.extend(behind);
            let _ = decoder.decode(&mut head, &mut batch, 64, &Limits::REDIS);
            assert!(!batch.has_aside() && !decoder.has_aside);
            assert_eq!(batch.view(&head).at(0).at(0), b"PING");
        }
    }

    #[test]
    fn a_large_request_in_small_pieces_is_looked_at_once() {
        // A quadratic decoder would need hours for this.
        let count = 200_000;
        let mut stream = format!("*{count}\r\n").into_bytes();
        (0..count).for_each(|_| stream.extend_from_slice(b"$1\r\nx\r\n"));
        let mut decoder = Decoder::new();
        let mut batch = Batch::new();
        for end in 1..stream.len() {
            let decoded = decoder.decode(&mut stream[..end], &mut batch, 64, &Limits::REDIS);
            assert_eq!(decoded.consumed, 0);
        }
        let end = stream.len();
        let decoded = decoder.decode(&mut stream, &mut batch, 64, &Limits::REDIS);
        assert_eq!(decoded, Decoded { consumed: end, next: Next::Wanted(1) });
        assert_eq!(batch.requests()[0].count, count);
        assert_eq!(decoder.memory_bytes(), 0);
    }

    #[test]
    fn owned_request_outlives_its_buffer() {
        let mut buffer = b"*1\r\n$4\r\nPING\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$0\r\n\r\n".to_vec();
        let mut batch = Batch::new();
        let _ = Decoder::new().decode(&mut buffer, &mut batch, 64, &Limits::REDIS);
        let owned = OwnedRequest::new(batch.view(&buffer).at(1).iter());
        drop(buffer);
        let arguments: Vec<&[u8]> = owned.view().iter().collect();
        assert_eq!(arguments, [&b"SET"[..], b"k", b""]);
        assert_eq!(owned.view().at(1), b"k");
    }
}
