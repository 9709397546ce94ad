//! What commands ask of the process around the engine.

use std::time::Duration;

use keyspace::{Served, UploadError};

use crate::client_info::ClientInfo;
use crate::error::CommandError;
use crate::info_sections::InfoSections;
use crate::observe::Observer;
use crate::outcome::Wake;
use crate::session::SessionState;

/// The server, as far as commands need it. No method locks a shard: a caller may hold them all.
pub trait Host: Observer {
    /// Returns the number of databases that SELECT may choose from, at most
    /// [`base::DATABASE_COUNT_MAX`].
    fn database_count(&self) -> usize;

    /// Returns whether the default user has a password.
    fn requires_password(&self) -> bool;

    /// Returns whether `password` is that of `user`; any password is where none is required.
    /// Takes the same time wherever the first wrong byte is.
    fn authenticate(&self, user: &[u8], password: &[u8]) -> bool;

    /// Returns whether `session` may use DEBUG: option `enable-debug-command`.
    fn allows_debug(&self, session: &SessionState) -> bool;

    /// Returns name and value of each option that `wanted` accepts, by its name and whether it is
    /// hidden from those who do not ask for just that name, in the table's order.
    fn config_values(&self, wanted: &dyn Fn(&str, bool) -> bool) -> Vec<(String, String)>;

    /// Returns the value of the option with this name or alias, in any case, hidden or not.
    fn config_value(&self, name: &str) -> Option<String> {
        let is_meant = |known: &str, _: bool| known.eq_ignore_ascii_case(name);
        self.config_values(&is_meant).pop().map(|(_, value)| value)
    }

    /// Sets all options of `pairs` (name, value) for `session`, or none.
    ///
    /// # Errors
    /// With the first option that cannot be set, or not by this session.
    fn config_set(
        &self,
        session: &SessionState,
        pairs: &[(&[u8], &[u8])],
    ) -> Result<(), ConfigError>;

    /// Writes the options back to the configuration file.
    ///
    /// # Errors
    /// When there is none, or it cannot be written.
    fn config_rewrite(&self) -> Result<(), RewriteError> {
        Err(RewriteError::NoFile)
    }

    /// As [`Host::config_rewrite`], but writes all options, those that are as by default too.
    ///
    /// # Errors
    /// As of [`Host::config_rewrite`].
    fn config_rewrite_all(&self) -> Result<(), RewriteError> {
        Err(RewriteError::NoFile)
    }

    /// Returns the version of Redis that the server says it is.
    fn redis_version(&self) -> String {
        crate::REDIS_VERSION.to_owned()
    }

    /// Sets the counters that CONFIG RESETSTAT names to zero.
    fn reset_statistics(&self);

    /// Returns the text of INFO for `sections`.
    fn info(&self, sections: &InfoSections) -> String;

    /// Returns all sessions as they were when they last sent something, by ascending number.
    fn clients(&self) -> Vec<ClientInfo>;

    /// Returns session `id` in the same way.
    fn client(&self, id: u64) -> Option<ClientInfo>;

    /// Ends the sessions of `ids`, whatever they do, and returns how many of them there were. From
    /// then on no other session finds them; what they have under way may still complete.
    fn end_clients(&self, ids: &[u64]) -> usize {
        let _ = ids;
        0
    }

    /// Ends the wait of session `id` that a blocking command began; false where it does not wait.
    fn unblock_client(&self, id: u64, wake: Wake) -> bool {
        let _ = (id, wake);
        false
    }

    /// Returns whether session `id`, which waits for a key, may be served: nobody has ended it, or
    /// taken the right to end its wait. Asked under a guard.
    fn may_serve(&self, id: u64) -> bool {
        let _ = id;
        true
    }

    /// Tells a session that its wait was served, or that it is to run its request itself. Called
    /// without any guard.
    fn tell_served(&self, served: Served) {
        let _ = served;
    }

    /// Lets the requests that `pause` is about wait for as long as `span`, or for the rest of a
    /// pause underway, whichever is longer. Of two pauses at once the stricter holds.
    fn pause_clients(&self, pause: Pause, span: Duration) {
        let _ = (pause, span);
    }

    /// Ends a pause.
    fn resume_clients(&self) {}

    /// Begins or stops to look for keys that have expired.
    fn set_active_expire(&self, is_on: bool) {
        let _ = is_on;
    }

    /// Stops what the server does by itself, or lets it go on.
    fn pause_service(&self, is_paused: bool) {
        let _ = is_paused;
    }

    /// Writes `text` to the log.
    fn log(&self, text: &[u8]) {
        let _ = text;
    }

    /// Prints `text` to standard output.
    fn print(&self, text: &str) {
        let _ = text;
    }

    /// Ends the process by a fault of its own. For tests of what it tells of that.
    fn crash(&self, crash: Crash) -> ! {
        panic!("{crash:?} on request")
    }

    /// Begins to shut down; the process ends soon after.
    ///
    /// # Errors
    /// When the server goes on. Its log says why.
    fn shutdown(&self, request: ShutdownRequest) -> Result<(), ShutdownError>;

