//! Bits of a long log are flipped one at a time, and it is read from the last place before each.

use super::*;
use crate::simulated::SimulatedDisk;
use crate::{Begin, Writer, WriterOptions};
use base::prng::Prng;

/// How many bits of a long log the test below flips, one at a time.
const FLIPPED_BITS: u64 = 200;
/// Of so many flipped bits the whole log is read for one, from its start on.
const FLIPS_PER_WHOLE_READ: u64 = 100;

/// A reader between two frames of a sound log, and what it reads next there.
struct Place {
    reader: Reader,
    /// Empty at the end.
    payload: Vec<u8>,
}

impl Reader {
    /// Returns another reader at the same place.
    fn another(&self) -> Reader {
        let open = || self.storage.open_read(&self.name()).unwrap();
        Reader {
            storage: Arc::clone(&self.storage),
            segments: self.segments.clone(),
            file: self.file.is_some().then(open),
            summaries: self.summaries.clone(),
            frame: Vec::new(),
            ..*self
        }
    }

    /// Returns how many segments were opened, and where in the last one this reader is.
    fn position(&self) -> (usize, u64) {
        (self.opened, self.offset)
    }

    /// Returns all that what is read next depends on beside the disk.
    fn state(&self) -> (usize, LogEnd) {
        (self.opened, LogEnd { torn_bytes: 0, ..self.end() })
    }
}

/// Any bit of a log of ten thousand frames: its change is noticed, or the log reads as it was.
///
/// The frames before a flipped bit do not depend on it, so that reading begins behind them; and it
/// ends where the reader has come to the same state again as without the flip, behind which the
/// bytes are the same. That this finds what reading the whole log does is checked now and then.
#[test]
fn flipped_bit_of_a_long_log_is_noticed_or_harmless() {
    let wanted = std::env::var("FOREBAY_FLIPPED_BITS").ok();
    let wanted = wanted.map_or(FLIPPED_BITS, |count| count.parse().expect("it is a number"));
    let mut random = Prng::new(wanted);
    let disk = long_log(&mut random);
    let places = places_of(&disk);
    assert!(places.len() > 10_000);
    let files = disk.contents();
    let mut noticed = 0;
    for number in 0..wanted {
        let index = random.below(files.len() as u64) as usize;
        let (name, bytes) = &files[index];
        let at = random.below(bytes.len() as u64);
        let bit = 1 << random.below(8);
        let file = disk.open(name).unwrap();
        let put = |byte: u8| {
            file.write_at(at, &[byte]).unwrap();
            file.sync().unwrap();
        };
        put(bytes[at as usize] ^ bit);
        let found = read_across(&places, (index + 1, at));
        if number % FLIPS_PER_WHOLE_READ == 0 {
            assert_eq!(found, read_whole(&disk, &places), "bit {bit} of byte {at} of {name}");
        }
        noticed += u64::from(found.is_err());
        put(bytes[at as usize]);
    }
    println!("{noticed} of {wanted} flipped bits were noticed, the others did no harm");
    assert!(noticed > wanted / 2);
    assert!(read_whole(&disk, &places).is_ok(), "each bit was put back");
}

/// Returns a disk with a log of ten thousand frames in several segments.
fn long_log(random: &mut Prng) -> SimulatedDisk {
    let disk = SimulatedDisk::new();
    let options = WriterOptions { segment_bytes: 256 << 10, term: 1, salt: 77 };
    let mut writer = Writer::begin(Arc::new(disk.clone()), 0, Begin::Nothing, options).unwrap();
    for number in 0..10_000 {
        writer.append(&vec![number as u8; 1 + random.below(100) as usize]).unwrap();
        if random.one_in(10) {
            writer.sync().unwrap();
        }
    }
    writer.sync().unwrap();
    disk
}

/// Returns each place of the sound log on `disk`.
fn places_of(disk: &SimulatedDisk) -> Vec<Place> {
    let mut reader = Reader::open(Arc::new(disk.clone())).unwrap();
    let mut places = Vec::new();
    loop {
        let (before, mut payload) = (reader.another(), Vec::new());
        let frame = reader.next(&mut payload).unwrap();
        places.push(Place { reader: before, payload });
        if frame.is_none() {
            return places;
        }
    }
}

/// Reads from the last place before `flip` on until nothing depends on it any more; returns the
/// error that was met.
fn read_across(places: &[Place], flip: (usize, u64)) -> Result<(), String> {
    let first = places.partition_point(|place| place.reader.position() <= flip) - 1;
    let mut reader = places[first].reader.another();
    let mut payload = Vec::new();
    for (index, place) in places.iter().enumerate().skip(first) {
        let frame = reader.next(&mut payload).map_err(|error| error.to_string())?;
        assert!(payload == place.payload, "flipped at {flip:?}, not noticed in frame {index}");
        match places.get(index + 1) {
            Some(next) if next.reader.state() == reader.state() => return Ok(()),
            Some(_) => assert!(frame.is_some(), "flipped at {flip:?}, the log ends early"),
            None => assert!(frame.is_none(), "flipped at {flip:?}, the log goes on"),
        }
    }
    Ok(())
}

/// Reads the whole log as [`read_across`] reads a part of it.
fn read_whole(disk: &SimulatedDisk, places: &[Place]) -> Result<(), String> {
    let mut reader = Reader::open(Arc::new(disk.clone())).unwrap();
    let mut payload = Vec::new();
    for (index, place) in places.iter().enumerate() {
        reader.next(&mut payload).map_err(|error| error.to_string())?;
        assert!(payload == place.payload, "a flipped bit was not noticed in frame {index}");
    }
    Ok(())
}
