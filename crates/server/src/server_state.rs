//! What all workers and the service thread share.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base::{Lsn, UnixMs};
use command::{ConfigError, RewriteError, ShutdownError, ShutdownRequest};
use effects::{BACKLOG_BYTES_MIN, WriteRefusal};
use engine::{CommandStats, Position, TimingSettings};
use keyspace::Keyspace;
use runtime::{Environment, Memory, Options, Runtime, SyncPolicy};
use sys::error_text::base_text;
use sys::memfd_segments::OwnedSegments;
use sys::poll::Waker;
use sys::process::{descriptor_limit, raise_descriptor_limit};
use sys::socket::Closer;

use crate::attach::Attachments;
use crate::client_pause::ClientPause;
use crate::config::options::{Daemon, Network, Persistence, Process, Settings};
use crate::config::{Config, notice, refused, rewrite};
use crate::connection::CloseReason;
use crate::crash_report;
use crate::descriptor_closer::DescriptorCloser;
use crate::descriptor_limits;
use crate::descriptors_in_flight::DescriptorsInFlight;
use crate::durability::{self, Durability};
use crate::huge_pages::HugePages;
use crate::lane_lifecycle::Lanes;
use crate::latency::LatencyMonitor;
use crate::listen::{Listeners, OptionRefusal};
use crate::loading::Loading;
use crate::log::LogControl;
use crate::mailbox::{Mailbox, Message};
use crate::memcached_users::MemcachedUsers;
use crate::monitor::Monitors;
use crate::oom_score::OomScoreFile;
use crate::page_population::PagePopulation;
use crate::persistence::PersistenceState;
use crate::registry::{ClientRecord, Registry};
use crate::service::ServiceWaker;
use crate::slow_log::SlowLog;
use crate::statistics::{Counted, Rates, Totals, WorkerCounters};
use crate::transfers::Transfers;
use crate::user_quotas::UserQuotas;

/// The worker that accepts connections, for all.
const ACCEPTING_WORKER: usize = 0;

/// What is kept of the latest effects where somebody follows them and no option says how much: what
/// is written while the log thread does something else.
const FOLLOWED_BACKLOG_BYTES: u64 = 4 << 20;

/// What the threads of the server share: the one instance, and what is around it.
pub struct ServerState {
    /// The instance: the engine, its memory, its time.
    pub runtime: Runtime,
    /// The memory that other processes may map.
    pub segments: Arc<OwnedSegments>,
    /// The huge pages that it lies on.
    pub huge_pages: Arc<HugePages>,
    /// The processes that map it.
    pub attachments: Arc<Attachments>,
    /// The connections through shared memory.
    pub lanes: Lanes,
    /// Memory of lanes, uploads and pin tables whose pages are being brought.
    pub page_population: Arc<PagePopulation>,
    /// Held while upload memory is made: of two at a time the second sees the first.
    pub making_upload: Mutex<()>,
    /// What the users of shared memory have of what there is.
    pub quotas: Arc<UserQuotas>,
    /// Descriptors on their way to other processes.
    pub in_flight: DescriptorsInFlight,
    /// Closes what may take long to close.
    pub closer: Arc<dyn Closer>,
    /// The open listeners.
    pub listeners: Listeners,
    /// The connected clients.
    pub clients: Registry,
    /// The log.
    pub durability: Durability,
    /// How it stands with the reading of the data at start.
    pub loading: Loading,
    /// What is sent to other servers.
    pub transfers: Transfers,
    /// How it stands with the file of the dataset.
    pub persistence: PersistenceState,
    /// Which requests have to wait.
    pub pause: ClientPause,
    /// Who may authenticate by memcached's protocol, where a file says it.
    pub memcached_users: Option<MemcachedUsers>,
    /// Who is shown what runs.
    pub monitors: Monitors,
    /// One mailbox for each worker.
    pub mailboxes: Box<[Arc<Mailbox>]>,
    /// One set of counters for each worker.
    pub counters: Box<[WorkerCounters]>,
    /// Those of the service thread, which has rounds as workers have.
    pub service_counters: WorkerCounters,
    /// What the engine counts for each worker.
    pub command_stats: Box<[CommandStats]>,
    /// Which request each worker runs.
    pub positions: Box<[Position]>,
    /// What the workers report of the times of commands.
    pub timing: TimingSettings,
    /// The slow log.
    pub slow_log: SlowLog,
    /// The spikes of latency.
    pub latency: LatencyMonitor,
    /// Rates over the last seconds.
    pub rates: Rates,
    /// Wakes the service thread.
    pub service_waker: Arc<ServiceWaker>,
    /// Reasons to look at all connections each second: those whose replies the kernel did not
    /// take at once or that wait for their release, and an acceptor that pauses.
    pub pending_checks: AtomicUsize,
    /// What DEBUG has turned off.
    pub switches: Switches,
    /// How the shutdown stands.
    pub shutdown: Shutdown,
    /// What does not change while the server runs.
    pub identity: Identity,
    next_worker: AtomicUsize,
    config: Mutex<Config>,
    /// Held by who changes it.
    config_changes: Mutex<()>,
    settings: Mutex<Arc<Settings>>,
    /// Grows with every change of the settings.
    settings_version: AtomicU64,
    /// What CONFIG RESETSTAT counts from.
    counted_from: Mutex<Counted>,
    log: LogControl,
    oom_score: OomScoreFile,
}

