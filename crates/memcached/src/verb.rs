//! What a request asks for, and what its arguments are.

/// What a request asks for. Its arguments are listed with each; the first is the word of the
/// command itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Verb {
    /// word, key: the only key of its line, or the one that is left of it.
    Get,
    /// word, keys: some of a line's, whose end is still to come.
    GetSome,
    /// word, keys: the last of a line's, or all of it; more than one.
    GetLast,
    /// As [`Verb::Get`], with the unique number.
    Gets,
    /// As [`Verb::GetSome`], with the unique number.
    GetsSome,
    /// As [`Verb::GetLast`], with the unique number.
    GetsLast,
    /// word, key, exptime: a key of several, whose end is still to come, which expires from now on.
    Gat,
    /// As [`Verb::Gat`], the only key or the last.
    GatLast,
    /// As [`Verb::Gat`], with the unique number.
    Gats,
    /// As [`Verb::GatLast`], with the unique number.
    GatsLast,
    /// The end of a retrieval without keys: word.
    End,
    /// word, key, flags, exptime, data.
    Set,
    /// As [`Verb::Set`].
    Add,
    /// As [`Verb::Set`].
    Replace,
    /// As [`Verb::Set`].
    Append,
    /// As [`Verb::Set`].
    Prepend,
    /// word, key, flags, exptime, data, unique.
    Cas,
    /// word, key: a value that is too large to be stored there.
    TooLarge,
    /// word, key, delta.
    Incr,
    /// word, key, delta.
    Decr,
    /// word, key, exptime.
    Touch,
    /// word, key.
    Delete,
    /// word.
    FlushAll,
    /// word.
    Verbosity,
    /// word, and the words behind.
    Stats,
    /// word.
    Version,
    /// word.
    Quit,
    /// word, data: user and password.
    Auth,
    /// word, key, and the flags, none of which changes anything.
    MetaGet,
    /// word, key, and the flags.
    MetaGetChanging,
    /// As [`Verb::MetaGetChanging`], with a flag that makes the item where there is none.
    MetaGetVivifying,
    /// word, key, data, and the flags.
    MetaSet,
    /// word, key, and the flags.
    MetaDelete,
    /// word, key, and the flags.
    MetaArithmetic,
    /// word.
    MetaNoop,
    /// word, key, and maybe `b`.
    MetaDebug,
    /// word: refused with the fault of this number more.
    Refused,
}

/// What is wrong with a request; each has its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Fault {
    /// No such command, or not so many words.
    Unknown,
    /// A word is not what it has to be.
    Format,
    /// As [`Fault::Format`], of a delete.
    DeleteFormat,
    /// A time to live is no number.
    Exptime,
    /// A delta is no number.
    Delta,
    /// The data does not end where it has to, or has no length.
    DataChunk,
    /// The value is larger than an item may be.
    TooLarge,
    /// A flag of a meta command is there twice.
    DuplicateFlag,
    /// There is no such flag.
    InvalidFlag,
    /// More flags than a request may have.
    TooManyFlags,
    /// As [`Fault::TooManyFlags`], of any other command than a retrieval.
    TooManySetFlags,
    /// The number of a flag is none.
    FlagToken,
    /// Something is wrong with the flags of a deletion or of arithmetic.
    Flags,
    /// The key is not base64.
    Base64,
    /// The opaque token is too long.
    Opaque,
    /// An initial value is no number.
    Initial,
    /// A mode is not one letter.
    ModeLength,
    /// There is no such mode of a set.
    SetMode,
    /// There is no such mode of arithmetic.
    ArithmeticMode,
    /// Nothing but authentication is admitted.
    Unauthenticated,
    /// Data of an authentication does not end where it has to.
    AuthTermination,
    /// It would stop the server.
    Shutdown,
    /// What memcached has and this server lacks.
    Unsupported,
    /// A flush that is to happen later.
    DelayedFlush,
    /// The binary protocol: the session ends.
    Binary,
    /// The session ends without a word: HTTP, or a line without end.
    Attack,
}

impl Verb {
    /// The verbs, in the order of their numbers.
    pub const ALL: [Verb; 37] = [
        Verb::Get,
        Verb::GetSome,
        Verb::GetLast,
        Verb::Gets,
        Verb::GetsSome,
        Verb::GetsLast,
        Verb::Gat,
        Verb::GatLast,
        Verb::Gats,
        Verb::GatsLast,
        Verb::End,
        Verb::Set,
        Verb::Add,
        Verb::Replace,
        Verb::Append,
        Verb::Prepend,
        Verb::Cas,
        Verb::TooLarge,
        Verb::Incr,
        Verb::Decr,
        Verb::Touch,
        Verb::Delete,
        Verb::FlushAll,
        Verb::Verbosity,
        Verb::Stats,
        Verb::Version,
        Verb::Quit,
        Verb::Auth,
        Verb::MetaGet,
        Verb::MetaGetChanging,
        Verb::MetaGetVivifying,
        Verb::MetaSet,
        Verb::MetaDelete,
        Verb::MetaArithmetic,
        Verb::MetaNoop,
        Verb::MetaDebug,
        Verb::Refused,
    ];

