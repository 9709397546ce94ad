//! What a handler answers when it is not done: refused, to be run again, or waiting.
//!
//! A handler that is done answers `Ok`. Whatever else it answers, it has changed nothing, and what
//! it has written of a reply is taken back. One exception: XREADGROUP makes its consumer before it
//! waits, as Redis does. Such a change is one that the next run finds made, and the reply waits for
//! its record, whatever ends the wait. The engine has one loop that acts on the answer
//! (`engine/retry.rs`). A value that has to be fetched from a disk first will be one more
//! [`Need`].

use std::ops::Range;
use std::time::Duration;

use keyspace::{
    NeedRoom, Refusal, RestoreError, ShardSet, UploadError, ValueType, WaitEnd, WrongType,
};
use resp::Reply;

use crate::handler::error::CommandError;
use crate::host::MemoryRefusal;

/// Why a command is not done.
#[derive(Debug)]
pub enum Unfinished {
    /// It is refused: the reply is this error.
    Refused(CommandError),
    /// It needs this, and is run again from the start once that is provided; only after
    /// [`Need::PartialUploadCopy`] it is done.
    Again(Need),
    /// It asks for this, and is run again from the start whether it gets it or not.
    AgainAnyway(Need),
    /// It is to be run again once what it waits for has come.
    Wait(Wait),
}

/// What a command needs. The engine provides it while no shard is locked.
#[derive(Debug)]
pub enum Need {
    /// There is no free memory for what the command would store.
    Room(NeedRoom),
    /// A command on several keys would store so many bytes that its request did not bring, and
    /// there is no free memory for them: nothing is evicted while such a command runs.
    Reserve(u64),
    /// It takes long for what is at its keys, and is not to share its time with other commands.
    TimeAlone,
    /// Long values at the command's keys lie where clients may write them, and are to be copied.
    Owned,
    /// The upload at this offset is to be copied; the copy is on offer when the command is run
    /// again.
    Copied {
        /// Where the upload is.
        offset: u64,
        /// The length of the value.
        length: u64,
        /// A part of it may have been copied in advance.
        is_copied: bool,
    },
    /// A part of an upload is to be copied before the request that stores it comes. The number of
    /// bytes copied is the reply; the command is done, and is not run again.
    PartialUploadCopy(Box<PartialUploadCopy>),
    /// The command touches keys in these shards, which its request does not declare. It is run
    /// again under their locks and those of its own keys.
    Shards(Box<ShardSet>),
    /// The reply is longer than what may be kept for a session that waits: the session's worker is
    /// to run the request itself.
    OwnWorker,
}

/// Which part of an upload is to be copied in advance.
#[derive(Debug)]
pub struct PartialUploadCopy {
    /// Where the upload is.
    pub offset: u64,
    /// The length of the value.
    pub length: u64,
    /// Which of its bytes.
    pub part: Range<u64>,
}

/// How a command waits. When one of its keys is ready, its handler is run again for the session
/// that waits; where the handler answers that it waits again, the session keeps its place.
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    /// How long it waits; without it, until something happens.
    pub timeout: Option<Duration>,
    /// Writes the reply once that time has passed.
    pub at_timeout: fn(&mut Reply<'_>),
    /// Writes the reply within EXEC, where nothing waits.
    pub at_refusal: fn(&mut Reply<'_>),
    /// How many of the request's keys it waits for, from the first one on. Any of them may end the
    /// wait. A command that waits for no key is not run again.
    pub key_count: u32,
    /// Which type a key has to have to end the wait, if one in particular.
    pub value_type: Option<ValueType>,
    /// What ends the wait beside the key.
    pub end: WaitEnd,
    /// It waits for what it has asked of the host, which wakes it: [`Wake::Continued`].
    pub is_for_host: bool,
}

/// What ends a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// The time has passed, or CLIENT UNBLOCK says that it has.
    TimedOut,
    /// CLIENT UNBLOCK asks for an error.
    Refused,
    /// A key is there.
    Served,
    /// The host has what the request asked of it: the request is run again.
    Continued,
    /// The LSN that the request asked for is durable.
    Durable,
    /// The answer that the request asked of the host is there.
    Answered,
}

