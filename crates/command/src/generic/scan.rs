//! SCAN: the keys of a database, some at a time.

use base::glob::matches;
use base::number::parse_cursor;
use keyspace::ScanQuery;

use super::r#type::type_name;
use crate::prelude::*;

const INVALID_CURSOR: CommandError = CommandError::Fixed("ERR invalid cursor");
/// About how many keys a call visits unless COUNT says otherwise.
const COUNT_DEFAULT: u64 = 10;

pub(super) static SCAN: Command = Command {
    name: "scan",
    summary: "Returns some keys and the cursor to go on with.",
    since: "2.8.0",
    complexity: "O(1) a call, O(N) for all N keys of the database",
    arity: Arity::at_least(2),
    flags: Flags::READONLY,
    args: &[
        Arg::integer("cursor").within(0, 1 << 20),
        Arg::pattern("pattern").token("MATCH").optional(),
        Arg::integer("count").token("COUNT").within(1, 1000).optional(),
        Arg::string("type")
            .token("TYPE")
            .among(&["string", "list", "hash"])
            .optional()
            .since("6.0.0"),
    ],
    history: &[("6.0.0", "Added the `TYPE` subcommand.")],
    tips: &["nondeterministic_output", "request_policy:special"],
    example: "> SET lake deep\nOK\n> SCAN 0 MATCH l* COUNT 1000\n1) \"0\"\n2) 1) \"lake\"",
    handler: Handler::Control(run),
    ..Command::DEFAULT
};

fn run(
    cx: &mut ControlContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Unfinished> {
    let cursor = parse_cursor(args.at(1)).ok_or(INVALID_CURSOR)?;
    let options = Options::parse(args)?;
    let mut count = 0;
    let whole = reply.deferred();
    let keys = reply.deferred();
    let database = cx.session.database;
    let query = ScanQuery {
        count: options.count,
        wants: &|key| options.pattern.is_none_or(|pattern| matches(pattern, key, false)),
        counts_lookups: options.type_name.is_some(),
    };
    let next = cx.access.scan(database, cursor, &query, cx.now, &mut |entry| {
        let type_name = type_name(entry.value_type()).as_bytes();
        if options.type_name.is_none_or(|wanted| wanted.eq_ignore_ascii_case(type_name)) {
            reply.bulk(entry.key());
            count += 1;
        }
    });
    reply.finish(keys, |reply| reply.array(count));
    reply.finish(whole, |reply| {
        reply.array(2);
        reply.bulk(next.to_string());
    });
    Ok(())
}

/// What is wanted of the keys.
struct Options<'a> {
    pattern: Option<&'a [u8]>,
    type_name: Option<&'a [u8]>,
    count: u64,
}

impl<'a> Options<'a> {
    fn parse(args: Args<'a>) -> Result<Options<'a>, CommandError> {
        let mut options = Options { pattern: None, type_name: None, count: COUNT_DEFAULT };
        let mut index = 2;
        while index < args.len() {
            if index + 1 == args.len() {
                return Err(CommandError::Syntax);
            }
            let value = args.at(index + 1);
            if args.is(index, "COUNT") {
                let count = args.integer(index + 1)?;
                let count = u64::try_from(count).ok().filter(|&count| count > 0);
                options.count = count.ok_or(CommandError::Syntax)?;
            } else if args.is(index, "MATCH") {
                options.pattern = (value != b"*").then_some(value);
            } else if args.is(index, "TYPE") {
                options.type_name = Some(value);
            } else {
                return Err(CommandError::Syntax);
            }
            index += 2;
        }
        Ok(options)
    }
}
