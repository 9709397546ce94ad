//! The reads of collections of the client.

use collections::Direction;

use super::{SortedSetRange, hash, list, set, sorted_set};
use crate::client::Client;
use crate::elements::Elements;
use crate::error::ClientError;

/// Reads of collections: over shared memory small ones are read one-sidedly, and the number of
/// elements of any. What is written to memory of the caller replaces what is in it, and means
/// nothing after an error; once it is large enough, nothing is allocated.
impl Client {
    /// Returns a copy of the value of `field` of the hash at `key`; `None` where there is none.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn hget(&self, key: &[u8], field: &[u8]) -> Result<Option<Vec<u8>>, ClientError> {
        let mut value = Vec::new();
        Ok(self.hget_into(key, field, &mut value)?.then_some(value))
    }

    /// Copies the value of `field` of the hash at `key` to `value`, replacing what is in it;
    /// returns whether there is one, and leaves `value` empty where there is none.
    ///
    /// # Errors
    /// As [`Client::get`].
    #[inline]
    pub fn hget_into(
        &self,
        key: &[u8],
        field: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<bool, ClientError> {
        self.query(key, hash::GetField { field, value })
    }

    /// Puts the values of `fields` of the hash at `key` to `values`, in their order.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn hmget(
        &self,
        key: &[u8],
        fields: &[&[u8]],
        values: &mut Elements,
    ) -> Result<(), ClientError> {
        self.query(key, hash::GetFields { fields, values })
    }

    /// Does what [`Client::hget_into`] does, where the server's memory answers: for who may not
    /// wait at this moment. `None` where it does not.
    ///
    /// # Errors
    /// [`ClientError::Refused`] when the key holds another type.
    #[inline]
    pub fn hget_at_once(
        &self,
        key: &[u8],
        field: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<Option<bool>, ClientError> {
        self.query_at_once(key, hash::GetField { field, value })
    }

    /// Does what [`Client::hmget`] does, where the server's memory answers; `None` where it does
    /// not.
    ///
    /// # Errors
    /// As [`Client::hget_at_once`].
    pub fn hmget_at_once(
        &self,
        key: &[u8],
        fields: &[&[u8]],
        values: &mut Elements,
    ) -> Result<Option<()>, ClientError> {
        self.query_at_once(key, hash::GetFields { fields, values })
    }

    /// Puts all fields of the hash at `key` to `pairs`, each with its value behind it.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn hgetall(&self, key: &[u8], pairs: &mut Elements) -> Result<(), ClientError> {
        self.query(key, hash::GetAll { part: hash::Part::Both, elements: pairs })
    }

    /// Puts the names of all fields of the hash at `key` to `fields`.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn hkeys(&self, key: &[u8], fields: &mut Elements) -> Result<(), ClientError> {
        self.query(key, hash::GetAll { part: hash::Part::Field, elements: fields })
    }

    /// Puts the values of all fields of the hash at `key` to `values`.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn hvals(&self, key: &[u8], values: &mut Elements) -> Result<(), ClientError> {
        self.query(key, hash::GetAll { part: hash::Part::Value, elements: values })
    }

    /// Returns whether the hash at `key` has `field`.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn hexists(&self, key: &[u8], field: &[u8]) -> Result<bool, ClientError> {
        self.query(key, hash::HasField { field })
    }

    /// Returns the length of the value of `field` of the hash at `key` in bytes; 0 where there is
    /// none.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn hstrlen(&self, key: &[u8], field: &[u8]) -> Result<u64, ClientError> {
        self.query(key, hash::FieldLength { field })
    }

    /// Returns how many fields the hash at `key` has.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn hlen(&self, key: &[u8]) -> Result<u64, ClientError> {
        self.query(key, hash::FieldCount)
    }

    /// Returns whether the set at `key` has `member`.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn sismember(&self, key: &[u8], member: &[u8]) -> Result<bool, ClientError> {
        self.query(key, set::HasMember { member })
    }

    /// Puts to `answers` for each of `members` whether the set at `key` has it.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn smismember(
        &self,
        key: &[u8],
        members: &[&[u8]],
        answers: &mut Vec<bool>,
    ) -> Result<(), ClientError> {
        self.query(key, set::HasMembers { members, answers })
    }

    /// Puts all members of the set at `key` to `members`, in no order.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn smembers(&self, key: &[u8], members: &mut Elements) -> Result<(), ClientError> {
        self.query(key, set::Members { members })
    }

    /// Returns how many members the set at `key` has.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn scard(&self, key: &[u8]) -> Result<u64, ClientError> {
        self.query(key, set::MemberCount)
    }

    /// Returns the score of `member` of the sorted set at `key`; `None` where there is none.
    ///
    /// # Errors
    /// As [`Client::get`].
    #[inline]
    pub fn zscore(&self, key: &[u8], member: &[u8]) -> Result<Option<f64>, ClientError> {
        self.query(key, sorted_set::GetScore { member })
    }

    /// Puts the scores of `members` of the sorted set at `key` to `scores`, in their order.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn zmscore(
        &self,
        key: &[u8],
        members: &[&[u8]],
        scores: &mut Vec<Option<f64>>,
    ) -> Result<(), ClientError> {
        self.query(key, sorted_set::GetScores { members, scores })
    }

    /// Returns the rank of `member` of the sorted set at `key`: 0 for the lowest score.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn zrank(&self, key: &[u8], member: &[u8]) -> Result<Option<u64>, ClientError> {
        self.query(key, sorted_set::GetRank { member, direction: Direction::Up })
    }

    /// Returns the rank of `member` of the sorted set at `key`: 0 for the highest score.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn zrevrank(&self, key: &[u8], member: &[u8]) -> Result<Option<u64>, ClientError> {
        self.query(key, sorted_set::GetRank { member, direction: Direction::Down })
    }

    /// Puts the members of the sorted set at `key` that are in `range` to `members`, in their
    /// order.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn zrange(
        &self,
        key: &[u8],
        range: &SortedSetRange,
        members: &mut Elements,
    ) -> Result<(), ClientError> {
        self.query(key, sorted_set::GetRange { range, members, scores: None })
    }

    /// As [`Client::zrange`], and puts the score of each to `scores`.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn zrange_with_scores(
        &self,
        key: &[u8],
        range: &SortedSetRange,
        members: &mut Elements,
        scores: &mut Vec<f64>,
    ) -> Result<(), ClientError> {
        self.query(key, sorted_set::GetRange { range, members, scores: Some(scores) })
    }

    /// Returns how many members the sorted set at `key` has.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn zcard(&self, key: &[u8]) -> Result<u64, ClientError> {
        self.query(key, sorted_set::MemberCount)
    }

    /// Returns a copy of the element at `index` of the list at `key`, -1 being the last.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn lindex(&self, key: &[u8], index: i64) -> Result<Option<Vec<u8>>, ClientError> {
        let mut element = Vec::new();
        Ok(self.lindex_into(key, index, &mut element)?.then_some(element))
    }

    /// Copies the element at `index` of the list at `key`, -1 being the last, to `element`,
    /// replacing what is in it; returns whether there is one.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn lindex_into(
        &self,
        key: &[u8],
        index: i64,
        element: &mut Vec<u8>,
    ) -> Result<bool, ClientError> {
        self.query(key, list::GetElement { index, element })
    }

    /// Puts the elements `start..=stop` of the list at `key` to `elements`, counted from the end
    /// where negative.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn lrange(
        &self,
        key: &[u8],
        start: i64,
        stop: i64,
        elements: &mut Elements,
    ) -> Result<(), ClientError> {
        self.query(key, list::GetRange { start, stop, elements })
    }

    /// Returns how many elements the list at `key` has.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn llen(&self, key: &[u8]) -> Result<u64, ClientError> {
        self.query(key, list::ElementCount)
    }
}
