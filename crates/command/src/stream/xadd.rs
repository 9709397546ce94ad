//! XADD: add an entry to a stream.

use std::borrow::Cow;

use base::UnixMs;
use collections::{Log, Stream, StreamId, TooLarge};
use keyspace::WhenAbsent;
use twox_hash::XxHash3_64;

use super::removal::REFERENCES;
use super::trim_options::{ProducerArgs, TRIM_ARGS, TrimOptions, WantedId};
use super::xcfgset::{MESSAGE, PRODUCER, growth, tell_message};
use super::{INVALID_ID, id_text, reply_id};
use crate::prelude::*;

const ZERO: CommandError =
    CommandError::Fixed("ERR The ID specified in XADD must be greater than 0-0");
const EXHAUSTED: CommandError = CommandError::Fixed(
    "ERR The stream has exhausted the last possible ID, unable to add more items",
);
const NOT_GREATER: CommandError = CommandError::Fixed(
    "ERR The ID specified in XADD is equal or smaller than the target stream top item",
);
const IDENTITY_OF_MESSAGE: CommandError =
    CommandError::Fixed("ERR IDMP/IDMPAUTO can be used only with auto-generated IDs");
const TOO_LARGE: CommandError = CommandError::Fixed("ERR Elements are too large to be stored");

pub(super) static XADD: Command = Command {
    name: "xadd",
    summary: "Adds an entry to a stream, and removes others if asked to.",
    since: "5.0.0",
    complexity: "O(1), and O(N) where entries are removed, N being their number",
    group: Group::Stream,
    arity: Arity::at_least(5),
    flags: Flags::DENYOOM.with(Flags::FAST).with(Flags::EFFECT),
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::UPDATE))
        .note("UPDATE instead of INSERT because of the optional trimming feature")],
    args: &[
        Arg::key("key"),
        Arg::word("nomkstream", "NOMKSTREAM").optional().since("6.2.0"),
        REFERENCES,
        Arg::one_of(
            "idmp",
            &[
                Arg::block("idmpauto-with-pid", &[PRODUCER]).token("IDMPAUTO"),
                Arg::block("idmp-with-pid-iid", &[PRODUCER, MESSAGE]).token("IDMP"),
            ],
        )
        .optional()
        .since("8.6.0"),
        Arg::block("trim", TRIM_ARGS).optional(),
        Arg::one_of(
            "id-selector",
            &[
                Arg::word("auto-id", "*"),
                Arg::string("id").among(&["1-*", "2-*", "3-*", "4-*", "4-*", "4-*", "4-*", "4-3"]),
            ],
        ),
        Arg::block("data", &[Arg::part("field"), Arg::part("value")]).multiple(),
    ],
    note: "The words of Redis 8.2 and 8.6 are known. `KEEPREF`, `DELREF` and `ACKED` say what \
        becomes of references of groups to entries that trimming removes, as for XTRIM; with \
        `ACKED` no more than 10,000 entries are looked at, fewer where there are several groups. \
        With `IDMP`, a producer and the name of its message, or `IDMPAUTO` and a producer, for \
        whom the content is the name, whatever the order of its fields, an entry is added once: \
        while the message is remembered, the reply is the identity of the entry that it became. \
        See XCFGSET.",
    history: &[
        (
            "6.2.0",
            "Added the `NOMKSTREAM` option, `MINID` trimming strategy and the `LIMIT` option.",
        ),
        ("7.0.0", "Added support for the `<ms>-*` explicit ID form."),
    ],
    tips: &["nondeterministic_output"],
    example: "> XADD river 1-1 level 7 colour green\n\"1-1\"\n\
        > XADD river 1-* level 8\n\"1-2\"\n\
        > XLEN river\n(integer) 2",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let mut wanted = WantedId::Any;
    let mut read_id = |index| {
        wanted = wanted_id(args.at(index)).ok_or(INVALID_ID)?;
        Ok(())
    };
    let (options, id_index) = TrimOptions::read(args, Some(&mut read_id))?;
    let parts: Vec<&[u8]> = args.from(id_index + 1).collect();
    if parts.len() < 2 || parts.len() % 2 == 1 {
        return Err(CommandError::WrongArity(&XADD).into());
    }
    if wanted == WantedId::This(StreamId::MIN) {
        return Err(ZERO.into());
    }
    if options.producer.is_some() && wanted != WantedId::Any {
        return Err(IDENTITY_OF_MESSAGE.into());
    }
    let message = options.producer.map(|named| Message::new(args, named, &parts));
    let message = message.as_ref();
    let stamp = cx.view.stamp();
    let now = stamp.0.max(0) as u64;
    let when_absent = if options.skips_absent { WhenAbsent::Skip } else { WhenAbsent::Create };
    let growth = || {
        let of_message = message.map_or(0, |message| growth(message.producer, message.name()));
        Log::growth_bound(parts.iter().copied()) + of_message
    };
    let added =
        cx.view.change_stream(args.key(0), when_absent, growth, |stream, limits, effects| {
            if let Some(message) = message
                && let Some(known) = message.find(stream, stamp)
            {
                return Ok(known);
            }
            let id = next_id(stream, wanted, now)?;
            stream.log_mut().add(id, &parts, limits).map_err(|TooLarge| TOO_LARGE)?;
            let trimmed = options.apply(stream, limits, effects, true);
            effects.wake();
            let log = stream.log();
            effects.touch();
            effects.add(("XADD", ""), || {
                let parts = parts.iter().map(|part| Cow::Owned(part.to_vec()));
                trimmed.words(log).chain([id_text(id)]).chain(parts).collect()
            });
            trimmed.tell_others(effects);
            if let Some(message) = message {
                stream.producers_mut().add(message.producer, message.name(), id, stamp);
                tell_message(effects, message.producer, message.name(), id);
            }
            Ok::<_, CommandError>(id)
        })?;
    match added {
        Some(id) => reply_id(id?, reply),
        None => reply.null(),
    }
    Ok(())
}

