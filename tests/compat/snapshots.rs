//! The file of the dataset: what one server saves the other loads, and what becomes of the server
//! and its file where it cannot be written or read.

use std::fs;
use std::path::Path;

use base::prng::Prng;
use collections::CollectionView;
use harness::{Connection, Kind, Launch, Server, TempFolder, poll_until, request};
use rdb::{Stored, Version, samples};
use resp::Value;

fn ok() -> Value {
    Value::Simple(b"OK".to_vec())
}

/// Launches a server whose files are in `folder`.
fn launch(kind: Kind, folder: &TempFolder) -> Launch {
    let path = folder.path().to_str().expect("the folder of tests has a plain name");
    Launch::new(kind).option("dir", path)
}

/// Stores keys of all types and encodings that redis-server 7.0 knows, in two databases.
fn fill(client: &mut Connection) {
    let mut random = Prng::new(17);
    let version = Version::new(10).expect("that of 7.0");
    for number in 0..300 {
        if number == 250 {
            assert_eq!(client.call("SELECT 3"), ok());
        }
        let key = format!("key:{number}");
        let count = 1 + random.below([5, 100, 700][number % 3]);
        let parts: Vec<Vec<u8>> =
            (0..count).map(|part| format!("{part}:{}", "x".repeat(number % 90)).into()).collect();
        let collection = samples::collection(&mut random, &parts);
        let is_timed = matches!(collection.view(), CollectionView::Hash(hash) if hash.is_timed());
        let mut payload = Vec::new();
        match number % 4 == 0 || is_timed {
            true => rdb::encode_as(version, Stored::String(&parts[0]), &mut payload),
            false => rdb::encode_as(version, Stored::Collection(collection.view()), &mut payload),
        }
        let ttl = if random.one_in(3) { "86400000" } else { "0" };
        let restore = request(&[b"RESTORE", key.as_bytes(), ttl.as_bytes(), &payload]);
        assert_eq!(client.ask(&restore).value, ok(), "{key}");
    }
    for (key, text) in [("int", "-123456789"), ("text", "deep"), ("long", &"ab".repeat(30_000))] {
        assert_eq!(client.ask(&request(&["SET", key, text])).value, ok());
    }
    assert_eq!(client.call("SELECT 0"), ok());
    fill_large(client);
}

/// Stores a collection of each type that a snapshot goes through in pieces.
fn fill_large(client: &mut Connection) {
    for number in 0..4_000 {
        let part = format!("part {number}{}", "y".repeat(number % 60));
        let score = format!("{}.5", number % 700);
        for words in [
            ["RPUSH", "large list", &part].as_slice(),
            &["SADD", "large set", &part],
            &["HSET", "large hash", &part, &score],
            &["ZADD", "large sorted set", &score, &part],
        ] {
            assert!(matches!(client.ask(&request(words)).value, Value::Integer(_)));
        }
    }
}

#[test]
fn what_redis_saves_is_loaded_and_what_is_saved_redis_loads() {
    for has_checksum in ["yes", "no"] {
        let folder = TempFolder::new();
        let mut redis = launch(Kind::Redis, &folder).option("rdbchecksum", has_checksum).start();
        let mut client = redis.tcp();
        fill(&mut client);
        let expected = client.call("DEBUG DIGEST");
        assert_eq!(client.call("SAVE"), ok());
        drop(client);
        redis.signal("KILL");
        redis.wait();
        let mut server = launch(Kind::Forebay, &folder).option("rdb-export-version", "10").start();
        let mut client = server.tcp();
        assert_eq!(client.call("DEBUG DIGEST"), expected);
        assert_eq!(client.info("rdb_last_load_keys_loaded"), 307);
        assert_eq!(client.call("DEBUG RELOAD"), ok());
        assert_eq!(client.call("DEBUG DIGEST"), expected, "after its own file");
        client.call("SET further key");
        let expected = client.call("DEBUG DIGEST");
        let started = Value::Simple(b"Background saving started".to_vec());
        assert_eq!(client.call("BGSAVE"), started);
        poll_until("the file", || client.info("rdb_bgsave_in_progress") == 0);
        assert_eq!(client.info("rdb_changes_since_last_save"), 0);
        drop(client);
        server.signal("KILL");
        server.wait();
        let redis = launch(Kind::Redis, &folder).start();
        assert_eq!(redis.tcp().call("DEBUG DIGEST"), expected);
    }
}

