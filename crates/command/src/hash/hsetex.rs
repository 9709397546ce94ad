//! HSETEX: sets fields that expire.

use base::number::parse_i64;
use collections::Hash;
use keyspace::FieldTime;

use super::field_times::field_time;
use crate::handler::error::quoted;
use crate::parse::time_to_live::{EX, EXAT, PX, PXAT, TimeForm};
use crate::prelude::*;

const TWO_TIMES: CommandError =
    CommandError::Fixed("ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified");
const TWO_CONDITIONS: CommandError =
    CommandError::Fixed("ERR Only one of FXX or FNX arguments can be specified");
const NO_TIME: CommandError = CommandError::Fixed("ERR missing expire time");
const NOT_A_COUNT: CommandError = CommandError::Fixed("ERR invalid number of fields");

pub(super) static HSETEX: Command = Command {
    name: "hsetex",
    summary: "Sets fields of a hash, and when they expire.",
    since: "8.0.0",
    complexity: "O(N), N being the fields that are set",
    group: Group::Hash,
    arity: Arity::at_least(6),
    flags: Flags::DENYOOM.with(Flags::FAST).with(Flags::EFFECT),
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::UPDATE))],
    args: &[
        Arg::key("key"),
        Arg::one_of("condition", &[Arg::word("fnx", "FNX"), Arg::word("fxx", "FXX")]).optional(),
        Arg::one_of("expiration", &[EX, PX, EXAT, PXAT, Arg::word("keepttl", "KEEPTTL")])
            .optional(),
        Arg::block(
            "fields",
            &[
                Arg::count_of_next("numfields"),
                Arg::block("data", &[Arg::part("field"), Arg::string("value")]).multiple(),
            ],
        )
        .token("FIELDS"),
    ],
    note: "A command of Redis 8.",
    example: "> HSETEX lake EX 60 FIELDS 1 depth 12\n(integer) 1\n\
        > HSETEX lake FNX FIELDS 2 depth 13 colour blue\n(integer) 0\n\
        > HTTL lake FIELDS 1 depth\n1) (integer) 60",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

/// Which fields must be there, so that any is set.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Condition {
    /// FNX: none of those that are named.
    None,
    /// FXX: all of them.
    All,
}

struct Options {
    condition: Option<Condition>,
    time: FieldTime,
    /// The position of the first field.
    first: usize,
}

impl Options {
    /// Source: Redis 8, `hsetexParseArgs`.
    fn parse(args: Args<'_>, cx: &WriteContext<'_>) -> Result<Options, CommandError> {
        let (mut condition, mut time) = (None, None);
        let mut at = 2;
        while at < args.len() {
            let word = args.at(at);
            if args.is(at, "FIELDS") {
                let first = Options::first(args, at)?;
                return Ok(Options { condition, time: time.unwrap_or(FieldTime::Clear), first });
            }
            if let Some(form) = TimeForm::named(word) {
                if time.is_some() {
                    return Err(TWO_TIMES);
                }
                at += 1;
                if at == args.len() {
                    return Err(NO_TIME);
                }
                time = Some(FieldTime::At(field_time(args.at(at), form, cx.now(), &HSETEX)?));
            } else if args.is(at, "KEEPTTL") {
                if time.replace(FieldTime::Keep).is_some() {
                    return Err(TWO_TIMES);
                }
            } else if args.is(at, "FXX") || args.is(at, "FNX") {
                let is_all = args.is(at, "FXX");
                let named = if is_all { Condition::All } else { Condition::None };
                if condition.replace(named).is_some() {
                    return Err(TWO_CONDITIONS);
                }
            } else {
                let shown = quoted(word, word.len());
                return Err(CommandError::text_of(&[b"ERR unknown argument: ", shown]));
            }
            at += 1;
        }
        Err(CommandError::WrongArity(&HSETEX))
    }

    /// Returns the position of the first field, where the word FIELDS is at position `at`.
    fn first(args: Args<'_>, at: usize) -> Result<usize, CommandError> {
        let first = at + 2;
        if first + 2 > args.len() {
            return Err(CommandError::WrongArity(&HSETEX));
        }
        let count = parse_i64(args.at(at + 1)).ok_or(NOT_A_COUNT)?;
        if !(1..=i64::from(i32::MAX)).contains(&count) {
            return Err(NOT_A_COUNT);
        }
        match 2 * count == (args.len() - first) as i64 {
            true => Ok(first),
            false => Err(CommandError::WrongArity(&HSETEX)),
        }
    }
}

/// Source: Redis 8, `hsetexCommand`.
fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let options = Options::parse(args, cx)?;
    let (key, parts) = (args.key(0), args.from(options.first));
    let view = &cx.view;
    let hash = view.collection::<Hash>(key)?;
    let is_there =
        |field: &[u8]| hash.is_some_and(|hash| hash.get(field, view.rules(key)).is_some());
    let is_met = match options.condition {
        None => true,
        Some(Condition::None) => !parts.clone().step_by(2).any(is_there),
        Some(Condition::All) => parts.clone().step_by(2).all(is_there),
    };
    if !is_met {
        let fields = parts.step_by(2);
        cx.view.remove_expired_fields(key, fields)?;
        reply.integer(0);
        return Ok(());
    }
    match options.time {
        FieldTime::At(at) if at <= cx.now() => {
            cx.view.set_past_fields(key, parts.step_by(2))?;
        }
        time => {
            cx.view.set_timed_fields(key, parts, time)?;
        }
    }
    reply.integer(1);
    Ok(())
}
