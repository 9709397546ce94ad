//! Programs that a test starts, none of which outlives it.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use crate::poll::poll;

/// Returns a command for `program` that the kernel kills when this process ends: `setpriv` asks
/// for the death signal and then becomes the program.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

/// A running program; killed by its own id and waited for when dropped.
#[derive(Debug)]
pub struct Program {
    child: Child,
    status: Option<ExitStatus>,
}

impl Program {
    /// Starts what [`command()`] made.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn start(command: Command) -> io::Result<Program> {
        let child = spawn(command)?;
        Ok(Program { child, status: None })
    }

    /// Returns its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns its output, which the command made a pipe.
    ///
    /// # Panics
    /// When it is no pipe, or was taken before.
    pub fn output(&mut self) -> ChildStdout {
        self.child.stdout.take().expect("the output is a pipe")
    }

    /// Returns its input, which the command made a pipe.
    ///
    /// # Panics
    /// When it is no pipe, or was taken before.
    pub fn input(&mut self) -> ChildStdin {
        self.child.stdin.take().expect("the input is a pipe")
    }

    /// Returns how it ended, if it has.
    pub fn status(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = self.child.try_wait().expect("a child of ours can be waited for");
        }
        self.status
    }

    /// Waits until it has ended by itself.
    ///
    /// # Panics
    /// When it does not.
    pub fn wait(&mut self) -> ExitStatus {
        poll("a program to end", || self.status())
    }

    /// Sends it the signal called `name`, such as `TERM`.
    pub fn signal(&self, name: &str) {
        signal(self.id(), name);
    }

    /// Kills it at once, and does not wait.
    ///
    /// # Panics
    /// When it has been waited for.
    pub fn kill(&mut self) {
        self.child.kill().expect("a child of ours can be killed");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if self.status().is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Sends the process the signal called `name`, such as `TERM`.
///
/// # Panics
/// When it does not take it.
pub fn signal(process_id: u32, name: &str) {
    let script = format!("kill -{name} {process_id}");
    let sent = Command::new("sh").args(["-c", &script]).status().expect("sh runs");
    assert!(sent.success(), "process {process_id} takes the signal {name}");
}

/// What a program that ended left behind.
#[derive(Debug)]
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// What it printed.
    pub output: String,
    /// What it complained.
    pub errors: String,
}

/// Runs what [`command()`] made, with `input`, until it ends.
///
/// # Panics
/// When it cannot be started or does not end.
pub fn run(mut command: Command, input: &[u8]) -> Finished {
    let name = format!("{command:?}");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut program =
        Program::start(command).unwrap_or_else(|error| panic!("{name} starts: {error}"));
    let child = &mut program.child;
    let mut standard_input = child.stdin.take().expect("the input is a pipe");
    let output = drain(child.stdout.take().expect("the output is a pipe"));
    let errors = drain(child.stderr.take().expect("the errors are a pipe"));
    // A program that ends without reading its input closes the pipe; its status tells the rest.
    let _ = io::Write::write_all(&mut standard_input, input);
    drop(standard_input);
    let status = program.wait();
    Finished { status, output: text(output), errors: text(errors) }
}

fn drain(mut pipe: impl Read + Send + 'static) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        bytes
    })
}

fn text(pipe: thread::JoinHandle<Vec<u8>>) -> String {
    let bytes = pipe.join().expect("reading a pipe does not panic");
    String::from_utf8_lossy(&bytes).into_owned()
}

struct Order {
    command: Command,
    answer: Sender<io::Result<Child>>,
}

/// Starts `command` from the one thread that lives as long as this process. The kernel sends a
/// child's death signal when the *thread* that started it ends, and a test's thread ends long
/// before a server that several tests share.
fn spawn(command: Command) -> io::Result<Child> {
    static SPAWNER: OnceLock<Sender<Order>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (sender, orders): (Sender<Order>, Receiver<Order>) = channel();
        thread::spawn(move || {
            for mut order in orders {
                let _ = order.answer.send(order.command.spawn());
            }
        });
        sender
    });
    let (answer, child) = channel();
    spawner.send(Order { command, answer }).expect("the spawner never ends");
    child.recv().expect("the spawner answers")
}
