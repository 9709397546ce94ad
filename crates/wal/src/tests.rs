//! The writer and the reader together, on a disk in memory.

use super::*;
use crate::frame::{HEADER_BYTES, frame_bytes};
use crate::simulated::{Faults, SimulatedDisk};
use base::prng::Prng;
use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const OPTIONS: WriterOptions = WriterOptions { segment_bytes: 4096, term: 1, salt: 77 };

fn writer(disk: &SimulatedDisk) -> Writer {
    writer_of(disk, OPTIONS.segment_bytes)
}

fn writer_of(disk: &SimulatedDisk, segment_bytes: u64) -> Writer {
    let options = WriterOptions { segment_bytes, ..OPTIONS };
    Writer::begin(Arc::new(disk.clone()), 0, Begin::Nothing, options).unwrap()
}

/// A writer whose log has 70,000 bytes of 1, and whose next frames pass the cache, in a segment of
/// `segment_bytes` that is prepared.
fn writer_past_cache(disk: &SimulatedDisk, segment_bytes: u64) -> Writer {
    let mut writer = writer_of(disk, segment_bytes);
    writer.append(&[1; 70_000]).unwrap();
    writer.offer_spare(spare(disk, &writer, Preparation::Reserved));
    writer.set_past_cache_bytes_min(Some(0));
    writer
}

/// Returns a spare for `writer`, which is prepared at once.
fn spare(disk: &SimulatedDisk, writer: &Writer, preparation: Preparation) -> Spare {
    prepare_spare(disk, writer.segment_bytes(), preparation, |_| true).unwrap()
}

/// Reads the whole log; returns its payloads one after the other, and its end.
fn read(disk: &SimulatedDisk) -> Result<(Vec<u8>, LogEnd), LogError> {
    let mut reader = Reader::open(Arc::new(disk.clone()))?;
    let (mut all, mut payload) = (Vec::new(), Vec::new());
    while let Some(frame) = reader.next(&mut payload)? {
        assert_eq!(frame.lsn, all.len() as u64);
        all.extend_from_slice(&payload);
        assert_eq!(frame.end_lsn, all.len() as u64);
    }
    Ok((all, reader.end()))
}

fn payload(number: u8) -> Vec<u8> {
    vec![number + 1; 100 + usize::from(number) * 7]
}

/// Appends `count` payloads, each made durable; returns them together.
fn fill(writer: &mut Writer, count: u8) -> Vec<u8> {
    let mut all = Vec::new();
    for number in 0..count {
        writer.append(&payload(number)).unwrap();
        writer.sync().unwrap();
        all.extend_from_slice(&payload(number));
    }
    all
}

#[test]
fn what_is_appended_is_read_back_across_segments() {
    let disk = SimulatedDisk::new();
    let mut writer = writer(&disk);
    let mut all = fill(&mut writer, 40);
    assert_eq!(writer.durable_lsn(), all.len() as u64);
    writer.close().unwrap();
    let (found, end) = read(&disk).unwrap();
    assert!(found == all);
    assert!(disk.contents().len() > 2);
    assert_eq!((end.lsn, end.torn_bytes), (all.len() as u64, 0));
    let mut writer = Writer::resume(Arc::new(disk.clone()), &end, OPTIONS).unwrap();
    writer.append(b"more").unwrap();
    writer.sync().unwrap();
    all.extend_from_slice(b"more");
    assert!(read(&disk).unwrap().0 == all);
}

#[test]
fn a_payload_longer_than_a_segment_has_one_of_its_own() {
    let disk = SimulatedDisk::new();
    let mut writer = writer(&disk);
    let long = vec![3; 20_000];
    writer.append(b"short").unwrap();
    writer.append(&long).unwrap();
    writer.append(b"behind").unwrap();
    writer.sync().unwrap();
    assert!(read(&disk).unwrap().0 == [b"short".as_slice(), &long, b"behind"].concat());
}

/// The segment there has the name that the next one would have, which would take its place.
#[test]
fn a_long_payload_behind_an_end_in_order_goes_into_the_segment_that_has_none() {
    let disk = SimulatedDisk::new();
    writer(&disk).close().unwrap();
    let end = read(&disk).unwrap().1;
    let mut writer = Writer::resume(Arc::new(disk.clone()), &end, OPTIONS).unwrap();
    let long = vec![3; 20_000];
    writer.append(&long).unwrap();
    writer.append(b"behind").unwrap();
    writer.sync().unwrap();
    assert!(read(&disk).unwrap().0 == [long.as_slice(), b"behind"].concat());
    let mut reader = Reader::open(Arc::new(disk)).unwrap();
    reader.next(&mut Vec::new()).unwrap();
    assert!(reader.segments()[0].begins, "it is the one that the log began with");
}

#[test]
fn a_spare_becomes_the_next_segment() {
    let disk = SimulatedDisk::new();
    let mut writer = writer(&disk);
    assert!(!writer.wants_spare());
    let mut all = fill(&mut writer, 12);
    assert!(writer.wants_spare());
    writer.offer_spare(spare(&disk, &writer, Preparation::Zeroed));
    assert!(!writer.wants_spare());
    all.extend(fill(&mut writer, 30));
    assert!(read(&disk).unwrap().0 == all);
    assert!(!disk.contents().iter().any(|(name, _)| name == SPARE_NAME));
}

