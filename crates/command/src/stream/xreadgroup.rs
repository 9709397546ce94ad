//! XREADGROUP: the entries of streams that a group has not been given, for one of its consumers;
//! wait for some. Or those that are pending with the consumer.

use base::{Key, UnixMs};
use collections::{
    ConsumerIndex, Direction, Group as ConsumerGroup, Log, Pending, Stream, StreamId,
};
use keyspace::StreamEffects;

use super::claims::{Claims, attending_consumer, tell_position};
use super::xread::{BLOCK, COUNT, ReadRequest, STREAM_KEYS, close_streams, open_stream};
use super::{INVALID_ID, no_group, reply_entry, reply_id, strict_id_of};
use crate::prelude::*;

const NO_LAST: CommandError = CommandError::Fixed(
    "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of \
     this consumer by specifying a proper ID, or use the > ID to get new messages. The $ ID would \
     just return an empty result set.",
);

pub(super) static XREADGROUP: Command = Command {
    name: "xreadgroup",
    summary: "Returns entries that a group has not been given, to a consumer; waits for some.",
    since: "5.0.0",
    complexity: "O(M) for each stream, M being the number of returned entries",
    group: Group::Stream,
    arity: Arity::at_least(7),
    flags: Flags::BLOCKING,
    keys: &[KeySpec { first: 4, ..STREAM_KEYS }],
    args: &[
        Arg::block("group-block", &[super::GROUP, super::CONSUMER]).token("GROUP"),
        COUNT,
        BLOCK,
        Arg::word("noack", "NOACK").optional(),
        Arg::block(
            "streams",
            &[
                Arg::key("key").multiple(),
                Arg::string("id").among(&[">", ">", ">", "0", "3-0"]).as_often_as_before(),
            ],
        )
        .token("STREAMS"),
    ],
    example: "> XADD river 1-1 level 7\n\"1-1\"\n> XGROUP CREATE river readers 0\nOK\n\
        > XREADGROUP GROUP readers ada STREAMS river >\n\
        1) 1) \"river\"\n   2) 1) 1) \"1-1\"\n         2) 1) \"level\"\n            2) \"7\"\n\
        > XREADGROUP GROUP readers bob STREAMS river >\n(nil)",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

/// What is read for whom.
#[derive(Clone, Copy)]
struct Reading<'a> {
    group: &'a [u8],
    consumer: &'a [u8],
    count: u64,
    no_ack: bool,
    now: UnixMs,
}

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let request = ReadRequest::parse(args, &XREADGROUP, cx.now())?;
    let group_index = request.group.expect("the parser has looked");
    let (group, consumer) = (args.at(group_index), args.at(group_index + 1));
    let (count, no_ack, now) = (request.count, request.no_ack, cx.view.stamp());
    let reading = Reading { group, consumer, count, no_ack, now };
    // All is looked at before anything changes.
    let mut streams: Vec<(&Key<'_>, StreamId, Option<StreamId>)> = Vec::new();
    let (mut growth, mut claimed, mut reply_bytes) = (0_u64, 0_u64, 0);
    for (key, id) in request.streams(args) {
        let stream = cx.view.collection::<Stream>(key)?;
        let found = stream.and_then(|stream| Some((stream.log(), stream.group(group)?)));
        let Some((log, found)) = found else {
            return Err(no_group(key.bytes, group, b" in XREADGROUP with GROUP option").into());
        };
        let after = match id {
            b"$" => return Err(NO_LAST.into()),
            b">" => StreamId::MAX,
            text => strict_id_of(text).ok_or(INVALID_ID)?,
        };
        let last = if after == StreamId::MAX { log.last_entry() } else { None };
        let entries = reading.entry_count(log, found, last);
        claimed = claimed.saturating_add(entries);
        growth = growth.saturating_add(found.consumer_growth(consumer));
        growth = growth.saturating_add(found.delivery_growth_bound(entries));
        if cx.reply_bytes_max < usize::MAX && after == StreamId::MAX {
            reply_bytes += reading.reply_bytes(log, found, cx.reply_bytes_max);
        }
        streams.push((key, after, last));
    }
    if reply_bytes > cx.reply_bytes_max {
        return Err(Need::OwnWorker.into());
    }
    let first_key = args.key(0);
    let scratch = cx.scratch(first_key, claimed.saturating_mul(Claims::BYTES_PER_ENTRY), growth)?;
    cx.admit_growth(first_key, || growth)?;
    let (aggregate, mut served) = (reply.deferred(), 0);
    for (key, after, last) in streams {
        let read = cx.view.change_admitted_stream(key, |stream, effects| {
            stream.change_group(group, |log, group| {
                reading.read(log, group, (key.bytes, after, last), effects, reply)
            })
        })?;
        served += usize::from(read.flatten().expect("the group was found"));
    }
    drop(scratch);
    if served == 0 {
        return request.wait_or_null(args, Wait::of_type_or_gone, reply);
    }
    close_streams(aggregate, served, reply);
    Ok(())
}

