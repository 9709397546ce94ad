//! ZRANDMEMBER: random members.

use collections::SortedSet;

use crate::handler::chance::{BELOW_LENGTH, PickCount, by_chance};
use crate::handler::element::{PairForm, reply_element};
use crate::prelude::*;

pub(super) static ZRANDMEMBER: Command = Command {
    name: "zrandmember",
    summary: "Returns a random member of a sorted set, or several of them, with their scores.",
    since: "6.2.0",
    complexity: "O(N), N being the members that are returned",
    group: Group::SortedSet,
    arity: Arity::at_least(2),
    keys: &[KeySpec::at(1, KeyFlags::RO.with(KeyFlags::ACCESS))],
    args: &[
        Arg::key("key"),
        Arg::block(
            "options",
            &[
                Arg::integer("count").only_within(-10, 10),
                Arg::word("withscores", "WITHSCORES").optional(),
            ],
        )
        .optional(),
    ],
    tips: &["nondeterministic_output"],
    example: "> ZADD depths 5 reef\n(integer) 1\n\
        > ZRANDMEMBER depths\n\"reef\"\n\
        > ZRANDMEMBER depths -2 WITHSCORES\n1) \"reef\"\n2) \"5\"\n3) \"reef\"\n4) \"5\"",
    handler: Handler::Read(run),
    ..Command::DEFAULT
};

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    if args.len() == 2 {
        match cx.view.collection::<SortedSet>(args.key(0))? {
            None => reply.null(),
            Some(set) => {
                let index = by_chance(cx.random, |random| random.below(set.len() as u64));
                reply_element(set.at(index as usize).expect(BELOW_LENGTH).0, reply);
            }
        }
        return Ok(());
    }
    let (count, with_scores) = PickCount::parse_with(args, "WITHSCORES")?;
    let key = args.key(0);
    let Some(set) = cx.view.collection::<SortedSet>(key)? else {
        reply.array(0);
        return Ok(());
    };
    let wanted = count.of(set.len());
    let listed_bytes = count.listed_bytes(set.len(), set.is_small());
    let _scratch = cx.scratch(key, listed_bytes)?;
    let listed = if listed_bytes > 0 { set.listpack_members() } else { Vec::new() };
    let form = PairForm::new(with_scores, reply);
    form.begin(wanted, reply);
    let scratch = |bytes| cx.scratch(key, bytes);
    count.for_each(set.len(), cx.random, reply, scratch, |index, reply| {
        let scored = listed.get(index).copied().or_else(|| set.at(index));
        let (member, score) = scored.expect(BELOW_LENGTH);
        form.write_scored(member, score, reply);
    })
}
