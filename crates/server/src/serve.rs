//! `forebay serve`: from a command line to a running server and its end.

use std::ffi::CString;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Barrier};
use std::thread::{self, JoinHandle};

use command::ShutdownRequest;
use sys::crash::AlternateStack;
use sys::error_text::base_text;
use sys::poll::{Events, Interest, Poller};
use sys::signal::{Signal, Signals};

use crate::accept::Acceptor;
use crate::config::options::{Daemon, Network, Settings};
use crate::config::{self, CommandLine, Config};
use crate::durability::{HistoryThread, LogThread};
use crate::server_state::{Origin, ServerState, enter_directory};
use crate::service::ServiceThread;
use crate::supervise::Supervisor;
use crate::worker::Worker;
use crate::{crash_report, descriptor_limits, detach, listen, log};

const SIGNAL_TOKEN: u64 = 0;
const SHUTDOWN_TOKEN: u64 = 1;

/// How a server is started.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The name by which the program was called.
    pub program: String,
    /// All words after it.
    pub arguments: Vec<String>,
    /// Those that are the server's own: `[file] [-] [--name value ...] [-]`.
    pub options: Vec<String>,
    /// What holds before they say anything.
    pub defaults: Config,
}

/// Runs a server until it is told to end, in this process or, under `daemonize yes`, in another.
pub fn run(launch: Launch) -> ExitCode {
    let line = CommandLine::parse(&launch.options);
    let mut input = Vec::new();
    let config = config::from_command_line(launch.defaults.clone(), &line, || {
        io::stdin().read_to_end(&mut input)?;
        Ok(input.clone())
    });
    let config = match config {
        Ok(config) => config,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let settings = config.settings();
    let (supervisor, warning) = Supervisor::find(settings.daemon.supervised);
    let leaves = settings.daemon.daemonize && !supervisor.is_some();
    if leaves && !detach::is_detached() {
        return detach::start(&launch.program, &launch.arguments, &input).unwrap_or_else(|error| {
            eprintln!("Can't start a process in the background: {error}");
            ExitCode::FAILURE
        });
    }
    let start = Start {
        program: launch.program,
        config_file: absolute(line.file.as_deref()),
        supervisor,
        warning,
        is_detached: leaves,
    };
    match serve(config, &start) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            start.report(&message);
            ExitCode::FAILURE
        }
    }
}

/// What there is to know of a start beside its configuration.
struct Start {
    program: String,
    /// The configuration file's absolute path, or empty.
    config_file: String,
    supervisor: Supervisor,
    /// What is wrong with the supervision, for the log.
    warning: Option<String>,
    /// The process is away from the terminal, and another one waits for it to serve.
    is_detached: bool,
}

impl Start {
    /// Tells why the server ends: in the log once there is one, and to who waits for it.
    fn report(&self, message: &str) {
        let has_log = tracing::dispatcher::has_been_set();
        if has_log {
            tracing::warn!("{message}");
        }
        if !has_log || self.is_detached {
            eprintln!("{message}");
        }
    }
}

/// Returns the absolute path of `file` as text, or nothing.
fn absolute(file: Option<&Path>) -> String {
    let path = file.and_then(|file| fs::canonicalize(file).ok());
    path.map_or_else(String::new, |path| path.display().to_string())
}

fn serve(mut config: Config, start: &Start) -> Result<(), String> {
    prepare_process(start)?;
    sys::process::give_large_blocks_back();
    let directory = config.settings().daemon.directory;
    enter_directory(&mut config).map_err(|error| {
        let (directory, reason) = (directory.display(), base_text(&error));
        config::file_error(&format!("Can't chdir to '{directory}': {reason}"))
    })?;
    fix_pid_file(&mut config, start);
    let settings = config.settings();
    let control = log::start(&settings, start.is_detached).map_err(|error| {
        config::file_error(&format!("Can't open the log file: {}", base_text(&error)))
    })?;
    crash_report::install(&settings, start.is_detached);
    let _stack = AlternateStack::for_this_thread().map_err(|error| format!("no stack: {error}"))?;
    log_start(&config, start);
    fit_clients_to_descriptors(&mut config)?;
    sys::tsc_clock::calibrate();
    sys::return_stack::detect();
    let signals = Signals::divert().map_err(|error| format!("no signals: {error}"))?;
    let origin = Origin {
        config_file: start.config_file.clone(),
        supervisor: start.supervisor.name(),
        owns_process: true,
    };
    let shared = Arc::new(ServerState::new(config, origin, control)?);
    crash_report::watch(&shared);
    let settings = shared.settings();
    let listeners = listen::open(&settings, &shared.closer)?;
    shared.listeners.take(&listeners);
    let kinds = listen::kinds(&listeners);
    let acceptor = Acceptor::new(listeners).map_err(|error| format!("no descriptor: {error}"))?;
    let poller = end_poller(&shared, &signals).map_err(|error| format!("no poller: {error}"))?;
    tracing::info!("Server initialized");
    let loader = start_loader(&shared)?;
    let mut threads = start_threads(&shared, acceptor)?;
    threads.serving.extend(loader);
    let _pid_file = PidFile::write(settings.daemon.pid_file.as_deref());
    wait_while(&shared, &signals, &poller, || shared.loading.is_on())?;
    if !shared.shutdown.has_begun() {
        announce(start, &kinds)?;
    }
    wait_while(&shared, &signals, &poller, || true)?;
    start.supervisor.stopping();
    end_at_once_at_a_signal(signals);
    // Who reads the memory itself turns to the socket, and learns there that the server is gone.
    shared.keyspace().arena().allow_readers(false);
    threads.join(&shared)?;
    tracing::warn!("Forebay is now ready to exit, bye bye...");
    Ok(())
}