impl Reading<'_> {
    /// Returns a bound of how many entries become pending, of a log that ends with entry `last`;
    /// none where no new entries are read.
    fn entry_count(&self, log: &Log, group: &ConsumerGroup, last: Option<StreamId>) -> u64 {
        match (has_unread(last, group) && !self.no_ack, self.count) {
            (false, _) => 0,
            (true, 1) => 1,
            (true, 0) => log.count_behind(group.last_id(), u64::MAX),
            (true, count) => log.count_behind(group.last_id(), count),
        }
    }

    /// Returns about how many bytes the entries take in the reply that are delivered, or more than
    /// `most`.
    fn reply_bytes(&self, log: &Log, group: &ConsumerGroup, most: usize) -> usize {
        /// What is around the bytes of a field or a value, and around an entry with its identity.
        const AROUND_BYTES: usize = 16;
        const AROUND_ENTRY_BYTES: usize = 64;
        let Some(start) = group.last_id().next() else { return 0 };
        let mut entries = log.entries(start, StreamId::MAX, Direction::Up);
        let (mut count, mut bytes) = (0, 0);
        while bytes <= most
            && (self.count == 0 || count < self.count)
            && entries.advance().is_some()
        {
            bytes += AROUND_ENTRY_BYTES;
            while bytes <= most
                && let Some((field, value)) = entries.next_field()
            {
                bytes += field.byte_count() + value.byte_count() + 2 * AROUND_BYTES;
            }
            count += 1;
        }
        bytes
    }

    /// Reads one stream, and replies with what is read of it; returns whether it replies. It is
    /// given by its name, what is read behind, and its last entry where that is whatever is new.
    fn read(
        &self,
        log: &Log,
        group: &mut ConsumerGroup,
        (key, after, last): (&[u8], StreamId, Option<StreamId>),
        effects: &mut StreamEffects<'_>,
        reply: &mut Reply<'_>,
    ) -> bool {
        let consumer = attending_consumer(group, (self.group, self.consumer), self.now, effects);
        let is_new = after == StreamId::MAX;
        if is_new && !has_unread(last, group) {
            return false;
        }
        open_stream(key, reply);
        let (array, mut claims) = (reply.deferred(), Claims::default());
        let pending =
            Pending { consumer: Some(consumer), delivered_at: self.now, delivery_count: 1 };
        let count = match is_new {
            true => self.deliver(log, group, (pending, consumer), (effects, &mut claims), reply),
            false => {
                let read = (pending, consumer, after);
                self.repeat(log, group, read, (effects, &mut claims), reply)
            }
        };
        reply.finish(array, |reply| reply.array(count));
        claims.tell(effects, (self.group, group), self.consumer, self.now);
        if is_new {
            tell_position(effects, self.group, group);
        }
        true
    }

    /// Delivers entries that the group has not been given; returns how many.
    fn deliver(
        &self,
        log: &Log,
        group: &mut ConsumerGroup,
        (pending, consumer): (Pending, ConsumerIndex),
        (effects, claims): (&StreamEffects<'_>, &mut Claims),
        reply: &mut Reply<'_>,
    ) -> usize {
        let start = group.last_id().next().expect("an entry is behind it");
        let mut entries = log.entries(start, StreamId::MAX, Direction::Up);
        let mut count = 0;
        while (self.count == 0 || count < self.count)
            && !reply.is_cut()
            && let Some(id) = entries.advance()
        {
            group.note_read(log, id);
            reply_entry(id, &mut entries, reply);
            if !self.no_ack {
                group.set_pending(id, pending);
                claims.give(effects, id, 1);
            }
            count += 1;
        }
        if count > 0 && !self.no_ack {
            group.note_seen(consumer, self.now, true);
        }
        count as usize
    }

    /// Replies with entries behind `after` that are pending with the consumer; returns how many.
    fn repeat(
        &self,
        log: &Log,
        group: &mut ConsumerGroup,
        (pending, consumer, after): (Pending, ConsumerIndex, StreamId),
        (effects, claims): (&StreamEffects<'_>, &mut Claims),
        reply: &mut Reply<'_>,
    ) -> usize {
        let (mut count, mut next) = (0, after.next());
        while (self.count == 0 || count < self.count)
            && !reply.is_cut()
            && let Some(start) = next
            && let Some(id) = group.consumer(consumer).first_pending(start)
        {
            let mut entries = log.entries(id, id, Direction::Up);
            if entries.advance().is_some() {
                reply_entry(id, &mut entries, reply);
                let before = group.pending_entry(id).expect("it is pending with a consumer");
                let delivery_count = before.delivered_again(1);
                group.set_pending(id, Pending { delivery_count, ..pending });
                claims.give(effects, id, delivery_count);
            } else {
                reply.array(2);
                reply_id(id, reply);
                reply.null_array();
            }
            (count, next) = (count + 1, id.next());
        }
        count as usize
    }
}

/// Returns whether a log that ends with entry `last` has entries that `group` has not read.
fn has_unread(last: Option<StreamId>, group: &ConsumerGroup) -> bool {
    last.is_some_and(|last| last > group.last_id())
}
