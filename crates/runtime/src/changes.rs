//! A consumer that follows the changes of an embedded instance as they happen. A server's consumers
//! take [`Runtime::backlog`](crate::Runtime::backlog) themselves.

use base::Lsn;
use effects::{Change, Consumer, Filter, Lost, RecordHeader};

use crate::embedded::Embedded;

/// About how many bytes of records are read at a time.
const READ_BYTES: usize = 64 * 1024;

/// The changes of an instance, from a position of its own on. Whoever follows them keeps nobody
/// waiting: one that is slower than the backlog is long loses changes, and is told.
///
/// Who needs the data too calls [`Embedded::changes`] first, then reads the data, then follows: so
/// nothing is missed, and what happened between the two is both in the data and among the changes.
pub struct Changes {
    consumer: Consumer,
    filter: Filter,
    bytes: Vec<u8>,
}

impl Embedded {
    /// Returns the changes that `filter` accepts, from now on. The first call makes the instance
    /// keep its latest changes, which takes memory.
    pub fn changes(&self, filter: Filter) -> Changes {
        Changes::new(self.runtime.backlog().consumer(), filter)
    }

    /// Returns the changes that `filter` accepts and that came behind `position`: where other
    /// [`Changes`] had come to, or [`Lost::oldest`], behind which is all that is kept.
    ///
    /// # Errors
    /// When not all of that is kept, or `position` is in the future. Then what happened before the
    /// oldest that is kept has to be read as data, once there are changes from there on.
    pub fn changes_from(&self, position: Lsn, filter: Filter) -> Result<Changes, Lost> {
        Ok(Changes::new(self.runtime.backlog().consumer_from(position)?, filter))
    }
}

impl Changes {
    fn new(consumer: Consumer, filter: Filter) -> Changes {
        Changes { consumer, filter, bytes: Vec::new() }
    }

    /// Returns the LSN of the last record that was read, or behind which reading began.
    pub fn position(&self) -> Lsn {
        self.consumer.position()
    }

    /// Hands `visit` each change that happened since the last call, in order, with the head of its
    /// record: what has one LSN happened at once. Returns how many there were. Of what happens
    /// meanwhile, by `visit` itself too, most is left for the next call, so that this one ends.
    ///
    /// # Errors
    /// When changes that were not read are not kept any more, and from then on.
    /// [`Embedded::changes_from`] goes on with what is kept.
    pub fn read(&mut self, mut visit: impl FnMut(&RecordHeader, &Change<'_>)) -> Result<u64, Lost> {
        let mut count = 0;
        let end = self.consumer.latest();
        while self.consumer.position() < end {
            self.bytes.clear();
            self.consumer.read(READ_BYTES, &mut self.bytes)?;
            for record in effects::records(&self.bytes) {
                let record = record.expect("the backlog has whole records");
                let header = record.header();
                if !self.filter.may_accept(header) {
                    continue;
                }
                let record = record.read().expect("the backlog has what was written");
                let wanted = record.changes().filter(|change| self.filter.accepts(change));
                wanted.for_each(|change| {
                    visit(header, &change);
                    count += 1;
                });
            }
        }
        Ok(count)
    }
}
