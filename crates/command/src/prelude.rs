//! What every command file uses.

pub(crate) use resp::Reply;

pub(crate) use crate::argument::Arg;
pub(crate) use crate::arity::Arity;
pub(crate) use crate::categories::Categories;
pub(crate) use crate::context::{ControlContext, Next, ReadContext, SessionContext, WriteContext};
pub(crate) use crate::error::CommandError;
pub(crate) use crate::flags::Flags;
pub(crate) use crate::keys::{KeyFlags, KeySpec};
pub(crate) use crate::outcome::{Need, Unfinished, Wait};
pub(crate) use crate::request::Args;
pub(crate) use crate::row::{Command, Group, Handler};
