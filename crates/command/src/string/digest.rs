//! DIGEST: a short hash of the string at a key, to tell later whether it has changed.

use twox_hash::XxHash3_64;

use crate::prelude::*;

pub(super) static DIGEST: Command = Command {
    name: "digest",
    summary: "Returns the 64-bit XXH3 hash of the string at a key, as 16 hexadecimal digits.",
    since: "8.4.0",
    complexity: "O(N), N being the bytes of the string",
    group: Group::String,
    arity: Arity::exactly(2),
    flags: Flags::FAST,
    keys: &[KeySpec::at(1, KeyFlags::RO.with(KeyFlags::ACCESS))],
    args: &[Arg::key("key")],
    note: "A command of Redis 8.4, which Redis 7.2 does not have.",
    example: "> SET lake deep\nOK\n> DIGEST lake\n\"5cc19f5ab8b2e257\"\n> DIGEST river\n(nil)",
    is_timed_alone: true,
    handler: Handler::Read(|cx, args, reply| {
        match cx.string(args.key(0))? {
            Some(value) => reply.bulk(digest(value)),
            None => reply.null(),
        }
        Ok(())
    }),
    ..Command::DEFAULT
};

/// The length of a digest as text.
pub(super) const DIGEST_BYTES: usize = 16;

/// Returns the digest of `value` as text, in lower case.
pub(super) fn digest(value: &[u8]) -> [u8; DIGEST_BYTES] {
    let hash = XxHash3_64::oneshot(value);
    std::array::from_fn(|index| {
        let digit = hash >> (u64::BITS as usize - 4 * (index + 1)) & 0xf;
        b"0123456789abcdef"[digit as usize]
    })
}
