//! DEBUG STRINGMATCH-LEN: patterns of chance against texts of chance.

use base::glob;

use crate::prelude::*;

/// Patterns that are tried, and the longest of them.
const ROUNDS: u32 = 20_000;
const LENGTH_MAX: u64 = 32;

pub(super) static STRINGMATCH_LEN: Command = Command {
    name: "debug|stringmatch-len",
    summary: "Matches many texts of chance with patterns of chance, and survives it.",
    since: "1.0.0",
    group: Group::Server,
    arity: Arity::exactly(2),
    example: "> DEBUG STRINGMATCH-LEN\nApparently Redis did not crash: test passed",
    handler: Handler::Control(run),
    ..Command::DEFAULT
};

fn run(cx: &mut ControlContext<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    for _ in 0..ROUNDS {
        let pattern: Vec<u8> = word(cx).into_iter().map(byte_of_pattern).collect();
        let text: Vec<u8> = word(cx).into_iter().map(byte_of_text).collect();
        // What it says does not matter, that it comes back does.
        std::hint::black_box(glob::matches(&pattern, &text, false));
    }
    reply.simple("Apparently Redis did not crash: test passed");
    Ok(())
}

/// Returns a few random bytes.
fn word(cx: &mut ControlContext<'_>) -> Vec<u8> {
    let count = cx.random.below(LENGTH_MAX);
    (0..count).map(|_| cx.random.below(256) as u8).collect()
}

/// Returns a byte of a pattern, most times one that means something there.
fn byte_of_pattern(byte: u8) -> u8 {
    match byte {
        0..=191 => b"*?[]^-\\a"[usize::from(byte) % 8],
        _ => byte,
    }
}

/// Returns a byte of a text that patterns often name.
fn byte_of_text(byte: u8) -> u8 {
    match byte {
        0..=191 => b'a' + byte % 4,
        _ => byte,
    }
}
