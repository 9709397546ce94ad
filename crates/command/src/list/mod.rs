//! The commands of lists.

mod blpop;
mod lindex;
mod linsert;
mod llen;
mod lmove;
mod lmpop;
mod lpop;
mod lpos;
mod lpush;
mod lrange;
mod lrem;
mod lset;
mod ltrim;

use collections::End;

use crate::handler::error::CommandError;
use crate::handler::request::Args;
use crate::table::row::Command;

pub(crate) static LIST: &[&Command] = &[
    &lmove::BLMOVE,
    &lmpop::BLMPOP,
    &blpop::BLPOP,
    &blpop::BRPOP,
    &lmove::BRPOPLPUSH,
    &lindex::LINDEX,
    &linsert::LINSERT,
    &llen::LLEN,
    &lmove::LMOVE,
    &lmpop::LMPOP,
    &lpop::LPOP,
    &lpos::LPOS,
    &lpush::LPUSH,
    &lpush::LPUSHX,
    &lrange::LRANGE,
    &lrem::LREM,
    &lset::LSET,
    &ltrim::LTRIM,
    &lpop::RPOP,
    &lmove::RPOPLPUSH,
    &lpush::RPUSH,
    &lpush::RPUSHX,
];

/// Returns the end that argument `index` names: LEFT or RIGHT.
fn end_at(args: Args<'_>, index: usize) -> Result<End, CommandError> {
    match () {
        () if args.is(index, "LEFT") => Ok(End::Head),
        () if args.is(index, "RIGHT") => Ok(End::Tail),
        () => Err(CommandError::Syntax),
    }
}
