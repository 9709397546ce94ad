//! SHM COMMIT: makes a key hold what this process has written to upload memory.
//!
//! It is SET in all but where the value comes from. A reply that is no error ends the upload,
//! whether the value was stored or a condition kept it out; after an error it is as before.

use resp::RequestView;

use crate::prelude::*;
use crate::string::set::{CONDITION, EXPIRATION, GET, key_flags_from, run_upload};

/// Where the options begin.
const OPTIONS_AT: usize = 6;

const MODE: Arg = Arg::one_of(
    "mode",
    &[Arg::word("copy", "COPY"), Arg::word("copied", "COPIED"), Arg::word("adopt", "ADOPT")],
);

pub(super) static COMMIT: Command = Command {
    name: "shm|commit",
    summary: "Makes a key hold what was written to upload memory, as SET does.",
    since: "7.2.4",
    complexity: "O(N), N being the bytes that are left to copy; O(1) with ADOPT",
    group: Group::Server,
    arity: Arity::at_least(6),
    flags: Flags::DENYOOM.with(Flags::NOSCRIPT),
    keys: &[KeySpec::at(
        5,
        KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::UPDATE).with(KeyFlags::VARIABLE_FLAGS),
    )
    .note("RW and ACCESS due to the optional `GET` argument")],
    key_flags: Some(key_flags),
    args: &[
        Arg::integer("offset").within(0, 1 << 40),
        Arg::integer("length").within(0, 1 << 20),
        MODE,
        Arg::key("key"),
        CONDITION,
        GET,
        EXPIRATION,
    ],
    example: "> SHM COMMIT 1030792151040 4194304 ADOPT lake\n...",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let (offset, length) = (super::natural(args, 2)?, super::natural(args, 3)?);
    let (stays, is_copied) = match args {
        _ if args.is(4, "COPY") => (false, false),
        _ if args.is(4, "COPIED") => (false, true),
        _ if args.is(4, "ADOPT") => (true, false),
        _ => return Err(CommandError::Syntax.into()),
    };
    cx.check_value_bytes(length, 0)?;
    let uploads = cx.uploads;
    let mut stored = None;
    run_upload(&COMMIT, OPTIONS_AT, cx, args, reply, |cx, key, expiry| {
        let claim = uploads.claim(offset, length)?;
        if stays && !claim.may_adopt() {
            return Err(CommandError::Fixed("NOPERM values of this user are not adopted").into());
        }
        if !stays {
            cx.admit_upload(key, length)?;
        }
        if cx.prepares && cx.view.copies_long(key, &claim, stays) {
            return Err(Need::Copied { offset, length, is_copied }.into());
        }
        let has_stayed = cx.view.set_uploaded(key, &claim, stays, expiry)?;
        stored = Some((claim, has_stayed));
        Ok(())
    })?;
    match stored {
        None => uploads.claim(offset, length)?.finish_unused(),
        Some((claim, false)) => claim.finish_copy(),
        Some((claim, true)) => claim.finish_adoption(),
    }
    Ok(())
}

fn key_flags(request: RequestView<'_>) -> KeyFlags {
    key_flags_from(OPTIONS_AT, request)
}
