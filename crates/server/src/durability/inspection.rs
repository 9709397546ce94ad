//! `forebay check DIR`: reads a log, and says what it has and what is wrong with it.

use std::path::Path;
use std::sync::Arc;

use effects::RecordView;
use wal::{Directory, LogError, Reader, Storage, Writer, WriterOptions};

/// What was found.
pub struct Inspection {
    /// What to tell, in lines.
    pub text: String,
    /// Whether a server would start with it.
    pub is_sound: bool,
}

/// Reads the log in the folder at `path` to its end. With `cuts` it ends there from now on,
/// whatever is behind: what a torn end has, and what damage keeps from being read.
///
/// # Errors
/// A sentence that says why nothing was read, or nothing was cut.
pub fn inspect(path: &Path, cuts: bool) -> Result<Inspection, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let directory = Directory::open_existing(path).map_err(failed)?;
    // What is written meanwhile would look like a torn end.
    let _lock = match directory.lock() {
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
            return Err(format!("{}: a server uses it", path.display()));
        }
        Err(error) if cuts => return Err(failed(error)),
        // A folder that may only be read is read.
        lock => lock.ok(),
    };
    let storage: Arc<dyn Storage> = Arc::new(directory);
    let mut reader = Reader::open(Arc::clone(&storage)).map_err(|error| error.to_string())?;
    let read = read_all(&mut reader);
    let mut text = describe(&reader);
    let end = reader.end();
    let mut is_sound = true;
    match &read {
        Ok(_) if end.segment.is_none() => text += "There is no log.\n",
        Ok(records) if end.torn_bytes == 0 => {
            text += &format!("{records} records. The log is sound and ends at LSN {}.\n", end.lsn);
        }
        Ok(records) => {
            text += &format!(
                "{records} records. The log ends at LSN {}; {} bytes behind it were never durable \
                 and are cut when a server starts.\n",
                end.lsn, end.torn_bytes
            );
        }
        Err(error) => {
            is_sound = false;
            text += &format!("{error}\nWhat comes before reads, up to LSN {}.\n", end.lsn);
        }
    }
    let is_cuttable =
        matches!(read, Err(Damage::Log(LogError::Corrupt { .. } | LogError::Gap { .. })));
    if cuts && (is_cuttable || end.torn_bytes > 0) && end.offset > 0 {
        let cut = Writer::cut(storage, &end, WriterOptions::default());
        cut.map_err(|error| format!("the log cannot be cut: {error}"))?;
        text += &format!("Cut: the log ends at LSN {} now.\n", end.lsn);
        is_sound = true;
    }
    Ok(Inspection { text, is_sound })
}

/// Why a log was not read to its end.
enum Damage {
    Log(LogError),
    Record { lsn: u64, reason: String },
}

impl std::fmt::Display for Damage {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Damage::Log(error) => error.fmt(formatter),
            Damage::Record { lsn, reason } => write!(formatter, "behind LSN {lsn}: {reason}"),
        }
    }
}

/// Reads all records and returns how many there are.
fn read_all(reader: &mut Reader) -> Result<u64, Damage> {
    let (mut count, mut payload) = (0, Vec::new());
    while let Some(frame) = reader.next(&mut payload).map_err(Damage::Log)? {
        let mut rest = payload.as_slice();
        while !rest.is_empty() {
            let record = RecordView::read(rest).map_err(|error| {
                let lsn = frame.end_lsn - rest.len() as u64;
                Damage::Record { lsn, reason: error.to_string() }
            })?;
            count += 1;
            rest = &rest[record.header().length as usize..];
        }
    }
    Ok(count)
}

/// Lists the segments, one in a line.
fn describe(reader: &Reader) -> String {
    let line = |segment: &wal::SegmentSummary| {
        let end = segment.lsn + segment.payload_bytes;
        let begins = if segment.begins { ", begins from nothing" } else { "" };
        format!(
            "{}: LSN {} to {end}, {} frames, {} bytes of records, a file of {} bytes{begins}\n",
            segment.name, segment.lsn, segment.frames, segment.payload_bytes, segment.file_bytes
        )
    };
    reader.segments().iter().map(line).collect()
}
