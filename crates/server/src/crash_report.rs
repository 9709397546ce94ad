//! The report of a crash: what a worker was doing, the functions on its stack, INFO and the
//! clients, in the words of Redis's report.
//!
//! Crate `sys` writes what is safe to write whatever has happened, and gives up each section of
//! these that does not come to its end.

use std::panic::PanicHookInfo;
use std::sync::{Arc, OnceLock, Weak};

use engine::Position;
use resp::{RequestView, Requests};
use sys::crash::{Output, Part, Report, Section, Underway};
use sys::syslog::{self, Priority};

use crate::config::Settings;
use crate::server_state::ServerState;
use crate::{info_text, log};

/// Arguments of a request that are shown.
const ARGUMENTS_MAX: usize = 64;
/// Bytes of one that are shown, as in Redis.
const ARGUMENT_BYTES_MAX: usize = 128;
/// Functions that are shown.
const FRAMES_MAX: usize = 128;
/// What the standard library calls where an assertion fails.
const PANICKING: &str = "core::panicking::";

const FAREWELL: &str = "       Please report the crash with all of the above, and with the\n       \
                        program itself where it is not a published one.\n\n";

/// The server, once there is one.
static SHARED: OnceLock<Weak<ServerState>> = OnceLock::new();

/// Has a fatal signal and a failed assertion lead to a report in the log. To be called once the
/// log is there.
pub fn install(settings: &Settings, is_detached: bool) {
    let installed = log::crash_log(settings, is_detached).and_then(|log| {
        sys::crash::install(Report {
            name: format!("Redis {}", settings.process.compatible_version),
            version: format!("Forebay {}", env!("CARGO_PKG_VERSION")),
            log,
            sections: sections(settings.system_log.is_enabled),
            farewell: FAREWELL,
        })
    });
    if let Err(error) = installed {
        tracing::warn!(%error, "There will be no report of a crash");
    }
    follow(settings);
    std::panic::set_hook(Box::new(report_panic));
}

/// Has reports be as `settings` ask for them from now on.
pub fn follow(settings: &Settings) {
    sys::crash::hide_data(settings.process.hides_user_data);
    sys::crash::set_enabled(settings.process.crash_log);
}

/// Makes `shared` the server whose state reports show.
pub fn watch(shared: &Arc<ServerState>) {
    // A process runs one server.
    let _ = SHARED.set(Arc::downgrade(shared));
}

/// A panic is our fault: nobody should be served from what it left behind.
fn report_panic(panic: &PanicHookInfo<'_>) {
    let payload = panic.payload();
    let text = match payload.downcast_ref::<String>() {
        Some(text) => text,
        None => payload.downcast_ref::<&str>().copied().unwrap_or("it panicked"),
    };
    let text = text.strip_prefix("assertion failed: ").unwrap_or(text);
    let (file, line) = panic.location().map_or(("?", 0), |place| (place.file(), place.line()));
    sys::crash::assertion_failed(file, line, text)
}

/// What a worker is at while it runs a batch.
pub struct Running<'a> {
    /// The batch.
    pub requests: Requests<'a>,
    /// Which of it.
    pub position: &'a Position,
    /// The session.
    pub client: u64,
    /// Its socket.
    pub descriptor: i32,
}

impl Underway for Running<'_> {
    fn describe(&self, part: Part, output: &mut Output) {
        let index = self.position.index();
        if index >= self.requests.len() {
            return; // It has not begun with the first.
        }
        let request = self.requests.at(index);
        let is_hidden = sys::crash::hides_data();
        match part {
            Part::Signal => {
                let client = self.client;
                output.raw("\n------ COMMAND UNDER WAY ------\n");
                output.formatted(format_args!("client: id={client} fd={}\n", self.descriptor));
                write_arguments(request, is_hidden, output);
            }
            Part::Assertion => {
                output.line(format_args!("=== ASSERTION FAILED CLIENT CONTEXT ==="));
                output.line(format_args!("client->id = {}", self.client));
                output.line(format_args!("client->conn = fd={}", self.descriptor));
                output.line(format_args!("client->argc = {}", request.len()));
                each_argument(request, is_hidden, |index, argument| {
                    output.begin_line(format_args!("client->argv[{index}] = "));
                    match argument {
                        Shown::Text(text) => output.quoted(text),
                        Shown::Length(bytes) => output.formatted(format_args!("{bytes} bytes")),
                    }
                    output.raw("\n");
                });
            }
            Part::Section => {
                let now = sys::clock::realtime();
                let client = shared().and_then(|shared| shared.clients.one(self.client, now));
                output.raw("\n------ CURRENT CLIENT INFO ------\n");
                // It may have been ended by another while it ran this.
                let line = client.map_or_else(String::new, |client| client.to_string());
                output.formatted(format_args!("{line}\n"));
                write_arguments(request, is_hidden, output);
            }
        }
    }
}

