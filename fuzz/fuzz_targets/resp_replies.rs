//! Replies of any bytes, cut anywhere: every cut gives the same values and the same error, and
//! nothing panics.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use resp::{Value, ValueDecoder, ValueError, ValueLimits};

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    cuts: Vec<u8>,
    stream: &'a [u8],
}

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

fuzz_target!(|input: Input<'_>| {
    let whole = decode(input.stream, || usize::MAX / 2);
    let mut cuts = input.cuts.iter().copied().map(usize::from).cycle();
    let cut = decode(input.stream, || cuts.next().unwrap_or(1));
    // Debug text, because a NaN is not equal to itself.
    assert_eq!(format!("{cut:?}"), format!("{whole:?}"));
});
