//! Sealed shared memory: memfd segments mapped back to back inside one reserved range.
//!
//! The owner maps a segment read-write once and then seals it, so that a process which receives the
//! descriptor can map it for reading only, at the same offset of a range of its own. A descriptor
//! opened read-only would not do: it can be reopened read-write through /proc.

pub mod huge_pages;
pub mod private_copy;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::descriptors::SharedDescriptor;
use huge_pages::{HUGE_PAGE_BYTES, PageState};

/// The range starts at a multiple of this, so that no huge page would reach into two segments.
const RANGE_ALIGNMENT: usize = HUGE_PAGE_BYTES;

/// The seals of a segment whose owner has mapped it: nobody can resize it, write to it through a
/// new mapping, or add and drop seals.
const SEGMENT_SEALS: SealFlags =
    SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::FUTURE_WRITE).union(SealFlags::SEAL);

/// When the pages of a new segment are taken from the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// At first touch. A system without memory kills the process that touches.
    OnTouch,
    /// When the segment is made, so that shortage is an error of `commit`.
    UpFront,
}

/// A range of addresses that nothing else uses, without memory until something is mapped there.
#[derive(Debug)]
struct Reservation {
    /// What the system gave, to be given back whole.
    given: NonNull<u8>,
    given_bytes: usize,
    /// The aligned part that is used.
    base: NonNull<u8>,
    segment_bytes: usize,
    segment_count: usize,
    /// What may be done with addresses that carry no segment.
    idle_access: ProtFlags,
}

// SAFETY: a reservation is two addresses and two sizes; it holds no reference to any memory.
unsafe impl Send for Reservation {}
// SAFETY: as above, and its methods change the address space only through system calls, which
// any thread may make.
unsafe impl Sync for Reservation {}

impl Reservation {
    fn new(
        segment_bytes: u64,
        segment_count: u32,
        idle_access: ProtFlags,
    ) -> io::Result<Reservation> {
        assert!(segment_bytes > 0 && segment_bytes.is_multiple_of(4096), "{segment_bytes}");
        assert!(segment_count > 0, "a range needs a segment");
        let segment_bytes = usize::try_from(segment_bytes).expect("an address has 64 bits");
        let segment_count = segment_count as usize;
        let span = segment_bytes.checked_mul(segment_count).ok_or(io::ErrorKind::InvalidInput)?;
        let given_bytes = span.checked_add(RANGE_ALIGNMENT).ok_or(io::ErrorKind::InvalidInput)?;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
        let given = unsafe {
            rustix::mm::mmap_anonymous(std::ptr::null_mut(), given_bytes, idle_access, flags)
        }?;
        let given = NonNull::new(given.cast::<u8>()).expect("the kernel never maps address 0");
        let skip = given.as_ptr().align_offset(RANGE_ALIGNMENT);
        // SAFETY: `skip` is below RANGE_ALIGNMENT, by which the mapping exceeds the span.
        let base = unsafe { given.add(skip) };
        Ok(Reservation { given, given_bytes, base, segment_bytes, segment_count, idle_access })
    }

    /// Returns the first address of segment `index`.
    fn address(&self, index: u32) -> NonNull<u8> {
        assert!((index as usize) < self.segment_count, "segment {index} is outside the range");
        // SAFETY: by the assertion the product is below the span, which lies inside one mapping
        // from `base` on, and so is below `isize::MAX`.
        unsafe { self.base.add(index as usize * self.segment_bytes) }
    }

    fn map(&self, index: u32, memory: BorrowedFd<'_>, access: ProtFlags) -> io::Result<()> {
        let flags = MapFlags::SHARED | MapFlags::FIXED | MapFlags::NORESERVE;
        let address = self.address(index).as_ptr().cast();
        // SAFETY: the addresses belong to this reservation and carry no memory (the callers map
        // an index only when it is free), so replacing what is mapped there loses nothing.
        unsafe { rustix::mm::mmap(address, self.segment_bytes, access, flags, memory, 0) }?;
        Ok(())
    }

    /// Has a forked child not inherit segment `index`, as far as the system knows how: the child is
    /// not whom its locks keep out.
    fn keep_from_children(&self, index: u32) {
        let address = self.address(index).as_ptr().cast();
        // SAFETY: the addresses belong to this reservation, and nothing changes in this process.
        let _ = unsafe { rustix::mm::madvise(address, self.segment_bytes, Advice::LinuxDontFork) };
    }