#[test]
fn a_segment_that_was_not_prepared_is_left_for_the_first_that_is() {
    let disk = SimulatedDisk::new();
    let mut writer = writer_of(&disk, 4 << 20);
    let mut all = fill(&mut writer, 20);
    assert!(!writer.wants_spare(), "it hardly grows");
    let mut append = |writer: &mut Writer| {
        writer.append(&[7; 100_000]).unwrap();
        all.extend_from_slice(&[7; 100_000]);
        disk.contents().len()
    };
    assert_eq!(append(&mut writer), 1);
    for preparation in [Preparation::Reserved, Preparation::Zeroed] {
        assert!(writer.wants_spare());
        writer.offer_spare(spare(&disk, &writer, preparation));
        if preparation == Preparation::Zeroed {
            assert_eq!(append(&mut writer), 3, "it goes on in the second, and the third is spare");
            break;
        }
        assert_eq!(append(&mut writer), 2, "it goes on in the spare");
        assert!(!writer.wants_spare(), "hardly anything is in it");
        (0..11).for_each(|_| assert_eq!(append(&mut writer), 2));
    }
    writer.sync().unwrap();
    assert!(read(&disk).unwrap().0 == all);
}

#[test]
fn a_spare_is_due_as_the_segment_fills_up() {
    let disk = SimulatedDisk::new();
    let segment_bytes = 1 << 20;
    let mut writer = writer_of(&disk, segment_bytes);
    writer.append(&[1; 70_000]).unwrap();
    assert_eq!(writer.spare_due_bytes(), segment_bytes, "all at once: this one is slow");
    writer.offer_spare(spare(&disk, &writer, Preparation::Zeroed));
    let mut due = Vec::new();
    for _ in 0..18 {
        writer.append(&[1; 50_000]).unwrap();
        due.push(writer.spare_due_bytes());
    }
    assert!(due[..5].iter().all(|due| *due == 0), "{due:?}");
    assert!(due[5..15].windows(2).all(|pair| pair[1] > pair[0] + 90_000), "{due:?}");
    assert!(due[16..].iter().all(|due| *due == segment_bytes), "{due:?}");
    writer.offer_spare(spare(&disk, &writer, Preparation::Zeroed));
    assert_eq!(writer.spare_due_bytes(), 0, "it is there");
    writer.discard_spare().unwrap();
    assert_eq!(writer.spare_due_bytes(), segment_bytes);
    assert!(disk.contents().iter().all(|(name, _)| name != SPARE_NAME));
}

#[test]
fn a_segment_that_was_only_reserved_is_left_where_zeroed_ones_are_wanted() {
    let disk = SimulatedDisk::new();
    let mut writer = writer_of(&disk, 1 << 20);
    let segment_count = || segment_lsns(&disk).unwrap().len();
    writer.append(&[1; 70_000]).unwrap();
    writer.offer_spare(spare(&disk, &writer, Preparation::Reserved));
    writer.append(&[1; 320_000]).unwrap();
    assert_eq!(segment_count(), 2);
    writer.offer_spare(spare(&disk, &writer, Preparation::Reserved));
    assert!(!writer.wants_spare());
    writer.set_preparation(Preparation::Zeroed);
    assert!(writer.wants_spare(), "the other one is of the wrong kind");
    writer.offer_spare(spare(&disk, &writer, Preparation::Reserved));
    writer.append(&[1; 1_000]).unwrap();
    assert_eq!(segment_count(), 2, "what was begun before is not taken");
    writer.offer_spare(spare(&disk, &writer, Preparation::Zeroed));
    writer.append(&[1; 1_000]).unwrap();
    assert_eq!((segment_count(), writer.wants_spare()), (3, false));
    assert!(read(&disk).unwrap().0 == [1; 392_000]);
}

#[test]
fn zeroed_spares_do_where_reserved_ones_are_wanted() {
    let disk = SimulatedDisk::new();
    let mut writer = writer_of(&disk, 1 << 20);
    writer.append(&[1; 70_000]).unwrap();
    writer.set_preparation(Preparation::Zeroed);
    writer.offer_spare(spare(&disk, &writer, Preparation::Zeroed));
    writer.set_preparation(Preparation::Reserved);
    assert!(!writer.wants_spare());
    writer.append(&[1; 1_000]).unwrap();
    assert_eq!(segment_lsns(&disk).unwrap().len(), 2);
}

#[test]
fn a_prepared_segment_is_gone_on_with_however_it_was_prepared() {
    let disk = SimulatedDisk::new();
    let mut writer = writer_of(&disk, 1 << 20);
    writer.append(&[1; 70_000]).unwrap();
    writer.offer_spare(spare(&disk, &writer, Preparation::Reserved));
    writer.append(&[1; 70_000]).unwrap();
    writer.sync().unwrap();
    drop(writer);
    let end = read(&disk).unwrap().1;
    let options = WriterOptions { segment_bytes: 1 << 20, ..OPTIONS };
    let mut writer = Writer::resume(Arc::new(disk.clone()), &end, options).unwrap();
    writer.set_preparation(Preparation::Zeroed);
    writer.offer_spare(spare(&disk, &writer, Preparation::Zeroed));
    writer.append(&[1; 1_000]).unwrap();
    assert_eq!(segment_lsns(&disk).unwrap().len(), 2);
}

