//! DEBUG DIGEST-VALUE: digests of single values.

use super::data_digest::Digest;
use crate::prelude::*;

pub(super) static DIGEST_VALUE: Command = Command {
    name: "debug|digest-value",
    summary: "Returns a digest of the value at each key, its time to live included.",
    since: "5.0.0",
    complexity: "O(N), N being the bytes of the values",
    group: Group::Server,
    arity: Arity::at_least(2),
    args: &[Arg::string("key").multiple()],
    example: "> DEBUG DIGEST-VALUE lake\n1) 0000000000000000000000000000000000000000",
    handler: Handler::Control(run),
    ..Command::DEFAULT
};

fn run(
    cx: &mut ControlContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Unfinished> {
    let (database, now) = (cx.session.database, cx.now);
    let hasher = *cx.access.keyspace().hasher();
    reply.array(args.len() - 2);
    for name in args.from(2) {
        let key = hasher.key(name);
        let digest = cx.access.write(&key, database, now, |view| {
            view.as_read().inspect(&key).map(|entry| Digest::of_value(&entry)).unwrap_or_default()
        });
        reply.simple(digest.to_string());
    }
    Ok(())
}