/// What tests turn off, by DEBUG.
#[derive(Debug, Default)]
pub struct Switches {
    /// Expired keys are not looked for.
    pub leaves_expired: AtomicBool,
    /// The service thread does nothing but end pauses.
    pub is_service_paused: AtomicBool,
}

/// Facts about this process.
pub struct Identity {
    /// 40 random hexadecimal digits.
    pub run_id: String,
    /// When the server started, by the wall clock.
    pub started: UnixMs,
    /// When it started, by the steady clock.
    pub started_monotonic: Duration,
    /// The program's path.
    pub executable: String,
    /// The configuration file's path, or empty.
    pub config_file: String,
    /// Who supervises the process, by Redis's name.
    pub supervisor: &'static str,
    /// The process is the server's: nobody else has code in it.
    pub owns_process: bool,
    /// The number of worker threads.
    pub worker_count: usize,
}

/// Where a server comes from.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The configuration file's absolute path, or empty.
    pub config_file: String,
    /// Who supervises the process, by Redis's name.
    pub supervisor: &'static str,
    /// The process is the server's: nobody else has code in it.
    pub owns_process: bool,
}

impl Default for Origin {
    fn default() -> Origin {
        Origin { config_file: String::new(), supervisor: "no", owns_process: false }
    }
}

impl ServerState {
    /// Builds the data store that `config` asks for, without opening any listener, and claims the
    /// folder of its log. It takes no requests before [`ServerState::load`] has returned.
    ///
    /// # Errors
    /// A sentence for the log: memory, address space or descriptors are short.
    pub fn new(config: Config, origin: Origin, log: LogControl) -> Result<ServerState, String> {
        let settings = config.settings();
        let worker_count = worker_count(&settings);
        let huge_pages =
            HugePages::open(settings.instance.huge_pages, settings.derived.segment_bytes)?;
        let users_path = settings.memcached.auth_file.as_deref();
        let memcached_users = users_path.map(MemcachedUsers::read).transpose()?;
        let runtime =
            Runtime::open(&instance_options(&settings, worker_count), Environment::system())
                .map_err(|error| error.to_string())?;
        let segments = runtime.segments().expect("a server's memory can be mapped by others");
        let segments = Arc::clone(segments);
        let durability = Durability::default();
        let keeps_log = settings.persistence.keeps_log;
        let folder = keeps_log.then(|| durability::open_folder(&settings)).transpose()?;
        let loading = Loading::new(folder, runtime.clock().wall());
        runtime.keyspace().admission().refuse(WriteRefusal::Loading);
        let mailboxes: io::Result<Box<[Arc<Mailbox>]>> =
            (0..worker_count).map(|_| Mailbox::new().map(Arc::new)).collect();
        let quotas = Arc::new(UserQuotas::of_system());
        let service_waker = Arc::<ServiceWaker>::default();
        let shared = ServerState {
            segments,
            huge_pages: Arc::new(huge_pages),
            attachments: Arc::default(),
            lanes: Lanes::default(),
            page_population: Arc::default(),
            making_upload: Mutex::default(),
            in_flight: DescriptorsInFlight::new(Arc::clone(&quotas)),
            quotas,
            closer: Arc::new(DescriptorCloser::default()),
            listeners: Listeners::default(),
            clients: Registry::default(),
            durability,
            loading,
            persistence: PersistenceState::default(),
            pause: ClientPause::default(),
            switches: Switches::default(),
            memcached_users,
            monitors: Monitors::default(),
            mailboxes: mailboxes.map_err(|error| format!("no mailbox for a worker: {error}"))?,
            counters: (0..worker_count).map(|_| WorkerCounters::default()).collect(),
            service_counters: WorkerCounters::default(),
            command_stats: (0..worker_count).map(|_| CommandStats::new()).collect(),
            positions: (0..worker_count).map(|_| Position::default()).collect(),
            timing: TimingSettings::new(),
            slow_log: SlowLog::default(),
            latency: LatencyMonitor::default(),
            rates: Rates::default(),
            transfers: Transfers::new(Arc::clone(&service_waker)),
            service_waker,
            pending_checks: AtomicUsize::new(0),
            next_worker: AtomicUsize::new(0),
            shutdown: Shutdown::new().map_err(|error| format!("no descriptor: {error}"))?,
            identity: Identity::new(origin, worker_count, &runtime)?,
            runtime,
            config: Mutex::new(config),
            config_changes: Mutex::default(),
            settings: Mutex::new(Arc::new(settings.clone())),
            settings_version: AtomicU64::new(1),
            counted_from: Mutex::default(),
            log,
            oom_score: OomScoreFile::open(),
        };
        shared.apply(&settings);
        if let Err(error) = shared.oom_score.set(settings.derived.oom_score) {
            tracing::warn!(%error, "Unable to set the OOM score");
        }
        Ok(shared)
    }

