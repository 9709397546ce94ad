//! The options of XADD and XTRIM that say which entries go.

use std::borrow::Cow;

use collections::{Limits, Log, References, Stream, StreamId, Trim, TrimBounds};
use keyspace::StreamEffects;

use super::removal::{Ended, references, tell_removed};
use super::{id_text, strict_id};
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

/// Entries that an XADD looks at in search of those to which no group refers, divided by the number
/// of groups that are asked of each: a producer pays for no more, however many are pending.
const ADD_LOOKS_MAX: u64 = 10_000;

const REPEATED: CommandError = CommandError::Fixed("ERR IDMP/IDMPAUTO specified multiple times");
const NO_PRODUCER: CommandError = CommandError::Fixed("ERR IDMP requires a non-empty producer ID");
const NO_MESSAGE: CommandError = CommandError::Fixed("ERR IDMP requires a non-empty idempotent ID");
const NO_AUTO_PRODUCER: CommandError =
    CommandError::Fixed("ERR IDMPAUTO requires a non-empty producer ID");

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
    /// What becomes of references to entries that go, if it is said.
    references: Option<References>,
    /// Who adds the entry, if it is said.
    pub producer: Option<ProducerArgs>,
}

/// Where XADD names a producer.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProducerArgs {
    /// The position of its name.
    pub producer: usize,
    /// The position of the name of its message; without one the content is its name.
    pub message: Option<usize>,
}

/// What trimming has removed.
#[derive(Default)]
pub(super) struct Trimmed {
    /// How many entries, from the first on.
    first: u64,
    /// Those are all before this identity.
    before: Option<StreamId>,
    /// How many others.
    other_count: u64,
    /// Those, as far as a sink listens.
    others: Vec<StreamId>,
    ended: Ended,
}

impl Trimmed {
    /// Returns how many entries went.
    pub fn count(&self) -> u64 {
        self.first + self.other_count
    }

    /// Returns how many entries went, from the first on.
    pub fn first_count(&self) -> u64 {
        self.first
    }

    /// Returns the words that have the first entries go, of a stream that has `log` by now.
    pub fn words(&self, log: &Log) -> impl Iterator<Item = Cow<'static, [u8]>> + use<> {
        // A node whose entries are all deleted stays behind some identity, and by no length.
        let (strategy, value) = match self.before {
            Some(id) => ("MINID", id_text(id)),
            None => ("MAXLEN", Cow::Owned((log.len() + self.other_count).to_string().into())),
        };
        let words = [strategy.as_bytes().into(), b"=".as_slice().into(), value];
        let is_told = self.first > 0;
        words.into_iter().filter(move |_| is_told)
    }

    /// Adds the effects of what else than the first entries went.
    pub fn tell_others(self, effects: &mut StreamEffects<'_>) {
        tell_removed(effects, "xtrim", self.other_count, self.others);
        self.ended.tell(effects);
    }
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
        let mut options = TrimOptions {
            trim: None,
            is_approximate: false,
            limit: None,
            skips_absent: false,
            references: None,
            producer: None,
        };
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
            } else if let Some(references) = references(args, index) {
                if options.references.replace(references).is_some() {
                    return Err(CommandError::Syntax);
                }
            } else if is_xadd && (args.is(index, "IDMP") || args.is(index, "IDMPAUTO")) {
                index = options.read_producer(args, index)?;
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

    /// Reads IDMP or IDMPAUTO, which is argument `index`; returns the position of its last word.
    fn read_producer(&mut self, args: Args<'_>, index: usize) -> Result<usize, CommandError> {
        let is_auto = args.is(index, "IDMPAUTO");
        let (producer, last) = (index + 1, index + if is_auto { 1 } else { 2 });
        if self.producer.is_some() {
            return Err(REPEATED);
        }
        if last >= args.len() {
            return Err(CommandError::Syntax);
        }
        match is_auto {
            true if args.at(producer).is_empty() => return Err(NO_AUTO_PRODUCER),
            false if args.at(producer).is_empty() => return Err(NO_PRODUCER),
            false if args.at(last).is_empty() => return Err(NO_MESSAGE),
            _ => {}
        }
        self.producer = Some(ProducerArgs { producer, message: (!is_auto).then_some(last) });
        Ok(last)
    }

    /// Trims `stream` under `limits`; for an XADD that is a bounded search.
    pub fn apply(
        &self,
        stream: &mut Stream,
        limits: &Limits,
        effects: &StreamEffects<'_>,
        is_xadd: bool,
    ) -> Trimmed {
        let Some(trim) = self.trim else { return Trimmed::default() };
        let (bounds, is_heard) = (self.bounds(limits), effects.is_heard());
        let mut trimmed = Trimmed {
            before: match trim {
                Trim::Before(id) if !bounds.is_approximate => Some(id),
                _ => None,
            },
            ..Trimmed::default()
        };
        match self.references.unwrap_or_default() {
            References::Keep => trimmed.first = stream.log_mut().trim(trim, bounds, None),
            References::Delete => {
                let mut note = |name: &[u8], id| trimmed.ended.note(is_heard, name, id);
                trimmed.first = stream.trim_with_pending(trim, bounds, &mut note);
            }
            References::Acknowledged => {
                // Some before it stay.
                trimmed.before = None;
                let looks_max = match (bounds.limit, is_xadd) {
                    (0, true) => (ADD_LOOKS_MAX / stream.group_count().max(1) as u64).max(1),
                    (0, false) => u64::MAX,
                    (limit, _) => limit,
                };
                let mut note = |id| {
                    trimmed.other_count += 1;
                    trimmed.others.extend(is_heard.then_some(id));
                };
                trimmed.first = stream.trim_acknowledged(trim, looks_max, &mut note);
            }
        }
        trimmed
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