/// Stores a stream with groups, in which entries are pending with several consumers, and another
/// that has none but those.
fn fill_groups(client: &mut Connection) {
    const ENTRIES: usize = 4_000;
    for number in 1..=ENTRIES {
        let id = format!("{number}-7");
        client.ask(&request(&["XADD", "stream", &id, "field", &id]));
    }
    for (group, consumers) in [("group", 3), ("many consumers", 700), ("nothing read", 0)] {
        client.ask(&request(&["XGROUP", "CREATE", "stream", group, "0"]));
        for number in 0..consumers {
            let (name, count) = (format!("consumer {number}"), (1 + number % 9).to_string());
            let count = if consumers == 3 { "1100" } else { &count };
            let read =
                ["XREADGROUP", "GROUP", group, &name, "COUNT", count, "STREAMS", "stream", ">"];
            assert!(matches!(client.ask(&request(&read)).value, Value::Array(_)));
        }
        for number in (1..ENTRIES).step_by(5) {
            let id = format!("{number}-7");
            client.ask(&request(&["XACK", "stream", group, &id]));
            let id = format!("{}-7", number + 1);
            client.ask(&request(&["XCLAIM", "stream", group, "who claims", "0", &id, "JUSTID"]));
        }
    }
    client.call("COPY stream emptied");
    // What is pending stays so.
    client.call("XTRIM emptied MAXLEN 0");
}

/// Returns what `client` says of the groups of a stream, but for what depends on the time of the
/// question, and on how a server stores a stream.
fn told_of_groups(client: &mut Connection, key: &str) -> Vec<Value> {
    let mut told = Vec::new();
    for group in ["group", "many consumers", "nothing read"] {
        told.push(client.ask(&request(&["XPENDING", key, group])).value);
        told.push(client.ask(&request(&["XINFO", "CONSUMERS", key, group])).value);
    }
    told.push(client.ask(&request(&["XINFO", "GROUPS", key])).value);
    told.push(client.ask(&request(&["XINFO", "STREAM", key, "FULL", "COUNT", "0"])).value);
    told.iter_mut().for_each(forget_what_differs);
    told
}

fn forget_what_differs(value: &mut Value) {
    const FORGOTTEN: [&[u8]; 5] =
        [b"idle", b"inactive", b"active-time", b"radix-tree-keys", b"radix-tree-nodes"];
    let Value::Array(items) = value else { return };
    let is_name = |item: &Value| matches!(item, Value::Bulk(text) if FORGOTTEN.contains(&&**text));
    while let Some(at) = items.iter().position(is_name) {
        items.drain(at..at + 2);
    }
    items.iter_mut().for_each(forget_what_differs);
}

#[test]
fn groups_that_are_saved_in_pieces_redis_loads_as_they_were() {
    let folder = TempFolder::new();
    let mut server = launch(Kind::Forebay, &folder).option("rdb-export-version", "10").start();
    let mut client = server.tcp();
    fill_groups(&mut client);
    let expected = ["stream", "emptied"].map(|key| told_of_groups(&mut client, key));
    let pending = client.call("XPENDING stream group");
    assert!(matches!(&pending, Value::Array(it) if it[0] == Value::Integer(2_640)), "{pending:?}");
    let digest = client.call("DEBUG DIGEST");
    client.call("BGSAVE");
    poll_until("the file", || client.info("rdb_bgsave_in_progress") == 0);
    drop(client);
    server.signal("KILL");
    server.wait();
    for kind in [Kind::Redis, Kind::Forebay] {
        let server = launch(kind, &folder).start();
        let mut client = server.tcp();
        let told = ["stream", "emptied"].map(|key| told_of_groups(&mut client, key));
        assert_eq!(told, expected);
        assert_eq!(client.call("DEBUG DIGEST"), digest);
    }
}

