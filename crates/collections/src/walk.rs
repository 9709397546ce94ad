//! A walk through a large collection as it is at one moment, in pieces, while it is changed.
//!
//! From its begin on the collection gives the walk what it is about to change, where the walk does
//! not have that yet: of a table the entries of one bucket, of a list one of its listpacks. What
//! the walk has of each is noted by how the collection was at the begin: buckets may split and
//! merge meanwhile, and listpacks come and go. A list that is to become compact gives all that is
//! left of it. Where a collection is stored may change: its walk leads through it all the same.
//!
//! Parts are bytes: those of each behind their number, 32 bits. A field of a hash comes before its
//! value, a member of a sorted set before its score; a part of a list is a listpack. Those of a
//! stream are [`StreamPart`](crate::StreamPart)s: its listpacks, then its groups, which are gone
//! through in pieces, too (`stream/walk.rs`).
//!
//! Where fields of a hash expire at the begin, the time of each comes before it, 8 bytes, or none
//! where it has no time. A time that changes gives the bucket of its field, as a value does.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use base::UnixMs;

use crate::collection::{Collection, CollectionView};

/// What the parts of a walk are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkKind {
    /// Listpacks, in order.
    List,
    /// Members, in any order.
    Set,
    /// Fields, each with its value, in any order.
    Hash,
    /// Fields, each with its time, if it has one, and its value, in any order.
    TimedHash {
        /// The first of the times.
        first: UnixMs,
    },
    /// Members, each with its score, in any order.
    SortedSet,
    /// [`StreamPart`](crate::StreamPart)s: listpacks of entries, in order, then what else there is.
    Stream,
}

/// By how many bytes of memory what is kept for a walk has grown.
#[derive(Clone, Copy, Debug)]
pub enum Growth {
    /// Copies of what was about to change.
    Copied(u64),
    /// A part that was removed, and is kept as it was.
    Left(u64),
}

/// Told how what is kept for a walk grows; returns whether the walk wants more, or is given up.
pub type KeptGrowth = Box<dyn Fn(Growth) -> bool + Send + Sync>;

/// What a walk needs no more, to be freed where no shard is locked.
pub type Freed = Box<dyn Send>;

/// What a step of a walk has done beside giving parts.
pub struct WalkStep {
    /// Whether there is no part left.
    pub is_done: bool,
    /// By how many bytes of memory less is kept, as [`Growth`] counted them.
    pub released: KeptBytes,
    /// What was kept and is needed no more.
    pub freed: Vec<Freed>,
}

/// Bytes of memory of what is kept for a walk.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeptBytes {
    /// As [`Growth::Copied`] counts them.
    pub copied: u64,
    /// As [`Growth::Left`] counts them.
    pub left: u64,
}

/// A walk. It does not borrow the collection, which may be changed between two steps.
pub struct Walk {
    keeper: Arc<Keeper>,
    memory_bytes: u64,
}

/// What a walk and its collection share.
pub(crate) struct Keeper {
    kept: Mutex<Kept>,
    growth: KeptGrowth,
    /// Whether the time of each field is given, too: the hash may have lost its last one since, or
    /// got its first.
    pub has_times: bool,
}

/// What changes gave to a walk.
#[derive(Default)]
pub(crate) struct Kept {
    /// Of a table.
    pub parts: Vec<u8>,
    /// The parts of listpacks: of a list by their numbers at the begin, of a stream by their
    /// identities.
    pub packs: BTreeMap<u128, Vec<u8>>,
    /// The bytes of those.
    pack_bytes: usize,
    /// What the collection keeps beside: copies, and parts that were removed.
    beside: KeptBytes,
    /// What it kept and the walk needs no more, and the bytes of that.
    freed: Vec<Freed>,
    released: KeptBytes,
    /// Nothing that the walk needs is left in the collection.
    pub is_whole: bool,
    /// Nobody wants the walk any more, and nothing more is kept for it.
    is_given_up: bool,
}

/// A structure through which a walk leads.
pub(crate) trait Walked {
    /// Begins a walk, in place of any other; returns the bytes of memory that it takes.
    fn begin(&mut self, keeper: Arc<Keeper>) -> u64;

    /// Returns what it shares with the walk that goes on, if one does.
    fn keeper(&self) -> Option<&Arc<Keeper>>;

    /// Appends some more parts to `out`, until there is none or `is_due`, which is asked after
    /// each few; returns whether there is none left.
    fn step(&mut self, is_due: &mut dyn FnMut() -> bool, out: &mut Vec<u8>) -> bool;

    /// Ends the walk; returns what was kept for it in the structure, where that may be long.
    fn end(&mut self) -> Option<Freed>;
}