    /// Returns the keyspace.
    pub fn keyspace(&self) -> &Keyspace {
        self.runtime.keyspace()
    }

    /// Returns the configuration as texts.
    pub fn config(&self) -> MutexGuard<'_, Config> {
        // A change of the configuration is one assignment, so a panic leaves it whole.
        self.config.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the settings of this moment.
    pub fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.settings.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns a number that changes with the settings, to be compared and forgotten.
    #[inline]
    pub fn settings_version(&self) -> u64 {
        // SYNC POINT: settings before their version. Pairs with the addition in `change_config`.
        self.settings_version.load(Ordering::Acquire)
    }

    /// Sets all of `pairs` or none; `may_change_protected` lets protected options change.
    ///
    /// # Errors
    /// The first pair that cannot be set.
    pub fn change_config(
        &self,
        pairs: &[(&[u8], &[u8])],
        may_change_protected: bool,
    ) -> Result<(), ConfigError> {
        // Others read the configuration meanwhile: a change may wait for the disk.
        let _changes = self.config_changes.lock().unwrap_or_else(PoisonError::into_inner);
        let config = self.config().clone();
        let mut next = config.changed(pairs, may_change_protected)?;
        let settings = self.prepared(&config, &mut next)?;
        self.apply(&settings);
        notice::log(&config, &next);
        *self.config() = next;
        self.take_effect(settings);
        // SYNC POINT: settings before their version. Pairs with the load in `settings_version`.
        self.settings_version.fetch_add(1, Ordering::Release);
        self.admit_writes_as_saved();
        self.service_waker.wake();
        // The policy may be another one.
        self.durability.wake();
        Ok(())
    }

    /// Makes `settings` those of this moment. Where writes are to be durable before their replies
    /// leave, that holds for all that come from now on, whatever is not durable yet.
    fn take_effect(&self, settings: Settings) {
        let mut current = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        let is_always = settings.persistence.sync_policy == SyncPolicy::Always;
        *current = Arc::new(settings);
        // With the settings locked: `release_replies` has moved the gate before, or sees these.
        if is_always && let Some(durable) = self.durability.durable_lsn() {
            self.runtime.engine().gate().set(durable);
        }
    }

