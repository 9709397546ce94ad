//! What a walk through a stream gives, as bytes.
//!
//! ```text
//! 0 | identity 16 | listpack ...
//! 1 | length | first | last | greatest deleted | entries added | groups
//! 2 | last | is known | entries read | entries | name ...
//! 3 | identity 16 | delivered at | deliveries
//! 4 | consumers
//! 5 | seen at | was active | active at | entries | name ...
//! 6 | identity 16
//! ```
//! The first is a byte; numbers have 8 bytes, and those that are not known are 0.

use base::UnixMs;

use super::{LogCounters, StreamId};

const NODE: u8 = 0;
const COUNTERS: u8 = 1;
const GROUP: u8 = 2;
const PENDING: u8 = 3;
const CONSUMERS: u8 = 4;
const CONSUMER: u8 = 5;
const OWNED: u8 = 6;

/// A part of a stream, in the order in which they come: all nodes, the counters, then each group
/// with what is pending in it, the number of its consumers, and each of them with what it has.
///
/// What is pending with nobody comes as that of a consumer without a name, who was never seen where
/// there is none: files know no other way to say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamPart<'a> {
    /// A listpack of entries.
    Node {
        /// The identity that its entries build on.
        key: StreamId,
        /// Its bytes.
        pack: &'a [u8],
    },
    /// What is known of all entries.
    Counters {
        /// How many are there.
        length: u64,
        /// What else is known.
        counters: LogCounters,
        /// How many groups follow.
        group_count: u64,
    },
    /// A group.
    Group {
        /// Its name.
        name: &'a [u8],
        /// The last entry that it has read.
        last_id: StreamId,
        /// How many it has read, if that is known.
        entries_read: Option<u64>,
        /// How many [`StreamPart::Pending`] follow.
        pending_count: u64,
    },
    /// An entry that is pending in the group.
    Pending {
        /// Which.
        id: StreamId,
        /// When it was last delivered.
        delivered_at: UnixMs,
        /// How often.
        delivery_count: u64,
    },
    /// How many consumers of the group follow.
    Consumers(u64),
    /// A consumer.
    Consumer {
        /// Its name.
        name: &'a [u8],
        /// When it last tried to read.
        seen_at: UnixMs,
        /// When it last got something, if it did.
        active_at: Option<UnixMs>,
        /// How many [`StreamPart::Owned`] follow, in any order.
        pending_count: u64,
    },
    /// An entry that is pending with the consumer.
    Owned(StreamId),
}

impl<'a> StreamPart<'a> {
    /// Returns what `part` says, which a walk through a stream has given.
    ///
    /// # Panics
    /// When it is another part.
    pub fn of(part: &'a [u8]) -> StreamPart<'a> {
        let (tag, rest) = part.split_first().expect("a part of a stream has a tag");
        let mut rest = Rest(rest);
        match *tag {
            NODE => StreamPart::Node { key: rest.id(), pack: rest.0 },
            COUNTERS => StreamPart::Counters {
                length: rest.number(),
                counters: LogCounters {
                    first_id: rest.id(),
                    last_id: rest.id(),
                    max_deleted_id: rest.id(),
                    entries_added: rest.number(),
                },
                group_count: rest.number(),
            },
            GROUP => StreamPart::Group {
                last_id: rest.id(),
                entries_read: rest.option(),
                pending_count: rest.number(),
                name: rest.0,
            },
            PENDING => StreamPart::Pending {
                id: rest.id(),
                delivered_at: UnixMs(rest.number() as i64),
                delivery_count: rest.number(),
            },
            CONSUMERS => StreamPart::Consumers(rest.number()),
            CONSUMER => StreamPart::Consumer {
                seen_at: UnixMs(rest.number() as i64),
                active_at: rest.option().map(|at| UnixMs(at as i64)),
                pending_count: rest.number(),
                name: rest.0,
            },
            OWNED => StreamPart::Owned(rest.id()),
            tag => panic!("a part of a stream with tag {tag}"),
        }
    }

    /// Appends it to `out` as a part of a walk.
    pub(super) fn put(self, out: &mut Vec<u8>) {
        let length_at = out.len();
        out.extend_from_slice(&[0; 4]);
        match self {
            StreamPart::Node { key, pack } => {
                out.push(NODE);
                out.extend_from_slice(&key.to_bytes());
                out.extend_from_slice(pack);
            }
            StreamPart::Counters { length, counters, group_count } => {
                let LogCounters { first_id, last_id, max_deleted_id, entries_added } = counters;
                out.push(COUNTERS);
                put_numbers([length], out);
                for id in [first_id, last_id, max_deleted_id] {
                    out.extend_from_slice(&id.to_bytes());
                }
                put_numbers([entries_added, group_count], out);
            }
            StreamPart::Group { name, last_id, entries_read, pending_count } => {
                out.push(GROUP);
                out.extend_from_slice(&last_id.to_bytes());
                put_option(entries_read, out);
                put_numbers([pending_count], out);
                out.extend_from_slice(name);
            }
            StreamPart::Pending { id, delivered_at, delivery_count } => {
                out.push(PENDING);
                out.extend_from_slice(&id.to_bytes());
                put_numbers([delivered_at.0 as u64, delivery_count], out);
            }
            StreamPart::Consumers(count) => {
                out.push(CONSUMERS);
                put_numbers([count], out);
            }
            StreamPart::Consumer { name, seen_at, active_at, pending_count } => {
                out.push(CONSUMER);
                put_numbers([seen_at.0 as u64], out);
                put_option(active_at.map(|at| at.0 as u64), out);
                put_numbers([pending_count], out);
                out.extend_from_slice(name);
            }
            StreamPart::Owned(id) => {
                out.push(OWNED);
                out.extend_from_slice(&id.to_bytes());
            }
        }
        let length = u32::try_from(out.len() - length_at - 4).expect("a part is that long");
        out[length_at..length_at + 4].copy_from_slice(&length.to_le_bytes());
    }
}

fn put_numbers<const N: usize>(numbers: [u64; N], out: &mut Vec<u8>) {
    numbers.into_iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
}

fn put_option(number: Option<u64>, out: &mut Vec<u8>) {
    put_numbers([u64::from(number.is_some()), number.unwrap_or_default()], out);
}

/// What was not read of a part.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (bytes, rest) = self.0.split_first_chunk().expect("a part is whole");
        self.0 = rest;
        *bytes
    }

    fn number(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }

    fn option(&mut self) -> Option<u64> {
        let (is_known, number) = (self.number() > 0, self.number());
        is_known.then_some(number)
    }

    fn id(&mut self) -> StreamId {
        StreamId::from_bytes(self.take())
    }
}
