//! Which thread uses which connection of a client.
//!
//! A client owns its connections; each thread remembers its own, and closes it when it ends. So a
//! connection is closed when its thread ends or when the client is dropped, whichever is first.
//!
//! The thread of the session uses it, too, for what is held back (`held_posts.rs`).

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError, Weak};

use sys::fork::Generation;

use crate::connection::Connection;
use crate::error::ClientError;
use crate::late_tasks::LateTask;

/// The connections of one client: as many as it has threads, if the server's `maxclients` lets it.
pub struct ThreadConnections {
    id: u64,
    connections: Mutex<Vec<Arc<SharedConnection>>>,
    generation: Generation,
}

thread_local! {
    /// The connections of this thread, one for each client that it has used.
    static OF_THREAD: RefCell<Vec<ThreadConnection>> = const { RefCell::new(Vec::new()) };
}

/// The connection that a thread has of one client.
struct ThreadConnection {
    client_id: u64,
    client_connections: Weak<ThreadConnections>,
    connection: Weak<SharedConnection>,
}

/// A connection that its thread uses, and the thread of its session.
struct SharedConnection {
    connection: Mutex<Connection>,
    /// Whether it holds posts back.
    holds: Arc<AtomicBool>,
}

impl ThreadConnections {
    /// Returns those of a new client: none.
    pub fn new() -> Arc<ThreadConnections> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let generation = Generation::current();
        Arc::new(ThreadConnections { id, connections: Mutex::new(Vec::new()), generation })
    }

    /// Runs `run` with this thread's connection, which is opened by `open` where it has none.
    ///
    /// # Errors
    /// Those of `open` and `run`.
    pub fn with<T>(
        self: &Arc<ThreadConnections>,
        open: impl FnOnce() -> Result<Connection, ClientError>,
        run: impl FnOnce(&mut Connection) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let connection = match self.own() {
            Some(connection) => connection,
            None => self.keep(open()?),
        };
        run(&mut connection.lock())
    }

    /// Runs `run` with this thread's connection, if it has one that works.
    pub fn with_own<T>(&self, run: impl FnOnce(&mut Connection) -> T) -> Option<T> {
        let connection = self.own()?;
        Some(run(&mut connection.lock()))
    }

    /// Returns this thread's connection, if it has one that works.
    fn own(&self) -> Option<Arc<SharedConnection>> {
        let find = |kept: &mut Vec<ThreadConnection>| {
            let index = kept.iter().position(|it| it.client_id == self.id)?;
            let connection = kept[index].connection.upgrade()?;
            let is_over = connection.lock().is_over();
            if is_over {
                kept.swap_remove(index);
                return None;
            }
            Some(connection)
        };
        OF_THREAD.try_with(|kept| find(&mut kept.borrow_mut())).ok().flatten()
    }

    /// Makes `connection` this thread's.
    fn keep(self: &Arc<ThreadConnections>, connection: Connection) -> Arc<SharedConnection> {
        let connection = SharedConnection::new(connection);
        let own = ThreadConnection {
            client_id: self.id,
            client_connections: Arc::downgrade(self),
            connection: Arc::downgrade(&connection),
        };
        self.connections().push(Arc::clone(&connection));
        // A thread that is ending remembers nothing, and drops its entry here.
        let _ = OF_THREAD.try_with(|kept| {
            let mut kept = kept.borrow_mut();
            kept.retain(|it| it.client_connections.strong_count() > 0);
            kept.push(own);
        });
        connection
    }

    fn connections(&self) -> MutexGuard<'_, Vec<Arc<SharedConnection>>> {
        self.connections.lock().expect("no holder of the connections panics")
    }
}

impl Drop for ThreadConnections {
    fn drop(&mut self) {
        // In a forked child they are the parent's, whose threads may have held them.
        if self.generation.is_current() {
            self.connections().iter().for_each(|connection| connection.end());
        }
    }
}

impl SharedConnection {
    fn new(connection: Connection) -> Arc<SharedConnection> {
        let holds = Arc::clone(connection.holds());
        let shared = Arc::new(SharedConnection { connection: Mutex::new(connection), holds });
        let task: Weak<SharedConnection> = Arc::downgrade(&shared);
        if let Some(tasks) = shared.lock().late_tasks() {
            tasks.add(task);
        }
        shared
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().expect("a call does not panic")
    }

    /// Waits until the server has executed what was posted. Whoever drops the connection would wait
    /// for it, too, but that may be the thread of the session, which ends with the process.
    fn end(&self) {
        if let Ok(mut connection) = self.connection.lock() {
            connection.end();
        }
    }
}

impl LateTask for SharedConnection {
    fn look(&self) -> bool {
        // A call that waits for long is not looked at: it has sent what was held back.
        // SYNC POINT: watched or seen what is there. Pairs with the store by the connection.
        if !self.holds.load(Ordering::SeqCst) {
            return false;
        }
        match self.connection.try_lock() {
            Ok(mut connection) => connection.send_due(),
            Err(TryLockError::WouldBlock) => true,
            Err(TryLockError::Poisoned(_)) => false,
        }
    }
}

impl Drop for ThreadConnection {
    fn drop(&mut self) {
        let all = self.client_connections.upgrade();
        // In a forked child it is the parent's, whose threads may have held what is locked here.
        let Some(all) = all.filter(|all| all.generation.is_current()) else { return };
        let mut connections = all.connections();
        let own = connections.iter().position(|it| Arc::as_ptr(it) == self.connection.as_ptr());
        let connection = own.map(|index| connections.swap_remove(index));
        drop(connections);
        // Outside of the lock, as the end of a lane is a request.
        connection.into_iter().for_each(|connection| connection.end());
    }
}
