//! ZSCAN: the members of a sorted set, some at a time.

use base::number_text::{DoubleText, double_in_17_digits};
use collections::{Element, SortedSet};

use crate::handler::scan::{reply_scan, reply_scan_of_nothing};
use crate::parse::scan_options::{COUNT, CURSOR, MATCH, ScanOptions, Scanned, cursor};
use crate::prelude::*;

pub(super) static ZSCAN: Command = Command {
    name: "zscan",
    summary: "Returns some members of a sorted set, with scores, and the cursor to go on with.",
    since: "2.8.0",
    complexity: "O(1) a call, O(N) for all N members",
    group: Group::SortedSet,
    arity: Arity::at_least(3),
    keys: &[KeySpec::at(1, KeyFlags::RO.with(KeyFlags::ACCESS))],
    args: &[Arg::key("key"), CURSOR, MATCH, COUNT],
    tips: &["nondeterministic_output"],
    example: "> ZADD depths 1 shore 5 reef\n(integer) 2\n\
        > ZSCAN depths 0 MATCH r*\n1) \"0\"\n2) 1) \"reef\"\n   2) \"5\"",
    handler: Handler::Read(run),
    ..Command::DEFAULT
};

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let cursor = cursor(args, 2)?;
    // What is not there has no options.
    let Some(set) = cx.view.collection::<SortedSet>(args.key(0))? else {
        reply_scan_of_nothing(reply);
        return Ok(());
    };
    let options = ScanOptions::parse(args, 3, Scanned::Members)?;
    // Redis has the text of a score in a listpack, and makes one with 17 digits of any other.
    let is_small = set.is_small();
    reply_scan(cursor, &options, reply, |cursor, page| {
        set.scan(cursor, |member, score| {
            if page.wants(member) {
                page.push(member);
                match is_small {
                    true => page.push(Element::Bytes(DoubleText::new(score).as_bytes())),
                    false => page.push(Element::Bytes(double_in_17_digits(score).as_bytes())),
                }
            }
        })
    });
    Ok(())
}
