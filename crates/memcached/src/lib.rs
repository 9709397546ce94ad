//! The text protocol of memcached, classic and meta: bytes in, requests out.
//!
//! *Layout*: [`Decoder`] (`decode.rs`) turns a stream into a [`resp::Batch`], each request a
//! [`Verb`] with arguments that are ranges of the receive buffer; `verb.rs` says what the arguments
//! of each are. `meta.rs` reads the flags of meta commands, `number.rs` numbers as memcached reads
//! them, `binary_key.rs` keys that are no text.
//! *Invariants*: the pieces of a stream do not change the result. No bytes make the decoder panic.
//! Limits and error texts are those of memcached 1.6.18 (`proto_text.c`, `util.c`).
//! *Not here*: what a request does and replies (`command/memcached`), sockets. The binary protocol
//! is refused; UDP does not exist.
#![forbid(unsafe_code)]

mod binary_key;
mod decode;
mod meta;
mod number;
mod verb;

pub use binary_key::encode_binary_key;
pub use decode::{Decoder, KEY_BYTES_MAX, Limits, item_bytes, put_back};
pub use meta::{MetaFlags, MetaMode};
pub use number::{parse_delta, parse_flags, parse_i32};
pub use verb::{Fault, Verb};
