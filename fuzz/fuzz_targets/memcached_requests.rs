//! Requests of memcached's text protocol, cut anywhere: every cut gives the same requests, what is
//! put back is decoded alike, and nothing panics.
//!
//! The first byte says how long the pieces are, the rest is the stream.
#![no_main]

use libfuzzer_sys::fuzz_target;
use memcached::{Decoder, Limits, put_back};
use resp::{Batch, Next, Requests};

const LIMITS: Limits = Limits { item_bytes_max: 600, is_authenticated: true };

type Shown = (u8, bool, Vec<Vec<u8>>);

fn shown(requests: Requests<'_>, index: usize) -> Shown {
    let known = requests.foreign(index).expect("it is one of memcached");
    (known.verb, known.is_silent, requests.at(index).iter().map(<[u8]>::to_vec).collect())
}

/// Returns whether the session ends with a request, so that what follows is not looked at.
fn ends(request: &Shown) -> bool {
    memcached::Fault::of_verb(request.0).is_some_and(memcached::Fault::ends_session)
}

fn decode(input: &[u8], piece: usize) -> Vec<Shown> {
    let (mut decoder, mut batch) = (Decoder::new(), Batch::new());
    let (mut kept, mut given, mut found) = (Vec::new(), 0, Vec::new());
    loop {
        let decoded = decoder.decode(&mut kept, &mut batch, 4, &LIMITS);
        let requests = batch.view(&kept);
        for index in 0..requests.len() {
            found.push(shown(requests, index));
            if found.last().is_some_and(ends) {
                return found;
            }
        }
        kept.drain(..decoded.consumed);
        match decoded.next {
            Next::Full => continue,
            Next::Wanted(bytes) => assert!(bytes > 0),
            Next::Failed(_) => unreachable!("faults are requests"),
        }
        if given == input.len() {
            return found;
        }
        let end = (given + piece).min(input.len());
        kept.extend_from_slice(&input[given..end]);
        given = end;
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((&piece, stream)) = input.split_first() else { return };
    let whole = decode(stream, usize::MAX / 2);
    assert_eq!(decode(stream, usize::from(piece % 32) + 1), whole);
    let (mut batch, mut buffer) = (Batch::new(), stream.to_vec());
    let _ = Decoder::new().decode(&mut buffer, &mut batch, 64, &LIMITS);
    let requests = batch.view(&buffer);
    if requests.is_empty() || ends(&shown(requests, 0)) {
        return;
    }
    let first = requests.len() / 2;
    let expected: Vec<Shown> = (first..requests.len()).map(|at| shown(requests, at)).collect();
    if expected.iter().any(ends) {
        return;
    }
    // Behind a blank line, so that its first byte does not say that it is the binary protocol.
    let mut again = b"\r\n".to_vec();
    put_back(requests, first, &mut again);
    let mut other = Batch::new();
    let _ = Decoder::new().decode(&mut again, &mut other, 65, &LIMITS);
    let found = other.view(&again);
    let found: Vec<Shown> = (1..found.len()).map(|at| shown(found, at)).collect();
    assert_eq!(found, expected);
});
