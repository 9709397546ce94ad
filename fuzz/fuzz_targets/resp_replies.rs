//! Replies of any bytes, cut anywhere: every cut gives the same values and the same error, and
//! nothing panics.
//!
//! The digits of the input's first line are the sizes of the pieces; the rest is the stream.
#![no_main]

#[path = "../step.rs"]
mod step;

use libfuzzer_sys::fuzz_target;
use resp::{Value, ValueDecoder, ValueError, ValueLimits};

use step::Step;

fn decode(
    stream: &[u8],
    mut piece_bytes: impl FnMut() -> usize,
) -> (Vec<Value>, Option<ValueError>) {
    let limits = ValueLimits { depth_max: 8, bulk_bytes_max: 10_000, line_bytes_max: 64 };
    let mut decoder = ValueDecoder::new(limits);
    let (mut start, mut end) = (0, 0);
    let mut values = Vec::new();
    loop {
        match decoder.decode(&stream[start..end]) {
            Err(error) => return (values, Some(error)),
            Ok((consumed, value)) => {
                start += consumed;
                match value {
                    Some(value) => values.push(value),
                    None if end == stream.len() => return (values, None),
                    None => end = stream.len().min(end + piece_bytes().max(1)),
                }
            }
        }
    }
}

fuzz_target!(|input: &[u8]| {
    let _step = Step::begin(input);
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    let (digits, stream) = (&input[..end], input.get(end + 1..).unwrap_or_default());
    let whole = decode(stream, || usize::MAX / 2);
    let mut cuts = digits.iter().map(|byte| usize::from(byte.wrapping_sub(b'0'))).cycle();
    let cut = decode(stream, || cuts.next().unwrap_or(1));
    // Debug text, because a NaN is not equal to itself.
    assert_eq!(format!("{cut:?}"), format!("{whole:?}"));
});
