//! Whether a connection takes by itself what it posts.
//!
//! Nobody waits for the server then, and it need not be there for each value: it is woken for many
//! at once, and sleeps in between. It would otherwise be awake on the other processor, and where
//! that is another thread of the same core, whatever runs beside one that polls takes half as long
//! again and more.

use std::collections::VecDeque;

/// Values in a row that a connection has taken by itself, after which the next are said to be for
/// itself, too.
const ROW_MIN: u32 = 16;
/// Each value that was for somebody else makes the row twice as long that is waited for, up to
/// this: such a value may come a millisecond late.
const ROW_MAX: u32 = 1 << 12;
/// Keys that are remembered: more values at once are for others.
const KEYS_MAX: usize = 64;

/// What one connection knows of the values that it has posted.
#[derive(Debug)]
pub struct OwnTakes {
    /// The keys that it has posted and not taken, the latest last, and how large the buffer of each
    /// is that has one.
    keys: VecDeque<(Vec<u8>, Option<usize>)>,
    /// Values in a row that it has taken itself.
    row: u32,
    row_min: u32,
    /// The most that were there when it took one of the row: so many it posts before it takes.
    depth: usize,
}

impl OwnTakes {
    /// Returns what is known of a new connection.
    pub fn new() -> OwnTakes {
        OwnTakes { keys: VecDeque::new(), row: 0, row_min: ROW_MIN, depth: 0 }
    }

    /// Notes that `key` is posted, in a buffer of `buffer_bytes` if in any; returns whether this
    /// connection will most likely take it.
    pub fn note_post(&mut self, key: &[u8], buffer_bytes: Option<usize>) -> bool {
        let is_row = self.row >= self.row_min;
        let is_own = is_row && self.keys.len() < self.depth;
        let ends_row = is_row && !is_own;
        if ends_row {
            self.row_min = (2 * self.row_min).min(ROW_MAX);
        }
        if ends_row || self.keys.len() == KEYS_MAX {
            self.forget();
        }
        self.keys.push_back((key.to_vec(), buffer_bytes));
        is_own
    }

    /// Returns how many values it posts before it takes them.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Returns how many values it has posted and not taken.
    pub fn untaken_count(&self) -> usize {
        self.keys.len()
    }

    /// Notes that this connection takes `key`; returns how large its buffer is, where it has posted
    /// it in one.
    pub fn note_take(&mut self, key: &[u8]) -> Option<usize> {
        // Mostly the latest, or the first of some that were posted together.
        let place = match self.keys.back() {
            Some((latest, _)) if latest == key => self.keys.len() - 1,
            _ => self.keys.iter().position(|(posted, _)| posted == key)?,
        };
        self.depth = self.depth.max(self.keys.len());
        self.row = (self.row + 1).min(ROW_MAX);
        self.keys.remove(place).and_then(|(_, buffer_bytes)| buffer_bytes)
    }

    /// Begins anew: this connection waits for a reply.
    pub fn forget(&mut self) {
        self.keys.clear();
        (self.row, self.depth) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Posts `count` values and takes them, in their order; returns how many were said to be own.
    fn cycle(takes: &mut OwnTakes, count: u32) -> usize {
        let keys: Vec<_> = (0..count).map(u32::to_le_bytes).collect();
        let own = keys.iter().filter(|key| takes.note_post(*key, None)).count();
        for key in &keys {
            takes.note_take(key);
        }
        own
    }

    #[test]
    fn who_takes_its_values_is_known_after_a_row_of_them() {
        for count in [1, 10, KEYS_MAX as u32] {
            let mut takes = OwnTakes::new();
            let rounds = ROW_MIN.div_ceil(count);
            assert_eq!((0..rounds).map(|_| cycle(&mut takes, count)).sum::<usize>(), 0);
            assert_eq!(cycle(&mut takes, count), count as usize);
        }
        let mut takes = OwnTakes::new();
        let own = (0..9).map(|_| cycle(&mut takes, KEYS_MAX as u32 + 1)).sum::<usize>();
        assert_eq!(own, 0, "more than are remembered");
        takes.note_post(b"own", Some(8192));
        assert_eq!([(); 2].map(|()| takes.note_take(b"own")), [Some(8192), None]);
    }

    #[test]
    fn value_that_another_takes_ends_the_row_and_makes_the_next_longer() {
        let mut takes = OwnTakes::new();
        for row in [ROW_MIN, 2 * ROW_MIN, 4 * ROW_MIN] {
            // The one behind the last row counts.
            (takes.row..row).for_each(|_| assert_eq!(cycle(&mut takes, 1), 0));
            assert_eq!(cycle(&mut takes, 1), 1);
            assert!(takes.note_post(b"for another", None), "nothing tells");
            assert!(!takes.note_post(b"next", None), "the one before is still there");
            takes.note_take(b"next");
        }
    }

    #[test]
    fn who_waits_for_a_reply_begins_anew() {
        let mut takes = OwnTakes::new();
        (0..ROW_MIN).for_each(|_| assert_eq!(cycle(&mut takes, 1), 0));
        takes.forget();
        (0..ROW_MIN).for_each(|_| assert_eq!(cycle(&mut takes, 1), 0));
        assert_eq!(cycle(&mut takes, 1), 1);
    }
}
