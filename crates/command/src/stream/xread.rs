//! XREAD: the entries of streams behind given ones; wait for some. What XREADGROUP parses alike.

use std::time::Duration;

use base::{Key, UnixMs};
use collections::{Direction, Stream, StreamId};
use keyspace::{ReadView, ValueType};
use resp::{Deferred, Protocol};

use super::{INVALID_ID, reply_entries, strict_id_of};
use crate::parse::timeout;
use crate::prelude::*;
use crate::table::key_spec::{Extent, KeyList};

const NO_GROUP_OPTION: CommandError = CommandError::Fixed(
    "ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.",
);
const NO_NOACK_OPTION: CommandError = CommandError::Fixed(
    "ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.",
);
const NO_NEW: CommandError = CommandError::Fixed(
    "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> \
     <consumer> option.",
);
const MISSING_GROUP: CommandError = CommandError::Fixed("ERR Missing GROUP option for XREADGROUP");

/// Where both commands have their keys: the first half of what is behind STREAMS.
pub(super) const STREAM_KEYS: KeySpec = KeySpec {
    extent: Extent::FirstHalf(KeyList {
        word: "STREAMS",
        options: 1,
        passed: &[("BLOCK", 1), ("COUNT", 1), ("GROUP", 2)],
    }),
    ..KeySpec::at(1, KeyFlags::RO.with(KeyFlags::ACCESS))
};

pub(super) const COUNT: Arg = Arg::integer("count").token("COUNT").optional().within(-1, 5);
pub(super) const BLOCK: Arg =
    Arg::integer("milliseconds").token("BLOCK").optional().only_within(1, 2);

pub(super) static XREAD: Command = Command {
    name: "xread",
    summary: "Returns the entries of streams behind given ones; waits for some.",
    since: "5.0.0",
    complexity: "O(N) for each stream, N being the number of returned entries",
    group: Group::Stream,
    arity: Arity::at_least(4),
    flags: Flags::BLOCKING,
    keys: &[STREAM_KEYS],
    args: &[
        COUNT,
        BLOCK,
        Arg::block(
            "streams",
            &[
                Arg::key("key").multiple(),
                Arg::string("id").among(&["0", "0", "1-0", "3-0", "4-1", "$"]).as_often_as_before(),
            ],
        )
        .token("STREAMS"),
    ],
    example: "> XADD river 1-1 level 7\n\"1-1\"\n\
        > XREAD STREAMS river lake 0 0\n\
        1) 1) \"river\"\n   2) 1) 1) \"1-1\"\n         2) 1) \"level\"\n            2) \"7\"\n\
        > XREAD BLOCK 10 STREAMS river $\n(nil)",
    at_wait: Some(with_positions),
    handler: Handler::Read(run),
    ..Command::DEFAULT
};

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let request = ReadRequest::parse(args, &XREAD, cx.now())?;
    let mut streams: Vec<(&[u8], Option<&Stream>, StreamId)> = Vec::new();
    for (key, id) in request.streams(args) {
        let stream = cx.view.collection::<Stream>(key)?;
        let last = || stream.map_or(StreamId::MIN, |stream| stream.log().last_id());
        let id = match id {
            b"$" => last(),
            b">" => return Err(NO_NEW.into()),
            text => strict_id_of(text).ok_or(INVALID_ID)?,
        };
        streams.push((key.bytes, stream, id));
    }
    let (aggregate, mut count) = (reply.deferred(), 0);
    for (name, stream, after) in streams {
        let Some(stream) = stream else { continue };
        if stream.log().last_entry().is_none_or(|last| last <= after) {
            continue;
        }
        let start = after.next().expect("an entry is behind it");
        open_stream(name, reply);
        let entries = stream.log().entries(start, StreamId::MAX, Direction::Up);
        reply_entries(entries, request.count, reply);
        count += 1;
    }
    if count == 0 {
        return request.wait_or_null(args, Wait::of_type, reply);
    }
    close_streams(aggregate, count, reply);
    Ok(())
}

/// Returns the request with the identity of the last entry in the place of each `$`, which is what
/// it means as long as it waits.
fn with_positions(view: &ReadView<'_>, args: Args<'_>) -> Vec<Vec<u8>> {
    let mut request: Vec<Vec<u8>> = args.from(0).map(<[u8]>::to_vec).collect();
    let key_count = args.keys().len();
    let first = request.len() - key_count;
    for (id, key) in request[first..].iter_mut().zip(args.keys()) {
        if id == b"$" {
            let stream = view.without_touch().collection::<Stream>(key).ok().flatten();
            let last = stream.map_or(StreamId::MIN, |stream| stream.log().last_id());
            *id = last.to_text().as_bytes().to_vec();
        }
    }
    request
}

