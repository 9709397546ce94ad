//! PFSELFTEST: whether this machine counts as it should.

use collections::hyperloglog::self_test;

use crate::prelude::*;

pub(super) static PFSELFTEST: Command = Command {
    name: "pfselftest",
    summary: "Counts 100,000 elements, and tells whether the result is as it should be.",
    since: "2.8.9",
    complexity: "O(1), a few milliseconds",
    group: Group::HyperLogLog,
    arity: Arity::exactly(1),
    flags: Flags::ADMIN,
    example: "> PFSELFTEST\nOK",
    handler: Handler::Session(|_, _, reply| {
        let tested = self_test();
        tested.map_err(|found| CommandError::text_of(&[b"TESTFAILED ", found.as_bytes()]))?;
        reply.ok();
        Ok(Next::Done)
    }),
    ..Command::DEFAULT
};
