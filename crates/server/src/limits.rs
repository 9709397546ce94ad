//! How many descriptors so many clients take.

/// Descriptors for everything but clients: log, segments, listeners, pollers, passing on.
const RESERVED_DESCRIPTORS: u64 = 128;

/// Returns the descriptors that a server of `client_count` clients needs.
pub fn descriptors_wanted(client_count: u32) -> u64 {
    u64::from(client_count) + RESERVED_DESCRIPTORS
}

/// Returns how many clients fit into `descriptor_count` descriptors, at least one.
pub fn clients_within(descriptor_count: u64) -> u32 {
    let count = descriptor_count.saturating_sub(RESERVED_DESCRIPTORS).max(1);
    u32::try_from(count).unwrap_or(u32::MAX)
}
