//! Items of memcached: strings with 32 bits of flags, a number that is another after each change,
//! and what a cache's clients agree on about a value that is stale.
//!
//! An item is an entry of an encoding of its own (`arena::layout`), whose tail no command of Redis
//! sees. Whatever changes a string in place makes a plain one of it first; a plain string is an
//! item without flags, whose unique number follows from its bytes.

use arena::layout::{ITEM_IN_THE_MAKING, ITEM_STALE, ITEM_STATE_AT, ITEM_TAIL_BYTES};
use arena::{AccessMark, Encoding, Entry, EntryId, NeedRoom, Source, ValueType};
use base::hash::SecretHasher;
use base::number_text::IntegerText;
use base::{Key, UnixMs};
use effects::{Effect, EventClass, Expiry, LastUse};

use crate::access_mark::idle_seconds;
use crate::encoding::encoding_of;
use crate::eviction::policy::KeyEvent;
use crate::restore::RestoreError;
use crate::shard::is_expired;
use crate::view::{ReadView, WrongType, count_lookup};
use crate::write::{KeyWriter, WriteView};

/// The name of the command by which an item is stored.
pub const ITEM_COMMAND: &str = "ITEMSET";
/// What that command calls the states of an item, by their numbers.
pub const ITEM_STATES: [&str; 4] = ["FRESH", "STALE", "MAKING", "MAKING-STALE"];
/// A unique number is the time in milliseconds, and so many bits to count within it.
const UNIQUE_TIME_SHIFT: u32 = 16;
/// What the unique numbers of plain strings are hashed with: the same in each process, as clients
/// keep them for longer than one runs.
const PLAIN_KEYS: [u64; 2] = [0x6D65_6D63, 0x6974_656D];

/// What an item has beside its value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItemTail {
    /// What the client keeps with the value.
    pub flags: u32,
    /// The unique number (CAS): another one after each change.
    pub unique: u64,
    /// The value is stale: a client has said that it is to be made anew.
    pub is_stale: bool,
    /// The value, which is empty, is none: a client is to make it. Others see it as it is.
    pub is_in_the_making: bool,
}

/// An item as a lookup finds it.
#[derive(Clone, Copy, Debug)]
pub struct FoundItem<'g> {
    /// The value.
    pub value: &'g [u8],
    /// What is beside it; nothing beside a plain string.
    pub own_tail: Option<ItemTail>,
    /// When it expires.
    pub expiry: Option<UnixMs>,
    /// When it had been used last; nothing where the policy keeps something else in its mark.
    pub mark: Option<AccessMark>,
    /// Whether a client of memcached had fetched it since it was stored.
    pub was_fetched: bool,
    /// Whether a client has been told to make it anew.
    pub is_won: bool,
}

impl FoundItem<'_> {
    /// Returns what the client keeps with the value.
    pub fn flags(&self) -> u32 {
        self.own_tail.map_or(0, |tail| tail.flags)
    }

    /// Returns for how many seconds before `now` it had not been used; `None` where the policy
    /// keeps something else in its mark.
    pub fn idle_seconds(&self, now: UnixMs) -> Option<u64> {
        self.mark.map(|mark| idle_seconds(mark, now))
    }

    /// Returns whether a client has said that the value is to be made anew.
    pub fn is_stale(&self) -> bool {
        self.own_tail.is_some_and(|tail| tail.is_stale)
    }

    /// Returns whether the value is none, and to be made.
    pub fn is_in_the_making(&self) -> bool {
        self.own_tail.is_some_and(|tail| tail.is_in_the_making)
    }

    /// Returns all that is beside the value. The unique number of a plain string is computed from
    /// all of its bytes.
    pub fn tail(&self) -> ItemTail {
        self.own_tail.unwrap_or_else(|| plain_tail(self.value))
    }
}

