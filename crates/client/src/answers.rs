//! What replies mean: the values that the operations of both clients return.

use std::time::Duration;

use base::UnixMs;
use resp::Value as Reply;

use crate::attached::Answer;
use crate::error::ClientError;
use crate::value_view::View;

/// How long a key lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeToLive {
    /// There is no such key.
    Absent,
    /// Until it is deleted.
    Endless,
    /// So long from now.
    Left(Duration),
}

impl TimeToLive {
    /// Returns what PTTL's reply says.
    pub fn of_milliseconds(milliseconds: i64) -> TimeToLive {
        match u64::try_from(milliseconds) {
            Ok(left) => TimeToLive::Left(Duration::from_millis(left)),
            Err(_) if milliseconds == -1 => TimeToLive::Endless,
            Err(_) => TimeToLive::Absent,
        }
    }

    /// Returns what an expiry means that was read in the memory; `None` where that had no answer.
    pub fn of_expiry(answer: &Answer<Option<UnixMs>>) -> Option<TimeToLive> {
        match answer {
            Answer::Found(None) => Some(TimeToLive::Endless),
            Answer::Found(Some(at)) => {
                let left = at.0.saturating_sub(sys::clock::realtime().0).max(0);
                Some(TimeToLive::of_milliseconds(left))
            }
            Answer::Absent => Some(TimeToLive::Absent),
            Answer::Unclear => None,
        }
    }
}

/// Returns `reply`, or the error that it is.
pub fn accepted(reply: Reply) -> Result<Reply, ClientError> {
    match reply {
        Reply::Error(text) => Err(ClientError::Refused(String::from_utf8_lossy(&text).into())),
        reply => Ok(reply),
    }
}

/// Returns the value that a reply is, or none.
pub fn bulk(reply: Reply) -> Result<Option<Vec<u8>>, ClientError> {
    match reply {
        Reply::Bulk(bytes) => Ok(Some(bytes)),
        Reply::Null => Ok(None),
        other => Err(unexpected(&other)),
    }
}

/// As [`bulk`], as a view.
pub fn view(reply: Reply) -> Result<Option<View>, ClientError> {
    Ok(bulk(reply)?.map(View::owned))
}

/// Returns the number that a reply is.
pub fn integer(reply: &Reply) -> Result<i64, ClientError> {
    match reply {
        Reply::Integer(number) => Ok(*number),
        other => Err(unexpected(other)),
    }
}

/// Returns the length that a reply is.
pub fn length(reply: &Reply) -> Result<u64, ClientError> {
    u64::try_from(integer(reply)?).map_err(|_| unexpected(reply))
}

/// Returns whether SET has set.
pub fn is_set(reply: &Reply) -> Result<bool, ClientError> {
    match reply {
        Reply::Simple(text) if text == b"OK" => Ok(true),
        Reply::Null => Ok(false),
        other => Err(unexpected(other)),
    }
}

/// The values of several keys, in the order of the keys, as far as the memory has them.
pub struct Gathered {
    values: Vec<Option<View>>,
    /// Where those belong of which the memory says nothing.
    unclear: Vec<usize>,
}

impl Gathered {
    /// Returns what will be the values of `count` keys.
    pub fn for_keys(count: usize) -> Gathered {
        Gathered { values: Vec::with_capacity(count), unclear: Vec::new() }
    }

    /// Adds what the memory says of the next key.
    ///
    /// # Errors
    /// When nothing can be had of any key.
    pub fn add(&mut self, found: Result<Answer<View>, ClientError>) -> Result<(), ClientError> {
        let value = match found {
            Ok(Answer::Found(view)) => Some(view),
            Ok(Answer::Absent) => None,
            // Any other refusal is one of the whole: of a password, say.
            Err(error) if error.code() == Some("WRONGTYPE") => None,
            Ok(Answer::Unclear) => {
                self.push_unclear();
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        self.push(value);
        Ok(())
    }

    /// Has `fill` say of the first keys, of `count` in all, what they have, before anything is said
    /// of one: their values, none at first, and where the memory says nothing. Returns of how many
    /// it does, as `fill` returns it.
    pub fn fill(
        &mut self,
        count: usize,
        fill: impl FnOnce(&mut [Option<View>], &mut Vec<usize>) -> usize,
    ) -> usize {
        assert!(self.values.is_empty(), "these are the first keys");
        self.values.resize_with(count, || None);
        let filled = fill(&mut self.values, &mut self.unclear);
        self.values.truncate(filled);
        filled
    }

    /// Adds the value of the next key, or that it has none.
    #[inline]
    pub fn push(&mut self, value: Option<View>) {
        self.values.push(value);
    }

    /// Adds that the memory says nothing of the next key.
    #[cold]
    pub fn push_unclear(&mut self) {
        self.unclear.push(self.values.len());
        self.values.push(None);
    }

    /// Returns the request for what is missing of `keys`, if anything is.
    pub fn request<'a>(&self, keys: &[&'a [u8]]) -> Option<Vec<&'a [u8]>> {
        let missing = self.unclear.iter().map(|&index| keys[index]);
        (!self.unclear.is_empty())
            .then(|| [b"MGET".as_slice()].into_iter().chain(missing).collect())
    }

    /// Returns the values, with those of the `reply` to the request.
    ///
    /// # Errors
    /// When it is the reply to something else.
    pub fn completed(mut self, reply: Option<Reply>) -> Result<Vec<Option<View>>, ClientError> {
        match reply {
            None => {}
            Some(Reply::Array(replies)) if replies.len() == self.unclear.len() => {
                for (index, reply) in self.unclear.into_iter().zip(replies) {
                    self.values[index] = view(reply)?;
                }
            }
            Some(other) => return Err(unexpected(&other)),
        }
        Ok(self.values)
    }
}

/// Returns the error that `reply` came where another was due.
pub fn unexpected(reply: &Reply) -> ClientError {
    ClientError::Unexpected(format!("{reply:?}"))
}

/// Makes `value` the string that `reply` is, or empty where it is none; returns whether it is one.
pub fn fill_one(value: &mut Vec<u8>, reply: Reply) -> Result<bool, ClientError> {
    value.clear();
    let bytes = bulk(reply)?;
    let is_there = bytes.is_some();
    if let Some(bytes) = bytes {
        *value = bytes;
    }
    Ok(is_there)
}
