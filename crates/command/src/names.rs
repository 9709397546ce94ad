//! What Redis calls types and encodings.

use keyspace::{Encoding, ValueType};

/// Returns the name of `value_type` in TYPE and SCAN.
pub(crate) fn type_name(value_type: ValueType) -> &'static str {
    match value_type {
        ValueType::String => "string",
    }
}

/// Returns the name of `encoding` in OBJECT ENCODING.
pub(crate) fn encoding_name(encoding: Encoding) -> &'static str {
    match encoding {
        Encoding::Int => "int",
        Encoding::Embstr => "embstr",
        Encoding::Raw => "raw",
    }
}
