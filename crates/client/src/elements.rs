//! The elements of a reply, in memory that is used again.

use std::ops::Range;

/// Elements of a collection, one after the other, some of them absent: what `hmget` found, say.
///
/// It belongs to the caller, who may use it for one read after the other: once it is large enough,
/// none allocates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Elements {
    bytes: Vec<u8>,
    parts: Vec<Option<Range<usize>>>,
}

impl Elements {
    /// Returns an empty one.
    pub const fn new() -> Elements {
        Elements { bytes: Vec::new(), parts: Vec::new() }
    }

    /// Returns how many bytes of memory it keeps for its elements.
    pub fn bytes_kept(&self) -> usize {
        self.bytes.capacity() + self.parts.capacity() * size_of::<Option<Range<usize>>>()
    }

    /// Returns the number of elements, absent ones among them.
    pub fn len(&self) -> usize {
        self.parts.len()
    }

    /// Returns whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Returns element `index`; `None` where it is absent, or there are not so many.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        let part = self.parts.get(index)?.clone()?;
        Some(&self.bytes[part])
    }

    /// Returns all elements in order, `None` for one that is absent.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Option<&[u8]>> {
        self.parts.iter().map(|part| Some(&self.bytes[part.clone()?]))
    }

    /// Returns the elements that are there, two by two: fields with their values.
    pub fn pairs(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let parts = self.parts.as_chunks::<2>().0;
        let bytes = |part: &Option<Range<usize>>| Some(&self.bytes[part.clone()?]);
        parts.iter().filter_map(move |[one, other]| Some((bytes(one)?, bytes(other)?)))
    }

    /// Removes all elements, and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.parts.clear();
    }

    /// Adds an element.
    pub(crate) fn push(&mut self, element: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(element);
        self.parts.push(Some(start..self.bytes.len()));
    }

    /// Adds an element whose bytes `append` appends.
    ///
    /// # Errors
    /// As `append`.
    pub(crate) fn push_by<E>(
        &mut self,
        append: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        let start = self.bytes.len();
        append(&mut self.bytes)?;
        self.parts.push(Some(start..self.bytes.len()));
        Ok(())
    }

    /// Adds an element that is absent.
    pub(crate) fn push_absent(&mut self) {
        self.parts.push(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_those_that_were_added() {
        let mut elements = Elements::new();
        for _ in 0..2 {
            elements.clear();
            assert!(elements.is_empty() && elements.get(0).is_none());
            elements.push(b"a");
            elements.push_absent();
            elements.push(b"");
            elements.push(b"cc");
            let all: Vec<_> = elements.iter().collect();
            assert_eq!(all, [Some(b"a".as_slice()), None, Some(b""), Some(b"cc")]);
            assert_eq!((elements.len(), elements.get(3)), (4, Some(b"cc".as_slice())));
            assert_eq!((elements.get(1), elements.get(4)), (None, None));
            let pairs: Vec<_> = elements.pairs().collect();
            assert_eq!(pairs, [(b"".as_slice(), b"cc".as_slice())], "half of a pair is none");
        }
    }
}
