//! BITOP: strings, bit by bit.

use keyspace::Expiry;

use crate::prelude::*;

const NOT_OF_SEVERAL: CommandError =
    CommandError::Fixed("ERR BITOP NOT must be called with a single source key.");

/// The row.
pub static BITOP: Command = Command {
    name: "bitop",
    summary: "Makes a key hold what strings give bit by bit and returns its length.",
    since: "2.6.0",
    complexity: "O(N), N being the bytes of all strings",
    group: Group::Bitmap,
    arity: Arity::at_least(4),
    flags: Flags::DENYOOM,
    keys: &[
        KeySpec::at(2, KeyFlags::OW.with(KeyFlags::UPDATE)),
        KeySpec::all_from(3, KeyFlags::RO.with(KeyFlags::ACCESS)),
    ],
    args: &[
        Arg::one_of(
            "operation",
            &[
                Arg::word("and", "AND"),
                Arg::word("or", "OR"),
                Arg::word("xor", "XOR"),
                Arg::word("not", "NOT"),
            ],
        ),
        Arg::key("destkey"),
        Arg::key("key").spec(1).multiple(),
    ],
    example: "> MSET lake abc hill ab\nOK\n\
        > BITOP XOR river lake hill\n(integer) 3\n\
        > GET river\n\"\\x00\\x00c\"",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(
    cx: &mut WriteContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    let operation = Operation::named(args).ok_or(CommandError::Syntax)?;
    let (target, sources) = args.keys().split_first().expect("the arity asks for keys");
    if matches!(operation, Operation::Not) && sources.len() != 1 {
        return Err(NOT_OF_SEVERAL);
    }
    let view = cx.view.as_read();
    let strings: Result<Vec<&[u8]>, _> =
        sources.iter().map(|key| Ok(view.string(key)?.unwrap_or_default())).collect();
    let result = operation.result(&strings.map_err(|error: keyspace::WrongType| error)?);
    if result.is_empty() {
        cx.view.remove(target);
    } else {
        cx.view.set_raw(target, &result, Expiry::Clear)?;
    }
    reply.integer(result.len() as i64);
    Ok(())
}

#[derive(Clone, Copy)]
enum Operation {
    And,
    Or,
    Xor,
    Not,
}

impl Operation {
    fn named(args: Args<'_>) -> Option<Operation> {
        use Operation::{And, Not, Or, Xor};
        let all = [("AND", And), ("OR", Or), ("XOR", Xor), ("NOT", Not)];
        all.into_iter().find(|(name, _)| args.is(1, name)).map(|(_, operation)| operation)
    }

    /// Returns the result, as long as the longest string: zeroes follow the others.
    fn result(self, strings: &[&[u8]]) -> Vec<u8> {
        let length = strings.iter().map(|string| string.len()).max().unwrap_or(0);
        let mut result = strings[0].to_vec();
        result.resize(length, 0);
        for string in &strings[1..] {
            let pairs = result.iter_mut().zip(*string);
            match self {
                Operation::And => {
                    pairs.for_each(|(byte, other)| *byte &= other);
                    result[string.len()..].fill(0);
                }
                Operation::Or => pairs.for_each(|(byte, other)| *byte |= other),
                Operation::Xor => pairs.for_each(|(byte, other)| *byte ^= other),
                Operation::Not => unreachable!("it has one source"),
            }
        }
        if matches!(self, Operation::Not) {
            result.iter_mut().for_each(|byte| *byte = !*byte);
        }
        result
    }
}
