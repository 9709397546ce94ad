//! Values in the order of their identities: pieces of up to 64, and a tree of the pieces.
//!
//! Identities that come in order fill each piece; a value that goes moves no more than a piece. In
//! whatever order they come, each takes no more than one further piece and room for two.

use std::collections::BTreeMap;

use super::id::StreamId;
use crate::heap_bytes;

/// Values of a piece.
const CHUNK_ITEMS: usize = 64;
/// Room that the last piece begins with; then it doubles.
const ROOM_MIN: usize = 4;
/// By how many values others grow, each of which may do so for one value only.
const ROOM_STEP: usize = 2;
/// A bound of what the tree takes for one piece: its nodes are five elevenths full at least.
const TREE_BYTES: u64 = 112;

type Chunk<V> = Vec<(StreamId, V)>;

/// Values by identity.
pub(super) struct IdMap<V> {
    /// By an identity that none of the piece is below.
    chunks: BTreeMap<StreamId, Chunk<V>>,
    len: usize,
    /// What the pieces take.
    bytes: u64,
}

impl<V> Default for IdMap<V> {
    fn default() -> IdMap<V> {
        IdMap { chunks: BTreeMap::new(), len: 0, bytes: 0 }
    }
}

impl<V: Clone> Clone for IdMap<V> {
    /// The pieces of the copy have no spare room.
    fn clone(&self) -> IdMap<V> {
        let chunks = self.chunks.clone();
        let bytes = chunks.values().map(chunk_bytes).sum();
        IdMap { chunks, len: self.len, bytes }
    }
}

impl<V> IdMap<V> {
    /// Returns the number of values.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the bytes of memory that it takes beside itself, without those of the values.
    #[inline]
    pub fn memory_bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the value of `id`.
    #[inline]
    pub fn get(&self, id: StreamId) -> Option<&V> {
        let (_, chunk) = self.chunks.range(..=id).next_back()?;
        let at = position(chunk, id).ok()?;
        Some(&chunk[at].1)
    }

    /// As [`IdMap::get`], to change it.
    #[inline]
    pub fn get_mut(&mut self, id: StreamId) -> Option<&mut V> {
        let (_, chunk) = self.chunks.range_mut(..=id).next_back()?;
        let at = position(chunk, id).ok()?;
        Some(&mut chunk[at].1)
    }

    /// Returns the first value.
    pub fn first(&self) -> Option<(StreamId, &V)> {
        let (_, chunk) = self.chunks.first_key_value()?;
        chunk.first().map(|(id, value)| (*id, value))
    }

    /// Returns the last value.
    #[inline]
    pub fn last(&self) -> Option<(StreamId, &V)> {
        let (_, chunk) = self.chunks.last_key_value()?;
        chunk.last().map(|(id, value)| (*id, value))
    }

    /// As [`IdMap::last`], to change it.
    #[inline]
    pub fn last_mut(&mut self) -> Option<(StreamId, &mut V)> {
        let chunk = self.chunks.last_entry()?.into_mut();
        chunk.last_mut().map(|(id, value)| (*id, value))
    }

    /// Returns the value of `id`, or else that of the greatest identity below.
    #[inline]
    pub fn at_or_below(&self, id: StreamId) -> Option<(StreamId, &V)> {
        for (_, chunk) in self.chunks.range(..=id).rev() {
            // The key of a piece may be below all that it has left.
            if let Some(at) = chunk.partition_point(|(other, _)| *other <= id).checked_sub(1) {
                let (id, value) = &chunk[at];
                return Some((*id, value));
            }
        }
        None
    }

    /// Returns the values from `from` on.
    pub fn range(&self, from: StreamId) -> impl Iterator<Item = (StreamId, &V)> {
        let first = self.chunks.range(..=from).next_back().map_or(from, |(key, _)| *key);
        let items = self.chunks.range(first..).flat_map(move |(key, chunk)| {
            let at = match *key <= from {
                true => chunk.partition_point(|(id, _)| *id < from),
                false => 0,
            };
            &chunk[at..]
        });
        items.map(|(id, value)| (*id, value))
    }

