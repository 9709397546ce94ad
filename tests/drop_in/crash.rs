//! The report of a crash, with what readers of Redis's reports expect.

use std::fs::File;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use harness::{Kind, Launch, Server, TempFolder, encode, words};

const SEGV: i32 = 11;
const ABRT: i32 = 6;

/// A server that logs to a file of its own.
struct Crashing {
    server: Server,
    folder: TempFolder,
}

impl Crashing {
    fn start(kind: Kind, options: &[(&str, &str)]) -> Crashing {
        let folder = TempFolder::new();
        let log = folder.join("server.log").display().to_string();
        let launch = Launch::new(kind).option("logfile", &log).option("loglevel", "warning");
        let launch = match kind {
            Kind::Forebay => launch.option("workers", "2"),
            // It tests all memory otherwise.
            Kind::Redis => launch.option("crash-memcheck-enabled", "no"),
        };
        let options = options.iter().copied();
        let server = options.fold(launch, |launch, (name, value)| launch.option(name, value));
        Crashing { server: server.start(), folder }
    }

    /// Sends `lines`, and waits until the server has died of `signal`; returns its log.
    fn crash(&mut self, lines: &[&str], signal: i32) -> String {
        let mut client = self.server.tcp();
        for line in lines {
            client.send(&encode(&[words(line)])).expect("the server takes a request");
        }
        self.death(signal)
    }

    /// Waits until the server has died of `signal`, and returns its log.
    fn death(&mut self, signal: i32) -> String {
        let status = self.server.wait();
        let log = std::fs::read(self.folder.join("server.log")).expect("there is a log");
        let log = String::from_utf8_lossy(&log).into_owned();
        assert_eq!(status.signal(), Some(signal), "{log}");
        log
    }
}

fn assert_in_order(text: &str, parts: &[&str]) {
    let mut rest = text;
    for part in parts {
        let Some(position) = rest.find(part) else { panic!("{part:?} is missing in\n{text}") };
        rest = &rest[position + part.len()..];
    }
}

const START: &str = "\n\n=== REDIS BUG REPORT START: Cut & paste starting from here ===\n";
const END: &str = "\n=== REDIS BUG REPORT END. Make sure to include from START to END. ===\n";

/// What all of this holds for redis-server too.
const SECTIONS: [&str; 11] = [
    "\n------ INFO OUTPUT ------\n# Server\r\n",
    "redis_version:",
    "# Clients\r\nconnected_clients:",
    "# Commandstats\r\n",
    "# Keyspace\r\n",
    "db0:keys=1,",
    "\n------ CLIENT LIST OUTPUT ------\nid=",
    " cmd=",
    "\n------ CURRENT CLIENT INFO ------\nid=",
    "\nargv[0]: '\"debug\"'\n",
    "argv[1]: '\"",
];

fn with_sections<'a>(head: &[&'a str], argument: &'a str) -> Vec<&'a str> {
    [head, &SECTIONS, &[argument, END]].concat()
}

fn frames(text: &str) -> usize {
    text.lines().filter(|line| line.contains("(") && line.contains(")[0x")).count()
}

#[test]
fn segfault_is_reported_as_by_redis() {
    for kind in [Kind::Forebay, Kind::Redis] {
        let mut crashing = Crashing::start(kind, &[]);
        let text = crashing.crash(&["SET k v", "debug SEGFAULT"], SEGV);
        let head = [
            START,
            " # Redis 7.",
            " crashed by signal: 11, si_code: 2\n",
            "# Accessing address: 0x",
            "# Crashed running the instruction at: 0x",
        ];
        assert_in_order(&text, &with_sections(&head, "SEGFAULT\"'\n"));
        for section in ["\n------ STACK TRACE ------\nEIP:\n", "\n------ REGISTERS ------\n"] {
            assert!(text.contains(section), "{text}");
        }
        assert!(frames(&text) > 4, "{text}");
    }
}

