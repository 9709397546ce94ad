//! Which connection of a client is which thread's.
//!
//! A client owns its connections; each thread remembers its own, and closes it when it ends. So the
//! thread that is first gone, or the client, takes the connection with it.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use crate::connection::Connection;
use crate::error::ClientError;

/// The connections of one client: as many as it has threads, if the server's `maxclients` lets it.
pub struct Seats {
    id: u64,
    taken: Mutex<Vec<Arc<Mutex<Connection>>>>,
}

thread_local! {
    /// Where this thread sits, one for each client that it has used.
    static OWN: RefCell<Vec<Seat>> = const { RefCell::new(Vec::new()) };
}

/// A thread's place at one client.
struct Seat {
    id: u64,
    seats: Weak<Seats>,
    connection: Weak<Mutex<Connection>>,
}

impl Seats {
    /// Returns the seats of a new client.
    pub fn new() -> Arc<Seats> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Arc::new(Seats { id, taken: Mutex::new(Vec::new()) })
    }

    /// Runs `run` with this thread's connection, which is opened by `open` where it has none.
    ///
    /// # Errors
    /// Those of `open` and `run`.
    pub fn with<T>(
        self: &Arc<Seats>,
        open: impl FnOnce() -> Result<Connection, ClientError>,
        run: impl FnOnce(&mut Connection) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let connection = match self.own() {
            Some(connection) => connection,
            None => self.sit(open()?),
        };
        let mut connection = connection.lock().expect("a call does not panic");
        run(&mut connection)
    }

    /// Returns this thread's connection, if it has one that works.
    fn own(&self) -> Option<Arc<Mutex<Connection>>> {
        let find = |seats: &mut Vec<Seat>| {
            let index = seats.iter().position(|seat| seat.id == self.id)?;
            let connection = seats[index].connection.upgrade()?;
            let is_over = connection.lock().expect("a call does not panic").is_over();
            if is_over {
                seats.swap_remove(index);
                return None;
            }
            Some(connection)
        };
        OWN.try_with(|seats| find(&mut seats.borrow_mut())).ok().flatten()
    }

    /// Makes `connection` this thread's.
    fn sit(self: &Arc<Seats>, connection: Connection) -> Arc<Mutex<Connection>> {
        let connection = Arc::new(Mutex::new(connection));
        let seat = Seat {
            id: self.id,
            seats: Arc::downgrade(self),
            connection: Arc::downgrade(&connection),
        };
        self.taken().push(Arc::clone(&connection));
        // A thread that is ending remembers nothing, and drops its seat here.
        let _ = OWN.try_with(|seats| {
            let mut seats = seats.borrow_mut();
            seats.retain(|seat| seat.seats.strong_count() > 0);
            seats.push(seat);
        });
        connection
    }

    fn taken(&self) -> MutexGuard<'_, Vec<Arc<Mutex<Connection>>>> {
        self.taken.lock().expect("no holder of the connections panics")
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let Some(seats) = self.seats.upgrade() else { return };
        let mut taken = seats.taken();
        let own = taken.iter().position(|it| Arc::as_ptr(it) == self.connection.as_ptr());
        let connection = own.map(|index| taken.swap_remove(index));
        drop(taken);
        // Outside of the lock, as the end of a lane is a request.
        drop(connection);
    }
}
