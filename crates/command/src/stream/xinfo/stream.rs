//! XINFO STREAM: a stream, in brief or in full.

use base::UnixMs;
use collections::{Consumer, Direction, Group as ConsumerGroup, Producers, Stream, StreamId};

use super::{KEY, existing, reply_id, reply_progress};
use crate::prelude::*;
use crate::stream::{reply_entries, reply_entry};

/// Entries of each kind in the full form, unless the request says otherwise.
const COUNT_DEFAULT: u64 = 10;

pub(super) static STREAM: Command = Command {
    name: "xinfo|stream",
    summary: "Returns what there is to know of a stream; in full its entries and groups too.",
    since: "5.0.0",
    group: Group::Stream,
    arity: Arity::at_least(3),
    keys: &[KeySpec::at(KEY, KeyFlags::RO.with(KeyFlags::ACCESS))],
    args: &[
        Arg::key("key"),
        Arg::block(
            "full-block",
            &[
                Arg::word("full", "FULL"),
                Arg::integer("count").token("COUNT").optional().within(-1, 6),
            ],
        )
        .optional(),
    ],
    history: &[
        ("6.0.0", "Added the `FULL` modifier."),
        (
            "7.0.0",
            "Added the `max-deleted-entry-id`, `entries-added`, `recorded-first-entry-id`, \
             `entries-read` and `lag` fields",
        ),
        ("7.2.0", "Added the `active-time` field, and changed the meaning of `seen-time`."),
    ],
    note: "A stream to which XADD has added with `IDMP` or `IDMPAUTO`, or which XCFGSET has set, \
        has six more fields, those of Redis 8.6: `idmp-duration`, `idmp-maxsize`, `pids-tracked`, \
        `iids-tracked`, `iids-added` and `iids-duplicates`.",
    example: "> XGROUP CREATE river readers $ MKSTREAM\nOK\n> XINFO STREAM river\n...",
    handler: Handler::Read(run),
    ..Command::DEFAULT
};

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let stream = existing(cx, args)?;
    let full_count = full_count(args)?;
    let of_producers = if stream.producers().is_some() { 6 } else { 0 };
    reply.map(of_producers + if full_count.is_some() { 9 } else { 10 });
    reply_counters(stream, reply);
    if let Some(producers) = stream.producers() {
        reply_producers(producers, cx.now(), reply);
    }
    match full_count {
        None => reply_brief(stream, reply),
        Some(count) => reply_full(stream, count, reply),
    }
    Ok(())
}

/// Returns how many entries of each kind are asked for, all being 0; none where the brief form is.
fn full_count(args: Args<'_>) -> Result<Option<u64>, CommandError> {
    let syntax = || CommandError::subcommand_syntax("XINFO", args.at(1));
    match args.len() {
        3 => return Ok(None),
        4 | 6 if args.is(3, "FULL") => {}
        _ => return Err(syntax()),
    }
    if args.len() == 4 {
        return Ok(Some(COUNT_DEFAULT));
    }
    if !args.is(4, "COUNT") {
        return Err(syntax());
    }
    Ok(Some(u64::try_from(args.integer(5)?).unwrap_or(COUNT_DEFAULT)))
}

fn reply_counters(stream: &Stream, reply: &mut Reply<'_>) {
    let (log, counters) = (stream.log(), stream.log().counters());
    let nodes = log.node_count() as i64;
    reply.bulk("length");
    reply.integer(log.len() as i64);
    reply.bulk("radix-tree-keys");
    reply.integer(nodes);
    // Their tree is another one here: a node for each of its keys, and the root.
    reply.bulk("radix-tree-nodes");
    reply.integer(nodes + 1);
    reply.bulk("last-generated-id");
    reply_id(counters.last_id, reply);
    reply.bulk("max-deleted-entry-id");
    reply_id(counters.max_deleted_id, reply);
    reply.bulk("entries-added");
    reply.integer(counters.entries_added as i64);
    reply.bulk("recorded-first-entry-id");
    reply_id(counters.first_id, reply);
}

