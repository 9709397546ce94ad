//! Lanes: connections whose bytes pass through memory that the client maps too.
//!
//! A lane is made on a unix connection, its parent, and is a client of its own: it has a number, a
//! session, a worker. It is an offer until its client has mapped and sealed the memory and says so;
//! then a thread populates its pages, and a worker serves it. It ends with its parent, with the
//! parent's process, by SHM CLOSE, as any client does (QUIT, a limit), or when the client writes
//! what no client writes.
//!
//! *Not here*: the memory (`ring::lane`), when its pages are populated (`page_population.rs`), how
//! it is served (`transport/lane.rs`).

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use command::{LaneOffer, MemoryRefusal};
use ring::lane::{LaneEnd, LaneShape, SharedLane, Side};
use sys::descriptors::SharedDescriptor;
use sys::poll::Waker;
use sys::socket::Peer;

use crate::connection::CloseReason;
use crate::mailbox::Message;
use crate::page_population;
use crate::server_state::ServerState;
use crate::transport::Pending;
use crate::transport::lane::PendingLane;
use crate::user_quotas::{QuotaGrant, Resource};

/// Lanes of one session: further threads of its process have sockets.
const LANES_PER_SESSION_MAX: usize = 256;
/// The descriptors that a lane takes: its memory, what wakes the server, what wakes the client.
pub const LANE_DESCRIPTORS: usize = 3;
/// Those that count as kept for a lane: its memory, what wakes the server, and both ends of what
/// wakes the client, of which one leaves.
const KEPT_DESCRIPTORS: u64 = LANE_DESCRIPTORS as u64 + 1;

/// All lanes, served ones and offers.
#[derive(Default)]
pub struct Lanes {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By the numbers of their parents and their own.
    lanes: BTreeMap<(u64, u64), Lane>,
}

/// One lane.
struct Lane {
    /// Its memory in bytes. Until a worker serves it they are counted here, then as the client's.
    bytes: u64,
    state: LaneState,
    /// What its user has of the lanes, of their memory, and of the descriptors kept for them.
    _grants: [QuotaGrant; 3],
}

enum LaneState {
    /// The client has not mapped it yet.
    Offered(Box<PendingLane>),
    /// Its pages are being populated. One that ends meanwhile counts until that is done, which a
    /// client can delay for as long as it likes.
    Populating {
        /// It has been ended.
        is_over: bool,
    },
    /// The worker of this index serves it.
    Served(usize),
}

impl Lanes {
    /// Returns how many lanes there are, and how many bytes their memory has.
    pub fn usage(&self) -> (usize, u64) {
        let state = self.state();
        (state.lanes.len(), state.lanes.values().map(|lane| lane.bytes).sum())
    }

    /// Returns whether the connection `parent` has lanes: they end with it.
    pub fn has_any(&self, parent: u64) -> bool {
        self.state().ids_of(parent).next().is_some()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of the lanes panics")
    }
}

impl State {
    fn has_room(&self, parent: u64) -> bool {
        self.ids_of(parent).count() < LANES_PER_SESSION_MAX
    }

    /// Returns the numbers of the lanes of `parent`.
    fn ids_of(&self, parent: u64) -> impl Iterator<Item = u64> {
        self.lanes.range((parent, 0)..=(parent, u64::MAX)).map(|(&(_, id), _)| id)
    }
}

