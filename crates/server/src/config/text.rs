//! A line of a redis.conf as words and back.

use resp::{Batch, Decoder, Limits};

/// Bytes of one line; an inline request may have fewer, but a line that CONFIG REWRITE wrote can
/// hold a long value.
const LINE_BYTES_MAX: u32 = 1 << 30;

/// Splits `line` by the rules of inline requests; none when quotes do not match, the line is too
/// long, or a word is not UTF-8.
pub fn words(line: &[u8]) -> Option<Vec<String>> {
    // A leading space keeps a line that starts with '*' an inline request.
    let mut buffer = [b" ", line, b"\n"].concat();
    let mut batch = Batch::new();
    let limits = Limits { inline_bytes_max: LINE_BYTES_MAX, ..Limits::REDIS };
    let decoded = Decoder::new().decode(&mut buffer, &mut batch, 1, &limits);
    if let resp::Next::Failed(_) = decoded.next {
        return None;
    }
    let Some(request) = batch.view(&buffer).iter().next() else { return Some(Vec::new()) };
    request.iter().map(|word| String::from_utf8(word.to_vec()).ok()).collect()
}

/// Returns `word` in quotes, so that [`words`] gives it back.
pub fn quoted(word: &str) -> String {
    let mut text = String::with_capacity(word.len() + 2);
    text.push('"');
    for character in word.chars() {
        match character {
            '"' | '\\' => text.extend(['\\', character]),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\x07' => text.push_str("\\a"),
            '\x08' => text.push_str("\\b"),
            character if character.is_ascii_control() => {
                text.push_str(&format!("\\x{:02x}", u32::from(character)));
            }
            character => text.push(character),
        }
    }
    text.push('"');
    text
}

/// Returns `word` as it is where that is one word, else in quotes.
pub fn quoted_if_needed(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'\\');
    if !word.is_empty() && word.bytes().all(is_plain) { word.to_owned() } else { quoted(word) }
}

#[cfg(test)]
mod tests {
    use base::prng::Prng;

    use super::*;

    #[test]
    fn a_quoted_word_is_read_back_whatever_it_holds() {
        for word in ["", "a b", "'\"\\", "\0\x01\x07\x08\r\n\t\x7f", "gr\u{fc}\u{df}e", "#", "*3"] {
            assert_eq!(words(quoted(word).as_bytes()).as_deref(), Some(&[word.to_owned()][..]));
            let line = quoted_if_needed(word);
            assert_eq!(words(line.as_bytes()).as_deref(), Some(&[word.to_owned()][..]), "{line}");
        }
        assert_eq!(quoted_if_needed("127.0.0.1"), "127.0.0.1");
    }

    /// Any bytes are either refused or split; nothing panics.
    #[test]
    fn any_bytes_are_split_or_refused() {
        for seed in 0..2_000 {
            let mut random = Prng::new(seed);
            let alphabet = b"a \"'\\x41\r\t#*$\0\xff";
            let line: Vec<u8> = (0..random.below(40)).map(|_| random.pick(alphabet)).collect();
            let Some(words) = words(&line) else { continue };
            assert!(words.len() <= 40, "seed {seed}");
        }
    }
}