/// A message of a producer, which is to become one entry however often it is sent.
struct Message<'a> {
    producer: &'a [u8],
    name: Cow<'a, [u8]>,
}

impl<'a> Message<'a> {
    /// Returns the message that `args` name at `named`, with the content `parts`.
    fn new(args: Args<'a>, named: ProducerArgs, parts: &[&[u8]]) -> Message<'a> {
        let name = match named.message {
            Some(index) => Cow::Borrowed(args.at(index)),
            None => Cow::Owned(name_of(parts)),
        };
        Message { producer: args.at(named.producer), name }
    }

    fn name(&self) -> &[u8] {
        &self.name
    }

    /// Returns the entry of `stream` that the message became, if that is remembered at `now`, and
    /// counts that.
    fn find(&self, stream: &mut Stream, now: UnixMs) -> Option<StreamId> {
        let known = stream.producers()?.find(self.producer, &self.name, now)?;
        stream.producers_mut().note_duplicate();
        Some(known)
    }
}

/// Returns the name of a message with the content `parts`, fields and values by turns: the same
/// for any order of the fields.
fn name_of(parts: &[&[u8]]) -> Vec<u8> {
    let word = |seed: u64| {
        parts.chunks(2).fold(0_u64, |sum, pair| {
            let [field, value] = pair else { unreachable!("a field has a value") };
            // The value under the field, so that where one ends and the other begins counts.
            let of_field = XxHash3_64::oneshot_with_seed(seed, field);
            sum.wrapping_add(XxHash3_64::oneshot_with_seed(of_field, value))
        })
    };
    [word(1), word(2)].map(u64::to_le_bytes).concat()
}

fn wanted_id(text: &[u8]) -> Option<WantedId> {
    let of_time = || StreamId::parse_open(text).map(WantedId::OfTime);
    StreamId::parse(text, 0).map(WantedId::This).or_else(of_time)
}

/// Returns the identity of the next entry of `stream`.
fn next_id(stream: &Stream, wanted: WantedId, now: u64) -> Result<StreamId, CommandError> {
    let last = stream.log().last_id();
    if last == StreamId::MAX {
        return Err(EXHAUSTED);
    }
    let next = match wanted {
        WantedId::Any if now > last.ms => Some(StreamId::new(now, 0)),
        WantedId::Any => last.next(),
        WantedId::OfTime(ms) if ms == last.ms => {
            last.sequence.checked_add(1).map(|sequence| StreamId { ms, sequence })
        }
        WantedId::OfTime(ms) => Some(StreamId::new(ms, 0)),
        WantedId::This(id) => Some(id),
    };
    next.filter(|next| *next > last).ok_or(NOT_GREATER)
}
