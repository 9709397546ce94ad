//! XNACK: give entries that are pending back to their group.

use base::UnixMs;
use collections::{Group as ConsumerGroup, Pending, Stream};
use keyspace::{NO_EVENT, WhenAbsent};

use super::removal::{ID_BLOCK, id_block, known_id};
use super::{GROUP, no_group};
use crate::prelude::*;

const NO_MODE: CommandError = CommandError::Fixed("ERR mode must be SILENT, FAIL, or FATAL");
const NEGATIVE: CommandError = CommandError::Fixed("ERR RETRYCOUNT must be >= 0");
/// How often an entry was delivered that is not to be delivered again.
const FATAL_COUNT: u64 = i64::MAX as u64;

pub(super) static XNACK: Command = Command {
    name: "xnack",
    summary: "Gives pending entries back to their group, for any consumer to claim at once.",
    since: "8.8.0",
    complexity: "O(N log(M)), N being the number of identities and M that of pending entries",
    group: Group::Stream,
    arity: Arity::at_least(7),
    flags: Flags::FAST.with(Flags::EFFECT),
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::UPDATE))],
    args: &[
        Arg::key("key"),
        GROUP,
        Arg::one_of(
            "mode",
            &[
                Arg::word("silent", "SILENT"),
                Arg::word("fail", "FAIL"),
                Arg::word("fatal", "FATAL"),
            ],
        ),
        ID_BLOCK,
        Arg::integer("count").token("RETRYCOUNT").optional().within(0, 5),
        Arg::word("force", "FORCE").optional(),
    ],
    note: "A command of Redis 8.8. The entries stay pending, with nobody: XPENDING shows them with \
        an empty name and an idle time of -1, and XCLAIM and XAUTOCLAIM find them as idle as if \
        they had been delivered in 1970. How often they were delivered becomes one less with \
        `SILENT`, stays with `FAIL`, and becomes the greatest number with `FATAL`, or what \
        `RETRYCOUNT` says. With `FORCE` entries of the stream that are not pending become so, as \
        delivered never. XINFO STREAM FULL says how many a group has as `nacked-count`, where \
        there are any. DUMP writes them as pending with a consumer that has no name, as the format \
        knows no others, and RESTORE reads them as they were.",
    example: "> XADD river 1-1 level 7\n\"1-1\"\n> XGROUP CREATE river readers 0\nOK\n\
        > XREADGROUP GROUP readers ada STREAMS river >\n\
        1) 1) \"river\"\n   2) 1) 1) \"1-1\"\n         2) 1) \"level\"\n            2) \"7\"\n\
        > XNACK river readers FAIL IDS 1 1-1\n(integer) 1\n\
        > XPENDING river readers - + 10\n\
        1) 1) \"1-1\"\n   2) \"\"\n   3) (integer) -1\n   4) (integer) 1",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

/// What becomes of the number of deliveries.
#[derive(Clone, Copy)]
enum Mode {
    Silent,
    Fail,
    Fatal,
}

struct Release {
    mode: Mode,
    /// The positions of the identities.
    ids: std::ops::Range<usize>,
    delivery_count: Option<u64>,
    is_forced: bool,
}

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let release = Release::parse(args)?;
    let (key, name) = (args.key(0), args.at(2));
    let stream = cx.view.collection::<Stream>(key)?;
    if stream.is_none_or(|stream| stream.group(name).is_none()) {
        return Err(no_group(key.bytes, name, b"").into());
    }
    let growth = || match release.is_forced {
        true => ConsumerGroup::pending_growth_bound(release.ids.len() as u64),
        false => 0,
    };
    let count = cx.view.change_stream(key, WhenAbsent::Skip, growth, |stream, _, effects| {
        let count = stream.change_group(name, |log, group| {
            let mut count = 0;
            for index in release.ids.clone() {
                let id = known_id(args, index);
                let before = group.pending_entry(id).map(|pending| pending.delivery_count);
                if before.is_none() && !(release.is_forced && log.contains(id)) {
                    continue;
                }
                let delivery_count = release.delivery_count_of(before);
                let delivered_at = UnixMs(0);
                group.set_pending(id, Pending { consumer: None, delivered_at, delivery_count });
                count += 1;
            }
            count
        });
        let count = count.expect("the group was found");
        if count > 0 {
            effects.add(("XNACK", NO_EVENT), || {
                args.from(2).map(|word| word.to_vec().into()).collect()
            });
        }
        count
    })?;
    reply.integer(count.unwrap_or(0));
    Ok(())
}

impl Release {
    fn parse(args: Args<'_>) -> Result<Release, CommandError> {
        let mode = match () {
            () if args.is(3, "SILENT") => Mode::Silent,
            () if args.is(3, "FAIL") => Mode::Fail,
            () if args.is(3, "FATAL") => Mode::Fatal,
            () => return Err(NO_MODE),
        };
        let (mut ids, mut delivery_count, mut is_forced) = (None, None, false);
        let mut index = 4;
        while index < args.len() {
            if args.is(index, "IDS") && ids.is_none() {
                let block = id_block(args, index)?;
                index = block.end;
                ids = Some(block);
            } else if args.is(index, "RETRYCOUNT") && index + 1 < args.len() {
                let count = args.integer(index + 1)?;
                delivery_count = Some(u64::try_from(count).map_err(|_| NEGATIVE)?);
                index += 2;
            } else if args.is(index, "FORCE") {
                is_forced = true;
                index += 1;
            } else {
                return Err(CommandError::Syntax);
            }
        }
        let ids = ids.ok_or(CommandError::Syntax)?;
        Ok(Release { mode, ids, delivery_count, is_forced })
    }

    /// Returns how often an entry counts as delivered that was delivered `before` times, if it was
    /// pending.
    fn delivery_count_of(&self, before: Option<u64>) -> u64 {
        self.delivery_count.unwrap_or(match self.mode {
            Mode::Silent => before.unwrap_or(0).saturating_sub(1),
            Mode::Fail => before.unwrap_or(0),
            Mode::Fatal => FATAL_COUNT,
        })
    }
}
