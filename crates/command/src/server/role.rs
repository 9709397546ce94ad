//! ROLE: what the server is in replication.

use crate::prelude::*;

pub(super) static ROLE: Command = Command {
    name: "role",
    summary: "Returns the role of the server in replication.",
    since: "2.8.12",
    group: Group::Server,
    arity: Arity::exactly(1),
    flags: Flags::NOSCRIPT.with(Flags::LOADING).with(Flags::STALE).with(Flags::FAST),
    note: "Always a master without replicas.",
    categories: Categories::ADMIN.with(Categories::DANGEROUS),
    example: "> ROLE\n1) \"master\"\n2) (integer) 0\n3) (empty array)",
    handler: Handler::Session(run),
    ..Command::DEFAULT
};

fn run(_: &mut SessionContext<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> Result<Next, Unfinished> {
    reply.array(3);
    reply.bulk("master");
    reply.integer(0);
    reply.array(0);
    Ok(Next::Done)
}
