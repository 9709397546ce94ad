//! DEBUG: for tests and for people who look closely.
//!
//! Redis knows no subcommands here: one row of COMMAND INFO, one text for what it does not know.
//! The rows of this folder are in no other table.

mod digest;
mod digest_value;
mod help;
mod populate;
mod sleep;

use crate::prelude::*;

/// The row.
pub static DEBUG: Command = Command {
    name: "debug",
    summary: "Helps to test the server; option enable-debug-command allows it.",
    since: "1.0.0",
    complexity: "Depends on the subcommand",
    group: Group::Server,
    arity: Arity::at_least(2),
    flags: Flags::ADMIN
        .with(Flags::NOSCRIPT)
        .with(Flags::LOADING)
        .with(Flags::STALE)
        .with(Flags::PROTECTED),
    args: &[Arg::one_of(
        "subcommand",
        &[
            Arg::word("digest", "DIGEST"),
            Arg::string("key").token("DIGEST-VALUE").multiple(),
            Arg::word("help", "HELP"),
            Arg::block("populate", populate::POPULATE.args).token("POPULATE"),
            Arg::double("seconds").token("SLEEP").among(&["0", "0.001"]),
        ],
    )],
    example: "> DEBUG DIGEST\n0000000000000000000000000000000000000000",
    handler: Handler::Control(run),
    ..Command::DEFAULT
};

/// The rows that DEBUG chooses from. Their arity is theirs alone: Redis has one refusal for both.
static SUBCOMMANDS: &[&Command] = &[
    &digest::DIGEST,
    &digest_value::DIGEST_VALUE,
    &help::HELP,
    &populate::POPULATE,
    &sleep::SLEEP,
];

fn run(
    cx: &mut ControlContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    let name = args.at(1);
    let chosen = SUBCOMMANDS.iter().find(|row| {
        row.own_name().as_bytes().eq_ignore_ascii_case(name) && row.arity.accepts(args.len())
    });
    match chosen.map(|row| row.handler) {
        Some(Handler::Control(run)) => run(cx, args, reply),
        _ => Err(CommandError::subcommand_syntax("DEBUG", name)),
    }
}
