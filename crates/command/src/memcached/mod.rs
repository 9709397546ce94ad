//! The commands of memcached: what its text protocol asks for, as rows like any other.
//!
//! No request of RESP reaches them: a session by a listener of memcached does, by the number of a
//! verb (`memcached::Verb`). Their replies are memcached's, byte for byte (1.6.18, `proto_text.c`).

mod item;
mod meta;
mod retrieval;
mod session;
mod storage;

use std::sync::OnceLock;

use memcached::{Fault, Verb};

use crate::prelude::*;

/// What all rows have in common.
pub(crate) const ROW: Command = Command {
    summary: "A command of memcached's text protocol.",
    group: Group::String,
    arity: Arity::at_least(1),
    flags: Flags::FAST,
    ..Command::DEFAULT
};

/// Keys that are read.
pub(crate) const READ_KEY: &[KeySpec] = &[KeySpec::at(1, KeyFlags::RO.with(KeyFlags::ACCESS))];
/// All arguments are keys that are read.
pub(crate) const READ_KEYS: &[KeySpec] =
    &[KeySpec::all_from(1, KeyFlags::RO.with(KeyFlags::ACCESS))];
/// Keys that are read and written.
pub(crate) const CHANGED_KEY: &[KeySpec] =
    &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::UPDATE))];
/// Keys whose value is replaced.
pub(crate) const SET_KEY: &[KeySpec] = &[KeySpec::at(1, KeyFlags::OW.with(KeyFlags::UPDATE))];

/// Returns the row of the request with this number, which a decoder of memcached has made.
///
/// # Panics
/// When there is no such number.
#[inline]
pub fn memcached_row(number: u8) -> &'static Command {
    memcached_rows()[usize::from(number)]
}

/// Returns the rows of the commands of memcached, by the numbers of their requests.
#[inline]
pub fn memcached_rows() -> &'static [&'static Command] {
    static ROWS: OnceLock<Vec<&'static Command>> = OnceLock::new();
    ROWS.get_or_init(|| {
        let verbs = Verb::ALL.iter().filter(|verb| **verb != Verb::Refused);
        verbs.map(|verb| row_of(*verb)).chain(Fault::ALL.map(session::refusal)).collect()
    })
}

fn row_of(verb: Verb) -> &'static Command {
    match verb {
        Verb::Get => &retrieval::GET,
        Verb::GetSome => &retrieval::GET_SOME,
        Verb::GetLast => &retrieval::GET_LAST,
        Verb::Gets => &retrieval::GETS,
        Verb::GetsSome => &retrieval::GETS_SOME,
        Verb::GetsLast => &retrieval::GETS_LAST,
        Verb::Gat => &retrieval::GAT,
        Verb::GatLast => &retrieval::GAT_LAST,
        Verb::Gats => &retrieval::GATS,
        Verb::GatsLast => &retrieval::GATS_LAST,
        Verb::End => &session::END,
        Verb::Set => &storage::SET,
        Verb::Add => &storage::ADD,
        Verb::Replace => &storage::REPLACE,
        Verb::Append => &storage::APPEND,
        Verb::Prepend => &storage::PREPEND,
        Verb::Cas => &storage::CAS,
        Verb::TooLarge => &storage::TOO_LARGE,
        Verb::Incr => &storage::INCR,
        Verb::Decr => &storage::DECR,
        Verb::Touch => &storage::TOUCH,
        Verb::Delete => &storage::DELETE,
        Verb::FlushAll => &session::FLUSH_ALL,
        Verb::Verbosity => &session::VERBOSITY,
        Verb::Stats => &session::STATS,
        Verb::Version => &session::VERSION,
        Verb::Quit => &session::QUIT,
        Verb::Auth => &session::AUTH,
        Verb::MetaGet => &meta::GET,
        Verb::MetaGetChanging => &meta::GET_CHANGING,
        Verb::MetaGetVivifying => &meta::GET_VIVIFYING,
        Verb::MetaSet => &meta::SET,
        Verb::MetaDelete => &meta::DELETE,
        Verb::MetaArithmetic => &meta::ARITHMETIC,
        Verb::MetaNoop => &meta::NOOP,
        Verb::MetaDebug => &meta::DEBUG,
        Verb::Refused => unreachable!("each fault has its row"),
    }
}
