//! COMMAND LIST: the names.

use base::glob::matches;

use crate::prelude::*;
use crate::table::rows;

pub(super) static LIST: Command = Command {
    name: "command|list",
    summary: "Returns the names of all commands, or of those that a filter chooses.",
    since: "7.0.0",
    complexity: "O(N), N being the number of commands",
    group: Group::Server,
    arity: Arity::at_least(2),
    flags: Flags::LOADING.with(Flags::STALE),
    categories: Categories::CONNECTION,
    args: &[Arg::one_of(
        "filterby",
        &[
            Arg::string("module-name").token("MODULE").among(&["none"]),
            Arg::string("category").token("ACLCAT").among(&["string", "read"]),
            Arg::pattern("pattern").token("PATTERN"),
        ],
    )
    .token("FILTERBY")
    .optional()],
    tips: &["nondeterministic_output_order"],
    example: "> COMMAND LIST FILTERBY PATTERN get\n1) \"get\"",
    handler: Handler::Session(run),
    ..Command::DEFAULT
};

fn run(
    _: &mut SessionContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Unfinished> {
    let filter = Filter::parse(args)?;
    let names = reply.deferred();
    let mut count = 0;
    for command in rows().filter(|command| filter.admits(command)) {
        reply.bulk(command.name);
        count += 1;
    }
    reply.finish(names, |reply| reply.array(count));
    Ok(Next::Done)
}

/// Which commands are listed.
enum Filter<'a> {
    All,
    /// Those of a module: there are none.
    Nothing,
    Category(Categories),
    Pattern(&'a [u8]),
}

impl<'a> Filter<'a> {
    fn parse(args: Args<'a>) -> Result<Filter<'a>, CommandError> {
        match args.len() {
            2 => Ok(Filter::All),
            5 if args.is(2, "FILTERBY") => match args.at(3).to_ascii_lowercase().as_slice() {
                b"module" => Ok(Filter::Nothing),
                b"aclcat" => {
                    Ok(Categories::named(args.at(4)).map_or(Filter::Nothing, Filter::Category))
                }
                b"pattern" => Ok(Filter::Pattern(args.at(4))),
                _ => Err(CommandError::Syntax),
            },
            _ => Err(CommandError::Syntax),
        }
    }

    fn admits(&self, command: &Command) -> bool {
        match self {
            Filter::All => true,
            Filter::Nothing => false,
            Filter::Category(category) => command.acl_categories().contains(*category),
            Filter::Pattern(pattern) => matches(pattern, command.name.as_bytes(), true),
        }
    }
}
