//! The promises of the codec on random streams: the pieces of a stream change nothing, what is
//! encoded decodes to itself, and no bytes make it panic. A failure prints the seed.

use base::prng::Prng;
use resp::{
    Limits, Protocol, Reply, Value, ValueDecoder, ValueError, encode_command, encode_inline,
};

use pieces::{Requests, decode};

mod pieces;

const LIMITS: Limits = Limits {
    bulk_bytes_max: 1000,
    multibulk_count_max: 100,
    inline_bytes_max: 200,
    authenticated: true,
};

fn random_bytes(prng: &mut Prng, bytes_max: u64) -> Vec<u8> {
    let mut bytes = vec![0; prng.below(bytes_max + 1) as usize];
    prng.fill(&mut bytes);
    bytes
}

fn random_request(prng: &mut Prng) -> Vec<Vec<u8>> {
    let count = if prng.one_in(20) { 1 + prng.below(100) } else { 1 + prng.below(5) };
    (0..count).map(|_| random_bytes(prng, 20)).collect()
}

/// A stream that is mostly requests, with a few bytes changed.
fn random_stream(prng: &mut Prng) -> Vec<u8> {
    let mut stream = Vec::new();
    for _ in 0..prng.below(20) {
        match prng.below(8) {
            0 => stream.extend_from_slice(b"\r\n"),
            1 => stream.extend_from_slice(b"*0\r\n"),
            2 => stream.extend_from_slice(b"get 'a b' \"\\x41\\n\" c\r\n"),
            kind => {
                let request = random_request(prng);
                let arguments: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
                if kind == 3 && arguments.len() <= 3 {
                    encode_inline(&arguments, &mut stream);
                } else {
                    encode_command(&arguments, &mut stream);
                }
            }
        }
    }
    for _ in 0..prng.below(3) {
        if !stream.is_empty() {
            let at = prng.below(stream.len() as u64) as usize;
            match prng.below(3) {
                0 => stream[at] = b"*$\r\n'\"\\ 0:\0-"[prng.below(12) as usize],
                1 => drop(stream.remove(at)),
                _ => stream[at] ^= 1 << prng.below(8),
            }
        }
    }
    stream
}

fn for_each_seed(count: u64, check: impl Fn(&mut Prng) + std::panic::RefUnwindSafe) {
    for seed in 0..count {
        let outcome = std::panic::catch_unwind(|| check(&mut Prng::new(seed)));
        if let Err(cause) = outcome {
            eprintln!("failed with seed {seed}");
            std::panic::resume_unwind(cause);
        }
    }
}

#[test]
fn any_cut_of_a_stream_gives_the_same_requests_and_error() {
    for_each_seed(20_000, |prng| {
        let stream = random_stream(prng);
        let limits = Limits { authenticated: !prng.one_in(8), ..LIMITS };
        let whole = decode(&stream, &limits, 64, || usize::MAX / 2);
        assert_eq!(decode(&stream, &limits, 64, || 1), whole);
        for piece_bytes_max in [3, 30, 300] {
            let requests_max = 1 + prng.below(64) as usize;
            let cut =
                decode(&stream, &limits, requests_max, || prng.below(piece_bytes_max) as usize);
            assert_eq!(cut, whole);
        }
    });
}

#[test]
fn garbage_never_panics() {
    for_each_seed(20_000, |prng| {
        let mut stream = random_bytes(prng, 400);
        let alphabet = b"*$\r\n'\"\\x0123456789- \0";
        if prng.one_in(2) {
            let letter = |byte: u8| alphabet[usize::from(byte) % alphabet.len()];
            stream.iter_mut().for_each(|byte| *byte = letter(*byte));
        }
        let whole = decode(&stream, &LIMITS, 64, || usize::MAX / 2);
        assert_eq!(decode(&stream, &LIMITS, 5, || prng.below(9) as usize), whole);
        let _ = decode_values(&stream, || 1 + prng.below(9) as usize);
    });
}

#[test]
fn requests_come_back_as_they_were_encoded() {
    for_each_seed(5_000, |prng| {
        let requests: Requests = (0..prng.below(70)).map(|_| random_request(prng)).collect();
        let mut stream = Vec::new();
        for request in &requests {
            let arguments: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
            encode_command(&arguments, &mut stream);
        }
        assert_eq!(decode(&stream, &LIMITS, 64, || usize::MAX / 2), (requests, None));
    });
}

