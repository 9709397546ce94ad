//! Requests out of a byte stream.
//!
//! A request is a line of words, and behind the line of a storage command the data and a line end.
//! Nothing is kept between calls but how far a line without end was searched, and how many bytes of
//! refused data are still to be passed over; what is not complete comes again with the next call.

use std::ops::Range;

use memchr::memchr;
use resp::{Batch, Decoded, ForeignRequest, Next, Requests};

use crate::binary_key::{decode_in_place, encode_binary_key};
use crate::meta::{MetaFlags, MetaMode};
use crate::number::{parse_delta, parse_flags, parse_i32};
use crate::verb::{Fault, Verb};

/// The longest key.
pub const KEY_BYTES_MAX: usize = 250;
/// The longest line that is no retrieval.
const LINE_BYTES_MAX: usize = 2048;
/// Blanks before the first word of a longer one.
const LEADING_BLANKS_MAX: usize = 100;
/// The longest line of a retrieval. Memcached has no limit, but for the memory of the machine.
const RETRIEVAL_BYTES_MAX: usize = 1 << 20;
/// The most keys of `get` and `gets` that are one request. Those of a longer line are several, so
/// that the time for which a request holds its keys, and what it replies at once, have a bound.
const KEYS_PER_REQUEST_MAX: usize = 128;
/// Words that are split off a line at first.
const WORDS_MAX: usize = 23;
/// From so many words on, the one behind the last included, flags are too many.
const META_TOKENS_MAX: usize = 20;
/// The longest data of an authentication.
const AUTH_BYTES_MAX: u32 = 1024;
/// The bytes of an item beside key, value and flags, as memcached counts them: its header and the
/// unique number.
const ITEM_HEADER_BYTES: u64 = 48 + 8;

/// What a peer may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest item, as memcached counts its bytes (`-I`).
    pub item_bytes_max: u64,
    /// False while the peer has to authenticate.
    pub is_authenticated: bool,
}

/// The decoder of one session.
#[derive(Debug, Default)]
pub struct Decoder {
    /// Bytes of refused data that are still to come.
    skip: usize,
    /// Bytes at the start of what is kept that have no line end.
    scanned: usize,
    /// The peer has sent something that was decoded.
    has_begun: bool,
}

type Span = (u32, u32);

/// What became of one line.
enum Step {
    /// It is done, and its data with it: so many bytes.
    Done(usize),
    /// It needs so many bytes more.
    Wanted(usize),
}

impl Decoder {
    /// Returns a decoder that has seen nothing.
    pub fn new() -> Decoder {
        Decoder::default()
    }

    /// Forgets what was known of the bytes to come: those that [`put_back`] gives come next.
    pub fn begin_again(&mut self) {
        *self = Decoder { has_begun: self.has_begun, ..Decoder::default() };
    }

    /// Decodes requests from the start of `buffer` into `batch`: until it has `requests_max` of
    /// them, or a line more, as the keys of one line may be several requests. Keys in base64 are
    /// decoded where they are.
    pub fn decode(
        &mut self,
        buffer: &mut [u8],
        batch: &mut Batch,
        requests_max: usize,
        limits: &Limits,
    ) -> Decoded {
        batch.clear();
        let mut consumed = self.pass_over(buffer.len());
        let next = loop {
            if batch.len() >= requests_max {
                break Next::Full;
            }
            if self.skip > 0 || consumed == buffer.len() {
                break Next::Wanted(self.skip.max(1));
            }
            match self.step(buffer, consumed, batch, limits) {
                Step::Done(bytes) => {
                    (consumed, self.scanned, self.has_begun) = (consumed + bytes, 0, true);
                    consumed += self.pass_over(buffer.len() - consumed);
                }
                Step::Wanted(bytes) => break Next::Wanted(bytes),
            }
        };
        batch.end_foreign(consumed);
        Decoded { consumed, next }
    }

    /// Passes over refused data among `available` bytes; returns how much of it there was.
    fn pass_over(&mut self, available: usize) -> usize {
        let passed = self.skip.min(available);
        self.skip -= passed;
        passed
    }

