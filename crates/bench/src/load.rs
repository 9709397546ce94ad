//! Drives a server: connections, pipelines, threads, closed or open loop; counts and times.
//!
//! A closed loop sends a connection's next batch when the last one is answered. An open loop sends
//! batches at times fixed beforehand, and measures each from the time at which it was due to
//! leave, so that a server that stalls is charged for the requests that it kept from being sent
//! (coordinated omission).

use std::io;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use hdrhistogram::Histogram;
use sys::poll::{Events, Interest, Poller};

use crate::connection::Connection;
use crate::key_distribution::KeyDistribution;
use crate::target::{Address, Stream, Target};
use crate::wire::Wire;
use crate::workload::{Workload, Writer};

/// A read of one connection takes at most this; a short read means that the socket is empty.
const SCRATCH_BYTES: usize = 256 * 1024;
/// A latency beyond this is counted as this.
const LATENCY_NS_MAX: u64 = 600_000_000_000;
/// How long replies may stay away after the last request was sent.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// A load.
#[derive(Clone, Debug)]
pub struct Load {
    /// The server.
    pub target: Target,
    /// The password for AUTH.
    pub password: Option<String>,
    /// What to ask for.
    pub workload: Workload,
    /// Connections of all threads together.
    pub connections: usize,
    /// Requests that a connection sends at once and awaits together.
    pub pipeline: usize,
    /// Threads of the generator.
    pub threads: usize,
    /// Ends after so many requests, the last batch of each connection counted whole.
    pub requests_max: Option<u64>,
    /// Ends after this time.
    pub duration_max: Option<Duration>,
    /// Requests per second of all connections together: an open loop. None: a closed loop.
    pub rate: Option<f64>,
    /// Seed of the keys.
    pub seed: u64,
}

/// What a load came to.
#[derive(Clone, Debug)]
pub struct Report {
    /// Replies.
    pub operations: u64,
    /// Replies for absent keys.
    pub missing: u64,
    /// Errors, and replies of another type or length than due.
    pub wrong: u64,
    /// The first error reply's text.
    pub first_error: Option<String>,
    /// Requests of an open loop that no connection was free to send before the end; each counts
    /// in the latencies with the time that it had waited by then.
    pub unsent: u64,
    /// From the first request to the last reply.
    pub elapsed: Duration,
    /// Nanoseconds from the time a batch left, or was due to, to each of its replies.
    pub latencies: Histogram<u64>,
    /// Processor time of the generator's threads: near `elapsed` times threads, the generator is
    /// the limit and not the server.
    pub client_cpu: Duration,
}

impl Report {
    /// Returns replies per second.
    pub fn operations_per_second(&self) -> f64 {
        self.operations as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// Returns the latency in microseconds that `percent` of the replies do not exceed.
    pub fn latency_us(&self, percent: f64) -> f64 {
        self.latencies.value_at_percentile(percent) as f64 / 1000.0
    }

    fn add(&mut self, other: Report) {
        self.operations += other.operations;
        self.missing += other.missing;
        self.wrong += other.wrong;
        self.unsent += other.unsent;
        self.first_error = self.first_error.take().or(other.first_error);
        self.elapsed = self.elapsed.max(other.elapsed);
        self.client_cpu += other.client_cpu;
        self.latencies.add(&other.latencies).expect("the histograms have the same bounds");
    }
}

/// A load whose connections stand; running it costs the server nothing but the requests.
#[derive(Debug)]
pub struct ConnectedLoad {
    load: Load,
    lanes: Vec<Vec<Connection>>,
}

impl Load {
    /// Connects, authenticates and selects the database.
    ///
    /// # Errors
    /// When the load makes no sense or the server refuses.
    pub fn connect(self) -> anyhow::Result<ConnectedLoad> {
        self.workload.check()?;
        ensure!(self.threads > 0 && self.pipeline > 0, "a load has a thread and a request");
        ensure!(self.connections >= self.threads, "each thread needs a connection");
        ensure!(
            self.requests_max.is_some() || self.duration_max.is_some(),
            "a load ends by a number of requests or by a time"
        );
        ensure!(self.rate.is_none_or(|rate| rate > 0.0), "the rate of an open loop is above zero");
        let mut lanes: Vec<Vec<Connection>> = (0..self.threads).map(|_| Vec::new()).collect();
        for index in 0..self.connections {
            let stream = self.connect_one().with_context(|| format!("{}", self.target))?;
            lanes[index % self.threads].push(Connection::new(stream));
        }
        Ok(ConnectedLoad { load: self, lanes })
    }

