//! Values against models of single registers, and what is no value.

use base::prng::Prng;

use super::dense::REGISTER_MAX;
use super::estimate::Tally;
use super::registers::tally_dense;
use super::*;

const SPARSE_BYTES_MAX: u64 = 3000;

/// A value that elements are added to, beside the registers that it should have.
struct Model {
    value: Option<Vec<u8>>,
    registers: Vec<u8>,
    sparse_bytes_max: u64,
}

impl Model {
    fn new(sparse_bytes_max: u64) -> Model {
        Model { value: None, registers: vec![0; REGISTER_COUNT], sparse_bytes_max }
    }

    /// Adds `elements` at once and checks what that is said to have changed.
    fn add(&mut self, elements: &[Vec<u8>]) {
        let mut memory = b"what was there before".to_vec();
        let words = elements.iter().map(Vec::as_slice);
        let was_dense = self.value.as_ref().is_some_and(|value| value[FORM_AT] == 0);
        let added = add(self.value.as_deref(), words, self.sparse_bytes_max, &mut memory).unwrap();
        let mut has_changed = self.value.is_none();
        for element in elements {
            let Hit { index, run } = Hit::of(element);
            let register = &mut self.registers[usize::from(index)];
            has_changed |= *register < run;
            *register = run.max(*register);
        }
        assert_eq!(added.has_changed, has_changed);
        if !has_changed {
            assert_eq!(added, Added::NOTHING);
        }
        self.value = edited(self.value.take(), &added.edit, memory);
        let value = self.value.as_ref().unwrap();
        assert_eq!(added.is_converted, !was_dense && value[FORM_AT] == 0);
        assert!(!has_changed || value[VALIDITY_AT] & NOT_VALID != 0, "the count may be another");
        assert_eq!(registers_of(value), self.registers);
        let is_sparse = value[FORM_AT] == 1;
        assert!(!is_sparse || value.len() as u64 <= self.sparse_bytes_max.max(18));
    }
}

/// Returns `value` after `edit`, whose new value is `memory`.
fn edited(value: Option<Vec<u8>>, edit: &Edit, memory: Vec<u8>) -> Option<Vec<u8>> {
    match edit {
        Edit::Keep => value,
        Edit::Bytes(changes) => {
            let mut value = value.unwrap();
            changes.as_slice().iter().for_each(|(at, byte)| value[*at as usize] = *byte);
            Some(value)
        }
        Edit::From(offset) => {
            assert_eq!(value.unwrap()[..*offset], memory[..*offset], "nothing changes before");
            Some(memory)
        }
        Edit::Whole => Some(memory),
    }
}

fn registers_of(value: &[u8]) -> Vec<u8> {
    let log = HyperLogLog::parse(value).unwrap();
    if log.is_dense() {
        return (0..REGISTER_COUNT).map(|index| log.dense_register(index)).collect();
    }
    let runs = log.runs().flat_map(|run| match run {
        Run::Zeroes(length) | Run::LongZeroes(length) => vec![0; length],
        Run::Values(value, length) => vec![value; length],
    });
    runs.collect()
}

fn elements(random: &mut Prng, count: u64, bound: u64) -> Vec<Vec<u8>> {
    (0..count).map(|_| format!("element:{}", random.below(bound)).into_bytes()).collect()
}

#[test]
fn registers_are_the_highest_of_all_elements_in_either_form() {
    for (seed, sparse_bytes_max) in [(1, SPARSE_BYTES_MAX), (2, 60), (3, 0), (4, u64::MAX)] {
        let mut random = Prng::new(seed);
        let mut model = Model::new(sparse_bytes_max);
        for _ in 0..600 {
            let count = [0, 1, 1, 2, 5, 16, 17, 40][random.below(8) as usize];
            let bound = [20, 3_000, 1 << 40][random.below(3) as usize];
            model.add(&elements(&mut random, count, bound));
        }
    }
}

#[test]
fn elements_hash_as_in_redis() {
    // As PFDEBUG DECODE of a redis-server shows them.
    for (element, index, run) in [
        ("", 5_938, 2),
        ("a", 12_711, 2),
        ("ann", 10_757, 1),
        ("element:123", 4_847, 1),
        ("abcdefghijk", 14_121, 1),
        ("0123456789abcdef", 5_949, 1),
    ] {
        assert_eq!(Hit::of(element.as_bytes()), Hit { index, run }, "{element}");
    }
}

