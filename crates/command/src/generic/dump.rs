//! DUMP: a value as bytes.

use keyspace::Scratch;

use crate::string::reply::REFERENCED_BYTES_MIN;

use crate::prelude::*;

pub(super) static DUMP: Command = Command {
    name: "dump",
    summary: "Returns the value at a key as bytes that `RESTORE` takes.",
    since: "2.6.0",
    complexity: "O(N), N being the bytes of the value",
    arity: Arity::exactly(2),
    keys: &[KeySpec::at(1, KeyFlags::RO.with(KeyFlags::ACCESS))],
    args: &[Arg::key("key")],
    tips: &["nondeterministic_output"],
    note: "Room for a payload of 64 KiB and more is asked for first: at the memory limit keys are \
           evicted for it, or it is refused with the error of `maxmemory`. The option \
           `rdb-export-version` says which servers can read it.",
    example: "> SET lake deep\nOK\n> DUMP lake\n...\n> DUMP hill\n(nil)",
    handler: Handler::Read(run),
    ..Command::DEFAULT
};

/// What is sent from where it was made, and charged until then.
struct Payload {
    bytes: Vec<u8>,
    #[expect(dead_code, reason = "it is only dropped")]
    scratch: Scratch,
}

impl AsRef<[u8]> for Payload {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let key = args.key(0);
    let Some(content) = cx.view.content(key) else {
        reply.null();
        return Ok(());
    };
    let version = cx.view.export_version(key);
    let bytes_max = rdb::encoded_bytes_max_as(version, content.stored());
    let mut scratch = cx.scratch(key, bytes_max)?;
    let mut bytes = Vec::with_capacity(bytes_max as usize);
    rdb::encode_as(version, content.stored(), &mut bytes);
    if bytes.len() < REFERENCED_BYTES_MIN {
        reply.bulk(&bytes);
    } else {
        bytes.shrink_to_fit();
        scratch.shrink(bytes.len() as u64);
        reply.bulk_referenced(Box::new(Payload { bytes, scratch }));
    }
    Ok(())
}
