//! A consumer that follows the changes of an embedded instance as they happen. A server's consumers
//! take [`Runtime::backlog`](crate::Runtime::backlog) themselves.

use effects::{Change, Consumer, Filter, Lost, RecordHeader, RecordView};

use crate::embedded::Embedded;

/// About how many bytes of records are read at a time.
const READ_BYTES: usize = 64 * 1024;

/// The changes of an instance, from a position of its own on. Whoever follows them keeps nobody
/// waiting: one that is slower than the backlog is long loses changes, and is told.
pub struct Changes {
    consumer: Consumer,
    filter: Filter,
    bytes: Vec<u8>,
}

impl Embedded {
    /// Returns the changes that `filter` accepts, from now on. The first call makes the instance
    /// keep its latest changes, which takes memory.
    pub fn changes(&self, filter: Filter) -> Changes {
        Changes { consumer: self.runtime.backlog().consumer(), filter, bytes: Vec::new() }
    }
}

impl Changes {
    /// Hands `visit` each change that happened since the last call, in order, with the head of its
    /// record: what has one LSN happened at once. Returns how many there were.
    ///
    /// # Errors
    /// When changes that were not read are not kept any more. What is kept can be followed by
    /// another call of [`Embedded::changes`]; what happened before it has to be read as data.
    pub fn read(&mut self, mut visit: impl FnMut(&RecordHeader, &Change<'_>)) -> Result<u64, Lost> {
        let mut count = 0;
        loop {
            self.bytes.clear();
            if self.consumer.read(READ_BYTES, &mut self.bytes)? == 0 {
                return Ok(count);
            }
            let mut rest = self.bytes.as_slice();
            while !rest.is_empty() {
                let record = RecordView::read(rest).expect("the backlog has whole records");
                let header = record.header();
                if self.filter.may_accept(header) {
                    let wanted = record.changes().filter(|change| self.filter.accepts(change));
                    wanted.for_each(|change| {
                        visit(header, &change);
                        count += 1;
                    });
                }
                rest = &rest[header.length as usize..];
            }
        }
    }
}