/// Settles what the process inherits, before it has threads.
fn prepare_process(start: &Start) -> Result<(), String> {
    let name = Path::new(&start.program).file_name().unwrap_or_default();
    if let Ok(name) = CString::new(name.as_encoded_bytes()) {
        sys::process::set_thread_name(&name);
    }
    sys::signal::ignore_hangup();
    if start.is_detached {
        detach::leave_terminal().map_err(|error| format!("Can't leave the terminal: {error}"))?;
    }
    Ok(())
}

/// The pid file of a server in the background, as in Redis.
const PID_FILE: &str = "/var/run/redis.pid";
/// The mode of a new one, as far as the umask allows.
const PID_FILE_MODE: u32 = 0o644;

fn fix_pid_file(config: &mut Config, start: &Start) {
    if start.is_detached && config.settings().daemon.pid_file.is_none() {
        config.fix(Daemon::pid_file(), PID_FILE);
    }
}

/// Tells everybody who may wait for it that the server serves.
fn announce(start: &Start, kinds: &[&str]) -> Result<(), String> {
    for kind in kinds {
        // Redis's words, as tools wait for them.
        tracing::info!("Ready to accept connections {kind}");
    }
    if start.is_detached {
        detach::let_go().map_err(|error| format!("Can't let go of the terminal: {error}"))?;
    }
    start.supervisor.ready();
    Ok(())
}

fn log_start(config: &Config, start: &Start) {
    let settings = config.settings();
    let (version, redis) = (env!("CARGO_PKG_VERSION"), &settings.process.compatible_version);
    let (port, pid) = (settings.network.port, std::process::id());
    tracing::info!(%version, %redis, bits = usize::BITS, port, pid, "Forebay is starting");
    match start.config_file.as_str() {
        "" => tracing::info!("No config file specified"),
        file => tracing::info!(%file, "Configuration loaded"),
    }
    if settings.process.shows_logo {
        log_banner(&settings);
    }
    if let Some(warning) = &start.warning {
        tracing::warn!("{warning}");
    }
    config::notice::log(&Config::default(), config);
    start.supervisor.starting();
}

/// Logs what Redis's banner says: test suites find the process by its line of the id.
fn log_banner(settings: &Settings) {
    let version = env!("CARGO_PKG_VERSION");
    let (compatible_version, port) = (&settings.process.compatible_version, settings.network.port);
    let (bits, pid) = (usize::BITS, std::process::id());
    tracing::info!(
        "\n\n    Forebay {version} (Redis {compatible_version}) {bits} bit\n    \
         Running in standalone mode\n    Port: {port}\n    PID: {pid}\n"
    );
}

/// Lowers `maxclients` to what the limit of descriptors leaves, as Redis does.
fn fit_clients_to_descriptors(config: &mut Config) -> Result<(), String> {
    let settings = config.settings();
    let segment_bytes = settings.derived.segment_bytes;
    let allowed = sys::process::raise_descriptor_limit(descriptor_limits::descriptors_wanted(
        &settings,
        segment_bytes,
    ));
    limit_clients(config, allowed)
}

/// Lowers `maxclients` to what `allowed` descriptors leave.
pub(crate) fn limit_clients(config: &mut Config, allowed: u64) -> Result<(), String> {
    let settings = config.settings();
    let (wanted, segment_bytes) = (settings.network.max_clients, settings.derived.segment_bytes);
    let most = descriptor_limits::clients_within(allowed, &settings, segment_bytes);
    if most >= wanted {
        return Ok(());
    }
    tracing::warn!(wanted, allowed, most, "The limit of open files reduces maxclients");
    let name = Network::max_clients().name;
    *config = config
        .changed(&[(name.as_bytes(), most.to_string().as_bytes())], false)
        .map_err(|error| format!("maxclients: {error:?}"))?;
    Ok(())
}

