//! A reply as a line of text that keeps every distinction the protocol makes.
//!
//! `+OK`, `-ERR text`, `:1`, `"bulk"`, `nil` (`$-1`), `nil-array` (`*-1`), `null` (`_`), `,1.5`,
//! `#t`, `(123`, `txt"verbatim"`, `[array]`, `%[map as key value key value]`, `~[set]`, `>[push]`.

/// Bulks that are longer are cut, with their length behind.
const BULK_BYTES_MAX: usize = 400;

/// Returns the text of the reply that `bytes` hold.
///
/// # Panics
/// When they hold anything else than one complete reply.
pub fn render(bytes: &[u8]) -> String {
    let mut text = String::new();
    let rest = render_one(bytes, &mut text);
    assert!(rest.is_empty(), "one reply, and nothing behind it");
    text
}

fn render_one<'a>(bytes: &'a [u8], text: &mut String) -> &'a [u8] {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n").expect("a reply line ends");
    let (kind, line, rest) = (bytes[0], &bytes[1..end], &bytes[end + 2..]);
    match (kind, line) {
        (b'$', b"-1") => text.push_str("nil"),
        (b'*', b"-1") => text.push_str("nil-array"),
        (b'_', _) => text.push_str("null"),
        (b'$' | b'=' | b'!', _) => {
            let (bulk, rest) = rest.split_at(number(line));
            match kind {
                b'!' => text.push_str(&format!("!{}", bulk.escape_ascii())),
                b'=' => {
                    text.push_str(&format!("{}{}", bulk[..3].escape_ascii(), quoted(&bulk[4..])))
                }
                _ => text.push_str(&quoted(bulk)),
            }
            return &rest[2..];
        }
        (b'*' | b'%' | b'~' | b'>', _) => return render_aggregate(kind, number(line), rest, text),
        _ => text.push_str(
            &bytes[..end].escape_ascii().to_string().replace("\\'", "'").replace("\\\"", "\""),
        ),
    }
    rest
}

fn render_aggregate<'a>(kind: u8, count: usize, mut rest: &'a [u8], text: &mut String) -> &'a [u8] {
    if kind != b'*' {
        text.push(char::from(kind));
    }
    text.push('[');
    let value_count = if kind == b'%' { 2 * count } else { count };
    for index in 0..value_count {
        if index > 0 {
            text.push(' ');
        }
        rest = render_one(rest, text);
    }
    text.push(']');
    rest
}

/// Returns `bytes` in double quotes, with `\xNN` for what is no text.
pub fn quoted(bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(BULK_BYTES_MAX)];
    let text = shown.escape_ascii().to_string().replace("\\'", "'");
    let cut = if shown.len() < bytes.len() { format!("...{}", bytes.len()) } else { String::new() };
    format!("\"{text}\"{cut}")
}

fn number(line: &[u8]) -> usize {
    let text = std::str::from_utf8(line).expect("a length is text");
    text.parse().expect("a length is a number")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_of_nothing_are_told_apart() {
        assert_eq!(render(b"*3\r\n$-1\r\n*-1\r\n_\r\n"), "[nil nil-array null]");
    }

    #[test]
    fn each_type_has_its_mark() {
        assert_eq!(render(b"+OK\r\n"), "+OK");
        assert_eq!(render(b"-ERR 'x' \"y\"\r\n"), "-ERR 'x' \"y\"");
        assert_eq!(render(b"%1\r\n$2\r\na\n\r\n:-1\r\n"), "%[\"a\\n\" :-1]");
        assert_eq!(render(b"~1\r\n#t\r\n"), "~[#t]");
        assert_eq!(render(b"=5\r\ntxt:a\r\n"), "txt\"a\"");
        assert_eq!(render(b",1.5\r\n"), ",1.5");
        assert_eq!(render(b">1\r\n(12\r\n"), ">[(12]");
    }
}
