//! Append-only files of Redis where a server begins to keep a log: taken over at start, and left as
//! they are.
//!
//! Their requests run as those of a session that alone is not told to wait for the data. Its time
//! is long past: what has expired since is there until the file says that it is gone, as the
//! requests behind it found it.

use std::fs::File;
use std::io::{BufReader, Cursor, Read};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;

use base::UnixMs;
use command::{Command, SessionState};
use engine::{
    CommandStats, ExecutionContext, MonitorFeed, MonitorSink, PauseSwitch, Position, Session,
    SessionStatus, TimingSettings,
};
use rdb::file::FileReader;
use resp::{
    Batch, Decoder, Limits, Next, Output, RequestView, ValueDecoder, ValueLimits, encode_command,
};
use runtime::{ExpiredKeys, LoadError, LoadOptions};

use crate::import::append_only::{AppendOnlyReader, Entry, files_of_manifest};
use crate::import::{MAGICS, refuse_errors};
use crate::server_state::ServerState;

/// Before any key expires, and a time that spans can be added to.
const LONG_AGO: UnixMs = UnixMs(0);

impl ServerState {
    /// Makes the data that the append-only file of Redis at `path` holds, or the files that it
    /// names.
    ///
    /// # Errors
    /// A line for the log that says what cannot be read, or run.
    pub fn take_over(&self, path: &Path) -> Result<(), String> {
        let said = |path: &Path, error: &dyn std::fmt::Display| {
            format!("Can't take the append-only file {} over: {error}", path.display())
        };
        tracing::info!(file = %path.display(), "Reading the append-only file of Redis");
        let is_manifest = path.extension().is_some_and(|extension| extension == "manifest");
        let files = match is_manifest {
            true => files_of_manifest(path).map_err(|error| said(path, &error))?,
            false => vec![path.to_owned()],
        };
        for file in &files {
            self.loading.expect(file.metadata().map_or(0, |metadata| metadata.len()));
        }
        // What was in memory where it comes from must fit here.
        self.keyspace().set_maxmemory(0);
        let taken = self.run_files(&files).map_err(|(file, error)| said(&file, &error));
        self.runtime.tune(&self.settings().tuning());
        taken?;
        tracing::info!(
            "DB loaded from append only file of Redis, which stays as it is and is read no more"
        );
        Ok(())
    }

    fn run_files(&self, files: &[PathBuf]) -> Result<(), (PathBuf, String)> {
        let stats = CommandStats::new();
        let (timing, pause, position) =
            (TimingSettings::new(), PauseSwitch::default(), Position::default());
        let monitor_count = AtomicUsize::new(0);
        timing.set(u64::MAX, false);
        let random = self.runtime.generator();
        let random = random.map_err(|error| (PathBuf::new(), error.to_string()))?;
        let execution = ExecutionContext {
            now: LONG_AGO,
            random,
            host: self,
            clock: self.runtime.clock(),
            command_stats: &stats,
            timing: &timing,
            pause: &pause,
            position: &position,
            monitor_feed: MonitorFeed { count: &monitor_count, sink: Box::new(NoSink) },
            value_bytes_max: u64::from(u32::MAX),
            output_bytes_max: usize::MAX,
            references_max: usize::MAX,
        };
        let mut session = Session::new(0, LONG_AGO, true);
        session.state.is_loader = true;
        let mut replay = Replay { server: self, session, execution, bytes: Vec::new() };
        let ran = files.iter().enumerate().try_for_each(|(index, file)| {
            let is_last = index + 1 == files.len();
            replay.file(file, is_last).map_err(|error| (file.clone(), error))
        });
        let Replay { mut session, mut execution, .. } = replay;
        self.runtime.engine().close(&mut session, &mut execution);
        ran
    }
}

/// The session that runs what files have.
struct Replay<'s> {
    server: &'s ServerState,
    session: Session,
    execution: ExecutionContext<'s>,
    /// Of one request.
    bytes: Vec<u8>,
}