#[test]
fn zeroes_are_written_piece_by_piece_as_they_may_be() {
    for lacks_block_writes in [false, true] {
        let disk = SimulatedDisk::new();
        disk.set_faults(Faults { lacks_block_writes, ..Faults::default() });
        let segment_bytes = 3 * ZEROED_PIECE_BYTES + 100;
        let mut asked = Vec::new();
        let await_turn = |end| {
            let written = disk.counts().writes as usize;
            assert_eq!(written, asked.len(), "none is written before it may be");
            asked.push(end);
            true
        };
        prepare_spare(&disk, segment_bytes, Preparation::Zeroed, await_turn).unwrap();
        let pieces = [1, 2, 3].map(|piece| piece * ZEROED_PIECE_BYTES);
        assert_eq!(asked, [&pieces[..], &[segment_bytes]].concat());
        let counts = disk.counts();
        assert_eq!(counts.writes, 4);
        assert_eq!(counts.syncs, if lacks_block_writes { 5 } else { 2 }, "{counts:?}");
        let (name, content) = disk.contents().pop().unwrap();
        assert_eq!((name.as_str(), content.len() as u64), (SPARE_NAME, segment_bytes));
        let given_up =
            prepare_spare(&disk, segment_bytes, Preparation::Zeroed, |end| end < segment_bytes);
        assert!(given_up.is_err());
        assert!(disk.contents().is_empty(), "nothing is left of it");
    }
}

#[test]
fn the_memory_for_frames_past_the_cache_is_as_long_as_the_longest() {
    let disk = SimulatedDisk::new();
    let mut writer = writer_past_cache(&disk, 8 << 20);
    assert_eq!(writer.memory_bytes(), 0);
    let mut all = vec![1; 70_000];
    let longest = BUFFERED_PAYLOAD_BYTES_MAX;
    let frames = [(100, 64 << 10), (70_000, 128 << 10), (5, 128 << 10), (longest, 2 << 20)];
    for (number, (bytes, memory)) in frames.into_iter().enumerate() {
        let payload = vec![number as u8; bytes];
        writer.append(&payload).unwrap();
        all.extend(payload);
        assert_eq!(writer.memory_bytes(), memory);
    }
    assert_eq!(disk.counts().block_writes, 4);
    writer.set_past_cache_bytes_min(None);
    assert_eq!(writer.memory_bytes(), 0);
    writer.sync().unwrap();
    assert!(read(&disk).unwrap().0 == all);
}

#[test]
fn a_frame_of_many_pieces_is_written_in_parts_and_tried_again() {
    let disk = SimulatedDisk::new();
    let mut writer = writer(&disk);
    let payload: Vec<u8> = (0..3_000_u32).map(|number| number as u8 | 1).collect();
    disk.set_faults(Faults { capacity: Some(2_048), ..Faults::default() });
    assert!(matches!(
        writer.append_pieces(payload.chunks(7).map(Piece::from)),
        Err(WriteError::Full(_))
    ));
    disk.set_faults(Faults { write_bytes_max: Some(100), ..Faults::default() });
    // Other pieces, of the same bytes.
    writer.append_pieces(payload.chunks(1_000).map(Piece::from)).unwrap();
    writer.sync().unwrap();
    assert!(read(&disk).unwrap().0 == payload);
}

/// Returns memory whose end is the beginning of a block, and to which `bytes` can be added without
/// moving it. An allocator may put it at any place of a block.
pub fn memory_of_blocks(bytes: usize) -> Vec<u8> {
    let mut memory: Vec<u8> = Vec::with_capacity(BLOCK_BYTES + bytes);
    memory.resize(memory.as_ptr().addr().wrapping_neg() % BLOCK_BYTES, 0xee);
    memory
}

/// A payload in pieces, in memory.
pub struct LaidPieces {
    pub memory: Vec<u8>,
    /// Where each is, and whether its checksum is known.
    pub places: Vec<(Range<usize>, bool)>,
}

impl LaidPieces {
    /// Each is known, and at the same place in a block as if they were one behind the other and the
    /// first at `place`. Headers end at multiples of 8, so that any other place needs a lead.
    fn in_blocks(payload: &[u8], piece_bytes: usize, place: usize) -> LaidPieces {
        let pieces = payload.len().div_ceil(piece_bytes);
        let mut memory = memory_of_blocks(place + payload.len() + pieces * BLOCK_BYTES);
        memory.resize(memory.len() + place, 0xee);
        let mut places = Vec::new();
        for piece in payload.chunks(piece_bytes) {
            places.push((memory.len()..memory.len() + piece.len(), true));
            memory.extend_from_slice(piece);
            // Another block, but the same place in it.
            memory.resize(memory.len() + BLOCK_BYTES, 0xee);
        }
        LaidPieces { memory, places }
    }

    pub fn iter(&self) -> impl Iterator<Item = Piece<'_>> + Clone {
        self.places.iter().map(|(range, is_known)| {
            let bytes = &self.memory[range.clone()];
            Piece { bytes, checksum: is_known.then(|| checksum(bytes)) }
        })
    }
}

