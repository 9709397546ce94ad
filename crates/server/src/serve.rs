//! `forebay serve`: from a command line to a running server and its end.

use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Barrier};
use std::thread::{self, JoinHandle};

use base::prng::Prng;
use command::ShutdownRequest;
use sys::poll::{Events, Interest, Poller};
use sys::signal::{Signal, Signals};

use crate::accept::Acceptor;
use crate::config::{self, Config, Settings};
use crate::service::Service;
use crate::shared::Shared;
use crate::worker::Worker;
use crate::{limits, listen, log};

const SIGNAL_TOKEN: u64 = 0;
const SHUTDOWN_TOKEN: u64 = 1;

/// Runs a server with the arguments after `serve` until it is told to end.
pub fn run(arguments: &[String]) -> ExitCode {
    let config = config::from_command_line(arguments, || {
        let mut text = Vec::new();
        io::stdin().read_to_end(&mut text)?;
        Ok(text)
    });
    let config = match config {
        Ok(config) => config,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    match serve(config, config_file(arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            report(&message);
            ExitCode::FAILURE
        }
    }
}

/// Tells why the server ends, in the log once there is one.
fn report(message: &str) {
    if tracing::dispatcher::has_been_set() {
        tracing::warn!("{message}");
    } else {
        eprintln!("{message}");
    }
}

/// Returns the absolute path of the configuration file in `arguments`, or nothing.
fn config_file(arguments: &[String]) -> String {
    let file = arguments.first().filter(|first| *first != "-" && !first.starts_with("--"));
    let path = file.and_then(|file| fs::canonicalize(file).ok());
    path.map_or_else(String::new, |path| path.display().to_string())
}

fn serve(mut config: Config, config_file: String) -> Result<(), String> {
    enter_directory(&mut config)?;
    let settings = config.settings();
    let control = log::start(settings.log_file.as_deref(), &settings.log_level)
        .map_err(|error| format!("Can't open the log file: {error}"))?;
    stop_at_a_panic();
    log_start(&config, &settings);
    fit_clients_to_descriptors(&mut config)?;
    sys::signal::ignore_hangup();
    let signals = Signals::divert().map_err(|error| format!("no signals: {error}"))?;
    let shared = Arc::new(Shared::new(config, config_file, control)?);
    let settings = shared.settings();
    let listeners = listen::open(&settings)?;
    let kinds = listen::kinds(&listeners);
    let acceptor = Acceptor::new(listeners).map_err(|error| format!("no descriptor: {error}"))?;
    let poller = end_poller(&shared, &signals).map_err(|error| format!("no poller: {error}"))?;
    let threads = start_threads(&shared, acceptor)?;
    let _pid_file = PidFile::write(settings.pid_file.as_deref());
    if !shared.shutdown.has_begun() {
        tracing::info!("Server initialized");
        for kind in kinds {
            tracing::info!(%kind, "Ready to accept connections");
        }
    }
    wait_for_the_end(&shared, &signals, &poller)
        .map_err(|error| format!("waiting failed: {error}"))?;
    // From here on a further signal ends the process at once.
    signals.restore();
    // Who reads the memory itself turns to the socket, and learns there that the server is gone.
    shared.keyspace().arena().allow_readers(false);
    for thread in threads {
        thread.join().map_err(|_| "a thread of the server has panicked".to_owned())??;
    }
    tracing::warn!("Forebay is now ready to exit, bye bye...");
    Ok(())
}

fn enter_directory(config: &mut Config) -> Result<(), String> {
    let directory = config.settings().directory;
    std::env::set_current_dir(&directory)
        .map_err(|error| format!("Can't chdir to '{}': {error}", directory.display()))?;
    let entered = std::env::current_dir()
        .map_err(|error| format!("Can't tell the working directory: {error}"))?;
    config.show_directory(&entered);
    Ok(())
}

/// A panic is our fault: nobody should be served from what it left behind.
fn stop_at_a_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        tracing::error!("{panic}");
        report(panic);
        std::process::abort();
    }));
}

fn log_start(config: &Config, settings: &Settings) {
    let version = env!("CARGO_PKG_VERSION");
    let redis = command::REDIS_VERSION;
    let (port, pid) = (settings.port, std::process::id());
    tracing::info!(%version, %redis, bits = usize::BITS, port, pid, "Forebay is starting");
    config::notice::log(&Config::default(), config);
}

