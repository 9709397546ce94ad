//! A set of shards, with the rank of each member: the order in which they are locked.

use base::ShardIndex;

/// Bits in a word of the set.
const WORD_BITS: usize = u64::BITS as usize;
/// Words for the most shards that there can be (4096).
const WORD_COUNT: usize = 4096 / WORD_BITS;

/// A set of shard indexes that iterates in ascending order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardSet {
    words: [u64; WORD_COUNT],
    /// No word from here on has a member: servers have few shards, and each request on several
    /// keys makes a set.
    words_used: usize,
}

impl ShardSet {
    /// Returns the empty set.
    pub fn new() -> ShardSet {
        ShardSet { words: [0; WORD_COUNT], words_used: 0 }
    }

    /// Returns the set of `0..count`.
    pub fn first(count: usize) -> ShardSet {
        let mut set = ShardSet::new();
        (0..count).for_each(|index| set.insert(ShardIndex(index as u16)));
        set
    }

    /// Adds `shard`.
    pub fn insert(&mut self, shard: ShardIndex) {
        let word = shard.position() / WORD_BITS;
        self.words[word] |= 1 << (shard.position() % WORD_BITS);
        self.words_used = self.words_used.max(word + 1);
    }

    /// Returns whether `shard` is a member.
    pub fn contains(&self, shard: ShardIndex) -> bool {
        self.words[shard.position() / WORD_BITS] & (1 << (shard.position() % WORD_BITS)) != 0
    }

    /// Returns the number of members.
    pub fn len(&self) -> usize {
        self.used().iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Returns whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.words_used == 0
    }

    fn used(&self) -> &[u64] {
        &self.words[..self.words_used]
    }

    /// Returns the members in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = ShardIndex> + '_ {
        self.used().iter().enumerate().flat_map(|(index, &word)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros() as usize)?;
                rest &= rest - 1;
                Some(ShardIndex((index * WORD_BITS + bit) as u16))
            })
        })
    }
}

impl Default for ShardSet {
    fn default() -> ShardSet {
        ShardSet::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_come_in_ascending_order() {
        let mut set = ShardSet::new();
        assert!(set.is_empty());
        for index in [4095, 0, 63, 64, 64, 127, 700] {
            set.insert(ShardIndex(index));
        }
        let members: Vec<u16> = set.iter().map(|shard| shard.0).collect();
        assert_eq!(members, [0, 63, 64, 127, 700, 4095]);
        assert_eq!(set.len(), 6);
        assert!(set.contains(ShardIndex(700)) && !set.contains(ShardIndex(701)));
        assert_eq!(ShardSet::first(130).iter().map(|s| s.0).collect::<Vec<_>>().len(), 130);
    }
}
