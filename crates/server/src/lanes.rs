//! Lanes: connections whose bytes pass through memory that the client maps too.
//!
//! A lane is made on a unix connection, its parent, and is a client of its own: it has a number, a
//! session, a worker. It is an offer until its client has mapped the memory and says so; then the
//! memory is sealed and a worker serves it. It ends with its parent, with the parent's process, by
//! SHM CLOSE, as any client does (QUIT, a limit), or when the client writes what no client writes.
//!
//! *Not here*: the memory (`ring::lane`), how it is served (`transport.rs`, `worker/lanes.rs`).

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, MutexGuard};

use command::{LaneOffer, MemoryRefusal};
use ring::lane::{LaneEnd, LaneShape, SharedLane, Side};
use sys::poll::Waker;
use sys::socket::{Peer, Stream};

use crate::connection::End;
use crate::mailbox::Message;
use crate::shared::Shared;

/// Lanes of one session: more threads than that share some.
const LANES_PER_SESSION_MAX: usize = 256;
/// The descriptors that a lane takes: its memory, the server's doorbell, the client's.
pub const LANE_DESCRIPTORS: usize = 3;

/// All lanes, served ones and offers.
#[derive(Default)]
pub struct Lanes {
    lanes: Mutex<BTreeMap<u64, Lane>>,
}

/// One lane.
struct Lane {
    /// The number of the connection that it was made on.
    parent: u64,
    /// Its memory in bytes, which the keyspace counts.
    bytes: u64,
    stage: Stage,
}

enum Stage {
    /// The client has not mapped it yet.
    Offered(Box<LaneSeat>),
    /// The worker of this index serves it.
    Served(usize),
}

/// What a worker needs to serve a lane.
pub struct LaneSeat {
    /// The number of its session.
    pub id: u64,
    /// The number of the connection that it was made on, its parent.
    pub parent: u64,
    /// The process of its parent.
    pub peer: Peer,
    /// The address that CLIENT LIST shows: that of its parent.
    pub address: String,
    /// The server's end of the rings.
    pub end: LaneEnd<SharedLane>,
    /// The client rings here. The server only waits for it: a read or a write could block, as the
    /// client shares the description and its flags.
    pub doorbell: Waker,
    /// The server rings here for clients that wait for a socket.
    pub bell: Stream,
}

impl Lanes {
    /// Returns how many lanes there are, and how many bytes their memory has.
    pub fn usage(&self) -> (usize, u64) {
        let lanes = self.lanes();
        (lanes.len(), lanes.values().map(|lane| lane.bytes).sum())
    }

    fn lanes(&self) -> MutexGuard<'_, BTreeMap<u64, Lane>> {
        self.lanes.lock().expect("no holder of the lanes panics")
    }
}

impl Shared {
    /// Makes a lane for the unix connection `parent`. Its descriptors leave with the parent's next
    /// byte.
    pub(crate) fn offer_lane(
        &self,
        parent: u64,
        request_bytes: u64,
        reply_bytes: u64,
    ) -> Result<LaneOffer, MemoryRefusal> {
        let peer = self.clients.peer(parent).ok_or(MemoryRefusal::NotUnix)?;
        let shape = LaneShape::new(request_bytes, reply_bytes).ok_or(MemoryRefusal::RingSize)?;
        if self.outbound.has_unsent(parent) {
            return Err(MemoryRefusal::Unsent);
        }
        let mut lanes = self.lanes.lanes();
        let own_count = lanes.values().filter(|lane| lane.parent == parent).count();
        let settings = self.settings();
        if own_count >= LANES_PER_SESSION_MAX || lanes.len() >= settings.lanes_max {
            return Err(MemoryRefusal::TooManyLanes);
        }
        let address = self.clients.address(parent).unwrap_or_default();
        let id = self.clients.next_id();
        let maker = Maker { parent, peer, address };
        let (seat, descriptors) = new_seat(id, maker, shape).map_err(system)?;
        if !self.clients.enter(settings.max_clients as usize) {
            return Err(MemoryRefusal::TooManyClients);
        }
        let bytes = shape.memory_bytes();
        self.note_client_bytes(bytes as isize);
        lanes.insert(id, Lane { parent, bytes, stage: Stage::Offered(Box::new(seat)) });
        self.outbound.send(parent, descriptors);
        Ok(LaneOffer { lane: id, descriptor_count: LANE_DESCRIPTORS })
    }

