//! What the users of shared memory may take of what there is for all of them together.
//!
//! One user gets no more of a thing than would still be left of it: the first half at most, the
//! next a quarter, and so on, so that whoever comes has something left
//! (`docs/decisions/0010-descriptor-shares.md`). A user is a user id; the subordinate ids that
//! /etc/subuid gives to one name count as one.
//!
//! *Not here*: how much there is (`descriptor_limits.rs`, the options).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// What is shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    /// Sessions that have attached.
    Sessions,
    /// Lanes, offered ones included.
    Lanes,
    /// The memory of lanes in bytes.
    LaneBytes,
    /// Descriptors that the server keeps open for sessions and lanes, beside their connections'.
    Descriptors,
    /// Descriptors that have been sent and not received.
    InFlight,
}

/// Whose share something counts towards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum QuotaOwner {
    /// A user of this id.
    User(u32),
    /// All users whose ids are of the range that begins here.
    Range(u32),
}

/// What is taken, by whom, and how much there is.
#[derive(Debug, Default)]
pub struct UserQuotas {
    pools: Mutex<BTreeMap<Resource, Pool>>,
    subordinates: SubordinateIds,
}

/// How much there is of a resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    /// For all together.
    pub total: u64,
    /// For one owner, whatever is left.
    pub of_owner: u64,
}

impl Limit {
    /// Returns the limit of which one owner may have all that his share allows.
    pub fn total(total: u64) -> Limit {
        Limit { total, of_owner: total }
    }
}

/// One resource. Each owner has an entry while he has some.
#[derive(Debug, Default)]
struct Pool {
    limit: Limit,
    taken: u64,
    owners: BTreeMap<QuotaOwner, u64>,
}

/// A part of a resource, given back when dropped.
#[derive(Debug)]
pub struct QuotaGrant {
    quotas: Arc<UserQuotas>,
    resource: Resource,
    owner: QuotaOwner,
    amount: u64,
}

impl UserQuotas {
    /// Returns shares of nothing, for users whose ids are as this system says.
    pub fn of_system() -> UserQuotas {
        UserQuotas { pools: Mutex::default(), subordinates: SubordinateIds::of_system() }
    }

    /// Returns whose share what `user` takes counts towards.
    pub fn owner(&self, user: u32) -> QuotaOwner {
        self.subordinates.owner(user)
    }

    /// Sets how much there is of `resource`. What is taken stays so.
    pub fn limit(&self, resource: Resource, limit: Limit) {
        self.pools().entry(resource).or_default().limit = limit;
    }

    /// Takes `amount` of `resource` for `owner`; none where he would have more of it than would be
    /// left, or than one owner may.
    pub fn take(
        self: &Arc<UserQuotas>,
        resource: Resource,
        owner: QuotaOwner,
        amount: u64,
    ) -> Option<QuotaGrant> {
        let mut pools = self.pools();
        let pool = pools.entry(resource).or_default();
        let own = pool.owners.get(&owner).copied().unwrap_or(0).saturating_add(amount);
        let left = pool.limit.total.checked_sub(pool.taken.saturating_add(amount))?;
        // Of an odd number the first may have the larger half, so that the last one is had.
        if own > left.saturating_add(1).min(pool.limit.of_owner) {
            return None;
        }
        pool.taken += amount;
        if own > 0 {
            pool.owners.insert(owner, own);
        }
        Some(QuotaGrant { quotas: Arc::clone(self), resource, owner, amount })
    }

    fn pools(&self) -> MutexGuard<'_, BTreeMap<Resource, Pool>> {
        self.pools.lock().expect("no holder of the quotas panics")
    }
}

impl Drop for QuotaGrant {
    fn drop(&mut self) {
        if self.amount == 0 {
            return;
        }
        let mut pools = self.quotas.pools();
        let pool = pools.get_mut(&self.resource).expect("some of it is taken");
        pool.taken -= self.amount;
        let own = pool.owners.get_mut(&self.owner).expect("its owner has some");
        *own -= self.amount;
        if *own == 0 {
            pool.owners.remove(&self.owner);
        }
    }
}

