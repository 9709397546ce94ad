//! What a server answers while it reads its data: they come through a pipe, from which it gets no
//! more than the test gives it.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use harness::{Connection, Kind, Launch, Server, TempFolder, command, info_field, poll_until};
use resp::Value;

use super::durable;
use super::starts::{FOLDER, digest};

const LOADING: &[u8] = b"LOADING Redis is loading the dataset in memory";

/// A file that is given to its reader in two parts.
struct Pipe {
    go_on: Sender<bool>,
    writer: JoinHandle<()>,
}

impl Pipe {
    /// Puts a pipe in place of the file at `path`, which gives nine tenths of it at once.
    fn in_place_of(path: &Path) -> Pipe {
        let bytes = fs::read(path).expect("there is a file");
        fs::remove_file(path).expect("it can be removed");
        let made = command("mkfifo").arg(path).status().expect("there is mkfifo");
        assert!(made.success());
        let (go_on, told) = channel();
        let path = path.to_owned();
        let writer = thread::spawn(move || give(&path, &bytes, &told));
        Pipe { go_on, writer }
    }

    /// Gives the rest, or ends the file where it is.
    fn end(self, gives_rest: bool) {
        self.go_on.send(gives_rest).expect("the writer waits");
        self.writer.join().expect("the writer does not panic");
    }
}

fn give(path: &Path, bytes: &[u8], told: &Receiver<bool>) {
    let (first, rest) = bytes.split_at(bytes.len() / 10 * 9);
    let mut pipe = OpenOptions::new().write(true).open(path).expect("somebody reads");
    // A reader that ends before the file has its reasons.
    let _ = pipe.write_all(first);
    if told.recv().expect("somebody tells") {
        let _ = pipe.write_all(rest);
    }
}

/// Fills a server of `launch` with more than is read before anybody is answered, has `save` write
/// it, and returns the digest of its data.
fn fill(launch: &Launch, save: &str) -> String {
    let launch = launch.clone().option("rdbcompression", "no");
    let mut server = launch.try_start().expect("an empty folder will do");
    let mut connection = server.unix();
    connection.call("DEBUG POPULATE 40000 key 100");
    connection.call("SET number 5");
    connection.call("HSET hash field value");
    let rewrites = connection.info("aof_rewrites");
    let saved = connection.call(save);
    assert!(matches!(saved, Value::Simple(_)), "{saved:?}");
    if save == "BGREWRITEAOF" {
        poll_until("the snapshot", || connection.info("aof_rewrites") == rewrites + 1);
        // A log behind it.
        connection.call("INCR number");
        connection.call("DEL key:7");
    }
    let before = digest(&server);
    server.signal("KILL");
    server.wait();
    before
}

fn of_dataset(folder: &Path) -> Launch {
    Launch::new(Kind::Forebay).option("dir", &folder.display().to_string())
}

fn check_refusals(connection: &mut Connection, has_log: bool) {
    for refused in [
        "GET number",
        "SET a 1",
        "DBSIZE",
        "PING",
        "SAVE",
        "BGSAVE",
        "FLUSHALL",
        "SHM ATTACH",
        "DEBUG POPULATE 10",
        "SUBSCRIBE a",
    ] {
        match connection.call(refused) {
            Value::Error(text) if text == LOADING => {}
            // There is none here.
            Value::Error(text) if text.starts_with(b"ERR unknown command") => {}
            other => panic!("{refused}: {other:?}"),
        }
    }
    for taken in ["SELECT 1", "SELECT 0", "CONFIG GET save", "CLIENT ID", "WATCH a", "MULTI"] {
        let reply = connection.call(taken);
        assert!(!matches!(reply, Value::Error(_)), "{taken}: {reply:?}");
    }
    assert_eq!(connection.call("INCR number"), Value::Error(LOADING.into()));
    assert!(
        matches!(connection.call("EXEC"), Value::Error(text) if text.starts_with(b"EXECABORT"))
    );
    let turns = format!("CONFIG SET appendonly {}", if has_log { "no" } else { "yes" });
    for kept in [turns.as_str(), "DEBUG RELOAD"] {
        let reply = connection.call(kept);
        assert!(matches!(reply, Value::Error(_)), "{kept}: {reply:?}");
    }
}