    /// Replaces the memory of segment `index` by empty reserved addresses.
    fn clear(&self, index: u32) -> io::Result<()> {
        let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
        let address = self.address(index).as_ptr().cast();
        // SAFETY: the addresses belong to this reservation. It hands out raw pointers only, and
        // whoever follows one promises that the segment is mapped.
        unsafe {
            rustix::mm::mmap_anonymous(address, self.segment_bytes, self.idle_access, flags)
        }?;
        Ok(())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `new` with this very size and is released once; raw
        // pointers into it are their holders' promise.
        let result = unsafe { rustix::mm::munmap(self.given.as_ptr().cast(), self.given_bytes) };
        result.expect("a mapping of this size exists");
    }
}

/// Segments that this process makes and writes, and others may map for reading.
#[derive(Debug)]
pub struct OwnedSegments {
    range: Reservation,
    backing: Backing,
    made: Mutex<Made>,
}

/// What [`OwnedSegments`] has made so far.
#[derive(Debug, Default)]
struct Made {
    /// By index. Few of those that the range has places for exist: a list of all would take 15 MB
    /// for segments of 1 MiB, and a walk over them longer than to send the descriptors of these.
    segments: BTreeMap<u32, Segment>,
    /// The serial number given last.
    serial: u64,
    /// How many segments of this process's own are to find a descriptor whatever else takes some.
    reserved_count: usize,
    /// What keeps descriptors for those of them that do not exist yet.
    spares: Vec<OwnedFd>,
}

/// The memory of a segment that exists.
#[derive(Debug)]
struct Segment {
    memory: SharedDescriptor,
    /// One that others write has none before it is published.
    serial: Option<u64>,
    /// It is for others to write.
    is_offered: bool,
    /// What each 2 MiB of it lie on; nothing where it is smaller than that or offered.
    pages: Box<[PageState]>,
}

impl Made {
    /// Returns memory of `bytes` for a segment of this process's own, with the descriptor of a
    /// spare where no other is left. Another thread may take that one first: then it is the turn of
    /// the next.
    fn new_memory(&mut self, bytes: u64, backing: Backing) -> io::Result<OwnedFd> {
        loop {
            match new_memory("forebay-segment", bytes, backing) {
                Err(error)
                    if error.raw_os_error() == Some(Errno::MFILE.raw_os_error())
                        && self.spares.pop().is_some() => {}
                result => return result,
            }
        }
    }

    /// Has as many spares as segments are reserved and not there, as far as descriptors go: what
    /// is missing is made up for when segments change next.
    fn keep_spares(&mut self) {
        let own = self.segments.values().filter(|segment| !segment.is_offered).count();
        let wanted = self.reserved_count.saturating_sub(own);
        self.spares.truncate(wanted);
        while self.spares.len() < wanted {
            let spare = match self.spares.first() {
                Some(spare) => spare.try_clone(),
                None => std::fs::File::open("/dev/null").map(OwnedFd::from),
            };
            match spare {
                Ok(spare) => self.spares.push(spare),
                Err(_) => return,
            }
        }
    }
}

/// A segment that exists, as other processes are told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveSegment {
    /// Its place in the range.
    pub index: u32,
    /// Counts the segments made, from 1 up: memory made anew at the same place has a new one.
    pub serial: u64,
}

impl OwnedSegments {
    /// Reserves addresses for `segment_count` segments of `segment_bytes` each.
    ///
    /// # Errors
    /// When the address space of the process is limited below that.
    ///
    /// # Panics
    /// When `segment_bytes` is not a power of two of at least 4096, or the count is 0.
    pub fn reserve(
        segment_bytes: u64,
        segment_count: u32,
        backing: Backing,
    ) -> io::Result<OwnedSegments> {
        assert!(segment_bytes.is_power_of_two(), "{segment_bytes}");
        let range = Reservation::new(segment_bytes, segment_count, ProtFlags::empty())?;
        Ok(OwnedSegments { range, backing, made: Mutex::default() })
    }

    /// Returns the first address of the range: page-aligned and constant.
    pub fn base(&self) -> NonNull<u8> {
        self.range.base
    }

    /// Returns the size of the range in bytes.
    pub fn span_bytes(&self) -> u64 {
        (self.range.segment_bytes * self.range.segment_count) as u64
    }

    /// Returns the size of one segment in bytes.
    pub fn segment_bytes(&self) -> u64 {
        self.range.segment_bytes as u64
    }

