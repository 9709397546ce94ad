//! Queries of sets.

use arena::ValueType;
use collections::{Compact, SetView};
use resp::Value as Reply;

use super::replies::{array, fill, flag};
use super::{Query, Words, rules};
use crate::answers::length;
use crate::elements::Elements;
use crate::error::ClientError;

/// SISMEMBER.
pub struct HasMember<'a> {
    pub member: &'a [u8],
}

/// SMISMEMBER.
pub struct HasMembers<'a> {
    pub members: &'a [&'a [u8]],
    pub answers: &'a mut Vec<bool>,
}

/// SMEMBERS.
pub struct Members<'a> {
    pub members: &'a mut Elements,
}

/// SCARD.
pub struct MemberCount;

impl Query for HasMember<'_> {
    const TYPE: ValueType = ValueType::Set;
    type Answer = bool;

    fn absent(&mut self) -> bool {
        false
    }

    fn compact(&mut self, compact: Compact<'_>) -> Option<bool> {
        Some(SetView::of_compact(compact).contains(self.member, rules()))
    }

    fn request<'a>(&'a self, key: &'a [u8]) -> Words<'a> {
        vec![b"SISMEMBER".into(), key.into(), self.member.into()]
    }

    fn replied(&mut self, reply: Reply) -> Result<bool, ClientError> {
        flag(&reply)
    }
}

impl Query for HasMembers<'_> {
    const TYPE: ValueType = ValueType::Set;
    type Answer = ();

    fn is_refused(&self) -> bool {
        self.members.is_empty()
    }

    fn absent(&mut self) {
        self.answers.clear();
        self.answers.resize(self.members.len(), false);
    }

    fn compact(&mut self, compact: Compact<'_>) -> Option<()> {
        let set = SetView::of_compact(compact);
        self.answers.clear();
        self.answers.extend(self.members.iter().map(|member| set.contains(member, rules())));
        Some(())
    }

    fn request<'a>(&'a self, key: &'a [u8]) -> Words<'a> {
        let members = self.members.iter().map(|member| (*member).into());
        [b"SMISMEMBER".into(), key.into()].into_iter().chain(members).collect()
    }

    fn replied(&mut self, reply: Reply) -> Result<(), ClientError> {
        self.answers.clear();
        for part in array(reply)? {
            self.answers.push(flag(&part)?);
        }
        Ok(())
    }
}

impl Query for Members<'_> {
    const TYPE: ValueType = ValueType::Set;
    type Answer = ();

    fn absent(&mut self) {
        self.members.clear();
    }

    fn compact(&mut self, compact: Compact<'_>) -> Option<()> {
        self.members.clear();
        SetView::of_compact(compact)
            .for_each(|member| member.with_bytes(|bytes| self.members.push(bytes)));
        Some(())
    }

    fn request<'a>(&'a self, key: &'a [u8]) -> Words<'a> {
        vec![b"SMEMBERS".into(), key.into()]
    }

    fn replied(&mut self, reply: Reply) -> Result<(), ClientError> {
        fill(self.members, reply)
    }
}

impl Query for MemberCount {
    const TYPE: ValueType = ValueType::Set;
    type Answer = u64;

    fn absent(&mut self) -> u64 {
        0
    }

    fn compact(&mut self, compact: Compact<'_>) -> Option<u64> {
        Some(SetView::of_compact(compact).len() as u64)
    }

    fn counted(&mut self, count: u64) -> Option<u64> {
        Some(count)
    }

    fn request<'a>(&'a self, key: &'a [u8]) -> Words<'a> {
        vec![b"SCARD".into(), key.into()]
    }

    fn replied(&mut self, reply: Reply) -> Result<u64, ClientError> {
        length(&reply)
    }
}
