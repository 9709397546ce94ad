//! Queries of hashes.

use arena::ValueType;
use base::ChangingBytes;
use collections::{Compact, HashView, ListpackSearch, NEEDLES_AT_ONCE, Nonsense};
use resp::Value as Reply;

use super::replies::{fill, flag};
use super::{Query, Words};
use crate::answers::{fill_one, length};
use crate::elements::Elements;
use crate::error::ClientError;

/// HGET: the value of a field is copied to the caller's memory; whether there is one.
pub struct GetField<'a> {
    pub field: &'a [u8],
    pub value: &'a mut Vec<u8>,
}

/// HMGET.
pub struct GetFields<'a> {
    pub fields: &'a [&'a [u8]],
    pub values: &'a mut Elements,
}

/// HGETALL, HKEYS and HVALS.
pub struct GetAll<'a> {
    pub part: Part,
    pub elements: &'a mut Elements,
}

/// What of each field is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Both,
    Field,
    Value,
}

/// HEXISTS.
pub struct HasField<'a> {
    pub field: &'a [u8],
}

/// HSTRLEN.
pub struct FieldLength<'a> {
    pub field: &'a [u8],
}

/// HLEN.
pub struct FieldCount;

impl Query for GetField<'_> {
    const TYPE: ValueType = ValueType::Hash;
    type Answer = bool;

    fn absent(&mut self) -> bool {
        self.value.clear();
        false
    }

    fn searches_in_place(&self) -> bool {
        true
    }

    #[inline(always)]
    fn search<B: ChangingBytes>(&mut self, pack: ListpackSearch<B>) -> Result<bool, Nonsense> {
        self.value.clear();
        match pack.value(self.field)? {
            Some(value) => pack.append_to(&value, self.value).map(|()| true),
            None => Ok(false),
        }
    }

    fn request<'a>(&'a self, key: &'a [u8]) -> Words<'a> {
        vec![b"HGET".into(), key.into(), self.field.into()]
    }

    fn replied(&mut self, reply: Reply) -> Result<bool, ClientError> {
        fill_one(self.value, reply)
    }
}

impl Query for GetFields<'_> {
    const TYPE: ValueType = ValueType::Hash;
    type Answer = ();

    fn is_refused(&self) -> bool {
        self.fields.is_empty()
    }

    fn absent(&mut self) {
        self.values.clear();
        self.fields.iter().for_each(|_| self.values.push_absent());
    }

    /// A walk over many more would begin anew too often where a writer is busy.
    fn searches_in_place(&self) -> bool {
        self.fields.len() <= NEEDLES_AT_ONCE
    }

    #[inline]
    fn search<B: ChangingBytes>(&mut self, pack: ListpackSearch<B>) -> Result<(), Nonsense> {
        self.values.clear();
        pack.values(self.fields, |value| match value {
            Some(value) => self.values.push_by(|bytes| pack.append_to(&value, bytes)),
            None => {
                self.values.push_absent();
                Ok(())
            }
        })
    }

    fn request<'a>(&'a self, key: &'a [u8]) -> Words<'a> {
        let fields = self.fields.iter().map(|field| (*field).into());
        [b"HMGET".into(), key.into()].into_iter().chain(fields).collect()
    }

    fn replied(&mut self, reply: Reply) -> Result<(), ClientError> {
        fill(self.values, reply)
    }
}

impl Query for GetAll<'_> {
    const TYPE: ValueType = ValueType::Hash;
    type Answer = ();

    fn absent(&mut self) {
        self.elements.clear();
    }

    fn compact(&mut self, compact: Compact<'_>) -> Option<()> {
        self.elements.clear();
        HashView::of_compact(compact).for_each(|field, value| {
            if self.part != Part::Value {
                field.with_bytes(|bytes| self.elements.push(bytes));
            }
            if self.part != Part::Field {
                value.with_bytes(|bytes| self.elements.push(bytes));
            }
        });
        Some(())
    }

    fn request<'a>(&'a self, key: &'a [u8]) -> Words<'a> {
        let name: &[u8] = match self.part {
            Part::Both => b"HGETALL",
            Part::Field => b"HKEYS",
            Part::Value => b"HVALS",
        };
        vec![name.into(), key.into()]
    }

    fn replied(&mut self, reply: Reply) -> Result<(), ClientError> {
        fill(self.elements, reply)
    }
}

impl Query for HasField<'_> {
    const TYPE: ValueType = ValueType::Hash;
    type Answer = bool;

    fn absent(&mut self) -> bool {
        false
    }

    fn searches_in_place(&self) -> bool {
        true
    }

    fn search<B: ChangingBytes>(&mut self, pack: ListpackSearch<B>) -> Result<bool, Nonsense> {
        Ok(pack.value(self.field)?.is_some())
    }

    fn request<'a>(&'a self, key: &'a [u8]) -> Words<'a> {
        vec![b"HEXISTS".into(), key.into(), self.field.into()]
    }

    fn replied(&mut self, reply: Reply) -> Result<bool, ClientError> {
        flag(&reply)
    }
}

impl Query for FieldLength<'_> {
    const TYPE: ValueType = ValueType::Hash;
    type Answer = u64;

    fn absent(&mut self) -> u64 {
        0
    }

    fn searches_in_place(&self) -> bool {
        true
    }

    fn search<B: ChangingBytes>(&mut self, pack: ListpackSearch<B>) -> Result<u64, Nonsense> {
        Ok(pack.value(self.field)?.map_or(0, |value| value.byte_count() as u64))
    }

    fn request<'a>(&'a self, key: &'a [u8]) -> Words<'a> {
        vec![b"HSTRLEN".into(), key.into(), self.field.into()]
    }

    fn replied(&mut self, reply: Reply) -> Result<u64, ClientError> {
        length(&reply)
    }
}

impl Query for FieldCount {
    const TYPE: ValueType = ValueType::Hash;
    type Answer = u64;

    fn absent(&mut self) -> u64 {
        0
    }

    fn searches_in_place(&self) -> bool {
        true
    }

    fn search<B: ChangingBytes>(&mut self, pack: ListpackSearch<B>) -> Result<u64, Nonsense> {
        pack.pair_count()
    }

    fn counted(&mut self, count: u64) -> Option<u64> {
        Some(count)
    }

    fn request<'a>(&'a self, key: &'a [u8]) -> Words<'a> {
        vec![b"HLEN".into(), key.into()]
    }

    fn replied(&mut self, reply: Reply) -> Result<u64, ClientError> {
        length(&reply)
    }
}
