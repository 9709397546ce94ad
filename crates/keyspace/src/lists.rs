//! Changing lists: each method is one whole change with its effect.

use base::Key;
use base::number_text::IntegerText;
use collections::{End, List, ListView, Place, Rules};
use effects::EventClass;

use crate::view::WrongType;
use crate::write::{Refusal, WriteView};

/// What a change does where its key is absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenAbsent {
    /// Makes the key.
    Create,
    /// Nothing.
    Skip,
}

/// What an element may take beside its bytes, growth of what holds it included; so does an empty
/// list.
const PART_BYTES: u64 = 128;

/// Returns a bound of what `element` takes within a list.
fn growth_bound(element: &[u8]) -> u64 {
    element.len() as u64 * 5 / 4 + PART_BYTES
}

/// Returns the index of the element at `end` of a list of `length`, which is not empty.
fn index_at(end: End, length: usize) -> usize {
    if end == End::Head { 0 } else { length - 1 }
}

/// What `expect` says of a list that is there.
const NOT_EMPTY: &str = "a list has an element";

/// The class of the keyspace events.
const CLASS: EventClass = EventClass::List;

impl WriteView<'_> {
    /// Adds `elements`, which are not empty, one after the other at `end` of the list at `key`;
    /// returns the length, 0 where there is no list.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn push<'e>(
        &mut self,
        key: &Key<'_>,
        end: End,
        elements: impl Iterator<Item = &'e [u8]> + Clone,
        when_absent: WhenAbsent,
    ) -> Result<usize, Refusal> {
        let mut writer = self.writer(key);
        let found = writer.find::<List>(key)?;
        if found.is_none() && when_absent == WhenAbsent::Skip {
            return Ok(0);
        }
        let limit = writer.shard.rules.limits.list;
        let stored = found.and_then(|id| writer.stored_collection::<List>(id));
        writer.admit(found, || match stored {
            Some(list) => list.growth_bound(end, elements.clone(), limit),
            None => PART_BYTES + List::default().growth_bound(end, elements.clone(), limit),
        })?;
        let add = |list: &mut List| {
            list.prepare(elements.clone(), limit);
            elements.clone().for_each(|element| list.push(end, element, limit));
            list.len()
        };
        let length = match found {
            Some(id) => writer.change_collection(key, id, |list: &mut List, _| add(list))?.0,
            None => {
                let mut list = List::empty_in(writer.take_memory());
                let length = add(&mut list);
                writer.insert_collection(key, list, None)?;
                length
            }
        };
        let name = if end == End::Head { "LPUSH" } else { "RPUSH" };
        writer.changed_by(key, true, (CLASS, name), elements);
        Ok(length)
    }

    /// Takes up to `count` elements, at least one, from `end` of the list at `key`. `read` is
    /// called first, with the list and with how many will go; its result comes back, `None` where
    /// there is no list.
    ///
    /// # Errors
    /// When the key holds another type.
    pub fn pop<R>(
        &mut self,
        key: &Key<'_>,
        end: End,
        count: usize,
        read: impl FnOnce(ListView<'_>, usize) -> R,
    ) -> Result<Option<R>, WrongType> {
        let mut writer = self.writer(key);
        let Some(id) = writer.find::<List>(key)? else { return Ok(None) };
        let ((result, count), exists) =
            writer.shrink_collection(key, id, |list: &mut List, rules| {
                let count = count.min(list.len());
                let result = read(list.view(), count);
                list.remove_end(end, count, rules.limits.list);
                (result, count)
            });
        let name = if end == End::Head { "LPOP" } else { "RPOP" };
        let text = IntegerText::new(count as i64);
        writer.changed_by(key, exists, (CLASS, name), [text.as_bytes()].into_iter());
        Ok(Some(result))
    }

    /// Moves the element at `from` of the list at `key` to `to`; `read` is called with it then, and
    /// its result comes back, `None` where there is no list. One effect, as a pop would remove
    /// a key with one element, and its time to live with it.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn rotate<R>(
        &mut self,
        key: &Key<'_>,
        from: End,
        to: End,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, Refusal> {
        let mut writer = self.writer(key);
        let Some(id) = writer.find::<List>(key)? else { return Ok(None) };
        let limit = writer.shard.rules.limits.list;
        let stored = writer.stored_collection::<List>(id);
        writer.admit(Some(id), || {
            // A small one takes as much as before.
            let Some(list) = stored else { return 0 };
            let element = list.view().get(index_at(from, list.len())).expect(NOT_EMPTY);
            // A listpack of its own may be made for it.
            element.with_bytes(|bytes| {
                PART_BYTES + list.growth_bound(to, std::iter::once(bytes), limit)
            })
        })?;
        let change = |list: &mut List, rules: &Rules| list.rotate(from, to, rules.limits.list);
        let (element, exists) = writer.change_collection(key, id, change)?;
        let result = read(&element.expect(NOT_EMPTY));
        let word = |end| if end == End::Head { b"LEFT".as_slice() } else { b"RIGHT" };
        let arguments = [key.bytes, word(from), word(to)].into_iter();
        writer.changed_by(key, exists, (CLASS, "LMOVE"), arguments);
        Ok(Some(result))
    }

    /// Puts `element` in place of that at `index` of the list at `key`; returns whether there is
    /// one.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn set_element(
        &mut self,
        key: &Key<'_>,
        index: usize,
        element: &[u8],
    ) -> Result<bool, Refusal> {
        let mut writer = self.writer(key);
        let Some(id) = writer.find::<List>(key)? else { return Ok(false) };
        writer.admit(Some(id), || growth_bound(element))?;
        let (is_set, exists) = writer.change_collection(key, id, |list: &mut List, rules| {
            list.set(index, element, rules.limits.list)
        })?;
        if is_set {
            let text = IntegerText::new(index as i64);
            writer.changed_by(key, exists, (CLASS, "LSET"), [text.as_bytes(), element].into_iter());
        }
        Ok(is_set)
    }

    /// Keeps of the list at `key` only `count` elements from `start` on. A list of which nothing
    /// goes has changed too, as in Redis.
    ///
    /// # Errors
    /// When the key holds another type.
    pub fn trim(&mut self, key: &Key<'_>, start: usize, count: usize) -> Result<(), WrongType> {
        let mut writer = self.writer(key);
        let Some(id) = writer.find::<List>(key)? else { return Ok(()) };
        let ((), exists) = writer.shrink_collection(key, id, |list: &mut List, rules| {
            let behind = list.len().saturating_sub(start.saturating_add(count));
            list.remove_end(End::Tail, behind, rules.limits.list);
            list.remove_end(End::Head, start.min(list.len()), rules.limits.list);
        });
        // Nothing is kept by a range that ends before it begins.
        let range = [start as i64, (start + count) as i64 - 1];
        let [start, stop] = if count == 0 { [1, 0] } else { range }.map(IntegerText::new);
        writer.changed_by(
            key,
            exists,
            (CLASS, "LTRIM"),
            [start.as_bytes(), stop.as_bytes()].into_iter(),
        );
        Ok(())
    }

    /// Puts `element` beside the first that is `pivot` in the list at `key`; returns the length,
    /// `None` inside where there is no such element, outside where there is no list.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn insert_element(
        &mut self,
        key: &Key<'_>,
        beside: Place,
        pivot: &[u8],
        element: &[u8],
    ) -> Result<Option<Option<usize>>, Refusal> {
        let mut writer = self.writer(key);
        let Some(id) = writer.find::<List>(key)? else { return Ok(None) };
        writer.admit(Some(id), || growth_bound(element))?;
        let change = |list: &mut List, rules: &Rules| {
            let was_small = list.is_small();
            let is_inserted = list.insert(beside, pivot, element, rules.limits.list);
            (is_inserted.then_some(list.len()), was_small != list.is_small())
        };
        let ((length, is_remade), exists) = writer.change_collection(key, id, change)?;
        let word: &[u8] = if beside == Place::Before { b"BEFORE" } else { b"AFTER" };
        let arguments = [word, pivot, element].into_iter();
        if length.is_some() {
            writer.changed_by(key, exists, (CLASS, "LINSERT"), arguments);
        } else if is_remade {
            writer.reencoded_by(key, (CLASS, "LINSERT"), arguments);
        }
        Ok(Some(length))
    }

    /// Takes up to `count` elements that are `element` out of the list at `key`, from `end` on;
    /// returns how many.
    ///
    /// # Errors
    /// When the key holds another type.
    pub fn remove_elements(
        &mut self,
        key: &Key<'_>,
        end: End,
        count: usize,
        element: &[u8],
    ) -> Result<usize, WrongType> {
        let mut writer = self.writer(key);
        let Some(id) = writer.find::<List>(key)? else { return Ok(0) };
        let (removed, exists) = writer.shrink_collection(key, id, |list: &mut List, rules| {
            list.remove(end, element, count, rules.limits.list)
        });
        if removed > 0 {
            let count = removed as i64;
            let text = IntegerText::new(if end == End::Head { count } else { -count });
            writer.changed_by(key, exists, (CLASS, "LREM"), [text.as_bytes(), element].into_iter());
        }
        Ok(removed)
    }
}
