//! How many descriptors so many clients and so much memory take.

use crate::config::Settings;
use crate::lanes::LANE_DESCRIPTORS;

/// Descriptors for the log, listeners, pollers, and for passing some on.
const RESERVED_DESCRIPTORS: u64 = 64;
/// The least that is kept from clients where descriptors are few.
const RESERVED_DESCRIPTORS_MIN: u64 = 32;

/// Returns the descriptors that a server with these settings needs at most: one for each client,
/// some more for each lane, and one for each segment of memory.
pub fn descriptors_wanted(settings: &Settings) -> u64 {
    u64::from(settings.max_clients) + reserve(settings) + lane_descriptors(settings)
}

/// Returns how many clients fit into `descriptor_count` descriptors, at least one. Where there are
/// few, the reserve is a quarter of them: memory then grows as far as descriptors go.
pub fn clients_within(descriptor_count: u64, settings: &Settings) -> u32 {
    let most = (descriptor_count / 4).max(RESERVED_DESCRIPTORS_MIN);
    let count = descriptor_count.saturating_sub(reserve(settings).min(most)).max(1);
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn reserve(settings: &Settings) -> u64 {
    let memory = match settings.max_memory {
        0 => crate::info::system_memory_bytes(),
        bytes => bytes,
    };
    RESERVED_DESCRIPTORS + memory / settings.segment_bytes
}

/// What lanes take beside the one descriptor of each client. Where descriptors are few, none are
/// kept for lanes: making one is refused then.
fn lane_descriptors(settings: &Settings) -> u64 {
    let lanes = (settings.lanes_max as u64).min(settings.max_clients.into());
    lanes * (LANE_DESCRIPTORS as u64 - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn what_is_wanted_fits_and_few_descriptors_leave_some_clients() {
        let settings = Config::default().settings();
        let wanted = descriptors_wanted(&settings);
        assert!(clients_within(wanted, &settings) >= settings.max_clients);
        assert_eq!(clients_within(100, &settings), 68);
        assert_eq!(clients_within(20, &settings), 1);
    }
}
