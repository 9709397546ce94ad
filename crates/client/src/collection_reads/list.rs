//! Queries of lists.

use arena::ValueType;
use base::index_range::{index_of, index_range};
use collections::{Compact, ListView};
use resp::Value as Reply;

use super::replies::fill;
use super::{Query, Words};
use crate::answers::{fill_one, length};
use crate::elements::Elements;
use crate::error::ClientError;

/// LINDEX: the element is copied to the caller's memory; whether there is one.
pub struct GetElement<'a> {
    pub index: i64,
    pub element: &'a mut Vec<u8>,
}

/// LRANGE.
pub struct GetRange<'a> {
    pub start: i64,
    pub stop: i64,
    pub elements: &'a mut Elements,
}

/// LLEN.
pub struct ElementCount;

impl Query for GetElement<'_> {
    const TYPE: ValueType = ValueType::List;
    type Answer = bool;

    fn absent(&mut self) -> bool {
        self.element.clear();
        false
    }

    fn compact(&mut self, compact: Compact<'_>) -> Option<bool> {
        let list = ListView::of_compact(compact);
        self.element.clear();
        let element = index_of(self.index, list.len()).and_then(|index| list.get(index));
        let Some(element) = element else { return Some(false) };
        element.with_bytes(|bytes| self.element.extend_from_slice(bytes));
        Some(true)
    }

    fn request<'a>(&'a self, key: &'a [u8]) -> Words<'a> {
        vec![b"LINDEX".into(), key.into(), self.index.to_string().into_bytes().into()]
    }

    fn replied(&mut self, reply: Reply) -> Result<bool, ClientError> {
        fill_one(self.element, reply)
    }
}

impl Query for GetRange<'_> {
    const TYPE: ValueType = ValueType::List;
    type Answer = ();

    fn absent(&mut self) {
        self.elements.clear();
    }

    fn compact(&mut self, compact: Compact<'_>) -> Option<()> {
        let list = ListView::of_compact(compact);
        self.elements.clear();
        let range = index_range(self.start, self.stop, list.len());
        list.for_each(range.start, range.len(), |element| {
            element.with_bytes(|bytes| self.elements.push(bytes));
        });
        Some(())
    }

    fn request<'a>(&'a self, key: &'a [u8]) -> Words<'a> {
        let bound = |index: i64| index.to_string().into_bytes().into();
        vec![b"LRANGE".into(), key.into(), bound(self.start), bound(self.stop)]
    }

    fn replied(&mut self, reply: Reply) -> Result<(), ClientError> {
        fill(self.elements, reply)
    }
}

impl Query for ElementCount {
    const TYPE: ValueType = ValueType::List;
    type Answer = u64;

    fn absent(&mut self) -> u64 {
        0
    }

    fn compact(&mut self, compact: Compact<'_>) -> Option<u64> {
        Some(ListView::of_compact(compact).len() as u64)
    }

    fn counted(&mut self, count: u64) -> Option<u64> {
        Some(count)
    }

    fn request<'a>(&'a self, key: &'a [u8]) -> Words<'a> {
        vec![b"LLEN".into(), key.into()]
    }

    fn replied(&mut self, reply: Reply) -> Result<u64, ClientError> {
        length(&reply)
    }
}
