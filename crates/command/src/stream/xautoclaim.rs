//! XAUTOCLAIM: give entries that have been pending for long to another consumer.

use base::UnixMs;
use base::number::parse_i64;
use collections::{Group as ConsumerGroup, Log, Pending, Stream, StreamId};
use keyspace::{StreamEffects, WhenAbsent};

use super::claims::{Claims, attending_consumer};
use super::xclaim::reply_claimed;
use super::{CONSUMER, GROUP, integer_or, no_group, range_start, reply_id};
use crate::prelude::*;

const NO_MIN_IDLE: &str = "ERR Invalid min-idle-time argument for XAUTOCLAIM";
const NO_COUNT: CommandError = CommandError::Fixed("ERR COUNT must be > 0");
/// How many entries it looks at, at most, for each that it is to claim.
const ATTEMPTS: u64 = 10;
/// The most entries that a request may ask for.
const COUNT_MAX: i64 = i64::MAX / 16;

pub(super) static XAUTOCLAIM: Command = Command {
    name: "xautoclaim",
    summary: "Gives entries that have been pending for long to a consumer.",
    since: "6.2.0",
    complexity: "O(COUNT)",
    group: Group::Stream,
    arity: Arity::at_least(6),
    flags: Flags::FAST,
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::DELETE))],
    args: &[
        Arg::key("key"),
        GROUP,
        CONSUMER,
        Arg::string("min-idle-time").among(&["0", "0", "3600000"]),
        Arg::string("start").among(&["-", "0", "2-0", "(3-1", "4-1"]),
        Arg::integer("count").token("COUNT").optional().within(1, 5),
        Arg::word("justid", "JUSTID").optional(),
    ],
    history: &[(
        "7.0.0",
        "Added an element to the reply array, containing deleted entries the command cleared from \
         the PEL",
    )],
    tips: &["nondeterministic_output"],
    example: "> XADD river 1-1 level 7\n\"1-1\"\n> XGROUP CREATE river readers 0\nOK\n\
        > XREADGROUP GROUP readers ada STREAMS river >\n\
        1) 1) \"river\"\n   2) 1) 1) \"1-1\"\n         2) 1) \"level\"\n            2) \"7\"\n\
        > XAUTOCLAIM river readers bob 0 - JUSTID\n\
        1) \"0-0\"\n2) 1) \"1-1\"\n3) (empty array)",
    is_timed_alone: true,
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

/// What is claimed, and how.
struct Claim<'a> {
    consumer: &'a [u8],
    min_idle: i64,
    start: StreamId,
    count: u64,
    only_ids: bool,
    now: UnixMs,
}

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let (key, name) = (args.key(0), args.at(2));
    let claim = Claim::parse(args, cx.view.stamp())?;
    let stream = cx.view.collection::<Stream>(key)?;
    let Some(group) = stream.and_then(|stream| stream.group(name)) else {
        return Err(no_group(key.bytes, name, b"").into());
    };
    let entries = claim.count.min(group.pending_count() as u64);
    let growth = claim.growth(group);
    // Those that are gone are told last.
    let bytes = entries * (2 * size_of::<StreamId>() as u64 + Claims::BYTES_PER_ENTRY);
    let scratch = cx.scratch(key, bytes, growth)?;
    cx.view.change_stream(
        key,
        WhenAbsent::Skip,
        || growth,
        |stream, _, effects| {
            stream.change_group(name, |log, group| {
                let gone = claim.run(log, (name, group), effects, reply);
                reply.array(gone.len());
                gone.into_iter().for_each(|id| reply_id(id, reply));
            })
        },
    )?;
    drop(scratch);
    Ok(())
}

impl<'a> Claim<'a> {
    /// Source: Redis 7.2, `xautoclaimCommand`.
    fn parse(args: Args<'a>, now: UnixMs) -> Result<Claim<'a>, CommandError> {
        let min_idle = integer_or(args, 4, NO_MIN_IDLE)?.max(0);
        let start = range_start(args, 5)?;
        let consumer = args.at(3);
        let mut claim = Claim { consumer, min_idle, start, count: 100, only_ids: false, now };
        let mut index = 6;
        while index < args.len() {
            if args.is(index, "COUNT") && index + 1 < args.len() {
                let count = parse_i64(args.at(index + 1)).ok_or(NO_COUNT)?;
                let is_possible = (1..=COUNT_MAX).contains(&count);
                claim.count = is_possible.then_some(count as u64).ok_or(NO_COUNT)?;
                index += 1;
            } else if args.is(index, "JUSTID") {
                claim.only_ids = true;
            } else {
                return Err(CommandError::Syntax);
            }
            index += 1;
        }
        Ok(claim)
    }

    /// Returns a bound of what claiming takes in memory.
    fn growth(&self, group: &ConsumerGroup) -> u64 {
        let most = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        let attempts = group.pending(self.start).take(most(self.count.saturating_mul(ATTEMPTS)));
        let due = attempts.filter(|(_, pending)| self.is_due(pending)).take(most(self.count));
        let entries = ConsumerGroup::claim_growth_bound(due.count() as u64);
        group.consumer_growth(self.consumer) + entries
    }

    /// Returns whether an entry has been pending so for long enough.
    fn is_due(&self, pending: &Pending) -> bool {
        let idle = self.now.0.wrapping_sub(pending.delivered_at.0);
        self.min_idle == 0 || idle >= self.min_idle
    }

    /// Claims entries of `group`, replies with where to go on and with what was claimed, and
    /// returns the entries that are gone.
    fn run(
        &self,
        log: &Log,
        (name, group): (&[u8], &mut ConsumerGroup),
        effects: &mut StreamEffects<'_>,
        reply: &mut Reply<'_>,
    ) -> Vec<StreamId> {
        let consumer = attending_consumer(group, (name, self.consumer), self.now, effects);
        let (array, mut claims, mut gone) = (reply.deferred(), Claims::default(), Vec::new());
        let (mut claimed, mut attempts) = (0, self.count.saturating_mul(ATTEMPTS));
        let mut next = group.pending(self.start).next();
        while let Some((id, before)) = next
            && attempts > 0
            && claimed + (gone.len() as u64) < self.count
            && !reply.is_cut()
        {
            attempts -= 1;
            if !log.contains(id) {
                group.acknowledge(id);
                claims.take(effects, id);
                gone.push(id);
            } else if self.is_due(&before) {
                let delivery_count = before.delivered_again(u64::from(!self.only_ids));
                let (consumer, delivered_at) = (Some(consumer), self.now);
                group.set_pending(id, Pending { consumer, delivered_at, delivery_count });
                claims.give(effects, id, delivery_count);
                reply_claimed(log, id, self.only_ids, reply);
                claimed += 1;
            }
            next = id.next().and_then(|start| group.pending(start).next());
        }
        if claimed > 0 {
            group.note_seen(consumer, self.now, true);
        }
        let cursor = next.map_or(StreamId::MIN, |(id, _)| id);
        reply.finish(array, |reply| {
            reply.array(3);
            reply_id(cursor, reply);
            reply.array(claimed as usize);
        });
        claims.tell(effects, (name, group), self.consumer, self.now);
        gone
    }
}