    /// Makes segment `index`: zeroed memory, mapped read-write here, sealed for everyone else.
    ///
    /// # Errors
    /// When descriptors, address space or (with `Backing::UpFront`) memory are short; nothing
    /// is mapped then.
    ///
    /// # Panics
    /// When the segment exists or lies outside the range.
    pub fn commit(&self, index: u32) -> io::Result<()> {
        let mut made = self.lock();
        assert!(!made.segments.contains_key(&index), "segment {index} exists");
        let descriptor = made.new_memory(self.segment_bytes(), self.backing)?;
        self.range.map(index, descriptor.as_fd(), ProtFlags::READ | ProtFlags::WRITE)?;
        if let Err(error) = rustix::fs::fcntl_add_seals(&descriptor, SEGMENT_SEALS) {
            self.range.clear(index)?;
            return Err(error.into());
        }
        huge_pages::keep_small(&self.range, index);
        self.range.keep_from_children(index);
        made.serial += 1;
        let (memory, serial) = (Arc::new(descriptor), Some(made.serial));
        let pages = PageState::of_new(self.range.segment_bytes);
        made.segments.insert(index, Segment { memory, serial, is_offered: false, pages });
        made.keep_spares();
        Ok(())
    }

    /// Keeps descriptors for `count` segments of this process's own, those included that exist, so
    /// that nothing else takes what its memory needs; as far as there are some left.
    pub fn reserve_descriptors(&self, count: usize) {
        let mut made = self.lock();
        made.reserved_count = count;
        made.keep_spares();
    }

    /// Makes segment `index` for another process to write: zeroed memory, mapped read-only here.
    /// Nobody is told of it before it is published, and it is not there as a whole, nor may it be
    /// read here, before it is sealed.
    ///
    /// # Errors
    /// When descriptors or address space are short; nothing is mapped then.
    ///
    /// # Panics
    /// When the segment exists or lies outside the range.
    pub fn offer(&self, index: u32) -> io::Result<()> {
        let descriptor = new_memory("forebay-upload", self.segment_bytes(), Backing::OnTouch)?;
        rustix::fs::fcntl_add_seals(&descriptor, SealFlags::SHRINK | SealFlags::GROW)?;
        let mut made = self.lock();
        assert!(!made.segments.contains_key(&index), "segment {index} exists");
        self.range.map(index, descriptor.as_fd(), ProtFlags::READ)?;
        let memory = Arc::new(descriptor);
        let pages = Box::default();
        made.segments.insert(index, Segment { memory, serial: None, is_offered: true, pages });
        Ok(())
    }

    /// Checks that the other process has closed segment `index`, which was made for it: only what
    /// maps it for writing already can write it, and nobody takes memory out of it.
    ///
    /// # Errors
    /// `PermissionDenied` where it has not.
    ///
    /// # Panics
    /// When the segment does not exist.
    pub fn check_closed(&self, index: u32) -> io::Result<()> {
        let descriptor = self.descriptor(index).expect("a segment that is offered exists");
        check_closed(&descriptor)
    }

    /// Brings all pages of segment `index`, which the other process has closed, and maps them here.
    /// Takes its time, which is that of zeroing memory.
    ///
    /// # Errors
    /// When memory is short.
    ///
    /// # Panics
    /// When the segment does not exist.
    pub fn populate_pages(&self, index: u32) -> io::Result<()> {
        let descriptor = self.descriptor(index).expect("a segment that is offered exists");
        populate_pages(&self.range, index, &descriptor, Advice::LinuxPopulateRead)
    }

    /// Lets other processes be told of segment `index`, which has been sealed.
    ///
    /// # Panics
    /// When the segment does not exist or has been published.
    pub fn publish(&self, index: u32) {
        let mut made = self.lock();
        made.serial += 1;
        let serial = made.serial;
        let segment = made.segments.get_mut(&index).expect("a segment that is published exists");
        assert!(segment.serial.is_none(), "segment {index} is published twice");
        segment.serial = Some(serial);
        segment.pages = PageState::of_new(self.range.segment_bytes);
    }

    /// Gives the memory of segment `index` back; processes that mapped it keep their view.
    ///
    /// # Panics
    /// When the segment does not exist.
    pub fn retire(&self, index: u32) {
        let mut made = self.lock();
        let segment = made.segments.remove(&index);
        assert!(segment.is_some(), "segment {index} does not exist");
        drop(segment);
        made.keep_spares();
        self.range.clear(index).expect("replacing a mapping by addresses needs no memory");
    }

