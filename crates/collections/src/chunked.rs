//! An array that grows a piece at a time: no growth copies more than one small piece.

use crate::heap_bytes;

/// Items of a piece, as a power of two.
const CHUNK_BITS: usize = 9;
pub(crate) const CHUNK_ITEMS: usize = 1 << CHUNK_BITS;

/// An array of pieces. The first piece grows as a vector does, later ones are made whole.
pub struct Chunked<T> {
    chunks: Vec<Vec<T>>,
    len: usize,
}

impl<T> Default for Chunked<T> {
    fn default() -> Chunked<T> {
        Chunked { chunks: Vec::new(), len: 0 }
    }
}

impl<T: Clone> Clone for Chunked<T> {
    /// The pieces of the copy are made whole too.
    fn clone(&self) -> Chunked<T> {
        let chunks = self.chunks.iter().enumerate().map(|(index, chunk)| {
            let capacity = if index == 0 { chunk.len() } else { CHUNK_ITEMS };
            let mut copy = Vec::with_capacity(capacity);
            copy.extend_from_slice(chunk);
            copy
        });
        Chunked { chunks: chunks.collect(), len: self.len }
    }
}

impl<T> Chunked<T> {
    /// Returns the number of items.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the item at `index`.
    ///
    /// # Panics
    /// When there is none.
    #[inline]
    pub fn get(&self, index: usize) -> &T {
        &self.chunks[index >> CHUNK_BITS][index & (CHUNK_ITEMS - 1)]
    }

    /// As [`Chunked::get`], to change it.
    ///
    /// # Panics
    /// When there is none.
    #[inline]
    pub fn get_mut(&mut self, index: usize) -> &mut T {
        &mut self.chunks[index >> CHUNK_BITS][index & (CHUNK_ITEMS - 1)]
    }

    /// Adds an item behind the last.
    pub fn push(&mut self, item: T) {
        if self.len == self.chunks.len() * CHUNK_ITEMS {
            let is_first = self.chunks.is_empty();
            // Most arrays have one piece only.
            self.chunks.reserve_exact(usize::from(is_first));
            let capacity = if is_first { 0 } else { CHUNK_ITEMS };
            self.chunks.push(Vec::with_capacity(capacity));
        }
        self.chunks.last_mut().expect("a piece has room").push(item);
        self.len += 1;
    }

    /// Takes the last item.
    pub fn pop(&mut self) -> Option<T> {
        let chunk = self.chunks.last_mut()?;
        let item = chunk.pop();
        self.len -= usize::from(item.is_some());
        if chunk.is_empty() {
            self.chunks.pop();
            if self.chunks.len() * 4 < self.chunks.capacity() {
                self.chunks.shrink_to(2 * self.chunks.len());
            }
        } else if self.len < CHUNK_ITEMS / 4 && chunk.len() * 4 < chunk.capacity() {
            chunk.shrink_to(2 * chunk.len());
        }
        item
    }

    /// Returns the bytes of memory that the pieces take. Costs a few loads.
    #[inline]
    pub fn memory_bytes(&self) -> u64 {
        let list = heap_bytes(self.chunks.capacity() * size_of::<Vec<T>>());
        // All but the first are whole.
        let first = self.chunks.first().map_or(0, |chunk| chunk.capacity());
        let whole = heap_bytes(CHUNK_ITEMS * size_of::<T>());
        let rest = (self.chunks.len() as u64).saturating_sub(1) * whole;
        list + heap_bytes(first * size_of::<T>()) + rest
    }

    /// Returns the items in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(items: &Chunked<u64>) {
        let pieces = items.chunks.iter().map(|chunk| heap_bytes(8 * chunk.capacity()));
        let list = heap_bytes(items.chunks.capacity() * size_of::<Vec<u64>>());
        assert_eq!(items.memory_bytes(), list + pieces.sum::<u64>());
    }

    #[test]
    fn memory_is_exact_for_copies_that_grow_too() {
        let mut items = Chunked::default();
        for number in 0..3000_u64 {
            items.push(number);
            check(&items);
            if number % 100 == 0 {
                let mut copy = items.clone();
                check(&copy);
                (0..600).for_each(|more| copy.push(more));
                check(&copy);
            }
        }
        while items.pop().is_some() {
            check(&items);
        }
    }
}
