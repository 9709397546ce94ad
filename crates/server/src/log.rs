//! The log, in Redis's line format: `PID:M DD Mon YYYY HH:MM:SS.mmm LEVEL message field=value`.
//!
//! A message is the same text each time; what differs is a field of its own. Where tools wait for a
//! line of Redis's, that line is the message.
//!
//! A log file is opened for each line, as Redis does: whoever moves it away or truncates it needs
//! to tell the server nothing.

use std::ffi::CString;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sys::clock::{LocalTime, local_time, realtime};
use sys::syslog::{self, Priority};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::{FmtContext, MakeWriter};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::Settings;
use crate::config::kind::Named;
use crate::config::options::SystemLog;

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Changes the level of the log while it runs.
#[derive(Clone)]
pub struct LogControl {
    set_level: Arc<dyn Fn(LevelFilter) + Send + Sync>,
}

impl LogControl {
    /// Logs from `level` on.
    pub fn set_level(&self, level: LevelFilter) {
        (self.set_level)(level);
    }

    /// Returns a control of nothing, for a server whose process has its own log.
    pub fn detached() -> LogControl {
        LogControl { set_level: Arc::new(|_| {}) }
    }
}

/// Starts the log of this process as `settings` ask for it: to the end of a file or, unless it
/// `is_detached`, to standard output, and to the system's log.
///
/// # Errors
/// When the file cannot be opened. A process that has a log already keeps it.
pub fn start(settings: &Settings, is_detached: bool) -> io::Result<LogControl> {
    let target = match &settings.log.file {
        Some(path) => Target::file(path)?,
        None if is_detached => Target::Nothing,
        None => Target::Output,
    };
    let (filter, handle) = reload::Layer::new(settings.log.level);
    let lines = tracing_subscriber::fmt::layer()
        .event_format(RedisLine { process_id: std::process::id() })
        .with_ansi(false)
        .with_writer(target);
    let SystemLog { is_enabled, name, facility } = &settings.system_log;
    let system_lines = is_enabled.then(|| {
        syslog::open(name, facility);
        tracing_subscriber::fmt::layer()
            .event_format(BareLine)
            .with_ansi(false)
            .with_writer(SystemTarget)
    });
    let log = tracing_subscriber::registry().with(filter).with(lines).with(system_lines);
    if log.try_init().is_err() {
        return Ok(LogControl::detached());
    }
    // The handle fails only once the log is gone, and it lives as long as the process.
    Ok(LogControl { set_level: Arc::new(move |level| drop(handle.reload(level))) })
}

impl Named for LevelFilter {
    const ALL: &'static [LevelFilter] = &[
        LevelFilter::TRACE,
        LevelFilter::DEBUG,
        LevelFilter::INFO,
        LevelFilter::WARN,
        LevelFilter::OFF,
    ];

    /// Returns Redis's name.
    fn name(self) -> &'static str {
        match self {
            LevelFilter::TRACE => "debug",
            LevelFilter::DEBUG => "verbose",
            LevelFilter::INFO => "notice",
            LevelFilter::WARN | LevelFilter::ERROR => "warning",
            LevelFilter::OFF => "nothing",
        }
    }
}

/// Returns where the report of a crash goes: where the log does.
///
/// # Errors
/// When the file has no absolute path.
pub fn crash_log(settings: &Settings, is_detached: bool) -> io::Result<sys::crash::Log> {
    Ok(match &settings.log.file {
        Some(path) => {
            let path = std::path::absolute(path)?;
            sys::crash::Log::File(CString::new(path.into_os_string().into_vec())?)
        }
        None if is_detached => sys::crash::Log::Nothing,
        None => sys::crash::Log::Output,
    })
}

enum Target {
    Output,
    File(PathBuf),
    Nothing,
}

impl Target {
    /// Returns the file at `path`, wherever the process goes.
    fn file(path: &Path) -> io::Result<Target> {
        let path = std::path::absolute(path)?;
        open(&path)?;
        Ok(Target::File(path))
    }
}