    /// Returns whether it is for keys of a retrieval, of which its line may have more.
    pub(crate) fn is_retrieval(number: u8) -> bool {
        number <= Verb::GatsLast as u8
    }

    /// Returns whether it is a retrieval that changes when its key expires.
    pub(crate) fn is_retrieval_with_exptime(number: u8) -> bool {
        Verb::is_retrieval(number) && number >= Verb::Gat as u8
    }
}

impl Fault {
    /// The faults, in the order of their numbers.
    pub const ALL: [Fault; 26] = [
        Fault::Unknown,
        Fault::Format,
        Fault::DeleteFormat,
        Fault::Exptime,
        Fault::Delta,
        Fault::DataChunk,
        Fault::TooLarge,
        Fault::DuplicateFlag,
        Fault::InvalidFlag,
        Fault::TooManyFlags,
        Fault::TooManySetFlags,
        Fault::FlagToken,
        Fault::Flags,
        Fault::Base64,
        Fault::Opaque,
        Fault::Initial,
        Fault::ModeLength,
        Fault::SetMode,
        Fault::ArithmeticMode,
        Fault::Unauthenticated,
        Fault::AuthTermination,
        Fault::Shutdown,
        Fault::Unsupported,
        Fault::DelayedFlush,
        Fault::Binary,
        Fault::Attack,
    ];

    /// Returns the number of the request that is refused so.
    pub fn verb(self) -> u8 {
        Verb::Refused as u8 + self as u8
    }

    /// Returns the fault of the request with this number.
    pub fn of_verb(number: u8) -> Option<Fault> {
        let index = number.checked_sub(Verb::Refused as u8)?;
        Fault::ALL.get(usize::from(index)).copied()
    }

    /// Returns what the client is told; nothing where the session ends without a word.
    pub fn text(self) -> &'static str {
        match self {
            Fault::Unknown => "ERROR",
            Fault::Format => "CLIENT_ERROR bad command line format",
            Fault::DeleteFormat => {
                "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]"
            }
            Fault::Exptime => "CLIENT_ERROR invalid exptime argument",
            Fault::Delta => "CLIENT_ERROR invalid numeric delta argument",
            Fault::DataChunk => "CLIENT_ERROR bad data chunk",
            Fault::TooLarge => "SERVER_ERROR object too large for cache",
            Fault::DuplicateFlag => "CLIENT_ERROR duplicate flag",
            Fault::InvalidFlag => "CLIENT_ERROR invalid flag",
            Fault::TooManyFlags => "CLIENT_ERROR options flags are too long",
            Fault::TooManySetFlags => "CLIENT_ERROR options flags too long",
            Fault::FlagToken => "CLIENT_ERROR bad token in command line format",
            Fault::Flags => "CLIENT_ERROR invalid or duplicate flag",
            Fault::Base64 => "CLIENT_ERROR error decoding key",
            Fault::Opaque => "CLIENT_ERROR opaque token too long",
            Fault::Initial => "CLIENT_ERROR invalid numeric initial value",
            Fault::ModeLength => "CLIENT_ERROR incorrect length for M token",
            Fault::SetMode => "CLIENT_ERROR invalid mode for ms M token",
            Fault::ArithmeticMode => "CLIENT_ERROR invalid mode for ma M token",
            Fault::Unauthenticated => "CLIENT_ERROR unauthenticated",
            Fault::AuthTermination => "CLIENT_ERROR bad command line termination",
            Fault::Shutdown => "ERROR: shutdown not enabled",
            Fault::Unsupported => "SERVER_ERROR this server has no such command of memcached",
            Fault::DelayedFlush => "SERVER_ERROR a flush cannot be delayed here",
            Fault::Binary => {
                "SERVER_ERROR the binary protocol is not supported: set the client to text"
            }
            Fault::Attack => "",
        }
    }

    /// Returns whether the session ends with it.
    pub fn ends_session(self) -> bool {
        matches!(self, Fault::Binary | Fault::Attack)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_lists() {
        assert!(Verb::ALL.iter().enumerate().all(|(at, verb)| *verb as usize == at));
        assert!(Fault::ALL.iter().enumerate().all(|(at, fault)| *fault as usize == at));
        assert_eq!(Fault::of_verb(Fault::Attack.verb()), Some(Fault::Attack));
        assert_eq!(Fault::of_verb(Fault::Attack.verb() + 1), None);
        assert_eq!(Fault::of_verb(Verb::MetaDebug as u8), None);
    }
}
