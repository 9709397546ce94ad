//! The commands of the session.

mod auth;
mod client;
mod echo;
mod hello;
mod ping;
mod quit;
mod reset;
mod select;

use crate::table::row::Command;

pub(crate) static CONNECTION: &[&Command] = &[
    &auth::AUTH,
    &client::CLIENT,
    &echo::ECHO,
    &hello::HELLO,
    &ping::PING,
    &quit::QUIT,
    &reset::RESET,
    &select::SELECT,
];
