//! The data of each moment of a log are made again, and no other.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::UnixMs;
use base::prng::Prng;
use runtime::{Embedded, LogFolder};
use wal::Directory;
use wal::simulated::SimulatedDisk;

use super::history::{Needs, keep_snapshot, segment_starts};
use super::restore::{Moment, restore};
use super::tests::{digest, instance, loading, log_of_seconds, request};
use super::*;
use crate::config::{Config, read_text};
use crate::persistence::save_options;

/// A folder that goes with its owner.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let name = format!("forebay-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Place(path)
    }

    fn storage(&self) -> Arc<dyn Storage> {
        Arc::new(Directory::open(&self.0).unwrap())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn config(text: &str) -> Settings {
    let mut config = Config::default();
    config.load(read_text(text.as_bytes(), None, 1)).unwrap();
    config.settings()
}

/// A history with snapshots at random places, and what of it `retention` keeps; returns the digest
/// at each LSN.
fn live(place: &Place, retention: &Retention, random: &mut Prng) -> BTreeMap<u64, Vec<u8>> {
    let settings = config("append-segment-size 64kb");
    let (embedded, storage) = (instance(), place.storage());
    let runtime = embedded.runtime();
    let lock = storage.lock().unwrap();
    let folder = LogFolder::new(place.0.clone(), Arc::clone(&storage), lock);
    let mut log = recover(folder, &settings, runtime, &loading()).unwrap();
    let mut consumer = runtime.backlog().required_consumer(UNTAKEN_BYTES_MAX);
    let mut session = embedded.session();
    let mut digests = BTreeMap::from([(0, digest(&embedded))]);
    let mut base = 0;
    for step in 0..150 {
        let mut request = request(random);
        if step % 3 == 0 {
            let value = vec![b'a' + random.below(26) as u8; 4000];
            request = vec![b"SET".to_vec(), format!("big{}", step % 7).into_bytes(), value];
        }
        session.run(&request);
        digests.insert(runtime.backlog().extent().end.0, digest(&embedded));
        let mut records = Vec::new();
        consumer.read(1 << 20, &mut records).unwrap();
        if !records.is_empty() {
            log.writer.append(&records).unwrap();
            log.writer.sync().unwrap();
        }
        if random.below(20) == 0 {
            keep_snapshot(&place.0, &*storage, base).unwrap();
            let file = place.0.join(SNAPSHOT_NAME);
            let progress = SaveProgress::default();
            base = runtime.save(&file, &save_options(&settings), &progress).unwrap().lsn.0;
            let needs = Needs { restart: base, readers: None };
            history::forget(&*storage, retention, &needs, UnixMs(0)).unwrap();
        }
    }
    digests
}

fn restored(place: &Path, storage: &Arc<dyn Storage>, moment: Moment) -> Result<Embedded, String> {
    let embedded = instance();
    restore(storage, place, moment, embedded.runtime())?;
    Ok(embedded)
}

#[test]
fn every_lsn_of_a_history_is_restored_to_the_data_of_that_moment() {
    for seed in 0..4 {
        let place = Place::new(&format!("restored-{seed}"));
        // All, or what a snapshot has and a little more.
        let bytes = if seed % 2 == 0 { 1 << 40 } else { 70_000 };
        let retention = Retention { age: None, bytes };
        let digests = live(&place, &retention, &mut Prng::new(seed));
        let (storage, mut refused) = (place.storage(), 0);
        for (lsn, expected) in &digests {
            match restored(&place.0, &storage, Moment::Position(Lsn(*lsn))) {
                Ok(embedded) => {
                    assert!(digest(&embedded) == *expected, "seed {seed}: other data at {lsn}");
                }
                Err(error) => {
                    assert!(error.contains("is before the first moment"), "seed {seed}: {error}");
                    refused += 1;
                }
            }
        }
        let all = digests.len();
        println!("seed {seed}: {refused} of {all} moments are gone");
        assert_eq!(refused == 0, seed % 2 == 0, "seed {seed}: {refused} of {all}");
        assert!(refused < all, "seed {seed}: all are gone");
        let (last, expected) = digests.last_key_value().unwrap();
        let latest = restored(&place.0, &storage, Moment::Latest).unwrap();
        assert!(digest(&latest) == *expected);
        // Between two records it is the earlier one that counts.
        let behind = restored(&place.0, &storage, Moment::Position(Lsn(last - 1))).unwrap();
        assert!(digest(&behind) == *digests.range(..last).next_back().unwrap().1);
        let beyond = restored(&place.0, &storage, Moment::Position(Lsn(last + 1)));
        assert!(beyond.err().unwrap().contains("nothing is known of LSN"));
    }
}

#[test]
fn missing_segment_is_a_refusal_and_what_comes_before_it_is_not() {
    let place = Place::new("gap");
    let retention = Retention { age: None, bytes: 1 << 40 };
    let digests = live(&place, &retention, &mut Prng::new(8));
    let storage = place.storage();
    for lsn in runtime::earlier_snapshots(&*storage).unwrap() {
        storage.remove(&runtime::snapshot_name(lsn)).unwrap();
    }
    let _ = fs::remove_file(place.0.join(SNAPSHOT_NAME));
    let starts = segment_starts(&*storage).unwrap();
    assert!(starts.len() > 2, "{starts:?}");
    storage.remove(&starts[1].name).unwrap();
    let before = digests.range(..=starts[1].lsn).next_back().unwrap();
    let embedded = restored(&place.0, &storage, Moment::Position(Lsn(*before.0))).unwrap();
    assert!(digest(&embedded) == *before.1);
    let behind = restored(&place.0, &storage, Moment::Latest);
    assert!(behind.err().unwrap().contains("a segment is missing"));
    storage.remove(&starts[0].name).unwrap();
    let behind = restored(&place.0, &storage, Moment::Latest);
    assert!(behind.err().unwrap().contains("there is no snapshot that the log"));
}

#[test]
fn time_is_a_moment_before_the_first_later_record() {
    let storage: Arc<dyn Storage> = Arc::new(SimulatedDisk::new());
    let lsns = log_of_seconds(&storage, 1..11, 300);
    let path = Path::new("/there/is/none");
    for (time, index) in [(0, 0), (999, 0), (1000, 1), (4500, 4), (10_000, 10), (99_000, 10)] {
        let embedded = instance();
        let moment = Moment::Time(UnixMs(time));
        let restored = restore(&storage, path, moment, embedded.runtime()).unwrap();
        assert_eq!(restored.lsn.0, lsns[index], "{time}");
        let next = (index < 10).then_some(1000 * (index as i64 + 1));
        assert_eq!(restored.next.map(|(_, time)| time.0), next);
    }
    // What was there before the first record that is left is not known.
    wal::forget_before(&*storage, lsns[6]).unwrap();
    let refused = restore(&storage, path, Moment::Time(UnixMs(1500)), instance().runtime());
    assert!(refused.unwrap_err().contains("begins later than 1970-01-01T00:00:01.500Z"));
}