type Thread = JoinHandle<Result<(), String>>;

/// The threads of a server.
pub(crate) struct Threads {
    serving: Vec<Thread>,
    /// The one that writes the log: it ends last, as what the others do has to be in it.
    log: Thread,
    /// The one that works on the history of the log.
    history: Thread,
}

impl Threads {
    /// Returns once all have ended, for which `shared` is shutting down.
    ///
    /// # Errors
    /// When one of them has failed.
    pub fn join(self, shared: &ServerState) -> Result<(), String> {
        let ended: Vec<Result<(), String>> = self.serving.into_iter().map(join).collect();
        shared.persistence.join();
        shared.durability.end();
        // All of them, whatever has become of the first.
        let others = [self.log, self.history].map(join);
        ended.into_iter().chain(others).collect()
    }
}

fn join(thread: Thread) -> Result<(), String> {
    thread.join().map_err(|_| "a thread of the server has panicked".to_owned())?
}

/// Has a thread read the data. Returns it where that takes a while: clients are to be answered
/// then.
///
/// # Errors
/// When the data cannot be read, as far as is known by then.
fn start_loader(shared: &Arc<ServerState>) -> Result<Option<Thread>, String> {
    let state = Arc::clone(shared);
    let loader = start_thread("loader".to_owned(), move || match state.load(true) {
        Ok(()) => Ok(()),
        // The server ends already.
        Err(None) => Ok(()),
        Err(Some(message)) => {
            // It may have begun meanwhile; either is fine.
            let _ = state.begin_shutdown(ShutdownRequest::default());
            Err(message)
        }
    })?;
    match shared.loading.wait_until_shown() {
        true => join(loader).map(|()| None),
        false => Ok(Some(loader)),
    }
}

/// Starts all threads and returns once each worker serves, or has begun the shutdown because it
/// cannot.
pub(crate) fn start_threads(
    shared: &Arc<ServerState>,
    acceptor: Acceptor,
) -> Result<Threads, String> {
    let worker_count = shared.identity.worker_count;
    let random = shared.runtime.generator();
    let random = random.map_err(|error| format!("no random numbers: {error}"))?;
    let are_made = Arc::new(Barrier::new(worker_count + 1));
    let mut acceptor = Some(acceptor);
    let mut threads = Vec::new();
    for index in 0..worker_count {
        let (shared, acceptor) = (Arc::clone(shared), acceptor.take());
        let are_made = Arc::clone(&are_made);
        threads.push(start_thread(format!("worker-{index}"), move || {
            work(index, &shared, acceptor, &are_made)
        })?);
    }
    are_made.wait();
    let service = ServiceThread::new(Arc::clone(shared), random);
    threads.push(start_thread("service".to_owned(), move || {
        service.run();
        Ok(())
    })?);
    if shared.huge_pages.is_used() {
        let shared = Arc::clone(shared);
        threads.push(start_thread("huge-pages".to_owned(), move || {
            shared.huge_pages.run(&shared.segments);
            Ok(())
        })?);
    }
    let log_thread = LogThread::new(Arc::clone(shared));
    let log = start_thread("log".to_owned(), move || log_thread.run())?;
    let history_thread = HistoryThread::new(Arc::clone(shared));
    let history = start_thread("log-history".to_owned(), move || {
        history_thread.run();
        Ok(())
    })?;
    Ok(Threads { serving: threads, log, history })
}

/// Runs a worker to the end of the server. One that fails ends the server: the connections that it
/// has, or would be given, would never be answered.
fn work(
    index: usize,
    shared: &ServerState,
    acceptor: Option<Acceptor>,
    are_made: &Barrier,
) -> Result<(), String> {
    let worker = Worker::new(index, shared, acceptor)
        .map_err(|error| give_up(shared, format!("worker {index} cannot start: {error}")));
    are_made.wait();
    worker?.run().map_err(|error| give_up(shared, format!("worker {index} has failed: {error}")))
}

/// Begins the shutdown for the reason `message`, and returns it.
fn give_up(shared: &ServerState, message: String) -> String {
    tracing::error!("{message}");
    // It may have begun by another way; either is fine.
    let _ = shared.begin_shutdown(ShutdownRequest::default());
    message
}

