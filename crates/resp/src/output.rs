//! The output for one peer that waits to be sent: the bytes of replies, and references to values
//! elsewhere.
//!
//! A reply may refer to a large value instead of copying it. Such a reference is between two bytes
//! of the buffer; the sender gets the pieces in order and says how many bytes it has sent.

use std::collections::VecDeque;
use std::fmt;
use std::io::IoSlice;
use std::ops::Range;

use crate::reply::{Protocol, Reply};

/// Sent bytes that are kept before those behind them move to the front.
const SENT_BYTES_KEPT_MAX: usize = 64 * 1024;

/// A value that a reply refers to: it stays where it is, unchanged, until this is dropped.
pub type Referenced = Box<dyn AsRef<[u8]> + Send>;

/// Replies on their way: written by [`Reply`], sent in pieces.
#[derive(Default)]
pub struct Output {
    bytes: Vec<u8>,
    /// Those of `bytes` before it are sent.
    start: usize,
    references: References,
    /// How much of the first reference is sent.
    first_sent: usize,
}

/// The references between the bytes of an output, in order, and how much both may come to.
pub(crate) struct References {
    list: VecDeque<Reference>,
    /// The sum of their lengths.
    bytes: usize,
    /// How many of them are copies in memory of the output, and the sum of their lengths.
    own_values: (usize, usize),
    /// The most that the bytes of the output, sent ones included, and those of the references may
    /// come to.
    bytes_max: usize,
    /// The most that the bytes of the output alone may come to.
    own_bytes_max: usize,
    /// Whether something was left out that would have passed one of these.
    is_over_limit: bool,
}

struct Reference {
    /// The position among the output's own bytes before which the value goes.
    at: usize,
    value: Referenced,
    /// It is a copy, in private memory of the output.
    is_own: bool,
}

impl Output {
    /// Returns an empty output that writes into `buffer`, which is empty.
    ///
    /// # Panics
    /// When the buffer is not empty.
    pub fn with_buffer(buffer: Vec<u8>) -> Output {
        assert!(buffer.is_empty(), "a buffer is lent empty");
        Output { bytes: buffer, ..Output::default() }
    }

