//! Requests whose long value is received in place: the block is reserved while the value is still
//! to come.

use command::Command;
use keyspace::{ReservedBlock, SweepContext};
use resp::{Awaited, RequestView};

use crate::engine::Engine;
use crate::execution_context::ExecutionContext;
use crate::session::Session;

impl Engine {
    /// Returns whether the argument that a request waits for becomes a value as it is, so that
    /// [`Engine::reserve_for`] may find a block for it. What the request is refused for is no
    /// matter here, as it is checked when it runs; but memory is not set aside in vain.
    pub fn may_reserve_for(
        &self,
        session: &Session,
        awaited: &Awaited<'_>,
        execution: &ExecutionContext<'_>,
    ) -> bool {
        let state = &session.state;
        let stores = |command: &Command| {
            command.value_at == Some(awaited.before.len())
                && command.arity.accepts(awaited.count)
                && command.only_key().is_some()
        };
        state.authenticated
            && !state.is_queueing()
            && !state.is_monitor
            && execution.pause.get().is_none()
            && command::lookup(awaited.before.at(0)).is_some_and(stores)
    }

    /// Returns a block for the argument that a request waits for, which may become a value. Evicts
    /// for it as the request would. The caller holds no guard, and offers the block to the session
    /// with the request: [`Session::offer`].
    pub fn reserve_for(
        &self,
        before: RequestView<'_>,
        bytes: usize,
        execution: &mut ExecutionContext<'_>,
    ) -> Option<Box<ReservedBlock>> {
        let position = command::lookup(before.at(0))?.only_key()?;
        let key = self.keyspace().hasher().key(before.at(position));
        let mut context = SweepContext::new(execution.now, &mut execution.random);
        self.keyspace().reserve_block(key.shard, key.bytes.len(), bytes, &mut context)
    }
}
