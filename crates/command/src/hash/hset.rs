//! HSET and HMSET: set fields of a hash.

use crate::prelude::*;

pub(super) static HSET: Command = Command {
    name: "hset",
    summary: "Sets fields of a hash, and returns how many of them are new.",
    since: "2.0.0",
    complexity: "O(N), N being the fields that are set",
    group: Group::Hash,
    arity: Arity::at_least(4),
    flags: Flags::DENYOOM.with(Flags::FAST).with(Flags::EFFECT),
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::UPDATE))],
    args: &[
        Arg::key("key"),
        Arg::block("data", &[Arg::part("field"), Arg::string("value")]).multiple(),
    ],
    history: &[("4.0.0", "Accepts multiple `field` and `value` arguments.")],
    note: "A field that has expired is absent also while it is not yet removed, and counts as new; \
        Redis 8 takes it as there.",
    example: "> HSET lake depth 12 colour blue\n(integer) 2\n> HGET lake depth\n\"12\"",
    handler: Handler::Write(|cx, args, reply| {
        let added = set(cx, args, &HSET)?;
        reply.integer(added as i64);
        Ok(())
    }),
    ..Command::DEFAULT
};

pub(super) static HMSET: Command = Command {
    name: "hmset",
    summary: "Sets fields of a hash.",
    deprecated: Some(("4.0.0", "`HSET` with multiple field-value pairs")),
    example: "> HMSET lake depth 12 colour blue\nOK\n> HGET lake depth\n\"12\"",
    note: "",
    history: &[],
    handler: Handler::Write(|cx, args, reply| {
        set(cx, args, &HMSET)?;
        reply.ok();
        Ok(())
    }),
    ..HSET
};

/// Sets the fields of a request of `command` and returns how many of them are new.
fn set(
    cx: &mut WriteContext<'_>,
    args: Args<'_>,
    command: &'static Command,
) -> Result<usize, Unfinished> {
    if !args.len().is_multiple_of(2) {
        return Err(CommandError::WrongArity(command).into());
    }
    Ok(cx.view.set_fields(args.key(0), args.from(2))?)
}