/// Replies with what is remembered of producers, as from Redis 8.6 on.
fn reply_producers(producers: &Producers, now: UnixMs, reply: &mut Reply<'_>) {
    let (producer_count, message_count) = producers.counts(now);
    for (name, number) in [
        ("idmp-duration", i64::from(producers.duration_s())),
        ("idmp-maxsize", i64::from(producers.size_max())),
        ("pids-tracked", producer_count as i64),
        ("iids-tracked", message_count as i64),
        ("iids-added", producers.added() as i64),
        ("iids-duplicates", producers.duplicates() as i64),
    ] {
        reply.bulk(name);
        reply.integer(number);
    }
}

fn reply_brief(stream: &Stream, reply: &mut Reply<'_>) {
    reply.bulk("groups");
    reply.integer(stream.group_count() as i64);
    for (name, direction) in [("first-entry", Direction::Up), ("last-entry", Direction::Down)] {
        reply.bulk(name);
        let mut entries = stream.log().entries(StreamId::MIN, StreamId::MAX, direction);
        match entries.advance() {
            Some(id) => reply_entry(id, &mut entries, reply),
            None => reply.null(),
        }
    }
}

fn reply_full(stream: &Stream, count: u64, reply: &mut Reply<'_>) {
    reply.bulk("entries");
    let entries = stream.log().entries(StreamId::MIN, StreamId::MAX, Direction::Up);
    reply_entries(entries, count, reply);
    reply.bulk("groups");
    reply.array(stream.group_count());
    for (name, group) in stream.groups() {
        if reply.is_cut() {
            return;
        }
        // Those of Redis 7.2, unless XNACK was used.
        let released = group.released_count();
        reply.map(if released > 0 { 8 } else { 7 });
        reply.bulk("name");
        reply.bulk(name);
        reply_progress(group, stream.log(), reply);
        reply.bulk("pel-count");
        reply.integer(group.pending_count() as i64);
        reply.bulk("pending");
        reply_pending(group, count, reply);
        if released > 0 {
            reply.bulk("nacked-count");
            reply.integer(released as i64);
        }
        reply.bulk("consumers");
        reply.array(group.consumer_count());
        for (_, consumer) in group.consumers() {
            reply_consumer(group, consumer, count, reply);
        }
    }
}

/// Returns how many of `all` entries are asked for.
fn limited(all: usize, count: u64) -> usize {
    match usize::try_from(count) {
        Ok(count @ 1..) => count.min(all),
        _ => all,
    }
}

fn reply_pending(group: &ConsumerGroup, count: u64, reply: &mut Reply<'_>) {
    let count = limited(group.pending_count(), count);
    reply.array(count);
    for (id, pending) in group.pending(StreamId::MIN).take(count) {
        if reply.is_cut() {
            return;
        }
        reply.array(4);
        reply_id(id, reply);
        reply.bulk(pending.consumer.map_or(&b""[..], |index| group.consumer(index).name()));
        reply.integer(pending.delivered_at.0);
        reply.integer(pending.delivery_count as i64);
    }
}

fn reply_consumer(group: &ConsumerGroup, consumer: &Consumer, count: u64, reply: &mut Reply<'_>) {
    if reply.is_cut() {
        return;
    }
    reply.map(5);
    reply.bulk("name");
    reply.bulk(consumer.name());
    reply.bulk("seen-time");
    reply.integer(consumer.seen_at.0);
    reply.bulk("active-time");
    reply.integer(consumer.active_at.map_or(-1, |at| at.0));
    reply.bulk("pel-count");
    reply.integer(consumer.pending_count() as i64);
    reply.bulk("pending");
    let count = limited(consumer.pending_count(), count);
    reply.array(count);
    for id in consumer.pending(StreamId::MIN).take(count) {
        if reply.is_cut() {
            return;
        }
        let pending = group.pending_entry(id).expect("it is pending with a consumer");
        reply.array(3);
        reply_id(id, reply);
        reply.integer(pending.delivered_at.0);
        reply.integer(pending.delivery_count as i64);
    }
}
