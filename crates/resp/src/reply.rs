//! The server's replies in both versions of the protocol.

use std::ops::Range;

use crate::output::{Referenced, References};
use base::number_text::{DoubleText, IntegerText};

/// The version of the protocol that a session speaks; HELLO changes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// RESP2, what every session begins with.
    #[default]
    Resp2,
    /// RESP3.
    Resp3,
    /// That of memcached, in text: what a session by one of its listeners speaks. Its commands
    /// write their replies as bytes; only errors are written in its way.
    Memcached,
}

impl Protocol {
    /// Returns the protocol that HELLO calls `version`.
    pub fn from_version(version: i64) -> Option<Protocol> {
        match version {
            2 => Some(Protocol::Resp2),
            3 => Some(Protocol::Resp3),
            _ => None,
        }
    }

    /// Returns the number that HELLO calls it by.
    pub fn version(self) -> i64 {
        match self {
            Protocol::Resp2 => 2,
            // HELLO is not there to ask for it.
            Protocol::Memcached => 0,
            Protocol::Resp3 => 3,
        }
    }
}

/// Appends replies to a session's output buffer.
///
/// Types that only RESP3 has are written in RESP2 as Redis writes them: a map as an array twice
/// as long, a set or push as an array, a double, big number or verbatim text as a bulk string, a
/// boolean as an integer. Whoever announces n elements writes n elements. An output may have a
/// limit, which cuts replies short.
#[derive(Debug)]
pub struct Reply<'a> {
    out: &'a mut Vec<u8>,
    /// Where values that are not copied are noted; absent where all bytes go to one buffer.
    references: Option<&'a mut References>,
    protocol: Protocol,
}

/// An aggregate whose element count is not known yet; see [`Reply::deferred`].
#[derive(Debug)]
#[must_use = "the header is written by Reply::finish"]
pub struct Deferred {
    at: usize,
}

impl<'a> Reply<'a> {
    /// Returns an encoder that appends to `out`, referenced values too.
    #[inline]
    pub fn new(out: &'a mut Vec<u8>, protocol: Protocol) -> Reply<'a> {
        Reply { out, references: None, protocol }
    }

    /// Returns an encoder that appends to `out` and notes values that lie elsewhere.
    #[inline]
    pub(crate) fn with_references(
        out: &'a mut Vec<u8>,
        references: &'a mut References,
        protocol: Protocol,
    ) -> Reply<'a> {
        Reply { out, references: Some(references), protocol }
    }

    /// Returns the session's protocol.
    #[inline]
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Changes the protocol of what follows: HELLO answers in the version that it asks for.
    pub fn set_protocol(&mut self, protocol: Protocol) {
        self.protocol = protocol;
    }

    /// Returns the length of the output buffer.
    #[inline]
    pub fn position(&self) -> usize {
        self.out.len()
    }

    /// Takes back everything since [`Reply::position`] was `position`: a handler that fails half
    /// way replies with its error alone.
    ///
    /// # Panics
    /// When `position` is beyond the output buffer's end.
    #[inline]
    pub fn rewind(&mut self, position: usize) {
        assert!(position <= self.out.len(), "a reply is taken back, never forward");
        self.out.truncate(position);
        if let Some(references) = &mut self.references {
            references.truncate(position);
        }
    }

    /// Returns whether the output has cut the reply short: what follows is not written either.
    pub fn is_cut(&self) -> bool {
        self.references.as_ref().is_some_and(|references| references.is_over_limit())
    }

    /// Returns whether the output takes more; where it does not, it cuts the reply. Whoever writes
    /// numbers without end asks: only strings ask by themselves.
    pub fn takes_more(&mut self) -> bool {
        self.admits(0)
    }

    /// Returns how many values the output refers to where they lie.
    pub fn reference_count(&self) -> usize {
        self.references.as_ref().map_or(0, |references| references.elsewhere_count())
    }

    /// Appends `+OK`.
    #[inline]
    pub fn ok(&mut self) {
        self.out.extend_from_slice(b"+OK\r\n");
    }

    /// Appends a simple string; `text` has no line end.
    #[inline]
    pub fn simple(&mut self, text: impl AsRef<[u8]>) {
        let text = text.as_ref();
        debug_assert!(
            !text.contains(&b'\r') && !text.contains(&b'\n'),
            "a simple string is a line"
        );
        self.line(b'+', text);
    }

