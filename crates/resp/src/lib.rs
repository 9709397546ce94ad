//! RESP2 and RESP3, the protocol of Redis: bytes in, bytes out.
//!
//! *Layout*: the server reads requests with [`Decoder`] (`decode.rs`, `inline.rs`) into a [`Batch`]
//! and writes replies with [`Reply`] into an [`Output`] (`output.rs`); a client writes requests
//! with [`encode_command`] and reads replies with [`ValueDecoder`] (`value.rs`).
//! *Invariants*: the pieces of a stream do not change the result. No bytes make a decoder panic, or
//! are read more than a fixed number of times. Leniencies and error texts are those of Redis 7.2
//! (`networking.c`, `sds.c`).
//! *Not here*: sockets, buffers and when to read; what a request means.
#![forbid(unsafe_code)]

mod batch;
mod command;
mod decode;
mod error;
mod inline;
mod output;
mod reply;
mod value;

pub use base::number_text::{DOUBLE_TEXT_BYTES_MAX, DoubleText, IntegerText};
pub use batch::{Batch, ForeignRequest, OwnedRequest, Request, RequestView, Requests};
pub use command::{encode_command, encode_inline};
pub use decode::{Awaited, Decoded, Decoder, Limits, Next, REQUESTS_PER_BATCH_MAX};
pub use error::ProtocolError;
pub use output::{Output, Referenced};
pub use reply::{Deferred, Protocol, Reply};
pub use value::{Value, ValueDecoder, ValueError, ValueLimits};
