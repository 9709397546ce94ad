//! Crashes of real processes: each test starts this program once more, which then crashes.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output as Finished};

use super::*;

const VARIABLE: &str = "FOREBAY_CRASH_TEST";

/// Runs [`child`] in a process of its own, which crashes as `how` says, and returns the signal
/// that it ended by and what it wrote.
fn crash(how: &str) -> (Option<i32>, String) {
    let mut program = Command::new(std::env::current_exe().unwrap());
    program.args(["--exact", "crash::tests::child", "--nocapture", "--test-threads=1"]);
    let Finished { status, stdout, .. } = program.env(VARIABLE, how).output().unwrap();
    (status.signal(), String::from_utf8_lossy(&stdout).into_owned())
}

/// Not a test unless it is started by one.
#[test]
fn child() {
    let Ok(how) = std::env::var(VARIABLE) else { return };
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().unwrap();
        assertion_failed(place.file(), place.line(), "the hook's text");
    }));
    let sections: Vec<Section> = vec![
        Box::new(|output| output.raw("a section\n")),
        Box::new(|_| fault()),
        Box::new(|_| panic!("within the report")),
        Box::new(|_| wait_for_the_end()),
        Box::new(|output| output.raw("the last section\n")),
    ];
    let report = Report {
        name: "Test 1.2.3".to_owned(),
        version: "Forebay test".to_owned(),
        log: Log::Output,
        sections,
        farewell: "farewell\n",
    };
    install(report).unwrap();
    let _stack = AlternateStack::for_this_thread().unwrap();
    describe_while(&Doing("a test\u{7}\"\\\n\u{1}"), || match how.as_str() {
        "fault" => fault(),
        "overflow" => drop(descend(0)),
        "jump" => jump(),
        "assertion" => assert!(how.is_empty()),
        "abort" => std::process::abort(),
        "disabled fault" => {
            set_enabled(false);
            fault()
        }
        "disabled assertion" => {
            set_enabled(false);
            assert!(how.is_empty())
        }
        _ => panic!("{how}"),
    });
}

struct Doing(&'static str);

impl Underway for Doing {
    fn describe(&self, part: Part, output: &mut Output) {
        output.formatted(format_args!("{part:?}: "));
        output.quoted(self.0.as_bytes());
        output.raw("\n");
    }
}

#[expect(unconditional_recursion, reason = "it is to overflow the stack")]
fn descend(depth: u64) -> Vec<u64> {
    let frame = std::hint::black_box([depth; 64]);
    let deeper = descend(depth + 1);
    std::hint::black_box((frame, deeper)).1
}

fn jump() {
    // SAFETY: none: nothing is at this address, which is what the test is about.
    let nowhere: extern "C" fn() = unsafe { std::mem::transmute(8_usize) };
    std::hint::black_box(nowhere)();
}

fn assert_in_order(text: &str, parts: &[&str]) {
    let mut rest = text;
    for part in parts {
        let Some(position) = rest.find(part) else { panic!("{part:?} is missing in\n{text}") };
        rest = &rest[position + part.len()..];
    }
}

const START: &str = "=== REDIS BUG REPORT START: Cut & paste starting from here ===\n";
const END: &str =
    "=== REDIS BUG REPORT END. Make sure to include from START to END. ===\n\nfarewell\n";

/// Returns the parts of a report of which `head` comes first, and `panicked` of a section that
/// panics.
fn with_sections(head: &[&'static str], panicked: &'static str) -> Vec<&'static str> {
    let sections = [
        "a section\n",
        "This part of the report is given up: signal 11 at 0x",
        panicked,
        "This part of the report is given up: it does nothing",
        "the last section\n",
        END,
    ];
    [head, &sections].concat()
}

#[test]
fn report_of_a_fault_goes_on_where_a_section_faults_panics_or_hangs() {
    let (signal, text) = crash("fault");
    assert_eq!(signal, Some(libc::SIGSEGV), "{text}");
    let head = [
        START,
        " # Test 1.2.3 crashed by signal: 11, si_code: 2\n",
        "# Accessing address: 0x",
        "# Crashed running the instruction at: 0x",
        "# Forebay test, thread ",
        "------ REGISTERS ------\n",
        ") -> ",
        "Signal: \"a test\\a\\\"\\\\\\n\\x01\"\n",
        "------ STACK TRACE ------\nEIP:\n/",
        "Addresses on the stack that follow a call:\n/",
    ];
    assert_in_order(&text, &with_sections(&head, "=== RECURSIVE ASSERTION FAILED ==="));
    assert_eq!(text.matches("BUG REPORT").count(), 2, "{text}");
}

#[test]
fn overflow_of_the_stack_is_reported() {
    let (signal, text) = crash("overflow");
    assert_eq!(signal, Some(libc::SIGSEGV), "{text}");
    assert_in_order(&text, &[START, "crashed by signal: 11", "STACK TRACE", "a section\n", END]);
}

#[test]
fn jump_to_nowhere_shows_who_called() {
    let (signal, text) = crash("jump");
    assert_eq!(signal, Some(libc::SIGSEGV), "{text}");
    let head = ["instruction at: 0x8\n", "EIP:\n[0x8]\n", "follow a call:\n/", "a section\n", END];
    assert_in_order(&text, &head);
}

#[test]
fn failed_assertion_is_reported_with_its_place() {
    let (signal, text) = crash("assertion");
    assert_eq!(signal, Some(libc::SIGABRT), "{text}");
    let head = [
        START,
        "Assertion: \"a test",
        "# === ASSERTION FAILED ===\n",
        "tests.rs:",
        "'the hook's text' is not true\n",
        "# Forebay test, thread ",
        "------ STACK TRACE ------\n",
    ];
    // A panic while another one is looked into is an abort.
    let panicked = "This part of the report is given up: signal 6";
    assert_in_order(&text, &with_sections(&head, panicked));
}

#[test]
fn abort_is_a_signal_as_any_other() {
    let (signal, text) = crash("abort");
    assert_eq!(signal, Some(libc::SIGABRT), "{text}");
    assert_in_order(&text, &[START, "crashed by signal: 6", "Killed by PID", "a section\n", END]);
}

#[test]
fn without_reports_a_signal_ends_the_process_and_an_assertion_is_named() {
    let (signal, text) = crash("disabled fault");
    assert_eq!(signal, Some(libc::SIGSEGV), "{text}");
    assert!(!text.contains("BUG REPORT"), "{text}");
    let (signal, text) = crash("disabled assertion");
    assert_eq!(signal, Some(libc::SIGABRT), "{text}");
    assert_in_order(&text, &[START, "=== ASSERTION FAILED ===", "is not true\n", END]);
    assert!(!text.contains("a section"), "{text}");
}
