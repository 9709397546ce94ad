//! Indexes of requests, which count from the end where they are negative.

use std::ops::Range;

/// Returns the part of 0 to `count` from `start` to `stop`, both included.
pub fn index_range(start: i64, stop: i64, count: usize) -> Range<usize> {
    let count = count as i64;
    let absolute = |index: i64| if index < 0 { index.saturating_add(count) } else { index };
    let start = absolute(start).max(0);
    let end = absolute(stop).min(count - 1) + 1;
    if start >= end { 0..0 } else { start as usize..end as usize }
}

/// Returns the index below `count` that `index` means.
pub fn index_of(index: i64, count: usize) -> Option<usize> {
    let index = if index < 0 { index.checked_add(count as i64)? } else { index };
    usize::try_from(index).ok().filter(|&index| index < count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negative_indexes_count_from_the_end() {
        for (start, stop, expected) in [
            (0, -1, 0..5),
            (1, 2, 1..3),
            (-2, -1, 3..5),
            (-100, 100, 0..5),
            (3, 1, 0..0),
            (5, 9, 0..0),
            (-1, -9, 0..0),
            (i64::MIN, i64::MAX, 0..5),
            (i64::MAX, i64::MIN, 0..0),
        ] {
            assert_eq!(index_range(start, stop, 5), expected, "{start} {stop}");
        }
        assert_eq!(index_range(0, -1, 0), 0..0);
        for (index, expected) in [(0, Some(0)), (4, Some(4)), (5, None), (-5, Some(0)), (-6, None)]
        {
            assert_eq!(index_of(index, 5), expected);
        }
        assert_eq!(index_of(i64::MIN, 5), None);
    }
}