fn of_many_values(bytes: u32) -> Vec<u8> {
    (0..bytes).map(|number| (number / 100) as u8 | 1).collect()
}

#[test]
fn the_disk_takes_blocks_from_where_they_are() {
    let disk = SimulatedDisk::new();
    let mut writer = writer_past_cache(&disk, 8 << 20);
    writer.append(&[2; 5]).unwrap();
    let payload = of_many_values(500_000);
    let given = LaidPieces::in_blocks(&payload, 200_001, 1);
    let before = disk.counts();
    let file_bytes = writer.append_pieces(given.iter()).unwrap();
    writer.append(&[3; 5]).unwrap();
    let counts = disk.counts();
    assert_eq!(counts.block_writes - before.block_writes, 2);
    // Three pieces, what is before, between and behind them, and the frame after.
    assert_eq!(counts.block_pieces - before.block_pieces, 3 + 4 + 1);
    let least = frame_bytes(payload.len());
    assert!((least..least + 4096).contains(&file_bytes), "{file_bytes} bytes");
    writer.sync().unwrap();
    assert!(read(&disk).unwrap().0 == [&[1; 70_000][..], &[2; 5], &payload, &[3; 5]].concat());
}

/// By all who read frames.
#[test]
fn what_comes_before_a_payload_is_no_part_of_it() {
    let disk = SimulatedDisk::new();
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let mut writer = writer_past_cache(&disk, 512 << 10);
    let begin = writer.lsn();
    let payload = of_many_values(450_000);
    let given = LaidPieces::in_blocks(&payload, 200_001, 1);
    let file_bytes = writer.append_pieces(given.iter()).unwrap();
    assert!(file_bytes > frame_bytes(payload.len()), "there is something");
    writer.sync().unwrap();
    let start = segment_start(&disk, begin, 64).unwrap();
    assert_eq!(start.first, payload[..64]);
    let mut follower = Follower::open(&storage, begin).unwrap().unwrap();
    let mut found = Vec::new();
    assert!(follower.next(writer.lsn(), &mut found).unwrap());
    assert!(found == payload);
    assert!(payloads(storage) == [vec![1; 70_000], payload].concat());
}

/// The frame just fits into the segment, without anything before its payload.
#[test]
fn a_frame_that_has_room_only_without_a_lead_is_copied() {
    let disk = SimulatedDisk::new();
    let mut writer = writer_past_cache(&disk, 512 << 10);
    let payload = of_many_values((512 << 10) - 2 * HEADER_BYTES as u32);
    let given = LaidPieces::in_blocks(&payload, payload.len(), 1);
    let before = disk.counts();
    let file_bytes = writer.append_pieces(given.iter()).unwrap();
    assert_eq!(file_bytes, frame_bytes(payload.len()));
    assert_eq!(disk.counts().block_pieces - before.block_pieces, 1);
    writer.sync().unwrap();
    assert!(read(&disk).unwrap().0 == [&[1; 70_000], &*payload].concat());
}

#[test]
fn pieces_at_other_places_of_a_block_are_copied() {
    let disk = SimulatedDisk::new();
    let (mut writer, mut all) = (writer_past_cache(&disk, 8 << 20), vec![1; 70_000]);
    let payload = of_many_values(60_000);
    for (first, second) in [(0, 1), (1, 0), (511, 512), (4095, 4096), (3, 3), (0, 0)] {
        let parts = [&payload[..30_000], &payload[30_000..]];
        let memory = [&vec![0; first], parts[0], &vec![0; second], parts[1]].concat();
        let places = [&memory[first..][..30_000], &memory[first + 30_000 + second..]];
        let pieces = places.map(|bytes| Piece { bytes, checksum: Some(checksum(bytes)) });
        writer.append_pieces(pieces.into_iter()).unwrap();
        all.extend_from_slice(&payload);
    }
    writer.sync().unwrap();
    assert!(read(&disk).unwrap().0 == all);
}

/// A disk that has taken a part of a frame, and then takes no blocks any more.
#[test]
fn a_frame_that_is_not_taken_from_where_it_is_goes_through_the_cache() {
    for block_writes_left in [0, 1, 2] {
        let disk = SimulatedDisk::new();
        let mut writer = writer_past_cache(&disk, 8 << 20);
        writer.append(&[2; 5]).unwrap();
        disk.set_faults(Faults {
            block_writes_left: Some(block_writes_left),
            write_bytes_max: Some(40_000),
            ..Faults::default()
        });
        let payload = of_many_values(300_000);
        let given = LaidPieces::in_blocks(&payload, 100_001, 1);
        let file_bytes = writer.append_pieces(given.iter()).unwrap();
        assert!(file_bytes > frame_bytes(payload.len()), "as it was begun");
        writer.sync().unwrap();
        assert!(read(&disk).unwrap().0 == [&[1; 70_000][..], &[2; 5], &payload].concat());
    }
}

