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

pub(super) static LCS: Command = Command {
    name: "lcs",
    summary: "Returns the longest common subsequence of two strings.",
    since: "7.0.0",
    complexity: "O(N*M/64), N and M being the lengths of the strings; a bit for each pair",
    group: Group::String,
    arity: Arity::at_least(3),
    keys: &[KeySpec::at(1, KeyFlags::RO.with(KeyFlags::ACCESS)).followed_by(1)],
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

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let string = |index: usize| {
        let found = cx.string(args.key(index)).map_err(|_| NOT_STRINGS)?;
        Ok::<&[u8], CommandError>(found.unwrap_or_default())
    };
    let (a, b) = (string(0)?, string(1)?);
    let options = Options::parse(args)?;
    check_table(a, b, cx.value_bytes_max)?;
    let _scratch = cx.scratch(args.key(0), scratch_bytes(a, b, &options))?;
    if options.asks_indexes {
        reply_matches(&Walk::new(a, b)?, &options, reply);
    } else if options.asks_length {
        reply.integer(length(a, b)?);
    } else {
        reply.bulk(Walk::new(a, b)?.common());
    }
    Ok(())
}

/// Refuses what Redis refuses: it makes a table of all lengths, four bytes each.
fn check_table(a: &[u8], b: &[u8], bytes_max: u64) -> Result<(), CommandError> {
    if a.len().max(b.len()) >= u32::MAX as usize - 1 {
        return Err(STRING_TOO_LONG);
    }
    let bytes = (a.len() as u64 + 1).checked_mul(4 * (b.len() as u64 + 1));
    bytes.filter(|&bytes| bytes <= bytes_max).map(drop).ok_or(TABLE_TOO_LARGE)
}

/// Returns what the answer takes while it is computed: a carry for each row, and where the walk
/// back is asked for the bits of all rows and the bytes or pairs that are met.
fn scratch_bytes(a: &[u8], b: &[u8], options: &Options) -> u64 {
    let shorter = a.len().min(b.len());
    if options.asks_length {
        return shorter as u64;
    }
    let per_byte = if options.asks_indexes { 2 * size_of::<Match>() } else { 2 };
    (a.len() * (1 + size_of::<u64>() * b.len().div_ceil(BLOCK_COLUMNS)) + shorter * per_byte) as u64
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

/// Common bytes that are neighbours in both strings: where they begin, and how many they are.
#[derive(Clone, Copy)]
struct Match {
    in_a: usize,
    in_b: usize,
    length: usize,
}

/// Columns that one word has the bits of.
const BLOCK_COLUMNS: usize = u64::BITS as usize;

/// Computes where the length rises, for all pairs of beginnings of `rows` and `columns`, and hands
/// each word of bits to `store`: those of all rows for one block of 64 columns after the other.
/// A bit is set where one column more makes the longest common subsequence one byte longer. Returns
/// the length for the whole strings.
///
/// With what is below the whole row at once, V' = (V + (V & M)) | (V & !M), V having the bits of
/// the row before inverted and M those of the columns that hold the row's byte. The carries of the
/// addition go from block to block.
///
/// Source: Hyyro 2004, "Bit-parallel LCS-length computation revisited".
fn rises(rows: &[u8], columns: &[u8], mut store: impl FnMut(u64)) -> Result<i64, CommandError> {
    let mut carries = Vec::new();
    carries.try_reserve_exact(rows.len()).map_err(|_| NO_MEMORY)?;
    carries.resize(rows.len(), false);
    let mut matching = [0u64; 256];
    let mut length = 0;
    for block in columns.chunks(BLOCK_COLUMNS) {
        for (column, &byte) in block.iter().enumerate() {
            matching[usize::from(byte)] |= 1 << column;
        }
        let mut flat = u64::MAX;
        for (&byte, carry) in rows.iter().zip(&mut carries) {
            let matched = flat & matching[usize::from(byte)];
            let (sum, first) = flat.overflowing_add(matched);
            let (sum, second) = sum.overflowing_add(u64::from(*carry));
            *carry = first | second;
            flat = sum | (flat & !matching[usize::from(byte)]);
            store(!flat);
        }
        length += i64::from((!flat & (u64::MAX >> (BLOCK_COLUMNS - block.len()))).count_ones());
        block.iter().for_each(|&byte| matching[usize::from(byte)] = 0);
    }
    Ok(length)
}

/// Returns the length of the longest common subsequence.
fn length(a: &[u8], b: &[u8]) -> Result<i64, CommandError> {
    // It is the same both ways; many columns share a word, rows do not.
    let (rows, columns) = if a.len() < b.len() { (a, b) } else { (b, a) };
    rises(rows, columns, |_| {})
}

/// All that is needed to walk back from the ends of two strings along their common bytes.
struct Walk<'s> {
    a: &'s [u8],
    b: &'s [u8],
    /// As [`rises`] gives them: those of all rows for the first block of columns, and so on.
    rises: Vec<u64>,
    length: i64,
}

