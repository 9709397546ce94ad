//! The replies of SSCAN, HSCAN and ZSCAN: some elements and the cursor to go on with.

use collections::Element;
use resp::Reply;

use crate::handler::element::reply_element;
use crate::parse::scan_options::ScanOptions;

/// A call visits at most this many buckets for each element that it is asked for, as Redis does.
const BUCKETS_PER_ELEMENT: u64 = 10;

/// What one call of a scan has found so far.
pub(crate) struct ScanPage<'p, 'r> {
    options: &'p ScanOptions<'p>,
    reply: &'p mut Reply<'r>,
    visited: u64,
    reply_count: usize,
}

impl ScanPage<'_, '_> {
    /// Counts `name`, which is visited, and returns whether it is wanted.
    pub fn wants(&mut self, name: Element<'_>) -> bool {
        self.visited += 1;
        self.options.pattern.is_none() || name.with_bytes(|name| self.options.wants(name))
    }

    /// Adds a part of the collection.
    pub fn push(&mut self, element: Element<'_>) {
        reply_element(element, self.reply);
        self.reply_count += 1;
    }
}

/// Replies to a scan from `cursor` on. `scan` visits the elements at a cursor, which are few or a
/// whole compact form, and returns the next cursor.
pub(crate) fn reply_scan(
    mut cursor: u64,
    options: &ScanOptions<'_>,
    reply: &mut Reply<'_>,
    mut scan: impl FnMut(u64, &mut ScanPage<'_, '_>) -> u64,
) {
    let (whole, elements) = (reply.deferred(), reply.deferred());
    let mut page = ScanPage { options, reply, visited: 0, reply_count: 0 };
    for _ in 0..=options.count.saturating_mul(BUCKETS_PER_ELEMENT) {
        cursor = scan(cursor, &mut page);
        if cursor == 0 || page.visited >= options.count || page.reply.is_cut() {
            break;
        }
    }
    let count = page.reply_count;
    reply.finish(elements, |reply| reply.array(count));
    reply.finish(whole, |reply| {
        reply.array(2);
        reply.bulk(cursor.to_string());
    });
}

/// Replies to a scan of a key that is not there.
pub(crate) fn reply_scan_of_nothing(reply: &mut Reply<'_>) {
    reply.array(2);
    reply.bulk("0");
    reply.array(0);
}
