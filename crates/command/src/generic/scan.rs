//! SCAN: the keys of a database, some at a time.

use keyspace::ScanQuery;

use super::r#type::type_name;
use crate::parse::scan_options::{COUNT, CURSOR, MATCH, ScanOptions, Scanned, cursor};
use crate::prelude::*;

pub(super) static SCAN: Command = Command {
    name: "scan",
    summary: "Returns some keys and the cursor to go on with.",
    since: "2.8.0",
    complexity: "O(1) a call, O(N) for all N keys of the database",
    arity: Arity::at_least(2),
    flags: Flags::READONLY,
    args: &[
        CURSOR,
        MATCH,
        COUNT,
        Arg::string("type")
            .token("TYPE")
            .among(&["string", "list", "set", "zset", "hash", "none"])
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
    let cursor = cursor(args, 1)?;
    let options = ScanOptions::parse(args, 2, Scanned::Keys)?;
    let mut count = 0;
    let whole = reply.deferred();
    let keys = reply.deferred();
    let database = cx.session.database;
    let query = ScanQuery {
        count: options.count,
        wants: &|key| options.wants(key),
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