/// The place of a walk in the structure that it leads through. A copy of that has none.
pub(crate) struct WalkPlace<W>(pub Option<Box<W>>);

impl<W> Default for WalkPlace<W> {
    fn default() -> WalkPlace<W> {
        WalkPlace(None)
    }
}

impl<W> fmt::Debug for WalkPlace<W> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "WalkPlace({})", self.0.is_some())
    }
}

impl<W> Clone for WalkPlace<W> {
    fn clone(&self) -> WalkPlace<W> {
        WalkPlace(None)
    }
}

impl Collection {
    /// Begins a walk through the parts that there are now. The walk is told by `growth` of what
    /// changes give to it.
    ///
    /// # Panics
    /// When [`CollectionView::walk_form`] returns none.
    pub fn begin_walk(&mut self, growth: KeptGrowth) -> Walk {
        let has_times = self.next_expiry().is_some();
        let keeper = Arc::new(Keeper { kept: Mutex::default(), growth, has_times });
        let walked = self.walked().expect("the caller has asked for its form");
        let memory_bytes = walked.begin(Arc::clone(&keeper));
        Walk { keeper, memory_bytes }
    }

    /// Returns whether a walk goes on.
    pub fn is_walked(&mut self) -> bool {
        self.walked().is_some_and(|walked| walked.keeper().is_some())
    }

    /// Ends the walk that goes on, if one does; returns what the collection kept for it.
    #[must_use = "it is to be freed where no shard is locked"]
    pub fn end_walk(&mut self) -> Option<Freed> {
        self.walked()?.end()
    }

    fn walked(&mut self) -> Option<&mut dyn Walked> {
        match self {
            Collection::List(list) => list.walked(),
            Collection::Set(set) => set.walked(),
            Collection::Hash(hash) => hash.walked(),
            Collection::SortedSet(set) => set.walked(),
            Collection::Stream(stream) => Some(stream),
        }
    }
}

impl CollectionView<'_> {
    /// Returns what a walk would give and of how many fields, members or listpacks; none of what is
    /// compact, through which nobody can walk.
    pub fn walk_form(self) -> Option<(WalkKind, usize)> {
        match self {
            _ if self.compact().is_some() => None,
            CollectionView::List(list) => Some((WalkKind::List, list.packs().len())),
            CollectionView::Set(set) => Some((WalkKind::Set, set.len())),
            CollectionView::Hash(hash) if hash.is_small() => None,
            CollectionView::Hash(hash) => {
                let timed = hash.next_expiry().map(|first| WalkKind::TimedHash { first });
                Some((timed.unwrap_or(WalkKind::Hash), hash.len()))
            }
            CollectionView::SortedSet(set) => Some((WalkKind::SortedSet, set.len())),
            CollectionView::Stream(stream) => Some((WalkKind::Stream, stream.log().node_count())),
        }
    }
}

impl Walk {
    /// Returns whether all that is left was given to it: the collection need not be there any more.
    pub fn is_whole(&self) -> bool {
        self.keeper.kept().is_whole
    }

    /// Returns the bytes of memory that it takes, without what changes gave to it.
    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    /// Returns the bytes of memory of what is kept for it, as `growth` was told of them.
    pub fn kept_bytes(&self) -> KeptBytes {
        let kept = self.keeper.kept();
        KeptBytes { copied: kept.part_bytes() + kept.beside.copied, ..kept.beside }
    }

    /// Returns whether it leads through `collection`, which is walked.
    pub fn is_of(&self, collection: &mut Collection) -> bool {
        let walked = collection.walked().and_then(|walked| walked.keeper());
        walked.is_some_and(|keeper| Arc::ptr_eq(keeper, &self.keeper))
    }

    /// Goes on through `collection`, which may be none once the walk [is whole](Walk::is_whole);
    /// hands `give` some more parts. Stops after a few once `is_due`. A walk that is given up gives
    /// nothing and never ends.
    pub fn step(
        &mut self,
        collection: Option<&mut Collection>,
        is_due: &mut dyn FnMut() -> bool,
        give: &mut dyn FnMut(Vec<u8>),
    ) -> WalkStep {
        let mut step =
            WalkStep { is_done: false, released: KeptBytes::default(), freed: Vec::new() };
        if self.keeper.is_given_up() {
            return step;
        }
        let (before, mut out) = (self.keeper.kept().part_bytes(), Vec::new());
        step.is_done = if self.is_whole() {
            self.keeper.kept().put_packs(is_due, &mut out)
        } else {
            let walked = collection.and_then(Collection::walked);
            walked.expect("what is not whole is in the collection").step(is_due, &mut out)
        };
        let kept = &mut *self.keeper.kept();
        let parts = std::mem::take(&mut kept.parts);
        step.freed = std::mem::take(&mut kept.freed);
        step.released = std::mem::take(&mut kept.released);
        step.released.copied += before - kept.part_bytes();
        [parts, out].into_iter().filter(|parts| !parts.is_empty()).for_each(give);
        step
    }
}

