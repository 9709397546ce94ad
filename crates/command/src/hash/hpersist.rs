//! HPERSIST: fields that expire no more.

use collections::Hash;

use super::field_times::{ENDLESS, FIELDS, NO_FIELD, NOT_A_COUNT, first_field};
use crate::prelude::*;

pub(super) static HPERSIST: Command = Command {
    name: "hpersist",
    summary: "Takes the time to live from fields of a hash.",
    since: "7.4.0",
    complexity: "O(N), N being the fields that are named",
    group: Group::Hash,
    arity: Arity::at_least(5),
    flags: Flags::FAST.with(Flags::EFFECT),
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::UPDATE))],
    args: &[Arg::key("key"), FIELDS],
    note: "A command of Redis 7.4.",
    example: "> HSETEX lake EX 60 FIELDS 1 depth 12\n(integer) 1\n\
        > HPERSIST lake FIELDS 2 depth colour\n1) (integer) 1\n2) (integer) -2\n\
        > HTTL lake FIELDS 1 depth\n1) (integer) -1",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let key = args.key(0);
    cx.view.collection::<Hash>(key)?;
    let fields = args.from(first_field(args, 2, NOT_A_COUNT)?);
    reply.array(fields.len());
    let persisted = persist(cx, args, &fields, |outcome| reply.integer(outcome))?;
    if persisted.is_none() {
        fields.for_each(|_| reply.integer(NO_FIELD));
    }
    Ok(())
}

/// Takes the times of `fields`, with which the request ends, and tells `visit` for each what
/// HPERSIST replies. Returns none where there is no hash any more.
pub(super) fn persist<'e>(
    cx: &mut WriteContext<'_>,
    args: Args<'e>,
    fields: &(impl ExactSizeIterator<Item = &'e [u8]> + Clone),
    mut visit: impl FnMut(i64),
) -> Result<Option<()>, Unfinished> {
    // The word FIELDS and the number come before them.
    let effect = args.from(args.len() - fields.len() - 2);
    let key = args.key(0);
    let change = |hash: &mut Hash, rules: &_| {
        let mut has_changed = false;
        for field in fields.clone() {
            let is_there = hash.view().get(field, rules).is_some();
            let old = if is_there { hash.set_time(field, None, rules) } else { None };
            has_changed |= old.is_some();
            visit(match (is_there, old) {
                (false, _) => NO_FIELD,
                (true, None) => ENDLESS,
                (true, Some(_)) => 1,
            });
        }
        ((), has_changed)
    };
    Ok(cx.view.change_fields(key, "HPERSIST", effect, fields.clone(), change)?)
}