/// Registers of the kinds that elements make, and of all kinds that a value can have.
fn random_registers(random: &mut Prng) -> [u8; REGISTER_COUNT] {
    let highest = [1, 5, 20, 50, 51, 52, 63][random.below(7) as usize];
    let lowest = random.below(highest + 1);
    let share = [0, 1, 2, 50, 5_000][random.below(5) as usize];
    std::array::from_fn(|_| {
        if share > 0 && random.one_in(share) {
            return 0;
        }
        let geometric = u64::from(random.next().trailing_zeros());
        let run = if share == 2 { random.below(64) } else { lowest + geometric };
        run.clamp(lowest, highest) as u8
    })
}

fn packed(registers: &[u8; REGISTER_COUNT]) -> [u8; DENSE_BYTES] {
    let mut packed = [0; DENSE_BYTES];
    for (index, &run) in (0..).zip(registers) {
        dense::raise(&mut packed, Hit { index, run });
    }
    packed
}

fn histogram(registers: &[u8; REGISTER_COUNT]) -> Tally {
    let mut histogram = [0; REGISTER_MAX as usize + 1];
    registers.iter().for_each(|run| histogram[usize::from(*run)] += 1);
    Tally::of(&histogram)
}

#[test]
fn all_registers_at_once_are_as_each_alone() {
    let mut random = Prng::new(7);
    for round in 0..if cfg!(miri) { 1 } else { 300 } {
        let [one, other] = [(); 2].map(|()| random_registers(&mut random));
        let mut merged = Registers::default();
        merged.merge_dense(&packed(&one));
        assert_eq!(merged.tally(), histogram(&one), "round {round}");
        assert_eq!(tally_dense(&packed(&other)), histogram(&other), "round {round}");
        merged.merge_dense(&packed(&other));
        let larger = std::array::from_fn(|index| one[index].max(other[index]));
        let mut written = [0xff; DENSE_BYTES];
        merged.pack(&mut written);
        assert_eq!(written, packed(&larger), "round {round}");
        assert_eq!(merged.tally(), histogram(&larger), "round {round}");
    }
}

#[test]
fn counts_are_within_the_bound_of_the_format() {
    let count_max = elements_to_count();
    let mut registers = Registers::default();
    let mut packed = [0; DENSE_BYTES];
    let (mut checkpoint, mut errors) = (100, Vec::new());
    for element in 1..=count_max {
        dense::raise(&mut packed, Hit::of(&element.to_le_bytes()));
        if element == checkpoint || element == count_max {
            registers.merge_dense(&packed);
            errors.push(registers.count() as f64 / element as f64 - 1.0);
            checkpoint += checkpoint / 10;
        }
    }
    // The standard deviation is 0.81 %; three of them bound what one sequence of elements shows.
    let deviation = 1.04 / (REGISTER_COUNT as f64).sqrt();
    let worst = errors.iter().fold(0.0_f64, |worst, error| worst.max(error.abs()));
    println!(
        "{count_max} elements: {} counts, the worst off by {:.2} %",
        errors.len(),
        worst * 100.0
    );
    assert!(worst < 3.0 * deviation, "{worst}");
}

/// Returns how many elements are counted; FOREBAY_COUNTED_ELEMENTS sets another number.
fn elements_to_count() -> u64 {
    let set = std::env::var("FOREBAY_COUNTED_ELEMENTS").ok();
    set.map_or(300_000, |text| text.parse().expect("FOREBAY_COUNTED_ELEMENTS is a number"))
}

#[test]
fn a_merge_in_the_sparse_form_is_as_if_each_register_was_raised_from_the_start() {
    let mut random = Prng::new(5);
    for round in 0..40 {
        let bytes_max = [u64::MAX, 3_000, 200][random.below(3) as usize];
        let sparse = |random: &mut Prng, count: u64| {
            let mut model = Model::new(u64::MAX);
            let count = 1 + random.below(count);
            model.add(&elements(random, count, 1 << 20));
            model.value.unwrap()
        };
        let target = random.one_in(2).then(|| sparse(&mut random, 300));
        // Neighbours that are alike, so that runs are joined.
        let mut registers = Registers::default();
        for value in target.iter().chain(&[sparse(&mut random, 1_000)]) {
            HyperLogLog::parse(value).unwrap().merge_into(&mut registers).unwrap();
        }
        for _ in 0..random.below(200) {
            let first = random.below(REGISTER_COUNT as u64 - 10) as usize;
            registers.raise(first..first + random.below(10) as usize, random.below(5) as u8 + 1);
        }
        let mut expected = target.clone().unwrap_or_else(|| {
            let mut value = Vec::new();
            write_empty(&mut value);
            value
        });
        let fits = registers.occupied().all(|hit| {
            let raised = sparse::raise(&mut expected, &mut Cursor::START.clone(), hit, bytes_max);
            raised.unwrap() != Outcome::TooLarge
        });
        let mut memory = Vec::new();
        let edit = store(target.as_deref(), &registers, false, bytes_max, &mut memory).unwrap();
        let stored = edited(target, &edit, memory).unwrap();
        assert_eq!(stored[FORM_AT] == 1, fits, "round {round}");
        if fits {
            expected[VALIDITY_AT] |= NOT_VALID;
            assert_eq!(stored, expected, "round {round}");
        }
        assert_eq!(registers_of(&stored), packed_again(&registers), "round {round}");
    }
}

