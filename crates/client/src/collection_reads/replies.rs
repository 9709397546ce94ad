//! What the replies to queries have in common.

use base::number::parse_f64;
use resp::Value as Reply;

use crate::answers::unexpected;
use crate::elements::Elements;
use crate::error::ClientError;

/// Puts the elements of `reply` to `elements`.
pub fn fill(elements: &mut Elements, reply: Reply) -> Result<(), ClientError> {
    elements.clear();
    for part in array(reply)? {
        match part {
            Reply::Bulk(bytes) => elements.push(&bytes),
            Reply::Null => elements.push_absent(),
            other => return Err(unexpected(&other)),
        }
    }
    Ok(())
}

/// Returns the parts of an array, those of a map one after the other.
pub fn array(reply: Reply) -> Result<Vec<Reply>, ClientError> {
    match reply {
        Reply::Array(parts) | Reply::Set(parts) => Ok(parts),
        Reply::Map(pairs) => Ok(pairs.into_iter().flat_map(|(key, value)| [key, value]).collect()),
        other => Err(unexpected(&other)),
    }
}

/// Returns the score that `reply` is, if it is one.
pub fn score(reply: &Reply) -> Result<Option<f64>, ClientError> {
    match reply {
        Reply::Null => Ok(None),
        Reply::Double(score) => Ok(Some(*score)),
        Reply::Bulk(text) => match parse_f64(text) {
            Some(score) => Ok(Some(score)),
            None => Err(unexpected(reply)),
        },
        other => Err(unexpected(other)),
    }
}

/// Returns which of two answers `reply` is.
pub fn flag(reply: &Reply) -> Result<bool, ClientError> {
    match reply {
        Reply::Integer(0) => Ok(false),
        Reply::Integer(1) => Ok(true),
        other => Err(unexpected(other)),
    }
}