    /// Adds `value`; returns whether `id` is new, and changes nothing where it is not.
    pub fn insert(&mut self, id: StreamId, value: V) -> bool {
        let last = self.chunks.last_entry().filter(|last| *last.key() <= id);
        let is_last = last.is_some();
        let found = match last {
            Some(last) => Some((*last.key(), last.into_mut())),
            None => self.chunks.range_mut(..=id).next_back().map(|(key, chunk)| (*key, chunk)),
        };
        let Some((key, chunk)) = found else {
            self.len += 1;
            self.insert_before(id, value, StreamId::MIN);
            return true;
        };
        let Err(at) = position(chunk, id) else { return false };
        self.len += 1;
        if chunk.len() < CHUNK_ITEMS {
            self.bytes += insert_at(chunk, at, (id, value), is_last);
        } else if at < CHUNK_ITEMS {
            self.divide(key, at, (id, value));
        } else {
            self.insert_before(id, value, key);
        }
        true
    }

    /// Adds `item` at `at` to the piece of `key`, which is full: the later half becomes a piece of
    /// its own.
    fn divide(&mut self, key: StreamId, at: usize, item: (StreamId, V)) {
        let lower = self.chunks.get_mut(&key).expect("the caller has found it");
        self.bytes -= chunk_bytes(lower);
        let mut upper = Vec::with_capacity(CHUNK_ITEMS / 2);
        upper.extend(lower.drain(CHUNK_ITEMS / 2..));
        lower.shrink_to(CHUNK_ITEMS / 2);
        match at.checked_sub(CHUNK_ITEMS / 2) {
            Some(at) => insert_at(&mut upper, at, item, false),
            None => insert_at(lower, at, item, false),
        };
        self.bytes += chunk_bytes(lower);
        self.add_chunk(upper);
    }

    /// Adds `value`, which is behind the piece of `key`, where there is one, and before the next:
    /// it becomes the first of that where there is room.
    fn insert_before(&mut self, id: StreamId, value: V, key: StreamId) {
        let next = self.chunks.range(key..).find(|(other, _)| **other > id);
        let next = next.map(|(next, chunk)| (*next, chunk.len()));
        let Some((next, _)) = next.filter(|(_, len)| *len < CHUNK_ITEMS) else {
            let room = if next.is_some() { ROOM_STEP } else { ROOM_MIN };
            let mut chunk = Vec::with_capacity(room);
            chunk.push((id, value));
            return self.add_chunk(chunk);
        };
        let mut chunk = self.chunks.remove(&next).expect("it was found");
        self.bytes += insert_at(&mut chunk, 0, (id, value), false);
        self.chunks.insert(id, chunk);
    }

    fn add_chunk(&mut self, chunk: Chunk<V>) {
        self.bytes += chunk_bytes(&chunk);
        self.chunks.insert(chunk[0].0, chunk);
    }

    /// Takes the value of `id` out.
    pub fn remove(&mut self, id: StreamId) -> Option<V> {
        let (&key, chunk) = self.chunks.range_mut(..=id).next_back()?;
        let at = position(chunk, id).ok()?;
        let (_, value) = chunk.remove(at);
        self.len -= 1;
        if chunk.is_empty() {
            self.bytes -= chunk_bytes(chunk);
            self.chunks.remove(&key);
        } else if chunk.len() <= CHUNK_ITEMS / 4 {
            self.reduce(key);
        }
        Some(value)
    }

    /// Joins the piece of `key`, which has few values left, with a neighbour that has few too;
    /// gives memory back.
    #[cold]
    fn reduce(&mut self, key: StreamId) {
        let len = self.chunks[&key].len();
        let few = |other: &Chunk<V>| len + other.len() <= CHUNK_ITEMS / 2;
        let next = self.chunks.range(key..).nth(1).filter(|(_, next)| few(next));
        let joined = match self.chunks.range(..key).next_back().filter(|(_, former)| few(former)) {
            Some((&former, _)) => Some((former, key)),
            None => next.map(|(&next, _)| (key, next)),
        };
        let (kept, gone) = joined.map_or((key, None), |(kept, gone)| (kept, Some(gone)));
        let gone = gone.and_then(|gone| self.chunks.remove(&gone)).unwrap_or_default();
        if gone.capacity() > 0 {
            self.bytes -= chunk_bytes(&gone);
        }
        let chunk = self.chunks.get_mut(&kept).expect("it is one of the two");
        let before = chunk_bytes(chunk);
        chunk.reserve_exact(gone.len());
        chunk.extend(gone);
        if chunk.len() < chunk.capacity() / 4 {
            chunk.shrink_to(ROOM_MIN.max(2 * chunk.len()));
        }
        self.bytes = self.bytes + chunk_bytes(chunk) - before;
    }
}

