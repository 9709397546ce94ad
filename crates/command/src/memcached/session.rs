//! What concerns the session or the server: flush_all, stats, version, quit, authentication, and
//! the refusals.

use std::collections::BTreeMap;

use memcached::Fault;

use super::ROW;
use super::item::reply_fault;
use crate::host::info_sections::InfoSections;
use crate::prelude::*;

/// The version of memcached whose protocol this is.
const VERSION_LINE: &[u8] = b"VERSION 1.6.18\r\n";

type OfSession = fn(&mut SessionContext<'_>, Args<'_>, &mut Reply<'_>) -> Result<Next, Unfinished>;

const fn row(name: &'static str, handler: OfSession) -> Command {
    Command { name, group: Group::Connection, handler: Handler::Session(handler), ..ROW }
}

pub(super) static END: Command = row("memcached|get", |_, _, reply| {
    reply.raw(b"END\r\n");
    Ok(Next::Done)
});
pub(super) static VERBOSITY: Command = row("memcached|verbosity", |_, _, reply| {
    reply.raw(b"OK\r\n");
    Ok(Next::Done)
});
pub(super) static VERSION: Command = row("memcached|version", |_, _, reply| {
    reply.raw(VERSION_LINE);
    Ok(Next::Done)
});
pub(super) static QUIT: Command = row("memcached|quit", |_, _, _| Ok(Next::Close));
pub(super) static FLUSH_ALL: Command = Command {
    name: "memcached|flush_all",
    group: Group::Server,
    flags: Flags::WRITE.with(Flags::KEYLESS),
    handler: Handler::Control(|cx, _, reply| {
        cx.access.flush_database(cx.session.database, cx.now);
        reply.raw(b"OK\r\n");
        Ok(())
    }),
    ..ROW
};
pub(super) static AUTH: Command = Command {
    flags: Flags::NO_AUTH.with(Flags::UNGUARDED),
    secrets: Some(|_, index| index > 0),
    ..row("memcached|auth", |cx, args, reply| {
        if !cx.host.authenticate_memcached(args.at(1)) {
            reply.raw(b"CLIENT_ERROR authentication failure\r\n");
            return Ok(Next::Done);
        }
        cx.session.authenticated = true;
        reply.raw(b"STORED\r\n");
        Ok(Next::Done)
    })
};
pub(super) static STATS: Command = row("memcached|stats", stats);

macro_rules! refusals {
    ($($fault:ident)*) => {
        /// Returns the row that refuses with `fault`.
        pub(super) fn refusal(fault: Fault) -> &'static Command {
            match fault {
                $(Fault::$fault => {
                    static ROW: Command = Command {
                        flags: Flags::NO_AUTH,
                        ..row("memcached|refused", |_, _, reply| {
                            Ok(refuse(Fault::$fault, reply))
                        })
                    };
                    &ROW
                })*
            }
        }
    };
}

refusals! {
    Unknown Format DeleteFormat Exptime Delta DataChunk TooLarge DuplicateFlag InvalidFlag
    TooManyFlags TooManySetFlags FlagToken Flags Base64 Opaque Initial ModeLength SetMode
    ArithmeticMode Unauthenticated AuthTermination Shutdown Unsupported DelayedFlush Binary Attack
}

fn refuse(fault: Fault, reply: &mut Reply<'_>) -> Next {
    if !fault.text().is_empty() {
        reply_fault(fault, reply);
    }
    if fault.ends_session() { Next::Close } else { Next::Done }
}

/// The figures of `stats`: their names there and in INFO.
const FIGURES: &[(&str, &str)] = &[
    ("pid", "process_id"),
    ("uptime", "uptime_in_seconds"),
    ("curr_connections", "connected_clients"),
    ("total_connections", "total_connections_received"),
    ("rejected_connections", "rejected_connections"),
    ("get_hits", "keyspace_hits"),
    ("get_misses", "keyspace_misses"),
    ("bytes_read", "total_net_input_bytes"),
    ("bytes_written", "total_net_output_bytes"),
    ("limit_maxbytes", "maxmemory"),
    ("bytes", "used_memory"),
    ("evictions", "evicted_keys"),
    ("reclaimed", "expired_keys"),
];