#[test]
fn keys_that_have_expired_are_not_loaded() {
    let folder = TempFolder::new();
    let mut server = launch(Kind::Forebay, &folder).start();
    let mut client = server.tcp();
    client.call("DEBUG SET-ACTIVE-EXPIRE 0");
    client.call("SET gone v PX 1");
    client.call("SET stays v PX 100000");
    harness::let_pass(std::time::Duration::from_millis(20)); // It expires.
    assert_eq!(client.call("SAVE"), ok());
    drop(client);
    server.signal("KILL");
    server.wait();
    let server = launch(Kind::Forebay, &folder).start();
    let mut client = server.tcp();
    assert_eq!(client.call("DBSIZE"), Value::Integer(1));
    assert_eq!(client.info("rdb_last_load_keys_expired"), 1);
}

#[test]
fn a_file_that_is_not_whole_ends_the_start_with_its_place() {
    let folder = TempFolder::new();
    let mut server = launch(Kind::Forebay, &folder).start();
    let mut client = server.tcp();
    (0..50).for_each(|number| drop(client.call(&format!("SET key:{number} value"))));
    assert_eq!(client.call("SAVE"), ok());
    server.signal("KILL");
    server.wait();
    let path = folder.join("dump.rdb");
    let whole = fs::read(&path).expect("it was saved");
    for (bytes, said) in [
        (whole[..whole.len() / 2].to_vec(), "the file ends in the middle"),
        ([&whole[..60], b"X", &whole[61..]].concat(), "Fatal error loading the DB"),
        (b"HELLO0011".to_vec(), "Wrong signature trying to load DB from file"),
        (b"REDIS0099".to_vec(), "Can't handle RDB format version 99"),
    ] {
        fs::write(&path, &bytes).expect("the folder takes a file");
        let log = launch(Kind::Forebay, &folder).try_start().expect_err("it is not whole");
        let place = format!("Fatal error loading the DB from {}: at byte", path.display());
        assert!(log.contains(&place), "{log}");
        assert!(log.contains(said), "{log}");
        assert_eq!(fs::read(&path).expect("it is there"), bytes, "it is as it was");
    }
}

/// Has the next file of `server` not be written: its name is taken by a folder.
fn block(server: &Server, folder: &TempFolder) -> std::path::PathBuf {
    let path = folder.join(&format!("temp-{}.rdb", server.process_id()));
    fs::create_dir(&path).expect("nobody has the name");
    path
}

#[test]
fn where_the_file_cannot_be_written_writes_are_refused_and_the_old_one_stays() {
    const MISCONF: &[u8] =
        b"MISCONF Redis is configured to save RDB snapshots, but it's currently \
        unable to persist to disk.";
    let folder = TempFolder::new();
    let server = launch(Kind::Forebay, &folder).option("save", "3600 1000000").start();
    let mut client = server.tcp();
    client.call("SET lake deep");
    assert_eq!(client.call("SAVE"), ok());
    let path = folder.join("dump.rdb");
    let whole = fs::read(&path).expect("it was saved");
    let obstacle = block(&server, &folder);
    client.call("SET lake deeper");
    assert_eq!(client.call("SAVE"), Value::Error(b"ERR".to_vec()));
    assert_eq!(client.call("SET lake deepest"), ok(), "that was no background save");
    client.call("BGSAVE");
    poll_until("the failure", || {
        client.info_text("persistence").contains("rdb_last_bgsave_status:err")
    });
    for line in ["SET lake shallow", "DEL lake", "RPUSH list a"] {
        let refused = client.call(line);
        assert!(matches!(&refused, Value::Error(text) if text.starts_with(MISCONF)), "{refused:?}");
    }
    assert_eq!(client.call("GET lake"), Value::Bulk(b"deepest".to_vec()));
    assert_eq!(fs::read(&path).expect("it is there"), whole, "the file is that of before");
    client.call("CONFIG SET stop-writes-on-bgsave-error no");
    assert_eq!(client.call("SET lake wide"), ok());
    client.call("CONFIG SET stop-writes-on-bgsave-error yes");
    fs::remove_dir(obstacle).expect("it is there");
    client.call("BGSAVE");
    poll_until("success", || client.info_text("persistence").contains("rdb_last_bgsave_status:ok"));
    assert_eq!(client.call("SET lake clear"), ok());
    assert!(files_in(folder.path()).iter().all(|name| !name.starts_with("temp-")));
}