    /// Returns an encoder that appends to the output.
    #[inline]
    pub fn reply(&mut self, protocol: Protocol) -> Reply<'_> {
        Reply::with_references(&mut self.bytes, &mut self.references, protocol)
    }

    /// Lets replies grow until `bytes` are unsent, referenced values included, and `own_bytes`
    /// without these. A string that would pass that is left out, and all strings after it:
    /// [`Output::is_over_limit`] tells, and what there is then is of no use any more. Holds until
    /// the next [`Output::consume`].
    #[inline]
    pub fn limit(&mut self, bytes: usize, own_bytes: usize) {
        self.references.bytes_max = (self.start + self.first_sent).saturating_add(bytes);
        let most = self.start.saturating_add(own_bytes);
        self.references.own_bytes_max = most.saturating_sub(self.references.own_values.1);
    }

    /// Returns whether a reply was cut short by [`Output::limit`].
    #[inline]
    pub fn is_over_limit(&self) -> bool {
        self.references.is_over_limit
    }

    /// Returns how many bytes are not sent yet, those of referenced values included.
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes.len() - self.start + self.references.bytes - self.first_sent
    }

    /// Returns what waits beyond the first `fixed_bytes` of the bytes between values: how many
    /// pieces, the rest of those bytes being one and each value another, and their bytes.
    #[inline]
    pub fn beyond(&self, fixed_bytes: usize) -> (usize, usize) {
        let between = self.bytes.len() - self.start;
        let count = self.references.list.len() + usize::from(between > fixed_bytes);
        (count, self.len() - between.min(fixed_bytes))
    }

    /// Returns how many bytes of values that lie elsewhere are not sent yet.
    #[inline]
    pub fn referenced_bytes(&self) -> usize {
        let is_own = self.references.list.front().is_some_and(|first| first.is_own);
        let first_sent = if is_own { 0 } else { self.first_sent };
        self.references.bytes - self.references.own_values.1 - first_sent
    }

    /// Returns how many values that lie elsewhere are not sent in full.
    #[inline]
    pub fn reference_count(&self) -> usize {
        self.references.elsewhere_count()
    }

    /// Copies the latest of the values that lie elsewhere until no more than `kept` of them are
    /// left, and lets go of them. Returns false, with the rest as it is, where that would take more
    /// than [`Output::limit`] said.
    pub fn own_references(&mut self, kept: usize) -> bool {
        let own_bytes = self.bytes.len();
        let references = &mut self.references;
        let mut excess = references.elsewhere_count().saturating_sub(kept);
        // Those that came since the last call are the last ones.
        for reference in references.list.iter_mut().rev().filter(|reference| !reference.is_own) {
            let length = reference.bytes().len();
            if excess == 0 {
                break;
            }
            if own_bytes + length > references.own_bytes_max {
                return false;
            }
            reference.value = Box::new(reference.bytes().to_vec());
            reference.is_own = true;
            references.own_bytes_max -= length;
            references.own_values.0 += 1;
            references.own_values.1 += length;
            excess -= 1;
        }
        true
    }

    /// Returns whether everything is sent.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.start == self.bytes.len() && self.references.list.is_empty()
    }

    /// Returns whether the output owns a buffer to write into.
    #[inline]
    pub fn has_buffer(&self) -> bool {
        self.bytes.capacity() > 0
    }

    /// Returns the private memory of the output in bytes, without the values that lie elsewhere.
    pub fn memory_bytes(&self) -> usize {
        let list_bytes = self.references.list.capacity() * size_of::<Reference>();
        self.bytes.capacity() + list_bytes + self.references.own_values.1
    }

    /// Returns the bytes to send next when no reference stands among what is left.
    #[inline]
    pub fn plain(&self) -> Option<&[u8]> {
        self.references.list.is_empty().then(|| &self.bytes[self.start..])
    }

    /// Puts the next pieces to send into `pieces`, as many as there are or fit; returns their
    /// number. No piece is empty.
    pub fn pieces<'o>(&'o self, pieces: &mut [IoSlice<'o>]) -> usize {
        let mut start = self.start;
        let mut sent = self.first_sent;
        let mut count = 0;
        let mut push = |piece: &'o [u8]| {
            if !piece.is_empty() && count < pieces.len() {
                pieces[count] = IoSlice::new(piece);
                count += 1;
            }
        };
        for reference in &self.references.list {
            push(&self.bytes[start..reference.at]);
            push(&reference.bytes()[sent..]);
            (start, sent) = (reference.at, 0);
        }
        push(&self.bytes[start..]);
        count
    }

    /// Notes that the next `count` bytes are sent, and lets go of the values sent in full.
    ///
    /// # Panics
    /// When there are fewer.
    #[inline]
    pub fn consume(&mut self, count: usize) {
        let rest = if self.references.list.is_empty() { count } else { self.consume_pieces(count) };
        self.start += rest;
        assert!(self.start <= self.bytes.len(), "no more is sent than there is");
        if self.is_empty() {
            self.bytes.clear();
            self.start = 0;
        } else if self.start > SENT_BYTES_KEPT_MAX.max(self.bytes.len() / 2) {
            // A peer that always leaves a little unread would make the buffer grow for ever.
            self.bytes.drain(..self.start);
            self.references.shift_back(self.start);
            self.start = 0;
        }
    }

    /// Consumes up to and with the last reference that is sent in full; returns what is left.
    fn consume_pieces(&mut self, count: usize) -> usize {
        let mut rest = count;
        while let Some(reference) = self.references.list.front() {
            let before = reference.at - self.start;
            if rest < before {
                return rest;
            }
            self.start = reference.at;
            rest -= before;
            let unsent = reference.bytes().len() - self.first_sent;
            if rest < unsent {
                self.first_sent += rest;
                return 0;
            }
            rest -= unsent;
            self.first_sent = 0;
            self.references.pop_front();
        }
        rest
    }

    /// Takes the buffer out, for another output to use.
    ///
    /// # Panics
    /// When something is not sent yet.
    #[inline]
    pub fn take_buffer(&mut self) -> Vec<u8> {
        assert!(self.is_empty(), "unsent replies are not given away");
        std::mem::take(&mut self.bytes)
    }

    /// Returns everything that is not sent yet as bytes in one piece.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut pieces = vec![IoSlice::new(&[]); 2 * self.references.list.len() + 1];
        let count = self.pieces(&mut pieces);
        pieces[..count].iter().flat_map(|piece| piece.iter().copied()).collect()
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bytes, references) = (self.bytes.len() - self.start, self.references.list.len());
        formatter
            .debug_struct("Output")
            .field("unsent_bytes", &bytes)
            .field("references", &references)
            .finish_non_exhaustive()
    }
}