impl ItemTail {
    /// Returns it as bytes, as they stand behind the value and in files.
    pub fn to_bytes(self) -> [u8; ITEM_TAIL_BYTES] {
        let mut bytes = [0; ITEM_TAIL_BYTES];
        bytes[..4].copy_from_slice(&self.flags.to_le_bytes());
        bytes[4..12].copy_from_slice(&self.unique.to_le_bytes());
        bytes[ITEM_STATE_AT] = self.state();
        bytes
    }

    /// Returns what `bytes` say; `None` where they are no tail.
    #[inline]
    pub fn from_bytes(bytes: &[u8]) -> Option<ItemTail> {
        let (flags, rest) = bytes.split_first_chunk()?;
        let (unique, state) = rest.split_first_chunk()?;
        let [state] = state else { return None };
        let (flags, unique) = (u32::from_le_bytes(*flags), u64::from_le_bytes(*unique));
        ItemTail { flags, unique, ..ItemTail::default() }.with_state(*state)
    }

    fn state(self) -> u8 {
        let stale = if self.is_stale { ITEM_STALE } else { 0 };
        let making = if self.is_in_the_making { ITEM_IN_THE_MAKING } else { 0 };
        stale | making
    }

    #[inline]
    fn with_state(self, state: u8) -> Option<ItemTail> {
        let (is_stale, is_in_the_making) =
            (state & ITEM_STALE != 0, state & ITEM_IN_THE_MAKING != 0);
        let is_known = usize::from(state) < ITEM_STATES.len();
        is_known.then_some(ItemTail { is_stale, is_in_the_making, ..self })
    }

    /// Returns it in the state of that `name`, in letters of any case; `None` where that is none.
    pub fn with_state_named(self, name: &[u8]) -> Option<ItemTail> {
        let state =
            ITEM_STATES.iter().position(|state| name.eq_ignore_ascii_case(state.as_bytes()))?;
        self.with_state(state as u8)
    }
}