fn check_loading(server: &Server, has_log: bool) {
    let mut connection = server.tcp();
    check_refusals(&mut connection, has_log);
    let text = connection.info_text("persistence");
    let field = |name: &str| info_field(&text, name);
    assert_eq!(field("loading"), 1, "{text}");
    assert!(field("loading_loaded_bytes") >= 2 << 20, "{text}");
    assert!(field("loading_total_bytes") >= field("loading_loaded_bytes"), "{text}");
    assert!(field("loading_start_time") > 0 && text.contains("loading_eta_seconds:"), "{text}");
    assert!(text.contains("loading_loaded_perc:"), "{text}");
    assert!(!server.log().contains("Ready to accept connections"));
}

fn check_loaded(server: &Server, before: &str) {
    let mut connection = server.unix();
    poll_until("the data", || connection.info("loading") == 0);
    assert_eq!(digest(server), before);
    poll_until("the last line", || server.log().contains("Ready to accept connections"));
    assert_eq!(connection.call("SET new 1"), Value::Simple("OK".into()));
    assert!(!connection.info_text("persistence").contains("loading_eta_seconds"));
}

#[test]
fn dataset_is_read_while_the_server_answers() {
    let folder = TempFolder::new();
    let before = fill(&of_dataset(folder.path()), "SAVE");
    let pipe = Pipe::in_place_of(&folder.join("dump.rdb"));
    let server = of_dataset(folder.path()).while_it_loads().start();
    check_loading(&server, false);
    pipe.end(true);
    check_loaded(&server, &before);
    let log = server.log();
    assert!(log.contains("Loading RDB produced by version"), "{log}");
    assert!(log.contains("Done loading RDB, keys loaded: 40002, keys expired: 0."), "{log}");
}

#[test]
fn log_is_read_while_the_server_answers() {
    let folder = TempFolder::new();
    let before = fill(&durable(folder.path()), "BGREWRITEAOF");
    let pipe = Pipe::in_place_of(&folder.join(FOLDER).join("base.rdb"));
    let server = durable(folder.path()).while_it_loads().start();
    check_loading(&server, true);
    pipe.end(true);
    check_loaded(&server, &before);
}

#[test]
fn shutdown_ends_the_reading_and_saves_no_part_of_the_data() {
    for end in ["SHUTDOWN SAVE", "TERM"] {
        let folder = TempFolder::new();
        fill(&of_dataset(folder.path()), "SAVE");
        let pipe = Pipe::in_place_of(&folder.join("dump.rdb"));
        let mut server =
            of_dataset(folder.path()).option("save", "3600 1").while_it_loads().start();
        match end {
            "TERM" => server.signal(end),
            request => {
                server.tcp().send(format!("{request}\r\n").as_bytes()).expect("it is there");
            }
        }
        poll_until("the shutdown", || {
            let log = server.log();
            log.contains("User requested shutdown") || log.contains("scheduling shutdown")
        });
        pipe.end(false);
        assert!(server.wait().success(), "{}", server.log());
        let names = fs::read_dir(folder.path()).expect("it can be listed");
        let names: Vec<_> = names.map(|entry| entry.expect("it is there").file_name()).collect();
        assert_eq!(names, ["dump.rdb"], "{end}");
        let kind = fs::metadata(folder.join("dump.rdb")).expect("it is there").file_type();
        assert!(!kind.is_file(), "{end}: it is the pipe still");
    }
}

#[test]
fn server_whose_data_end_early_ends_with_the_reason() {
    let folder = TempFolder::new();
    fill(&of_dataset(folder.path()), "SAVE");
    let pipe = Pipe::in_place_of(&folder.join("dump.rdb"));
    let mut server = of_dataset(folder.path()).option("save", "3600 1").while_it_loads().start();
    let mut connection = server.unix();
    assert_eq!(connection.call("PING"), Value::Error(LOADING.into()));
    pipe.end(false);
    assert!(!server.wait().success());
    assert!(server.log().contains("Fatal error loading the DB from"), "{}", server.log());
}
