//! Requests in any mix of inline, multibulk and garbage, cut anywhere: every cut gives the same
//! requests and the same error, what is not consumed stays as it was, and nothing panics.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use resp::{Batch, Decoder, Limits, Next, ProtocolError, encode_command, encode_inline};

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    authenticated: bool,
    requests_max: u8,
    cuts: Vec<u8>,
    parts: Vec<Part<'a>>,
}

#[derive(Arbitrary, Debug)]
enum Part<'a> {
    Multibulk(Vec<&'a [u8]>),
    Inline(Vec<&'a [u8]>),
    Line(&'a [u8]),
    Count(i64),
    Bulk(i32, &'a [u8]),
    Bytes(&'a [u8]),
}

fn write_part(part: &Part<'_>, stream: &mut Vec<u8>) {
    match part {
        Part::Multibulk(arguments) => encode_command(arguments, stream),
        Part::Inline(arguments) => encode_inline(arguments, stream),
        Part::Line(bytes) => stream.extend_from_slice(&[bytes, &b"\r\n"[..]].concat()),
        Part::Count(count) => stream.extend_from_slice(format!("*{count}\r\n").as_bytes()),
        Part::Bulk(length, bytes) => {
            stream.extend_from_slice(format!("${length}\r\n").as_bytes());
            stream.extend_from_slice(&[bytes, &b"\r\n"[..]].concat());
        }
        Part::Bytes(bytes) => stream.extend_from_slice(bytes),
    }
}

type Outcome = (Vec<Vec<Vec<u8>>>, Option<ProtocolError>);

fn decode(
    stream: &[u8],
    limits: &Limits,
    requests_max: usize,
    mut piece_bytes: impl FnMut() -> usize,
) -> Outcome {
    let mut decoder = Decoder::new();
    let mut batch = Batch::new();
    let mut requests = Vec::new();
    let (mut start, mut end) = (0, 0);
    let mut buffer = Vec::new();
    loop {
        let decoded = decoder.decode(&mut buffer, &mut batch, requests_max, limits);
        for request in batch.view(&buffer).iter() {
            requests.push(request.iter().map(<[u8]>::to_vec).collect());
        }
        start += decoded.consumed;
        match decoded.next {
            Next::Failed(error) => return (requests, Some(error)),
            Next::Full => assert_eq!(batch.len(), requests_max),
            Next::Wanted(wanted) => {
                assert!(wanted > 0);
                assert_eq!(buffer[decoded.consumed..], stream[start..end]);
                if end == stream.len() {
                    return (requests, None);
                }
                end = stream.len().min(end + piece_bytes().max(1));
            }
        }
        buffer.clear();
        buffer.extend_from_slice(&stream[start..end]);
    }
}

fuzz_target!(|input: Input<'_>| {
    let limits = Limits {
        bulk_bytes_max: 100_000,
        multibulk_count_max: 1000,
        inline_bytes_max: 64,
        authenticated: input.authenticated,
    };
    let mut stream = Vec::new();
    input.parts.iter().for_each(|part| write_part(part, &mut stream));
    let whole = decode(&stream, &limits, 64, || usize::MAX / 2);
    let requests_max = usize::from(input.requests_max % 64) + 1;
    let mut cuts = input.cuts.iter().copied().map(usize::from).cycle();
    let cut = decode(&stream, &limits, requests_max, || cuts.next().unwrap_or(1));
    assert_eq!(cut, whole);
});
