//! How far a walk through the buckets of a table is that changes meanwhile.

/// A walk through the buckets that there were at its begin, each taken once: in turn, or before,
/// where what is in it is about to change.
#[derive(Clone, Debug)]
pub struct BucketWalk {
    bucket_count: u64,
    /// The first that was not gone through in turn.
    next: u64,
    /// A bit for each bucket that was taken.
    taken: Vec<u64>,
}

impl BucketWalk {
    /// Returns a walk through `bucket_count` buckets, of which none was taken.
    pub fn new(bucket_count: u64) -> BucketWalk {
        let taken = vec![0; bucket_count.div_ceil(64) as usize];
        BucketWalk { bucket_count, next: 0, taken }
    }

    /// Returns how many buckets there were.
    #[inline]
    pub fn bucket_count(&self) -> u64 {
        self.bucket_count
    }

    /// Returns whether `bucket` is yet to be taken, and notes that it is.
    #[inline]
    pub fn take(&mut self, bucket: u64) -> bool {
        let (word, bit) = (&mut self.taken[(bucket / 64) as usize], 1 << (bucket % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    /// Goes on to the next bucket in turn, and returns it, taken or not; `None` behind the last.
    #[inline]
    pub fn advance(&mut self) -> Option<u64> {
        let bucket = self.next;
        (bucket < self.bucket_count).then(|| {
            self.next += 1;
            bucket
        })
    }

    /// Returns the bucket that comes in turn after `count` others, unless it was taken.
    #[inline]
    pub fn upcoming(&self, count: u64) -> Option<u64> {
        let bucket = self.next + count;
        let is_new = |bucket: u64| self.taken[(bucket / 64) as usize] >> (bucket % 64) & 1 == 0;
        (bucket < self.bucket_count && is_new(bucket)).then_some(bucket)
    }

    /// Returns the bytes of memory of the bits.
    pub fn taken_bytes(&self) -> usize {
        self.taken.len() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bucket_is_taken_once() {
        let mut walk = BucketWalk::new(130);
        assert!(walk.take(129) && walk.take(64) && !walk.take(129));
        let mut taken = Vec::new();
        assert_eq!(
            [0, 63, 64, 65, 129, 130].map(|count| walk.upcoming(count)),
            [Some(0), Some(63), None, Some(65), None, None]
        );
        while let Some(bucket) = walk.advance() {
            if walk.take(bucket) {
                taken.push(bucket);
            }
        }
        assert_eq!(taken, (0..129).filter(|bucket| *bucket != 64).collect::<Vec<u64>>());
        assert!((0..130).all(|bucket| !walk.take(bucket)));
        assert_eq!((walk.bucket_count(), walk.taken_bytes()), (130, 24));
    }
}
