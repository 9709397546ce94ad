//! Files of the dataset: what one instance has written another reads, whoever helps it.

use std::fs;
use std::io::Cursor;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use base::UnixMs;
use base::prng::Prng;
use runtime::{
    Embedded, EmbeddedOptions, Environment, ExpiredKeys, LoadError, LoadObserver, LoadOptions,
    Loaded, ManualClock, SaveOptions, SaveProgress,
};

const NOW: UnixMs = UnixMs(1_700_000_000_000);

fn embedded() -> Embedded {
    let options = EmbeddedOptions { allows_debug: true, ..EmbeddedOptions::default() };
    let environment = Environment::simulated(Arc::new(ManualClock::new(NOW)), 1);
    Embedded::open(&options, environment).expect("there is memory")
}

fn run(embedded: &Embedded, requests: &[String]) -> String {
    let mut session = embedded.session();
    let mut last = Vec::new();
    for request in requests {
        last = session.run(&request.split(' ').collect::<Vec<_>>());
        assert!(!last.starts_with(b"-"), "{request}: {}", last.escape_ascii());
    }
    String::from_utf8_lossy(&last).into_owned()
}

fn digest(embedded: &Embedded) -> String {
    run(embedded, &["DEBUG DIGEST".to_owned()])
}

/// Returns requests that make `count` keys of all types and lengths, in three databases.
fn requests(count: u64) -> Vec<String> {
    let mut random = Prng::new(count);
    let mut requests = Vec::new();
    for number in 0..count {
        let value = "v".repeat(random.below(200) as usize + 1);
        requests.push(match random.below(8) {
            0 => format!("HSET key:{number} f {value} g {number}"),
            1 => format!("ZADD key:{number} {number} {value}"),
            2 => format!("SET key:{number} {value} PXAT {}", NOW.0 + 1 + number as i64),
            3 if number % 100 == 3 => format!("SET key:{number} {}", "l".repeat(100_000)),
            4 => format!("SELECT {}", random.below(3)),
            _ => format!("SET key:{number} {value}"),
        });
    }
    requests
}

/// Returns the file of an instance, and the digest of what it has.
fn file(count: u64) -> (Vec<u8>, String) {
    let embedded = embedded();
    run(&embedded, &requests(count));
    let path = path();
    let options = SaveOptions {
        redis_version: "7.2.0".to_owned(),
        compresses: false,
        has_checksum: true,
        pauses: false,
    };
    let saved = embedded.runtime().save(&path, &options, &SaveProgress::default());
    saved.expect("the folder of temporary files takes it");
    let bytes = fs::read(&path).expect("it is there");
    fs::remove_dir_all(path.parent().expect("it is in a folder")).expect("it is there");
    (bytes, digest(&embedded))
}

/// Returns the path of a file in a folder of its own.
fn path() -> PathBuf {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("forebay-files-{}-{number}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    fs::create_dir_all(&folder).expect("the folder of temporary files takes it");
    folder.join("dump.rdb")
}

fn options(helpers: usize) -> LoadOptions {
    LoadOptions { expired: ExpiredKeys::LeftOut, helpers, file_bytes: 1 << 20 }
}

#[test]
fn keys_are_the_same_whoever_helps_to_read_them() {
    let (bytes, expected) = file(20_000);
    for helpers in [0, 1, 3] {
        let reader = embedded();
        let loaded = reader.runtime().load(Cursor::new(&bytes), &options(helpers), &mut ());
        let loaded = loaded.expect("it is whole");
        assert_eq!(digest(&reader), expected, "{helpers} helpers");
        let counts: u64 = reader
            .runtime()
            .keyspace()
            .databases()
            .map(|database| reader.runtime().keyspace().counts(database).keys)
            .sum();
        assert_eq!((loaded.keys, loaded.expired), (counts, 0));
        assert_eq!(loaded.bytes, bytes.len() as u64);
    }
}

#[test]
fn key_that_stands_twice_ends_the_reading() {
    let (bytes, _) = file(6_000);
    for helpers in [0, 2] {
        let reader = embedded();
        // In the way of one that the file has.
        run(&reader, &["SET key:17 1".into(), "SELECT 1".into(), "SET key:17 1".into()]);
        run(&reader, &["SELECT 2".into(), "SET key:17 1".into()]);
        match reader.runtime().load(Cursor::new(&bytes), &options(helpers), &mut ()) {
            Err(LoadError::Twice { key, .. }) => assert_eq!(key, b"key:17"),
            other => panic!("{helpers} helpers: {other:?}"),
        }
    }
}

#[test]
fn file_that_ends_early_or_says_more_than_it_has_is_refused() {
    let (bytes, _) = file(6_000);
    for helpers in [0, 2] {
        let reader = embedded();
        let short = &bytes[..bytes.len() / 2];
        let ended = reader.runtime().load(Cursor::new(short), &options(helpers), &mut ());
        assert!(matches!(ended, Err(LoadError::File(_))), "{ended:?}");
    }
    // The most keys that can be said, where memory for them is asked ahead: 32 bits of each.
    let mut liar = b"REDIS0011\xfe\x00\xfb\x80\xff\xff\xff\xff\x00".to_vec();
    liar.extend_from_slice(b"\x00\x01k\x01v\xff");
    liar.extend_from_slice(&[0; 8]);
    let reader = embedded();
    let before = reader.runtime().keyspace().used_memory();
    let loaded = reader.runtime().load(Cursor::new(&liar), &options(1), &mut ());
    assert_eq!(loaded.expect("it is whole").keys, 1);
    let grown = reader.runtime().keyspace().used_memory() - before;
    assert!(grown < 2 << 20, "{grown} bytes for a file that says to be of 1 MiB");
}

/// Wants no more after some looks.
struct Impatient(u32);

impl LoadObserver for Impatient {
    fn progress(&mut self, _: &Loaded) -> ControlFlow<()> {
        self.0 -= 1;
        if self.0 == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

#[test]
fn reading_ends_where_nobody_wants_it_any_more() {
    let (bytes, _) = file(20_000);
    for helpers in [0, 2] {
        let reader = embedded();
        let mut observer = Impatient(3);
        let ended = reader.runtime().load(Cursor::new(&bytes), &options(helpers), &mut observer);
        assert!(matches!(ended, Err(LoadError::Cancelled)), "{ended:?}");
    }
}
