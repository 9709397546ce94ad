//! BITOP: strings, bit by bit.

use base::Key;
use keyspace::{HeldValue, Scratch};

use crate::prelude::*;

const NOT_OF_SEVERAL: CommandError =
    CommandError::Fixed("ERR BITOP NOT must be called with a single source key.");

pub(super) static BITOP: Command = Command {
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

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let operation = Operation::named(args).ok_or(CommandError::Syntax)?;
    let (target, sources) = args.keys().split_first().expect("the arity asks for keys");
    if matches!(operation, Operation::Not) && sources.len() != 1 {
        return Err(NOT_OF_SEVERAL.into());
    }
    let sources: Result<Vec<Source>, Unfinished> =
        sources.iter().map(|key| Source::of(cx, key)).collect();
    let sources = sources?;
    let strings: Vec<&[u8]> = sources.iter().map(Source::bytes).collect();
    // As long as the longest: zeroes follow the others.
    let length = strings.iter().map(|string| string.len()).max().unwrap_or(0);
    if length == 0 {
        cx.view.remove(target);
    } else {
        cx.view.set_raw_filled(target, length, &|start, piece| {
            operation.write(&strings, start, piece);
        })?;
    }
    reply.integer(length as i64);
    Ok(())
}

/// A string to read from while the result is written.
enum Source {
    /// A large one, where it lies.
    Held(HeldValue),
    /// A small one, or one more than may be held.
    Copied(Vec<u8>, #[expect(dead_code, reason = "it is only dropped")] Option<Scratch>),
}

impl Source {
    fn of(cx: &WriteContext<'_>, key: &Key<'_>) -> Result<Source, Unfinished> {
        let view = cx.view.as_read();
        let Some(string) = view.string(key)? else { return Ok(Source::Copied(Vec::new(), None)) };
        if let Some(held) = view.hold(key) {
            return Ok(Source::Held(held));
        }
        let scratch = cx.scratch(key, string.len() as u64, 0)?;
        Ok(Source::Copied(string.to_vec(), Some(scratch)))
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Source::Held(value) => value.as_ref(),
            Source::Copied(bytes, _) => bytes,
        }
    }
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

    /// Writes the piece of the result that begins at `start`.
    fn write(self, strings: &[&[u8]], start: usize, piece: &mut [u8]) {
        let parts = |index: usize| &strings[index][start.min(strings[index].len())..];
        // A loop of its own for each operation, which the compiler turns into wide registers.
        match self {
            Operation::Not => {
                piece.iter_mut().zip(parts(0)).for_each(|(byte, source)| *byte = !source);
            }
            Operation::And => fold(strings.len(), parts, piece, |a, b| a & b, true),
            Operation::Or => fold(strings.len(), parts, piece, |a, b| a | b, false),
            Operation::Xor => fold(strings.len(), parts, piece, |a, b| a ^ b, false),
        }
    }
}

/// Writes to `piece` what `operation` makes of `count` parts, which may be shorter or longer;
/// zeroes follow the shorter, and make zeroes where `zero_wins`.
#[inline(always)]
fn fold<'p>(
    count: usize,
    parts: impl Fn(usize) -> &'p [u8],
    piece: &mut [u8],
    operation: impl Fn(u8, u8) -> u8,
    zero_wins: bool,
) {
    let length = piece.len();
    let first = parts(0);
    let mut done = 1;
    if count > 1
        && let (Some(a), Some(b)) = (first.get(..length), parts(1).get(..length))
    {
        // Mostly: two strings and no end in sight; nothing is copied first.
        let pairs = a.iter().zip(b);
        piece.iter_mut().zip(pairs).for_each(|(byte, (a, b))| *byte = operation(*a, *b));
        done = 2;
    } else {
        let common = first.len().min(length);
        piece[..common].copy_from_slice(&first[..common]);
        piece[common..].fill(0);
    }
    for part in (done..count).map(parts) {
        let (both, rest) = piece.split_at_mut(part.len().min(length));
        both.iter_mut().zip(part).for_each(|(byte, other)| *byte = operation(*byte, *other));
        if zero_wins {
            rest.fill(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::prng::Prng;

    #[test]
    fn pieces_are_those_of_the_result_bit_by_bit() {
        let mut prng = Prng::new(7);
        for round in 0..200 {
            let count = 1 + prng.below(4) as usize;
            let strings: Vec<Vec<u8>> = (0..count)
                .map(|_| (0..prng.below(70)).map(|_| prng.next() as u8).collect())
                .collect();
            let strings: Vec<&[u8]> = strings.iter().map(Vec::as_slice).collect();
            let length = strings.iter().map(|string| string.len()).max().unwrap();
            let operation = match (round % 4, count) {
                (0, 1) => Operation::Not,
                (1, _) => Operation::And,
                (2, _) => Operation::Or,
                _ => Operation::Xor,
            };
            let mut result = vec![0xee; length];
            let step = 1 + prng.below(20) as usize;
            for (index, piece) in result.chunks_mut(step).enumerate() {
                operation.write(&strings, index * step, piece);
            }
            assert_eq!(result, naive(operation, &strings, length), "round {round}");
        }
    }

    fn naive(operation: Operation, strings: &[&[u8]], length: usize) -> Vec<u8> {
        let byte = |string: &&[u8], index: usize| string.get(index).copied().unwrap_or(0);
        let at = |index: usize| {
            let mut bytes = strings.iter().map(|string| byte(string, index));
            let first = bytes.next().unwrap();
            match operation {
                Operation::And => bytes.fold(first, |a, b| a & b),
                Operation::Or => bytes.fold(first, |a, b| a | b),
                Operation::Xor => bytes.fold(first, |a, b| a ^ b),
                Operation::Not => !first,
            }
        };
        (0..length).map(at).collect()
    }
}
