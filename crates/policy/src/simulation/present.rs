//! The keys that a cache has, in groups that random ones are drawn from; shared by the policies
//! that draw.

const ABSENT: u32 = u32::MAX;

/// Groups of keys, of which a key is in one at most.
#[derive(Debug)]
pub(crate) struct Present {
    groups: Vec<Vec<u32>>,
    /// Where each key is in its group; `ABSENT` if it is in none.
    positions: Vec<u32>,
}

impl Present {
    pub fn new(group_count: usize, key_count: u32) -> Present {
        Present {
            groups: vec![Vec::new(); group_count],
            positions: vec![ABSENT; key_count as usize],
        }
    }

    pub fn has(&self, key: u32) -> bool {
        self.positions[key as usize] != ABSENT
    }

    /// Returns the keys of each group, in no order.
    pub fn groups(&self) -> &[Vec<u32>] {
        &self.groups
    }

    /// Adds `key`, which is in no group, to `group`.
    pub fn add(&mut self, group: usize, key: u32) {
        let keys = &mut self.groups[group];
        self.positions[key as usize] = keys.len() as u32;
        keys.push(key);
    }

    /// Takes `key` out of `group`, which it is in.
    pub fn remove(&mut self, group: usize, key: u32) {
        let position = std::mem::replace(&mut self.positions[key as usize], ABSENT);
        let keys = &mut self.groups[group];
        keys.swap_remove(position as usize);
        if let Some(moved) = keys.get(position as usize) {
            self.positions[*moved as usize] = position;
        }
    }

    pub fn clear(&mut self) {
        self.groups.iter_mut().for_each(Vec::clear);
        self.positions.fill(ABSENT);
    }
}
