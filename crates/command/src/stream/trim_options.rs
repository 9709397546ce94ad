//! The options of XADD and XTRIM that say which entries go.

use collections::{Limits, StreamId, Trim, TrimBounds};

use super::strict_id;
use crate::prelude::*;

const BOTH: CommandError = CommandError::Fixed(
    "ERR syntax error, MAXLEN and MINID options at the same time are not compatible",
);
const NEGATIVE_LENGTH: CommandError = CommandError::Fixed("ERR The MAXLEN argument must be >= 0.");
const NEGATIVE_LIMIT: CommandError = CommandError::Fixed("ERR The LIMIT argument must be >= 0.");
const LIMIT_ALONE: CommandError = CommandError::Fixed(
    "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy",
);
const NO_STRATEGY: CommandError =
    CommandError::Fixed("ERR syntax error, XTRIM must be called with a trimming strategy");
const LIMIT_OF_EXACT: CommandError =
    CommandError::Fixed("ERR syntax error, LIMIT cannot be used without the special ~ option");

/// Entries that trimming removes at most where nodes have any number of them.
const LIMIT_DEFAULT: u64 = 10_000;
/// Entries that trimming removes at most unless a request says otherwise.
const LIMIT_MAX: u64 = 1_000_000;
/// Nodes that trimming removes at most unless a request says otherwise.
const NODES_MAX: u64 = 100;

/// The arguments of both commands.
pub(super) const TRIM_ARGS: &[Arg] = &[
    Arg::one_of(
        "strategy",
        &[Arg::word("maxlen", "MAXLEN"), Arg::word("minid", "MINID").since("6.2.0")],
    ),
    Arg::one_of("operator", &[Arg::word("equal", "="), Arg::word("approximately", "~")]).optional(),
    Arg::string("threshold").among(&["0", "1", "2", "4", "7", "3-1", "4-2"]),
    Arg::integer("count").token("LIMIT").optional().since("6.2.0").within(0, 10),
];

/// What stands before the identity of XADD, or behind the key of XTRIM.
#[derive(Clone, Copy, Debug)]
pub(super) struct TrimOptions {
    pub trim: Option<Trim>,
    pub is_approximate: bool,
    /// The limit, if one is given.
    limit: Option<u64>,
    /// XADD is not to make a stream.
    pub skips_absent: bool,
}

impl TrimOptions {
    /// Returns the bounds of a trim under `limits`.
    pub fn bounds(&self, limits: &Limits) -> TrimBounds {
        let limit = match (self.limit, self.is_approximate) {
            (Some(limit), _) => limit,
            (None, false) => 0,
            (None, true) => match limits.stream_node_entries.saturating_mul(NODES_MAX) {
                0 => LIMIT_DEFAULT,
                limit => limit.min(LIMIT_MAX),
            },
        };
        TrimBounds { is_approximate: self.is_approximate, limit }
    }

    /// Reads the options of `args`; of XADD up to the identity, whose position is returned too,
    /// where `is_identity` says of the first other argument that it is one.
    ///
    /// Source: Redis 7.2, `streamParseAddOrTrimArgsOrReply`.
    pub fn read(
        args: Args<'_>,
        is_identity: Option<&mut dyn FnMut(usize) -> Result<(), CommandError>>,
    ) -> Result<(TrimOptions, usize), CommandError> {
        let mut options =
            TrimOptions { trim: None, is_approximate: false, limit: None, skips_absent: false };
        let (is_xadd, mut is_identity) = (is_identity.is_some(), is_identity);
        let mut index = 2;
        while index < args.len() {
            let has_more = index + 1 < args.len();
            if is_xadd && args.at(index) == b"*" {
                break;
            }
            if (args.is(index, "MAXLEN") || args.is(index, "MINID")) && has_more {
                index = options.read_strategy(args, index)?;
            } else if args.is(index, "LIMIT") && has_more {
                let limit = args.integer(index + 1)?;
                options.limit = Some(u64::try_from(limit).map_err(|_| NEGATIVE_LIMIT)?);
                index += 1;
            } else if is_xadd && args.is(index, "NOMKSTREAM") {
                options.skips_absent = true;
            } else if let Some(is_identity) = &mut is_identity {
                is_identity(index)?;
                break;
            } else {
                return Err(CommandError::Syntax);
            }
            index += 1;
        }
        options.check(is_xadd)?;
        Ok((options, index))
    }

    /// Reads MAXLEN or MINID, which is argument `index`, and returns the position of its value.
    fn read_strategy(&mut self, args: Args<'_>, index: usize) -> Result<usize, CommandError> {
        if self.trim.is_some() {
            return Err(BOTH);
        }
        let has_operator = index + 2 < args.len() && matches!(args.at(index + 1), b"~" | b"=");
        self.is_approximate = has_operator && args.at(index + 1) == b"~";
        let value = index + 1 + usize::from(has_operator);
        self.trim = Some(match args.is(index, "MAXLEN") {
            true => {
                let length = args.integer(value)?;
                Trim::ToLength(u64::try_from(length).map_err(|_| NEGATIVE_LENGTH)?)
            }
            false => Trim::Before(strict_id(args, value)?),
        });
        Ok(value)
    }

    fn check(&self, is_xadd: bool) -> Result<(), CommandError> {
        match (self.trim, self.limit) {
            (None, Some(1..)) => Err(LIMIT_ALONE),
            (None, _) if !is_xadd => Err(NO_STRATEGY),
            (_, Some(_)) if !self.is_approximate => Err(LIMIT_OF_EXACT),
            _ => Ok(()),
        }
    }
}

/// Which identity an entry is to get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WantedId {
    /// The time, or the next one where that is not later than the last.
    Any,
    /// The next one of this time.
    OfTime(u64),
    /// This.
    This(StreamId),
}