/// The ranges of subordinate user ids: first id and count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubordinateIds(Vec<(u32, u32)>);

impl SubordinateIds {
    /// Reads /etc/subuid (subuid(5)); without that file, which most servers do not have, there are
    /// none.
    pub fn of_system() -> SubordinateIds {
        match std::fs::read_to_string("/etc/subuid") {
            Ok(text) => SubordinateIds::parse(&text),
            Err(_) => SubordinateIds::default(),
        }
    }

    fn parse(text: &str) -> SubordinateIds {
        let range = |line: &str| {
            let mut fields = line.split(':').skip(1);
            let mut number = || fields.next()?.trim().parse().ok();
            Some((number()?, number()?))
        };
        SubordinateIds(text.lines().filter_map(range).collect())
    }

    /// Returns whose share what `user` takes counts towards.
    pub fn owner(&self, user: u32) -> QuotaOwner {
        let is_in =
            |&&(first, count): &&(u32, u32)| (first..first.saturating_add(count)).contains(&user);
        self.0
            .iter()
            .find(is_in)
            .map_or(QuotaOwner::User(user), |&(first, _)| QuotaOwner::Range(first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: QuotaOwner = QuotaOwner::User(1);
    const B: QuotaOwner = QuotaOwner::User(2);

    #[test]
    fn nobody_gets_more_than_he_leaves_and_what_is_given_back_is_there_again() {
        let quotas = Arc::new(UserQuotas::default());
        let take = |owner, amount| quotas.take(Resource::Lanes, owner, amount);
        assert!(take(A, 1).is_none(), "there is nothing yet");
        quotas.limit(Resource::Lanes, Limit::total(16));
        let mut kept: Vec<QuotaGrant> = (0..8).map(|_| take(A, 1).unwrap()).collect();
        assert!(take(A, 1).is_none(), "half is for others");
        kept.push(take(B, 4).unwrap());
        assert!(take(B, 1).is_none(), "as many are left as he has");
        assert!(take(QuotaOwner::Range(1), 2).is_some() && take(QuotaOwner::Range(1), 3).is_none());
        assert_eq!(quotas.pools()[&Resource::Lanes].taken, 12);
        kept.pop();
        assert!(take(B, 5).is_none() && take(B, 4).is_some());
        drop(kept);
        assert!(take(A, 9).is_none() && take(A, 8).is_some() && take(A, 0).is_some());
        quotas.limit(Resource::Lanes, Limit::total(1));
        assert!(take(A, 1).is_some() && take(A, 2).is_none(), "who comes gets the last");
        assert!(quotas.pools().values().all(|pool| pool.owners.is_empty() && pool.taken == 0));
    }

    #[test]
    fn one_owner_has_a_bound_of_his_own_where_there_is_plenty() {
        let quotas = Arc::new(UserQuotas::default());
        quotas.limit(Resource::Sessions, Limit { total: 100, of_owner: 2 });
        let take = |owner| quotas.take(Resource::Sessions, owner, 1);
        let _kept = [take(A).unwrap(), take(A).unwrap(), take(B).unwrap()];
        assert!(take(A).is_none() && take(B).is_some());
    }

    #[test]
    fn subordinate_ids_of_one_range_are_one_owner() {
        let ids = SubordinateIds::parse("ann:100000:65536\n# a note\nbob:165536:65536\nbad:x:1\n");
        assert_eq!(ids.owner(1000), QuotaOwner::User(1000));
        assert_eq!(ids.owner(100_000), QuotaOwner::Range(100_000));
        assert_eq!(ids.owner(165_535), QuotaOwner::Range(100_000));
        assert_eq!(ids.owner(165_536), QuotaOwner::Range(165_536));
        assert_eq!(ids.owner(231_072), QuotaOwner::User(231_072));
    }
}