    /// Stops a shutdown that has begun and waits; returns false where there is none.
    fn abort_shutdown(&self) -> bool;

    /// Makes the calling thread sleep.
    fn sleep(&self, duration: Duration);

    /// Begins to share the arena with the process of session `id`. The descriptor of the session's
    /// pin table leaves with the first byte that is sent to it next.
    ///
    /// # Errors
    /// When the session may not, or descriptors are short.
    fn attach_memory(&self, id: u64) -> Result<MemoryGeometry, MemoryRefusal> {
        let _ = id;
        Err(MemoryRefusal::NotUnix)
    }

    /// Returns the arena's segments. Descriptors of the first of those with a serial above `known`
    /// leave with the first byte that is sent to session `id` next. There is no segment until its
    /// pin table is ready, which the first call begins.
    ///
    /// # Errors
    /// When the session is not attached, its pin table is not sealed, it has descriptors of an
    /// earlier reply to receive, or descriptors are short.
    fn memory_segments(&self, id: u64, known: u64) -> Result<MemorySegments, MemoryRefusal> {
        let _ = (id, known);
        Err(MemoryRefusal::NotAttached)
    }

    /// Makes a lane for session `id`, with rings of these sizes. Its descriptors leave with the
    /// first byte that is sent to the session next.
    ///
    /// # Errors
    /// When the session may have no (further) lane, or memory or descriptors are short.
    fn open_lane(
        &self,
        id: u64,
        request_bytes: u64,
        reply_bytes: u64,
    ) -> Result<LaneOffer, MemoryRefusal> {
        let _ = (id, request_bytes, reply_bytes);
        Err(MemoryRefusal::NotUnix)
    }

    /// Begins to serve `lane` of session `id`, which its process has mapped.
    ///
    /// # Errors
    /// When there is no such lane, or it is served already.
    fn seal_lane(&self, id: u64, lane: u64) -> Result<(), MemoryRefusal> {
        let _ = (id, lane);
        Err(MemoryRefusal::NoLane)
    }

    /// Makes upload memory of at least `bytes` for session `id`. Its descriptors leave with the
    /// first byte that is sent to the session next.
    ///
    /// # Errors
    /// When the session may have no more, or memory or descriptors are short.
    fn open_upload(&self, id: u64, bytes: u64) -> Result<UploadOffer, MemoryRefusal> {
        let _ = (id, bytes);
        Err(MemoryRefusal::NotUnix)
    }

    /// Begins to open the upload memory of session `id` at `offset`, which its process has mapped
    /// and sealed; returns whether it can be used.
    ///
    /// # Errors
    /// When there is none, or it is not sealed.
    fn seal_upload(&self, id: u64, offset: u64) -> Result<bool, MemoryRefusal> {
        let _ = (id, offset);
        Err(MemoryRefusal::Upload(UploadError::NoRun))
    }

    /// Returns the offset of `bytes` in the upload memory of session `id`.
    ///
    /// # Errors
    /// When it has no room.
    fn allocate_upload(&self, id: u64, bytes: u64) -> Result<u64, MemoryRefusal> {
        let _ = (id, bytes);
        Err(MemoryRefusal::Upload(UploadError::NoRun))
    }

    /// Takes back what was allocated at `offset` and not committed.
    ///
    /// # Errors
    /// When there is no such upload.
    fn free_upload(&self, id: u64, offset: u64) -> Result<(), MemoryRefusal> {
        let _ = (id, offset);
        Err(MemoryRefusal::Upload(UploadError::NoRange))
    }

    /// Ends `lane` of session `id`.
    ///
    /// # Errors
    /// When there is no such lane.
    fn close_lane(&self, id: u64, lane: u64) -> Result<(), MemoryRefusal> {
        let _ = (id, lane);
        Err(MemoryRefusal::NoLane)
    }
}

/// A lane that waits for its client to map it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneOffer {
    /// The number of the session that it will have.
    pub lane: u64,
    /// How many descriptors come along.
    pub descriptor_count: usize,
}

/// Upload memory that waits for its client to map it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UploadOffer {
    /// Where it starts in the range of the segments.
    pub offset: u64,
    /// Its size: a whole number of segments.
    pub bytes: u64,
    /// The size of one segment.
    pub segment_bytes: u64,
    /// Whether values may stay in it.
    pub may_adopt: bool,
    /// How many descriptors come along: one for each segment.
    pub descriptor_count: usize,
}

/// The sizes of what a process maps, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryGeometry {
    /// The range of addresses that the segments lie in.
    pub span_bytes: u64,
    /// One segment.
    pub segment_bytes: u64,
    /// The session's pin table.
    pub pin_bytes: u64,
}

/// The segments of the arena.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemorySegments {
    /// The segment epoch as of which the list is complete.
    pub epoch: u64,
    /// Index and serial number of each, by ascending serial number.
    pub live: Vec<(u32, u64)>,
    /// How many descriptors come along.
    pub descriptor_count: usize,
}