fn packed_again(registers: &Registers) -> Vec<u8> {
    let mut packed = [0; DENSE_BYTES];
    registers.pack(&mut packed);
    (0..REGISTER_COUNT).map(|index| register(&packed, index)).collect()
}

#[test]
fn registers_that_nobody_has_counted_count_as_in_redis() {
    // Above what a run can be, which count for nothing, and as high as it can be: from a
    // redis-server.
    let counts = [
        (63, i64::MIN),
        (52, i64::MIN),
        (51, i64::MIN),
        (50, i64::MIN),
        (49, 6_653_256_548_922_161_152),
    ];
    for (register, expected) in counts {
        let packed = packed(&[register; REGISTER_COUNT]);
        assert_eq!(estimate::count(&registers::tally_dense(&packed)) as i64, expected);
    }
    let packed = packed(&[30; REGISTER_COUNT]);
    assert_eq!(estimate::count(&registers::tally_dense(&packed)), 12_690_079_782_337);
}

/// Returns a sparse value with these runs.
fn sparse_value(runs: &[u8]) -> Vec<u8> {
    [&EMPTY_HEADER, runs].concat()
}

#[test]
fn strings_that_are_none_or_corrupt_are_refused() {
    let mut dense = Vec::new();
    write_dense(&EMPTY_HEADER, &Registers::default(), &mut dense);
    let changed = |at: usize, byte: u8| {
        let mut value = sparse_value(&[0x7f, 0xff]);
        value[at] = byte;
        value
    };
    for other in [
        b"".to_vec(),
        b"HYLL".to_vec(),
        changed(0, b'h'),
        changed(FORM_AT, 0),
        changed(FORM_AT, 2),
        dense[..DENSE_VALUE_BYTES - 1].to_vec(),
        [&dense[..], &[0]].concat(),
    ] {
        assert_eq!(HyperLogLog::parse(&other).unwrap_err(), Flaw::OtherString);
    }
    for runs in [
        &[][..],
        &[0x7f],
        &[0x7f, 0xfe],
        &[0x7f, 0xff, 0x00],
        &[0x7f, 0xff, 0x80],
        &[0x7f, 0xfc, 0x83],
        &[0x7f, 0xfe, 0x7f],
    ] {
        let value = sparse_value(runs);
        let log = HyperLogLog::parse(&value).unwrap();
        let mut memory = Vec::new();
        assert_eq!(log.count(), Err(Flaw::Corrupt), "{runs:x?}");
        assert_eq!(log.merge_into(&mut Registers::default()), Err(Flaw::Corrupt), "{runs:x?}");
        assert_eq!(log.to_dense(&mut memory), Err(Flaw::Corrupt), "{runs:x?}");
    }
    let long = sparse_value(&[0; 2 * REGISTER_COUNT + 1]);
    assert_eq!(HyperLogLog::parse(&long).unwrap_err(), Flaw::Corrupt);
}

#[test]
fn an_element_beyond_the_runs_is_refused_and_one_within_is_added() {
    let value = sparse_value(&[0x7f, 0x00]);
    for (element, is_within) in [("ann", true), ("", true)] {
        let Hit { index, .. } = Hit::of(element.as_bytes());
        let added =
            add(Some(&value), [element.as_bytes()].into_iter(), SPARSE_BYTES_MAX, &mut Vec::new());
        assert_eq!(usize::from(index) < 0x3f01, is_within);
        assert!(added.unwrap().has_changed);
    }
    let beyond = (0..).map(|number: u32| number.to_string());
    let beyond = beyond.into_iter().find(|it| Hit::of(it.as_bytes()).index >= 0x3f01).unwrap();
    let elements = ["ann".as_bytes(), beyond.as_bytes()].into_iter();
    let added = add(Some(&value), elements, SPARSE_BYTES_MAX, &mut Vec::new());
    assert_eq!(added, Err(Flaw::Corrupt));
}

#[test]
fn the_self_test_passes() {
    assert_eq!(self_test(), Ok(()));
}
