//! LCS: the longest bytes that two strings have in common, in order but not in one piece.

use crate::prelude::*;

const NOT_STRINGS: CommandError =
    CommandError::Fixed("ERR The specified keys must contain string values");
const AMBIGUOUS: CommandError =
    CommandError::Fixed("ERR If you want both the length and indexes, please just use IDX.");
const STRING_TOO_LONG: CommandError = CommandError::Fixed("ERR String too long for LCS");
const TABLE_TOO_LARGE: CommandError = CommandError::Fixed(
    "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len",
);
const NO_MEMORY: CommandError =
    CommandError::Fixed("ERR Insufficient memory, failed allocating transient memory for LCS");

/// The row.
pub static LCS: Command = Command {
    name: "lcs",
    summary: "Returns the longest common subsequence of two strings.",
    since: "7.0.0",
    complexity: "O(N*M), N and M being the lengths of the strings; as much memory, four bytes each",
    group: Group::String,
    arity: Arity::at_least(3),
    keys: &[KeySpec { last: 1, ..KeySpec::at(1, KeyFlags::RO.with(KeyFlags::ACCESS)) }],
    args: &[
        Arg::key("key1"),
        Arg::key("key2"),
        Arg::word("len", "LEN").optional(),
        Arg::word("idx", "IDX").optional(),
        Arg::integer("min-match-len").token("MINMATCHLEN").within(-1, 5).optional(),
        Arg::word("withmatchlen", "WITHMATCHLEN").optional(),
    ],
    example: "> MSET lake upstream hill downstream\nOK\n\
        > LCS lake hill\n\"stream\"\n\
        > LCS lake hill LEN\n(integer) 6\n\
        > LCS lake hill IDX MINMATCHLEN 4 WITHMATCHLEN\n...",
    handler: Handler::Read(run),
    ..Command::DEFAULT
};

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let string = |index: usize| {
        let found = cx.string(args.key(index)).map_err(|_| NOT_STRINGS)?;
        Ok::<&[u8], CommandError>(found.unwrap_or_default())
    };
    let (a, b) = (string(0)?, string(1)?);
    let options = Options::parse(args)?;
    let table = Table::build(a, b, cx.value_bytes_max)?;
    if options.asks_indexes {
        reply_matches(&table, &options, reply);
    } else if options.asks_length {
        reply.integer(table.length());
    } else {
        reply.bulk(table.common());
    }
    Ok(())
}

#[derive(Default)]
struct Options {
    asks_length: bool,
    asks_indexes: bool,
    with_lengths: bool,
    length_min: i64,
}

impl Options {
    fn parse(args: Args<'_>) -> Result<Options, CommandError> {
        let mut options = Options::default();
        let mut index = 3;
        while index < args.len() {
            if args.is(index, "IDX") {
                options.asks_indexes = true;
            } else if args.is(index, "LEN") {
                options.asks_length = true;
            } else if args.is(index, "WITHMATCHLEN") {
                options.with_lengths = true;
            } else if args.is(index, "MINMATCHLEN") && index + 1 < args.len() {
                options.length_min = args.integer(index + 1)?;
                index += 1;
            } else {
                return Err(CommandError::Syntax);
            }
            index += 1;
        }
        if options.asks_indexes && options.asks_length {
            return Err(AMBIGUOUS);
        }
        Ok(options)
    }
}

/// The lengths of the longest common subsequences of all pairs of beginnings, row by row.
struct Table<'s> {
    a: &'s [u8],
    b: &'s [u8],
    lengths: Vec<u32>,
}

/// Common bytes that are neighbours in both strings: where they begin, and how many they are.
#[derive(Clone, Copy)]
struct Match {
    in_a: usize,
    in_b: usize,
    length: usize,
}

impl<'s> Table<'s> {
    /// # Errors
    /// When the table takes more than `bytes_max`, or memory is short.
    fn build(a: &'s [u8], b: &'s [u8], bytes_max: u64) -> Result<Table<'s>, CommandError> {
        if a.len().max(b.len()) >= u32::MAX as usize - 1 {
            return Err(STRING_TOO_LONG);
        }
        let width = b.len() + 1;
        let bytes = (a.len() as u64 + 1).checked_mul(4 * width as u64);
        let bytes = bytes.filter(|&bytes| bytes <= bytes_max).ok_or(TABLE_TOO_LARGE)?;
        let mut lengths = Vec::new();
        lengths.try_reserve_exact(bytes as usize / 4).map_err(|_| NO_MEMORY)?;
        lengths.resize(bytes as usize / 4, 0);
        for (row, byte) in a.iter().enumerate() {
            let (above, below) = lengths[row * width..][..2 * width].split_at_mut(width);
            for (column, other) in b.iter().enumerate() {
                below[column + 1] = match byte == other {
                    true => above[column] + 1,
                    false => above[column + 1].max(below[column]),
                };
            }
        }
        Ok(Table { a, b, lengths })
    }

    fn length(&self) -> i64 {
        i64::from(self.at(self.a.len(), self.b.len()))
    }

    /// Returns the length for the first `rows` bytes of one string and `columns` of the other.
    fn at(&self, rows: usize, columns: usize) -> u32 {
        self.lengths[rows * (self.b.len() + 1) + columns]
    }

    /// Returns the subsequence.
    fn common(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.pairs().map(|(in_a, _)| self.a[in_a]).collect();
        bytes.reverse();
        bytes
    }

    /// Returns the matches from the last to the first.
    fn matches(&self) -> Vec<Match> {
        let mut matches: Vec<Match> = Vec::new();
        for (in_a, in_b) in self.pairs() {
            match matches.last_mut() {
                Some(last) if last.in_a == in_a + 1 && last.in_b == in_b + 1 => {
                    *last = Match { in_a, in_b, length: last.length + 1 };
                }
                _ => matches.push(Match { in_a, in_b, length: 1 }),
            }
        }
        matches
    }

    /// Returns the positions of the common bytes in both strings, from the last to the first.
    fn pairs(&self) -> impl Iterator<Item = (usize, usize)> {
        let (mut rows, mut columns) = (self.a.len(), self.b.len());
        std::iter::from_fn(move || {
            while rows > 0 && columns > 0 {
                if self.a[rows - 1] == self.b[columns - 1] {
                    (rows, columns) = (rows - 1, columns - 1);
                    return Some((rows, columns));
                }
                // Where both ways are as good, Redis goes back in the second string.
                match self.at(rows - 1, columns) > self.at(rows, columns - 1) {
                    true => rows -= 1,
                    false => columns -= 1,
                }
            }
            None
        })
    }
}

fn reply_matches(table: &Table<'_>, options: &Options, reply: &mut Reply<'_>) {
    let mut matches = table.matches();
    matches.retain(|found| found.length as i64 >= options.length_min);
    reply.map(2);
    reply.bulk("matches");
    reply.array(matches.len());
    for found in matches {
        reply.array(2 + usize::from(options.with_lengths));
        for first in [found.in_a, found.in_b] {
            reply.array(2);
            reply.integer(first as i64);
            reply.integer((first + found.length - 1) as i64);
        }
        if options.with_lengths {
            reply.integer(found.length as i64);
        }
    }
    reply.bulk("len");
    reply.integer(table.length());
}
