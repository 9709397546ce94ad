//! BITFIELD: integers of any width within a string.

use resp::RequestView;

use super::bit_fields::{Content, Operation, parse};
use crate::prelude::*;

/// Encodings that requests are drawn with.
pub(super) const ENCODINGS: &[&str] = &["u1", "u4", "u8", "u63", "i5", "i8", "i16", "i64"];

pub(super) static BITFIELD: Command = Command {
    name: "bitfield",
    summary: "Reads and changes integers of any width within a string, several at once.",
    since: "3.2.0",
    complexity: "O(1) for each field; O(N) to write them, N being the bytes from first to last",
    group: Group::Bitmap,
    arity: Arity::at_least(2),
    flags: Flags::DENYOOM,
    keys: &[KeySpec::at(1, WRITES.with(KeyFlags::VARIABLE_FLAGS))
        .note("This command allows both access and modification of the key")],
    key_flags: Some(key_flags),
    args: &[
        Arg::key("key"),
        Arg::one_of(
            "operation",
            &[
                Arg::block("get-block", &[ENCODING, OFFSET]).token("GET"),
                Arg::block(
                    "write",
                    &[
                        Arg::one_of(
                            "overflow-block",
                            &[
                                Arg::word("wrap", "WRAP"),
                                Arg::word("sat", "SAT"),
                                Arg::word("fail", "FAIL"),
                            ],
                        )
                        .token("OVERFLOW")
                        .optional(),
                        Arg::one_of(
                            "write-operation",
                            &[
                                Arg::block("set-block", &[ENCODING, OFFSET, NUMBER]).token("SET"),
                                Arg::block("incrby-block", &[ENCODING, OFFSET, INCREMENT])
                                    .token("INCRBY"),
                            ],
                        ),
                    ],
                ),
            ],
        )
        .multiple()
        .optional(),
    ],
    example: "> BITFIELD lake SET u8 0 200 GET u4 0\n1) (integer) 0\n2) (integer) 12\n\
        > BITFIELD lake OVERFLOW SAT INCRBY u8 #0 100\n1) (integer) 255\n\
        > BITFIELD lake OVERFLOW FAIL INCRBY u8 0 1\n1) (nil)",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

const ENCODING: Arg = Arg::string("encoding").among(ENCODINGS);
const OFFSET: Arg = Arg::integer("offset").within(0, 200);
const NUMBER: Arg = Arg::integer("value");
const INCREMENT: Arg = Arg::integer("increment").within(-300, 300);
const WRITES: KeyFlags = KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::UPDATE);

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let key = args.key(0);
    let operations = parse(args, cx.value_bytes_max)?;
    let view = cx.view.as_read();
    let value = view.string(key)?.unwrap_or_default();
    let window = Content::window(&operations);
    // A string that grows is stored anew.
    let grown = if window.end > value.len() { window.end } else { 0 };
    let _scratch = cx.scratch(key, window.len() as u64, grown as u64)?;
    let mut content = Content::new(value, &operations);
    answer(&mut content, &operations, reply);
    if !operations.iter().any(Operation::changes) {
        return Ok(());
    }
    let changed = content.into_changed();
    cx.view.name_event("setbit");
    // One write for all: it either finds room or changes nothing.
    match changed {
        Some((offset, bytes)) => drop(cx.view.set_range(key, offset, &bytes)?),
        // Nobody is told of fields that stay, but it is no longer a number.
        None => cx.view.make_raw(key)?,
    }
    Ok(())
}

/// Runs `operations` on `content` and replies with their results.
pub(super) fn answer(content: &mut Content<'_>, operations: &[Operation], reply: &mut Reply<'_>) {
    reply.array(operations.len());
    operations.iter().for_each(|operation| content.run(operation, reply));
}

/// GET alone only reads.
fn key_flags(request: RequestView<'_>) -> KeyFlags {
    let mut index = 2;
    while index < request.len() {
        let (word, behind) = (request.at(index), request.len() - index - 1);
        let is = |name: &[u8]| word.eq_ignore_ascii_case(name);
        if is(b"GET") && behind >= 2 {
            index += 3;
        } else if is(b"OVERFLOW") && behind >= 1 {
            index += 2;
        } else {
            return WRITES;
        }
    }
    KeyFlags::RO.with(KeyFlags::ACCESS)
}
