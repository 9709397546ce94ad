//! DEBUG DIGEST and DEBUG DIGEST-VALUE: digests of all data and of single values, as Redis computes
//! them: the same data gives the same 40 digits.
//!
//! Source: Redis 7.2, `debug.c`: `xorDigest`, `mixDigest`, `xorObjectDigest`.

use std::fmt;

use base::number_text::double_in_17_digits;
use collections::{CollectionView, Direction, Stream, StreamId};
use keyspace::{Content, Object, ValueType};
use sha1::{Digest as _, Sha1};

use crate::prelude::*;

pub(super) static DIGEST: Command = Command {
    name: "debug|digest",
    summary: "Returns a digest of all keys, values and times to live.",
    since: "1.0.0",
    complexity: "O(N), N being all keys and the bytes of their values",
    group: Group::Server,
    arity: Arity::exactly(2),
    example: "> SET lake deep\nOK\n> DEBUG DIGEST\nfe3f922150746f39264dcadbd43c272ee97768fd",
    handler: Handler::Control(run_digest),
    ..Command::DEFAULT
};

pub(super) static DIGEST_VALUE: Command = Command {
    name: "debug|digest-value",
    summary: "Returns a digest of the value at each key, its time to live included.",
    since: "5.0.0",
    complexity: "O(N), N being the bytes of the values",
    group: Group::Server,
    arity: Arity::at_least(2),
    args: &[Arg::string("key").multiple()],
    example: "> DEBUG DIGEST-VALUE lake\n1) 0000000000000000000000000000000000000000",
    handler: Handler::Control(run_digest_value),
    ..Command::DEFAULT
};

fn run_digest(
    cx: &mut ControlContext<'_>,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Unfinished> {
    let mut digest = Digest::default();
    for database in cx.access.keyspace().databases() {
        if cx.access.key_count(database) > 0 {
            digest.mix(&[0, 0, 0, database.0]);
            cx.access.for_each_entry(database, &mut |entry| digest.add(&Digest::of_entry(&entry)));
        }
    }
    reply.simple(digest.to_string());
    Ok(())
}

fn run_digest_value(
    cx: &mut ControlContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Unfinished> {
    let (database, now) = (cx.session.database, cx.now);
    let hasher = *cx.access.keyspace().hasher();
    reply.array(args.len() - 2);
    for name in args.from(2) {
        let key = hasher.key(name);
        let digest = cx.access.write(&key, database, now, |view| {
            view.as_read().inspect(&key).map(|entry| Digest::of_value(&entry)).unwrap_or_default()
        });
        reply.simple(digest.to_string());
    }
    Ok(())
}

/// What a value that expires adds to its digest.
const EXPIRES: &[u8] = b"!!expire!!";
/// What a field with a time to live adds.
const FIELD_EXPIRES: &[u8] = b"!!hexpire!!";

/// A SHA-1 sum, or several put together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Digest([u8; 20]);

impl Digest {
    /// Returns the digest of an entry's key and value, as it is added to that of all data.
    fn of_entry(entry: &Object<'_>) -> Digest {
        let mut digest = Digest::default();
        digest.mix(entry.key());
        digest.mix_value(entry);
        Digest::sum(&digest.0)
    }

    /// Returns the digest of an entry's value.
    fn of_value(entry: &Object<'_>) -> Digest {
        let mut digest = Digest::default();
        digest.mix_value(entry);
        digest
    }

    /// Adds what has no order: in any order the result is the same.
    fn add(&mut self, other: &Digest) {
        self.0.iter_mut().zip(other.0).for_each(|(byte, more)| *byte ^= more);
    }

    /// Adds what has an order.
    fn mix(&mut self, bytes: &[u8]) {
        self.add(&Digest::sum(bytes));
        *self = Digest::sum(&self.0);
    }

    fn mix_value(&mut self, entry: &Object<'_>) {
        self.mix(&[0, 0, 0, type_number(entry.value_type())]);
        match entry.content() {
            Content::String(value) => self.mix(&value),
            Content::Collection(CollectionView::List(list)) => {
                list.iter().for_each(|element| element.with_bytes(|bytes| self.mix(bytes)));
            }
            Content::Collection(CollectionView::Set(set)) => {
                set.for_each(|member| self.add(&member.with_bytes(Digest::sum)));
            }
            Content::Collection(CollectionView::Hash(hash)) => {
                hash.for_each_timed(|field, value, time| {
                    let mut pair = Digest::default();
                    field.with_bytes(|bytes| pair.mix(bytes));
                    value.with_bytes(|bytes| pair.mix(bytes));
                    if time.is_some() {
                        pair.add(&Digest::sum(FIELD_EXPIRES));
                    }
                    self.add(&Digest::sum(&pair.0));
                });
            }
            Content::Collection(CollectionView::SortedSet(set)) => {
                set.for_each(0, usize::MAX, Direction::Up, |member, score| {
                    let mut pair = Digest::default();
                    member.with_bytes(|bytes| pair.mix(bytes));
                    pair.mix(double_in_17_digits(score).as_bytes());
                    self.add(&Digest::sum(&pair.0));
                });
            }
            Content::Collection(CollectionView::Stream(_)) => {}
        }
        if let Content::Collection(CollectionView::Stream(stream)) = entry.content() {
            self.mix_entries(stream);
        }
        if entry.expiry().is_some() {
            self.add(&Digest::sum(EXPIRES));
        }
    }

    /// Adds the entries of `stream`.
    fn mix_entries(&mut self, stream: &Stream) {
        let mut entries = stream.log().entries(StreamId::MIN, StreamId::MAX, Direction::Up);
        while let Some(StreamId { ms, sequence }) = entries.advance() {
            self.mix(format!("{ms}.{sequence}").as_bytes());
            while let Some((field, value)) = entries.next_field() {
                field.with_bytes(|bytes| self.mix(bytes));
                value.with_bytes(|bytes| self.mix(bytes));
            }
        }
    }

    fn sum(bytes: &[u8]) -> Digest {
        Digest(Sha1::digest(bytes).into())
    }
}

/// Returns the number of the type as Redis mixes it in.
fn type_number(value_type: ValueType) -> u8 {
    match value_type {
        ValueType::String => 0,
        ValueType::List => 1,
        ValueType::Set => 2,
        ValueType::SortedSet => 3,
        ValueType::Hash => 4,
        // 5 is that of modules.
        ValueType::Stream => 6,
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}
