//! RESTORE: a value from bytes.

use base::UnixMs;
use keyspace::LastUse;

use crate::prelude::*;

const BUSY: CommandError = CommandError::Fixed("BUSYKEY Target key name already exists.");
const INVALID_TTL: CommandError = CommandError::Fixed("ERR Invalid TTL value, must be >= 0");
const INVALID_IDLE_TIME: CommandError =
    CommandError::Fixed("ERR Invalid IDLETIME value, must be >= 0");
const INVALID_FREQUENCY: CommandError =
    CommandError::Fixed("ERR Invalid FREQ value, must be >= 0 and <= 255");

pub(super) static RESTORE: Command = Command {
    name: "restore",
    summary: "Makes a key hold a value from the bytes that `DUMP` returned.",
    since: "2.6.0",
    complexity: "O(N), N being the bytes of the value; O(N*log(N)) for a sorted set",
    arity: Arity::at_least(4),
    flags: Flags::DENYOOM,
    categories: Categories::DANGEROUS,
    keys: &[KeySpec::at(1, KeyFlags::OW.with(KeyFlags::UPDATE))],
    args: &[
        Arg::key("key"),
        Arg::integer("ttl").within(0, 1_000_000),
        Arg::string("serialized-value"),
        Arg::word("replace", "REPLACE").optional().since("3.0.0"),
        Arg::word("absttl", "ABSTTL").optional().since("5.0.0"),
        Arg::integer("seconds").token("IDLETIME").within(0, 1_000_000).optional().since("5.0.0"),
        Arg::integer("frequency").token("FREQ").within(0, 255).optional().since("5.0.0"),
    ],
    history: &[
        ("3.0.0", "Added the `REPLACE` modifier."),
        ("5.0.0", "Added the `ABSTTL` modifier."),
        ("5.0.0", "Added the `IDLETIME` and `FREQ` options."),
    ],
    note: "Every length and part is checked whatever `sanitize-dump-payload` says, bytes behind \
           the value are refused, and so are streams and values of modules.",
    example: "> RESTORE lake 0 deep\n(error) ERR DUMP payload version or checksum are wrong",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let key = args.key(0);
    let options = Options::parse(args)?;
    let is_there = cx.view.contains(key);
    if is_there && !options.replaces {
        return Err(BUSY.into());
    }
    let ttl = args.integer(2)?;
    if ttl < 0 {
        return Err(INVALID_TTL.into());
    }
    let restored = cx.view.read_payload(key, args.at(3), cx.value_bytes_max, None)?;
    let expires_at = match (ttl, options.is_absolute) {
        (0, _) => None,
        (_, true) => Some(UnixMs(ttl)),
        (_, false) => Some(UnixMs(cx.now().0.saturating_add(ttl))),
    };
    match expires_at {
        // It has expired already: only what it would replace goes.
        Some(at) if at <= cx.now() => {
            drop(restored);
            cx.view.remove(key);
        }
        _ => cx.view.restore(key, restored, expires_at, options.last_use)?,
    }
    reply.ok();
    Ok(())
}

struct Options {
    replaces: bool,
    is_absolute: bool,
    last_use: LastUse,
}

impl Options {
    fn parse(args: Args<'_>) -> Result<Options, CommandError> {
        let mut options = Options { replaces: false, is_absolute: false, last_use: LastUse::Now };
        let mut index = 4;
        while index < args.len() {
            let has_more = index + 1 < args.len();
            let is_counted = matches!(options.last_use, LastUse::Counted(_));
            let is_timed = matches!(options.last_use, LastUse::Ago { .. });
            if args.is(index, "REPLACE") {
                options.replaces = true;
            } else if args.is(index, "ABSTTL") {
                options.is_absolute = true;
            } else if args.is(index, "IDLETIME") && has_more && !is_counted {
                index += 1;
                let seconds = args.integer(index)?;
                let seconds = u64::try_from(seconds).map_err(|_| INVALID_IDLE_TIME)?;
                options.last_use = LastUse::Ago { seconds };
            } else if args.is(index, "FREQ") && has_more && !is_timed {
                index += 1;
                let counter = args.integer(index)?;
                let counter = u8::try_from(counter).map_err(|_| INVALID_FREQUENCY)?;
                options.last_use = LastUse::Counted(counter);
            } else {
                return Err(CommandError::Syntax);
            }
            index += 1;
        }
        Ok(options)
    }
}
