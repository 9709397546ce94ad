//! Decoded requests: ranges into the receive buffer, and views of them.

use crate::decode::REQUESTS_PER_BATCH_MAX;

/// Ranges kept allocated between batches; a larger table is given back when the batch is cleared.
const RANGE_COUNT_KEPT: usize = 64 * 1024;
/// Stands for the argument that lies outside of the buffer: it is a range of none.
pub(crate) const ASIDE: (u32, u32) = (u32::MAX, 0);

/// One request of a batch: `count` arguments, the first at index `first` of [`Batch::ranges`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Index of the command name's range.
    pub first: u32,
    /// Number of arguments, the command name included; at least 1.
    pub count: u32,
}

/// Requests of one decode call, as ranges into the receive buffer; reused from call to call.
///
/// A range is `(start, end)` in bytes from the first byte of the buffer given to
/// [`Decoder::decode`](crate::Decoder::decode), `start <= end <= buffer.len()`.
#[derive(Debug, Default)]
pub struct Batch {
    requests: Vec<Request>,
    ranges: Vec<(u32, u32)>,
    follows_empty_request: bool,
    /// What is known of each request, where another decoder filled the batch; else empty.
    foreign: Vec<ForeignRequest>,
    /// The bytes that the other decoder's requests came of.
    foreign_bytes: usize,
}

/// A request of another protocol, as its decoder has understood it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForeignRequest {
    /// What it asks for, as a number that its protocol defines.
    pub verb: u8,
    /// It gets no reply, whatever becomes of it.
    pub is_silent: bool,
    /// Where it begins in the buffer.
    pub start: u32,
}

impl Batch {
    /// Returns an empty batch.
    pub fn new() -> Batch {
        Batch { requests: Vec::with_capacity(REQUESTS_PER_BATCH_MAX), ..Batch::default() }
    }

    /// Returns the requests in the order of their arrival.
    #[inline]
    pub fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// Returns the arguments' ranges of all requests, `(start, end)`.
    #[inline]
    pub fn ranges(&self) -> &[(u32, u32)] {
        &self.ranges
    }

    /// Returns whether an argument of a request lies outside of the buffer. Such a request is the
    /// last of its batch.
    pub fn has_aside(&self) -> bool {
        let Some(&Request { first, .. }) = self.requests.last() else { return false };
        self.ranges[first as usize..].contains(&ASIDE)
    }

    /// Returns whether a request without arguments (`*0`, an empty line) came before its first one.
    /// It is not answered, and yet a request: CLIENT REPLY SKIP counts it.
    #[inline]
    pub fn follows_empty_request(&self) -> bool {
        self.follows_empty_request
    }

    /// Returns the number of requests.
    #[inline]
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Returns whether there is no request.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Returns the requests together with the buffer that they were decoded from.
    #[inline]
    pub fn view<'a>(&'a self, buffer: &'a [u8]) -> Requests<'a> {
        self.view_with(buffer, &[])
    }

    /// As [`Batch::view`], with the argument that lies outside of the buffer.
    #[inline]
    pub fn view_with<'a>(&'a self, buffer: &'a [u8], aside: &'a [u8]) -> Requests<'a> {
        Requests { buffer, batch: self, aside }
    }

    /// Forgets all requests and keeps the memory of a usual batch.
    #[inline]
    pub fn clear(&mut self) {
        self.requests.clear();
        self.ranges.clear();
        self.follows_empty_request = false;
        if !self.foreign.is_empty() {
            self.clear_foreign();
        }
        if self.ranges.capacity() > RANGE_COUNT_KEPT {
            self.ranges = Vec::new();
        }
    }

    /// Forgets the requests of another protocol. One line of it may be many requests, whose memory
    /// is given back.
    #[inline(never)]
    fn clear_foreign(&mut self) {
        self.foreign.clear();
        self.foreign_bytes = 0;
        if self.requests.capacity() > RANGE_COUNT_KEPT {
            self.requests = Vec::with_capacity(REQUESTS_PER_BATCH_MAX);
            self.foreign = Vec::new();
        }
    }

    /// Adds a request of another protocol, whose `arguments` are ranges of the buffer; there is one
    /// at least. All requests of a batch are of one protocol.
    #[inline]
    pub fn push_foreign(&mut self, request: ForeignRequest, arguments: &[(u32, u32)]) {
        debug_assert_eq!(self.foreign.len(), self.requests.len(), "all are of one protocol");
        let mark = self.mark();
        self.ranges.extend_from_slice(arguments);
        self.close_request(mark);
        self.foreign.push(request);
    }

    /// Adds an argument to the last request of another protocol, which is there.
    #[inline]
    pub fn push_last_argument(&mut self, argument: (u32, u32)) {
        self.ranges.push(argument);
        self.requests.last_mut().expect("it has begun").count += 1;
    }

    /// Takes the requests of another protocol from index `count` on back.
    pub fn truncate_foreign(&mut self, count: usize) {
        if let Some(request) = self.requests.get(count) {
            self.ranges.truncate(request.first as usize);
            self.requests.truncate(count);
            self.foreign.truncate(count);
        }
    }

    /// Makes the last request of another protocol one for `verb`.
    pub fn set_last_verb(&mut self, verb: u8) {
        if let Some(last) = self.foreign.last_mut() {
            last.verb = verb;
        }
    }

    /// Says that the requests of another protocol came of so many bytes of the buffer.
    pub fn end_foreign(&mut self, bytes: usize) {
        self.foreign_bytes = bytes;
    }

    #[inline]
    pub(crate) fn note_empty_request(&mut self) {
        self.follows_empty_request = true;
    }

    /// Returns where the next request's ranges begin.
    #[inline]
    pub(crate) fn mark(&self) -> usize {
        self.ranges.len()
    }

    #[inline]
    pub(crate) fn push_range(&mut self, start: u32, end: u32) {
        self.ranges.push((start, end));
    }

    /// Takes back the ranges pushed since `mark`.
    #[inline]
    pub(crate) fn rewind(&mut self, mark: usize) {
        self.ranges.truncate(mark);
    }

    /// Makes the ranges pushed since `mark` one request.
    #[inline]
    pub(crate) fn close_request(&mut self, mark: usize) {
        let count = (self.ranges.len() - mark) as u32;
        debug_assert!(count > 0, "a request has a command name");
        self.requests.push(Request { first: mark as u32, count });
    }
}