impl Wait {
    /// The error of [`Wake::Refused`].
    pub const REFUSED: &'static str = "UNBLOCKED client unblocked via CLIENT UNBLOCK";

    /// Returns a wait for the first `key_count` keys of the request for as long as `timeout`; zero
    /// is for ever.
    ///
    /// # Panics
    /// When the keys are more than a request can have.
    pub fn new(timeout: Duration, at_timeout: fn(&mut Reply<'_>), key_count: usize) -> Wait {
        let timeout = Some(timeout).filter(|timeout| !timeout.is_zero());
        let key_count = u32::try_from(key_count).expect("a request is below 4 GiB");
        Wait {
            timeout,
            at_timeout,
            at_refusal: at_timeout,
            key_count,
            value_type: None,
            end: WaitEnd::Key,
            is_for_host: false,
        }
    }

    /// Returns a wait for the host, which nobody else ends; `at_refusal` writes the reply within
    /// EXEC. The request is run again without its keys.
    pub fn for_host(at_refusal: fn(&mut Reply<'_>)) -> Wait {
        Wait { is_for_host: true, ..Wait::new(Duration::ZERO, at_refusal, 0) }
    }

    /// Returns the same wait, whose reply within EXEC is another.
    pub fn refused_by(self, at_refusal: fn(&mut Reply<'_>)) -> Wait {
        Wait { at_refusal, ..self }
    }

    /// Returns the same wait, which a key of `value_type` ends, and the end of a key of that type,
    /// or that it becomes one of another.
    pub fn of_type_or_gone(self, value_type: ValueType) -> Wait {
        Wait { end: WaitEnd::KeyOrItsEnd, ..self.of_type(value_type) }
    }

    /// Returns the same wait, which also ends for one session when nobody has the right to fill the
    /// key any more.
    pub fn or_lease(self) -> Wait {
        Wait { end: WaitEnd::KeyOrLease, ..self }
    }

    /// Returns the same wait, which only a key of `value_type` ends.
    pub fn of_type(self, value_type: ValueType) -> Wait {
        Wait { value_type: Some(value_type), ..self }
    }
}

// Every command returns one of these, a GET too.
const _: () = assert!(size_of::<Result<(), Unfinished>>() <= 40);

impl From<CommandError> for Unfinished {
    fn from(error: CommandError) -> Unfinished {
        Unfinished::Refused(error)
    }
}

impl From<Need> for Unfinished {
    fn from(need: Need) -> Unfinished {
        Unfinished::Again(need)
    }
}

impl From<Wait> for Unfinished {
    fn from(wait: Wait) -> Unfinished {
        Unfinished::Wait(wait)
    }
}

impl From<NeedRoom> for Unfinished {
    fn from(need: NeedRoom) -> Unfinished {
        Unfinished::Again(Need::Room(need))
    }
}

impl From<Refusal> for Unfinished {
    fn from(refusal: Refusal) -> Unfinished {
        match refusal {
            Refusal::WrongType => Unfinished::Refused(CommandError::WrongType),
            Refusal::NeedRoom(need) => need.into(),
        }
    }
}

impl From<RestoreError> for Unfinished {
    fn from(error: RestoreError) -> Unfinished {
        match error {
            RestoreError::Payload(_) => Unfinished::Refused(CommandError::Fixed(
                "ERR DUMP payload version or checksum are wrong",
            )),
            RestoreError::Malformed => {
                Unfinished::Refused(CommandError::Fixed("ERR Bad data format"))
            }
            RestoreError::NeedRoom(need) => need.into(),
        }
    }
}

impl From<UploadError> for Unfinished {
    fn from(error: UploadError) -> Unfinished {
        Unfinished::Refused(error.into())
    }
}

impl From<WrongType> for Unfinished {
    fn from(_: WrongType) -> Unfinished {
        Unfinished::Refused(CommandError::WrongType)
    }
}

impl From<MemoryRefusal> for Unfinished {
    fn from(refusal: MemoryRefusal) -> Unfinished {
        Unfinished::Refused(refusal.into())
    }
}