/// Frames of all lengths, of which some are written past the cache and some not, in segments that
/// are prepared; before each the disk is woken where it can be. Where it `gives_blocks`, most have
/// pieces that the disk can take from where they are.
fn write_past_cache_and_not(storage: &Arc<dyn Storage>, gives_blocks: bool) -> Vec<u8> {
    let options = WriterOptions { segment_bytes: 64 << 10, ..OPTIONS };
    let mut writer = Writer::begin(Arc::clone(storage), 0, Begin::Nothing, options).unwrap();
    let mut all = Vec::new();
    for number in 0..200_usize {
        if writer.wants_spare() {
            let spare =
                prepare_spare(&**storage, options.segment_bytes, Preparation::Reserved, |_| true);
            writer.offer_spare(spare.unwrap());
        }
        writer.set_past_cache_bytes_min([Some(0), Some(3_000), None][number / 2 % 3]);
        // A system may be without.
        let _ = writer.wake_disk();
        let payload: Vec<u8> = (0..number * 97 % 9_000 + 1).map(|at| (at + number) as u8).collect();
        let given = LaidPieces::in_blocks(&payload, 1 + number * 13, number);
        match gives_blocks && number % 3 > 0 {
            true => writer.append_pieces(given.iter()),
            false => writer.append_pieces(payload.chunks(1 + number * 13).map(Piece::from)),
        }
        .unwrap();
        if number % 5 == 0 {
            writer.sync().unwrap();
        }
        all.extend_from_slice(&payload);
    }
    writer.close().unwrap();
    all
}

fn payloads(storage: Arc<dyn Storage>) -> Vec<u8> {
    let mut reader = Reader::open(storage).unwrap();
    let (mut all, mut payload) = (Vec::new(), Vec::new());
    while reader.next(&mut payload).unwrap().is_some() {
        all.extend_from_slice(&payload);
    }
    all
}

#[test]
fn frames_are_the_same_whether_they_pass_the_cache_or_not() {
    let disk = SimulatedDisk::new();
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let all = write_past_cache_and_not(&storage, false);
    assert!(payloads(storage) == all);
    assert!(disk.counts().block_writes > 50);
    let kept_in_cache = SimulatedDisk::new();
    kept_in_cache.set_faults(Faults { lacks_block_writes: true, ..Faults::default() });
    let storage: Arc<dyn Storage> = Arc::new(kept_in_cache.clone());
    assert!(write_past_cache_and_not(&storage, false) == all);
    assert_eq!(kept_in_cache.counts().block_writes, 1, "it is tried once");
    assert!(kept_in_cache.contents() == disk.contents());
}

#[test]
fn a_folder_has_frames_that_pass_the_cache() {
    let folder = std::env::temp_dir().join(format!("forebay-wal-frames-{}", std::process::id()));
    for gives_blocks in [false, true] {
        let storage: Arc<dyn Storage> = Arc::new(Directory::open(&folder).unwrap());
        let all = write_past_cache_and_not(&storage, gives_blocks);
        let found = payloads(storage);
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(found == all);
    }
}

#[test]
fn the_disk_is_woken_for_frames_that_pass_the_cache_alone() {
    let disk = SimulatedDisk::new();
    let mut writer = writer_of(&disk, 64 << 10);
    let is_woken = |writer: &Writer| writer.wake_disk().is_ok();
    writer.set_past_cache_bytes_min(Some(0));
    assert!(!is_woken(&writer), "the segment was not prepared");
    writer.append(&[1; 20_000]).unwrap();
    writer.offer_spare(spare(&disk, &writer, Preparation::Zeroed));
    writer.append(&[2; 50_000]).unwrap();
    assert!(is_woken(&writer));
    for bytes_min in [Some(1), None] {
        writer.set_past_cache_bytes_min(bytes_min);
        assert!(!is_woken(&writer), "frames need not pass the cache: {bytes_min:?}");
    }
    assert_eq!(disk.counts().wakes, 1);
    writer.set_past_cache_bytes_min(Some(0));
    disk.set_faults(Faults { lacks_block_writes: true, ..Faults::default() });
    writer.append(&[3; 100]).unwrap();
    assert!(!is_woken(&writer), "there are no such writes");
}

#[test]
fn a_frame_past_the_cache_that_had_no_room_is_tried_again() {
    let disk = SimulatedDisk::new();
    let mut writer = writer_of(&disk, 64 << 10);
    let mut all = Vec::new();
    let mut append = |writer: &mut Writer, byte: u8, bytes: usize| {
        all.extend(vec![byte; bytes]);
        writer.append(&vec![byte; bytes])
    };
    append(&mut writer, 1, 17_000).unwrap();
    writer.offer_spare(spare(&disk, &writer, Preparation::Reserved));
    writer.set_past_cache_bytes_min(Some(0));
    append(&mut writer, 2, 5_000).unwrap();
    let written = disk.counts().block_writes;
    assert!(written > 0);
    disk.set_faults(Faults { capacity: Some(1), write_bytes_max: Some(4096), ..Faults::default() });
    assert!(matches!(append(&mut writer, 3, 9_000), Err(WriteError::Full(_))));
    assert!(matches!(writer.append(&[3; 9_000]), Err(WriteError::Full(_))));
    disk.set_faults(Faults { write_bytes_max: Some(4096), ..Faults::default() });
    writer.append(&[3; 9_000]).unwrap();
    writer.set_past_cache_bytes_min(None);
    append(&mut writer, 4, 100).unwrap();
    writer.sync().unwrap();
    assert!(disk.counts().block_writes > written);
    assert!(read(&disk).unwrap().0 == all);
}

