//! Any string as a HyperLogLog: it is refused, or has the registers that its bytes say, in either
//! form, before and after elements are added to it.
//!
//! The first byte is the longest that it may be as runs, in units of 16 bytes; the second one is
//! the number of elements, which follow, each a byte for its length and so many bytes. The rest is
//! the string: all of it where the highest bits of both are set, else what is behind a header.
#![no_main]

#[path = "../step.rs"]
mod step;

use collections::hyperloglog::{
    Edit, Flaw, HyperLogLog, REGISTER_COUNT, Registers, Run, add, store,
};
use libfuzzer_sys::fuzz_target;

use step::Step;

/// What comes before registers of the sparse form, with a count that is not valid.
const SPARSE_HEADER: &[u8; 16] = b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\x80";
/// The same of the dense form, which has 12,288 bytes behind it.
const DENSE_HEADER: &[u8; 16] = b"HYLL\0\0\0\0\0\0\0\0\0\0\0\x80";
const DENSE_BYTES: usize = 12_288;

fuzz_target!(|input: &[u8]| {
    let _step = Step::begin(input);
    let [limit, count, rest @ ..] = input else { return };
    let mut rest = rest;
    let mut elements: Vec<&[u8]> = Vec::new();
    for _ in 0..count & 0x1f {
        let Some((&length, behind)) = rest.split_first() else { break };
        let (element, behind) = behind.split_at(behind.len().min(usize::from(length & 0x1f)));
        elements.push(element);
        rest = behind;
    }
    let value = match (limit & 0x80, count & 0xc0) {
        (0x80, 0x80) => rest.to_vec(),
        (_, 0x40) => {
            // Few bytes make all registers.
            let body = rest.iter().cycle().take(DENSE_BYTES).copied();
            DENSE_HEADER.iter().copied().chain(body).collect()
        }
        _ => [SPARSE_HEADER, rest].concat(),
    };
    check(&value, &elements, u64::from(limit & 0x7f) * 16);
});

fn check(value: &[u8], elements: &[&[u8]], bytes_max: u64) {
    let mut memory = b"anything".to_vec();
    let added = add(Some(value), elements.iter().copied(), bytes_max, &mut memory);
    let Ok(log) = HyperLogLog::parse(value) else {
        assert!(added.is_err(), "what is none takes no elements");
        return;
    };
    let before = registers_of(&log);
    assert_eq!(log.count().is_ok(), before.is_some());
    let Ok(added) = added else {
        assert_eq!(added, Err(Flaw::Corrupt));
        assert_eq!(before, None, "what is valid takes elements");
        return;
    };
    let new = edited(value, &added.edit, memory);
    let log = HyperLogLog::parse(&new).expect("it was one before");
    let Some(before) = before else { return };
    let after = registers_of(&log).expect("it was valid before");
    assert!(before.iter().zip(&after).all(|(before, after)| before <= after));
    assert_eq!(before != after, added.has_changed);
    // Once more adds nothing.
    let again = add(Some(&new), elements.iter().copied(), bytes_max, &mut Vec::new());
    assert!(again.is_ok_and(|again| !again.has_changed));
    // The dense form has the same registers, and so has a union with nothing.
    let mut dense = Vec::new();
    log.to_dense(&mut dense).expect("it is valid");
    let dense = HyperLogLog::parse(&dense).expect("it was written just now");
    assert_eq!(registers_of(&dense).as_ref(), Some(&after));
    let mut registers = Registers::default();
    log.merge_into(&mut registers).expect("it is valid");
    assert_eq!(log.count(), dense.count());
    assert_eq!(log.count(), Ok(registers.count()));
    let mut stored = Vec::new();
    let edit = store(None, &registers, false, bytes_max, &mut stored);
    assert_eq!(edit, Ok(Edit::Whole));
    let stored = HyperLogLog::parse(&stored).expect("it was written just now");
    assert_eq!(registers_of(&stored), Some(after));
}

fn edited(value: &[u8], edit: &Edit, memory: Vec<u8>) -> Vec<u8> {
    let mut new = value.to_vec();
    match edit {
        Edit::Keep => {}
        Edit::Bytes(changes) => {
            changes.as_slice().iter().for_each(|(at, byte)| new[*at as usize] = *byte);
        }
        Edit::From(offset) => {
            assert_eq!(value[..*offset], memory[..*offset], "nothing changes before");
            new = memory;
        }
        Edit::Whole => new = memory,
    }
    new
}

/// Returns the registers one by one; none where they are not all there.
fn registers_of(log: &HyperLogLog<'_>) -> Option<Vec<u8>> {
    if log.is_dense() {
        return Some((0..REGISTER_COUNT).map(|index| log.dense_register(index)).collect());
    }
    let mut registers = Vec::new();
    let mut bytes = 0;
    for run in log.runs() {
        let (register, length) = match run {
            Run::Zeroes(length) | Run::LongZeroes(length) => (0, length),
            Run::Values(value, length) => (value, length),
        };
        bytes += if matches!(run, Run::LongZeroes(_)) { 2 } else { 1 };
        registers.extend(std::iter::repeat_n(register, length));
    }
    (registers.len() == REGISTER_COUNT && bytes == log.body_bytes()).then_some(registers)
}
