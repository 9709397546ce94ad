//! HRANDFIELD: random fields.

use base::Key;
use collections::{Hash, HashView, LiveIndexes};
use keyspace::Scratch;

use crate::handler::chance::{BELOW_LENGTH, PickCount, by_chance};
use crate::handler::element::{PairForm, reply_element};
use crate::prelude::*;

pub(super) static HRANDFIELD: Command = Command {
    name: "hrandfield",
    summary: "Returns a random field of a hash, or several of them, with their values.",
    since: "6.2.0",
    complexity: "O(N), N being the fields that are returned",
    group: Group::Hash,
    arity: Arity::at_least(2),
    keys: &[KeySpec::at(1, KeyFlags::RO.with(KeyFlags::ACCESS))],
    args: &[
        Arg::key("key"),
        Arg::block(
            "options",
            &[
                Arg::integer("count").only_within(-10, 10),
                Arg::word("withvalues", "WITHVALUES").optional(),
            ],
        )
        .optional(),
    ],
    tips: &["nondeterministic_output"],
    example: "> HSET lake depth 12\n(integer) 1\n\
        > HRANDFIELD lake\n\"depth\"\n\
        > HRANDFIELD lake -2 WITHVALUES\n1) \"depth\"\n2) \"12\"\n3) \"depth\"\n4) \"12\"",
    handler: Handler::Read(run),
    ..Command::DEFAULT
};

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    if args.len() == 2 {
        match cx.view.collection::<Hash>(args.key(0))? {
            None => reply.null(),
            Some(hash) if hash.live_len() == 0 => reply.null(),
            Some(hash) => {
                let (live, _scratch) = live_indexes(cx, args.key(0), hash)?;
                let number = by_chance(cx.random, |random| random.below(hash.live_len() as u64));
                let index = live.index(number as usize);
                reply_element(hash.at(index).expect(BELOW_LENGTH).0, reply);
            }
        }
        return Ok(());
    }
    let (count, with_values) = PickCount::parse_with(args, "WITHVALUES")?;
    let key = args.key(0);
    let hash = cx.view.collection::<Hash>(key)?.filter(|hash| hash.live_len() > 0);
    let Some(hash) = hash else {
        reply.array(0);
        return Ok(());
    };
    let (live, _live_scratch) = live_indexes(cx, key, hash)?;
    let length = hash.live_len();
    let wanted = count.of(length);
    let listed_bytes = match count.listed_bytes(length, hash.is_small()) {
        0 => 0,
        // Those that have expired are listed too.
        _ => count.listed_bytes(hash.len(), true),
    };
    let _scratch = cx.scratch(key, listed_bytes)?;
    let listed = if listed_bytes > 0 { hash.listpack_fields() } else { Vec::new() };
    let form = PairForm::new(with_values, reply);
    form.begin(wanted, reply);
    let scratch = |bytes| cx.scratch(key, bytes);
    count.for_each(length, cx.random, reply, scratch, |number, reply| {
        let index = live.index(number);
        let pair = listed.get(index).copied().or_else(|| hash.at(index));
        let (field, value) = pair.expect(BELOW_LENGTH);
        form.write(reply, |reply| reply_element(field, reply), |reply| reply_element(value, reply));
    })
}

/// Returns the indexes of the fields that have not expired, and the right to their memory.
fn live_indexes(
    cx: &ReadContext<'_>,
    key: &Key<'_>,
    hash: HashView<'_>,
) -> Result<(LiveIndexes, Scratch), Unfinished> {
    let scratch = cx.scratch(key, LiveIndexes::bytes(hash.expired_count()))?;
    Ok((hash.live_indexes(), scratch))
}
