//! Why a command was refused, in Redis's words to the letter.

use std::borrow::Cow;

use keyspace::{UploadError, WrongType};
use resp::{Reply, RequestView};

use crate::table::row::Command;

/// How many bytes of a request an error quotes, as Redis does.
const QUOTED_BYTES_MAX: usize = 128;

/// Why a command was refused: a mistake in the request, or something that the server cannot do now.
#[derive(Clone, Debug)]
pub enum CommandError {
    /// A key holds another type than the command works on.
    WrongType,
    /// Arguments that the command does not understand.
    Syntax,
    /// The number of arguments does not fit this row.
    WrongArity(&'static Command),
    /// An integer was expected.
    NotInteger,
    /// A number was expected.
    NotFloat,
    /// A refusal with a fixed text, its code (`ERR `) included.
    Fixed(&'static str),
    /// A refusal that quotes the request.
    Text(Box<[u8]>),
    /// A time to live out of range in this command.
    InvalidExpire(&'static Command),
    /// The queue of MULTI is full.
    TransactionTooLarge,
}

/// The refusals with fixed texts that more than one file uses.
impl CommandError {
    /// A sum beyond 64 bits.
    pub const OVERFLOW: CommandError =
        CommandError::Fixed("ERR increment or decrement would overflow");
    /// A value longer than a string can be.
    pub const STRING_TOO_LONG: CommandError =
        CommandError::Fixed("ERR string exceeds maximum allowed size (proto-max-bulk-len)");
    /// There is no such database.
    pub const DATABASE_OUT_OF_RANGE: CommandError =
        CommandError::Fixed("ERR DB index is out of range");
    /// A negative number where none may be.
    pub const NOT_POSITIVE: CommandError =
        CommandError::Fixed("ERR value is out of range, must be positive");
    /// There is no such key.
    pub const NO_SUCH_KEY: CommandError = CommandError::Fixed("ERR no such key");
    /// A wrong password.
    pub const WRONG_PASSWORD: CommandError =
        CommandError::Fixed("WRONGPASS invalid username-password pair or user is disabled.");
    /// The session has to authenticate first. The engine's check before the handler.
    pub const NOT_AUTHENTICATED: CommandError =
        CommandError::Fixed("NOAUTH Authentication required.");
    /// The data are being read at start. The engine's check before the handler.
    pub const LOADING: CommandError =
        CommandError::Fixed("LOADING Redis is loading the dataset in memory");
    /// The command may not run inside MULTI. The engine's check before the handler.
    pub const NOT_IN_TRANSACTION: CommandError =
        CommandError::Fixed("ERR Command not allowed inside a transaction");
    /// EXEC after a request could not be queued.
    pub const TRANSACTION_BROKEN: CommandError =
        CommandError::Fixed("EXECABORT Transaction discarded because of previous errors.");
    /// DEBUG without leave. The engine's check before the handler.
    pub const DEBUG_NOT_ALLOWED: CommandError = CommandError::Fixed(
        "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", \
         you can run it from a local connection, otherwise you need to set this option in the \
         configuration file, and then restart the server.",
    );
    /// Memory is at its limit and nothing can be evicted.
    pub const OUT_OF_MEMORY: CommandError =
        CommandError::Fixed("OOM command not allowed when used memory > 'maxmemory'.");

    /// Returns the refusal of a request whose command does not exist.
    #[cold]
    pub fn unknown_command(request: RequestView<'_>) -> CommandError {
        let mut arguments = Vec::new();
        for argument in request.iter().skip(1) {
            if arguments.len() >= QUOTED_BYTES_MAX {
                break;
            }
            let room = QUOTED_BYTES_MAX - arguments.len();
            arguments.push(b'\'');
            arguments.extend_from_slice(quoted(argument, room));
            arguments.extend_from_slice(b"' ");
        }
        let name = quoted(request.at(0), QUOTED_BYTES_MAX);
        CommandError::text_of(&[
            b"ERR unknown command '",
            name,
            b"', with args beginning with: ",
            &arguments,
        ])
    }

    /// Returns the refusal of a request that names a subcommand which `container` does not have.
    #[cold]
    pub fn unknown_subcommand(container: &Command, name: &[u8]) -> CommandError {
        let upper = container.name.to_ascii_uppercase();
        let name = quoted(name, QUOTED_BYTES_MAX);
        let parts: [&[u8]; 5] =
            [b"ERR unknown subcommand '", name, b"'. Try ", upper.as_bytes(), b" HELP."];
        CommandError::text_of(&parts)
    }

    /// Returns the refusal of a subcommand that is parsed by hand.
    #[cold]
    pub fn subcommand_syntax(container: &str, name: &[u8]) -> CommandError {
        let name = quoted(name, QUOTED_BYTES_MAX);
        let parts: [&[u8]; 5] = [
            b"ERR unknown subcommand or wrong number of arguments for '",
            name,
            b"'. Try ",
            container.as_bytes(),
            b" HELP.",
        ];
        CommandError::text_of(&parts)
    }

    /// Returns the refusal whose text is `parts` one after the other.
    #[cold]
    pub fn text_of(parts: &[&[u8]]) -> CommandError {
        CommandError::Text(parts.concat().into_boxed_slice())
    }

    /// Returns the text of the error reply, its code included.
    pub fn text(&self) -> Cow<'_, [u8]> {
        match self {
            CommandError::WrongType => {
                b"WRONGTYPE Operation against a key holding the wrong kind of value".into()
            }
            CommandError::Syntax => b"ERR syntax error".into(),
            CommandError::NotInteger => b"ERR value is not an integer or out of range".into(),
            CommandError::NotFloat => b"ERR value is not a valid float".into(),
            CommandError::Fixed(text) => text.as_bytes().into(),
            CommandError::Text(text) => text.as_ref().into(),
            CommandError::WrongArity(command) => {
                let text = format!("ERR wrong number of arguments for '{}' command", command.name);
                text.into_bytes().into()
            }
            CommandError::InvalidExpire(command) => {
                format!("ERR invalid expire time in '{}' command", command.name).into_bytes().into()
            }
            CommandError::TransactionTooLarge => {
                b"ERR the queue of this transaction is full".into()
            }
        }
    }

    /// Writes the error reply.
    #[cold]
    pub fn write(&self, reply: &mut Reply<'_>) {
        reply.error(self.text());
    }
}

impl From<UploadError> for CommandError {
    fn from(error: UploadError) -> CommandError {
        CommandError::text_of(&[b"ERR ", error.to_string().as_bytes()])
    }
}

impl From<WrongType> for CommandError {
    fn from(_: WrongType) -> CommandError {
        CommandError::WrongType
    }
}

/// Returns what Redis shows of `bytes` in an error: up to a zero byte, and at most `count` bytes.
pub(crate) fn quoted(bytes: &[u8], count: usize) -> &[u8] {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    &bytes[..end.min(count)]
}