    /// Returns the descriptor of segment `index` for another process, or none when it was retired.
    pub fn descriptor(&self, index: u32) -> Option<SharedDescriptor> {
        Some(Arc::clone(&self.lock().segments.get(&index)?.memory))
    }

    /// Returns the segments that exist, in the order in which they were made, and descriptors of
    /// the first `count_max` of those whose serial number is above `known`.
    pub fn live_since(
        &self,
        known: u64,
        count_max: usize,
    ) -> (Vec<LiveSegment>, Vec<SharedDescriptor>) {
        let made = self.lock();
        let published = |(&index, segment): (&u32, &Segment)| {
            Some(LiveSegment { index, serial: segment.serial? })
        };
        let mut live: Vec<LiveSegment> = made.segments.iter().filter_map(published).collect();
        live.sort_unstable_by_key(|segment| segment.serial);
        let new = live.iter().filter(|segment| segment.serial > known).take(count_max);
        let new = new.filter_map(|segment| made.segments.get(&segment.index));
        let descriptors = new.map(|segment| Arc::clone(&segment.memory)).collect();
        (live, descriptors)
    }

    fn lock(&self) -> MutexGuard<'_, Made> {
        // Each change of the list is a single assignment, so a panic leaves it whole.
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Another process's segments, mapped for reading at the offsets that they have there.
///
/// All of the range can be read at any time, and is zero where no segment is mapped: whoever
/// follows a reference that has become stale meanwhile reads nonsense but does not fault.
#[derive(Debug)]
pub struct ForeignSegments {
    range: Reservation,
    mapped: Vec<bool>,
}

impl ForeignSegments {
    /// Reserves addresses for `segment_count` segments of `segment_bytes` each.
    ///
    /// # Errors
    /// When the address space of the process is limited below that.
    ///
    /// # Panics
    /// When `segment_bytes` is not a power of two of at least 4096, or the count is 0.
    pub fn reserve(segment_bytes: u64, segment_count: u32) -> io::Result<ForeignSegments> {
        assert!(segment_bytes.is_power_of_two(), "{segment_bytes}");
        let range = Reservation::new(segment_bytes, segment_count, ProtFlags::READ)?;
        let mapped = vec![false; segment_count as usize];
        Ok(ForeignSegments { range, mapped })
    }

    /// Returns the first address of the range: page-aligned and constant.
    pub fn base(&self) -> NonNull<u8> {
        self.range.base
    }

    /// Returns true when segment `index` is mapped.
    pub fn is_mapped(&self, index: u32) -> bool {
        self.mapped.get(index as usize).copied().unwrap_or(false)
    }

    /// Maps `descriptor` as segment `index`. The descriptor may be closed afterwards.
    ///
    /// # Errors
    /// `InvalidInput` when the index is mapped or outside the range, `InvalidData` when the
    /// descriptor is not sealed memory of the segment's size (reading it could then fault).
    pub fn map(&mut self, index: u32, descriptor: impl AsFd) -> io::Result<()> {
        let Some(mapped) = self.mapped.get_mut(index as usize) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        if *mapped {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let seals = rustix::fs::fcntl_get_seals(&descriptor)?;
        let size = rustix::fs::fstat(&descriptor)?.st_size;
        if !seals.contains(SealFlags::SHRINK) || size != self.range.segment_bytes as i64 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.range.map(index, descriptor.as_fd(), ProtFlags::READ)?;
        *mapped = true;
        Ok(())
    }

    /// Takes segment `index` out of the range, if it is there.
    ///
    /// # Errors
    /// When the system refuses; the segment stays mapped then.
    pub fn unmap(&mut self, index: u32) -> io::Result<()> {
        let Some(mapped) = self.mapped.get_mut(index as usize) else { return Ok(()) };
        if *mapped {
            self.range.clear(index)?;
            *mapped = false;
        }
        Ok(())
    }
}

/// Segments in a row that another process has made for this one to write.
#[derive(Debug)]
pub struct WritableSegments {
    range: Reservation,
}

impl WritableSegments {
    /// Maps `descriptors`, each a segment of `segment_bytes`, and closes them for further writers
    /// and seals, for which their owner waits. The descriptors may be closed afterwards.
    ///
    /// # Errors
    /// `InvalidData` when one is not memory of that size that cannot shrink (using it could then
    /// fault), and those of mapping.
    ///
    /// # Panics
    /// When `segment_bytes` is no multiple of 4096 or there are no descriptors.
    pub fn map(segment_bytes: u64, descriptors: &[impl AsFd]) -> io::Result<WritableSegments> {
        let count = u32::try_from(descriptors.len()).expect("descriptors are few");
        let range = Reservation::new(segment_bytes, count, ProtFlags::empty())?;
        for (index, descriptor) in (0_u32..).zip(descriptors) {
            let seals = rustix::fs::fcntl_get_seals(descriptor)?;
            let size = rustix::fs::fstat(descriptor)?.st_size;
            if !seals.contains(SealFlags::SHRINK) || size != range.segment_bytes as i64 {
                return Err(io::ErrorKind::InvalidData.into());
            }
            range.map(index, descriptor.as_fd(), ProtFlags::READ | ProtFlags::WRITE)?;
            close_for_writers(descriptor)?;
        }
        Ok(WritableSegments { range })
    }

