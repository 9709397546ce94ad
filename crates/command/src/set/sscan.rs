//! SSCAN: the members of a set, some at a time.

use collections::Set;

use crate::handler::scan::{reply_scan, reply_scan_of_nothing};
use crate::parse::scan_options::{COUNT, CURSOR, MATCH, ScanOptions, Scanned, cursor};
use crate::prelude::*;

pub(super) static SSCAN: Command = Command {
    name: "sscan",
    summary: "Returns some members of a set and the cursor to go on with.",
    since: "2.8.0",
    complexity: "O(1) a call, O(N) for all N members",
    group: Group::Set,
    arity: Arity::at_least(3),
    keys: &[KeySpec::at(1, KeyFlags::RO.with(KeyFlags::ACCESS))],
    args: &[Arg::key("key"), CURSOR, MATCH, COUNT],
    tips: &["nondeterministic_output"],
    example: "> SADD fish pike perch\n(integer) 2\n\
        > SSCAN fish 0 MATCH pe*\n1) \"0\"\n2) 1) \"perch\"",
    handler: Handler::Read(run),
    ..Command::DEFAULT
};

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let cursor = cursor(args, 2)?;
    // What is not there has no options.
    let Some(set) = cx.view.collection::<Set>(args.key(0))? else {
        reply_scan_of_nothing(reply);
        return Ok(());
    };
    let options = ScanOptions::parse(args, 3, Scanned::Members)?;
    reply_scan(cursor, &options, reply, |cursor, page| {
        set.scan(cursor, |member| {
            if page.wants(member) {
                page.push(member);
            }
        })
    });
    Ok(())
}
