//! LOLWUT: a river over a dam, another one each time.

use std::cmp::Ordering;

use base::number::parse_i64;
use base::prng::Prng;

use crate::prelude::*;

/// Columns and lines of the picture: where nobody says, and at most.
const COLUMNS_DEFAULT: i64 = 64;
const COLUMNS_MAX: i64 = 160;
const LINES_DEFAULT: i64 = 12;
const LINES_MAX: i64 = 64;

pub(super) static LOLWUT: Command = Command {
    name: "lolwut",
    summary: "Draws a picture, another one each time.",
    since: "5.0.0",
    complexity: "O(N), N being the characters of the picture",
    group: Group::Server,
    arity: Arity::at_least(1),
    flags: Flags::READONLY.with(Flags::FAST),
    args: &[Arg::integer("version").within(1, 7).token("VERSION").optional()],
    note: "The picture is Forebay's own, whatever the version. Numbers after `VERSION n` are its \
           columns and lines.",
    example: "> LOLWUT\n...",
    handler: Handler::Control(run),
    ..Command::DEFAULT
};

fn run(
    cx: &mut ControlContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Unfinished> {
    let has_version = args.len() >= 3 && args.is(1, "VERSION");
    let number = |index: usize, default: i64, max: i64| match has_version && index < args.len() {
        true => parse_i64(args.at(index)).ok_or(CommandError::NotInteger).map(|n| n.clamp(1, max)),
        false => Ok(default),
    };
    number(2, 1, i64::MAX)?;
    let columns = number(3, COLUMNS_DEFAULT, COLUMNS_MAX)?;
    let lines = number(4, LINES_DEFAULT, LINES_MAX)?;
    let mut text = picture(columns as usize, lines as usize, cx.random);
    text.push_str("\nWater before the dam, and what comes over it. Redis ver. ");
    text.push_str(&cx.host.redis_version());
    text.push('\n');
    reply.verbatim(*b"txt", text);
    Ok(())
}

/// Draws still water, a dam, and water that finds its way down: each cell follows from its
/// neighbours in the line above by a rule, and the dam lets some of the water through by chance.
fn picture(columns: usize, lines: usize, random: &mut Prng) -> String {
    const RULES: [u8; 6] = [30, 45, 90, 110, 150, 184];
    let rule = RULES[random.below(RULES.len() as u64) as usize];
    let dam = random.below(lines as u64) as usize;
    let mut cells: Vec<bool> = (0..columns).map(|_| random.one_in(3)).collect();
    let mut text = String::new();
    for line in 0..lines {
        let letters: [char; 2] = match line.cmp(&dam) {
            Ordering::Less => ['-', '~'],
            Ordering::Equal => ['#', '|'],
            Ordering::Greater => [' ', ':'],
        };
        text.extend(cells.iter().map(|&is_wet| letters[usize::from(is_wet)]));
        text.push('\n');
        cells = next_line(&cells, rule);
    }
    text
}

/// Returns the line below `cells` by one of the 256 rules of Wolfram's numbering.
fn next_line(cells: &[bool], rule: u8) -> Vec<bool> {
    let count = cells.len();
    let next = |column: usize| {
        let [left, own, right] =
            [column + count - 1, column, column + 1].map(|at| u8::from(cells[at % count]));
        rule >> (left << 2 | own << 1 | right) & 1 == 1
    };
    (0..count).map(next).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_picture_has_its_size_and_follows_from_the_seed() {
        let draw = |seed| picture(20, 7, &mut Prng::new(seed));
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert_eq!(draw(1).lines().map(str::len).collect::<Vec<_>>(), [20; 7]);
    }

    #[test]
    fn lines_follow_the_rule() {
        let mut line = vec![false; 7];
        line[3] = true;
        let wet = |line: &[bool]| -> Vec<usize> {
            line.iter().enumerate().filter(|(_, is_wet)| **is_wet).map(|(at, _)| at).collect()
        };
        line = next_line(&line, 90);
        assert_eq!(wet(&line), [2, 4]);
        assert_eq!(wet(&next_line(&line, 90)), [1, 5]);
    }
}
