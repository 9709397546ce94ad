//! RESP2 and RESP3, the protocol of Redis: bytes in, bytes out. No sockets, no clock, no threads.
//!
//! The server half reads requests with [`Decoder`] into a [`Batch`] and writes replies with
//! [`Reply`]. The client half writes requests with [`encode_command`] and reads replies with
//! [`ValueDecoder`]. Behaviour follows Redis 7.2 (`networking.c`, `sds.c`), error texts included.

mod batch;
mod command;
mod decode;
mod error;
mod inline;
mod number;
mod reply;
mod value;

pub use batch::{Batch, OwnedRequest, Request, RequestView, Requests};
pub use command::{encode_command, encode_inline};
pub use decode::{Decoded, Decoder, Limits, Next, REQUESTS_PER_BATCH_MAX};
pub use error::ProtocolError;
pub use number::{DOUBLE_TEXT_BYTES_MAX, DoubleText, IntegerText};
pub use reply::{Deferred, Protocol, Reply};
pub use value::{Value, ValueDecoder, ValueError, ValueLimits};
