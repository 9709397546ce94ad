//! XCLAIM: give entries that are pending to another consumer.

use base::UnixMs;
use collections::{Direction, Group as ConsumerGroup, Log, Pending, Stream, StreamId};
use keyspace::WhenAbsent;

use super::claims::{Claims, attending_consumer, tell_position};
use super::{CONSUMER, GROUP, IDS, integer_or, no_group, reply_entry, reply_id, strict_id};
use crate::handler::error::quoted;
use crate::prelude::*;

const NO_MIN_IDLE: &str = "ERR Invalid min-idle-time argument for XCLAIM";
const NO_IDLE: &str = "ERR Invalid IDLE option argument for XCLAIM";
const NO_TIME: &str = "ERR Invalid TIME option argument for XCLAIM";
const NO_RETRY_COUNT: &str = "ERR Invalid RETRYCOUNT option argument for XCLAIM";

pub(super) static XCLAIM: Command = Command {
    name: "xclaim",
    summary: "Gives pending entries to a consumer, as if they were delivered to it.",
    since: "5.0.0",
    complexity: "O(log N), N being the number of pending entries",
    group: Group::Stream,
    arity: Arity::at_least(6),
    flags: Flags::FAST.with(Flags::EFFECT),
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::UPDATE))],
    args: &[
        Arg::key("key"),
        GROUP,
        CONSUMER,
        Arg::string("min-idle-time").among(&["0", "0", "3600000"]),
        Arg::string("id").among(IDS).multiple(),
        Arg::integer("ms").token("IDLE").optional().within(0, 1000),
        Arg::unix_time("unix-time-milliseconds").token("TIME").optional().within(0, 1000),
        Arg::integer("count").token("RETRYCOUNT").optional().within(0, 5),
        Arg::word("force", "FORCE").optional(),
        Arg::word("justid", "JUSTID").optional(),
        Arg::string("lastid").token("LASTID").optional().among(IDS),
    ],
    tips: &["nondeterministic_output"],
    example: "> XADD river 1-1 level 7\n\"1-1\"\n> XGROUP CREATE river readers 0\nOK\n\
        > XREADGROUP GROUP readers ada STREAMS river >\n\
        1) 1) \"river\"\n   2) 1) 1) \"1-1\"\n         2) 1) \"level\"\n            2) \"7\"\n\
        > XCLAIM river readers bob 0 1-1 JUSTID\n1) \"1-1\"",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

/// What is claimed, and how.
struct Claim<'a> {
    consumer: &'a [u8],
    min_idle: i64,
    /// The positions of the identities.
    ids: std::ops::Range<usize>,
    delivered_at: UnixMs,
    delivery_count: Option<u64>,
    is_forced: bool,
    only_ids: bool,
    last_id: StreamId,
    now: UnixMs,
}

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let (key, name) = (args.key(0), args.at(2));
    let stream = cx.view.collection::<Stream>(key)?;
    let Some(group) = stream.and_then(|stream| stream.group(name)) else {
        return Err(no_group(key.bytes, name, b"").into());
    };
    let claim = Claim::parse(args, cx.view.stamp())?;
    let growth = claim.growth(group);
    cx.view.change_stream(
        key,
        WhenAbsent::Skip,
        || growth,
        |stream, _, effects| {
            stream.change_group(name, |log, group| {
                let moves = group.move_to(claim.last_id);
                let consumer =
                    attending_consumer(group, (name, claim.consumer), claim.now, effects);
                let (array, mut count, mut claims) = (reply.deferred(), 0, Claims::default());
                for index in claim.ids.clone() {
                    if reply.is_cut() {
                        break;
                    }
                    let id = StreamId::parse(args.at(index), 0).expect("the parser has looked");
                    if !log.contains(id) {
                        if group.acknowledge(id) {
                            claims.take(effects, id);
                        }
                    } else if let Some(delivery_count) = claim.delivery_count_of(group, id) {
                        let (owner, delivered_at) = (Some(consumer), claim.delivered_at);
                        let pending = Pending { consumer: owner, delivered_at, delivery_count };
                        group.set_pending(id, pending);
                        group.note_seen(consumer, claim.now, true);
                        claims.give(effects, id, delivery_count);
                        reply_claimed(log, id, claim.only_ids, reply);
                        count += 1;
                    }
                }
                reply.finish(array, |reply| reply.array(count));
                claims.tell(effects, (name, group), claim.consumer, claim.delivered_at);
                if moves {
                    tell_position(effects, name, group);
                }
            })
        },
    )?;
    Ok(())
}