impl<'s> Walk<'s> {
    /// # Errors
    /// When memory is short.
    fn new(a: &'s [u8], b: &'s [u8]) -> Result<Walk<'s>, CommandError> {
        let mut bits = Vec::new();
        let words = a.len() * b.len().div_ceil(BLOCK_COLUMNS);
        bits.try_reserve_exact(words).map_err(|_| NO_MEMORY)?;
        let length = rises(a, b, |word| bits.push(word))?;
        Ok(Walk { a, b, rises: bits, length })
    }

    /// Returns whether the last of `columns` makes the length rise in the last of `rows`.
    fn rises(&self, rows: usize, columns: usize) -> bool {
        let (block, bit) = ((columns - 1) / BLOCK_COLUMNS, (columns - 1) % BLOCK_COLUMNS);
        self.rises[block * self.a.len() + rows - 1] >> bit & 1 == 1
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
                // Redis goes back in the first string only where that keeps more: where the last
                // column has made the length rise. Its byte is not the row's, so that the length
                // was the same one row above.
                match self.rises(rows, columns) {
                    true => rows -= 1,
                    false => columns -= 1,
                }
            }
            None
        })
    }
}

fn reply_matches(walk: &Walk<'_>, options: &Options, reply: &mut Reply<'_>) {
    let mut matches = walk.matches();
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
    reply.integer(walk.length);
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::prng::Prng;

    /// The positions that the table of all lengths gives, walked back as Redis does.
    fn naive(a: &[u8], b: &[u8]) -> Vec<(usize, usize)> {
        let mut lengths = vec![vec![0u32; b.len() + 1]; a.len() + 1];
        for (row, column) in (0..a.len()).flat_map(|row| (0..b.len()).map(move |c| (row, c))) {
            lengths[row + 1][column + 1] = match a[row] == b[column] {
                true => lengths[row][column] + 1,
                false => lengths[row][column + 1].max(lengths[row + 1][column]),
            };
        }
        let (mut row, mut column, mut pairs) = (a.len(), b.len(), Vec::new());
        while row > 0 && column > 0 {
            if a[row - 1] == b[column - 1] {
                (row, column) = (row - 1, column - 1);
                pairs.push((row, column));
            } else if lengths[row - 1][column] > lengths[row][column - 1] {
                row -= 1;
            } else {
                column -= 1;
            }
        }
        pairs
    }

    #[test]
    fn walk_is_that_of_the_table_of_all_lengths() {
        let mut prng = Prng::new(3);
        for round in 0..400 {
            let letters = 1 + prng.below(if round % 2 == 0 { 3 } else { 30 });
            let mut string = || -> Vec<u8> {
                (0..prng.below(200)).map(|_| b'a' + prng.below(letters) as u8).collect()
            };
            let (a, b) = (string(), string());
            let expected = naive(&a, &b);
            let walk = Walk::new(&a, &b).unwrap();
            assert_eq!(walk.pairs().collect::<Vec<_>>(), expected, "round {round}");
            assert_eq!(walk.length, expected.len() as i64, "round {round}");
            assert_eq!(length(&a, &b).unwrap(), walk.length, "round {round}");
        }
    }
}