/// Writes the arguments of `request` as Redis's report shows those of the current client.
fn write_arguments(request: RequestView<'_>, is_hidden: bool, output: &mut Output) {
    output.formatted(format_args!("argc: '{}'\n", request.len()));
    each_argument(request, is_hidden, |index, argument| match argument {
        Shown::Text(text) => {
            output.formatted(format_args!("argv[{index}]: '"));
            output.quoted(text);
            output.raw("'\n");
        }
        Shown::Length(bytes) => output.formatted(format_args!("argv[{index}]: {bytes} bytes\n")),
    });
}

/// What is shown of an argument.
enum Shown<'a> {
    /// Its text, or the beginning of that.
    Text(&'a [u8]),
    /// How many bytes it has.
    Length(usize),
}

/// Calls `show` with the first arguments and what is shown of them. Where they are hidden, the
/// words of a command's name are shown alone: what names no command can be anything.
fn each_argument(
    request: RequestView<'_>,
    is_hidden: bool,
    mut show: impl FnMut(usize, Shown<'_>),
) {
    let command = command::find_for(request);
    let name_words = command.map_or(0, |command| command.name.split('|').count());
    for (index, argument) in request.iter().enumerate().take(ARGUMENTS_MAX) {
        let is_secret = command.is_some_and(|command| command.is_secret(request, index));
        let shown = match is_secret {
            true => Shown::Text(b"(redacted)"),
            false if is_hidden && index >= name_words => Shown::Length(argument.len()),
            false => Shown::Text(&argument[..argument.len().min(ARGUMENT_BYTES_MAX)]),
        };
        show(index, shown);
    }
}

/// Returns the second part of a report, in the order of Redis's.
fn sections(has_system_log: bool) -> Vec<Section> {
    let mut sections: Vec<Section> = vec![Box::new(write_backtrace)];
    sections.push(Box::new(|output| output.raw("\n------ INFO OUTPUT ------\n")));
    for index in 0..info_text::SECTION_COUNT {
        sections.push(Box::new(move |output| {
            if let Some(shared) = shared() {
                let lead = if index == 0 { "" } else { "\r\n" };
                output.formatted(format_args!("{lead}{}", info_text::section_text(&shared, index)));
            }
        }));
    }
    sections.push(Box::new(write_clients));
    sections.push(Box::new(|output| sys::crash::describe_underway(Part::Section, output)));
    if has_system_log {
        let text = "The server has crashed: its log has the report";
        sections.push(Box::new(move |_| syslog::write(Priority::Warning, text)));
    }
    sections
}

fn shared() -> Option<Arc<ServerState>> {
    SHARED.get()?.upgrade()
}

fn write_clients(output: &mut Output) {
    output.raw("\n------ CLIENT LIST OUTPUT ------\n");
    let Some(shared) = shared() else { return };
    for client in shared.clients.all(sys::clock::realtime()) {
        output.formatted(format_args!("{client}\n"));
    }
}

/// Writes the functions that led to the crash. Where the way back cannot be followed, as after a
/// jump to nowhere, those of the addresses on the stack.
fn write_backtrace(output: &mut Output) {
    output.raw("\nBacktrace:\n");
    let mut frames = Vec::new();
    backtrace::trace(|frame| {
        let address = frame.ip() as usize;
        // Nobody has called what a thread begins with.
        frames.extend(Some(address).filter(|address| *address != 0));
        frames.len() < FRAMES_MAX
    });
    let on_stack = sys::crash::return_addresses();
    if let Some(&instruction) = on_stack.first() {
        // What is above it belongs to the report.
        match frames.iter().position(|&frame| frame == instruction) {
            Some(start) => drop(frames.drain(..start)),
            None => frames = on_stack.to_vec(),
        }
        let lines = describe_frame(instruction, instruction + 1);
        lines.iter().for_each(|line| output.raw(line));
        let callers = frames.iter().skip(1).flat_map(|&frame| describe_frame(frame, frame));
        return callers.for_each(|line| output.raw(&line));
    }
    let lines: Vec<String> =
        frames.iter().flat_map(|&frame| describe_frame(frame, frame)).collect();
    let start = lines.iter().rposition(|line| line.contains(PANICKING)).unwrap_or(0);
    lines[start..].iter().for_each(|line| output.raw(line));
}

/// Returns a line for each function that has the code at `address`, the innermost of those that
/// were inlined first. They are looked up by the instruction before `behind`.
fn describe_frame(address: usize, behind: usize) -> Vec<String> {
    let (file, offset) = sys::crash::place_of(address).unwrap_or(("?", address));
    let mut lines = Vec::new();
    backtrace::resolve(behind as *mut _, |symbol| {
        let Some(name) = symbol.name() else { return };
        let source = symbol.filename().zip(symbol.lineno());
        let source =
            source.map_or_else(String::new, |(path, line)| format!(" {}:{line}", path.display()));
        lines.push(format!("{file}({name:#})[{address:#x}]{source}\n"));
    });
    if lines.is_empty() {
        lines.push(format!("{file}(+{offset:#x})[{address:#x}]\n"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek};

    use resp::OwnedRequest;

    use super::*;

    fn check(line: &str, expected: &str) {
        check_hidden(line, false, expected);
    }

    fn check_hidden(line: &str, is_hidden: bool, expected: &str) {
        let request = OwnedRequest::new(line.split(' ').map(str::as_bytes));
        let path = std::env::temp_dir().join(format!("forebay-crash-{}", std::process::id()));
        let mut file = std::fs::File::options()
            .create(true)
            .truncate(true)
            .read(true)
            .write(true)
            .open(&path)
            .unwrap();
        std::fs::remove_file(&path).unwrap();
        write_arguments(request.view(), is_hidden, &mut Output::to(&file));
        let mut text = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, expected);
    }

    #[test]
    fn arguments_are_shown_without_secrets_and_cut() {
        check("get k", "argc: '2'\nargv[0]: '\"get\"'\nargv[1]: '\"k\"'\n");
        check("AUTH hush", "argc: '2'\nargv[0]: '\"AUTH\"'\nargv[1]: '\"(redacted)\"'\n");
        check("Nope x", "argc: '2'\nargv[0]: '\"Nope\"'\nargv[1]: '\"x\"'\n");
        let (long, cut) = ("x".repeat(999), "x".repeat(128));
        check(&long, &format!("argc: '1'\nargv[0]: '\"{cut}\"'\n"));
        let many = vec!["a"; 65].join(" ");
        let shown: String = (0..64).map(|index| format!("argv[{index}]: '\"a\"'\n")).collect();
        check(&many, &format!("argc: '65'\n{shown}"));
    }

    #[test]
    fn of_hidden_arguments_the_name_of_the_command_is_shown() {
        let check = |line: &str, expected: &str| check_hidden(line, true, expected);
        check("set key 7", "argc: '3'\nargv[0]: '\"set\"'\nargv[1]: 3 bytes\nargv[2]: 1 bytes\n");
        check(
            "config get port",
            "argc: '3'\nargv[0]: '\"config\"'\nargv[1]: '\"get\"'\nargv[2]: 4 bytes\n",
        );
        check("AUTH hush", "argc: '2'\nargv[0]: '\"AUTH\"'\nargv[1]: '\"(redacted)\"'\n");
        check("Nope x", "argc: '2'\nargv[0]: 4 bytes\nargv[1]: 1 bytes\n");
    }

    #[test]
    fn functions_of_this_program_have_names_and_lines() {
        let address = check as *const () as usize;
        let lines = describe_frame(address, address + 1).concat();
        assert!(
            lines.contains("crash_report::tests::check") && lines.contains("crash_report.rs:"),
            "{lines}"
        );
    }
}