/// The commands whose calls are counted, and how `stats` calls the count. Lookups are not among
/// them: they are counted by key.
const CALLS: &[(&str, &[&str])] = &[
    ("cmd_set", &["set", "add", "replace", "append", "prepend", "cas", "ms"]),
    ("cmd_flush", &["flush_all"]),
    ("cmd_touch", &["touch", "gat", "gats"]),
    ("cmd_meta", &["mg", "ms", "md", "ma", "me", "mn"]),
];

fn stats(
    cx: &mut SessionContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Unfinished> {
    match args.len() {
        1 => general(cx, reply),
        _ if args.at(1) == b"reset" => {
            cx.host.reset_statistics();
            reply.raw(b"RESET\r\n");
            return Ok(Next::Done);
        }
        _ if args.at(1) == b"settings" => settings(cx, reply),
        // What memcached is made of is not here.
        _ if [b"items".as_slice(), b"slabs", b"sizes", b"conns"].contains(&args.at(1)) => {}
        _ => {
            reply.raw(b"ERROR\r\n");
            return Ok(Next::Done);
        }
    }
    reply.raw(b"END\r\n");
    Ok(Next::Done)
}

fn general(cx: &SessionContext<'_>, reply: &mut Reply<'_>) {
    let text = cx.host.info(&InfoSections::new([b"everything".as_slice()].into_iter()));
    let fields: BTreeMap<&str, &str> =
        text.lines().filter_map(|line| line.split_once(':')).collect();
    let mut stat = |name: &str, value: &str| {
        reply.raw(format!("STAT {name} {value}\r\n").as_bytes());
    };
    for (name, field) in FIGURES {
        stat(name, fields.get(field).copied().unwrap_or("0"));
    }
    let count = |field: &str| fields.get(field).and_then(|count| count.parse().ok()).unwrap_or(0);
    let lookups: u64 = count("keyspace_hits") + count("keyspace_misses");
    stat("cmd_get", &lookups.to_string());
    for (name, commands) in CALLS {
        let calls = |command: &&str| -> Option<u64> {
            let line = fields.get(&*format!("cmdstat_memcached|{command}"))?;
            line.strip_prefix("calls=")?.split(',').next()?.parse().ok()
        };
        stat(name, &commands.iter().filter_map(calls).sum::<u64>().to_string());
    }
    let database = format!("db{}", cx.session.database.0);
    let keys = fields.get(&*database).and_then(|line| line.strip_prefix("keys="));
    stat("curr_items", keys.and_then(|keys| keys.split(',').next()).unwrap_or("0"));
    stat("time", &(cx.now.0 / 1000).to_string());
    stat("version", "1.6.18");
    stat("pointer_size", "64");
    stat("threads", fields.get("workers").copied().unwrap_or("1"));
    stat("accepting_conns", "1");
}

/// Returns how many threads serve clients.
fn thread_count(cx: &SessionContext<'_>) -> Option<String> {
    let text = cx.host.info(&InfoSections::new([b"server".as_slice()].into_iter()));
    text.lines().find_map(|line| Some(line.strip_prefix("workers:")?.to_owned()))
}

fn settings(cx: &SessionContext<'_>, reply: &mut Reply<'_>) {
    for (name, option) in [
        ("maxbytes", "maxmemory"),
        ("maxconns", "maxclients"),
        ("tcpport", "memcached-port"),
        ("domain_socket", "memcached-socket"),
        ("item_size_max", "memcached-item-size-max"),
        ("num_threads", "workers"),
        ("tcp_backlog", "tcp-backlog"),
    ] {
        // The option may leave the number to the server.
        let value = match option {
            "workers" => thread_count(cx),
            _ => cx.host.config_value(option),
        };
        if let Some(value) = value {
            let value = if value.is_empty() { "NULL" } else { &value };
            reply.raw(format!("STAT {name} {value}\r\n").as_bytes());
        }
    }
    reply.raw(b"STAT udpport 0\r\nSTAT cas_enabled yes\r\nSTAT binding_protocol ascii\r\n");
}