    /// Does what can fail for `next` to take the place of `current`: all of it, or nothing.
    fn prepared(&self, current: &Config, next: &mut Config) -> Result<Settings, ConfigError> {
        let (before, settings) = (current.settings(), next.settings());
        let segment_bytes = self.segments.segment_bytes();
        let wanted = descriptor_limits::descriptors_wanted(&settings, segment_bytes);
        let allowed = raise_descriptor_limit(wanted);
        let most = descriptor_limits::clients_within(allowed, &settings, segment_bytes);
        if most < settings.network.max_clients {
            return Err(refused(
                Network::max_clients(),
                &format!(
                    "The operating system is not able to handle the specified number of clients, \
                     try with {most}"
                ),
            ));
        }
        if settings.daemon.directory != before.daemon.directory {
            let entered = enter_directory(next);
            entered.map_err(|error| refused(Daemon::directory(), &base_text(&error)))?;
        }
        if settings.derived.oom_score != before.derived.oom_score
            && let Err(error) = self.oom_score.set(settings.derived.oom_score)
        {
            tracing::warn!(%error, "Unable to set the OOM score");
            return_to(&before);
            let why = "Failed to apply new oom_score_adj configuration, check server logs.";
            return Err(refused(Process::oom_score_mode(), why));
        }
        let turns_on = settings.persistence.keeps_log && !before.persistence.keeps_log;
        if turns_on && let Err(why) = self.turn_log_on(&settings) {
            tracing::warn!("The append-only file cannot be turned on: {why}");
            return_to(&before);
            // It was set before, so it can be again.
            let _ = self.oom_score.set(before.derived.oom_score);
            return Err(refused(Persistence::keeps_log(), &why));
        }
        // Last, as connections that wait are lost.
        self.listen_as(&before, &settings).map_err(|(row, why)| {
            return_to(&before);
            if turns_on {
                // Nothing has been written yet.
                let _ = self.turn_log_off(&before);
            }
            // It was set before, so it can be again.
            let _ = self.oom_score.set(before.derived.oom_score);
            refused(row, why)
        })?;
        if before.persistence.keeps_log
            && !settings.persistence.keeps_log
            && let Err(why) = self.turn_log_off(&settings)
        {
            return_to(&before);
            // What was possible before is so again.
            let _ = self.oom_score.set(before.derived.oom_score);
            let _ = self.listen_as(&settings, &before);
            return Err(refused(Persistence::keeps_log(), &why));
        }
        Ok(next.settings())
    }

    /// Listens as `after` says and no longer as `before` does, where that is something else.
    fn listen_as(&self, before: &Settings, after: &Settings) -> Result<(), OptionRefusal> {
        let Some(exchanged) = self.listeners.exchange(before, after, &self.closer) else {
            return Ok(());
        };
        self.mailboxes[ACCEPTING_WORKER].post(Message::Listen(exchanged.listeners));
        exchanged.listened
    }