fn open(path: &Path) -> io::Result<File> {
    File::options().create(true).append(true).open(path)
}

impl<'a> MakeWriter<'a> for Target {
    type Writer = Box<dyn io::Write + 'a>;

    fn make_writer(&'a self) -> Self::Writer {
        match self {
            Target::Output => Box::new(io::stdout()),
            Target::Nothing => Box::new(io::sink()),
            // A line that cannot be written is lost, as in Redis: there is nowhere to tell it.
            Target::File(path) => match open(path) {
                Ok(file) => Box::new(file),
                Err(_) => Box::new(io::sink()),
            },
        }
    }
}

/// The system's log, which adds time and process by itself.
struct SystemTarget;

impl<'a> MakeWriter<'a> for SystemTarget {
    type Writer = SystemLine;

    fn make_writer(&'a self) -> SystemLine {
        SystemLine { priority: Priority::Notice }
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> SystemLine {
        let priority = match *metadata.level() {
            Level::TRACE => Priority::Debug,
            Level::DEBUG => Priority::Info,
            Level::INFO => Priority::Notice,
            Level::WARN | Level::ERROR => Priority::Warning,
        };
        SystemLine { priority }
    }
}

/// Takes an event's text in one piece.
struct SystemLine {
    priority: Priority,
}

impl io::Write for SystemLine {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        syslog::write(self.priority, String::from_utf8_lossy(bytes).trim_end());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct BareLine;

impl<S, N> FormatEvent<S, N> for BareLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        context.format_fields(writer, event)
    }
}

struct RedisLine {
    process_id: u32,
}

impl<S, N> FormatEvent<S, N> for RedisLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let process_id = self.process_id;
        write!(writer, "{process_id}:M {} ", line_time(local_time(realtime())))?;
        write!(writer, "{} ", level_mark(*event.metadata().level()))?;
        context.format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

fn line_time(time: LocalTime) -> String {
    let LocalTime { year, month, day, hour, minute, second, millisecond } = time;
    let month = MONTHS[usize::from(month) - 1];
    format!("{day:02} {month} {year} {hour:02}:{minute:02}:{second:02}.{millisecond:03}")
}

fn level_mark(level: Level) -> char {
    match level {
        Level::TRACE => '.',
        Level::DEBUG => '-',
        Level::INFO => '*',
        Level::WARN | Level::ERROR => '#',
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn fields_follow_the_message() {
        let (mut reader, writer) = io::pipe().unwrap();
        let lines = tracing_subscriber::fmt::layer()
            .event_format(RedisLine { process_id: 7 })
            .with_ansi(false)
            .with_writer(Arc::new(writer));
        let subscriber = tracing_subscriber::registry().with(lines);
        let error = io::Error::other("no room");
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(id = 3, name = "a b", %error, "Closing client");
        });
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("7:M "), "{text}");
        let end = " # Closing client id=3 name=\"a b\" error=no room\n";
        assert!(text.ends_with(end), "{text}");
    }

    #[test]
    fn time_is_written_as_redis_writes_it() {
        let time = LocalTime {
            year: 2026,
            month: 11,
            day: 3,
            hour: 4,
            minute: 5,
            second: 6,
            millisecond: 7,
        };
        assert_eq!(line_time(time), "03 Nov 2026 04:05:06.007");
    }

    #[test]
    fn levels_have_the_names_and_marks_of_redis() {
        for (name, level, mark) in [
            ("debug", Level::TRACE, '.'),
            ("verbose", Level::DEBUG, '-'),
            ("notice", Level::INFO, '*'),
            ("warning", Level::WARN, '#'),
        ] {
            assert_eq!(LevelFilter::from_level(level).name(), name);
            assert_eq!(level_mark(level), mark);
        }
        assert_eq!(LevelFilter::OFF.name(), "nothing");
    }
}
