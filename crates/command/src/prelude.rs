//! What every command file uses.

pub(crate) use resp::Reply;

pub(crate) use crate::handler::context::{
    ControlContext, Next, ReadContext, SessionContext, WriteContext,
};
pub(crate) use crate::handler::error::CommandError;
pub(crate) use crate::handler::outcome::{Need, Unfinished, Wait};
pub(crate) use crate::handler::request::Args;
pub(crate) use crate::table::argument::Arg;
pub(crate) use crate::table::arity::Arity;
pub(crate) use crate::table::categories::Categories;
pub(crate) use crate::table::flags::Flags;
pub(crate) use crate::table::key_spec::{KeyFlags, KeySpec};
pub(crate) use crate::table::row::{Command, Group, Handler};