impl Default for References {
    fn default() -> References {
        References {
            list: VecDeque::new(),
            bytes: 0,
            own_values: (0, 0),
            bytes_max: usize::MAX,
            own_bytes_max: usize::MAX,
            is_over_limit: false,
        }
    }
}

impl References {
    /// Returns whether `bytes` more than the `own_bytes` of the output are within the limit.
    #[inline]
    pub fn admit(&mut self, own_bytes: usize, bytes: usize) -> bool {
        self.is_over_limit |= own_bytes + bytes > self.own_bytes_max;
        self.admit_referenced(own_bytes, bytes)
    }

    /// Returns whether a value of `bytes` that lies elsewhere is within the limit.
    #[inline]
    pub fn admit_referenced(&mut self, own_bytes: usize, bytes: usize) -> bool {
        self.is_over_limit |= own_bytes + self.bytes + bytes > self.bytes_max;
        !self.is_over_limit
    }

    pub fn is_over_limit(&self) -> bool {
        self.is_over_limit
    }

    /// Returns how many values lie elsewhere.
    #[inline]
    pub fn elsewhere_count(&self) -> usize {
        self.list.len() - self.own_values.0
    }

    pub fn push(&mut self, at: usize, value: Referenced) {
        self.bytes += (*value).as_ref().len();
        self.list.push_back(Reference { at, value, is_own: false });
    }

    /// Drops those that stand behind `position`.
    pub fn truncate(&mut self, position: usize) {
        while self.list.back().is_some_and(|last| last.at > position) {
            let last = self.list.pop_back();
            self.forget(&last.expect("the loop has seen it"));
        }
    }

    /// Moves those behind `position` by `count` bytes that were put in there.
    pub fn shift(&mut self, position: usize, count: usize) {
        for reference in self.list.iter_mut().rev().take_while(|entry| entry.at > position) {
            reference.at += count;
        }
    }

    /// Follows the bytes behind `start` in `moves`: from which range to which position each piece
    /// went. A reference stands within its piece, never at an end of it.
    pub fn arrange(&mut self, start: usize, mut moves: Vec<(Range<usize>, usize)>) {
        moves.retain(|(piece, _)| !piece.is_empty());
        moves.sort_unstable_by_key(|(piece, _)| piece.start);
        let first = self.list.partition_point(|reference| reference.at <= start);
        for reference in self.list.range_mut(first..) {
            let behind = moves.partition_point(|(piece, _)| piece.start < reference.at);
            let (piece, target) = &moves[behind - 1];
            reference.at = reference.at - piece.start + target;
        }
        self.list.make_contiguous()[first..].sort_unstable_by_key(|reference| reference.at);
    }

    /// Moves all of them by the `count` bytes that were taken out before them.
    fn shift_back(&mut self, count: usize) {
        for reference in &mut self.list {
            reference.at -= count;
        }
    }

    fn pop_front(&mut self) {
        let first = self.list.pop_front();
        self.forget(&first.expect("the caller has seen it"));
    }

    fn forget(&mut self, reference: &Reference) {
        let length = reference.bytes().len();
        self.bytes -= length;
        if reference.is_own {
            self.own_values.0 -= 1;
            self.own_values.1 -= length;
        }
    }
}

impl fmt::Debug for References {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} references to {} bytes", self.list.len(), self.bytes)
    }
}

impl Reference {
    fn bytes(&self) -> &[u8] {
        (*self.value).as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::sync::Arc;

    struct Value(Arc<Vec<u8>>);

    impl AsRef<[u8]> for Value {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }

    fn reply(output: &mut Output) -> Reply<'_> {
        output.reply(Protocol::Resp3)
    }

