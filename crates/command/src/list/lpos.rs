//! LPOS: where an element is in a list.

use std::ops::ControlFlow;

use collections::{Element, End, List};

use crate::prelude::*;

const ZERO_RANK: CommandError = CommandError::Fixed(
    "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... \
     or use negative to start from the end of the list",
);
const NEGATIVE_COUNT: CommandError = CommandError::Fixed("ERR COUNT can't be negative");
const NEGATIVE_LENGTH: CommandError = CommandError::Fixed("ERR MAXLEN can't be negative");

pub(super) static LPOS: Command = Command {
    name: "lpos",
    summary: "Returns the index of an element of a list, or the indexes of all that match.",
    since: "6.0.6",
    complexity: "O(N), N being the elements that are compared",
    group: Group::List,
    arity: Arity::at_least(3),
    keys: &[KeySpec::at(1, KeyFlags::RO.with(KeyFlags::ACCESS))],
    args: &[
        Arg::key("key"),
        Arg::part("element"),
        Arg::integer("rank").token("RANK").only_within(-3, 3).optional(),
        Arg::integer("num-matches").token("COUNT").within(0, 3).optional(),
        Arg::integer("len").token("MAXLEN").within(0, 10).optional(),
    ],
    example: "> RPUSH boats oar mast oar keel\n(integer) 4\n\
        > LPOS boats oar\n(integer) 0\n\
        > LPOS boats oar RANK -1 COUNT 0\n1) (integer) 2\n2) (integer) 0\n\
        > LPOS boats rope\n(nil)",
    handler: Handler::Read(run),
    ..Command::DEFAULT
};

/// What is looked for beside the element.
struct Options {
    /// Where the search begins.
    end: End,
    /// How many matches are passed over.
    skip: usize,
    /// How many indexes are wanted, 0 being all; without it the first one alone.
    count: Option<usize>,
    /// How many elements are compared.
    compared_max: usize,
}

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let Options { end, mut skip, count, compared_max } = Options::parse(args)?;
    let list = cx.view.collection::<List>(args.key(0))?;
    let indexes = reply.deferred();
    let wanted = match count {
        Some(0) => usize::MAX,
        Some(count) => count,
        None => 1,
    };
    let mut found = 0;
    if let Some(list) = list {
        let (count, wanted_element) = (list.len(), Element::of(args.at(2)));
        let mut compare = |(position, element): (usize, Element<'_>)| {
            if !is_same(element, wanted_element) {
                return ControlFlow::Continue(());
            }
            if skip > 0 {
                skip -= 1;
                return ControlFlow::Continue(());
            }
            let index = if end == End::Head { position } else { count - 1 - position };
            reply.integer(index as i64);
            found += 1;
            match found < wanted && reply.takes_more() {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        };
        let _ = match end {
            End::Head => list.iter().take(compared_max).enumerate().try_for_each(&mut compare),
            End::Tail => list.iter_back().take(compared_max).enumerate().try_for_each(&mut compare),
        };
    }
    match count {
        Some(_) => reply.finish(indexes, |reply| reply.array(found)),
        None if found == 0 => reply.null(),
        None => {}
    }
    Ok(())
}

/// Returns whether both are the same bytes. A list has an integer as one where it can be.
fn is_same(one: Element<'_>, other: Element<'_>) -> bool {
    match (one, other) {
        (Element::Integer(one), Element::Integer(other)) => one == other,
        (Element::Bytes(one), Element::Bytes(other)) => one == other,
        _ => false,
    }
}

impl Options {
    /// Reads the options, which begin at argument 3; of one that is there twice the later counts.
    fn parse(args: Args<'_>) -> Result<Options, CommandError> {
        let mut options =
            Options { end: End::Head, skip: 0, count: None, compared_max: usize::MAX };
        let mut index = 3;
        while index < args.len() {
            let value = index + 1;
            if value == args.len() {
                return Err(CommandError::Syntax);
            }
            if args.is(index, "RANK") {
                let rank = args.integer_in(value, -i64::MAX, i64::MAX)?;
                if rank == 0 {
                    return Err(ZERO_RANK);
                }
                options.end = if rank < 0 { End::Tail } else { End::Head };
                options.skip = rank.unsigned_abs() as usize - 1;
            } else if args.is(index, "COUNT") {
                options.count = Some(args.count(value).map_err(|_| NEGATIVE_COUNT)?);
            } else if args.is(index, "MAXLEN") {
                let most = args.count(value).map_err(|_| NEGATIVE_LENGTH)?;
                options.compared_max = if most == 0 { usize::MAX } else { most };
            } else {
                return Err(CommandError::Syntax);
            }
            index += 2;
        }
        Ok(options)
    }
}
