//! Counts replies and checks their shape without keeping them: no allocation, each byte once.

/// The shape of one whole reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// First byte of the reply (`+`, `-`, `:`, `$`, `*`, ...).
    pub marker: u8,
    /// The number of its first line: an integer, a bulk's length, an array's count.
    pub number: i64,
    /// Bulk strings in it, itself included.
    pub bulk_count: u64,
    /// Bytes of those bulk strings.
    pub bulk_bytes: u64,
    /// Nulls in it, itself included.
    pub null_count: u64,
    /// Errors in it, itself included.
    pub error_count: u64,
}

const LINE_BYTES_KEPT: usize = 120;

/// Follows the replies of one connection through any cut of its stream.
#[derive(Debug)]
pub struct Skimmer {
    /// The current reply.
    shape: Shape,
    /// Values that the current reply still lacks; 0 between replies.
    values_left: u64,
    /// Bytes of a bulk and its line end still to skip.
    skip_bytes: u64,
    /// The current line, as far as it is worth keeping.
    line: [u8; LINE_BYTES_KEPT],
    line_bytes: usize,
    first_error: Option<String>,
}

impl Default for Skimmer {
    fn default() -> Skimmer {
        Skimmer {
            shape: Shape::default(),
            values_left: 0,
            skip_bytes: 0,
            line: [0; LINE_BYTES_KEPT],
            line_bytes: 0,
            first_error: None,
        }
    }
}

impl Skimmer {
    /// Reads `bytes` and calls `on_reply` for each reply that ends in them.
    #[inline]
    pub fn feed(&mut self, mut bytes: &[u8], mut on_reply: impl FnMut(&Shape)) {
        loop {
            if self.skip_bytes > 0 {
                let skipped = self.skip_bytes.min(bytes.len() as u64);
                self.skip_bytes -= skipped;
                bytes = &bytes[skipped as usize..];
                if self.skip_bytes > 0 {
                    return;
                }
                self.end_value(&mut on_reply);
            }
            let Some(end) = bytes.iter().position(|&byte| byte == b'\n') else {
                self.keep(bytes);
                return;
            };
            if self.line_bytes == 0 {
                self.line_ended(&bytes[..end], &mut on_reply);
            } else {
                self.keep(&bytes[..end]);
                let line = self.line;
                let kept = std::mem::take(&mut self.line_bytes);
                self.line_ended(&line[..kept], &mut on_reply);
            }
            bytes = &bytes[end + 1..];
        }
    }

    /// Returns the text of the first error reply.
    pub fn first_error(&self) -> Option<&str> {
        self.first_error.as_deref()
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = LINE_BYTES_KEPT - self.line_bytes;
        let kept = &bytes[..bytes.len().min(room)];
        self.line[self.line_bytes..self.line_bytes + kept.len()].copy_from_slice(kept);
        self.line_bytes += kept.len();
    }

    #[inline]
    fn line_ended(&mut self, line: &[u8], on_reply: &mut impl FnMut(&Shape)) {
        let Some((&marker, text)) = line.split_first() else {
            return self.refuse(on_reply);
        };
        let number = number_of(text);
        if self.values_left == 0 {
            self.shape = Shape { marker, number, ..Shape::default() };
            self.values_left = 1;
        }
        match marker {
            b'$' | b'=' if number >= 0 => {
                self.shape.bulk_count += 1;
                self.shape.bulk_bytes += number as u64;
                self.skip_bytes = number as u64 + 2;
            }
            b'*' | b'~' | b'>' if number >= 0 => self.open(number as u64, on_reply),
            b'%' if number >= 0 => self.open(2 * number as u64, on_reply),
            b'$' | b'*' | b'_' => {
                self.shape.null_count += 1;
                self.end_value(on_reply);
            }
            b'-' => {
                let text = || String::from_utf8_lossy(text).trim_end().to_owned();
                self.first_error.get_or_insert_with(text);
                self.shape.error_count += 1;
                self.end_value(on_reply);
            }
            b'+' | b':' | b'#' | b',' | b'(' => self.end_value(on_reply),
            _ => self.refuse(on_reply),
        }
    }

    /// Counts what is no reply as an error, so that it is seen and the load comes to an end.
    fn refuse(&mut self, on_reply: &mut impl FnMut(&Shape)) {
        self.first_error.get_or_insert_with(|| "a reply that is not RESP".to_owned());
        self.values_left = self.values_left.max(1);
        self.shape.error_count += 1;
        self.end_value(on_reply);
    }

    fn open(&mut self, count: u64, on_reply: &mut impl FnMut(&Shape)) {
        self.values_left += count;
        self.end_value(on_reply);
    }

    #[inline]
    fn end_value(&mut self, on_reply: &mut impl FnMut(&Shape)) {
        self.values_left -= 1;
        if self.values_left == 0 {
            on_reply(&self.shape);
        }
    }
}

/// Reads a number as far as it is one; the rest of the line does not matter here.
#[inline]
fn number_of(text: &[u8]) -> i64 {
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let mut number = 0i64;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        number = number.wrapping_mul(10).wrapping_add(i64::from(digit));
    }
    if is_negative { number.wrapping_neg() } else { number }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shapes(stream: &[u8], piece_bytes: usize) -> Vec<Shape> {
        let mut skimmer = Skimmer::default();
        let mut shapes = Vec::new();
        stream.chunks(piece_bytes).for_each(|piece| {
            skimmer.feed(piece, |shape| shapes.push(*shape));
        });
        shapes
    }

    #[test]
    fn any_cut_gives_the_same_shapes() {
        let stream =
            b"+OK\r\n:-12\r\n$3\r\na\nb\r\n$-1\r\n$0\r\n\r\n*3\r\n$2\r\nxy\r\n$-1\r\n*1\r\n:1\r\n\
            *0\r\n-ERR no\r\n%1\r\n+k\r\n_\r\n*-1\r\n";
        let base = Shape::default();
        let expected = [
            Shape { marker: b'+', ..base },
            Shape { marker: b':', number: -12, ..base },
            Shape { marker: b'$', number: 3, bulk_count: 1, bulk_bytes: 3, ..base },
            Shape { marker: b'$', number: -1, null_count: 1, ..base },
            Shape { marker: b'$', bulk_count: 1, ..base },
            Shape { marker: b'*', number: 3, bulk_count: 1, bulk_bytes: 2, null_count: 1, ..base },
            Shape { marker: b'*', ..base },
            Shape { marker: b'-', error_count: 1, ..base },
            Shape { marker: b'%', number: 1, null_count: 1, ..base },
            Shape { marker: b'*', number: -1, null_count: 1, ..base },
        ];
        for piece_bytes in [1, 2, 3, 7, 1000] {
            assert_eq!(shapes(stream, piece_bytes), expected, "pieces of {piece_bytes}");
        }
    }

    #[test]
    fn the_first_error_is_kept() {
        let mut skimmer = Skimmer::default();
        skimmer.feed(b"-ERR on", |_| {});
        skimmer.feed(b"e\r\n-ERR two\r\n", |_| {});
        assert_eq!(skimmer.first_error(), Some("ERR one"));
    }

    #[test]
    fn what_is_not_resp_counts_as_an_error() {
        assert_eq!(shapes(b"hello\r\n", 100)[0].error_count, 1);
        assert_eq!(shapes(b"\n", 100)[0].error_count, 1);
    }
}
