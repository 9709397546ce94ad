//! Clients in Python, in the folder of this file: each a process that prints its steps as lines and
//! is killed in the middle of its work.

use std::time::{Duration, Instant};

use harness::{Dialogue, Server, command, poll_until};

/// How soon what a dead client had is to be gone.
const BOUND: Duration = Duration::from_millis(100);

/// One of them. A child of it keeps its socket until this is dropped.
pub struct Script(Dialogue);

impl Script {
    /// Starts the file `name` on `server`, with further arguments.
    pub fn start(server: &Server, name: &str, arguments: &[&str]) -> Script {
        let mut python = command("python3");
        // What Python would keep of the modules is not for the repository.
        python.arg("-B").arg(format!("{}/hostile/{name}", env!("CARGO_MANIFEST_DIR")));
        python.arg(server.socket()).args(arguments);
        Script(Dialogue::start(python))
    }

    /// Starts a client that holds up `count` seals, as `arguments` tell `slow_seal.py`, and returns
    /// it with the server's answers to them. None where the system does not let it: it says so.
    pub fn hold_up_seals(
        server: &Server,
        arguments: &[&str],
        count: usize,
    ) -> Option<(Script, Vec<String>)> {
        let mut client = Script::start(server, "slow_seal.py", arguments);
        let mut answers = Vec::new();
        while answers.len() < count {
            match client.step().as_str() {
                "writing" => answers.push(client.step()),
                "not allowed" => {
                    eprintln!("not run: this system keeps userfaultfd for others");
                    return None;
                }
                other => panic!("it does something else: {other}"),
            }
        }
        Some((client, answers))
    }

    /// Waits for its next step.
    pub fn step(&mut self) -> String {
        self.0.line()
    }

    /// Tells it something, which it takes as the sign to go on.
    pub fn tell(&mut self, line: &str) {
        self.0.tell(line);
    }

    /// Kills it, and waits until `is_gone`, which `what` names. Returns how long that took.
    pub fn kill(&mut self, what: &str, is_gone: impl FnMut() -> bool) -> Duration {
        let began = Instant::now();
        self.0.program().kill();
        poll_until(what, is_gone);
        began.elapsed()
    }
}

/// Prints how soon what dead clients had, `what`, was gone.
pub fn report(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    println!(
        "{} clients killed; {what} gone after {:.1} ms (median), {:.1} ms (p99), {:.1} ms at most; \
         bound {} ms: {}",
        times.len(),
        ms(at(0.5)),
        ms(at(0.99)),
        ms(at(1.0)),
        BOUND.as_millis(),
        if at(1.0) <= BOUND { "met" } else { "NOT MET" },
    );
}