impl Keeper {
    pub fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().expect("no holder of what was kept panics")
    }

    /// Has `put` append parts of a table to what is kept.
    pub fn keep_parts(&self, put: impl FnOnce(&mut Vec<u8>)) {
        let mut kept = self.kept();
        if kept.is_given_up {
            return;
        }
        let before = kept.parts.capacity();
        put(&mut kept.parts);
        let grown = kept.parts.capacity() - before;
        kept.is_given_up = !(self.growth)(Growth::Copied(grown as u64));
    }

    /// Keeps the parts that `put` appends for each of some listpacks, by their numbers, but those
    /// that are kept already.
    pub fn keep_packs<P>(
        &self,
        packs: impl Iterator<Item = (u128, P)>,
        put: impl Fn(P, &mut Vec<u8>),
    ) {
        let kept = &mut *self.kept();
        if kept.is_given_up {
            return;
        }
        let before = kept.pack_bytes;
        for (number, pack) in packs {
            if let Entry::Vacant(place) = kept.packs.entry(number) {
                let mut parts = Vec::new();
                put(pack, &mut parts);
                kept.pack_bytes += parts.capacity();
                place.insert(parts);
            }
        }
        let grown = kept.pack_bytes - before;
        kept.is_given_up = !(self.growth)(Growth::Copied(grown as u64));
    }

    /// Returns whether nothing more is to be kept.
    pub fn is_given_up(&self) -> bool {
        self.kept().is_given_up
    }

    /// Notes that the collection keeps more in structures of its own.
    pub fn note_kept(&self, growth: Growth) {
        let mut kept = self.kept();
        match growth {
            Growth::Copied(bytes) => kept.beside.copied += bytes,
            Growth::Left(bytes) => kept.beside.left += bytes,
        }
        kept.is_given_up |= !(self.growth)(growth);
    }

    /// Takes `gone`, which [`Keeper::note_kept`] was told took `bytes`, and the walk needs no more.
    pub fn release(&self, bytes: KeptBytes, gone: Freed) {
        let mut kept = self.kept();
        kept.beside.copied -= bytes.copied;
        kept.beside.left -= bytes.left;
        kept.released.copied += bytes.copied;
        kept.released.left += bytes.left;
        kept.freed.push(gone);
    }
}

impl Kept {
    /// Returns the bytes of memory of the parts that are kept.
    fn part_bytes(&self) -> u64 {
        (self.parts.capacity() + self.pack_bytes) as u64
    }

    /// Takes the first listpack that is kept, with its number, where that is not above `last`.
    pub fn take_pack(&mut self, last: u128) -> Option<(u128, Vec<u8>)> {
        let first = self.packs.first_entry().filter(|first| *first.key() <= last)?;
        let (number, parts) = first.remove_entry();
        self.pack_bytes -= parts.capacity();
        Some((number, parts))
    }

    /// Appends the listpacks that were kept to `out`, in order; returns whether all were.
    fn put_packs(&mut self, is_due: &mut dyn FnMut() -> bool, out: &mut Vec<u8>) -> bool {
        while let Some((_, parts)) = self.take_pack(u128::MAX) {
            out.extend_from_slice(&parts);
            if is_due() {
                break;
            }
        }
        self.packs.is_empty()
    }
}

/// Appends a part to `out`.
pub(crate) fn put_part(part: &[u8], out: &mut Vec<u8>) {
    let length = u32::try_from(part.len()).expect("a part is at most ELEMENT_BYTES_MAX");
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(part);
}

/// Appends the time of a field to `out`, where it has one, as a part.
pub(crate) fn put_time(time: Option<UnixMs>, out: &mut Vec<u8>) {
    let bytes = time.map(|time| time.0.to_le_bytes());
    put_part(bytes.as_ref().map_or(&[], |bytes| bytes), out);
}

/// Returns the time of a field that `part` is, if it has one.
///
/// # Panics
/// When it is another part.
pub fn time_of_part(part: &[u8]) -> Option<UnixMs> {
    let bytes = || part.try_into().expect("a time is a word");
    (!part.is_empty()).then(|| UnixMs(i64::from_le_bytes(bytes())))
}

/// Returns the parts that `bytes` are, which a walk has given.
pub fn walk_parts(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, rest) = bytes.split_first_chunk()?;
        let (part, rest) = rest.split_at(u32::from_le_bytes(*length) as usize);
        bytes = rest;
        Some(part)
    })
}