    fn connect_one(&self) -> anyhow::Result<Stream> {
        let mut wire = Wire::connect_as(&self.target, self.password.as_deref())?;
        if self.target.database != 0 {
            wire.call(&[b"SELECT", self.target.database.to_string().as_bytes()])?;
        }
        wire.call(&[b"PING"])?;
        let mut stream = wire.into_stream();
        stream.set_nonblocking(true)?;
        Ok(stream)
    }
}

impl ConnectedLoad {
    /// Runs the load to its end.
    ///
    /// # Errors
    /// When a connection breaks or the server falls silent.
    pub fn run(self) -> anyhow::Result<Report> {
        let load = &self.load;
        let started = Instant::now();
        let outcomes: Vec<anyhow::Result<Report>> = std::thread::scope(|scope| {
            let lanes = self.lanes.into_iter().enumerate();
            let threads: Vec<_> = lanes
                .map(|(index, connections)| {
                    scope.spawn(move || Lane::new(load, index, connections, started)?.run())
                })
                .collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
                thread.join().unwrap_or_else(|cause| std::panic::resume_unwind(cause))
            };
            threads.into_iter().map(join).collect()
        });
        let mut outcomes = outcomes.into_iter();
        let mut report = outcomes.next().expect("a load has a thread")?;
        for outcome in outcomes {
            report.add(outcome?);
        }
        Ok(report)
    }
}

/// One thread of a load with its connections.
struct Lane<'a> {
    load: &'a Load,
    connections: Vec<Connection>,
    /// Connections without a batch in flight.
    idle: Vec<usize>,
    /// Connections with a batch in flight of which the poller may not tell.
    unarmed: Vec<usize>,
    /// For each connection, whether the poller is to tell of room in its socket.
    asks_for_room: Vec<bool>,
    writer: Writer,
    poller: Poller,
    scratch: Vec<u8>,
    started: Instant,
    /// Requests still to send.
    requests_left: u64,
    schedule: Option<Schedule>,
    report: Report,
    is_over: bool,
}

/// When the batches of an open loop are due.
struct Schedule {
    interval_ns: f64,
    next: u64,
}

impl Schedule {
    fn due_ns(&self) -> u64 {
        (self.next as f64 * self.interval_ns) as u64
    }
}