/// Opens what is replied of the stream called `name`: its entries follow.
pub(super) fn open_stream(name: &[u8], reply: &mut Reply<'_>) {
    if reply.protocol() == Protocol::Resp2 {
        reply.array(2);
    }
    reply.bulk(name);
}

/// Ends a reply of so many streams.
pub(super) fn close_streams(aggregate: Deferred, count: usize, reply: &mut Reply<'_>) {
    reply.finish(aggregate, |reply| match reply.protocol() {
        Protocol::Resp2 | Protocol::Memcached => reply.array(count),
        Protocol::Resp3 => reply.map(count),
    });
}

/// A request of XREAD or XREADGROUP.
pub(super) struct ReadRequest {
    /// How long it waits, if it does.
    pub timeout: Option<Duration>,
    /// How many entries of each stream; 0 is all.
    pub count: u64,
    /// The entries do not become pending.
    pub no_ack: bool,
    /// The position of the name of the group; the consumer's is behind it.
    pub group: Option<usize>,
    /// The position of the first key.
    first: usize,
    stream_count: usize,
}

impl ReadRequest {
    /// Source: Redis 7.2, `xreadCommand`.
    pub fn parse(
        args: Args<'_>,
        command: &Command,
        now: UnixMs,
    ) -> Result<ReadRequest, CommandError> {
        let of_group = command.name == "xreadgroup";
        let mut request = ReadRequest {
            timeout: None,
            count: 0,
            no_ack: false,
            group: None,
            first: 0,
            stream_count: 0,
        };
        let mut index = 1;
        while index < args.len() && request.first == 0 {
            let more = args.len() - index - 1;
            if args.is(index, "BLOCK") && more > 0 {
                request.timeout = Some(timeout::milliseconds(args, index + 1, now)?);
                index += 1;
            } else if args.is(index, "COUNT") && more > 0 {
                request.count = args.integer(index + 1)?.max(0) as u64;
                index += 1;
            } else if args.is(index, "STREAMS") && more > 0 {
                if more % 2 == 1 {
                    return Err(unbalanced(command, of_group));
                }
                (request.first, request.stream_count) = (index + 1, more / 2);
            } else if args.is(index, "GROUP") && more > 1 {
                if !of_group {
                    return Err(NO_GROUP_OPTION);
                }
                request.group = Some(index + 1);
                index += 2;
            } else if args.is(index, "NOACK") {
                if !of_group {
                    return Err(NO_NOACK_OPTION);
                }
                request.no_ack = true;
            } else {
                return Err(CommandError::Syntax);
            }
            index += 1;
        }
        match () {
            () if request.first == 0 => Err(CommandError::Syntax),
            () if of_group && request.group.is_none() => Err(MISSING_GROUP),
            () => Ok(request),
        }
    }

    /// Returns the streams, each by its key and what it is to be read behind: all, or those of them
    /// whose keys the command is run with.
    pub fn streams<'a>(
        &self,
        args: Args<'a>,
    ) -> impl Iterator<Item = (&'a Key<'a>, &'a [u8])> + use<'a> {
        let (keys, first, count) = (args.keys(), self.first, self.stream_count);
        let are_all = keys.len() == count;
        let mut names: Vec<(&[u8], usize)> = Vec::new();
        if !are_all {
            names.extend(keys.iter().map(|key| key.bytes).zip(0..));
            names.sort_unstable();
        }
        (0..count).filter_map(move |index| {
            let key = match are_all {
                true => index,
                false => {
                    let name = args.at(first + index);
                    let found = names.binary_search_by(|(other, _)| (*other).cmp(name)).ok()?;
                    names[found].1
                }
            };
            Some((&keys[key], args.at(first + count + index)))
        })
    }

    /// Waits for entries, as `of_type` says, or replies that there are none.
    pub fn wait_or_null(
        &self,
        args: Args<'_>,
        of_type: fn(Wait, ValueType) -> Wait,
        reply: &mut Reply<'_>,
    ) -> Result<(), Unfinished> {
        let Some(timeout) = self.timeout else {
            reply.null_array();
            return Ok(());
        };
        let wait = Wait::new(timeout, |reply| reply.null_array(), args.keys().len());
        Err(of_type(wait, ValueType::Stream).into())
    }
}

#[cold]
fn unbalanced(command: &Command, of_group: bool) -> CommandError {
    let symbol: &[u8] = if of_group { b">" } else { b"$" };
    CommandError::text_of(&[
        b"ERR Unbalanced '",
        command.name.as_bytes(),
        b"' list of streams: for each stream key an ID or '",
        symbol,
        b"' must be specified.",
    ])
}