impl<'g> ReadView<'g> {
    /// Returns the item at `key`, marked as fetched where this `is_fetch`; counts a hit or a miss.
    ///
    /// # Errors
    /// When the key holds no string.
    pub fn item(&self, key: &Key<'_>, is_fetch: bool) -> Result<Option<FoundItem<'g>>, WrongType> {
        let shard = self.shards().shard(key.shard);
        let found = shard.database(self.database()).and_then(|part| {
            let id = part.table.find(key.hash, key.bytes)?;
            Some((part, id, part.table.entry(id)))
        });
        let live = found.filter(|(_, _, entry)| !is_expired(entry, self.now()));
        if found.is_some() && live.is_none() {
            self.note_expired();
        }
        count_lookup(shard, self.database(), key, live.is_some());
        let Some((part, id, entry)) = live else { return Ok(None) };
        if entry.value_type() != ValueType::String {
            return Err(WrongType);
        }
        let (value, own_tail) = match item_parts(&entry) {
            Some((value, tail)) => (value, Some(tail)),
            None if entry.is_adopted() => (self.copy_of(key), None),
            None => (entry.value(), None),
        };
        if is_fetch && self.does_count_access() {
            let event = KeyEvent::Used(1);
            let mark = shard.used(self.database(), key.hash, entry, self.now(), event);
            part.table.touch_fetched(id, mark);
        }
        let (was_fetched, is_won) = (entry.header().is_fetched(), entry.header().is_won());
        let (expiry, mark) = (entry.expiry(), shard.dated(entry.mark()));
        Ok(Some(FoundItem { value, own_tail, expiry, mark, was_fetched, is_won }))
    }

    /// Returns the item that a client of memcached is told to make at `key`: an empty one, which it
    /// `is_won` already where another client has been told.
    pub fn item_in_the_making(&self, key: &Key<'_>, tail: ItemTail, is_won: bool) -> FoundItem<'g> {
        let shard = self.shards().shard(key.shard);
        let mark = shard.dated(shard.published.tracking.first(self.now()));
        let (own_tail, was_fetched) = (Some(tail), false);
        FoundItem { value: b"", own_tail, expiry: None, mark, was_fetched, is_won }
    }

    /// Marks the value at `key` as fetched, where lookups count as uses; counts neither hit nor
    /// miss.
    pub fn mark_fetched(&self, key: &Key<'_>) {
        let Some(part) = self.part(key).filter(|_| self.does_count_access()) else { return };
        if let Some(id) = part.table.find(key.hash, key.bytes) {
            let (shard, entry) = (self.shards().shard(key.shard), part.table.entry(id));
            let event = KeyEvent::Written;
            let mark = shard.used(self.database(), key.hash, entry, self.now(), event);
            part.table.touch_fetched(id, mark);
        }
    }

    /// Notes that a client has been told to make the value at `key` anew. That is no change of the
    /// dataset: whoever reads a log or a file finds nobody told.
    pub fn mark_won(&self, key: &Key<'_>) {
        let Some(part) = self.part(key) else { return };
        if let Some(id) = part.table.find(key.hash, key.bytes) {
            part.table.mark_won(id);
        }
    }
}

impl WriteView<'_> {
    /// Returns a unique number that no item at `key` has had.
    pub fn next_unique(&mut self, key: &Key<'_>) -> u64 {
        let by_time = u64::try_from(self.now().0).unwrap_or(0) << UNIQUE_TIME_SHIFT;
        let last = &mut self.writer(key).shard.last_unique;
        *last = by_time.max(*last + 1);
        *last
    }

    /// Makes `key` hold an item.
    ///
    /// # Errors
    /// NeedRoom before any change.
    pub fn set_item(
        &mut self,
        key: &Key<'_>,
        value: &[u8],
        tail: ItemTail,
        expiry: Expiry,
    ) -> Result<(), NeedRoom> {
        let mut writer = self.writer(key);
        let found = writer.live(key);
        let at = writer.expiry_after(found, expiry);
        writer.put_item(key, found, value, tail, at)?;
        writer.tell_item(key, value, tail, at);
        Ok(())
    }

    /// As [`WriteView::set_item`], of a value as it stands in a file; returns whether it is stored:
    /// not where the key is there.
    ///
    /// # Errors
    /// [`RestoreError`], and nothing has changed.
    pub fn load_item(
        &mut self,
        key: &Key<'_>,
        bytes: &[u8],
        tail: ItemTail,
        expires_at: Option<UnixMs>,
        grace_ms: u64,
        last_use: LastUse,
    ) -> Result<bool, RestoreError> {
        if self.contains(key) {
            return Ok(false);
        }
        let (value, _scratch) = self.read_string(key, bytes)?;
        let expiry = expires_at.map_or(Expiry::Clear, Expiry::At);
        self.set_item(key, &value, tail, expiry).map_err(RestoreError::NeedRoom)?;
        let mut writer = self.writer(key);
        let mark = writer.mark_of(last_use);
        let table = &mut writer.part().table;
        let id = table.find(key.hash, key.bytes).expect("it was made just now");
        table.touch(id, mark);
        writer.add_loaded_grace(key, expires_at, grace_ms);
        Ok(true)
    }
}

impl KeyWriter<'_> {
    /// As [`KeyWriter::live`], for a change of a string in place: an item is a plain string then.
    pub(crate) fn live_text(&mut self, key: &Key<'_>) -> Result<Option<EntryId>, NeedRoom> {
        let found = self.live(key);
        match found {
            Some(id) if self.part().table.entry(id).header().is_item() => self.strip(key, id),
            _ => Ok(found),
        }
    }

    #[cold]
    fn strip(&mut self, key: &Key<'_>, id: EntryId) -> Result<Option<EntryId>, NeedRoom> {
        let entry = self.part().table.entry(id);
        let (value, expiry) = (text_of(&entry).to_vec(), entry.expiry());
        let encoding = encoding_of(&value);
        self.bounded(|writer| writer.put_changed(key, Some(id), &value, encoding, expiry))?;
        // The change that follows may still be refused: others have the same string until then.
        let effect = Effect::Set { key: key.bytes, value: &value, expiry: Expiry::Keep };
        self.record_encoding(EventClass::String, effect);
        Ok(self.live(key))
    }