fn files_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("the folder is there");
    entries.map(|entry| entry.expect("it is").file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn a_schedule_saves_and_a_shutdown_with_one_loses_nothing() {
    let folder = TempFolder::new();
    let mut server = launch(Kind::Forebay, &folder).option("save", "1 2").start();
    let mut client = server.tcp();
    client.call("SET a 1");
    client.call("SET b 2");
    poll_until("the schedule", || client.info("rdb_saves") == 1);
    assert!(server.log().contains("2 changes in 1 seconds. Saving..."), "{}", server.log());
    client.call("SET c 3");
    client.send(&harness::encode(&[request(&["SHUTDOWN"])])).expect("the server takes a request");
    assert!(server.wait().success(), "{}", server.log());
    let mut server = launch(Kind::Forebay, &folder).start();
    let mut client = server.tcp();
    assert_eq!(client.call("DBSIZE"), Value::Integer(3));
    client.call("SET d 4");
    client.send(&harness::encode(&[request(&["SHUTDOWN"])])).expect("the server takes a request");
    assert!(server.wait().success(), "{}", server.log());
    let server = launch(Kind::Forebay, &folder).start();
    assert_eq!(server.tcp().call("DBSIZE"), Value::Integer(3), "there was no schedule");
}

#[test]
fn a_shutdown_that_cannot_save_goes_on_unless_it_is_forced() {
    let folder = TempFolder::new();
    let mut server = launch(Kind::Forebay, &folder).start();
    let mut client = server.tcp();
    block(&server, &folder);
    for line in ["SHUTDOWN SAVE", "SHUTDOWN NOW SAVE"] {
        let refusal = b"ERR Errors trying to SHUTDOWN. Check logs.".to_vec();
        assert_eq!(client.call(line), Value::Error(refusal), "{line}");
    }
    assert!(server.log().contains("Error trying to save the DB, can't exit."), "{}", server.log());
    assert_eq!(client.call("SET lake deep"), ok(), "writes wait no longer");
    client.send(&harness::encode(&[request(&["SHUTDOWN", "SAVE", "FORCE"])])).expect("it is taken");
    assert!(server.wait().success(), "{}", server.log());
    assert!(server.log().contains("Error trying to save the DB, exiting anyway."));
}

/// Imports `path` into `server`; returns what was said.
fn import(server: &Server, path: &Path, options: &[&str]) -> Result<String, String> {
    let mut program = harness::command(harness::forebay());
    program.arg("import").arg(path).arg("--to").arg(server.socket()).args(options);
    let output = program.output().expect("the program runs");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8(said).expect("it speaks UTF-8");
    if output.status.success() { Ok(said) } else { Err(said) }
}

#[test]
fn files_of_redis_are_imported_into_a_server_that_runs() {
    for preamble in ["yes", "no"] {
        let folder = TempFolder::new();
        let options = [("appendonly", "yes"), ("aof-use-rdb-preamble", preamble)];
        let launch = options
            .into_iter()
            .fold(launch(Kind::Redis, &folder), |launch, (name, value)| launch.option(name, value));
        let mut redis = launch.start();
        let mut client = redis.tcp();
        fill(&mut client);
        client.call("BGREWRITEAOF");
        poll_until("the base", || client.info("aof_rewrite_in_progress") == 0);
        for line in ["MULTI", "SET lake deep", "INCR count", "EXEC", "DEL key:1", "SAVE"] {
            client.call(line);
        }
        let expected = client.call("DEBUG DIGEST");
        // Redis's own log in text keeps no sign of a score of -0: it is what Redis makes of it.
        assert_eq!(client.call("DEBUG LOADAOF"), ok());
        let of_log = client.call("DEBUG DIGEST");
        drop(client);
        redis.signal("TERM");
        redis.wait();
        let server = Server::start(Kind::Forebay);
        let mut client = server.tcp();
        let log_and_file =
            [(folder.path().to_owned(), &of_log), (folder.join("dump.rdb"), &expected)];
        for (path, expected) in log_and_file {
            client.call("FLUSHALL");
            import(&server, &path, &[]).expect("it is whole");
            assert_eq!(client.call("DEBUG DIGEST"), *expected, "{}", path.display());
        }
        let refused = import(&server, &folder.join("dump.rdb"), &[]).expect_err("keys are there");
        assert!(refused.contains("BUSYKEY"), "{refused}");
        import(&server, &folder.join("dump.rdb"), &["--replace"]).expect("they are replaced");
        assert_eq!(client.call("DEBUG DIGEST"), expected);
    }
}
