//! Files of many values: what SAVE writes and a start reads.
//!
//! ```text
//! REDIS0011 | (FA name value) ...
//! (FE database | FB keys volatile |
//!  ([FA grace] [FA cost] [FC expires at u64] [F8 idle seconds] [F9 frequency u8]
//!   kind key value) ...) ...
//! FF | CRC-64 of all before it u64, or 0
//! ```
//!
//! Files of Valkey 9 begin with `VALKEY080`. A database may come more than once.
//!
//! *Not here*: which file, and when it is durable; what the values are.
//!
//! Source: Redis 7.2, `rdbSaveRio` and `rdbLoadRioWithLoadingCtx`; of Valkey 9.0 the marks of slots
//! and hashes with fields that expire.

mod reader;
mod source;
mod values;
mod writer;

pub use reader::{FileEntry, FileReader, Item};
pub use source::{Fault, FileError};
pub use writer::{EntryEncoder, FileForm, FileWriter};

/// The name of the field with the position in the stream of changes that a file stands for.
pub const LSN_FIELD: &[u8] = b"forebay-lsn";

/// The name of a field that is of the entry behind it: for how many milliseconds its value may be
/// read as a stale one once it has expired.
pub const GRACE_FIELD: &[u8] = b"forebay-grace-ms";

/// The name of a field that is of the entry behind it: how much dearer than others its value is to
/// have back.
pub const COST_FIELD: &[u8] = b"forebay-cost";

/// The name of the field that stands before the entry of an item of memcached, and has its tail.
/// Whoever does not know it reads a string.
pub const ITEM_FIELD: &[u8] = b"forebay-item";

/// The marks that stand where the kind of a value may stand.
///
/// Source: Redis 7.4 and, of the first, Valkey 9.0, `rdb.h`.
mod mark {
    pub const SLOT_IMPORT: u8 = 243;
    pub const SLOT_INFO: u8 = 244;
    pub const FUNCTION: u8 = 245;
    pub const FUNCTION_OF_CANDIDATE: u8 = 246;
    pub const MODULE_AUX: u8 = 247;
    pub const IDLE: u8 = 248;
    pub const FREQUENCY: u8 = 249;
    pub const AUX: u8 = 250;
    pub const SIZES: u8 = 251;
    pub const EXPIRES_AT_MS: u8 = 252;
    pub const EXPIRES_AT_S: u8 = 253;
    pub const DATABASE: u8 = 254;
    pub const END: u8 = 255;
}

/// The oldest version that is read: that of Redis 2.6.
const VERSION_MIN: u16 = 6;
/// That of Valkey 9.
const VERSION_OF_VALKEY: u16 = 80;

#[cfg(test)]
mod tests;
