//! Removing entries to which groups refer: what requests say of that, and what is told of it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use collections::{References, StreamId};
use keyspace::{NO_EVENT, StreamEffects};

use super::claims::IDS_PER_EFFECT_MAX;
use super::{IDS, id_text, strict_id};
use crate::prelude::*;

const NO_COUNT: CommandError = CommandError::Fixed("ERR Number of IDs must be a positive integer");
const FEWER_IDS: CommandError =
    CommandError::Fixed("ERR The `numids` parameter must match the number of arguments");

/// What becomes of references to entries that are removed.
pub(super) const REFERENCES: Arg = Arg::one_of(
    "condition",
    &[Arg::word("keepref", "KEEPREF"), Arg::word("delref", "DELREF"), Arg::word("acked", "ACKED")],
)
.optional()
.since("8.2.0");

/// Identities behind their number.
pub(super) const ID_BLOCK: Arg =
    Arg::block("ids", &[Arg::count_of_next("numids"), Arg::string("id").among(IDS).multiple()])
        .token("IDS");

/// Returns what argument `index` says of references, if it does.
pub(super) fn references(args: Args<'_>, index: usize) -> Option<References> {
    match () {
        () if args.is(index, "KEEPREF") => Some(References::Keep),
        () if args.is(index, "DELREF") => Some(References::Delete),
        () if args.is(index, "ACKED") => Some(References::Acknowledged),
        () => None,
    }
}

/// Reads the number behind the word IDS, which is argument `index`, and looks that as many
/// identities follow; returns their positions.
pub(super) fn id_block(
    args: Args<'_>,
    index: usize,
) -> Result<std::ops::Range<usize>, CommandError> {
    let first = index + 2;
    if first > args.len() {
        return Err(CommandError::Syntax);
    }
    let count = base::number::parse_i64(args.at(index + 1)).filter(|count| *count > 0);
    let count = usize::try_from(count.ok_or(NO_COUNT)?).map_err(|_| NO_COUNT)?;
    if count > args.len() - first {
        return Err(FEWER_IDS);
    }
    (first..first + count).try_for_each(|index| strict_id(args, index).map(drop))?;
    Ok(first..first + count)
}

/// What XDELEX and XACKDEL are asked for.
pub(super) struct RemovalRequest {
    pub references: References,
    /// The positions of the identities.
    pub ids: std::ops::Range<usize>,
}

impl RemovalRequest {
    /// Reads the arguments from position `first` on.
    pub fn parse(args: Args<'_>, first: usize) -> Result<RemovalRequest, CommandError> {
        let (mut said, mut ids, mut index) = (None, None, first);
        while index < args.len() {
            if args.is(index, "IDS") && ids.is_none() {
                let block = id_block(args, index)?;
                index = block.end;
                ids = Some(block);
            } else if said.is_none()
                && let Some(references) = references(args, index)
            {
                said = Some(references);
                index += 1;
            } else {
                return Err(CommandError::Syntax);
            }
        }
        let ids = ids.ok_or(CommandError::Syntax)?;
        Ok(RemovalRequest { references: said.unwrap_or_default(), ids })
    }
}

/// Returns the identity that argument `index` is, which the parser has looked at.
pub(super) fn known_id(args: Args<'_>, index: usize) -> StreamId {
    StreamId::parse(args.at(index), 0).expect("the parser has looked")
}

/// Replies that none of the entries of `ids` is there.
pub(super) fn reply_all_absent(ids: std::ops::Range<usize>, reply: &mut Reply<'_>) {
    reply.array(ids.len());
    ids.for_each(|_| reply.integer(-1));
}

/// In which groups entries ceased to be pending.
#[derive(Default)]
pub(super) struct Ended {
    has_any: bool,
    /// As far as a sink listens.
    heard: BTreeMap<Vec<u8>, Vec<StreamId>>,
}

impl Ended {
    /// Notes that entry `id` is not pending any more in the group called `name`.
    pub fn note(&mut self, is_heard: bool, name: &[u8], id: StreamId) {
        self.has_any = true;
        if is_heard {
            match self.heard.get_mut(name) {
                Some(ids) => ids.push(id),
                None => drop(self.heard.insert(name.to_vec(), vec![id])),
            }
        }
    }

    /// Adds the effects, requests that any Redis with streams knows.
    pub fn tell(self, effects: &mut StreamEffects<'_>) {
        if self.has_any && !effects.is_heard() {
            effects.add(("XACK", NO_EVENT), Vec::new);
        }
        for (name, ids) in self.heard {
            effects.add_each(("XACK", NO_EVENT), effect_count(&ids), requests(Some(name), ids));
        }
    }
}

/// Adds the effect that the entries `ids` are gone, which is the event `event`.
pub(super) fn tell_removed(
    effects: &mut StreamEffects<'_>,
    event: &'static str,
    count: u64,
    ids: Vec<StreamId>,
) {
    if count == 0 {
        return;
    }
    effects.touch();
    if !effects.is_heard() {
        return effects.add(("XDEL", event), Vec::new);
    }
    effects.add_each(("XDEL", event), effect_count(&ids), requests(None, ids));
}

/// Returns how many effects name `ids`.
pub(super) fn effect_count(ids: &[StreamId]) -> u64 {
    ids.len().div_ceil(IDS_PER_EFFECT_MAX) as u64
}

/// Returns the arguments of the effects that name `ids`, each behind `first`: texts are made for
/// one effect after the other.
pub(super) fn requests<'e>(
    first: Option<Vec<u8>>,
    ids: Vec<StreamId>,
) -> impl Iterator<Item = Vec<Cow<'e, [u8]>>> {
    (0..ids.len()).step_by(IDS_PER_EFFECT_MAX).map(move |start| {
        let ids = &ids[start..ids.len().min(start + IDS_PER_EFFECT_MAX)];
        first.clone().map(Cow::Owned).into_iter().chain(ids.iter().copied().map(id_text)).collect()
    })
}