    #[test]
    fn pieces_are_the_replies_however_they_are_sent() {
        for step in 1..40 {
            let values = [b"first value".to_vec(), Vec::new(), b"2".to_vec()].map(Arc::new);
            let mut output = Output::default();
            reply(&mut output).ok();
            for value in &values {
                reply(&mut output).bulk_referenced(Box::new(Value(value.clone())));
            }
            reply(&mut output).integer(7);
            let expected = b"+OK\r\n$11\r\nfirst value\r\n$0\r\n\r\n$1\r\n2\r\n:7\r\n";
            assert_eq!(output.len(), expected.len());
            assert_eq!(output.to_vec(), expected);
            let mut sent = Vec::new();
            while !output.is_empty() {
                let mut pieces = [IoSlice::new(&[]); 3];
                let count = output.pieces(&mut pieces);
                let bytes: Vec<u8> =
                    pieces[..count].iter().flat_map(|piece| piece.iter().copied()).collect();
                let taken = step.min(bytes.len());
                sent.extend_from_slice(&bytes[..taken]);
                output.consume(taken);
                assert_eq!(output.len(), expected.len() - sent.len());
            }
            assert_eq!(sent, expected, "in steps of {step}");
            assert!(values.iter().all(|value| Arc::strong_count(value) == 1), "all are let go");
        }
    }

    #[test]
    fn reply_taken_back_lets_go_of_its_values() {
        let value = Arc::new(b"value".to_vec());
        let mut output = Output::default();
        let mut reply = reply(&mut output);
        reply.bulk_referenced(Box::new(Value(value.clone())));
        let position = reply.position();
        reply.bulk_referenced(Box::new(Value(value.clone())));
        reply.rewind(position);
        reply.error("ERR x");
        assert_eq!(Arc::strong_count(&value), 2);
        assert_eq!(output.to_vec(), b"$5\r\nvalue\r\n-ERR x\r\n");
        assert_eq!(output.len(), output.to_vec().len());
    }

    #[test]
    fn reply_beyond_the_limit_takes_no_memory() {
        let value = Arc::new(vec![b'v'; 10_000]);
        for (length, is_referenced) in [(10_000, false), (100, false), (10_000, true)] {
            let mut output = Output::default();
            reply(&mut output).bulk([b'x'; 9_000]);
            output.consume(8_000);
            output.limit(100_000, usize::MAX);
            for round in 0..10_000 {
                let before = output.len();
                match is_referenced {
                    true => reply(&mut output).bulk_referenced(Box::new(Value(value.clone()))),
                    false => reply(&mut output).bulk(&value[..length]),
                }
                assert_eq!(output.is_over_limit(), before + length > 100_000, "round {round}");
                if output.is_over_limit() {
                    break;
                }
            }
            let before = output.len();
            reply(&mut output).bulk("small");
            reply(&mut output).verbatim(*b"txt", "small");
            assert_eq!(output.len(), before, "nothing follows what was left out");
            assert!(output.is_over_limit() && before <= 100_100 && before > 89_000, "{before}");
        }
    }

    #[test]
    fn values_beyond_a_share_are_copied_and_let_go() {
        for (kept, step) in [(0, 1), (2, 7), (5, 300), (2, 1), (9, 20)] {
            let values: Vec<_> =
                (0..6_u8).map(|number| Arc::new(vec![number; 30 + usize::from(number)])).collect();
            let mut output = Output::default();
            for value in &values {
                reply(&mut output).bulk_referenced(Box::new(Value(value.clone())));
            }
            let expected = output.to_vec();
            output.consume(10);
            assert!(output.own_references(kept));
            let is_held = |value: &&Arc<Vec<u8>>| Arc::strong_count(value) > 1;
            assert_eq!(values.iter().filter(is_held).count(), kept.min(6));
            assert!(values.iter().take(kept).all(|value| is_held(&value)), "the oldest stay");
            assert_eq!(output.reference_count(), kept.min(6));
            let all = output.referenced_bytes() + output.references.own_values.1;
            assert_eq!(output.len(), expected.len() - 10);
            // Five bytes of the first are sent; as a copy it takes its memory until it is gone.
            let sent_elsewhere = if kept > 0 { 5 } else { 0 };
            let lengths = values.iter().map(|value| value.len());
            assert_eq!(all, lengths.sum::<usize>() - sent_elsewhere);
            let mut sent = expected[..10].to_vec();
            while !output.is_empty() {
                let rest = output.to_vec();
                let taken = step.min(rest.len());
                sent.extend_from_slice(&rest[..taken]);
                output.consume(taken);
            }
            assert_eq!(sent, expected);
            assert_eq!(output.references.own_values, (0, 0));
        }
    }