#[test]
fn stack_trace_names_the_functions_and_the_lines() {
    let text = Crashing::start(Kind::Forebay, &[]).crash(&["DEBUG SEGFAULT"], SEGV);
    assert!(text.contains("\n# Forebay ") || text.contains(" # Forebay "), "{text}");
    let head = [
        "EIP:\n",
        "Addresses on the stack that follow a call:\n",
        "\nBacktrace:\n",
        "sys::crash::",
        "command::server::debug::",
        "engine::",
        "server::worker::",
        "------ INFO OUTPUT",
    ];
    assert_in_order(&text, &head);
    assert!(text.contains("/worker.rs:"), "{text}");
}

#[test]
fn panic_is_a_software_failure_as_in_redis() {
    for kind in [Kind::Forebay, Kind::Redis] {
        let text = Crashing::start(kind, &[]).crash(&["SET k v", "debug PANIC"], ABRT);
        let head = [
            START,
            "# ------------------------------------------------\n",
            "# !!! Software Failure. Press left mouse button to continue\n",
            "# Guru Meditation: DEBUG PANIC called at Unix time ",
            "\n------ STACK TRACE ------\n",
            "\nBacktrace:\n",
        ];
        assert_in_order(&text, &with_sections(&head, "PANIC\"'\n"));
    }
}

#[test]
fn failed_assertion_is_reported_as_by_redis() {
    for kind in [Kind::Forebay, Kind::Redis] {
        let text = Crashing::start(kind, &[]).crash(&["SET k v", "debug ASSERT"], ABRT);
        let head = [
            START,
            "# === ASSERTION FAILED CLIENT CONTEXT ===\n",
            "# client->argc = 2\n",
            "# client->argv[0] = \"debug\"",
            "# client->argv[1] = \"ASSERT\"",
            "# === ASSERTION FAILED ===\n",
            "# ==> ",
            " == 2' is not true\n",
            "\n------ STACK TRACE ------\n",
            "\nBacktrace:\n",
        ];
        assert_in_order(&text, &with_sections(&head, "ASSERT\"'\n"));
    }
}

#[test]
fn want_of_memory_is_reported() {
    let text = Crashing::start(Kind::Forebay, &[]).crash(&["SET k v", "debug OOM"], ABRT);
    let head = [START, "crashed by signal: 6", "------ COMMAND UNDER WAY ------\n"];
    assert_in_order(&text, &with_sections(&head, "OOM\"'\n"));
}

/// EXEC holds the shards of its keys throughout, and the key counts of INFO come from all shards.
#[test]
fn shards_that_the_crash_has_locked_do_not_hold_up_the_report() {
    let mut crashing = Crashing::start(Kind::Forebay, &[]);
    let lines = ["SET k v", "MULTI", "SET k v", "DEBUG SEGFAULT", "EXEC"];
    let text = crashing.crash(&lines, SEGV);
    assert_in_order(&text, &[START, "argv[0]: '\"EXEC\"'", "db0:keys=1", "CLIENT LIST", END]);
    assert!(!text.contains("is given up"), "{text}");
}

#[test]
fn secrets_are_no_part_of_a_report_and_long_arguments_are_cut() {
    let mut crashing = Crashing::start(Kind::Forebay, &[("requirepass", "hush")]);
    let long = "x".repeat(1000);
    let lines = ["AUTH hush", "MULTI", &format!("DEBUG LOG {long}"), "DEBUG SEGFAULT", "EXEC"];
    let text = crashing.crash(&lines, SEGV);
    assert!(!text.contains("hush"), "{text}");
    let mut crashing = Crashing::start(Kind::Forebay, &[]);
    let text = crashing.crash(&[&format!("debug segfault {long}")], SEGV);
    assert_in_order(&text, &["argc: '3'", "argv[1]: '\"segfault\"'", "argv[2]: '\"xxx"]);
    assert!(!text.contains(&"x".repeat(129)), "{text}");
}

#[test]
fn keys_and_values_are_no_part_of_a_report_where_they_are_hidden() {
    let hidden = ("hide-user-data-from-log", "yes");
    let text = Crashing::start(Kind::Forebay, &[hidden]).crash(&["debug segfault mine"], SEGV);
    assert_in_order(&text, &["argv[0]: '\"debug\"'\n", "argv[2]: 4 bytes\n", END]);
    assert!(!text.contains("mine") && !text.contains("REGISTERS"), "{text}");
    let mut crashing = Crashing::start(Kind::Forebay, &[]);
    let lines = ["CONFIG SET hide-user-data-from-log yes", "debug assert mine"];
    let text = crashing.crash(&lines, ABRT);
    assert_in_order(&text, &["client->argv[2] = 4 bytes\n", "argv[2]: 4 bytes\n", END]);
    assert!(!text.contains("mine"), "{text}");
}