    /// Writes the configuration back to its file; `with_defaults` also what is as by default.
    ///
    /// # Errors
    /// When there is none, or it cannot be written, which the log tells, too.
    pub fn rewrite_config(&self, with_defaults: bool) -> Result<(), RewriteError> {
        // Held throughout: of two at a time the later one writes the later values.
        let config = self.config();
        let path = std::path::Path::new(&self.identity.config_file);
        if path.as_os_str().is_empty() {
            return Err(RewriteError::NoFile);
        }
        let text = match std::fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            read => read,
        };
        let written = text.and_then(|text| {
            let rewritten = rewrite::rewritten(&config, &text, with_defaults);
            rewrite::replace(path, &rewritten)
        });
        match written {
            Ok(()) => tracing::info!("CONFIG REWRITE executed with success."),
            Err(error) => {
                tracing::warn!(%error, "CONFIG REWRITE failed");
                return Err(RewriteError::System(base_text(&error)));
            }
        }
        Ok(())
    }

    /// Hands settings to the parts that keep their own copy.
    fn apply(&self, settings: &Settings) {
        self.runtime.tune(&settings.tuning());
        let keyspace = self.keyspace();
        keyspace.arena().allow_readers(settings.sharing.allows_reads);
        let (descriptor_count, segment_bytes) = (descriptor_limit(), self.segments.segment_bytes());
        self.segments.reserve_descriptors(descriptor_limits::memory_descriptors(
            descriptor_count,
            settings,
            segment_bytes,
        ));
        for (resource, limit) in
            descriptor_limits::quotas(descriptor_count, settings, segment_bytes)
        {
            self.quotas.limit(resource, limit);
        }
        self.attachments.limit_views(settings, keyspace.arena());
        self.log.set_level(settings.log.level);
        crash_report::follow(settings);
        self.timing.set(report_threshold_ns(settings), settings.latency.is_tracked);
    }

    /// Returns what was counted since the last CONFIG RESETSTAT.
    pub fn counted(&self) -> Counted {
        // Locked first: what is subtracted must not be later than what it is subtracted from.
        let from = self.counted_from();
        self.counted_since_start().since(&from)
    }

    /// Returns what the workers and the service thread counted since the server started.
    pub fn totals_since_start(&self) -> Totals {
        Totals::of(self.counters.iter().chain([&self.service_counters]))
    }

    fn counted_since_start(&self) -> Counted {
        let mut counted = Counted { totals: self.totals_since_start(), ..Counted::default() };
        for command_stats in &self.command_stats {
            counted.add(command_stats);
        }
        counted
    }

    /// Starts the counters anew.
    pub fn reset_counters(&self) {
        // Locked first: of two at a time the later one counts from the later numbers.
        let mut from = self.counted_from();
        *from = self.counted_since_start();
        drop(from);
        self.runtime.reset_counters();
        self.rates.clear();
    }

    /// Returns the worker whose turn it is to get a connection.
    pub fn next_worker(&self) -> usize {
        self.next_worker.fetch_add(1, Ordering::Relaxed) % self.identity.worker_count
    }

    /// Begins to shut down as `request` asks, and has every thread know. Where that asks for it, or
    /// leaves it to a `save` schedule, the dataset is saved first: the caller holds no guard.
    ///
    /// # Errors
    /// When it does not begin, which the log explains.
    pub fn begin_shutdown(&self, request: ShutdownRequest) -> Result<(), ShutdownError> {
        if self.shutdown.has_begun() {
            tracing::warn!("A shutdown is underway already");
            return Err(ShutdownError::Begun);
        }
        // What was read in part must not take the place of the whole.
        let is_loaded = self.loading.cancel();
        let has_schedule = !self.settings().persistence.schedule.is_empty();
        match is_loaded && request.save.unwrap_or(has_schedule) {
            false => self.cancel_save(),
            true => {
                if let Err(error) = self.save_finally() {
                    if !request.force {
                        tracing::warn!("Error trying to save the DB, can't exit.");
                        return Err(error);
                    }
                    tracing::warn!("Error trying to save the DB, exiting anyway.");
                }
            }
        }
        if !self.shutdown.begin() {
            tracing::warn!("A shutdown is underway already");
            return Err(ShutdownError::Begun);
        }
        self.post_all(|| Message::CheckShutdown);
        self.service_waker.wake();
        self.huge_pages.end();
        Ok(())
    }

    /// Ends the clients of `ids` for the reason `end`, and returns how many of them there were.
    pub fn end_clients(&self, ids: &[u64], reason: CloseReason) -> usize {
        let records = ids.iter().filter_map(|&id| Some((id, self.clients.end(id, reason)?)));
        let tell = |(id, record): (u64, Arc<ClientRecord>)| {
            self.mailboxes[record.worker()].post(Message::Close(id, reason));
        };
        records.map(tell).count()
    }

    /// Lets replies leave up to the record that `released` says under the policy now in force, and
    /// no others.
    pub fn release_replies(&self, released: impl FnOnce(SyncPolicy) -> Lsn) {
        {
            let settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
            self.runtime.engine().gate().set(released(settings.persistence.sync_policy));
        }
        self.mailboxes.iter().for_each(|mailbox| mailbox.release());
    }

    /// Tells every worker to look at `message`.
    pub fn post_all(&self, message: fn() -> Message) {
        for mailbox in &self.mailboxes {
            mailbox.post(message());
        }
    }

    fn counted_from(&self) -> MutexGuard<'_, Counted> {
        self.counted_from.lock().expect("no holder of the counters panics")
    }
}

impl Identity {
    fn new(origin: Origin, worker_count: usize, runtime: &Runtime) -> Result<Identity, String> {
        let mut bytes = [0; 20];
        runtime.fill_randomly(&mut bytes).map_err(|error| format!("no randomness: {error}"))?;
        let executable = std::env::current_exe().unwrap_or_default();
        Ok(Identity {
            run_id: bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
            started: runtime.clock().wall(),
            started_monotonic: sys::clock::monotonic(),
            executable: executable.display().to_string(),
            config_file: origin.config_file,
            supervisor: origin.supervisor,
            owns_process: origin.owns_process,
            worker_count,
        })
    }
}