    #[test]
    fn copies_that_pass_the_limit_are_not_made() {
        let value = Arc::new(vec![b'v'; 1_000]);
        let mut output = Output::default();
        output.limit(usize::MAX, 2_500);
        for _ in 0..10 {
            reply(&mut output).bulk_referenced(Box::new(Value(value.clone())));
        }
        assert!(output.own_references(8) && !output.own_references(0));
        assert_eq!(output.reference_count(), 8);
        output.limit(usize::MAX, 3_500);
        assert!(output.own_references(7) && !output.own_references(6));
        assert!(output.memory_bytes() >= 3_000);
    }

    #[test]
    fn own_bytes_have_a_limit_of_their_own() {
        let value = Arc::new(vec![b'v'; 10_000]);
        let mut output = Output::default();
        reply(&mut output).bulk([b'x'; 500]);
        output.consume(400);
        output.limit(usize::MAX, 1_000);
        (0..100).for_each(|_| reply(&mut output).bulk_referenced(Box::new(Value(value.clone()))));
        assert!(!output.is_over_limit(), "what lies elsewhere is no memory of the output");
        reply(&mut output).bulk([b'x'; 1_000]);
        assert!(output.is_over_limit());
    }

    #[test]
    fn late_header_comes_before_its_values() {
        let value = Arc::new(b"value".to_vec());
        let mut output = Output::default();
        let mut reply = reply(&mut output);
        reply.bulk_referenced(Box::new(Value(value.clone())));
        let deferred = reply.deferred();
        reply.bulk_referenced(Box::new(Value(value.clone())));
        reply.integer(1);
        reply.finish(deferred, |reply| reply.array(2));
        assert_eq!(output.to_vec(), b"$5\r\nvalue\r\n*2\r\n$5\r\nvalue\r\n:1\r\n");
    }

    #[test]
    fn pieces_are_arranged_with_their_values() {
        for order in [[0, 1, 2, 3], [3, 1, 0, 2], [2, 3, 1, 0], [1, 0, 3, 2]] {
            let mut output = Output::default();
            reply(&mut output).bulk_referenced(Box::new(Value(Arc::new(b"before".to_vec()))));
            let mut reply = reply(&mut output);
            let start = reply.position();
            let mut pieces = Vec::new();
            for number in 0..4_u8 {
                let at = reply.position();
                reply.integer(number.into());
                for length in 0..number {
                    let value = vec![b'0' + number; length.into()];
                    reply.bulk_referenced(Box::new(Value(Arc::new(value))));
                }
                pieces.push(at..reply.position());
            }
            let whole = output.to_vec();
            let texts = ["", ":0\r\n", ":1\r\n$0\r\n\r\n", ":2\r\n$0\r\n\r\n$1\r\n2\r\n"];
            let last = ":3\r\n$0\r\n\r\n$1\r\n3\r\n$2\r\n33\r\n";
            let texts = [texts[1], texts[2], texts[3], last];
            assert!(whole.ends_with(texts.concat().as_bytes()));
            let mut reply = output.reply(Protocol::Resp2);
            // An empty piece, as of a reply that nobody wants, is nowhere.
            let arranged = order.map(|index| pieces[index].clone());
            reply.arrange(start, &[&arranged[..2], &[start..start, 0..0], &arranged[2..]].concat());
            let expected = order.map(|index| texts[index]).concat();
            assert_eq!(output.to_vec(), [b"$6\r\nbefore\r\n", expected.as_bytes()].concat());
        }
    }

    #[test]
    fn buffer_of_a_peer_that_never_reads_it_all_stays_bounded() {
        let value = Arc::new(vec![b'v'; 100]);
        let mut output = Output::default();
        for _ in 0..10_000 {
            reply(&mut output).bulk([b'x'; 500]);
            reply(&mut output).bulk_referenced(Box::new(Value(value.clone())));
            let all_but_some = output.len() - 120;
            output.consume(all_but_some);
        }
        assert!(output.memory_bytes() < 4 * SENT_BYTES_KEPT_MAX, "{}", output.memory_bytes());
        let text = output.to_vec();
        assert!(text.ends_with(b"vvv\r\n") && text.len() == 120);
    }
}
