//! Queues of keys, of which a key is in one at most; shared by the policies that have queues.

use crate::simulation::Setup;

const NONE: u32 = u32::MAX;
const NOWHERE: u8 = u8::MAX;

#[derive(Clone, Copy, Debug)]
struct Node {
    newer: u32,
    older: u32,
    bytes: u32,
    queue: u8,
}

/// `N` queues of keys, each with its bytes.
#[derive(Debug)]
pub(crate) struct Lists<const N: usize> {
    nodes: Vec<Node>,
    newest: [u32; N],
    oldest: [u32; N],
    bytes: [u64; N],
}

impl<const N: usize> Lists<N> {
    pub fn new(setup: &Setup) -> Lists<N> {
        let node = Node { newer: NONE, older: NONE, bytes: 0, queue: NOWHERE };
        Lists {
            nodes: vec![node; setup.key_count as usize],
            newest: [NONE; N],
            oldest: [NONE; N],
            bytes: [0; N],
        }
    }

    /// Returns the queue that `key` is in.
    pub fn queue_of(&self, key: u32) -> Option<usize> {
        let queue = self.nodes[key as usize].queue;
        (queue != NOWHERE).then_some(usize::from(queue))
    }

    pub fn bytes(&self, queue: usize) -> u64 {
        self.bytes[queue]
    }

    pub fn oldest(&self, queue: usize) -> Option<u32> {
        Some(self.oldest[queue]).filter(|key| *key != NONE)
    }

    /// Returns the next newer key of the same queue.
    pub fn newer(&self, key: u32) -> Option<u32> {
        Some(self.nodes[key as usize].newer).filter(|key| *key != NONE)
    }

    /// Adds `key`, which is in no queue, as the newest.
    pub fn push(&mut self, queue: usize, key: u32, bytes: u32) {
        let older = self.newest[queue];
        self.nodes[key as usize] = Node { newer: NONE, older, bytes, queue: queue as u8 };
        match older {
            NONE => self.oldest[queue] = key,
            older => self.nodes[older as usize].newer = key,
        }
        self.newest[queue] = key;
        self.bytes[queue] += u64::from(bytes);
    }

    /// Takes `key` out of its queue.
    pub fn remove(&mut self, key: u32) {
        let Node { newer, older, bytes, queue } = self.nodes[key as usize];
        let queue = usize::from(queue);
        match newer {
            NONE => self.newest[queue] = older,
            newer => self.nodes[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest[queue] = newer,
            older => self.nodes[older as usize].newer = newer,
        }
        self.bytes[queue] -= u64::from(bytes);
        self.nodes[key as usize].queue = NOWHERE;
    }

    /// Makes `key` the newest of `queue`.
    pub fn shift(&mut self, key: u32, queue: usize) {
        let bytes = self.nodes[key as usize].bytes;
        self.remove(key);
        self.push(queue, key, bytes);
    }
}