#[test]
fn inline_requests_come_back_as_they_were_encoded() {
    for_each_seed(5_000, |prng| {
        let request: Vec<Vec<u8>> =
            (0..1 + prng.below(3)).map(|_| random_bytes(prng, 10)).collect();
        let arguments: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
        let mut stream = Vec::new();
        encode_inline(&arguments, &mut stream);
        assert_eq!(decode(&stream, &LIMITS, 64, || 1), (vec![request], None));
    });
}

fn decode_values(
    stream: &[u8],
    mut pieces: impl FnMut() -> usize,
) -> Result<Vec<Value>, ValueError> {
    let mut decoder = ValueDecoder::default();
    let (mut start, mut end) = (0, 0);
    let mut values = Vec::new();
    loop {
        let (consumed, value) = decoder.decode(&stream[start..end])?;
        start += consumed;
        match value {
            Some(value) => values.push(value),
            None if end == stream.len() => return Ok(values),
            None => end = stream.len().min(end + pieces().max(decoder.wanted())),
        }
    }
}

fn random_value(prng: &mut Prng, protocol: Protocol, depth: u32) -> Value {
    let plain_only = depth == 4;
    let resp2_kinds = if plain_only { 6 } else { 7 };
    let resp3_kinds = if plain_only { 10 } else { 15 };
    let is_resp2 = protocol == Protocol::Resp2;
    let values = |prng: &mut Prng| -> Vec<Value> {
        (0..prng.below(4)).map(|_| random_value(prng, protocol, depth + 1)).collect()
    };
    let kind = prng.below(if is_resp2 { resp2_kinds } else { resp3_kinds });
    match (kind, is_resp2) {
        (0, _) => Value::Simple(b"OK".into()),
        (1, _) => Value::Error(b"ERR no".into()),
        (2, _) => Value::Integer((prng.next() as i64) >> prng.below(64)),
        (3, _) => Value::Bulk(random_bytes(prng, 30)),
        (4, _) => Value::Null,
        (5, true) => Value::NullArray,
        (6, true) | (10 | 11, _) => Value::Array(values(prng)),
        (5, _) => Value::Boolean(prng.one_in(2)),
        (6, _) => Value::Double(f64::from(prng.next() as u32) / 7.0),
        (7, _) => Value::BigNumber(b"-123456789012345678901234567890".into()),
        (8 | 9, _) => Value::Verbatim { format: *b"txt", text: random_bytes(prng, 30) },
        (12, _) => Value::Set(values(prng)),
        (13, _) => Value::Push(values(prng)),
        _ => {
            let pair = |prng: &mut Prng| {
                let key = random_value(prng, protocol, depth + 1);
                (key, random_value(prng, protocol, depth + 1))
            };
            Value::Map((0..prng.below(3)).map(|_| pair(prng)).collect())
        }
    }
}

fn encode_value(value: &Value, reply: &mut Reply<'_>) {
    match value {
        Value::Simple(text) => reply.simple(text),
        Value::Error(text) => reply.error(text),
        Value::Integer(value) => reply.integer(*value),
        Value::Bulk(bytes) => reply.bulk(bytes),
        Value::Null => reply.null(),
        Value::NullArray => reply.null_array(),
        Value::Double(value) => reply.double(*value),
        Value::Boolean(value) => reply.boolean(*value),
        Value::BigNumber(digits) => {
            reply.big_number(std::str::from_utf8(digits).expect("digits are text"))
        }
        Value::Verbatim { format, text } => reply.verbatim(*format, text),
        Value::Array(values) => {
            reply.array(values.len());
            values.iter().for_each(|value| encode_value(value, reply));
        }
        Value::Set(values) => {
            reply.set(values.len());
            values.iter().for_each(|value| encode_value(value, reply));
        }
        Value::Push(values) => {
            reply.push(values.len());
            values.iter().for_each(|value| encode_value(value, reply));
        }
        Value::Map(pairs) => {
            let deferred = reply.deferred();
            for (key, value) in pairs {
                encode_value(key, reply);
                encode_value(value, reply);
            }
            reply.finish(deferred, |reply| reply.map(pairs.len()));
        }
        Value::Attribute { .. } => unreachable!("the server sends no attributes"),
    }
}

#[test]
fn replies_come_back_as_they_were_encoded() {
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        for_each_seed(10_000, |prng| {
            let mut values: Vec<Value> = Vec::new();
            let mut stream = Vec::new();
            for _ in 0..prng.below(5) {
                let value = random_value(prng, protocol, 0);
                encode_value(&value, &mut Reply::new(&mut stream, protocol));
                values.push(value);
            }
            assert_eq!(decode_values(&stream, || usize::MAX / 2), Ok(values.clone()));
            assert_eq!(decode_values(&stream, || prng.below(20) as usize), Ok(values));
        });
    }
}
