//! The part of a host that shares memory with other processes.

use keyspace::UploadError;

use crate::handler::error::CommandError;

/// What SHM asks for. Each method refuses where it is not written, as to a session that did not
/// come by the unix socket. No method locks a shard.
pub trait SharedMemory {
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
