//! Bytes as the segments of a log: they are read to an end or to an error, never with a panic; what
//! reads is a stream without gaps; and a log that has an end goes on behind it.
#![no_main]

#[path = "../step.rs"]
mod step;

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use wal::simulated::SimulatedDisk;
use wal::{Reader, Writer, WriterOptions};

use step::Step;

/// The first two bytes say where the second segment begins, in units of 8 bytes.
const SPLIT_BYTES: usize = 2;

fuzz_target!(|input: &[u8]| {
    let _step = Step::begin(input);
    let Some((split, bytes)) = input.split_first_chunk::<SPLIT_BYTES>() else { return };
    let split = usize::from(u16::from_le_bytes(*split)) * 8;
    let (first, second) = bytes.split_at(split.min(bytes.len()));
    let mut contents = vec![(format!("{:020}.log", 0), first.to_vec())];
    if !second.is_empty() {
        // The name is what the first has in it, where that reads.
        let end = read(&SimulatedDisk::with_contents(&contents)).map_or(1, |end| end.1.max(1));
        contents.push((format!("{end:020}.log"), second.to_vec()));
    }
    let disk = SimulatedDisk::with_contents(&contents);
    let Some((payload, lsn)) = read(&disk) else { return };
    let storage = Arc::new(disk.clone());
    let mut reader = Reader::open(storage.clone()).expect("a simulated disk is read");
    while reader.next(&mut Vec::new()).expect("it was read before").is_some() {}
    let end = reader.end();
    // Short, since what is prepared in a segment is read again below.
    let options = WriterOptions { segment_bytes: 1 << 16, ..WriterOptions::default() };
    let mut writer = Writer::resume(storage, &end, options).expect("a simulated disk is written");
    writer.append(b"more").expect("a simulated disk is written");
    writer.sync().expect("a simulated disk is written");
    let (again, again_lsn) = read(&disk).expect("what is written can be read");
    assert!(again_lsn == lsn + 4 && again == [payload.as_slice(), b"more"].concat());
});

/// Returns the payloads and where they end; none where the log is damaged.
fn read(disk: &SimulatedDisk) -> Option<(Vec<u8>, u64)> {
    let mut reader = Reader::open(Arc::new(disk.clone())).expect("a simulated disk is read");
    let (mut all, mut payload, mut lsn) = (Vec::new(), Vec::new(), None);
    while let Some(frame) = reader.next(&mut payload).ok()? {
        assert!(lsn.is_none_or(|lsn| lsn == frame.lsn));
        assert_eq!(frame.end_lsn - frame.lsn, payload.len() as u64);
        lsn = Some(frame.end_lsn);
        all.extend_from_slice(&payload);
    }
    Some((all, reader.end().lsn))
}