#[test]
fn signal_from_outside_is_reported_with_its_sender() {
    let mut crashing = Crashing::start(Kind::Forebay, &[]);
    crashing.server.tcp().call("SET k v");
    crashing.server.signal("FPE");
    let text = crashing.death(8);
    assert_in_order(&text, &[START, "crashed by signal: 8", "Killed by PID: ", "db0:keys=1", END]);
    assert!(!text.contains("CURRENT CLIENT INFO"), "the thread served nobody:\n{text}");
}

#[test]
fn crash_log_can_be_turned_off_and_on() {
    for kind in [Kind::Forebay, Kind::Redis] {
        let mut crashing = Crashing::start(kind, &[("crash-log-enabled", "no")]);
        let text = crashing.crash(&["debug segfault"], SEGV);
        assert!(!text.contains("BUG REPORT"), "{text}");
        let mut crashing = Crashing::start(kind, &[("crash-log-enabled", "no")]);
        let text = crashing.crash(&["debug assert"], ABRT);
        assert_in_order(&text, &[START, "=== ASSERTION FAILED ===", END]);
        assert!(!text.contains("INFO OUTPUT"), "{text}");
        let mut crashing = Crashing::start(kind, &[("crash-log-enabled", "no")]);
        let lines = ["CONFIG SET crash-log-enabled yes", "debug segfault"];
        assert_in_order(&crashing.crash(&lines, SEGV), &[START, "CLIENT LIST OUTPUT", END]);
    }
}

/// The system's own settings decide, as they do for any other program.
#[test]
fn core_is_left_where_the_system_leaves_one() {
    const LIMIT: &str = "--core=1048576";
    let folder = TempFolder::new();
    let mut other = Command::new("prlimit");
    other.args([LIMIT, "sh", "-c", "kill -SEGV $$"]).current_dir(folder.path());
    let expected = other.status().expect("prlimit runs").core_dumped();
    let launch = Launch::new(Kind::Forebay).by(&["prlimit", LIMIT]);
    let mut server = launch.start();
    let mut client = server.tcp();
    client.send(&encode(&[words("DEBUG SEGFAULT")])).expect("the server takes a request");
    let status = server.wait();
    assert_eq!((status.signal(), status.core_dumped()), (Some(SEGV), expected), "{}", server.log());
}

/// What the crash has left half done is shown to nobody. The log is a pipe that the list of the
/// clients fills, so that the report waits for this test.
#[test]
fn nobody_is_served_once_a_thread_has_crashed() {
    const CLIENTS: usize = 400;
    let folder = TempFolder::new();
    let path = folder.join("pipe");
    let made = Command::new("mkfifo").arg(&path).status().expect("mkfifo runs");
    assert!(made.success());
    let mut pipe = File::options().read(true).write(true).open(&path).expect("it is there");
    let log = path.display().to_string();
    let launch = Launch::new(Kind::Forebay).option("logfile", &log).option("loglevel", "warning");
    let mut server = launch.option("workers", "2").start();
    let mut others: Vec<_> = (0..CLIENTS).map(|_| server.unix()).collect();
    others.iter_mut().for_each(|other| drop(other.call("PING")));
    let mut client = server.tcp();
    client.send(&encode(&[words("DEBUG SEGFAULT")])).expect("the server takes a request");
    let mut text = Vec::new();
    while !String::from_utf8_lossy(&text).contains("CLIENT LIST OUTPUT") {
        let mut part = [0; 512];
        let count = pipe.read(&mut part).expect("the report goes on");
        text.extend_from_slice(&part[..count]);
    }
    for other in &mut others {
        other.send(b"PING\r\n").expect("the kernel takes a request");
    }
    // What was answered before the end is still there to be read.
    assert_eq!(server.wait().signal(), Some(SEGV));
    assert!(others.iter_mut().all(|other| other.read().is_err()), "nobody is served");
}
