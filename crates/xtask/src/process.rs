//! Runs other programs, one after the other or side by side: shows their output and counts the
//! tests that they report.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;

/// What one or more programs reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TestCounts {
    /// Tests that passed.
    pub passed: u64,
    /// Tests that failed, and programs that failed without naming a test.
    pub failed: u64,
}

impl TestCounts {
    /// Adds what another program reported.
    pub fn add(&mut self, other: TestCounts) {
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
pub fn run_counted(command: &mut Command) -> Result<TestCounts, String> {
    announce(command);
    let name = command.get_program().to_string_lossy().into_owned();
    let fail = |error: std::io::Error| format!("cannot run {name}: {error}");
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(fail)?;
    let output = child.stdout.take().expect("standard output was piped just above");
    let mut counts = TestCounts::default();
    for line in BufReader::new(output).split(b'\n') {
        let line = String::from_utf8_lossy(&line.map_err(fail)?).into_owned();
        counts.add(result_line(&line).unwrap_or_default());
        println!("{line}");
    }
    if !child.wait().map_err(fail)?.success() && counts.failed == 0 {
        counts.failed = 1;
    }
    Ok(counts)
}

/// Runs `command` with its output kept back, prints all of it at once when the program has ended,
/// and returns what [`run_counted`] would: lines of programs that run side by side never mix.
///
/// # Errors
/// When the program cannot be started.
pub fn run_counted_whole(command: &mut Command) -> Result<TestCounts, String> {
    let line = line_of(command);
    let output = command.output().map_err(|error| format!("cannot run {line}: {error}"))?;
    let [shown, errors] =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    println!("$ {line}\n{errors}{shown}");
    let mut counts = TestCounts::default();
    shown.lines().filter_map(result_line).for_each(|reported| counts.add(reported));
    if !output.status.success() && counts.failed == 0 {
        counts.failed = 1;
    }
    Ok(counts)
}

/// Calls `work` on each of `items`, as many at a time as this machine has processors, and returns
/// what came of each in the order of the items. Where some take much longer than others those
/// should stand first: what is begun last decides when all is done.
pub fn side_by_side<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let queue = Mutex::new(items.iter().enumerate());
    let done = Mutex::new(Vec::with_capacity(items.len()));
    let worker = || {
        loop {
            let next = queue.lock().expect("taking an item does not panic").next();
            let Some((index, item)) = next else { break };
            let result = work(item);
            done.lock().expect("adding a result does not panic").push((index, result));
        }
    };
    thread::scope(|scope| {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..processors.min(items.len()) {
            scope.spawn(worker);
        }
    });
    let mut done = done.into_inner().expect("adding a result does not panic");
    done.sort_unstable_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Returns the processor time, in seconds, that this program took until now and all those took that
/// it has started and that have ended, with those that they started in turn.
///
/// # Errors
/// When the kernel does not say.
pub fn processor_seconds() -> Result<u64, String> {
    let path = "/proc/self/stat";
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let ticks = processor_ticks(&text).ok_or_else(|| format!("{path} lacks a time"))?;
    Ok(ticks / TICKS_PER_SECOND)
}

/// In what proc(5) counts times: Linux tells programs of a hundred a second on every machine.
const TICKS_PER_SECOND: u64 = 100;

/// Returns the sum of the fields 14 to 17 of `/proc/<process>/stat`. The second field is the
/// program's name in brackets, in which spaces and brackets may stand.
fn processor_ticks(stat: &str) -> Option<u64> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    fields.get(11..15)?.iter().map(|field| field.parse::<u64>().ok()).sum()
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
    printed(Command::new(program).args(arguments))
}

/// Returns what `command` prints.
///
/// # Errors
/// When the program cannot be started or exits with an error.
pub fn printed(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("cannot run {name}: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    String::from_utf8(output.stdout).map_err(|_| format!("{name} printed no UTF-8"))
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
fn result_line(line: &str) -> Option<TestCounts> {
    let counts = line.trim().strip_prefix("test result: ")?.split_once(". ")?.1;
    let count = |word: &str| {
        let part = counts.split(';').find(|part| part.trim().ends_with(word))?;
        part.trim().strip_suffix(word)?.trim().parse().ok()
    };
    Some(TestCounts { passed: count("passed")?, failed: count("failed")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_lines_are_summed_and_a_silent_failure_counts() {
        let script = "echo 'test result: ok. 3 passed; 0 failed; 0 ignored';\
             echo 'test result: FAILED. 2 passed; 1 failed; 0 ignored'; exit 1";
        let counts = run_counted(Command::new("sh").args(["-c", script])).expect("sh runs");
        assert_eq!(counts, TestCounts { passed: 5, failed: 1 });
        let counts = run_counted(Command::new("sh").args(["-c", "exit 3"])).expect("sh runs");
        assert_eq!(counts, TestCounts { passed: 0, failed: 1 });
    }

    #[test]
    fn output_that_is_kept_back_counts_the_same() {
        let run = |script: &str| {
            run_counted_whole(Command::new("sh").args(["-c", script])).expect("sh runs")
        };
        let passed = run("echo 'test result: ok. 3 passed; 0 failed; 0 ignored'");
        assert_eq!(passed, TestCounts { passed: 3, failed: 0 });
        assert_eq!(run("exit 3"), TestCounts { passed: 0, failed: 1 });
        assert_eq!(run("true"), TestCounts::default());
    }

    #[test]
    fn work_side_by_side_is_done_once_each_and_answered_in_order() {
        let items: Vec<u32> = (0..100).collect();
        let calls = Mutex::new(Vec::new());
        let doubled = side_by_side(&items, |item| {
            calls.lock().expect("nobody panics").push(*item);
            2 * item
        });
        assert_eq!(doubled, items.iter().map(|item| 2 * item).collect::<Vec<_>>());
        let mut calls = calls.into_inner().expect("nobody panics");
        calls.sort_unstable();
        assert_eq!(calls, items);
        assert!(side_by_side(&[0; 0], |_| ()).is_empty());
    }

    #[test]
    fn processor_time_is_read_behind_any_name() {
        let stat = "7 (a) b) c) S 4 5 6 7 8 9 10 11 12 13 1000 300 40 2 18 19";
        assert_eq!(processor_ticks(stat), Some(1342));
        assert_eq!(processor_ticks("7 (a) S 1 2"), None);
        assert!(processor_seconds().is_ok());
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
