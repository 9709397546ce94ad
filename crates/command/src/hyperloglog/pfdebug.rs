//! PFDEBUG: how a HyperLogLog is stored.

use std::fmt::Write;

use collections::hyperloglog::{Edit, HyperLogLog, REGISTER_COUNT, Run};

use super::CONVERSION;
use crate::handler::error::quoted;
use crate::prelude::*;

const ABSENT: CommandError = CommandError::Fixed("ERR The specified key does not exist");
const NOT_SPARSE: CommandError = CommandError::Fixed("ERR HLL encoding is not sparse");

pub(super) static PFDEBUG: Command = Command {
    name: "pfdebug",
    summary: "Shows how a HyperLogLog is stored, or makes it dense.",
    since: "2.8.9",
    complexity: "O(N), N being the registers",
    group: Group::HyperLogLog,
    arity: Arity::exactly(3),
    flags: Flags::DENYOOM.with(Flags::ADMIN).with(Flags::EFFECT),
    keys: &[KeySpec::at(2, KeyFlags::RW.with(KeyFlags::ACCESS))],
    args: &[
        Arg::string("subcommand").among(&["GETREG", "DECODE", "ENCODING", "TODENSE"]),
        Arg::key("key"),
    ],
    example: "> PFADD visitors ann\n(integer) 1\n\
        > PFDEBUG DECODE visitors\n\"Z:10757 v:1,1 Z:5626\"\n\
        > PFDEBUG TODENSE visitors\n(integer) 1\n\
        > PFDEBUG ENCODING visitors\ndense",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let key = args.key(0);
    let value = cx.view.string(key)?.ok_or(ABSENT)?;
    let log = HyperLogLog::parse(value).map_err(CommandError::from)?;
    let is_dense = log.is_dense();
    if args.is(1, "GETREG") {
        make_dense(cx, args)?;
        let value = cx.view.string(key)?.unwrap_or_default();
        let log = HyperLogLog::parse(value).map_err(CommandError::from)?;
        reply.array(REGISTER_COUNT);
        (0..REGISTER_COUNT).for_each(|index| reply.integer(i64::from(log.dense_register(index))));
        return Ok(());
    }
    if args.is(1, "TODENSE") {
        make_dense(cx, args)?;
        reply.integer(i64::from(!is_dense));
        return Ok(());
    }
    if args.is(1, "DECODE") {
        if is_dense {
            return Err(NOT_SPARSE.into());
        }
        reply.bulk(text_of(&log));
    } else if args.is(1, "ENCODING") {
        reply.simple(if is_dense { "dense" } else { "sparse" });
    } else {
        let name = quoted(args.at(1), usize::MAX);
        let parts: [&[u8]; 3] = [b"ERR Unknown PFDEBUG subcommand '", name, b"'"];
        return Err(CommandError::text_of(&parts).into());
    }
    // Looked at is as good as changed in place, as in Redis.
    Ok(cx.view.make_raw(key)?)
}

/// Makes the HyperLogLog at the key of the request dense.
fn make_dense(cx: &mut WriteContext<'_>, args: Args<'_>) -> Result<(), Unfinished> {
    cx.view.change_string(args.key(0), |value, change| {
        let log = HyperLogLog::parse(value.ok_or(ABSENT)?)?;
        if log.is_dense() {
            return Ok((Edit::Keep, ()));
        }
        log.to_dense(&mut change.memory)?;
        change.add_conversion(CONVERSION);
        Ok::<_, CommandError>((Edit::Whole, ()))
    })??;
    Ok(())
}

/// Returns the runs of `log` as text.
fn text_of(log: &HyperLogLog<'_>) -> String {
    let mut text = String::new();
    for run in log.runs() {
        let separator = if text.is_empty() { "" } else { " " };
        let written = match run {
            Run::Zeroes(length) => write!(text, "{separator}z:{length}"),
            Run::LongZeroes(length) => write!(text, "{separator}Z:{length}"),
            Run::Values(value, length) => write!(text, "{separator}v:{value},{length}"),
        };
        written.expect("a string takes everything");
    }
    text
}