/// Between the two attempts the log is synced, so that a new header would say so.
#[test]
fn a_power_cut_while_a_frame_past_the_cache_is_tried_again_tears_the_end_alone() {
    for seed in 0..400 {
        let mut random = Prng::new(seed);
        let disk = SimulatedDisk::new();
        let mut writer = writer_of(&disk, 64 << 10);
        // Up to its end the segment is zeroed, as if it had been a spare.
        writer.append(&[1; 17_000]).unwrap();
        let end = frame_bytes(0) + frame_bytes(17_000);
        // The header of the frame in question lies in two sectors, of which one may survive.
        let header_at =
            end.next_multiple_of(512) + 512 * (1 + random.below(5)) - 8 * (1 + seed % 6);
        let before = header_at - end - HEADER_BYTES as u64;
        writer.append(&vec![2; before as usize]).unwrap();
        writer.set_past_cache_bytes_min(Some(0));
        disk.set_faults(Faults {
            writes_until_full: Some(2),
            write_bytes_max: Some(4096),
            ..Faults::default()
        });
        let payload = [3; 9_000];
        let given = LaidPieces::in_blocks(&payload, 5_000, seed as usize / 2);
        let append = |writer: &mut Writer| match seed % 2 {
            0 => writer.append(&payload),
            _ => writer.append_pieces(given.iter()),
        };
        assert!(matches!(append(&mut writer), Err(WriteError::Full(_))));
        disk.set_faults(Faults::default());
        writer.sync().unwrap();
        let durable = writer.durable_lsn();
        append(&mut writer).unwrap();
        disk.cut_power(&mut random);
        let (_, end) = read(&disk).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert!(end.lsn >= durable);
    }
}

#[test]
#[should_panic = "comes before any other"]
fn a_frame_that_had_no_room_cannot_become_another() {
    let disk = SimulatedDisk::new();
    let mut writer = writer(&disk);
    disk.set_faults(Faults { capacity: Some(60), ..Faults::default() });
    assert!(matches!(writer.append(b"one"), Err(WriteError::Full(_))));
    disk.set_faults(Faults::default());
    let _ = writer.append(b"two");
}

#[test]
fn a_new_log_takes_the_place_of_the_one_before() {
    let disk = SimulatedDisk::new();
    fill(&mut writer(&disk), 40);
    let mut writer = Writer::begin(Arc::new(disk.clone()), 500, Begin::Snapshot, OPTIONS).unwrap();
    writer.append(b"x").unwrap();
    writer.sync().unwrap();
    let mut reader = Reader::open(Arc::new(disk)).unwrap();
    assert_eq!(reader.begins_at(), Some(500));
    let mut payload = Vec::new();
    assert_eq!(reader.next(&mut payload).unwrap().unwrap().end_lsn, 501);
    assert!(!reader.segments()[0].begins);
    assert!(reader.next(&mut payload).unwrap().is_none());
}

#[test]
fn what_a_snapshot_has_is_forgotten_and_nothing_behind_it() {
    let disk = SimulatedDisk::new();
    let mut writer = writer(&disk);
    let all = fill(&mut writer, 40);
    let begins_at = || Reader::open(Arc::new(disk.clone())).unwrap().begins_at().unwrap();
    forget_before(&disk, 0).unwrap();
    assert_eq!(begins_at(), 0);
    for lsn in (0..=all.len() as u64).step_by(500) {
        forget_before(&disk, lsn).unwrap();
        let first = begins_at();
        // No more than one segment is kept that has both.
        assert!(first <= lsn && lsn - first < OPTIONS.segment_bytes, "{first} and {lsn}");
        let mut reader = Reader::open(Arc::new(disk.clone())).unwrap();
        let (mut found, mut payload) = (Vec::new(), Vec::new());
        while reader.next(&mut payload).unwrap().is_some() {
            found.extend_from_slice(&payload);
        }
        assert!(found == all[first as usize..]);
    }
    assert!(begins_at() > 0);
    writer.append(b"more").unwrap();
    writer.sync().unwrap();
    forget_before(&disk, u64::MAX).unwrap();
    assert!(begins_at() <= all.len() as u64, "the last segment stays");
}

/// Changes the contents of a log of five durable frames by `damage` and reads it.
fn damaged(damage: impl FnOnce(&mut Vec<u8>)) -> Result<(Vec<u8>, LogEnd), LogError> {
    let disk = SimulatedDisk::new();
    fill(&mut writer(&disk), 5);
    let mut contents = disk.contents();
    damage(&mut contents[0].1);
    read(&SimulatedDisk::with_contents(&contents))
}

#[test]
fn damage_in_the_middle_is_refused_and_said_where() {
    let found = damaged(|bytes| bytes[2 * HEADER_BYTES + 50] ^= 4);
    let Err(LogError::Corrupt { offset, lsn, .. }) = found else { panic!("{found:?}") };
    assert_eq!((offset, lsn), (HEADER_BYTES as u64, 0));
}