    fn step(
        &mut self,
        buffer: &mut [u8],
        start: usize,
        batch: &mut Batch,
        limits: &Limits,
    ) -> Step {
        if self.scanned == 0 && (self.has_begun || buffer[start] != 0x80) {
            if limits.is_authenticated
                && let Some(end) = push_get_of_one(buffer, start, batch)
            {
                return Step::Done(end - start);
            }
            let mut words = Words::default();
            if let Some(end) = split_plain(buffer, start, &mut words) {
                let line = Line { buffer, batch, start, words: &mut words, rest: end..end };
                return line.step(end + 1, limits, &mut self.skip);
            }
        }
        self.step_of_any(buffer, start, batch, limits)
    }

    /// As [`Decoder::step`], of a line that may be longer than most, or still without its end.
    #[inline(never)]
    fn step_of_any(
        &mut self,
        buffer: &mut [u8],
        start: usize,
        batch: &mut Batch,
        limits: &Limits,
    ) -> Step {
        let (rest, words) = (&buffer[start..], &mut Words::default());
        if !self.has_begun && rest[0] == 0x80 {
            let mut line = Line::new(buffer, start, start, batch, words);
            line.refuse(Fault::Binary);
            return Step::Done(rest_length(buffer, start));
        }
        let scanned = self.scanned.min(rest.len());
        let end = memchr(b'\n', &rest[scanned..]).map(|at| scanned + at);
        if is_too_long(rest, end.unwrap_or(rest.len()), limits) {
            let mut line = Line::new(buffer, start, start, batch, words);
            line.refuse(Fault::Attack);
            return Step::Done(rest_length(buffer, start));
        }
        let Some(end) = end.map(|end| start + end) else {
            self.scanned = rest.len();
            return Step::Wanted(1);
        };
        let text_end = end_of_text(buffer, start, end);
        Line::new(buffer, start, text_end, batch, words).step(end + 1, limits, &mut self.skip)
    }
}

/// Returns whether a line that begins like `line` and has `length` bytes or more is longer than a
/// line may be. Memcached ends a session at such a line where its end does not come along with it;
/// here that is the same however a line arrives.
fn is_too_long(line: &[u8], length: usize, limits: &Limits) -> bool {
    if length <= LINE_BYTES_MAX || !limits.is_authenticated {
        return length > LINE_BYTES_MAX;
    }
    let blank = line.iter().take_while(|byte| **byte == b' ').count();
    let verbs: [&[u8]; 4] = [b"get ", b"gets ", b"gat ", b"gats "];
    let is_retrieval = verbs.iter().any(|verb| line[blank..].starts_with(verb));
    blank > LEADING_BLANKS_MAX || !is_retrieval || length > RETRIEVAL_BYTES_MAX
}

