//! BITFIELD_RO: integers of any width within a string, to read.

use super::bit_fields::{Content, Operation, parse};
use super::bitfield::{ENCODINGS, answer};
use crate::prelude::*;

const GET_ALONE: CommandError =
    CommandError::Fixed("ERR BITFIELD_RO only supports the GET subcommand");

pub(super) static BITFIELD_RO: Command = Command {
    name: "bitfield_ro",
    summary: "Reads integers of any width within a string, several at once.",
    since: "6.0.0",
    complexity: "O(1) for each field",
    group: Group::Bitmap,
    arity: Arity::at_least(2),
    flags: Flags::FAST,
    keys: &[KeySpec::at(1, KeyFlags::RO.with(KeyFlags::ACCESS))],
    args: &[
        Arg::key("key"),
        Arg::block(
            "get-block",
            &[Arg::string("encoding").among(ENCODINGS), Arg::integer("offset").within(0, 200)],
        )
        .token("GET")
        .optional()
        .multiple()
        .token_each(),
    ],
    example: "> SET lake deep\nOK\n\
        > BITFIELD_RO lake GET u8 0 GET i8 #1\n1) (integer) 100\n2) (integer) 101",
    handler: Handler::Read(run),
    ..Command::DEFAULT
};

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let operations = parse(args, cx.value_bytes_max)?;
    if operations.iter().any(Operation::changes) {
        return Err(GET_ALONE.into());
    }
    let value = cx.string(args.key(0))?.unwrap_or_default();
    answer(&mut Content::new(value, &operations), &operations, reply);
    Ok(())
}