#[test]
fn damage_of_the_last_frame_is_no_torn_end() {
    let last = |bytes: &[u8]| bytes.iter().rposition(|&byte| byte != 0).unwrap();
    let found = damaged(|bytes| {
        let at = last(bytes);
        bytes[at] ^= 1;
    });
    assert!(matches!(found, Err(LogError::Corrupt { .. })), "{found:?}");
}

/// A lost sector looks like a torn end; the frame behind it says that it was none.
#[test]
fn sector_that_is_lost_in_the_middle_is_damage() {
    let disk = SimulatedDisk::new();
    let mut writer = writer(&disk);
    for payload in [vec![9; 1500], vec![8; 10]] {
        writer.append(&payload).unwrap();
        writer.sync().unwrap();
    }
    let mut contents = disk.contents();
    contents[0].1[512..1024].fill(0);
    let found = read(&SimulatedDisk::with_contents(&contents));
    assert!(matches!(found, Err(LogError::Corrupt { .. })), "{found:?}");
}

#[test]
fn a_torn_end_is_cut_and_what_came_before_goes_on() {
    let disk = SimulatedDisk::new();
    let mut writer = writer(&disk);
    let all = fill(&mut writer, 5);
    writer.append(&[9; 1500]).unwrap();
    drop(writer);
    let mut contents = disk.contents();
    let bytes = &mut contents[0].1;
    let last = bytes.iter().rposition(|&byte| byte != 0).unwrap();
    // The last sector of the frame did not reach the disk.
    let sector = last / 512 * 512;
    bytes[sector..].fill(0);
    let disk = SimulatedDisk::with_contents(&contents);
    let (found, end) = read(&disk).unwrap();
    assert!(found == all && end.torn_bytes > 0);
    let mut writer = Writer::resume(Arc::new(disk.clone()), &end, OPTIONS).unwrap();
    writer.append(b"more").unwrap();
    writer.sync().unwrap();
    let (found, end) = read(&disk).unwrap();
    assert_eq!((found.len(), end.torn_bytes), (all.len() + 4, 0));
}

/// A folder whose files become those of `after` once so many reads of `before` are left.
struct Changing {
    before: SimulatedDisk,
    after: SimulatedDisk,
    reads_left: Arc<AtomicUsize>,
}

struct ChangingFile {
    files: [Box<dyn LogFile>; 2],
    reads_left: Arc<AtomicUsize>,
}

impl Storage for Changing {
    fn list(&self) -> io::Result<Vec<String>> {
        self.before.list()
    }

    fn open_read(&self, name: &str) -> io::Result<Box<dyn LogFile>> {
        let files = [self.before.open_read(name)?, self.after.open_read(name)?];
        Ok(Box::new(ChangingFile { files, reads_left: Arc::clone(&self.reads_left) }))
    }

    fn create(&self, _: &str) -> io::Result<Box<dyn LogFile>> {
        unreachable!("it is only read")
    }

    fn open(&self, _: &str) -> io::Result<Box<dyn LogFile>> {
        unreachable!("it is only read")
    }

    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        unreachable!("it is only read")
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        unreachable!("it is only read")
    }

    fn sync_directory(&self) -> io::Result<()> {
        unreachable!("it is only read")
    }

    fn lock(&self) -> io::Result<Lock> {
        unreachable!("it is only read")
    }
}

impl LogFile for ChangingFile {
    fn length(&self) -> io::Result<u64> {
        self.files[1].length()
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let left = self.reads_left.load(Ordering::Relaxed);
        self.reads_left.store(left.saturating_sub(1), Ordering::Relaxed);
        self.files[usize::from(left == 0)].read_at(offset, bytes)
    }

    fn write_at(&self, _: u64, _: &[u8]) -> io::Result<usize> {
        unreachable!("it is only read")
    }

