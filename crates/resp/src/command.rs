//! Requests as a client writes them.

use base::number_text::IntegerText;

/// Appends `arguments` to `out` as one request, an array of bulk strings.
pub fn encode_command(arguments: &[&[u8]], out: &mut Vec<u8>) {
    header(b'*', arguments.len(), out);
    for argument in arguments {
        header(b'$', argument.len(), out);
        out.extend_from_slice(argument);
        out.extend_from_slice(b"\r\n");
    }
}

/// Appends `arguments` to `out` as one inline request, each in double quotes.
pub fn encode_inline(arguments: &[&[u8]], out: &mut Vec<u8>) {
    for (index, argument) in arguments.iter().enumerate() {
        out.extend_from_slice(if index == 0 { b"\"" } else { b" \"" });
        for &byte in *argument {
            match byte {
                b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
                0x20..=0x7e => out.push(byte),
                _ => {
                    const DIGITS: &[u8; 16] = b"0123456789abcdef";
                    let high = DIGITS[usize::from(byte >> 4)];
                    let low = DIGITS[usize::from(byte & 15)];
                    out.extend_from_slice(&[b'\\', b'x', high, low]);
                }
            }
        }
        out.push(b'"');
    }
    out.extend_from_slice(b"\r\n");
}

fn header(marker: u8, number: usize, out: &mut Vec<u8>) {
    out.push(marker);
    out.extend_from_slice(IntegerText::new(number as i64).as_bytes());
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_is_an_array_of_bulk_strings() {
        let mut out = Vec::new();
        encode_command(&[b"SET", b"key", b"a\r\n"], &mut out);
        assert_eq!(out, b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$3\r\na\r\n\r\n");
    }

    #[test]
    fn inline_escapes_what_is_not_text() {
        let mut out = Vec::new();
        encode_inline(&[b"ECHO", b"a\"\\\n\0"], &mut out);
        assert_eq!(out, b"\"ECHO\" \"a\\\"\\\\\\x0a\\x00\"\r\n");
    }
}
