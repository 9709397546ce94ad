//! Programs that read commands line by line, and answer line by line.

use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use crate::connection::SILENCE_MAX;
use crate::process::Program;

/// A running program with its input and its output. Dropped, it is killed, and then its input is
/// closed, which others may have from it.
#[derive(Debug)]
pub struct Dialogue {
    program: Program,
    lines: Receiver<String>,
    input: ChildStdin,
}

impl Dialogue {
    /// Starts what [`command()`](crate::command()) made.
    ///
    /// # Panics
    /// When the program cannot be started.
    pub fn start(mut command: Command) -> Dialogue {
        let name = format!("{command:?}");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let program = Program::start(command);
        let mut program = program.unwrap_or_else(|error| panic!("{name} starts: {error}"));
        let (input, output) = (program.input(), BufReader::new(program.output()));
        let (sender, lines) = channel();
        // A pipe has no timeout. The thread ends with the output, or where nobody listens.
        thread::spawn(move || {
            output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Dialogue { program, lines, input }
    }

    /// Returns the program.
    pub fn program(&mut self) -> &mut Program {
        &mut self.program
    }

    /// Returns its next line.
    ///
    /// # Panics
    /// When none comes.
    pub fn line(&mut self) -> String {
        self.lines.recv_timeout(SILENCE_MAX).expect("the program says something")
    }

    /// Tells it `line`.
    ///
    /// # Panics
    /// When it does not listen.
    pub fn tell(&mut self, line: &str) {
        writeln!(self.input, "{line}").expect("the program listens");
    }

    /// Tells it `line`; returns its answer.
    ///
    /// # Panics
    /// When it does not listen, or does not answer.
    pub fn ask(&mut self, line: &str) -> String {
        self.tell(line);
        self.line()
    }
}