    /// Returns the first address: page-aligned and constant.
    pub fn base(&self) -> NonNull<u8> {
        self.range.base
    }

    /// Returns the size in bytes.
    pub fn bytes(&self) -> u64 {
        (self.range.segment_bytes * self.range.segment_count) as u64
    }

    /// Maps the pages themselves, so that the first writes do not fault on each; where the system
    /// cannot, they do.
    pub fn touch(&self) {
        let bytes = self.bytes() as usize;
        // SAFETY: the range is mapped read-write, and this changes no byte of it.
        let _ = unsafe {
            rustix::mm::madvise(self.base().as_ptr().cast(), bytes, Advice::LinuxPopulateWrite)
        };
    }
}

/// Returns `bytes` of new, zeroed, sealable memory that no program can be run from.
///
/// # Errors
/// When descriptors or memory are short.
fn new_memory(name: &str, bytes: u64, backing: Backing) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memory = match rustix::fs::memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        // Kernels before 6.3 do not know the flag.
        Err(Errno::INVAL) => rustix::fs::memfd_create(name, flags),
        result => result,
    }?;
    rustix::fs::ftruncate(&memory, bytes)?;
    if backing == Backing::UpFront {
        rustix::fs::fallocate(&memory, FallocateFlags::empty(), 0, bytes)?;
    }
    Ok(memory)
}

/// Forbids further writable mappings of `memory`, taking pages out of it, and further seals. For
/// the process that others have offered it to, once that has mapped it. Waits for writes to its
/// descriptor that are underway, which whoever makes them can draw out for ever.
///
/// # Errors
/// When that was done before.
pub fn close_for_writers(memory: impl AsFd) -> io::Result<()> {
    let seals = SealFlags::FUTURE_WRITE | SealFlags::SEAL;
    Ok(rustix::fs::fcntl_add_seals(memory, seals)?)
}

/// Checks that another process has closed `memory` for writers. Waits for nobody.
fn check_closed(memory: impl AsFd) -> io::Result<()> {
    match rustix::fs::fcntl_get_seals(memory)?.contains(SEGMENT_SEALS) {
        true => Ok(()),
        false => Err(io::ErrorKind::PermissionDenied.into()),
    }
}

/// Brings all pages of segment `index` of `range`, whose memory is closed for writers. Until it
/// was, pages could be taken out, and one that the system cannot give anew when it is touched would
/// kill this process.
///
/// Not by fallocate(2): that waits for the lock of the file, which a write to the descriptor holds
/// while it waits for the page that it writes from, though it is refused in the end.
fn populate_pages(
    range: &Reservation,
    index: u32,
    memory: impl AsFd,
    advice: Advice,
) -> io::Result<()> {
    let (address, bytes) = (range.address(index).as_ptr().cast(), range.segment_bytes);
    // SAFETY: the segment is mapped, for writing where that is asked for, and this changes nothing
    // but which of its pages are there.
    match unsafe { rustix::mm::madvise(address, bytes, advice) } {
        // Kernels before 5.14 do not know the advice.
        Err(Errno::INVAL) => {
            Ok(rustix::fs::fallocate(memory, FallocateFlags::empty(), 0, bytes as u64)?)
        }
        brought => Ok(brought?),
    }
}

/// A block of memory that two processes write, such as a table of pins.
#[derive(Debug)]
pub struct SharedBlock {
    range: Reservation,
    descriptor: SharedDescriptor,
}

