//! How long each type stays in its compact form: the options of Redis of the same names.

use base::SecretHasher;

/// What collections need to know from outside.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// How long each type stays compact.
    pub limits: Limits,
    /// Hashes the members of large collections.
    pub hasher: SecretHasher,
}

/// The bounds of the compact forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// `list-max-listpack-size`.
    pub list: ListLimit,
    /// `hash-max-listpack-entries`: pairs of a field and its value.
    pub hash_entries: u64,
    /// `hash-max-listpack-value`: bytes of a field or value.
    pub hash_value_bytes: u64,
    /// `set-max-intset-entries`.
    pub set_integers: u64,
    /// `set-max-listpack-entries`.
    pub set_entries: u64,
    /// `set-max-listpack-value`: bytes of a member.
    pub set_value_bytes: u64,
    /// `zset-max-listpack-entries`.
    pub sorted_set_entries: u64,
    /// `zset-max-listpack-value`: bytes of a member.
    pub sorted_set_value_bytes: u64,
    /// `stream-node-max-bytes`: of one listpack of a stream; 0 is as many as one can have.
    pub stream_node_bytes: u64,
    /// `stream-node-max-entries`: of one listpack of a stream; 0 is any number.
    pub stream_node_entries: u64,
    /// `hll-sparse-max-bytes`: of a sparse HyperLogLog, its header included.
    pub sparse_bytes: u64,
}

impl Default for Limits {
    /// The defaults of Redis 7.2.
    fn default() -> Limits {
        Limits {
            list: ListLimit(-2),
            hash_entries: 512,
            hash_value_bytes: 64,
            set_integers: 512,
            set_entries: 128,
            set_value_bytes: 64,
            sorted_set_entries: 128,
            sorted_set_value_bytes: 64,
            stream_node_bytes: 4096,
            stream_node_entries: 100,
            sparse_bytes: 3000,
        }
    }
}

/// The bound of one listpack of a list, as `list-max-listpack-size` says it: a number of elements
/// where it is positive, else a size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListLimit(pub i32);

impl ListLimit {
    /// The sizes of -1 to -5.
    const SIZES: [usize; 5] = [4096, 8192, 16_384, 32_768, 65_536];
    /// Where elements are counted, their bytes stay below this.
    const SAFE_BYTES: usize = 8192;

    /// Returns whether a listpack of `count` elements and `bytes` bytes is too large.
    ///
    /// Source: Redis 7.2, `quicklistNodeExceedsLimit`.
    #[inline]
    pub fn is_exceeded_by(self, bytes: usize, count: usize) -> bool {
        match self.bounds() {
            (Some(bytes_max), _) => bytes > bytes_max,
            (None, count_max) => bytes > ListLimit::SAFE_BYTES || count > count_max,
        }
    }

    /// Returns whether a listpack of `count` elements and `bytes` bytes is at most half full.
    ///
    /// Source: Redis 7.2, `listTypeTryConvertQuicklist` when it shrinks.
    pub fn is_half_full(self, bytes: usize, count: usize) -> bool {
        match self.bounds() {
            (Some(bytes_max), _) => bytes <= bytes_max / 2,
            (None, count_max) => count <= count_max / 2,
        }
    }

    /// Returns whether one listpack of `count` elements and `bytes` bytes may be a whole list.
    ///
    /// Source: Redis 7.2, `listTypeTryConvertQuicklist` when it does not shrink.
    pub fn holds(self, bytes: usize, count: usize) -> bool {
        match self.bounds() {
            (Some(bytes_max), _) => bytes <= bytes_max,
            (None, count_max) => count <= count_max,
        }
    }

    /// Returns a bound of how many listpacks `count` elements fill, each added behind the last,
    /// that are `bytes` bytes as one listpack.
    pub fn pack_count_max(self, count: usize, bytes: usize) -> usize {
        /// A listpack is full where another element would bring its bytes above the bound. What an
        /// element is taken for beside what it then is: its frame, and a number's digits.
        const ESTIMATE_BYTES_MAX: usize = 64;
        let (bytes_max, count_max) = self.bounds();
        let bytes_max = bytes_max.unwrap_or(ListLimit::SAFE_BYTES) - ESTIMATE_BYTES_MAX;
        // One that is full by its bytes and the next have more than one may have.
        count.min(count / count_max + 2 * bytes / bytes_max + 2)
    }

    fn bounds(self) -> (Option<usize>, usize) {
        match self.0 {
            count @ 1.. => (None, count as usize),
            0 => (None, 1),
            size => {
                let index = (size.unsigned_abs() as usize - 1).min(ListLimit::SIZES.len() - 1);
                (Some(ListLimit::SIZES[index]), usize::MAX)
            }
        }
    }
}