/// A batch together with its buffer.
#[derive(Clone, Copy, Debug)]
pub struct Requests<'a> {
    buffer: &'a [u8],
    batch: &'a Batch,
    aside: &'a [u8],
}

impl<'a> Requests<'a> {
    /// Returns the number of requests.
    #[inline]
    pub fn len(&self) -> usize {
        self.batch.len()
    }

    /// Returns whether there is no request.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    /// Returns the bytes from the first request to the end of the last, without what lies outside
    /// of the buffer.
    #[inline]
    pub fn span_bytes(&self) -> usize {
        let ranges = &self.batch.ranges;
        let span =
            |(first, last): (&(u32, u32), &(u32, u32))| last.1.saturating_sub(first.0) as usize;
        ranges.first().zip(ranges.last()).map_or(0, span)
    }

    /// Returns whether the requests are of another protocol.
    #[inline]
    pub fn are_foreign(&self) -> bool {
        !self.batch.foreign.is_empty()
    }

    /// Returns what its decoder knows of request `index`, where that is of another protocol.
    #[inline]
    pub fn foreign(&self, index: usize) -> Option<ForeignRequest> {
        self.batch.foreign.get(index).copied()
    }

    /// Returns the bytes that the requests of another protocol came of.
    pub fn foreign_bytes(&self) -> &'a [u8] {
        &self.buffer[..self.batch.foreign_bytes]
    }

    /// Returns request `index` in the order of arrival.
    ///
    /// # Panics
    /// When `index` is not below [`Requests::len`].
    #[inline]
    pub fn at(&self, index: usize) -> RequestView<'a> {
        let Request { first, count } = self.batch.requests[index];
        let ranges = &self.batch.ranges[first as usize..first as usize + count as usize];
        RequestView { buffer: self.buffer, ranges, aside: self.aside }
    }

    /// Returns the requests in the order of arrival.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = RequestView<'a>> + use<'a> {
        let requests = *self;
        (0..self.len()).map(move |index| requests.at(index))
    }
}

/// One request: its arguments as slices of a buffer, the command name first.
#[derive(Clone, Copy, Debug)]
pub struct RequestView<'a> {
    /// The bytes that the ranges refer to.
    pub buffer: &'a [u8],
    /// The arguments as `(start, end)` in `buffer`; never empty.
    pub ranges: &'a [(u32, u32)],
    /// The argument whose range is in no buffer, if there is one.
    pub aside: &'a [u8],
}

impl<'a> RequestView<'a> {
    /// Returns the number of arguments, the command name included.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "a request has at least its command name")]
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Returns argument `index`; 0 is the command name.
    ///
    /// # Panics
    /// When `index` is not below [`RequestView::len`].
    #[inline]
    pub fn at(&self, index: usize) -> &'a [u8] {
        self.slice(self.ranges[index])
    }

    /// Returns the arguments, the command name first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone + use<'a> {
        let request = *self;
        self.ranges.iter().map(move |&range| request.slice(range))
    }

    /// The check of the bounds is that for the argument aside too: others pay nothing for it.
    #[inline]
    fn slice(&self, range: (u32, u32)) -> &'a [u8] {
        match self.buffer.get(range.0 as usize..range.1 as usize) {
            Some(bytes) => bytes,
            None => self.outside(range),
        }
    }

    #[cold]
    fn outside(&self, range: (u32, u32)) -> &'a [u8] {
        assert_eq!(range, ASIDE, "a range lies in the buffer");
        self.aside
    }
}

/// A request that owns its bytes: exactly the arguments, back to back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedRequest {
    buffer: Box<[u8]>,
    ranges: Box<[(u32, u32)]>,
}

impl OwnedRequest {
    /// Returns a copy of `arguments`, the command name first.
    ///
    /// # Panics
    /// When there is no argument, or their bytes together exceed `u32::MAX` (a receive buffer
    /// cannot hold that many).
    pub fn new<'a>(arguments: impl Iterator<Item = &'a [u8]> + Clone) -> OwnedRequest {
        let bytes: usize = arguments.clone().map(<[u8]>::len).sum();
        assert!(u32::try_from(bytes).is_ok(), "a request is below 4 GiB");
        let mut buffer = Vec::with_capacity(bytes);
        let mut ranges = Vec::with_capacity(arguments.size_hint().0);
        for argument in arguments {
            let start = buffer.len() as u32;
            buffer.extend_from_slice(argument);
            ranges.push((start, buffer.len() as u32));
        }
        assert!(!ranges.is_empty(), "a request has a command name");
        OwnedRequest { buffer: buffer.into_boxed_slice(), ranges: ranges.into_boxed_slice() }
    }

    /// Returns the bytes of its arguments together.
    pub fn argument_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Returns the bytes of memory that it takes.
    pub fn memory_bytes(&self) -> usize {
        self.buffer.len() + size_of_val(&*self.ranges)
    }

    /// Returns the request as slices of its own bytes.
    #[inline]
    pub fn view(&self) -> RequestView<'_> {
        RequestView { buffer: &self.buffer, ranges: &self.ranges, aside: &[] }
    }
}
