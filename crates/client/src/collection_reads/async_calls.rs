//! The reads of collections of the asynchronous client.

use collections::Direction;

use super::{SortedSetRange, hash, list, set, sorted_set};
use crate::async_client::AsyncClient;
use crate::elements::Elements;
use crate::error::ClientError;

/// Each as that of [`crate::Client`].
impl AsyncClient {
    /// As [`crate::Client::hget`].
    ///
    /// # Errors
    /// As [`crate::Client::get`].
    pub async fn hget(&self, key: &[u8], field: &[u8]) -> Result<Option<Vec<u8>>, ClientError> {
        let mut value = Vec::new();
        Ok(self.hget_into(key, field, &mut value).await?.then_some(value))
    }

    /// As [`crate::Client::hget_into`].
    ///
    /// # Errors
    /// As [`crate::Client::get`].
    pub async fn hget_into(
        &self,
        key: &[u8],
        field: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<bool, ClientError> {
        self.query(key, hash::GetField { field, value }).await
    }

    /// As [`crate::Client::hmget`].
    ///
    /// # Errors
    /// As [`crate::Client::get`].
    pub async fn hmget(
        &self,
        key: &[u8],
        fields: &[&[u8]],
        values: &mut Elements,
    ) -> Result<(), ClientError> {
        self.query(key, hash::GetFields { fields, values }).await
    }

    /// As [`crate::Client::hgetall`].
    ///
    /// # Errors
    /// As [`crate::Client::get`].
    pub async fn hgetall(&self, key: &[u8], pairs: &mut Elements) -> Result<(), ClientError> {
        self.query(key, hash::GetAll { part: hash::Part::Both, elements: pairs }).await
    }

    /// As [`crate::Client::hkeys`].
    ///
    /// # Errors
    /// As [`crate::Client::get`].
    pub async fn hkeys(&self, key: &[u8], fields: &mut Elements) -> Result<(), ClientError> {
        self.query(key, hash::GetAll { part: hash::Part::Field, elements: fields }).await
    }

    /// As [`crate::Client::hvals`].
    ///
    /// # Errors
    /// As [`crate::Client::get`].
    pub async fn hvals(&self, key: &[u8], values: &mut Elements) -> Result<(), ClientError> {
        self.query(key, hash::GetAll { part: hash::Part::Value, elements: values }).await
    }

    /// As [`crate::Client::hexists`].
    ///
    /// # Errors
    /// As [`crate::Client::get`].
    pub async fn hexists(&self, key: &[u8], field: &[u8]) -> Result<bool, ClientError> {
        self.query(key, hash::HasField { field }).await
    }

    /// As [`crate::Client::hstrlen`].
    ///
    /// # Errors
    /// As [`crate::Client::get`].
    pub async fn hstrlen(&self, key: &[u8], field: &[u8]) -> Result<u64, ClientError> {
        self.query(key, hash::FieldLength { field }).await
    }

    /// As [`crate::Client::hlen`].
    ///
    /// # Errors
    /// As [`crate::Client::get`].
    pub async fn hlen(&self, key: &[u8]) -> Result<u64, ClientError> {
        self.query(key, hash::FieldCount).await
    }

    /// As [`crate::Client::sismember`].
    ///
    /// # Errors
    /// As [`crate::Client::get`].
    pub async fn sismember(&self, key: &[u8], member: &[u8]) -> Result<bool, ClientError> {
        self.query(key, set::HasMember { member }).await
    }

    /// As [`crate::Client::smismember`].
    ///
    /// # Errors
    /// As [`crate::Client::get`].
    pub async fn smismember(
        &self,
        key: &[u8],
        members: &[&[u8]],
        answers: &mut Vec<bool>,
    ) -> Result<(), ClientError> {
        self.query(key, set::HasMembers { members, answers }).await
    }

    /// As [`crate::Client::smembers`].
    ///
    /// # Errors
    /// As [`crate::Client::get`].
    pub async fn smembers(&self, key: &[u8], members: &mut Elements) -> Result<(), ClientError> {
        self.query(key, set::Members { members }).await
    }

    /// As [`crate::Client::scard`].
    ///
    /// # Errors
    /// As [`crate::Client::get`].
    pub async fn scard(&self, key: &[u8]) -> Result<u64, ClientError> {
        self.query(key, set::MemberCount).await
    }

    /// As [`crate::Client::zscore`].
    ///
    /// # Errors
    /// As [`crate::Client::get`].
    pub async fn zscore(&self, key: &[u8], member: &[u8]) -> Result<Option<f64>, ClientError> {
        self.query(key, sorted_set::GetScore { member }).await
    }

    /// As [`crate::Client::zmscore`].
    ///
    /// # Errors
    /// As [`crate::Client::get`].
    pub async fn zmscore(
        &self,
        key: &[u8],
        members: &[&[u8]],
        scores: &mut Vec<Option<f64>>,
    ) -> Result<(), ClientError> {
        self.query(key, sorted_set::GetScores { members, scores }).await
    }

    /// As [`crate::Client::zrank`].
    ///
    /// # Errors
    /// As [`crate::Client::get`].
    pub async fn zrank(&self, key: &[u8], member: &[u8]) -> Result<Option<u64>, ClientError> {
        self.query(key, sorted_set::GetRank { member, direction: Direction::Up }).await
    }

    /// As [`crate::Client::zrevrank`].
    ///
    /// # Errors
    /// As [`crate::Client::get`].
    pub async fn zrevrank(&self, key: &[u8], member: &[u8]) -> Result<Option<u64>, ClientError> {
        self.query(key, sorted_set::GetRank { member, direction: Direction::Down }).await
    }

    /// As [`crate::Client::zrange`].
    ///
    /// # Errors
    /// As [`crate::Client::get`].
    pub async fn zrange(
        &self,
        key: &[u8],
        range: &SortedSetRange,
        members: &mut Elements,
    ) -> Result<(), ClientError> {
        self.query(key, sorted_set::GetRange { range, members, scores: None }).await
    }

    /// As [`crate::Client::zrange_with_scores`].
    ///
    /// # Errors
    /// As [`crate::Client::get`].
    pub async fn zrange_with_scores(
        &self,
        key: &[u8],
        range: &SortedSetRange,
        members: &mut Elements,
        scores: &mut Vec<f64>,
    ) -> Result<(), ClientError> {
        self.query(key, sorted_set::GetRange { range, members, scores: Some(scores) }).await
    }

    /// As [`crate::Client::zcard`].
    ///
    /// # Errors
    /// As [`crate::Client::get`].
    pub async fn zcard(&self, key: &[u8]) -> Result<u64, ClientError> {
        self.query(key, sorted_set::MemberCount).await
    }

    /// As [`crate::Client::lindex`].
    ///
    /// # Errors
    /// As [`crate::Client::get`].
    pub async fn lindex(&self, key: &[u8], index: i64) -> Result<Option<Vec<u8>>, ClientError> {
        let mut element = Vec::new();
        Ok(self.lindex_into(key, index, &mut element).await?.then_some(element))
    }

    /// As [`crate::Client::lindex_into`].
    ///
    /// # Errors
    /// As [`crate::Client::get`].
    pub async fn lindex_into(
        &self,
        key: &[u8],
        index: i64,
        element: &mut Vec<u8>,
    ) -> Result<bool, ClientError> {
        self.query(key, list::GetElement { index, element }).await
    }

    /// As [`crate::Client::lrange`].
    ///
    /// # Errors
    /// As [`crate::Client::get`].
    pub async fn lrange(
        &self,
        key: &[u8],
        start: i64,
        stop: i64,
        elements: &mut Elements,
    ) -> Result<(), ClientError> {
        self.query(key, list::GetRange { start, stop, elements }).await
    }

    /// As [`crate::Client::llen`].
    ///
    /// # Errors
    /// As [`crate::Client::get`].
    pub async fn llen(&self, key: &[u8]) -> Result<u64, ClientError> {
        self.query(key, list::ElementCount).await
    }
}
