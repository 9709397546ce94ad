//! Buffers that a worker lends to connections while they have something to keep.

/// Buffers that are kept for the next connection.
const BUFFERS_MAX: usize = 128;
/// The size of a new buffer, in bytes.
const NEW_BUFFER_BYTES: usize = 16 * 1024;
/// A larger buffer is given back to the system.
const KEPT_BUFFER_BYTES_MAX: usize = 64 * 1024;

/// Empty buffers, the latest used on top: its memory is most likely in the cache.
#[derive(Default)]
pub struct BufferPool {
    buffers: Vec<Vec<u8>>,
}

impl BufferPool {
    /// Returns an empty buffer.
    #[inline]
    pub fn take(&mut self) -> Vec<u8> {
        self.buffers.pop().unwrap_or_else(|| Vec::with_capacity(NEW_BUFFER_BYTES))
    }

    /// Takes a buffer back.
    #[inline]
    pub fn give(&mut self, mut buffer: Vec<u8>) {
        let is_kept = (1..=KEPT_BUFFER_BYTES_MAX).contains(&buffer.capacity());
        if is_kept && self.buffers.len() < BUFFERS_MAX {
            buffer.clear();
            self.buffers.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_and_surplus_buffers_are_not_kept() {
        let mut pool = BufferPool::default();
        pool.give(Vec::with_capacity(KEPT_BUFFER_BYTES_MAX + 1));
        pool.give(Vec::new());
        assert!(pool.buffers.is_empty());
        for _ in 0..BUFFERS_MAX + 5 {
            pool.give(vec![1; 10]);
        }
        assert_eq!(pool.buffers.len(), BUFFERS_MAX);
        assert!(pool.take().is_empty());
    }
}