/// Returns from how many nanoseconds on a worker reports a command.
fn report_threshold_ns(settings: &Settings) -> u64 {
    let spike = match settings.latency.threshold_ms {
        0 => u64::MAX,
        milliseconds => milliseconds.saturating_mul(1_000_000),
    };
    let nanoseconds = |from: Duration| u64::try_from(from.as_nanos()).unwrap_or(u64::MAX);
    settings.latency.slow_log_from.map_or(u64::MAX, nanoseconds).min(spike)
}

/// Makes the directory of `before` the working directory again.
fn return_to(before: &Settings) {
    // It was entered once, so it can be again.
    let _ = std::env::set_current_dir(&before.daemon.directory);
}

/// Makes `dir` the working directory and shows its absolute path.
///
/// # Errors
/// When it cannot be entered.
pub fn enter_directory(config: &mut Config) -> io::Result<()> {
    std::env::set_current_dir(config.text(Daemon::directory()))?;
    let entered = std::env::current_dir()?;
    config.show_directory(&entered);
    Ok(())
}

/// Half of the processors, at least one: the other half is for the clients on this host.
fn worker_count(settings: &Settings) -> usize {
    if settings.instance.worker_count > 0 {
        return settings.instance.worker_count;
    }
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    (processors / 2).max(1)
}

/// Returns what the instance of a server with `settings` is made with.
pub(crate) fn instance_options(settings: &Settings, worker_count: usize) -> Options {
    let memory = Memory::Shared {
        segment_bytes: settings.derived.segment_bytes,
        takes_pages_up_front: settings.instance.segment_up_front,
    };
    let database_count = settings.access.database_count;
    let tuning = settings.tuning();
    let backlog_bytes = match settings.instance.effect_backlog_bytes {
        bytes if bytes >= BACKLOG_BYTES_MIN => bytes,
        _ => FOLLOWED_BACKLOG_BYTES,
    };
    Options { memory, worker_count, database_count, backlog_bytes, tuning }
}

/// How far the server is on its way to end.
pub struct Shutdown {
    has_begun: AtomicBool,
    waker: Waker,
    /// What a signal asks for, while DEBUG PAUSE-CRON keeps it from happening.
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    is_on: bool,
    request: Option<ShutdownRequest>,
}

impl Shutdown {
    fn new() -> io::Result<Shutdown> {
        Ok(Shutdown {
            has_begun: AtomicBool::new(false),
            waker: Waker::new()?,
            held: Mutex::default(),
        })
    }

    /// Returns whether the server is shutting down.
    #[inline]
    pub fn has_begun(&self) -> bool {
        // SYNC POINT: what led to the shutdown before it. Pairs with the swap in `begin`.
        self.has_begun.load(Ordering::Acquire)
    }

    /// Returns what tells that the shutdown has begun.
    pub fn waker(&self) -> &Waker {
        &self.waker
    }

    /// Keeps what signals ask for from happening, or lets it happen.
    pub fn hold(&self, is_on: bool) {
        self.held().is_on = is_on;
        if !is_on {
            self.waker.wake();
        }
    }

    /// Returns whether `request`, of a signal, is to be acted on now; else it is kept.
    pub fn admits(&self, request: ShutdownRequest) -> bool {
        let mut held = self.held();
        if held.is_on {
            held.request = Some(request);
        }
        !held.is_on
    }

    /// Returns whether a signal's request is kept.
    pub fn is_held(&self) -> bool {
        self.held().request.is_some()
    }

    /// Takes what was kept and may happen now.
    pub fn take_released(&self) -> Option<ShutdownRequest> {
        let mut held = self.held();
        if held.is_on { None } else { held.request.take() }
    }

    /// Forgets what was kept; returns false where there was nothing.
    pub fn abort(&self) -> bool {
        self.held().request.take().is_some()
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().expect("no holder of a signal's request panics")
    }

    fn begin(&self) -> bool {
        // SYNC POINT: what led to the shutdown before it. Pairs with the load in `has_begun`.
        let is_first = !self.has_begun.swap(true, Ordering::AcqRel);
        self.waker.wake();
        is_first
    }
}