impl<'a> Lane<'a> {
    fn new(
        load: &'a Load,
        index: usize,
        connections: Vec<Connection>,
        started: Instant,
    ) -> anyhow::Result<Lane<'a>> {
        let poller = Poller::new()?;
        for (token, connection) in connections.iter().enumerate() {
            poller.add(connection, token as u64, Interest::Readable)?;
        }
        let threads = load.threads as u64;
        let share = |total: u64| total / threads + u64::from((index as u64) < total % threads);
        // A sequential load gives each thread its own stretch of the keys.
        let first_key = (0..index as u64)
            .map(|before| {
                let total = load.requests_max.unwrap_or(load.workload.key_count);
                total / threads + u64::from(before < total % threads)
            })
            .sum();
        let is_sequential = load.workload.distribution == KeyDistribution::Sequential;
        let seed = load.seed ^ ((index as u64 + 1) << 32);
        let lane_rate = load.rate.map(|rate| rate / threads as f64);
        let latencies = Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3)?;
        Ok(Lane {
            load,
            idle: (0..connections.len()).rev().collect(),
            asks_for_room: vec![false; connections.len()],
            connections,
            unarmed: Vec::new(),
            writer: Writer::new(&load.workload, if is_sequential { first_key } else { 0 }, seed),
            poller,
            scratch: vec![0; SCRATCH_BYTES],
            started,
            requests_left: load.requests_max.map_or(u64::MAX, share),
            schedule: lane_rate
                .map(|rate| Schedule { interval_ns: load.pipeline as f64 * 1e9 / rate, next: 0 }),
            report: Report {
                operations: 0,
                missing: 0,
                wrong: 0,
                first_error: None,
                unsent: 0,
                elapsed: Duration::ZERO,
                latencies,
                client_cpu: Duration::ZERO,
            },
            is_over: false,
        })
    }

    fn run(mut self) -> anyhow::Result<Report> {
        let cpu_before = sys::clock::thread_cpu();
        let mut events = Events::with_capacity(self.connections.len());
        let mut heard = Instant::now();
        loop {
            self.send_what_is_due()?;
            if self.is_over && self.idle.len() == self.connections.len() {
                break;
            }
            let is_served = self.serve_unarmed()?;
            let patience = if is_served { Duration::ZERO } else { self.patience() };
            self.poller.wait(&mut events, Some(patience))?;
            for index in 0..events.len() {
                let ready = events.at(index);
                let connection = ready.token as usize;
                self.connections[connection].disarm().context("receiving")?;
                self.note_unarmed(connection);
                if ready.writable || self.is_lanes() {
                    self.send(connection)?;
                }
                if ready.readable {
                    self.receive(connection)?;
                }
            }
            if is_served || !events.is_empty() || self.idle.len() == self.connections.len() {
                heard = Instant::now();
            } else if heard.elapsed() > SILENCE_MAX {
                bail!("no reply for {} s", SILENCE_MAX.as_secs());
            }
        }
        self.report.client_cpu = sys::clock::thread_cpu() - cpu_before;
        self.report.first_error =
            self.connections.iter().find_map(Connection::first_error).map(str::to_owned);
        Ok(self.report)
    }

    /// Returns whether its connections are lanes.
    fn is_lanes(&self) -> bool {
        matches!(self.load.target.address, Address::Shm(_))
    }

    /// Sees to it that the poller tells of each lane with a batch in flight, and serves those of
    /// which it will not, as what it would tell has come. Returns whether there were any.
    fn serve_unarmed(&mut self) -> anyhow::Result<bool> {
        let mut is_served = false;
        let mut unarmed = std::mem::take(&mut self.unarmed);
        for index in unarmed.drain(..) {
            let connection = &mut self.connections[index];
            if connection.is_idle() || connection.arm().context("receiving")? {
                continue;
            }
            is_served = true;
            self.send(index)?;
            self.receive(index)?;
        }
        // What was noted meanwhile goes into the list whose room is there already.
        unarmed.append(&mut self.unarmed);
        self.unarmed = unarmed;
        Ok(is_served)
    }

    fn now_ns(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    /// Begins batches on idle connections as far as loop and limits allow.
    fn send_what_is_due(&mut self) -> anyhow::Result<()> {
        if self.is_over {
            return Ok(());
        }
        let now_ns = self.now_ns();
        let end_ns = self.load.duration_max.map_or(u64::MAX, |limit| limit.as_nanos() as u64);
        // A closed loop sends at least once, however late its thread came to run.
        let has_begun = self.schedule.is_some() || self.idle.len() < self.connections.len();
        let is_late = now_ns >= end_ns && (has_begun || self.report.operations > 0);
        if is_late || self.requests_left == 0 {
            self.finish(end_ns);
            return Ok(());
        }
        loop {
            let begun_ns = match &self.schedule {
                None => now_ns,
                Some(schedule) if schedule.due_ns() <= now_ns => schedule.due_ns(),
                Some(_) => return Ok(()),
            };
            if self.requests_left == 0 {
                return Ok(());
            }
            let Some(connection) = self.idle.pop() else { return Ok(()) };
            let count = self.requests_left.min(self.load.pipeline as u64);
            self.requests_left -= count;
            if let Some(schedule) = &mut self.schedule {
                schedule.next += 1;
            }
            self.connections[connection].begin(&mut self.writer, count as usize, begun_ns);
            self.send(connection)?;
            self.note_unarmed(connection);
        }
    }

    /// Sends what the connection takes of its batch. The poller is asked to tell of room only where
    /// it lacks some: a generator that always asks is woken by each read of the server, for
    /// nothing, and what the kernel does for that counts as the server's time.
    fn send(&mut self, index: usize) -> anyhow::Result<()> {
        let is_lane = self.is_lanes();
        let connection = &mut self.connections[index];
        connection.send().context("sending")?;
        let asks = std::mem::replace(&mut self.asks_for_room[index], connection.has_unsent());
        if is_lane || asks == connection.has_unsent() {
            return Ok(());
        }
        let interest = match connection.has_unsent() {
            true => Interest::ReadableWritable,
            false => Interest::Readable,
        };
        self.poller.modify(&*connection, index as u64, interest).context("waiting for room")
    }

    fn note_unarmed(&mut self, index: usize) {
        if self.is_lanes() {
            self.unarmed.push(index);
        }
    }

    /// Ends the sending; the batches of an open loop that were due by then are charged.
    fn finish(&mut self, end_ns: u64) {
        self.is_over = true;
        let Some(schedule) = &mut self.schedule else { return };
        let pipeline = self.load.pipeline as u64;
        while self.requests_left > 0 && end_ns != u64::MAX && schedule.due_ns() < end_ns {
            let count = self.requests_left.min(pipeline);
            self.requests_left -= count;
            self.report.unsent += count;
            let waited_ns = end_ns - schedule.due_ns();
            self.report.latencies.saturating_record_n(waited_ns.max(1), count);
            schedule.next += 1;
        }
    }

    /// Returns how long to wait for events at most.
    fn patience(&self) -> Duration {
        const GLANCE: Duration = Duration::from_secs(1);
        let end = match self.load.duration_max {
            Some(limit) if !self.is_over => limit.saturating_sub(self.started.elapsed()),
            _ => GLANCE,
        };
        let next = match &self.schedule {
            Some(schedule) if !self.is_over && !self.idle.is_empty() => {
                Duration::from_nanos(schedule.due_ns().saturating_sub(self.now_ns()))
            }
            _ => GLANCE,
        };
        GLANCE.min(end).min(next)
    }

    fn receive(&mut self, index: usize) -> anyhow::Result<()> {
        let connection = &mut self.connections[index];
        if connection.is_idle() {
            // The event of a socket that became writable, or the end of the connection.
            return expect_nothing(connection, &self.writer, &mut self.scratch);
        }
        loop {
            let received = connection.receive(&self.writer, &mut self.scratch);
            let Some((arrived, is_more)) = received.context("receiving")? else {
                self.note_unarmed(index);
                return Ok(());
            };
            let now_ns = self.started.elapsed().as_nanos() as u64;
            if arrived.replies > 0 {
                let latency_ns = now_ns.saturating_sub(connection.begun_ns()).max(1);
                self.report.latencies.saturating_record_n(latency_ns, arrived.replies);
                self.report.operations += arrived.replies;
                self.report.missing += arrived.missing;
                self.report.wrong += arrived.wrong;
                self.report.elapsed = Duration::from_nanos(now_ns);
            }
            if connection.is_idle() {
                self.idle.push(index);
                return Ok(());
            }
            if !is_more {
                self.note_unarmed(index);
                return Ok(());
            }
        }
    }
}

fn expect_nothing(
    connection: &mut Connection,
    writer: &Writer,
    scratch: &mut [u8],
) -> anyhow::Result<()> {
    match connection.receive(writer, scratch) {
        Ok(None) => Ok(()),
        Ok(Some(_)) => bail!("bytes came that nothing asked for"),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            bail!("the server closed the connection")
        }
        Err(error) => Err(error).context("receiving"),
    }
}