/// Replies with entry `id`, which is there, or with its identity alone.
pub(super) fn reply_claimed(log: &Log, id: StreamId, only_id: bool, reply: &mut Reply<'_>) {
    if only_id {
        return reply_id(id, reply);
    }
    let mut entries = log.entries(id, id, Direction::Up);
    if entries.advance().is_some() {
        reply_entry(id, &mut entries, reply);
    }
}

impl<'a> Claim<'a> {
    /// Source: Redis 7.2, `xclaimCommand`.
    fn parse(args: Args<'a>, now: UnixMs) -> Result<Claim<'a>, CommandError> {
        let min_idle = integer_or(args, 4, NO_MIN_IDLE)?.max(0);
        let is_id = |index: &usize| StreamId::parse(args.at(*index), 0).is_some();
        let id_count = (5..args.len()).take_while(is_id).count();
        let mut claim = Claim {
            consumer: args.at(3),
            min_idle,
            ids: 5..5 + id_count,
            delivered_at: now,
            delivery_count: None,
            is_forced: false,
            only_ids: false,
            last_id: StreamId::MIN,
            now,
        };
        let (mut index, mut delivered_at) = (claim.ids.end, -1);
        while index < args.len() {
            let has_more = index + 1 < args.len();
            let value = index + 1;
            index += 2;
            match () {
                () if args.is(value - 1, "FORCE") => (claim.is_forced, index) = (true, value),
                () if args.is(value - 1, "JUSTID") => (claim.only_ids, index) = (true, value),
                () if args.is(value - 1, "IDLE") && has_more => {
                    delivered_at = now.0.wrapping_sub(integer_or(args, value, NO_IDLE)?);
                }
                () if args.is(value - 1, "TIME") && has_more => {
                    delivered_at = integer_or(args, value, NO_TIME)?;
                }
                () if args.is(value - 1, "RETRYCOUNT") && has_more => {
                    let count = integer_or(args, value, NO_RETRY_COUNT)?;
                    claim.delivery_count = u64::try_from(count).ok();
                }
                () if args.is(value - 1, "LASTID") && has_more => {
                    claim.last_id = strict_id(args, value)?;
                }
                () => return Err(unrecognized(args.at(value - 1))),
            }
        }
        // A time that cannot be is now.
        if (0..=now.0).contains(&delivered_at) {
            claim.delivered_at = UnixMs(delivered_at);
        }
        Ok(claim)
    }

    /// Returns a bound of what claiming takes in memory.
    fn growth(&self, group: &ConsumerGroup) -> u64 {
        let entries = self.ids.len() as u64;
        let entries = match self.is_forced {
            true => ConsumerGroup::pending_growth_bound(entries),
            false => ConsumerGroup::claim_growth_bound(entries),
        };
        group.consumer_growth(self.consumer) + entries
    }

    /// Returns how often entry `id` of the stream was delivered once it is claimed; `None` where it
    /// is not claimed.
    fn delivery_count_of(&self, group: &ConsumerGroup, id: StreamId) -> Option<u64> {
        let before = group.pending_entry(id);
        if let Some(before) = before
            && self.min_idle > 0
            && self.now.0.wrapping_sub(before.delivered_at.0) < self.min_idle
        {
            return None;
        }
        let more = u64::from(!self.only_ids);
        // What is forced to be pending was delivered once.
        let delivered = match before {
            Some(before) => before.delivered_again(more),
            None if self.is_forced => 1 + more,
            None => return None,
        };
        Some(self.delivery_count.unwrap_or(delivered))
    }
}

#[cold]
fn unrecognized(option: &[u8]) -> CommandError {
    let option = quoted(option, usize::MAX);
    CommandError::text_of(&[b"ERR Unrecognized XCLAIM option '", option, b"'"])
}
