//! XPENDING: which entries are pending with the consumers of a group.

use collections::{Group as ConsumerGroup, Pending, Stream, StreamId};

use super::{GROUP, no_group, range_end, range_start, reply_id};
use crate::prelude::*;

pub(super) static XPENDING: Command = Command {
    name: "xpending",
    summary: "Returns which entries are pending with the consumers of a group.",
    since: "5.0.0",
    complexity: "O(N), N being the number of consumers, or of entries that are looked at",
    group: Group::Stream,
    arity: Arity::at_least(3),
    keys: &[KeySpec::at(1, KeyFlags::RO.with(KeyFlags::ACCESS))],
    args: &[
        Arg::key("key"),
        GROUP,
        Arg::block(
            "filters",
            &[
                Arg::integer("min-idle-time")
                    .token("IDLE")
                    .optional()
                    .since("6.2.0")
                    .among(&["0", "3600000"]),
                Arg::string("start").among(&["-", "2-0", "(3-0"]),
                Arg::string("end").among(&["+", "3", "(4-1"]),
                Arg::integer("count").within(0, 9),
                Arg::string("consumer").among(&["alice", "bob"]).optional(),
            ],
        )
        .optional(),
    ],
    history: &[("6.2.0", "Added the `IDLE` option and exclusive range intervals.")],
    tips: &["nondeterministic_output"],
    example: "> XADD river 1-1 level 7\n\"1-1\"\n> XGROUP CREATE river readers 0\nOK\n\
        > XREADGROUP GROUP readers ada STREAMS river >\n\
        1) 1) \"river\"\n   2) 1) 1) \"1-1\"\n         2) 1) \"level\"\n            2) \"7\"\n\
        > XPENDING river readers\n\
        1) (integer) 1\n2) \"1-1\"\n3) \"1-1\"\n4) 1) 1) \"ada\"\n      2) \"1\"",
    handler: Handler::Read(run),
    ..Command::DEFAULT
};

/// Which entries are asked for.
struct Filter<'a> {
    min_idle: i64,
    start: StreamId,
    end: StreamId,
    count: u64,
    consumer: Option<&'a [u8]>,
}

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let filter = Filter::parse(args)?;
    let (key, name) = (args.key(0), args.at(2));
    let stream = cx.view.collection::<Stream>(key)?;
    let group = stream.and_then(|stream| stream.group(name));
    let group = group.ok_or_else(|| no_group(key.bytes, name, b""))?;
    match filter {
        None => summarize(group, reply),
        Some(filter) => filter.list(group, cx.now().0, reply),
    }
    Ok(())
}

/// Replies with how many entries are pending, the first and the last, and with whom they are.
fn summarize(group: &ConsumerGroup, reply: &mut Reply<'_>) {
    reply.array(4);
    reply.integer(group.pending_count() as i64);
    let first = group.pending(StreamId::MIN).next();
    let (Some((first, _)), Some(last)) = (first, group.last_pending()) else {
        reply.null();
        reply.null();
        return reply.null_array();
    };
    reply_id(first, reply);
    reply_id(last, reply);
    let (array, mut count) = (reply.deferred(), 0);
    for (_, consumer) in group.consumers().filter(|(_, it)| it.pending_count() > 0) {
        if reply.is_cut() {
            break;
        }
        reply.array(2);
        reply.bulk(consumer.name());
        reply.bulk_integer(consumer.pending_count() as i64);
        count += 1;
    }
    reply.finish(array, |reply| reply.array(count));
}

impl<'a> Filter<'a> {
    /// Returns what the request asks for; none where it asks for a summary.
    ///
    /// Source: Redis 7.2, `xpendingCommand`.
    fn parse(args: Args<'a>) -> Result<Option<Filter<'a>>, CommandError> {
        let count = args.len();
        if count == 3 {
            return Ok(None);
        }
        if !(6..=9).contains(&count) {
            return Err(CommandError::Syntax);
        }
        let (mut first, mut min_idle) = (3, 0);
        if args.is(3, "IDLE") {
            min_idle = args.integer(4)?;
            if count < 8 {
                return Err(CommandError::Syntax);
            }
            first = 5;
        }
        let most = args.integer(first + 2)?.max(0) as u64;
        Ok(Some(Filter {
            min_idle,
            start: range_start(args, first)?,
            end: range_end(args, first + 1)?,
            count: most,
            consumer: (first + 3 < count).then(|| args.at(first + 3)),
        }))
    }

    /// Replies with the entries at time `now`.
    fn list(&self, group: &ConsumerGroup, now: i64, reply: &mut Reply<'_>) {
        let entry = |id| (id, group.pending_entry(id).expect("it is pending with a consumer"));
        match self.consumer.map(|name| group.find_consumer(name)) {
            None => self.list_of(group.pending(self.start), group, now, reply),
            Some(None) => reply.array(0),
            Some(Some(index)) => {
                let own = group.consumer(index).pending(self.start).map(entry);
                self.list_of(own, group, now, reply);
            }
        }
    }

    /// Replies with those of `entries`, which begin at the start.
    fn list_of(
        &self,
        entries: impl Iterator<Item = (StreamId, Pending)>,
        group: &ConsumerGroup,
        now: i64,
        reply: &mut Reply<'_>,
    ) {
        let (array, mut count) = (reply.deferred(), 0);
        for (id, pending) in entries.take_while(|(id, _)| *id <= self.end) {
            if count == self.count || reply.is_cut() {
                break;
            }
            let idle = now.wrapping_sub(pending.delivered_at.0);
            if self.min_idle != 0 && idle < self.min_idle {
                continue;
            }
            reply.array(4);
            reply_id(id, reply);
            match pending.consumer {
                Some(index) => {
                    reply.bulk(group.consumer(index).name());
                    reply.integer(idle.max(0));
                }
                None => {
                    reply.bulk("");
                    reply.integer(-1);
                }
            }
            reply.integer(pending.delivery_count as i64);
            count += 1;
        }
        reply.finish(array, |reply| reply.array(count as usize));
    }
}