    /// Appends an error. `text` begins with the error's code (`ERR ...`, `WRONGTYPE ...`); line
    /// ends in it become spaces, as a peer's bytes may be quoted in it.
    pub fn error(&mut self, text: impl AsRef<[u8]>) {
        let text = text.as_ref();
        if self.protocol == Protocol::Memcached {
            return self.memcached_error(text);
        }
        let start = self.out.len() + 1;
        self.line(b'-', text);
        for byte in &mut self.out[start..start + text.len()] {
            if matches!(*byte, b'\r' | b'\n') {
                *byte = b' ';
            }
        }
    }

    /// Appends an error of the server in the words of memcached, where it has words for it.
    #[cold]
    fn memcached_error(&mut self, text: &[u8]) {
        let line: &[u8] = match text {
            _ if text.starts_with(b"OOM ") => b"SERVER_ERROR out of memory storing object",
            _ if text.starts_with(b"NOAUTH ") => b"CLIENT_ERROR unauthenticated",
            _ => {
                self.out.extend_from_slice(b"SERVER_ERROR ");
                let clean = |byte: &u8| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte };
                self.out.extend(text.iter().map(clean));
                b""
            }
        };
        self.out.extend_from_slice(line);
        self.out.extend_from_slice(b"\r\n");
    }

    /// Appends an integer.
    #[inline]
    pub fn integer(&mut self, value: i64) {
        self.number(b':', value);
    }

    /// Appends a bulk string.
    #[inline]
    pub fn bulk(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        if !self.admits(bytes.len()) {
            return;
        }
        // One reservation for header, bytes and line end.
        self.out.reserve(bytes.len() + 26);
        self.number(b'$', bytes.len() as i64);
        self.out.extend_from_slice(bytes);
        self.out.extend_from_slice(b"\r\n");
    }

    /// Appends a bulk string that is not copied: it is sent from where it lies. Worth its while
    /// from some KiB on; where all bytes go to one buffer, it is copied all the same.
    pub fn bulk_referenced(&mut self, value: Referenced) {
        if self.references.is_none() {
            return self.bulk((*value).as_ref());
        }
        let (own_bytes, length) = (self.out.len(), (*value).as_ref().len());
        if self.references.as_mut().is_some_and(|it| !it.admit_referenced(own_bytes, length)) {
            return;
        }
        self.number(b'$', length as i64);
        if let Some(references) = &mut self.references {
            references.push(self.out.len(), value);
        }
        self.out.extend_from_slice(b"\r\n");
    }

    /// Appends an integer as a bulk string.
    #[inline]
    pub fn bulk_integer(&mut self, value: i64) {
        self.bulk(IntegerText::new(value).as_bytes());
    }

    /// Appends the bulk string, or null when there is none.
    #[inline]
    pub fn bulk_or_null(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.bulk(bytes),
            None => self.null(),
        }
    }

    /// Appends the header of a bulk string whose `bytes` bytes and line end the caller sends.
    #[inline]
    pub fn bulk_header(&mut self, bytes: usize) {
        self.number(b'$', bytes as i64);
    }

    /// Appends bytes that are a reply, or a part of one, already.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Appends a value alone that is not copied, as [`Reply::bulk_referenced`] does.
    pub fn raw_referenced(&mut self, value: Referenced) {
        let (own_bytes, length) = (self.out.len(), (*value).as_ref().len());
        match &mut self.references {
            None => self.out.extend_from_slice((*value).as_ref()),
            Some(references) => {
                if references.admit_referenced(own_bytes, length) {
                    references.push(own_bytes, value);
                }
            }
        }
    }

    /// Returns whether the output takes `bytes` more of a value; where it does not, it cuts the
    /// reply.
    #[inline]
    pub fn admits_value(&mut self, bytes: usize) -> bool {
        self.admits(bytes)
    }

    /// Returns the buffer, to append bytes that are a reply already.
    #[inline]
    pub fn raw_out(&mut self) -> &mut Vec<u8> {
        self.out
    }

    /// Appends the absence of a value: a null bulk string in RESP2.
    #[inline]
    pub fn null(&mut self) {
        self.out.extend_from_slice(match self.protocol {
            Protocol::Resp2 | Protocol::Memcached => b"$-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// Appends the absence of an array: a null array in RESP2.
    #[inline]
    pub fn null_array(&mut self) {
        self.out.extend_from_slice(match self.protocol {
            Protocol::Resp2 | Protocol::Memcached => b"*-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// Opens an array of `count` elements.
    #[inline]
    pub fn array(&mut self, count: usize) {
        self.number(b'*', count as i64);
    }

    /// Opens a map of `count` pairs: key and value of each follow.
    pub fn map(&mut self, count: usize) {
        match self.protocol {
            Protocol::Resp2 | Protocol::Memcached => self.number(b'*', 2 * count as i64),
            Protocol::Resp3 => self.number(b'%', count as i64),
        }
    }

    /// Opens a set of `count` elements.
    pub fn set(&mut self, count: usize) {
        self.aggregate(b'~', count);
    }

    /// Opens an out-of-band message of `count` elements.
    pub fn push(&mut self, count: usize) {
        self.aggregate(b'>', count);
    }

    /// Opens an aggregate whose count is told to [`Reply::finish`] after its elements.
    pub fn deferred(&mut self) -> Deferred {
        Deferred { at: self.out.len() }
    }

    /// Writes the header of `deferred` before the elements written since: `open` opens the
    /// aggregate (`|reply| reply.array(count)`). Costs one move of those elements' bytes.
    pub fn finish(&mut self, deferred: Deferred, open: impl FnOnce(&mut Reply<'_>)) {
        let elements_end = self.out.len();
        open(self);
        let header_bytes = self.out.len() - elements_end;
        self.out[deferred.at..].rotate_right(header_bytes);
        if let Some(references) = &mut self.references {
            references.shift(deferred.at, header_bytes);
        }
    }

    /// Puts what was written since [`Reply::position`] was `start` into the order of `pieces`,
    /// which are all of it, each a whole number of replies. Costs one copy of those bytes.
    ///
    /// # Panics
    /// When the pieces are not all of it.
    pub fn arrange(&mut self, start: usize, pieces: &[Range<usize>]) {
        let mut arranged = Vec::with_capacity(self.out.len() - start);
        let mut moves = Vec::with_capacity(pieces.len());
        for piece in pieces {
            moves.push((piece.clone(), start + arranged.len()));
            arranged.extend_from_slice(&self.out[piece.clone()]);
        }
        assert_eq!(arranged.len(), self.out.len() - start, "each reply has its place");
        self.out[start..].copy_from_slice(&arranged);
        if let Some(references) = &mut self.references {
            references.arrange(start, moves);
        }
    }

    /// Appends a double, in the shortest form that reads back as the same number.
    pub fn double(&mut self, value: f64) {
        let text = DoubleText::new(value);
        match self.protocol {
            Protocol::Resp2 | Protocol::Memcached => self.bulk(text.as_bytes()),
            Protocol::Resp3 => self.line(b',', text.as_bytes()),
        }
    }

    /// Appends a double that is written as `text`.
    pub fn double_text(&mut self, text: &str) {
        match self.protocol {
            Protocol::Resp2 | Protocol::Memcached => self.bulk(text),
            Protocol::Resp3 => self.line(b',', text.as_bytes()),
        }
    }

    /// Appends a boolean.
    pub fn boolean(&mut self, value: bool) {
        match self.protocol {
            Protocol::Resp2 | Protocol::Memcached => self.integer(i64::from(value)),
            Protocol::Resp3 => {
                self.out.extend_from_slice(if value { b"#t\r\n" } else { b"#f\r\n" })
            }
        }
    }

    /// Appends a whole number of any size; `digits` is its decimal text.
    pub fn big_number(&mut self, digits: &str) {
        match self.protocol {
            Protocol::Resp2 | Protocol::Memcached => self.bulk(digits),
            Protocol::Resp3 => self.line(b'(', digits.as_bytes()),
        }
    }

    /// Appends text whose `format` (`txt`, `mkd`) tells a client how to show it.
    pub fn verbatim(&mut self, format: [u8; 3], text: impl AsRef<[u8]>) {
        let text = text.as_ref();
        match self.protocol {
            Protocol::Resp2 | Protocol::Memcached => self.bulk(text),
            Protocol::Resp3 => {
                if !self.admits(text.len()) {
                    return;
                }
                self.number(b'=', text.len() as i64 + 4);
                self.out.extend_from_slice(&format);
                self.out.push(b':');
                self.out.extend_from_slice(text);
                self.out.extend_from_slice(b"\r\n");
            }
        }
    }

    /// Returns whether the output takes a string of `bytes`: only strings make a reply long.
    #[inline]
    fn admits(&mut self, bytes: usize) -> bool {
        let own_bytes = self.out.len();
        match &mut self.references {
            Some(references) => references.admit(own_bytes, bytes),
            None => true,
        }
    }

    /// Opens an aggregate that is an array in RESP2.
    fn aggregate(&mut self, marker: u8, count: usize) {
        match self.protocol {
            Protocol::Resp2 | Protocol::Memcached => self.number(b'*', count as i64),
            Protocol::Resp3 => self.number(marker, count as i64),
        }
    }

    #[inline]
    fn number(&mut self, marker: u8, value: i64) {
        match value {
            0..10 => self.out.extend_from_slice(&[marker, b'0' + value as u8, b'\r', b'\n']),
            10..100 => {
                let [tens, ones] = [b'0' + value as u8 / 10, b'0' + value as u8 % 10];
                self.out.extend_from_slice(&[marker, tens, ones, b'\r', b'\n']);
            }
            _ => self.line(marker, IntegerText::new(value).as_bytes()),
        }
    }

    #[inline]
    fn line(&mut self, marker: u8, text: &[u8]) {
        self.out.reserve(text.len() + 3);
        self.out.push(marker);
        self.out.extend_from_slice(text);
        self.out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(write: impl Fn(&mut Reply<'_>), resp2: &[u8], resp3: &[u8]) {
        for (protocol, expected) in [(Protocol::Resp2, resp2), (Protocol::Resp3, resp3)] {
            let mut out = b"before".to_vec();
            write(&mut Reply::new(&mut out, protocol));
            let written = out.strip_prefix(b"before").unwrap();
            assert_eq!(written.escape_ascii().to_string(), expected.escape_ascii().to_string());
        }
    }

    fn check_same(write: impl Fn(&mut Reply<'_>), expected: &[u8]) {
        check(write, expected, expected);
    }

    #[test]
    fn plain_types_are_the_same_in_both_versions() {
        check_same(|reply| reply.ok(), b"+OK\r\n");
        check_same(|reply| reply.simple("PONG"), b"+PONG\r\n");
        check_same(|reply| reply.integer(-42), b":-42\r\n");
        check_same(|reply| reply.integer(7), b":7\r\n");
        check_same(|reply| reply.bulk("a\r\n"), b"$3\r\na\r\n\r\n");
        check_same(|reply| reply.bulk(""), b"$0\r\n\r\n");
        check_same(|reply| reply.bulk(vec![b'x'; 12]), b"$12\r\nxxxxxxxxxxxx\r\n");
        check_same(|reply| reply.bulk_integer(123), b"$3\r\n123\r\n");
        check_same(|reply| reply.bulk_header(1 << 20), b"$1048576\r\n");
        check_same(|reply| reply.array(0), b"*0\r\n");
        check_same(|reply| reply.array(10), b"*10\r\n");
    }

    #[test]
    fn error_text_stays_one_line() {
        check_same(|reply| reply.error("ERR a\r\nb"), b"-ERR a  b\r\n");
    }

    #[test]
    fn types_of_resp3_have_their_resp2_form() {
        check(|reply| reply.null(), b"$-1\r\n", b"_\r\n");
        check(|reply| reply.bulk_or_null(None), b"$-1\r\n", b"_\r\n");
        check(|reply| reply.null_array(), b"*-1\r\n", b"_\r\n");
        check(|reply| reply.map(3), b"*6\r\n", b"%3\r\n");
        check(|reply| reply.set(3), b"*3\r\n", b"~3\r\n");
        check(|reply| reply.push(3), b"*3\r\n", b">3\r\n");
        check(|reply| reply.double(0.5), b"$3\r\n0.5\r\n", b",0.5\r\n");
        check(|reply| reply.double(f64::INFINITY), b"$3\r\ninf\r\n", b",inf\r\n");
        check(|reply| reply.boolean(true), b":1\r\n", b"#t\r\n");
        check(|reply| reply.boolean(false), b":0\r\n", b"#f\r\n");
        check(
            |reply| reply.big_number("12345678901234567890"),
            b"$20\r\n12345678901234567890\r\n",
            b"(12345678901234567890\r\n",
        );
        check(|reply| reply.verbatim(*b"txt", "hi"), b"$2\r\nhi\r\n", b"=6\r\ntxt:hi\r\n");
    }

    #[test]
    fn deferred_header_comes_before_its_elements() {
        let write = |reply: &mut Reply<'_>| {
            let outer = reply.deferred();
            reply.integer(1);
            let inner = reply.deferred();
            reply.bulk("a");
            reply.bulk("b");
            reply.finish(inner, |reply| reply.map(1));
            reply.finish(outer, |reply| reply.array(2));
        };
        check(
            write,
            b"*2\r\n:1\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n",
            b"*2\r\n:1\r\n%1\r\n$1\r\na\r\n$1\r\nb\r\n",
        );
    }

    #[test]
    fn rewind_leaves_what_was_before() {
        let mut out = Vec::new();
        let mut reply = Reply::new(&mut out, Protocol::Resp2);
        reply.ok();
        let position = reply.position();
        reply.array(5);
        reply.rewind(position);
        reply.error("ERR x");
        assert_eq!(out, b"+OK\r\n-ERR x\r\n");
    }
}
