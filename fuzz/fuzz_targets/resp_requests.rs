//! Requests in any mix of inline, multibulk and garbage, cut anywhere: every cut gives the same
//! requests and the same error, what is not consumed stays as it was, and nothing panics.
//!
//! The input is text, so that seeds can be read and the words of the dictionary mean something. The
//! first line is `y` or `n` for authenticated, a digit for the requests of a batch, and digits for
//! the sizes of pieces. Each further line is a part of the stream, by its first byte:
//!
//! ```text
//! m SET k v    a multibulk request
//! i SET k v    an inline request, each argument quoted
//! l SET 'k v   a line as it is, and CR LF
//! b 3 abc      the header of a bulk string, the bytes, and CR LF
//! other        the bytes as they are, and LF
//! ```
#![no_main]

#[path = "../step.rs"]
mod step;

use libfuzzer_sys::fuzz_target;
use resp::{Limits, encode_command, encode_inline};

use pieces::decode;

use step::Step;

#[path = "../../crates/resp/tests/pieces/mod.rs"]
mod pieces;

fn write_part(line: &[u8], stream: &mut Vec<u8>) {
    let arguments = |text: &'static str| {
        let rest = line.strip_prefix(text.as_bytes())?;
        Some(rest.split(|byte| *byte == b' ').collect::<Vec<&[u8]>>())
    };
    if let Some(arguments) = arguments("m ") {
        encode_command(&arguments, stream);
    } else if let Some(arguments) = arguments("i ") {
        encode_inline(&arguments, stream);
    } else if let Some(rest) = line.strip_prefix(b"l ") {
        stream.extend_from_slice(&[rest, b"\r\n"].concat());
    } else if let Some(arguments) = arguments("b ") {
        let [length, bytes @ ..] = &arguments[..] else { return };
        let bytes = bytes.join(&b' ');
        stream.extend_from_slice(&[b"$", *length, b"\r\n", &bytes, b"\r\n"].concat());
    } else {
        stream.extend_from_slice(&[line, b"\n"].concat());
    }
}

fuzz_target!(|input: &[u8]| {
    let _step = Step::begin(input);
    let mut lines = input.split(|byte| *byte == b'\n');
    let mut head = lines.next().unwrap_or_default().iter().copied();
    let authenticated = head.next() == Some(b'y');
    let mut digits = head.map(|byte| usize::from(byte.wrapping_sub(b'0')));
    let requests_max = digits.next().unwrap_or(0) % 64 + 1;
    let mut cuts = digits.cycle();
    let limits = Limits {
        bulk_bytes_max: 100_000,
        multibulk_count_max: 1000,
        inline_bytes_max: 64,
        authenticated,
    };
    let mut stream = Vec::new();
    lines.for_each(|line| write_part(line, &mut stream));
    let whole = decode(&stream, &limits, 64, || usize::MAX / 2);
    let cut = decode(&stream, &limits, requests_max, || cuts.next().unwrap_or(1));
    assert_eq!(cut, whole);
});