/// Returns where the first blank of `buffer` from `start` on is; `end` where there is none before.
#[inline]
fn end_of_word(buffer: &[u8], start: usize, end: usize) -> usize {
    // Eight bytes at once: most words are too short for a search that has to be called. What is
    // behind the end does no harm.
    const ONES: u64 = u64::MAX / 255;
    const BLANKS: u64 = ONES * b' ' as u64;
    let mut at = start;
    while at < end {
        let Some(bytes) = buffer[at..].first_chunk() else {
            let blank = buffer[at..end].iter().position(|byte| *byte == b' ');
            return blank.map_or(end, |blank| at + blank);
        };
        let differing = u64::from_le_bytes(*bytes) ^ BLANKS;
        // The lowest byte whose high bit is set is the first that does not differ.
        let blanks = differing.wrapping_sub(ONES) & !differing & (ONES << 7);
        if blanks != 0 {
            return end.min(at + blanks.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    end
}

/// Adds the request of the line at `start` of `buffer` where it is like most: a `get` of one key,
/// or a meta get of its value alone. Returns where what follows begins. There is nothing in such a
/// line to split or to read but where the key ends.
#[inline]
fn push_get_of_one(buffer: &[u8], start: usize, batch: &mut Batch) -> Option<usize> {
    let (verb, word_end, tail): (_, _, &[u8]) = match buffer[start..] {
        [b'g', b'e', b't', b' ', ..] => (Verb::Get, start + 3, b"\r\n"),
        [b'm', b'g', b' ', ..] => (Verb::MetaGet, start + 2, b" v\r\n"),
        _ => return None,
    };
    let key_start = word_end + 1;
    let key_end = end_of_key(buffer, key_start)?;
    if key_end == key_start || !buffer[key_end..].starts_with(tail) {
        return None;
    }
    let span = |start: usize, end: usize| (start as u32, end as u32);
    let (word, key) = (span(start, word_end), span(key_start, key_end));
    match verb {
        // The request is where its key begins, as that of each key of several.
        Verb::Get => {
            let request = ForeignRequest { verb: verb as u8, is_silent: false, start: key.0 };
            batch.push_foreign(request, &[word, key]);
        }
        _ => {
            let request = ForeignRequest { verb: verb as u8, is_silent: false, start: word.0 };
            batch.push_foreign(request, &[word, key, span(key_end + 1, key_end + 2)]);
        }
    }
    Some(key_end + tail.len())
}

/// Returns where the first byte from `start` of `buffer` on is that is no higher than a blank,
/// where no more than a key may have are before it.
#[inline]
fn end_of_key(buffer: &[u8], start: usize) -> Option<usize> {
    let mut at = start;
    while at < buffer.len() && at <= start + KEY_BYTES_MAX {
        let marks = low_bytes(buffer, at)?;
        if marks != 0 {
            let end = at + marks.trailing_zeros() as usize / 8;
            return (end - start <= KEY_BYTES_MAX).then_some(end);
        }
        at += 8;
    }
    None
}

/// Splits the line at `start` of `buffer` into `words`, which are empty, where it is like most: its
/// end is there, no zero is before it, and it has no more bytes than a line may have that is no
/// retrieval, nor more words than are split off. Returns where the line feed is.
///
/// One pass finds all that ends a word or the line: a search for each costs more than the bytes
/// that most lines have.
#[inline]
fn split_plain(buffer: &[u8], start: usize, words: &mut Words) -> Option<usize> {
    let (mut at, mut word) = (start, start);
    while at < buffer.len() && at - start < LINE_BYTES_MAX {
        let mut marks = low_bytes(buffer, at)?;
        while marks != 0 {
            let place = at + marks.trailing_zeros() as usize / 8;
            marks &= marks - 1;
            match buffer[place] {
                b' ' => {
                    if word < place && !words.push(word, place) {
                        return None;
                    }
                    word = place + 1;
                }
                b'\n' => {
                    let end = end_of_text(buffer, start, place);
                    if word < end && !words.push(word, end) {
                        return None;
                    }
                    return (place - start <= LINE_BYTES_MAX).then_some(place);
                }
                0 => return None,
                _ => {}
            }
        }
        at += 8;
    }
    None
}

/// Returns where the text of a line ends whose line feed is at `feed`. As in memcached, a return
/// that is all of the line is part of it.
#[inline]
fn end_of_text(buffer: &[u8], start: usize, feed: usize) -> usize {
    if feed - start > 1 && buffer[feed - 1] == b'\r' { feed - 1 } else { feed }
}

/// Returns which of the eight bytes of `buffer` from `at` on, or of those that are there, are no
/// higher than a blank, by their high bits. None where the buffer has fewer than eight in all.
#[inline]
fn low_bytes(buffer: &[u8], at: usize) -> Option<u64> {
    const ONES: u64 = u64::MAX / 255;
    const HIGH: u64 = ONES << 7;
    let low = |bytes: &[u8; 8]| {
        let bytes = u64::from_le_bytes(*bytes);
        // The high bit of each sum says that the seven bits below are more than a blank: no sum
        // reaches the next byte.
        !(((bytes & !HIGH) + ONES * (0x7F - b' ' as u64)) | bytes) & HIGH
    };
    match buffer[at..].first_chunk() {
        Some(bytes) => Some(low(bytes)),
        None => {
            let last = buffer.last_chunk()?;
            Some(low(last) >> (8 * (8 - (buffer.len() - at))))
        }
    }
}

fn rest_length(buffer: &[u8], start: usize) -> usize {
    buffer.len() - start
}

/// The words that were split off a line.
struct Words {
    spans: [Span; WORDS_MAX],
    count: usize,
}

impl Default for Words {
    #[inline]
    fn default() -> Words {
        Words { spans: [(0, 0); WORDS_MAX], count: 0 }
    }
}

impl Words {
    /// Adds a word; returns whether there was room for it.
    #[inline]
    fn push(&mut self, start: usize, end: usize) -> bool {
        let Some(span) = self.spans.get_mut(self.count) else { return false };
        *span = (start as u32, end as u32);
        self.count += 1;
        true
    }

    /// Returns the first words, which are there.
    #[inline]
    fn first<const COUNT: usize>(&self) -> [Span; COUNT] {
        *self.spans.first_chunk().expect("a line has room for them")
    }
}

/// One line, split into words.
struct Line<'b> {
    buffer: &'b mut [u8],
    batch: &'b mut Batch,
    start: usize,
    words: &'b mut Words,
    /// There are more words than were split off, from here to the end of the line.
    rest: Range<usize>,
}

impl<'b> Line<'b> {
    /// Returns the line from `start` to `end`, split into `words`, which are empty.
    fn new(
        buffer: &'b mut [u8],
        start: usize,
        end: usize,
        batch: &'b mut Batch,
        words: &'b mut Words,
    ) -> Line<'b> {
        // To memcached a line ends there.
        let zero = memchr(0, &buffer[start..end]);
        let end = zero.map_or(end, |at| start + at);
        let mut line = Line { buffer, batch, start, words, rest: start..end };
        while line.words.count < WORDS_MAX
            && let Some((start, end)) = line.next_word()
        {
            line.words.push(start as usize, end as usize);
        }
        line
    }

    /// Splits the next word off the rest.
    #[inline]
    fn next_word(&mut self) -> Option<Span> {
        let Range { mut start, end } = self.rest;
        while start < end && self.buffer[start] == b' ' {
            start += 1;
        }
        let word_end = end_of_word(self.buffer, start, end);
        self.rest.start = word_end;
        (start < word_end).then_some((start as u32, word_end as u32))
    }

    #[inline]
    fn word(&self, index: usize) -> &[u8] {
        let (start, end) =
            self.words.spans[..self.words.count].get(index).copied().unwrap_or((0, 0));
        &self.buffer[start as usize..end as usize]
    }

    /// Returns the number of words, as memcached counts them: one more than there are.
    fn tokens(&self) -> usize {
        self.words.count + 1
    }

    #[inline(always)]
    fn push(&mut self, verb: u8, is_silent: bool, arguments: &[Span]) {
        let start = self.start as u32;
        self.batch.push_foreign(ForeignRequest { verb, is_silent, start }, arguments);
    }

    /// Adds a request for `verb` with the words of `indexes` as its arguments.
    fn push_words(&mut self, verb: Verb, is_silent: bool, indexes: &[usize]) {
        let mut arguments = [(0, 0); WORDS_MAX];
        let count = indexes.len();
        indexes
            .iter()
            .zip(&mut arguments)
            .for_each(|(at, argument)| *argument = self.words.spans[*at]);
        self.push(verb as u8, is_silent, &arguments[..count]);
    }

    fn refuse(&mut self, fault: Fault) {
        self.refuse_as(fault, false);
    }

    fn refuse_as(&mut self, fault: Fault, is_silent: bool) {
        let start = self.start as u32;
        self.push(fault.verb(), is_silent, &[(start, start)]);
    }

    /// As [`Line::read`], with how many bytes from the line's first one on are done.
    #[inline]
    fn step(mut self, body: usize, limits: &Limits, skip: &mut usize) -> Step {
        match self.read(body, limits, skip) {
            Ok(end) => Step::Done(end - self.start),
            Err(missing) => Step::Wanted(missing),
        }
    }

    /// Reads the line, whose data begins at `body`; returns where what follows begins, or how many
    /// bytes more are needed.
    fn read(&mut self, body: usize, limits: &Limits, skip: &mut usize) -> Result<usize, usize> {
        if !limits.is_authenticated {
            return self.authentication(body);
        }
        if self.words.count == 0 || self.word(0).len() < 2 {
            self.refuse(Fault::Unknown);
            return Ok(body);
        }
        let tokens = self.tokens();
        match self.word(0) {
            b"get" if tokens >= 3 => {
                self.retrieval([Verb::Get, Verb::GetSome, Verb::GetLast], false)
            }
            b"gets" if tokens >= 3 => {
                self.retrieval([Verb::Gets, Verb::GetsSome, Verb::GetsLast], false)
            }
            b"gat" if tokens >= 3 => {
                self.retrieval([Verb::GatLast, Verb::Gat, Verb::GatLast], true)
            }
            b"gats" if tokens >= 3 => {
                self.retrieval([Verb::GatsLast, Verb::Gats, Verb::GatsLast], true)
            }
            b"set" if tokens == 6 || tokens == 7 => {
                return self.storage(Verb::Set, body, limits, skip);
            }
            b"add" if tokens == 6 || tokens == 7 => {
                return self.storage(Verb::Add, body, limits, skip);
            }
            b"replace" if tokens == 6 || tokens == 7 => {
                return self.storage(Verb::Replace, body, limits, skip);
            }
            b"append" if tokens == 6 || tokens == 7 => {
                return self.storage(Verb::Append, body, limits, skip);
            }
            b"prepend" if tokens == 6 || tokens == 7 => {
                return self.storage(Verb::Prepend, body, limits, skip);
            }
            b"cas" if tokens == 7 || tokens == 8 => {
                return self.storage(Verb::Cas, body, limits, skip);
            }
            b"mg" if tokens >= 3 => self.meta(Verb::MetaGet),
            b"md" if tokens >= 3 => self.meta(Verb::MetaDelete),
            b"ma" if tokens >= 3 => self.meta(Verb::MetaArithmetic),
            b"ms" if tokens >= 3 => return self.meta_set(body, limits, skip),
            b"mn" => self.push_words(Verb::MetaNoop, false, &[0]),
            b"me" => self.meta_debug(),
            b"incr" if tokens == 4 || tokens == 5 => self.arithmetic(Verb::Incr),
            b"decr" if tokens == 4 || tokens == 5 => self.arithmetic(Verb::Decr),
            b"touch" if tokens == 4 || tokens == 5 => self.touch(),
            b"delete" if (3..=5).contains(&tokens) => self.delete(),
            b"flush_all" if (2..=4).contains(&tokens) => self.flush(),
            _ => self.other(),
        }
        Ok(body)
    }

    /// Reads what is none of the commands on keys.
    fn other(&mut self) {
        let tokens = self.tokens();
        match self.word(0) {
            b"stats" => {
                let all: [usize; WORDS_MAX] = std::array::from_fn(|index| index);
                self.push_words(Verb::Stats, false, &all[..self.words.count]);
            }
            b"version" => self.push_words(Verb::Version, false, &[0]),
            b"quit" => self.push_words(Verb::Quit, false, &[0]),
            b"verbosity" if tokens >= 3 => match parse_flags(self.word(1)) {
                None => self.refuse_as(Fault::Format, self.is_noreply()),
                Some(_) => self.push_words(Verb::Verbosity, self.is_noreply(), &[0]),
            },
            b"shutdown" => self.refuse(Fault::Shutdown),
            b"slabs" | b"lru_crawler" | b"lru" | b"watch" | b"cache_memlimit" | b"extstore"
            | b"misbehave" | b"refresh_certs" | b"debugtime" => self.refuse(Fault::Unsupported),
            _ if self.word(self.words.count - 1).starts_with(b"HTTP/") => {
                self.refuse(Fault::Attack)
            }
            _ => self.refuse(Fault::Unknown),
        }
    }

    /// Reads the keys of a retrieval: many are one request, but each that is to expire anew is one
    /// of its own. The verbs are for the `only` key, for `some` keys and for the `last` ones.
    fn retrieval(&mut self, [only, some, last]: [Verb; 3], has_exptime: bool) {
        let word = self.words.spans[0];
        if has_exptime && parse_i32(self.word(1)).is_none() {
            return self.refuse(Fault::Exptime);
        }
        let (exptime, before) = (self.words.spans[1], self.batch.len());
        let first = if has_exptime { 2 } else { 1 };
        let mut count = 0;
        while let Some(key) = self.word_at(first + count) {
            if (key.1 - key.0) as usize > KEY_BYTES_MAX {
                self.batch.truncate_foreign(before);
                return self.refuse(Fault::Format);
            }
            let request = ForeignRequest { verb: some as u8, is_silent: false, start: key.0 };
            if has_exptime {
                self.batch.push_foreign(request, &[word, key, exptime]);
            } else if count.is_multiple_of(KEYS_PER_REQUEST_MAX) {
                self.batch.push_foreign(request, &[word, key]);
            } else {
                self.batch.push_last_argument(key);
            }
            count += 1;
        }
        match count {
            0 => self.push(Verb::End as u8, false, &[word]),
            // Alone in its request, be it behind others of the line: as when it is put back.
            _ if count % KEYS_PER_REQUEST_MAX == 1 => self.batch.set_last_verb(only as u8),
            _ => self.batch.set_last_verb(last as u8),
        }
    }

    /// Returns word `index`, one behind the last that was asked for: also of the words that were
    /// not split off at first.
    fn word_at(&mut self, index: usize) -> Option<Span> {
        if index < self.words.count { Some(self.words.spans[index]) } else { self.next_word() }
    }

    fn is_noreply(&self) -> bool {
        self.word(self.words.count - 1) == b"noreply"
    }

    #[inline]
    fn has_long_key(&self) -> bool {
        self.word(1).len() > KEY_BYTES_MAX
    }

    fn storage(
        &mut self,
        verb: Verb,
        body: usize,
        limits: &Limits,
        skip: &mut usize,
    ) -> Result<usize, usize> {
        let is_silent = self.is_noreply();
        let length = parse_i32(self.word(4));
        let is_well_formed = !self.has_long_key()
            && parse_flags(self.word(2)).is_some()
            && parse_i32(self.word(3)).is_some()
            && (verb != Verb::Cas || parse_delta(self.word(5)).is_some());
        let length = match length {
            Some(length @ 0..) if is_well_formed && length <= i32::MAX - 2 => length as usize,
            _ => {
                self.refuse_as(Fault::Format, is_silent);
                return Ok(body);
            }
        };
        let flags = parse_flags(self.word(2)).unwrap_or(0);
        if item_bytes(self.word(1).len(), flags, length) > limits.item_bytes_max {
            *skip = length + 2;
            match verb {
                Verb::Set => self.push_words(Verb::TooLarge, is_silent, &[0, 1]),
                _ => self.refuse_as(Fault::TooLarge, is_silent),
            }
            return Ok(body);
        }
        let Some(data) = self.data(body, length)? else {
            self.refuse_as(Fault::DataChunk, is_silent);
            return Ok(body + length + 2);
        };
        let [word, key, flags, exptime, _, unique] = self.words.first();
        match verb {
            Verb::Cas => {
                self.push(verb as u8, is_silent, &[word, key, flags, exptime, data, unique])
            }
            _ => self.push(verb as u8, is_silent, &[word, key, flags, exptime, data]),
        }
        Ok(body + length + 2)
    }

    /// Returns where the data of `length` bytes is; none where no line end is behind it.
    ///
    /// # Errors
    /// How many bytes are missing.
    fn data(&self, body: usize, length: usize) -> Result<Option<Span>, usize> {
        let end = body + length;
        match self.buffer.get(end..end + 2) {
            None => Err(end + 2 - self.buffer.len()),
            Some(b"\r\n") => Ok(Some((body as u32, end as u32))),
            Some(_) => Ok(None),
        }
    }

    fn arithmetic(&mut self, verb: Verb) {
        let is_silent = self.is_noreply();
        match () {
            () if self.has_long_key() => self.refuse_as(Fault::Format, is_silent),
            () if parse_delta(self.word(2)).is_none() => self.refuse_as(Fault::Delta, is_silent),
            () => self.push_words(verb, is_silent, &[0, 1, 2]),
        }
    }

    fn touch(&mut self) {
        let is_silent = self.is_noreply();
        match () {
            () if self.has_long_key() => self.refuse_as(Fault::Format, is_silent),
            () if parse_i32(self.word(2)).is_none() => {
                self.refuse_as(Fault::Exptime, is_silent);
            }
            () => self.push_words(Verb::Touch, is_silent, &[0, 1, 2]),
        }
    }

    fn delete(&mut self) {
        let (tokens, is_zero) = (self.tokens(), self.word(2) == b"0");
        let is_silent = tokens > 3 && self.is_noreply();
        let is_valid = match tokens {
            4 => is_zero || is_silent,
            5 => is_zero && is_silent,
            _ => true,
        };
        match is_valid {
            false => self.refuse_as(Fault::DeleteFormat, is_silent),
            true if self.has_long_key() => self.refuse_as(Fault::Format, is_silent),
            true => self.push_words(Verb::Delete, is_silent, &[0, 1]),
        }
    }

    fn flush(&mut self) {
        let is_silent = self.is_noreply();
        let has_delay = self.tokens() != if is_silent { 3 } else { 2 };
        if !has_delay {
            return self.push_words(Verb::FlushAll, is_silent, &[0]);
        }
        match parse_i32(self.word(1)) {
            None => self.refuse_as(Fault::Exptime, is_silent),
            Some(1..) => self.refuse_as(Fault::DelayedFlush, is_silent),
            Some(_) => self.push_words(Verb::FlushAll, is_silent, &[0]),
        }
    }

    fn meta(&mut self, verb: Verb) {
        let too_many = match verb {
            Verb::MetaGet => Fault::TooManyFlags,
            _ => Fault::TooManySetFlags,
        };
        let flags = self.meta_flags(2, too_many);
        let flags = flags.and_then(|flags| match verb {
            Verb::MetaArithmetic if !is_arithmetic(flags.mode) => Err(Fault::ArithmeticMode),
            _ if flags.key_is_binary => self.decode_key().map(|()| flags),
            _ => Ok(flags),
        });
        match flags {
            Err(fault) => self.refuse(told(fault, verb)),
            Ok(flags) if verb == Verb::MetaGet && flags.vivify.is_some() => {
                self.push_meta(Verb::MetaGetVivifying, None);
            }
            Ok(flags) if verb == Verb::MetaGet && flags.ttl.is_some() => {
                self.push_meta(Verb::MetaGetChanging, None);
            }
            Ok(_) => self.push_meta(verb, None),
        }
    }

    /// Adds a request for `verb` with all words as its arguments; with `data` that is the third.
    fn push_meta(&mut self, verb: Verb, data: Option<Span>) {
        if let Some(data) = data {
            self.words.spans[2] = data;
        }
        let start = self.start as u32;
        let request = ForeignRequest { verb: verb as u8, is_silent: false, start };
        self.batch.push_foreign(request, &self.words.spans[..self.words.count]);
    }

    /// Reads the flags from word `first` on.
    fn meta_flags(&self, first: usize, too_many: Fault) -> Result<MetaFlags, Fault> {
        if self.has_long_key() {
            return Err(Fault::Format);
        }
        if self.tokens() > META_TOKENS_MAX {
            return Err(too_many);
        }
        let tokens = (first..self.words.count).map(|index| self.word(index));
        let is_key_broken = || decode_in_place(&mut self.word(1).to_vec()).is_none();
        MetaFlags::read(tokens, self.word(0) != b"mg", is_key_broken)
    }

    fn decode_key(&mut self) -> Result<(), Fault> {
        let (start, end) = self.words.spans[1];
        let text = &mut self.buffer[start as usize..end as usize];
        let length = decode_in_place(text).ok_or(Fault::Base64)?;
        self.words.spans[1] = (start, start + length as u32);
        Ok(())
    }

    fn meta_set(&mut self, body: usize, limits: &Limits, skip: &mut usize) -> Result<usize, usize> {
        if self.has_long_key() || self.tokens() == 3 {
            self.refuse(Fault::Format);
            return Ok(body);
        }
        if self.tokens() > META_TOKENS_MAX {
            self.refuse(Fault::TooManySetFlags);
            return Ok(body);
        }
        let length = match parse_i32(self.word(2)) {
            Some(length @ 0..) if length <= i32::MAX - 2 => length as usize,
            _ => {
                self.refuse(Fault::Format);
                return Ok(body);
            }
        };
        let flags = match self.meta_flags(3, Fault::TooManySetFlags) {
            Ok(flags) if is_set(flags.mode) => flags,
            refused => {
                *skip = length + 2;
                self.refuse(refused.err().unwrap_or(Fault::SetMode));
                return Ok(body);
            }
        };
        // A key is decoded once, and so not before all of the data is there, and not at all in what
        // is refused: that may be put back, and is decoded again then.
        let bytes = item_bytes(self.key_length(&flags), flags.flags, length);
        let is_small = bytes <= limits.item_bytes_max;
        let data = if is_small { self.data(body, length)? } else { None };
        let is_refused = data.is_none() && is_small;
        if !is_refused && flags.key_is_binary {
            self.decode_key().expect("the flags are read with it");
        }
        match data {
            Some(data) => self.push_meta(Verb::MetaSet, Some(data)),
            None if is_small => self.refuse(Fault::DataChunk),
            None => {
                *skip = length + 2;
                self.push_too_large();
                return Ok(body);
            }
        }
        Ok(body + length + 2)
    }

    /// Adds that the value of a meta set is too large, with the flag that says what its key is.
    fn push_too_large(&mut self) {
        let binary = (3..self.words.count).find(|index| self.word(*index).starts_with(b"b"));
        match binary {
            Some(index) => self.push_words(Verb::TooLarge, false, &[0, 1, index]),
            None => self.push_words(Verb::TooLarge, false, &[0, 1]),
        }
    }

    /// Returns the length of the key once it is decoded.
    fn key_length(&self, flags: &MetaFlags) -> usize {
        let key = self.word(1);
        let padding = key.iter().rev().take_while(|byte| **byte == b'=').count();
        match flags.key_is_binary {
            true => (key.len() / 4 * 3).saturating_sub(padding),
            false => key.len(),
        }
    }

    fn meta_debug(&mut self) {
        if self.tokens() < 3 || self.has_long_key() {
            return self.refuse(Fault::Format);
        }
        let is_binary = self.tokens() == 4 && self.word(2)[0] == b'b';
        if is_binary && self.decode_key().is_err() {
            return self.refuse(Fault::Base64);
        }
        match is_binary {
            true => self.push_words(Verb::MetaDebug, false, &[0, 1, 2]),
            false => self.push_words(Verb::MetaDebug, false, &[0, 1]),
        }
    }

    /// Reads the only request that a peer may send before it has authenticated: a set, whose data
    /// is a name and a password.
    fn authentication(&mut self, body: usize) -> Result<usize, usize> {
        if self.tokens() < 6 || self.word(0) != b"set" {
            self.refuse(Fault::Unauthenticated);
            return Ok(body);
        }
        let length = match parse_flags(self.word(4)) {
            Some(length) if length <= AUTH_BYTES_MAX => length as usize,
            _ => {
                self.refuse(Fault::Format);
                return Ok(body);
            }
        };
        let word = self.words.spans[0];
        match self.data(body, length)? {
            Some(data) => self.push(Verb::Auth as u8, false, &[word, data]),
            None => self.refuse(Fault::AuthTermination),
        }
        Ok(body + length + 2)
    }
}

/// Returns the fault that is told where the flags of `verb` have `fault`.
fn told(fault: Fault, verb: Verb) -> Fault {
    match fault {
        _ if verb == Verb::MetaGet => fault,
        Fault::DuplicateFlag
        | Fault::InvalidFlag
        | Fault::FlagToken
        | Fault::Delta
        | Fault::Initial
        | Fault::ModeLength
        | Fault::Base64 => Fault::Flags,
        fault => fault,
    }
}

fn is_set(mode: MetaMode) -> bool {
    match mode {
        MetaMode::None => true,
        MetaMode::Letter(letter) => b"EAPRSeaprs".contains(&letter),
    }
}

fn is_arithmetic(mode: MetaMode) -> bool {
    match mode {
        MetaMode::None => true,
        MetaMode::Letter(letter) => b"IiDd+-".contains(&letter),
    }
}

/// Returns the bytes that memcached has for an item: what its largest one is counted in.
pub fn item_bytes(key_bytes: usize, flags: u32, length: usize) -> u64 {
    let flag_bytes = if flags == 0 { 0 } else { 4 };
    let data_bytes = length as u64 + 2;
    ITEM_HEADER_BYTES + key_bytes as u64 + 1 + flag_bytes + data_bytes
}

/// Appends to `out` what the peer has sent of `requests` from index `first` on, so that it can be
/// decoded anew; of a retrieval of several keys, those that are left.
pub fn put_back(requests: Requests<'_>, first: usize, out: &mut Vec<u8>) {
    let Some(request) = requests.foreign(first) else { return };
    let bytes = requests.foreign_bytes();
    let view = requests.at(first);
    if Verb::is_retrieval(request.verb) {
        out.extend_from_slice(view.at(0));
        out.push(b' ');
        if Verb::is_retrieval_with_exptime(request.verb) {
            out.extend_from_slice(view.at(2));
            out.push(b' ');
        }
    }
    let (begin, moved) = (out.len(), request.start as usize);
    out.extend_from_slice(&bytes[moved..]);
    for index in first..requests.len() {
        let (view, known) = (requests.at(index), requests.foreign(index));
        let is_binary = known
            .and_then(|it| first_flag(it.verb))
            .is_some_and(|first| view.iter().skip(first).any(|flag| flag.first() == Some(&b'b')));
        if is_binary {
            let (start, _) = view.ranges[1];
            let mut text = Vec::new();
            encode_binary_key(view.at(1), &mut text);
            let at = begin + start as usize - moved;
            out[at..at + text.len()].copy_from_slice(&text);
        }
    }
}

/// Returns which argument of a request with a key that may be base64 is the first flag.
fn first_flag(verb: u8) -> Option<usize> {
    match Verb::ALL.get(usize::from(verb))? {
        Verb::MetaSet => Some(3),
        Verb::MetaGet
        | Verb::MetaGetChanging
        | Verb::MetaGetVivifying
        | Verb::MetaDelete
        | Verb::MetaArithmetic
        | Verb::MetaDebug
        | Verb::TooLarge => Some(2),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
