//! What Redis calls types.

use keyspace::ValueType;

/// Returns the name of `value_type` in TYPE and SCAN.
pub(crate) fn type_name(value_type: ValueType) -> &'static str {
    match value_type {
        ValueType::String => "string",
        ValueType::List => "list",
        ValueType::Set => "set",
        ValueType::SortedSet => "zset",
        ValueType::Hash => "hash",
    }
}
