//! HRANDFIELD: random fields.

use base::Key;
use collections::{Element, Hash, HashView, LiveIndexes};
use keyspace::Scratch;

use crate::handler::chance::{BELOW_LENGTH, PICK_BYTES, PickCount, Shuffle, by_chance};
use crate::handler::element::{PairForm, reply_element};
use crate::prelude::*;

pub(super) static HRANDFIELD: Command = Command {
    name: "hrandfield",
    summary: "Returns a random field of a hash, or several of them, with their values.",
    since: "6.2.0",
    complexity: "O(N), N being the fields that are returned, and those that have expired and are \
                 still there where they are far more than the others",
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
            // Most hashes: nothing has to be known of fields that have expired.
            Some(hash) if hash.expired_count() == 0 => {
                let index = by_chance(cx.random, |random| random.below(hash.len() as u64));
                reply_element(hash.at(index as usize).expect(BELOW_LENGTH).0, reply);
            }
            Some(hash) => {
                let (drawn, _scratch) = draw_live(cx, args.key(0), hash, 1, true)?;
                if let Some(&[index]) = drawn.as_deref() {
                    reply_element(hash.at(index).expect(BELOW_LENGTH).0, reply);
                    return Ok(());
                }
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
    let length = hash.live_len();
    let wanted = count.of(length);
    let form = PairForm::new(with_values, reply);
    let (drawn, _drawn_scratch) = draw_live(cx, key, hash, wanted, count.is_of_different())?;
    if let Some(drawn) = drawn {
        form.begin(wanted, reply);
        for (field, value) in drawn.into_iter().map(|index| hash.at(index).expect(BELOW_LENGTH)) {
            if reply.is_cut() {
                break;
            }
            write_pair(&form, field, value, reply);
        }
        return Ok(());
    }
    let (live, _live_scratch) = live_indexes(cx, key, hash)?;
    let listed_bytes = match count.listed_bytes(length, hash.is_small()) {
        0 => 0,
        // Those that have expired are listed too.
        _ => count.listed_bytes(hash.len(), true),
    };
    let _scratch = cx.scratch(key, listed_bytes)?;
    let listed = if listed_bytes > 0 { hash.listpack_fields() } else { Vec::new() };
    form.begin(wanted, reply);
    let scratch = |bytes| cx.scratch(key, bytes);
    count.for_each(length, cx.random, reply, scratch, |number, reply| {
        let index = live.index(number);
        let pair = listed.get(index).copied().or_else(|| hash.at(index));
        let (field, value) = pair.expect(BELOW_LENGTH);
        write_pair(&form, field, value, reply);
    })
}

fn write_pair(form: &PairForm, field: Element<'_>, value: Element<'_>, reply: &mut Reply<'_>) {
    form.write(reply, |reply| reply_element(field, reply), |reply| reply_element(value, reply));
}

/// Returns the indexes of `wanted` fields of a table, drawn among all until enough have not
/// expired, and the right to their memory: where so many fields have expired that it would cost
/// more to look for all of these. None where it would not, or chance is against it.
fn draw_live(
    cx: &ReadContext<'_>,
    key: &Key<'_>,
    hash: HashView<'_>,
    wanted: usize,
    is_of_different: bool,
) -> Result<(Option<Vec<usize>>, Scratch), Unfinished> {
    let (length, live) = (hash.len(), hash.live_len());
    // Twice what is expected and more: that they are not enough has a chance of 1 in 10^6 at most.
    let draws_max = (wanted as u128 + 16) * (length / live + 1) as u128 * 2;
    let pays = !hash.is_small() && draws_max < hash.expired_count() as u128;
    if !pays {
        return Ok((None, cx.scratch(key, 0)?));
    }
    let draws_max = draws_max as usize;
    let scratch = cx.scratch(key, draws_max as u64 * PICK_BYTES)?;
    let mut indexes = Vec::with_capacity(wanted);
    let mut shuffle = Shuffle::new(length);
    by_chance(cx.random, |random| {
        for _ in 0..draws_max {
            let index = match is_of_different {
                true => shuffle.next(random),
                false => Some(random.below(length as u64) as usize),
            };
            let Some(index) = index else { break };
            if hash.live_at(index).is_some() {
                indexes.push(index);
            }
            if indexes.len() == wanted {
                break;
            }
        }
    });
    Ok(((indexes.len() == wanted).then_some(indexes), scratch))
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
