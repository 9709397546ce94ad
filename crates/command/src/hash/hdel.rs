//! HDEL: removes fields.

use collections::Hash;

use crate::prelude::*;

pub(super) static HDEL: Command = Command {
    name: "hdel",
    summary: "Removes fields of a hash, and returns how many were there.",
    since: "2.0.0",
    complexity: "O(N), N being the fields that are removed",
    group: Group::Hash,
    arity: Arity::at_least(3),
    flags: Flags::FAST.with(Flags::EFFECT),
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::DELETE))],
    args: &[Arg::key("key"), Arg::part("field").multiple()],
    history: &[("2.4.0", "Accepts multiple `field` arguments.")],
    note: "A field that has expired is absent also while it is not yet removed; Redis 8 removes \
        and counts it.",
    example: "> HSET lake depth 12\n(integer) 1\n> HDEL lake depth colour\n(integer) 1",
    handler: Handler::Write(|cx, args, reply| {
        let (key, fields) = (args.key(0), args.from(2));
        let change = |hash: &mut Hash, rules: &_| {
            let removed = fields.clone().filter(|field| hash.remove(field, rules)).count();
            (removed, removed > 0)
        };
        let removed = cx.view.change_fields(key, "HDEL", fields.clone(), fields.clone(), change)?;
        reply.integer(removed.unwrap_or(0) as i64);
        Ok(())
    }),
    ..Command::DEFAULT
};