impl SharedBlock {
    /// Makes a zeroed block of `bytes` and maps it read-write; it cannot be resized any more. The
    /// pages of its first `ready_bytes` are there, for as long as no other process knows of it; the
    /// others come with [`SharedBlock::populate_pages`], and are not to be touched here before:
    /// touching one that the system cannot give kills the process.
    ///
    /// # Errors
    /// When descriptors or memory are short.
    ///
    /// # Panics
    /// When `bytes` is not a multiple of 4096, or is 0.
    pub fn create(bytes: u64, ready_bytes: u64) -> io::Result<SharedBlock> {
        assert!(ready_bytes <= bytes, "{ready_bytes} of {bytes}");
        let descriptor = new_memory("forebay-session", bytes, Backing::OnTouch)?;
        if ready_bytes > 0 {
            rustix::fs::fallocate(&descriptor, FallocateFlags::empty(), 0, ready_bytes)?;
        }
        let seals = SealFlags::SHRINK | SealFlags::GROW;
        rustix::fs::fcntl_add_seals(&descriptor, seals)?;
        SharedBlock::map(descriptor, bytes)
    }

    /// Maps a block that another process made, has all of its pages brought, and closes it for
    /// further writers and seals, for which that process waits.
    ///
    /// # Errors
    /// `InvalidData` when the descriptor is not memory of that size that cannot shrink; and when
    /// memory is short.
    ///
    /// # Panics
    /// When `bytes` is not a multiple of 4096, or is 0.
    pub fn open(descriptor: OwnedFd, bytes: u64) -> io::Result<SharedBlock> {
        let seals = rustix::fs::fcntl_get_seals(&descriptor)?;
        let size = rustix::fs::fstat(&descriptor)?.st_size;
        if !seals.contains(SealFlags::SHRINK) || u64::try_from(size) != Ok(bytes) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        // Shortage is an error here; it would be the end of this process where a page is touched.
        rustix::fs::fallocate(&descriptor, FallocateFlags::empty(), 0, bytes)?;
        let block = SharedBlock::map(descriptor, bytes)?;
        close_for_writers(&block)?;
        Ok(block)
    }

    fn map(descriptor: OwnedFd, bytes: u64) -> io::Result<SharedBlock> {
        let range = Reservation::new(bytes, 1, ProtFlags::empty())?;
        range.map(0, descriptor.as_fd(), ProtFlags::READ | ProtFlags::WRITE)?;
        Ok(SharedBlock { range, descriptor: Arc::new(descriptor) })
    }

    /// Returns the descriptor of the memory, for another process.
    pub fn descriptor(&self) -> SharedDescriptor {
        Arc::clone(&self.descriptor)
    }

    /// Returns the first address: page-aligned and constant.
    fn base(&self) -> NonNull<u8> {
        self.range.base
    }

    /// Returns the block as words that the other process may change at any moment.
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the block is mapped read-write for as long as it lives, which the result borrows;
        // its size is a multiple of 4096, its address that of a page, so that the words are aligned
        // and inside. Memory of a file is initialised, and its seals keep it from shrinking.
        // Whoever else has it mapped may write it at any time, which atomics allow; nobody in this
        // process uses it but through them.
        unsafe {
            std::slice::from_raw_parts(self.base().as_ptr().cast(), self.range.segment_bytes / 8)
        }
    }

    /// Returns the size in bytes.
    pub fn bytes(&self) -> u64 {
        self.range.segment_bytes as u64
    }

    /// Checks that the other process has closed the block, as [`SharedBlock::open`] does: nobody
    /// else can map it for writing, or take pages out of it. Waits for nobody: to close it here
    /// would be to wait for the other process.
    ///
    /// # Errors
    /// `PermissionDenied` where it has not.
    pub fn check_closed(&self) -> io::Result<()> {
        check_closed(&self.descriptor)
    }

    /// Brings all pages of a block that the other process has closed. Takes its time, which is that
    /// of zeroing memory.
    ///
    /// # Errors
    /// When memory is short.
    pub fn populate_pages(&self) -> io::Result<()> {
        populate_pages(&self.range, 0, &self.descriptor, Advice::LinuxPopulateWrite)
    }
}