    /// Seals `id`, a lane of `parent`, and gives it to a worker.
    pub(crate) fn serve_lane(&self, parent: u64, id: u64) -> Result<(), MemoryRefusal> {
        let worker = self.next_worker();
        let mut lanes = self.lanes.lanes();
        let lane = lanes.get_mut(&id).filter(|lane| lane.parent == parent);
        let lane = lane.ok_or(MemoryRefusal::NoLane)?;
        let Stage::Offered(seat) = &lane.stage else { return Err(MemoryRefusal::Sealed) };
        seat.end.memory().seal().map_err(system)?;
        if let Stage::Offered(seat) = std::mem::replace(&mut lane.stage, Stage::Served(worker)) {
            // Under the lock: whoever ends the lane posts behind this.
            self.mailboxes[worker].post(Message::ServeLane(seat));
        }
        Ok(())
    }

    /// Ends `id`, a lane of `parent`.
    pub(crate) fn end_lane(&self, parent: u64, id: u64) -> Result<(), MemoryRefusal> {
        let mut lanes = self.lanes.lanes();
        let is_own = lanes.get(&id).is_some_and(|lane| lane.parent == parent);
        if !is_own {
            return Err(MemoryRefusal::NoLane);
        }
        self.end_locked(&mut lanes, id);
        Ok(())
    }

    /// Ends all lanes of the connection `parent`, which has ended.
    pub(crate) fn end_lanes_of(&self, parent: u64) {
        let mut lanes = self.lanes.lanes();
        let is_own = |(id, lane): (&u64, &Lane)| (lane.parent == parent).then_some(*id);
        let own: Vec<u64> = lanes.iter().filter_map(is_own).collect();
        for id in own {
            self.end_locked(&mut lanes, id);
        }
    }

    /// Notes that the worker of lane `id` serves it no more and has counted its client out. Of a
    /// connection that is no lane, nothing is noted.
    pub(crate) fn forget_lane(&self, id: u64) {
        if let Some(lane) = self.lanes.lanes().remove(&id) {
            self.note_client_bytes(-(lane.bytes as isize));
        }
    }

    /// An offer ends here; what a worker serves ends there.
    fn end_locked(&self, lanes: &mut BTreeMap<u64, Lane>, id: u64) {
        let Some(lane) = lanes.get(&id) else { return };
        if let Stage::Served(worker) = lane.stage {
            return self.mailboxes[worker].post(Message::End(id, End::LaneEnded));
        }
        self.clients.leave();
        self.note_client_bytes(-(lane.bytes as isize));
        lanes.remove(&id);
    }
}

/// The connection that a lane is made on.
struct Maker {
    parent: u64,
    peer: Peer,
    address: String,
}

/// Returns both ends of a new lane: the server's, and what is sent to the client.
fn new_seat(id: u64, maker: Maker, shape: LaneShape) -> std::io::Result<(LaneSeat, Vec<OwnedFd>)> {
    let memory = SharedLane::create(shape)?;
    let doorbell = Waker::new()?;
    let (bell, client_bell) = sys::socket::pair()?;
    let descriptors =
        [memory.as_fd(), doorbell.as_fd(), client_bell.as_fd()].map(|fd| fd.try_clone_to_owned());
    let descriptors = descriptors.into_iter().collect::<std::io::Result<Vec<OwnedFd>>>()?;
    assert_eq!(descriptors.len(), LANE_DESCRIPTORS, "as many as the reply says");
    let end = LaneEnd::new(memory, Side::Server);
    let Maker { parent, peer, address } = maker;
    Ok((LaneSeat { id, parent, peer, address, end, doorbell, bell }, descriptors))
}

fn system(error: std::io::Error) -> MemoryRefusal {
    MemoryRefusal::System(error.to_string())
}
