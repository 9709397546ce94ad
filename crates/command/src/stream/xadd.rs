//! XADD: add an entry to a stream.

use std::borrow::Cow;

use collections::{Log, Stream, StreamId, TooLarge};
use keyspace::WhenAbsent;

use super::trim_options::{TRIM_ARGS, TrimOptions, WantedId};
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
    let now = cx.view.stamp().0.max(0) as u64;
    let when_absent = if options.skips_absent { WhenAbsent::Skip } else { WhenAbsent::Create };
    let growth = || Log::growth_bound(parts.iter().copied());
    let added =
        cx.view.change_stream(args.key(0), when_absent, growth, |stream, limits, effects| {
            let id = next_id(stream, wanted, now)?;
            let log = stream.log_mut();
            log.add(id, &parts, limits).map_err(|TooLarge| TOO_LARGE)?;
            let bounds = options.bounds(limits);
            let removed = options.trim.map_or(0, |trim| log.trim(trim, bounds));
            let length = log.len();
            effects.wake();
            effects.touch();
            effects.add(("XADD", ""), || {
                let trim =
                    ["MAXLEN".into(), "=".into(), length.to_string()].map(String::into_bytes);
                let trim = trim.into_iter().filter(|_| removed > 0).map(Cow::Owned);
                let parts = parts.iter().map(|part| Cow::Owned(part.to_vec()));
                trim.chain([id_text(id)]).chain(parts).collect()
            });
            Ok::<_, CommandError>(id)
        })?;
    match added {
        Some(id) => reply_id(id?, reply),
        None => reply.null(),
    }
    Ok(())
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
