//! What SORT looks up: the values of other keys, or of fields of hashes, whose names follow from
//! the elements.

use base::number::{parse_f64, parse_i64};
use base::{Key, KeyHasher};
use collections::{Element, Hash};
use keyspace::{ReadView, Scratch, ShardSet, ValueType, text_of};

use crate::prelude::*;

/// Copies of values are asked for in steps of this.
const COPIED_STEP_BYTES: u64 = 64 * 1024;

/// A pattern of BY or GET.
pub(super) enum Pattern<'a> {
    /// `#`: the element.
    Own,
    /// Without an asterisk: nothing.
    Nothing,
    /// The string at a key, or a field of a hash.
    Value {
        /// The name of the key before the element and behind it.
        around: [&'a [u8]; 2],
        field: Option<&'a [u8]>,
    },
}

impl<'a> Pattern<'a> {
    /// Source: Redis 7.2, `lookupKeyByPattern`. What it looks for it looks for up to a zero byte.
    pub fn parse(pattern: &'a [u8]) -> Pattern<'a> {
        let text = pattern.split(|byte| *byte == 0).next().unwrap_or(pattern);
        if text == b"#" {
            return Pattern::Own;
        }
        let Some(asterisk) = text.iter().position(|byte| *byte == b'*') else {
            return Pattern::Nothing;
        };
        let behind = asterisk + 1;
        let arrow = text[behind..].windows(2).position(|pair| pair == b"->");
        // Without a field behind it, it is a part of the name.
        let arrow = arrow.map(|at| behind + at).filter(|at| text.len() > at + 2);
        let name_end = arrow.unwrap_or(pattern.len());
        Pattern::Value {
            around: [&pattern[..asterisk], &pattern[behind..name_end]],
            field: arrow.map(|at| &pattern[at + 2..]),
        }
    }

    /// Writes the name of the key for `element` to `name`; nothing where there is no key.
    pub fn name(&self, element: Element<'_>, name: &mut Vec<u8>) {
        name.clear();
        if let Pattern::Value { around, .. } = self {
            name.extend_from_slice(around[0]);
            element.with_bytes(|bytes| name.extend_from_slice(bytes));
            name.extend_from_slice(around[1]);
        }
    }

    /// Returns whether what it finds depends on the element.
    pub fn has_asterisk(&self) -> bool {
        matches!(self, Pattern::Value { .. })
    }
}

/// What a pattern finds for an element.
pub(super) enum Found<'v> {
    /// The element.
    Own,
    /// A string where it lies.
    Text(&'v [u8]),
    /// A string that a client can write.
    Copy(Vec<u8>),
    /// A field of a hash.
    Field(Element<'v>),
}

impl Found<'_> {
    /// Returns the value that was found for `own`.
    pub fn element<'e>(&'e self, own: Element<'e>) -> Element<'e> {
        match self {
            Found::Own => own,
            Found::Text(text) => Element::Bytes(text),
            Found::Copy(text) => Element::Bytes(text),
            Found::Field(value) => *value,
        }
    }
}

/// Looks values up.
pub(super) struct Values<'v, 'a> {
    view: ReadView<'v>,
    hasher: &'v KeyHasher,
    /// The name of the key that is looked up.
    name: Vec<u8>,
    /// Shards that are not locked and have keys that are asked for.
    lacking: Option<Box<ShardSet>>,
    ask: &'a dyn Fn(u64) -> Result<Scratch, Unfinished>,
    scratches: &'a mut Vec<Scratch>,
    /// What copies take that no right was asked for yet.
    copied_bytes: u64,
}

impl<'v, 'a> Values<'v, 'a> {
    /// Returns a way to look up values beside that of `key`. The rights to what it takes are added
    /// to `scratches`.
    pub fn new(
        view: ReadView<'v>,
        key: &Key<'_>,
        ask: &'a dyn Fn(u64) -> Result<Scratch, Unfinished>,
        scratches: &'a mut Vec<Scratch>,
    ) -> Values<'v, 'a> {
        let hasher = view.hasher(key);
        let name = Vec::new();
        Values { view, hasher, name, lacking: None, ask, scratches, copied_bytes: 0 }
    }

    /// Asks for `bytes` of private memory.
    ///
    /// # Errors
    /// There is no such room.
    pub fn ask(&mut self, bytes: u64) -> Result<(), Unfinished> {
        self.scratches.push((self.ask)(bytes)?);
        Ok(())
    }

    /// Returns what `pattern` finds for `element`; nothing once a shard was not locked, which
    /// [`Values::check`] tells.
    ///
    /// # Errors
    /// There is no room for a copy.
    pub fn find(
        &mut self,
        pattern: &Pattern<'_>,
        element: Element<'_>,
    ) -> Result<Option<Found<'v>>, Unfinished> {
        let field = match pattern {
            Pattern::Own => return Ok(Some(Found::Own)),
            Pattern::Nothing => return Ok(None),
            Pattern::Value { field, .. } => field,
        };
        pattern.name(element, &mut self.name);
        let key = self.hasher.key(&self.name);
        if !self.view.holds(key.shard) {
            self.lacking.get_or_insert_default().insert(key.shard);
        }
        if self.lacking.is_some() {
            return Ok(None);
        }
        if let Some(field) = field {
            let hash = self.view.collection::<Hash>(&key).ok().flatten();
            let value = hash.and_then(|hash| hash.get(field, self.view.rules(&key)));
            return Ok(value.map(Found::Field));
        }
        let entry = self.view.entry(&key).filter(|it| it.value_type() == ValueType::String);
        match entry {
            None => Ok(None),
            Some(entry) if !entry.is_adopted() => Ok(Some(Found::Text(text_of(&entry)))),
            Some(entry) => {
                self.copied_bytes += entry.value_length();
                if self.copied_bytes >= COPIED_STEP_BYTES {
                    let bytes = std::mem::take(&mut self.copied_bytes);
                    self.scratches.push((self.ask)(bytes)?);
                }
                let mut copy = Vec::new();
                entry.value_or_copy(&mut copy);
                Ok(Some(Found::Copy(copy)))
            }
        }
    }

    /// Checks that all shards were locked that had keys to look up.
    ///
    /// # Errors
    /// One was not: the handler is run again once they are.
    pub fn check(&mut self) -> Result<(), Need> {
        self.lacking.take().map_or(Ok(()), |shards| Err(Need::Shards(shards)))
    }
}

/// Returns the number that `element` is to SORT: as C's `strtod` reads it, and refuses it.
///
/// Source: Redis 7.2, `sortCommandGeneric`.
pub(super) fn score_of(element: Element<'_>) -> Option<f64> {
    let bytes = match element {
        Element::Integer(integer) => return Some(integer as f64),
        Element::Bytes(bytes) => bytes,
    };
    if let Some(integer) = parse_i64(bytes) {
        return Some(integer as f64);
    }
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or(bytes);
    if text.is_empty() {
        return Some(0.0);
    }
    let start = text.iter().position(|byte| !matches!(byte, b' ' | b'\t'..=b'\r')).unwrap_or(0);
    let score = parse_f64(&text[start..])?;
    // What has lost digits because it is so small is refused, too.
    (!score.is_subnormal()).then_some(score)
}
