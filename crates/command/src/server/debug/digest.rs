//! DEBUG DIGEST: a digest of all data.

use super::data_digest::Digest;
use crate::prelude::*;

pub(super) static DIGEST: Command = Command {
    name: "debug|digest",
    summary: "Returns a digest of all keys, values and times to live.",
    since: "1.0.0",
    complexity: "O(N), N being all keys and the bytes of their values",
    group: Group::Server,
    arity: Arity::exactly(2),
    example: "> SET lake deep\nOK\n> DEBUG DIGEST\nfe3f922150746f39264dcadbd43c272ee97768fd",
    handler: Handler::Control(run),
    ..Command::DEFAULT
};

fn run(cx: &mut ControlContext<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let mut digest = Digest::default();
    for database in cx.access.keyspace().databases() {
        if cx.access.key_count(database) > 0 {
            digest.mix(&[0, 0, 0, database.0]);
            cx.access.for_each_entry(database, &mut |entry| digest.add(&Digest::of_entry(&entry)));
        }
    }
    reply.simple(digest.to_string());
    Ok(())
}
