//! DEBUG CLIENT-EVICTION: the clients by the memory that they take.

use std::fmt::Write;

use crate::host::client_info::ClientInfo;
use crate::prelude::*;

const DISABLED: CommandError = CommandError::Fixed("ERR maxmemory-clients is disabled.");
/// The smallest and the largest size that have a class of their own, in powers of two.
const SMALLEST_POWER: u32 = 15;
const LARGEST_POWER: u32 = 33;

pub(super) static CLIENT_EVICTION: Command = Command {
    name: "debug|client-eviction",
    summary: "Tells how many clients take how much memory, of those that may be evicted.",
    since: "7.0.0",
    group: Group::Server,
    arity: Arity::exactly(2),
    example: "> DEBUG CLIENT-EVICTION\n(error) ERR maxmemory-clients is disabled.",
    handler: Handler::Control(run),
    ..Command::DEFAULT
};

fn run(cx: &mut ControlContext<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let limit = cx.host.config_value("maxmemory-clients").unwrap_or_default();
    if limit.is_empty() || limit == "0" || limit == "0%" {
        return Err(DISABLED.into());
    }
    reply.verbatim(*b"txt", describe(&cx.host.clients()?.all()));
    Ok(())
}

fn describe(clients: &[ClientInfo]) -> String {
    let mut text = String::new();
    for power in SMALLEST_POWER..=LARGEST_POWER {
        let start = if power == SMALLEST_POWER { 0 } else { 1_usize << (power - 1) };
        let end = if power == LARGEST_POWER { usize::MAX } else { 1 << power };
        let members = clients.iter().filter(|client| !client.no_evict);
        let sizes = members.map(|client| client.total_bytes);
        let sizes: Vec<usize> = sizes.filter(|bytes| (start..end).contains(bytes)).collect();
        let last = match end {
            usize::MAX => "+            ".to_owned(),
            _ => format!(" - {:>10}", end - 1),
        };
        let (bytes, count) = (sizes.iter().sum::<usize>(), sizes.len());
        writeln!(text, "bucket {start:>10}{last}: tot-mem: {bytes:>10}, clients: {count}")
            .expect("a String takes any text");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_counted_by_the_power_of_two_below_their_size() {
        let sizes = [100, 32_767, 32_768, 5 << 30, 40_000];
        let clients = sizes.map(|total_bytes| ClientInfo { total_bytes, ..ClientInfo::default() });
        let kept = ClientInfo { no_evict: true, total_bytes: 1, ..ClientInfo::default() };
        let text = describe(&[&clients[..], &[kept]].concat());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 19);
        for (index, expected) in [
            (0, "bucket          0 -      32767: tot-mem:      32867, clients: 2"),
            (1, "bucket      32768 -      65535: tot-mem:      72768, clients: 2"),
            (18, "bucket 4294967296+            : tot-mem: 5368709120, clients: 1"),
        ] {
            assert_eq!(lines[index], expected);
        }
    }
}