#[inline]
fn position<V>(chunk: &Chunk<V>, id: StreamId) -> Result<usize, usize> {
    // Most come last, and what goes is often first.
    match (chunk.last(), chunk.first()) {
        (Some((last, _)), _) if *last < id => Err(chunk.len()),
        (_, Some((first, _))) if *first == id => Ok(0),
        _ => chunk.binary_search_by(|(other, _)| other.cmp(&id)),
    }
}

/// Puts `item` where the one at `at` is; returns by how many bytes the piece, which may be the last
/// one, has grown.
#[inline]
fn insert_at<V>(chunk: &mut Chunk<V>, at: usize, item: (StreamId, V), is_last: bool) -> u64 {
    let mut growth = 0;
    if chunk.len() == chunk.capacity() {
        let before = heap_bytes(chunk.capacity() * size_of::<(StreamId, V)>());
        let more = if is_last { ROOM_MIN.max(chunk.len()) } else { ROOM_STEP };
        chunk.reserve_exact(more.min(CHUNK_ITEMS - chunk.len()));
        growth = heap_bytes(chunk.capacity() * size_of::<(StreamId, V)>()) - before;
    }
    chunk.insert(at, item);
    growth
}

/// Returns the bytes that a piece takes.
#[inline]
fn chunk_bytes<V>(chunk: &Chunk<V>) -> u64 {
    TREE_BYTES + heap_bytes(chunk.capacity() * size_of::<(StreamId, V)>())
}

#[cfg(test)]
mod tests {
    use base::prng::Prng;

    use super::*;

    fn check(map: &IdMap<u64>, model: &BTreeMap<StreamId, u64>) {
        let bytes: u64 = map.chunks.values().map(chunk_bytes).sum();
        assert_eq!((map.memory_bytes(), map.len()), (bytes, model.len()));
        for (key, chunk) in &map.chunks {
            assert!(!chunk.is_empty() && chunk.len() <= CHUNK_ITEMS && *key <= chunk[0].0);
        }
        assert!(
            map.range(StreamId::MIN)
                .map(|(id, value)| (id, *value))
                .eq(model.iter().map(|(id, value)| (*id, *value)))
        );
    }

    fn act(
        map: &mut IdMap<u64>,
        model: &mut BTreeMap<StreamId, u64>,
        random: &mut Prng,
        span: u64,
    ) {
        let id = StreamId::new(random.below(span), random.below(4));
        assert_eq!(map.get(id), model.get(&id));
        let below = model.range(..=id).next_back().map(|(id, value)| (*id, value));
        assert_eq!(map.at_or_below(id), below);
        let above = model.range(id..).next().map(|(id, value)| (*id, value));
        assert_eq!(map.range(id).next(), above);
        assert_eq!(map.first(), model.first_key_value().map(|(id, value)| (*id, value)));
        assert_eq!(map.last(), model.last_key_value().map(|(id, value)| (*id, value)));
        // It grows and shrinks by turns.
        if random.below(1000) < 500 + if model.len() as u64 > span { 400 } else { 0 } {
            assert_eq!(map.remove(id), model.remove(&id));
        } else {
            let value = random.next();
            let is_new = !model.contains_key(&id);
            model.entry(id).or_insert(value);
            assert_eq!(map.insert(id, value), is_new);
        }
    }

    #[test]
    fn a_map_is_like_a_model() {
        for seed in 0..20 {
            let mut random = Prng::new(seed);
            let (mut map, mut model) = (IdMap::default(), BTreeMap::new());
            let span = [20, 200, 2000][seed as usize % 3];
            for step in 0..if cfg!(miri) { 200 } else { 10_000 } {
                act(&mut map, &mut model, &mut random, span);
                if step % 100 == 0 {
                    check(&map, &model);
                    check(&map.clone(), &model);
                }
            }
            for id in model.keys().copied().collect::<Vec<_>>() {
                assert_eq!(map.remove(id), model.remove(&id));
            }
            check(&map, &model);
            assert_eq!(map.memory_bytes(), 0);
        }
    }

    #[test]
    fn what_comes_in_order_fills_the_pieces() {
        let mut map = IdMap::default();
        (0..10_000).for_each(|ms| assert!(map.insert(StreamId::new(ms, 0), ())));
        assert_eq!(map.chunks.len(), 10_000_usize.div_ceil(CHUNK_ITEMS));
        // All but one of each piece go: few pieces stay.
        (0..10_000).filter(|ms| ms % 64 != 9).for_each(|ms| {
            map.remove(StreamId::new(ms, 0));
        });
        assert!(map.chunks.len() < 40, "{} pieces of {}", map.chunks.len(), map.len());
    }
}