impl Replay<'_> {
    fn file(&mut self, path: &Path, is_last: bool) -> Result<(), String> {
        let file = File::open(path).map_err(|error| error.to_string())?;
        let mut input = BufReader::with_capacity(256 << 10, file);
        let mut start = Vec::new();
        let taken = input.by_ref().take(5).read_to_end(&mut start);
        taken.map_err(|error| error.to_string())?;
        let whole = Cursor::new(start.clone()).chain(input);
        // Each file begins in the first database.
        self.run(&[vec![b"SELECT".to_vec(), b"0".to_vec()]])?;
        if !MAGICS.contains(&start.as_slice()) {
            return self.requests(whole, 0, is_last);
        }
        let mut reader = FileReader::open(whole).map_err(|error| error.to_string())?;
        let file_bytes = path.metadata().map_or(0, |metadata| metadata.len());
        let options = LoadOptions { expired: ExpiredKeys::Made, helpers: 1, file_bytes };
        let mut observer = &self.server.loading;
        let loaded = self.server.runtime.load_file(&mut reader, &options, &mut observer);
        let loaded = loaded.map_err(|error: LoadError| error.to_string())?;
        let (rest, input) = reader.into_rest();
        self.requests(Cursor::new(rest).chain(input), loaded.bytes, is_last)
    }

    /// Runs the requests of `input`, before which the file has so many bytes.
    fn requests(&mut self, input: impl Read, before: u64, is_last: bool) -> Result<(), String> {
        let mut reader = AppendOnlyReader::new(input);
        loop {
            match reader.next_entry()? {
                Entry::Requests(requests) => self.run(&requests)?,
                Entry::End => break,
                Entry::Cut { offset } if is_last => {
                    let offset = before + offset;
                    tracing::warn!(offset, "The file ends in the middle: what is behind is left");
                    break;
                }
                Entry::Cut { offset } => {
                    return Err(format!("it ends in the middle, behind byte {}", before + offset));
                }
            }
            if self.server.loading.note(before + reader.offset()) == ControlFlow::Break(()) {
                return Err("it was ended".to_owned());
            }
        }
        self.server.loading.end_file(before + reader.offset());
        Ok(())
    }

    fn run(&mut self, requests: &[Vec<Vec<u8>>]) -> Result<(), String> {
        requests.iter().try_for_each(|words| {
            self.run_one(words).map_err(|error| {
                let shown: Vec<String> = words
                    .iter()
                    .take(2)
                    .map(|word| word[..word.len().min(100)].escape_ascii().to_string())
                    .collect();
                format!("{}: {error}", shown.join(" "))
            })
        })
    }

    fn run_one(&mut self, words: &[Vec<u8>]) -> Result<(), String> {
        self.bytes.clear();
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        encode_command(&words, &mut self.bytes);
        if u32::try_from(self.bytes.len()).is_err() {
            return Err("a request of more than 4 GiB".to_owned());
        }
        let mut batch = Batch::new();
        let limits = Limits { bulk_bytes_max: u32::MAX, ..Limits::REDIS };
        let decoded = Decoder::new().decode(&mut self.bytes, &mut batch, 1, &limits);
        if let Next::Failed(error) = decoded.next {
            return Err(error.text().escape_ascii().to_string());
        }
        let (engine, mut out) = (self.server.runtime.engine(), Output::default());
        let requests = batch.view(&self.bytes);
        let end = engine.execute(&mut self.session, requests, 0, &mut out, &mut self.execution);
        if end.status != SessionStatus::Open {
            return Err("a request that no such file has".to_owned());
        }
        let reply = out.to_vec();
        match reply.first() {
            Some(b'+' | b':' | b'$') => Ok(()),
            _ => {
                let decoded = ValueDecoder::new(ValueLimits::default()).decode(&reply);
                let (_, value) = decoded.map_err(|error| error.to_string())?;
                value.map_or(Ok(()), |value| refuse_errors(&value))
            }
        }
    }
}

/// Nobody looks on.
struct NoSink;

impl MonitorSink for NoSink {
    fn show(&mut self, _: &Command, _: RequestView<'_>, _: &SessionState) {}

    fn count(&mut self, _: bool) {}

    fn deliver(&mut self) {}
}