/// Lowers `maxclients` to what the limit of descriptors leaves, as Redis does.
fn fit_clients_to_descriptors(config: &mut Config) -> Result<(), String> {
    let settings = config.settings();
    let wanted = settings.max_clients;
    let allowed = sys::process::raise_descriptor_limit(limits::descriptors_wanted(&settings));
    let most = limits::clients_within(allowed, &settings);
    if most >= wanted {
        return Ok(());
    }
    tracing::warn!(wanted, allowed, most, "The limit of open files reduces maxclients");
    let name = config::effective::MAX_CLIENTS.name;
    *config = config
        .changed(&[(name.as_bytes(), most.to_string().as_bytes())])
        .map_err(|error| format!("maxclients: {error:?}"))?;
    Ok(())
}

type Thread = JoinHandle<Result<(), String>>;

/// Starts all threads and returns once each worker serves, or has begun the shutdown because it
/// cannot.
fn start_threads(shared: &Arc<Shared>, acceptor: Acceptor) -> Result<Vec<Thread>, String> {
    let worker_count = shared.identity.worker_count;
    let seed = sys::random::seed().map_err(|error| format!("no random numbers: {error}"))?;
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
    let service = Service::new(Arc::clone(shared), Prng::new(seed));
    threads.push(start_thread("service".to_owned(), move || {
        service.run();
        Ok(())
    })?);
    Ok(threads)
}

/// Runs a worker to the end of the server. One that fails ends the server: the connections that it
/// has, or would be given, would never be answered.
fn work(
    index: usize,
    shared: &Shared,
    acceptor: Option<Acceptor>,
    are_made: &Barrier,
) -> Result<(), String> {
    let worker = Worker::new(index, shared, acceptor)
        .map_err(|error| give_up(shared, format!("worker {index} cannot start: {error}")));
    are_made.wait();
    worker?.run().map_err(|error| give_up(shared, format!("worker {index} has failed: {error}")))
}

/// Begins the shutdown for the reason `message`, and returns it.
fn give_up(shared: &Shared, message: String) -> String {
    tracing::error!("{message}");
    // It may have begun by another way; either is fine.
    let _ = shared.begin_shutdown(ShutdownRequest::default());
    message
}

fn start_thread(
    name: String,
    run: impl FnOnce() -> Result<(), String> + Send + 'static,
) -> Result<Thread, String> {
    let started = thread::Builder::new().name(name.clone()).spawn(run);
    started.map_err(|error| format!("cannot start thread {name}: {error}"))
}

/// Returns what tells of a signal and of the shutdown's begin.
fn end_poller(shared: &Shared, signals: &Signals) -> io::Result<Poller> {
    let poller = Poller::new()?;
    poller.add(signals, SIGNAL_TOKEN, Interest::ReadableLevel)?;
    poller.add(shared.shutdown.waker(), SHUTDOWN_TOKEN, Interest::ReadableLevel)?;
    Ok(poller)
}

/// Returns once the server is shutting down, by SHUTDOWN, by a signal or because a worker failed.
fn wait_for_the_end(shared: &Shared, signals: &Signals, poller: &Poller) -> io::Result<()> {
    let mut events = Events::with_capacity(2);
    while !shared.shutdown.has_begun() {
        poller.wait(&mut events, None)?;
        while let Some(signal) = signals.next() {
            match signal {
                Signal::Terminate => tracing::warn!("Received SIGTERM scheduling shutdown..."),
                Signal::Interrupt => tracing::warn!("Received SIGINT scheduling shutdown..."),
            }
            // It may have begun by another way; either is fine.
            let _ = shared.begin_shutdown(ShutdownRequest::default());
        }
    }
    Ok(())
}

/// The file that names this process, gone with it.
struct PidFile<'p> {
    path: Option<&'p Path>,
}

impl PidFile<'_> {
    /// Writes the file; without it the server runs as well, so a failure is only told.
    fn write(path: Option<&Path>) -> PidFile<'_> {
        let Some(path) = path else { return PidFile { path } };
        if let Err(error) = fs::write(path, format!("{}\n", std::process::id())) {
            tracing::warn!(path = %path.display(), %error, "Cannot write the pid file");
            return PidFile { path: None };
        }
        PidFile { path: Some(path) }
    }
}

impl Drop for PidFile<'_> {
    fn drop(&mut self) {
        if let Some(path) = self.path {
            // The process ends either way.
            let _ = fs::remove_file(path);
        }
    }
}