    fn put_item(
        &mut self,
        key: &Key<'_>,
        found: Option<EntryId>,
        value: &[u8],
        tail: ItemTail,
        expiry: Option<UnixMs>,
    ) -> Result<(), NeedRoom> {
        let like = self.new_value(key, found, value, Encoding::Item, expiry);
        self.put_from(key, found, Source::Tail(&tail.to_bytes()), &like)
    }

    fn tell_item(&mut self, key: &Key<'_>, value: &[u8], tail: ItemTail, at: Option<UnixMs>) {
        if self.shard.sink.is_some() {
            return self.tell_sink_of_item(key, value, tail, at);
        }
        self.changed_by(key, true, (EventClass::String, ITEM_COMMAND), std::iter::empty());
    }

    /// Apart from [`KeyWriter::tell_item`], as it makes texts that nobody reads without a sink.
    #[inline(never)]
    fn tell_sink_of_item(
        &mut self,
        key: &Key<'_>,
        value: &[u8],
        tail: ItemTail,
        at: Option<UnixMs>,
    ) {
        let numbers = [u64::from(tail.flags), tail.unique].map(IntegerText::unsigned);
        let state = ITEM_STATES[usize::from(tail.state())].as_bytes();
        let expires_at = IntegerText::new(at.map_or(0, |at| at.0));
        let [flags, unique] = numbers.each_ref().map(IntegerText::as_bytes);
        let arguments = [flags, unique, state, expires_at.as_bytes(), value].into_iter();
        let named = std::mem::replace(&mut self.event, "set");
        self.changed_by(key, true, (EventClass::String, ITEM_COMMAND), arguments);
        self.event = named;
    }
}

/// Returns the tail of `entry`, where it has one.
pub(crate) fn tail_of(entry: &Entry<'_>) -> Option<ItemTail> {
    item_parts(entry).map(|(_, tail)| tail)
}

/// Returns the value and the tail of `entry`, where it is an item. Of others the value is not
/// touched: one that is adopted has no slice.
#[inline]
fn item_parts<'a>(entry: &Entry<'a>) -> Option<(&'a [u8], ItemTail)> {
    if !entry.header().is_item() {
        return None;
    }
    let (value, tail) = split(entry.value());
    // Others map this memory read-only; what a file has, `from_bytes` has read before.
    Some((value, ItemTail::from_bytes(tail).expect("this process has written it")))
}

/// Returns what a plain string has beside its value: the number changes with its bytes.
fn plain_tail(value: &[u8]) -> ItemTail {
    ItemTail { unique: SecretHasher::new(PLAIN_KEYS).hash(value), ..ItemTail::default() }
}

/// Returns the value of `entry`, without the tail of an item.
pub fn text_of<'a>(entry: &Entry<'a>) -> &'a [u8] {
    if entry.header().is_item() { split(entry.value()).0 } else { entry.value() }
}

/// Returns the string in `entry`, which has not the type of a plain one.
#[cold]
pub(crate) fn text_of_item(entry: Entry<'_>) -> Result<&[u8], WrongType> {
    if entry.header().is_item() { Ok(split(entry.value()).0) } else { Err(WrongType) }
}

/// Returns how the string in `entry`, which is in `encoding`, would be stored without a tail.
pub(crate) fn as_text(encoding: Encoding, entry: &Entry<'_>) -> Encoding {
    if encoding == Encoding::Item { encoding_of(text_of(entry)) } else { encoding }
}

#[inline]
fn split(value: &[u8]) -> (&[u8], &[u8]) {
    value.split_at(value.len() - ITEM_TAIL_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_is_read_as_it_was_written() {
        let tail = ItemTail { flags: 7, unique: u64::MAX - 1, ..ItemTail::default() };
        let tail = tail.with_state_named(b"making-stale").unwrap();
        assert!(tail.is_stale && tail.is_in_the_making);
        assert_eq!(ItemTail::from_bytes(&tail.to_bytes()), Some(tail));
        assert_eq!(ItemTail::from_bytes(&tail.to_bytes()[1..]), None);
    }
}