impl ServerState {
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
        if self.in_flight.has_any(parent) {
            return Err(MemoryRefusal::Unsent);
        }
        if !self.lanes.state().has_room(parent) {
            return Err(MemoryRefusal::TooManyLanes);
        }
        let (owner, bytes) = (self.quotas.owner(peer.user_id), shape.memory_bytes());
        let take = |resource, amount| self.quotas.take(resource, owner, amount);
        let _grants = [
            take(Resource::Lanes, 1).ok_or(MemoryRefusal::TooManyLanes)?,
            take(Resource::LaneBytes, bytes).ok_or(MemoryRefusal::TooManyLanes)?,
            take(Resource::Descriptors, KEPT_DESCRIPTORS).ok_or(MemoryRefusal::Descriptors)?,
        ];
        let grant = self.in_flight.admit(parent, owner, LANE_DESCRIPTORS)?;
        self.reserve_for_request(bytes)?;
        let address = self.clients.address(parent).unwrap_or_default();
        let id = self.clients.next_id();
        let maker = Maker { parent, peer, address };
        // Without the lock: the system may take its time to find so much memory.
        let (lane, descriptors) = new_lane(id, maker, shape)?;
        let mut state = self.lanes.state();
        if !self.clients.enter(self.settings().network.max_clients as usize) {
            return Err(MemoryRefusal::TooManyClients);
        }
        self.runtime.note_client_bytes(bytes as isize);
        let lane_state = LaneState::Offered(Box::new(lane));
        state.lanes.insert((parent, id), Lane { bytes, state: lane_state, _grants });
        drop(state);
        self.in_flight.send(parent, descriptors, grant);
        Ok(LaneOffer { lane: id, descriptor_count: LANE_DESCRIPTORS })
    }

    /// Has the pages of `id`, a lane of `parent`, brought, which its client has closed; then a
    /// worker serves it.
    pub(crate) fn serve_lane(&self, parent: u64, id: u64) -> Result<(), MemoryRefusal> {
        let mut state = self.lanes.state();
        let lane = state.lanes.get_mut(&(parent, id)).ok_or(MemoryRefusal::NoLane)?;
        let LaneState::Offered(offered) = &lane.state else { return Err(MemoryRefusal::Sealed) };
        offered.end.memory().check_closed().map_err(|_| MemoryRefusal::NotClosed)?;
        let lane_state =
            std::mem::replace(&mut lane.state, LaneState::Populating { is_over: false });
        let LaneState::Offered(mut lane) = lane_state else { unreachable!("it was one just now") };
        drop(state);
        let owner = self.quotas.owner(lane.peer.user_id);
        let maker = page_population::Maker { session: parent, owner };
        let mailbox = Arc::clone(&self.mailboxes[self.next_worker()]);
        let populate = move |is_wanted| {
            if is_wanted {
                lane.ready = lane.end.memory().populate_pages();
            }
            // Where it is not wanted, it is over, as the worker will find.
            mailbox.post(Message::Serve(Pending::Lane(lane)));
        };
        let begun = self.page_population.begin(maker, populate);
        Ok(begun.inspect_err(|_| self.give_up_lane(parent, id))?)
    }

    /// Notes that `worker` serves the lane that has been sealed, and that its bytes are counted as
    /// those of its connection from now on. Returns false where it has been ended meanwhile.
    pub(crate) fn begin_lane(&self, parent: u64, id: u64, worker: usize) -> bool {
        let mut state = self.lanes.state();
        let Some(lane) = state.lanes.get_mut(&(parent, id)) else { return false };
        if matches!(lane.state, LaneState::Populating { is_over: true }) {
            drop(state);
            self.give_up_lane(parent, id);
            return false;
        }
        lane.state = LaneState::Served(worker);
        self.runtime.note_client_bytes(-(lane.bytes as isize));
        true
    }

    /// Forgets a lane that no worker has served.
    pub(crate) fn give_up_lane(&self, parent: u64, id: u64) {
        let mut state = self.lanes.state();
        let Some(lane) = state.lanes.remove(&(parent, id)) else { return };
        drop(state);
        self.clients.leave();
        self.runtime.note_client_bytes(-(lane.bytes as isize));
    }

    /// Ends `id`, a lane of `parent`.
    pub(crate) fn end_lane(&self, parent: u64, id: u64) -> Result<(), MemoryRefusal> {
        let mut state = self.lanes.state();
        let lane = state.lanes.get_mut(&(parent, id)).ok_or(MemoryRefusal::NoLane)?;
        match &mut lane.state {
            LaneState::Offered(_) => {
                drop(state);
                self.give_up_lane(parent, id);
            }
            LaneState::Populating { is_over } => *is_over = true,
            LaneState::Served(worker) => {
                self.mailboxes[*worker].post(Message::Close(id, CloseReason::LaneEnded));
            }
        }
        Ok(())
    }

    /// Ends all lanes of the connection `parent`, which has ended.
    pub(crate) fn end_lanes_of(&self, parent: u64) {
        let ids: Vec<u64> = self.lanes.state().ids_of(parent).collect();
        for id in ids {
            // One that has ended by itself meanwhile is refused.
            let _ = self.end_lane(parent, id);
        }
    }

    /// Notes that the worker of lane `id` of `parent` serves it no more and has counted its client
    /// and its bytes out.
    pub(crate) fn forget_lane(&self, parent: u64, id: u64) {
        self.lanes.state().lanes.remove(&(parent, id));
    }
}

/// The connection that a lane is made on.
struct Maker {
    parent: u64,
    peer: Peer,
    address: String,
}

/// Returns both ends of a new lane: the server's, and what is sent to the client.
fn new_lane(
    id: u64,
    maker: Maker,
    shape: LaneShape,
) -> io::Result<(PendingLane, Vec<SharedDescriptor>)> {
    let memory = SharedLane::create(shape)?;
    let wakeup = Waker::new()?;
    let (client_wakeup, client_end) = sys::socket::pair()?;
    // Nothing is read from it: what the client sent would be closed with it, and by a worker.
    client_wakeup.refuse_all()?;
    let client_end = Arc::new(client_end.into_descriptor());
    let descriptors: [_; LANE_DESCRIPTORS] = [memory.descriptor(), wakeup.descriptor(), client_end];
    let end = LaneEnd::new(memory, Side::Server);
    let Maker { parent, peer, address } = maker;
    let ready = Ok(());
    let lane = PendingLane { id, parent, peer, address, end, wakeup, client_wakeup, ready };
    Ok((lane, descriptors.into()))
}
