//! How many descriptors so many clients and so much memory take.
//!
//! The size of a segment is given beside the settings: the arena keeps the one that it started
//! with, while that which would follow from the settings changes with `maxmemory`.

use crate::attach::{SESSION_DESCRIPTORS, SESSIONS_MAX};
use crate::config::Settings;
use crate::durability::FEED_DESCRIPTORS;
use crate::lane_lifecycle::LANE_DESCRIPTORS;
use crate::transfers::{IDLE_CONNECTIONS_MAX, TRANSFERS_MAX};
use crate::user_quotas::{Limit, Resource};

/// Descriptors for the log, listeners, pollers, and for passing some on, and those of connections
/// to other servers and of readers of the log.
const RESERVED_DESCRIPTORS: u64 =
    64 + (TRANSFERS_MAX + IDLE_CONNECTIONS_MAX + FEED_DESCRIPTORS) as u64;
/// The least that is kept from clients where descriptors are few.
const RESERVED_DESCRIPTORS_MIN: u64 = 32;
/// Where descriptors are few, the arena's memory has this part of them to itself, and sessions and
/// lanes may take another.
const FEW_SHARE: u64 = 8;
/// The part of the descriptors that may be on their way at once: the kernel counts those of all
/// processes of a user against the limit of the one that sends.
const IN_FLIGHT_SHARE: u64 = 2;
/// Lanes may be this part of the clients.
const LANE_CLIENTS_SHARE: u64 = 2;
/// The memory of lanes may be this part of `maxmemory`.
const LANE_BYTES_SHARE: u64 = 4;
/// The memory of lanes may be this many bytes where there is no `maxmemory`.
const LANE_BYTES_UNLIMITED: u64 = 4 << 30;

/// Returns the descriptors that a server with these settings needs at most: one for each client,
/// some more for each lane and session, and one for each segment of memory, of `segment_bytes`.
pub fn descriptors_wanted(settings: &Settings, segment_bytes: u64) -> u64 {
    let clients = u64::from(settings.network.max_clients);
    clients + reserve(settings, segment_bytes) + shared_descriptors(settings)
}

/// Returns how many of `descriptor_count` descriptors are for the arena's memory alone.
pub fn memory_descriptors(descriptor_count: u64, settings: &Settings, segment_bytes: u64) -> usize {
    memory_segments(settings, segment_bytes).min(descriptor_count / FEW_SHARE) as usize
}

/// Returns how much there is of what users share, where the process may have `descriptor_count`
/// descriptors.
pub fn quotas(
    descriptor_count: u64,
    settings: &Settings,
    segment_bytes: u64,
) -> [(Resource, Limit); 5] {
    let max_clients = u64::from(settings.network.max_clients);
    let of_memory = memory_descriptors(descriptor_count, settings, segment_bytes) as u64;
    let others = max_clients + of_memory + RESERVED_DESCRIPTORS;
    let left = descriptor_count.saturating_sub(others).max(descriptor_count / FEW_SHARE);
    let lanes = settings.sharing.lanes_max.min(max_clients.div_ceil(LANE_CLIENTS_SHARE));
    let lane_bytes = match (settings.sharing.lane_total_max, settings.memory.max_bytes) {
        (0, 0) => LANE_BYTES_UNLIMITED,
        (0, limit) => limit / LANE_BYTES_SHARE,
        (total, _) => total,
    };
    let sessions = Limit { total: SESSIONS_MAX, of_owner: settings.sharing.sessions_user_max };
    [
        (Resource::Sessions, sessions),
        (Resource::Lanes, Limit::total(lanes)),
        (Resource::LaneBytes, Limit::total(lane_bytes)),
        (Resource::Descriptors, Limit::total(left)),
        (Resource::InFlight, Limit::total(descriptor_count / IN_FLIGHT_SHARE)),
    ]
}

/// Returns how many clients fit into `descriptor_count` descriptors, at least one. Where there are
/// few, the reserve is a quarter of them: memory then grows as far as descriptors go.
pub fn clients_within(descriptor_count: u64, settings: &Settings, segment_bytes: u64) -> u32 {
    let most = (descriptor_count / 4).max(RESERVED_DESCRIPTORS_MIN);
    let reserve = reserve(settings, segment_bytes).min(most);
    let count = descriptor_count.saturating_sub(reserve).max(1);
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn reserve(settings: &Settings, segment_bytes: u64) -> u64 {
    RESERVED_DESCRIPTORS + memory_segments(settings, segment_bytes)
}

/// Returns how many segments the memory may have.
fn memory_segments(settings: &Settings, segment_bytes: u64) -> u64 {
    let memory = match settings.memory.max_bytes {
        0 => crate::info_text::system_memory_bytes(),
        bytes => bytes,
    };
    memory / segment_bytes
}

/// What lanes and sessions take beside the one descriptor of each client.
fn shared_descriptors(settings: &Settings) -> u64 {
    let lanes = settings.sharing.lanes_max.min(settings.network.max_clients.into());
    lanes * (LANE_DESCRIPTORS as u64 - 1) + SESSIONS_MAX * SESSION_DESCRIPTORS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn what_is_wanted_fits_and_few_descriptors_leave_some_clients() {
        let settings = Config::default().settings();
        let segment_bytes = settings.derived.segment_bytes;
        let within = |count| clients_within(count, &settings, segment_bytes);
        let wanted = descriptors_wanted(&settings, segment_bytes);
        assert!(within(wanted) >= settings.network.max_clients);
        assert_eq!(within(100), 68);
        assert_eq!(within(20), 1);
    }

    #[test]
    fn what_users_share_follows_from_descriptors_clients_and_memory() {
        let mut settings = Config::default().settings();
        (settings.network.max_clients, settings.sharing.lanes_max) = (1000, 1024);
        settings.memory.max_bytes = 64 << 20;
        let segment_bytes = 1 << 20;
        let of_memory = |count| memory_descriptors(count, &settings, segment_bytes);
        let totals = |count| quotas(count, &settings, segment_bytes).map(|(_, limit)| limit.total);
        assert_eq!(of_memory(8000), 64);
        assert_eq!(
            totals(8000),
            [1024, 500, 16 << 20, 8000 - 1000 - 64 - RESERVED_DESCRIPTORS, 4000]
        );
        assert_eq!(of_memory(400), 50);
        assert_eq!(totals(400), [1024, 500, 16 << 20, 50, 200]);
        (settings.memory.max_bytes, settings.sharing.lane_total_max) = (0, 0);
        assert_eq!(quotas(8000, &settings, segment_bytes)[2].1.total, LANE_BYTES_UNLIMITED);
    }
}