    fn write_pieces_at(&self, _: u64, _: &[io::IoSlice<'_>]) -> io::Result<usize> {
        unreachable!("it is only read")
    }

    fn write_blocks_at(&self, _: u64, _: &[io::IoSlice<'_>]) -> io::Result<usize> {
        unreachable!("it is only read")
    }

    fn set_length(&self, _: u64) -> io::Result<()> {
        unreachable!("it is only read")
    }

    fn sync(&self) -> io::Result<()> {
        unreachable!("it is only read")
    }
}

/// What is appended between two looks at a file is no damage.
#[test]
fn a_log_that_is_written_meanwhile_is_sound() {
    let disk = SimulatedDisk::new();
    let mut writer = writer(&disk);
    let all = fill(&mut writer, 3);
    let before = SimulatedDisk::with_contents(&disk.contents());
    fill(&mut writer, 3);
    let after = SimulatedDisk::with_contents(&disk.contents());
    let mut ends = BTreeSet::new();
    for count in 0..40 {
        let reads_left = Arc::new(AtomicUsize::new(count));
        let storage = Changing { before: before.clone(), after: after.clone(), reads_left };
        let mut reader = Reader::open(Arc::new(storage)).unwrap();
        let mut payload = Vec::new();
        while let Some(frame) = reader.next(&mut payload).unwrap_or_else(|error| {
            panic!("after {count} reads: {error}");
        }) {
            assert!(frame.end_lsn <= 2 * all.len() as u64);
        }
        ends.insert(reader.end().lsn);
    }
    assert_eq!(ends.into_iter().collect::<Vec<_>>(), [all.len() as u64, 2 * all.len() as u64]);
}

#[test]
fn a_missing_segment_is_a_gap() {
    let disk = SimulatedDisk::new();
    fill(&mut writer(&disk), 60);
    let mut contents = disk.contents();
    assert!(contents.len() > 2);
    contents.remove(1);
    let found = read(&SimulatedDisk::with_contents(&contents));
    assert!(matches!(found, Err(LogError::Gap { .. })), "{found:?}");
}

#[test]
fn a_full_disk_is_waited_out() {
    let disk = SimulatedDisk::new();
    let mut writer = writer(&disk);
    let mut all = fill(&mut writer, 5);
    disk.set_faults(Faults {
        capacity: Some(4096),
        write_bytes_max: Some(100),
        ..Faults::default()
    });
    let long = vec![5; 10_000];
    for _ in 0..3 {
        assert!(matches!(writer.append(&long), Err(WriteError::Full(_))));
    }
    disk.set_faults(Faults { write_bytes_max: Some(1000), ..Faults::default() });
    writer.append(&long).unwrap();
    writer.sync().unwrap();
    all.extend_from_slice(&long);
    assert!(read(&disk).unwrap().0 == all);
}

#[test]
fn a_segment_that_no_descriptor_is_left_for_is_tried_again() {
    let disk = SimulatedDisk::new();
    let mut writer = writer(&disk);
    let mut all = fill(&mut writer, 5);
    disk.set_faults(Faults { lacks_descriptors: true, ..Faults::default() });
    for _ in 0..3 {
        assert!(matches!(writer.append(&[5; 4000]), Err(WriteError::Full(_))));
    }
    assert_eq!(writer.durable_lsn(), all.len() as u64);
    disk.set_faults(Faults::default());
    writer.append(&[5; 4000]).unwrap();
    writer.sync().unwrap();
    all.extend_from_slice(&[5; 4000]);
    assert!(read(&disk).unwrap().0 == all);
}

#[test]
fn after_a_failed_sync_nothing_is_written_any_more() {
    let disk = SimulatedDisk::new();
    let mut writer = writer(&disk);
    fill(&mut writer, 3);
    let durable = writer.durable_lsn();
    disk.set_faults(Faults { syncs_left: Some(0), ..Faults::default() });
    writer.append(b"lost").unwrap();
    assert!(matches!(writer.sync(), Err(WriteError::Failed(_))));
    let writes = disk.counts();
    assert!(matches!(writer.append(b"more"), Err(WriteError::Failed(_))));
    assert!(matches!(writer.sync(), Err(WriteError::Failed(_))));
    assert_eq!((writer.durable_lsn(), disk.counts()), (durable, writes));
}

#[test]
fn a_failed_write_is_final() {
    let disk = SimulatedDisk::new();
    let mut writer = writer(&disk);
    disk.set_faults(Faults { writes_left: Some(0), ..Faults::default() });
    assert!(matches!(writer.append(b"x"), Err(WriteError::Failed(_))));
    disk.set_faults(Faults::default());
    assert!(matches!(writer.append(b"x"), Err(WriteError::Failed(_))));
}

#[test]
fn one_process_has_the_folder() {
    let path = std::env::temp_dir().join(format!("forebay-wal-{}", std::process::id()));
    let directory = Directory::open(&path).unwrap();
    let lock = directory.lock().unwrap();
    let other = Directory::open(&path).unwrap().lock();
    assert_eq!(other.err().map(|error| error.kind()), Some(io::ErrorKind::WouldBlock));
    drop(lock);
    drop(Directory::open(&path).unwrap().lock().unwrap());
    let storage: Arc<dyn Storage> = Arc::new(directory);
    let mut writer = Writer::begin(Arc::clone(&storage), 0, Begin::Nothing, OPTIONS).unwrap();
    let spare = prepare_spare(&*storage, OPTIONS.segment_bytes, Preparation::Reserved, |_| true);
    writer.offer_spare(spare.unwrap());
    let all = fill(&mut writer, 40);
    writer.close().unwrap();
    let mut reader = Reader::open(storage).unwrap();
    let (mut found, mut payload) = (Vec::new(), Vec::new());
    while reader.next(&mut payload).unwrap().is_some() {
        found.extend_from_slice(&payload);
    }
    assert!(found == all);
    std::fs::remove_dir_all(&path).unwrap();
}

/// Each bit of a log: its change is noticed, or the log reads as it was.
#[test]
fn every_flipped_bit_is_noticed_or_harmless() {
    let disk = SimulatedDisk::new();
    let all = fill(&mut writer(&disk), 12);
    let contents = disk.contents();
    for (file, (_, bytes)) in contents.iter().enumerate() {
        for bit in 0..bytes.len() * 8 {
            let mut contents = contents.clone();
            contents[file].1[bit / 8] ^= 1 << (bit % 8);
            if let Ok((found, _)) = read(&SimulatedDisk::with_contents(&contents)) {
                assert!(found == all, "bit {bit} of file {file}");
            }
        }
    }
}