/// Why a session may not share memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemoryRefusal {
    /// The session did not come through the unix socket.
    NotUnix,
    /// The peer's user may not read the arena, or nobody may: `shm-reads`, `shm-read-uids`.
    NotAllowed,
    /// SHM ATTACH has to come first.
    NotAttached,
    /// SHM ATTACH has come already.
    Attached,
    /// Descriptors of an earlier reply have not been received yet: a session has those of one reply
    /// on their way.
    Unsent,
    /// The peer's user has his share of descriptors on their way.
    InFlight,
    /// The peer's user has his share of what the server may keep open for sessions and lanes.
    Descriptors,
    /// The process has as many sessions as one may: `shm-sessions-process-max`.
    TooManyOfProcess,
    /// The peer's user has as many sessions as he may: `shm-sessions-user-max`, or his share.
    TooManyOfUser,
    /// A ring's size is not a power of two, or out of bounds.
    RingSize,
    /// The session has as many lanes as it may, or its user his share of the lanes or of their
    /// memory: `shm-lanes-max`, `shm-lane-total-max`.
    TooManyLanes,
    /// As many clients as there may be are connected: a lane is one.
    TooManyClients,
    /// The session has no lane of this number.
    NoLane,
    /// The lane is served already.
    Sealed,
    /// The client has not closed the memory for further writers and seals.
    NotClosed,
    /// The session, or all together, have as much upload memory as they may:
    /// `shm-upload-bytes-max`, `shm-upload-total-max`.
    UploadLimit,
    /// There is no room for so much, and nothing to evict.
    OutOfMemory,
    /// The upload memory refuses.
    Upload(UploadError),
    /// The system has no descriptors or memory left: its words.
    System(String),
}

impl From<std::io::Error> for MemoryRefusal {
    fn from(error: std::io::Error) -> MemoryRefusal {
        MemoryRefusal::System(error.to_string())
    }
}

impl From<UploadError> for MemoryRefusal {
    fn from(error: UploadError) -> MemoryRefusal {
        MemoryRefusal::Upload(error)
    }
}

impl From<MemoryRefusal> for CommandError {
    fn from(refusal: MemoryRefusal) -> CommandError {
        CommandError::Fixed(match refusal {
            MemoryRefusal::NotUnix => "ERR shared memory needs a connection by the unix socket",
            MemoryRefusal::NotAllowed => "NOPERM this user may not read the shared memory",
            MemoryRefusal::NotAttached => "ERR SHM ATTACH has to come first",
            MemoryRefusal::Attached => "ERR this connection is attached already",
            MemoryRefusal::Unsent => {
                "ERR descriptors of an earlier reply have not been received yet"
            }
            MemoryRefusal::InFlight => {
                "ERR too many descriptors are on their way to processes of this user"
            }
            MemoryRefusal::Descriptors => {
                "ERR shared memory takes too many descriptors for processes of this user"
            }
            MemoryRefusal::TooManyOfProcess => "ERR this process shares the memory too often",
            MemoryRefusal::TooManyOfUser => "ERR too many processes of this user share the memory",
            MemoryRefusal::RingSize => {
                "ERR a ring has a power of two of bytes from 4096 to 16777216"
            }
            MemoryRefusal::TooManyLanes => "ERR too many lanes",
            MemoryRefusal::TooManyClients => "ERR max number of clients reached",
            MemoryRefusal::NoLane => "ERR this connection has no such lane",
            MemoryRefusal::NotClosed => {
                "ERR the memory lacks the seals F_SEAL_FUTURE_WRITE and F_SEAL_SEAL"
            }
            MemoryRefusal::Sealed => "ERR the lane is sealed already",
            MemoryRefusal::UploadLimit => {
                "ERR this connection, or all together, have as much upload memory as they may"
            }
            MemoryRefusal::OutOfMemory => return CommandError::OUT_OF_MEMORY,
            MemoryRefusal::Upload(error) => return error.into(),
            MemoryRefusal::System(reason) => {
                let parts: [&[u8]; 2] = [b"ERR no shared memory: ", reason.as_bytes()];
                return CommandError::text_of(&parts);
            }
        })
    }
}

/// A way to end that a program does not choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// By memory that it may not access.
    Fault,
    /// By something that it found wrong and cannot go on with.
    Failure,
}

/// Which requests a pause is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pause {
    /// Those that may write.
    Writes,
    /// All.
    All,
}

/// How SHUTDOWN was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShutdownRequest {
    /// SAVE or NOSAVE; where neither, the configuration decides.
    pub save: Option<bool>,
    /// FORCE: ends even where something cannot be saved.
    pub force: bool,
}

/// Why a server goes on after SHUTDOWN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShutdownError {
    /// What was to be saved first cannot be.
    Unsaved,
    /// It is ending already.
    Begun,
}

/// Why CONFIG REWRITE changed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RewriteError {
    /// The server was started without a file.
    NoFile,
    /// The file cannot be read or written: the system's words.
    System(String),
}

/// Why CONFIG SET changed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// There is no such option.
    Unknown {
        /// The name as the peer wrote it.
        name: Vec<u8>,
    },
    /// The option refused the value, or cannot change at all.
    Refused {
        /// The option's name.
        name: String,
        /// Why, in Redis's words: `argument must be a memory value`.
        reason: String,
    },
}
