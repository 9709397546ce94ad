//! Requests decoded from a stream that arrives in pieces, for the tests of random streams and the
//! fuzz target `resp_requests`.

use resp::{Batch, Decoder, Limits, Next, ProtocolError};

/// The arguments of each request; none stand for one or more requests without arguments.
pub type Requests = Vec<Vec<Vec<u8>>>;

/// Decodes `stream`, handing over at each call what `piece_bytes` says has arrived. Returns the
/// requests before its end, or before the error.
///
/// # Panics
/// When the decoder changes what it has not consumed, or tells of another batch than it made.
pub fn decode(
    stream: &[u8],
    limits: &Limits,
    requests_max: usize,
    mut piece_bytes: impl FnMut() -> usize,
) -> (Requests, Option<ProtocolError>) {
    let mut decoder = Decoder::new();
    let mut batch = Batch::new();
    let mut requests: Requests = Vec::new();
    let mut is_cut_short = false;
    let (mut start, mut end) = (0, 0);
    let mut buffer = Vec::new();
    loop {
        let decoded = decoder.decode(&mut buffer, &mut batch, requests_max, limits);
        // A batch ends before its time where such a request is next.
        assert!(!is_cut_short || batch.follows_empty_request());
        if batch.follows_empty_request() && requests.last().is_none_or(|last| !last.is_empty()) {
            requests.push(Vec::new());
        }
        for request in batch.view(&buffer).iter() {
            requests.push(request.iter().map(<[u8]>::to_vec).collect());
        }
        let count: u32 = batch.requests().iter().map(|request| request.count).sum();
        assert_eq!(batch.ranges().len(), count as usize, "no range without its request");
        start += decoded.consumed;
        if !matches!(decoded.next, Next::Failed(_)) {
            // Everything not consumed is still as it was received.
            assert_eq!(buffer[decoded.consumed..], stream[start..end]);
        }
        match decoded.next {
            Next::Full => {
                assert!((1..=requests_max).contains(&batch.len()));
                is_cut_short = batch.len() < requests_max;
            }
            Next::Failed(error) => return (requests, Some(error)),
            Next::Wanted(wanted) => {
                is_cut_short = false;
                assert!(wanted > 0, "it waits for something");
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
