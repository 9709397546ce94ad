//! Which thread uses which connection of a client.
//!
//! A client owns its connections; each thread remembers its own, and closes it when it ends. So a
//! connection is closed when its thread ends or when the client is dropped, whichever is first.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use crate::connection::Connection;
use crate::error::ClientError;

/// The connections of one client: as many as it has threads, if the server's `maxclients` lets it.
pub struct ThreadConnections {
    id: u64,
    connections: Mutex<Vec<Arc<Mutex<Connection>>>>,
}

thread_local! {
    /// The connections of this thread, one for each client that it has used.
    static OF_THREAD: RefCell<Vec<ThreadConnection>> = const { RefCell::new(Vec::new()) };
}

/// The connection that a thread has of one client.
struct ThreadConnection {
    client_id: u64,
    client_connections: Weak<ThreadConnections>,
    connection: Weak<Mutex<Connection>>,
}

impl ThreadConnections {
    /// Returns those of a new client: none.
    pub fn new() -> Arc<ThreadConnections> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Arc::new(ThreadConnections { id, connections: Mutex::new(Vec::new()) })
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
        let mut connection = connection.lock().expect("a call does not panic");
        run(&mut connection)
    }

    /// Runs `run` with this thread's connection, if it has one that works.
    pub fn with_own<T>(&self, run: impl FnOnce(&mut Connection) -> T) -> Option<T> {
        let connection = self.own()?;
        let mut connection = connection.lock().expect("a call does not panic");
        Some(run(&mut connection))
    }

    /// Returns this thread's connection, if it has one that works.
    fn own(&self) -> Option<Arc<Mutex<Connection>>> {
        let find = |kept: &mut Vec<ThreadConnection>| {
            let index = kept.iter().position(|it| it.client_id == self.id)?;
            let connection = kept[index].connection.upgrade()?;
            let is_over = connection.lock().expect("a call does not panic").is_over();
            if is_over {
                kept.swap_remove(index);
                return None;
            }
            Some(connection)
        };
        OF_THREAD.try_with(|kept| find(&mut kept.borrow_mut())).ok().flatten()
    }

    /// Makes `connection` this thread's.
    fn keep(self: &Arc<ThreadConnections>, connection: Connection) -> Arc<Mutex<Connection>> {
        let connection = Arc::new(Mutex::new(connection));
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

    fn connections(&self) -> MutexGuard<'_, Vec<Arc<Mutex<Connection>>>> {
        self.connections.lock().expect("no holder of the connections panics")
    }
}

impl Drop for ThreadConnection {
    fn drop(&mut self) {
        let Some(all) = self.client_connections.upgrade() else { return };
        let mut connections = all.connections();
        let own = connections.iter().position(|it| Arc::as_ptr(it) == self.connection.as_ptr());
        let connection = own.map(|index| connections.swap_remove(index));
        drop(connections);
        // Outside of the lock, as the end of a lane is a request.
        drop(connection);
    }
}
