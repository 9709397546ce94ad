//! SHM LANE: a second connection whose bytes pass through memory that both processes map.
//!
//! The reply is a map: `lane` (the number of its session, as CLIENT ID says over the lane),
//! `request-bytes` and `reply-bytes` (the sizes of the rings), `descriptors` (how many come with
//! the reply: the memory, the server's doorbell, the client's). Nobody serves the lane before SHM
//! SEAL.

use crate::host::LaneOffer;
use crate::prelude::*;

pub(super) static LANE: Command = Command {
    name: "shm|lane",
    summary: "Makes a connection through shared memory, with rings of these sizes.",
    since: "7.2.4",
    group: Group::Server,
    arity: Arity::exactly(4),
    flags: Flags::NOSCRIPT.with(Flags::NO_MULTI).with(Flags::DENYOOM),
    categories: Categories::CONNECTION,
    args: &[Arg::integer("request-bytes").within(0, 70_000), Arg::integer("reply-bytes")],
    example: "> SHM LANE 65536 65536\n...",
    handler: Handler::Session(run),
    ..Command::DEFAULT
};

fn run(
    cx: &mut SessionContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Unfinished> {
    // No ring has 0 bytes: what is negative is refused with it.
    let bytes = |number: i64| u64::try_from(number).unwrap_or(0);
    let (request_bytes, reply_bytes) = (bytes(args.integer(2)?), bytes(args.integer(3)?));
    let offer = cx.host.shared_memory()?.open_lane(cx.session.id, request_bytes, reply_bytes)?;
    let LaneOffer { lane, descriptor_count } = offer;
    let numbers = [
        ("lane", lane),
        ("request-bytes", request_bytes),
        ("reply-bytes", reply_bytes),
        ("descriptors", descriptor_count as u64),
    ];
    super::reply_numbers(reply, &numbers);
    Ok(Next::Done)
}