impl AsFd for SharedBlock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    const SEGMENT_BYTES: u64 = 64 * 1024;

    fn segments() -> OwnedSegments {
        OwnedSegments::reserve(SEGMENT_BYTES, 4, Backing::OnTouch).unwrap()
    }

    fn write(base: NonNull<u8>, offset: usize, byte: u8) {
        // SAFETY: the tests write inside segments that they have committed.
        unsafe { base.add(offset).write_volatile(byte) }
    }

    fn read(base: NonNull<u8>, offset: usize) -> u8 {
        // SAFETY: the tests read inside segments that they have mapped.
        unsafe { base.add(offset).read_volatile() }
    }

    #[test]
    fn reader_sees_what_the_owner_writes_at_the_same_offset() {
        let owner = segments();
        owner.commit(2).unwrap();
        let mut reader = ForeignSegments::reserve(SEGMENT_BYTES, 4).unwrap();
        reader.map(2, owner.descriptor(2).unwrap()).unwrap();
        let offset = 2 * SEGMENT_BYTES as usize + 77;
        write(owner.base(), offset, 42);
        assert_eq!(read(reader.base(), offset), 42);
        assert!(reader.is_mapped(2) && !reader.is_mapped(1));
        assert_eq!((read(reader.base(), 0), read(reader.base(), offset * 3 / 2)), (0, 0));
    }

    #[test]
    fn descriptor_cannot_be_mapped_for_writing_nor_resized_nor_reopened_for_writing() {
        use std::os::fd::AsRawFd;
        let owner = segments();
        owner.commit(0).unwrap();
        let descriptor = owner.descriptor(0).unwrap();
        let path = format!("/proc/self/fd/{}", descriptor.as_raw_fd());
        let reopened = std::fs::File::options().read(true).write(true).open(path).unwrap();
        let map = |descriptor: BorrowedFd<'_>| {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            let (null, flags) = (std::ptr::null_mut(), MapFlags::SHARED);
            // SAFETY: a new mapping at an address of the kernel's choice.
            unsafe { rustix::mm::mmap(null, 4096, access, flags, descriptor, 0) }.err()
        };
        assert_eq!(map(descriptor.as_fd()), Some(Errno::PERM));
        assert_eq!(map(reopened.as_fd()), Some(Errno::PERM));
        assert_eq!(rustix::fs::ftruncate(&descriptor, 0).err(), Some(Errno::PERM));
        assert_eq!(rustix::io::pwrite(&descriptor, b"x", 0).err(), Some(Errno::PERM));
        let seals = rustix::fs::fcntl_add_seals(&descriptor, SealFlags::WRITE);
        assert_eq!(seals.err(), Some(Errno::PERM));
    }

    #[test]
    fn forked_child_does_not_inherit_what_its_parent_writes() {
        let owner = segments();
        owner.commit(1).unwrap();
        let mut reader = ForeignSegments::reserve(SEGMENT_BYTES, 4).unwrap();
        reader.map(1, owner.descriptor(1).unwrap()).unwrap();
        let offset = SEGMENT_BYTES as usize;
        write(owner.base(), offset, 5);
        let address = owner.base().addr().get() + offset;
        let is_mapped = move || {
            let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
            let ranges = maps.lines().filter_map(|line| line.split(' ').next()?.split_once('-'));
            let number = |text| usize::from_str_radix(text, 16).unwrap();
            ranges.clone().any(|(from, to)| (number(from)..number(to)).contains(&address))
        };
        assert!(is_mapped());
        let base = reader.base();
        let of_child = move || !is_mapped() && read(base, offset) == 5;
        assert!(crate::fork::run_in_child(of_child).unwrap());
    }

    #[test]
    fn retired_segment_is_zero_when_committed_again_while_a_reader_keeps_the_old_one() {
        let owner = segments();
        owner.commit(1).unwrap();
        let offset = SEGMENT_BYTES as usize;
        write(owner.base(), offset, 9);
        let mut reader = ForeignSegments::reserve(SEGMENT_BYTES, 4).unwrap();
        reader.map(1, owner.descriptor(1).unwrap()).unwrap();
        owner.retire(1);
        assert!(owner.descriptor(1).is_none());
        owner.commit(1).unwrap();
        assert_eq!(read(owner.base(), offset), 0);
        assert_eq!(read(reader.base(), offset), 9);
        reader.unmap(1).unwrap();
        assert_eq!(read(reader.base(), offset), 0, "unmapped memory reads as zero");
        reader.map(1, owner.descriptor(1).unwrap()).unwrap();
        assert_eq!(read(reader.base(), offset), 0);
    }

    #[test]
    fn segments_that_are_reserved_find_descriptors_where_nothing_else_does() {
        let owner = OwnedSegments::reserve(SEGMENT_BYTES, 16, Backing::OnTouch).unwrap();
        owner.commit(0).unwrap();
        owner.reserve_descriptors(3);
        assert_eq!(owner.lock().spares.len(), 2, "one is there");
        owner.offer(9).unwrap();
        assert_eq!(owner.lock().spares.len(), 2, "what others write is not meant");
        owner.commit(1).unwrap();
        owner.retire(0);
        assert_eq!(owner.lock().spares.len(), 2);
        owner.commit(2).unwrap();
        owner.commit(3).unwrap();
        owner.commit(4).unwrap();
        assert_eq!(owner.lock().spares.len(), 0);
        owner.reserve_descriptors(5);
        assert_eq!(owner.lock().spares.len(), 1);
    }

    #[test]
    fn live_segments_are_told_in_the_order_in_which_they_were_made() {
        let owner = segments();
        for index in [2, 0, 1] {
            owner.commit(index).unwrap();
        }
        owner.retire(0);
        owner.commit(0).unwrap();
        let told = |known, count_max| {
            let (live, descriptors) = owner.live_since(known, count_max);
            let live: Vec<_> = live.iter().map(|it| (it.index, it.serial)).collect();
            assert_eq!(live, [(2, 1), (1, 3), (0, 4)]);
            descriptors.len()
        };
        assert_eq!((told(0, 9), told(0, 2), told(1, 9), told(4, 9)), (3, 2, 2, 0));
        write(owner.base(), SEGMENT_BYTES as usize, 7);
        let mut reader = ForeignSegments::reserve(SEGMENT_BYTES, 4).unwrap();
        let (_, descriptors) = owner.live_since(1, 1);
        reader.map(1, &descriptors[0]).unwrap();
        assert_eq!(read(reader.base(), SEGMENT_BYTES as usize), 7);
    }

    #[test]
    fn unsealed_or_wrongly_sized_memory_is_refused_by_a_reader() {
        let mut reader = ForeignSegments::reserve(SEGMENT_BYTES, 4).unwrap();
        let unsealed = new_memory("test", SEGMENT_BYTES, Backing::OnTouch).unwrap();
        let error = reader.map(0, &unsealed).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        let small = OwnedSegments::reserve(4096, 1, Backing::OnTouch).unwrap();
        small.commit(0).unwrap();
        let error = reader.map(0, small.descriptor(0).unwrap()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert_eq!(reader.map(4, &unsealed).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn shared_block_is_written_by_both_sides_and_closed_for_others() {
        let block = SharedBlock::create(4096, 0).unwrap();
        assert_eq!(block.check_closed().unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        let peer = SharedBlock::open(block.as_fd().try_clone_to_owned().unwrap(), 4096).unwrap();
        block.check_closed().unwrap();
        block.populate_pages().unwrap();
        peer.words()[1].store(5, Ordering::Relaxed);
        assert_eq!(block.words()[1].load(Ordering::Relaxed), 5);
        assert_eq!(block.words().len(), 512);
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let punched = rustix::fs::fallocate(&peer, punch, 0, 4096);
        assert_eq!(punched.err(), Some(Errno::PERM));
        let third = SharedBlock::open(block.as_fd().try_clone_to_owned().unwrap(), 4096);
        assert_eq!(third.unwrap_err().raw_os_error(), Some(Errno::PERM.raw_os_error()));
        let wrong = SharedBlock::open(block.as_fd().try_clone_to_owned().unwrap(), 8192);
        assert_eq!(wrong.unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn pages_of_a_shared_block_come_with_its_peer_or_when_they_are_asked_for() {
        const BYTES: u64 = 1 << 20;
        let bytes_there =
            |block: &SharedBlock| rustix::fs::fstat(block).unwrap().st_blocks as u64 * 512;
        let block = SharedBlock::create(BYTES, 4096).unwrap();
        assert_eq!(bytes_there(&block), 4096);
        close_for_writers(&block).unwrap();
        assert_eq!(bytes_there(&block), 4096);
        block.populate_pages().unwrap();
        assert_eq!(bytes_there(&block), BYTES);
        let block = SharedBlock::create(BYTES, 0).unwrap();
        assert_eq!(bytes_there(&block), 0);
        let peer = SharedBlock::open(block.as_fd().try_clone_to_owned().unwrap(), BYTES).unwrap();
        assert_eq!(bytes_there(&peer), BYTES);
    }
}
