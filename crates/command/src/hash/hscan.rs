//! HSCAN: the fields of a hash, some at a time.

use collections::Hash;

use crate::handler::scan::{reply_scan, reply_scan_of_nothing};
use crate::parse::scan_options::{COUNT, CURSOR, MATCH, ScanOptions, Scanned, cursor};
use crate::prelude::*;

pub(super) static HSCAN: Command = Command {
    name: "hscan",
    summary: "Returns some fields of a hash, with values, and the cursor to go on with.",
    since: "2.8.0",
    complexity: "O(1) a call, O(N) for all N fields",
    group: Group::Hash,
    arity: Arity::at_least(3),
    keys: &[KeySpec::at(1, KeyFlags::RO.with(KeyFlags::ACCESS))],
    args: &[
        Arg::key("key"),
        CURSOR,
        MATCH,
        COUNT,
        Arg::word("novalues", "NOVALUES").optional().since("7.4.0"),
    ],
    tips: &["nondeterministic_output"],
    example: "> HSET lake depth 12 colour blue\n(integer) 2\n\
        > HSCAN lake 0 MATCH d*\n1) \"0\"\n2) 1) \"depth\"\n   2) \"12\"\n\
        > HSCAN lake 0 NOVALUES\n1) \"0\"\n2) 1) \"depth\"\n   2) \"colour\"",
    handler: Handler::Read(run),
    ..Command::DEFAULT
};

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let cursor = cursor(args, 2)?;
    // What is not there has no options.
    let Some(hash) = cx.view.collection::<Hash>(args.key(0))? else {
        reply_scan_of_nothing(reply);
        return Ok(());
    };
    let options = ScanOptions::parse(args, 3, Scanned::Fields)?;
    reply_scan(cursor, &options, reply, |cursor, page| {
        hash.scan(cursor, |field, value| {
            if page.wants(field) {
                page.push(field);
                if !options.no_values {
                    page.push(value);
                }
            }
        })
    });
    Ok(())
}
