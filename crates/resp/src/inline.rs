//! Inline requests: a line split by Redis's rules (`sdssplitargs` in `sds.c`).

use crate::batch::Batch;

/// An opening quote without its closing one, or a closing quote followed by more of the word.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unbalanced;

/// Splits the line `buffer[start..end]` (without its line end) into arguments of `batch`.
///
/// Quoted words are unescaped in place: the result is never longer than the text that it comes
/// from, so arguments stay ranges of the receive buffer. The line holds no NUL.
pub(crate) fn split(
    buffer: &mut [u8],
    start: usize,
    end: usize,
    batch: &mut Batch,
) -> Result<(), Unbalanced> {
    let mut position = start;
    loop {
        while position < end && is_space(buffer[position]) {
            position += 1;
        }
        if position == end {
            return Ok(());
        }
        let mut word = Word { line: &mut buffer[..end], read: position, write: position };
        word.unescape()?;
        let (read, write) = (word.read, word.write);
        batch.push_range(position as u32, write as u32);
        position = read;
    }
}

/// The current word: bytes before `write` are its result, bytes from `read` on are still to read.
struct Word<'a> {
    line: &'a mut [u8],
    read: usize,
    write: usize,
}

impl Word<'_> {
    fn unescape(&mut self) -> Result<(), Unbalanced> {
        while let Some(byte) = self.peek(0) {
            match byte {
                // Vertical tab and form feed separate words only before a word, as in Redis.
                b' ' | b'\n' | b'\r' | b'\t' => break,
                b'"' => return self.double_quoted(),
                b'\'' => return self.single_quoted(),
                _ => self.push(byte, 1),
            }
        }
        Ok(())
    }

    fn double_quoted(&mut self) -> Result<(), Unbalanced> {
        self.read += 1;
        loop {
            let byte = self.peek(0).ok_or(Unbalanced)?;
            match (byte, self.peek(1)) {
                (b'"', _) => return self.close_quote(),
                (b'\\', Some(b'x')) => match (self.hex_digit(2), self.hex_digit(3)) {
                    (Some(high), Some(low)) => self.push(high * 16 + low, 4),
                    _ => self.push(b'x', 2),
                },
                (b'\\', Some(escaped)) => self.push(control_byte(escaped), 2),
                _ => self.push(byte, 1),
            }
        }
    }

    fn single_quoted(&mut self) -> Result<(), Unbalanced> {
        self.read += 1;
        loop {
            let byte = self.peek(0).ok_or(Unbalanced)?;
            match (byte, self.peek(1)) {
                (b'\'', _) => return self.close_quote(),
                (b'\\', Some(b'\'')) => self.push(b'\'', 2),
                _ => self.push(byte, 1),
            }
        }
    }

    /// A quote ends its word: white space or the line's end must follow.
    fn close_quote(&mut self) -> Result<(), Unbalanced> {
        self.read += 1;
        if self.peek(0).is_some_and(|byte| !is_space(byte)) { Err(Unbalanced) } else { Ok(()) }
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.line.get(self.read + ahead).copied()
    }

    fn hex_digit(&self, ahead: usize) -> Option<u8> {
        let digit = char::from(self.peek(ahead)?).to_digit(16)?;
        Some(digit as u8)
    }

    /// Appends `byte`, which stood for `read_bytes` bytes of the line.
    fn push(&mut self, byte: u8, read_bytes: usize) {
        self.line[self.write] = byte;
        self.write += 1;
        self.read += read_bytes;
    }
}

fn control_byte(escaped: u8) -> u8 {
    match escaped {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'a' => 0x07,
        other => other,
    }
}

/// `isspace` of the C locale.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
        let mut buffer = line.to_vec();
        let mut batch = Batch::new();
        split(&mut buffer, 0, line.len(), &mut batch).ok()?;
        let word = |&(start, end): &(u32, u32)| buffer[start as usize..end as usize].to_vec();
        Some(batch.ranges().iter().map(word).collect())
    }

    fn check(line: &[u8], expected: &[&[u8]]) {
        let expected: Vec<Vec<u8>> = expected.iter().map(|word| word.to_vec()).collect();
        assert_eq!(words(line), Some(expected), "line {}", line.escape_ascii());
    }

    #[test]
    fn white_space_separates_words() {
        check(b"", &[]);
        check(b" \t \x0b\x0c", &[]);
        check(b"set  key\tvalue ", &[b"set", b"key", b"value"]);
        check(b"a\rb", &[b"a", b"b"]);
    }

    #[test]
    fn vertical_tab_inside_a_word_belongs_to_it() {
        check(b"a\x0bb", &[b"a\x0bb"]);
        check(b"\x0ba", &[b"a"]);
    }

    #[test]
    fn double_quotes_unescape() {
        check(br#"a "b c" d"#, &[b"a", b"b c", b"d"]);
        check(br#""\x41\xfF\x4g\n\r\t\b\a\\\"\q""#, &[b"A\xffx4g\n\r\t\x08\x07\\\"q"]);
        check(br#""" x"#, &[b"", b"x"]);
        check(br#"pre"fix" x"#, &[b"prefix", b"x"]);
        check(b"\"a\"\x0b", &[b"a"]);
    }

    #[test]
    fn single_quotes_unescape_only_the_quote() {
        check(br"'a\'b\n\x41' c", &[br"a'b\n\x41", b"c"]);
        check(b"''", &[b""]);
    }

    #[test]
    fn unbalanced_quotes_are_refused() {
        for line in [&b"\"a"[..], b"'a", b"\"a\"b", b"'a'b", b"\"a\\\"", b"'a\\'", b"a\"", b"\"\\"]
        {
            assert_eq!(words(line), None, "line {}", line.escape_ascii());
        }
    }
}