fn start_thread(
    name: String,
    run: impl FnOnce() -> Result<(), String> + Send + 'static,
) -> Result<Thread, String> {
    let run = move || {
        let stack = AlternateStack::for_this_thread();
        let _stack = stack.map_err(|error| format!("no stack for its signals: {error}"))?;
        run()
    };
    let started = thread::Builder::new().name(name.clone()).spawn(run);
    started.map_err(|error| format!("cannot start thread {name}: {error}"))
}

/// Returns what tells of a signal and of the shutdown's begin.
fn end_poller(shared: &ServerState, signals: &Signals) -> io::Result<Poller> {
    let poller = Poller::new()?;
    poller.add(signals, SIGNAL_TOKEN, Interest::ReadableLevel)?;
    poller.add(shared.shutdown.waker(), SHUTDOWN_TOKEN, Interest::ReadableLevel)?;
    Ok(poller)
}

/// Does what signals ask for while `goes_on` and the server is not shutting down, by SHUTDOWN, by a
/// signal or because a worker failed. The waker of the shutdown tells of both.
fn wait_while(
    shared: &ServerState,
    signals: &Signals,
    poller: &Poller,
    goes_on: impl Fn() -> bool,
) -> Result<(), String> {
    let mut events = Events::with_capacity(2);
    while goes_on() && !shared.shutdown.has_begun() {
        let waited = poller.wait(&mut events, None);
        waited.map_err(|error| format!("waiting failed: {error}"))?;
        shared.shutdown.waker().clear();
        while let Some(signal) = signals.next() {
            let settings = shared.settings();
            let request = match signal {
                Signal::Terminate => {
                    tracing::warn!("Received SIGTERM scheduling shutdown...");
                    settings.process.shutdown_on_terminate
                }
                Signal::Interrupt => {
                    tracing::warn!("Received SIGINT scheduling shutdown...");
                    settings.process.shutdown_on_interrupt
                }
            };
            if shared.shutdown.is_held() && signal == Signal::Interrupt {
                insist();
            }
            if shared.shutdown.admits(request) {
                // What keeps it from ending stands in the log.
                let _ = shared.begin_shutdown(request);
            }
        }
        if let Some(request) = shared.shutdown.take_released() {
            let _ = shared.begin_shutdown(request);
        }
    }
    Ok(())
}

/// Has the next signal end the process without waiting for anybody.
fn end_at_once_at_a_signal(signals: Signals) {
    let wait = move || {
        let _stack = AlternateStack::for_this_thread()?;
        let poller = Poller::new()?;
        poller.add(&signals, SIGNAL_TOKEN, Interest::ReadableLevel)?;
        let mut events = Events::with_capacity(1);
        while signals.next().is_none() {
            poller.wait(&mut events, None)?;
        }
        insist();
    };
    let run = move || -> io::Result<()> { wait() };
    // Without that thread, the end is bounded by `shutdown-timeout` all the same.
    if let Err(error) = thread::Builder::new().name("signals".to_owned()).spawn(run) {
        tracing::warn!(%error, "A further signal will not end the process");
    }
}

fn insist() -> ! {
    tracing::warn!("You insist... exiting now.");
    std::process::exit(1);
}

/// The file that names this process, gone with it.
struct PidFile {
    path: Option<PathBuf>,
}

impl PidFile {
    /// Writes the file; without it the server runs as well, so a failure is only told.
    fn write(path: Option<&Path>) -> PidFile {
        let Some(path) = path else { return PidFile { path: None } };
        // The working directory may change while the server runs.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let text = format!("{}\n", std::process::id());
        // Not what a link in its place leads to: the folder may be open to others.
        let written = sys::file::overwrite(&path, PID_FILE_MODE)
            .and_then(|mut file| file.write_all(text.as_bytes()));
        if let Err(error) = written {
            tracing::warn!(path = %path.display(), %error, "Failed to write PID file");
            return PidFile { path: None };
        }
        PidFile { path: Some(path) }
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // The process ends either way.
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::tests::TestServer;

    #[test]
    fn all_threads_end_though_that_of_the_log_has_failed() {
        let server = TestServer::start("");
        let has_ended = Arc::new(AtomicBool::new(false));
        let log: Thread = std::thread::spawn(|| Err("the log has failed".to_owned()));
        let ended = Arc::clone(&has_ended);
        let history: Thread = std::thread::spawn(move || {
            // Longer than the other one takes to end.
            (0..10_000).for_each(|_| std::thread::yield_now());
            ended.store(true, Ordering::SeqCst);
            Ok(())
        });
        let joined = Threads { serving: Vec::new(), log, history }.join(&server.shared);
        assert_eq!(joined, Err("the log has failed".to_owned()));
        assert!(has_ended.load(Ordering::SeqCst));
    }
}
