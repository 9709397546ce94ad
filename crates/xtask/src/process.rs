//! Runs other programs: shows their output as it comes and counts the tests that they report.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

/// What one or more programs reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Tests that passed.
    pub passed: u64,
    /// Tests that failed, and programs that failed without naming a test.
    pub failed: u64,
}

impl Tally {
    /// Adds what another program reported.
    pub fn add(&mut self, other: Tally) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

/// Runs `command`, prints its standard output line by line, and returns the sum of all the
/// `test result:` lines in it. A program that exits with an error without a failed test counts as
/// one failed.
///
/// # Errors
/// When the program cannot be started.
pub fn run_counted(command: &mut Command) -> Result<Tally, String> {
    announce(command);
    let name = command.get_program().to_string_lossy().into_owned();
    let fail = |error: std::io::Error| format!("cannot run {name}: {error}");
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(fail)?;
    let output = child.stdout.take().expect("standard output was piped just above");
    let mut tally = Tally::default();
    for line in BufReader::new(output).split(b'\n') {
        let line = String::from_utf8_lossy(&line.map_err(fail)?).into_owned();
        tally.add(result_line(&line).unwrap_or_default());
        println!("{line}");
    }
    if !child.wait().map_err(fail)?.success() && tally.failed == 0 {
        tally.failed = 1;
    }
    Ok(tally)
}

/// Runs `command` with the terminal as it is.
///
/// # Errors
/// When the program cannot be started or exits with an error.
pub fn run(command: &mut Command) -> Result<(), String> {
    announce(command);
    run_quietly(command)
}

/// Runs `command` without showing it first.
///
/// # Errors
/// When the program cannot be started or exits with an error.
pub fn run_quietly(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command.status().map_err(|error| format!("cannot run {name}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{} ended with {status}", line_of(command))) }
}

/// Returns whether `program` runs with `arguments` and exits without an error; prints nothing.
pub fn succeeds(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Returns what `program` prints when run with `arguments`.
///
/// # Errors
/// When the program cannot be started or exits with an error.
pub fn output_of(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .map_err(|error| format!("cannot run {program}: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    String::from_utf8(output.stdout).map_err(|_| format!("{program} printed no UTF-8"))
}

fn announce(command: &Command) {
    println!("$ {}", line_of(command));
    // A closed standard output is not this function's to report: the next println! panics.
    let _ = std::io::stdout().flush();
}

/// Returns `command` as one would type it, the environment that it adds in front.
fn line_of(command: &Command) -> String {
    let mut words: Vec<String> = command
        .get_envs()
        .filter_map(|(name, value)| Some((name, value?)))
        .map(|(name, value)| format!("{}={:?}", name.to_string_lossy(), value.to_string_lossy()))
        .collect();
    words.push(command.get_program().to_string_lossy().into_owned());
    words.extend(command.get_args().map(|word| word.to_string_lossy().into_owned()));
    words.join(" ")
}

/// Returns the counts of a line such as `test result: ok. 3 passed; 0 failed; 0 ignored; ...`.
fn result_line(line: &str) -> Option<Tally> {
    let counts = line.trim().strip_prefix("test result: ")?.split_once(". ")?.1;
    let count = |word: &str| {
        let part = counts.split(';').find(|part| part.trim().ends_with(word))?;
        part.trim().strip_suffix(word)?.trim().parse().ok()
    };
    Some(Tally { passed: count("passed")?, failed: count("failed")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_lines_are_summed_and_a_silent_failure_counts() {
        let script = "echo 'test result: ok. 3 passed; 0 failed; 0 ignored';\
             echo 'test result: FAILED. 2 passed; 1 failed; 0 ignored'; exit 1";
        let tally = run_counted(Command::new("sh").args(["-c", script])).expect("sh runs");
        assert_eq!(tally, Tally { passed: 5, failed: 1 });
        let tally = run_counted(Command::new("sh").args(["-c", "exit 3"])).expect("sh runs");
        assert_eq!(tally, Tally { passed: 0, failed: 1 });
    }

    #[test]
    fn other_lines_count_nothing() {
        assert_eq!(result_line("running 3 tests"), None);
        assert_eq!(result_line("test result: unknown"), None);
    }

    #[test]
    fn a_program_that_fails_is_an_error() {
        assert!(run(Command::new("sh").args(["-c", "exit 1"])).is_err());
        assert!(run(&mut Command::new("no-such-program-here")).is_err());
    }
}
