//! `daemonize yes`: the server in a process of its own, away from the terminal.
//!
//! A process with threads cannot fork and go on, so the program starts itself once more before it
//! has any. The first process waits until the second serves or has ended, so that its own end
//! tells which it was; Redis's ends before that is known.

use std::env;
use std::io::{self, Read, Write};
use std::os::unix::process::{CommandExt, parent_id};
use std::process::{Command, ExitCode, Stdio};

/// Names the process that waits, to tell the second process from the first.
const PARENT: &str = "FOREBAY_DETACHED_FROM";
/// What the second process writes to its output when it serves.
const SERVES: &[u8] = b"serves\n";

/// Returns whether this is the second process.
pub fn is_detached() -> bool {
    let parent = env::var(PARENT).ok().and_then(|text| text.parse().ok());
    parent == Some(parent_id())
}

/// Starts the second process as `program` with `arguments` and, on its standard input, `input`;
/// returns how it went.
///
/// # Errors
/// When it cannot be started.
pub fn start(program: &str, arguments: &[String], input: &[u8]) -> io::Result<ExitCode> {
    let mut command = Command::new(env::current_exe()?);
    command.arg0(program).args(arguments).env(PARENT, std::process::id().to_string());
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn()?;
    if let Some(mut pipe) = child.stdin.take() {
        // One that ended without reading tells why on standard error.
        let _ = pipe.write_all(input);
    }
    let mut said = Vec::new();
    if let Some(mut pipe) = child.stdout.take() {
        pipe.read_to_end(&mut said)?;
    }
    if said == SERVES {
        return Ok(ExitCode::SUCCESS);
    }
    let status = child.wait()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Leaves the terminal's session. For the second process, before it has threads.
///
/// # Errors
/// When the system does not let it.
pub fn leave_terminal() -> io::Result<()> {
    sys::process::new_session()
}

/// Tells the first process that this one serves, and lets go of its input and output.
///
/// # Errors
/// When there is nothing to turn them to.
pub fn let_go() -> io::Result<()> {
    let mut output = io::stdout();
    // A first process that was killed does not read it.
    let _ = output.write_all(SERVES).and_then(|()| output.flush());
    sys::process::silence()
}
