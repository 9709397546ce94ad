//! One element of a collection as a compact form stores it: bytes, or an integer for its decimal
//! text.

use std::cmp::Ordering;

use base::number::parse_i64;
use base::number_text::{INTEGER_TEXT_BYTES_MAX, IntegerText};

/// One part of a collection.
#[derive(Clone, Copy, Debug)]
pub enum Element<'a> {
    Bytes(&'a [u8]),
    /// The integer that its bytes are the one decimal text of.
    Integer(i64),
}

impl<'a> Element<'a> {
    /// Returns `bytes` as an element: the integer that they are the one decimal text of, if any.
    pub fn of(bytes: &'a [u8]) -> Element<'a> {
        integer_of(bytes).map_or(Element::Bytes(bytes), Element::Integer)
    }
}

impl Element<'_> {
    /// Calls `read` with the bytes.
    #[inline]
    pub fn with_bytes<R>(&self, read: impl FnOnce(&[u8]) -> R) -> R {
        match *self {
            Element::Bytes(bytes) => read(bytes),
            Element::Integer(integer) => read(IntegerText::new(integer).as_bytes()),
        }
    }

    /// Returns the integer, where it is stored as one.
    pub(crate) fn integer(&self) -> Option<i64> {
        match *self {
            Element::Integer(integer) => Some(integer),
            Element::Bytes(_) => None,
        }
    }

    /// Returns a copy of the bytes.
    pub fn to_vec(&self) -> Vec<u8> {
        self.with_bytes(<[u8]>::to_vec)
    }

    /// Returns the number of bytes.
    pub fn byte_count(&self) -> usize {
        self.with_bytes(<[u8]>::len)
    }

    /// Returns a bound of the number of bytes, without counting digits.
    #[inline]
    pub fn byte_count_max(&self) -> usize {
        match self {
            Element::Bytes(bytes) => bytes.len(),
            Element::Integer(_) => INTEGER_TEXT_BYTES_MAX,
        }
    }

    /// Compares the bytes with `other`.
    pub fn order(&self, other: &[u8]) -> Ordering {
        self.with_bytes(|bytes| bytes.cmp(other))
    }
}

impl PartialEq for Element<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.with_bytes(|bytes| other.order(bytes)).is_eq()
    }
}

impl Eq for Element<'_> {}

/// What is looked for in a compact form: read once, compared often.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Needle<'a> {
    pub bytes: &'a [u8],
    pub integer: Option<i64>,
}

impl<'a> Needle<'a> {
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Needle<'a> {
        Needle { bytes, integer: integer_of(bytes) }
    }

    /// Returns whether `element` is this.
    #[inline]
    pub fn is(&self, element: Element<'_>) -> bool {
        match element {
            // Members often begin alike, so that the last byte tells most of them apart.
            Element::Bytes(bytes) => {
                self.integer.is_none()
                    && bytes.len() == self.bytes.len()
                    && bytes.last() == self.bytes.last()
                    && bytes == self.bytes
            }
            Element::Integer(integer) => self.integer == Some(integer),
        }
    }
}

/// Returns the integer that `bytes` are the one decimal text of.
#[inline]
pub(crate) fn integer_of(bytes: &[u8]) -> Option<i64> {
    match bytes {
        [b'-' | b'0'..=b'9', ..] if bytes.len() <= INTEGER_TEXT_BYTES_MAX => parse_i64(bytes),
        _ => None,
    }
}
