//! Bytes in a table's entry: in place while they are few, else in a block of their own.

use crate::heap_bytes;

/// The most bytes that stay in place.
const INLINE_BYTES_MAX: usize = 22;

/// Some bytes, 24 bytes wide.
#[derive(Clone)]
pub(crate) enum Blob {
    Inline { length: u8, bytes: [u8; INLINE_BYTES_MAX] },
    Heap(Box<[u8]>),
}

const _: () = assert!(size_of::<Blob>() == 24);

impl Blob {
    /// Returns the bytes of `parts`, one after the other.
    #[inline]
    pub fn of(parts: &[&[u8]]) -> Blob {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if length > INLINE_BYTES_MAX {
            return Blob::Heap(parts.concat().into_boxed_slice());
        }
        let mut bytes = [0; INLINE_BYTES_MAX];
        let mut end = 0;
        for part in parts {
            bytes[end..end + part.len()].copy_from_slice(part);
            end += part.len();
        }
        Blob::Inline { length: length as u8, bytes }
    }

    #[inline]
    pub fn bytes(&self) -> &[u8] {
        match self {
            Blob::Inline { length, bytes } => &bytes[..usize::from(*length)],
            Blob::Heap(bytes) => bytes,
        }
    }

    /// Returns the bytes of memory beyond the entry.
    #[inline]
    pub fn heap_bytes(&self) -> u64 {
        match self {
            Blob::Inline { .. } => 0,
            Blob::Heap(bytes) => heap_bytes(bytes.len()),
        }
    }
}
