//! Values from upload memory: stored by SHM COMMIT, and owned when their bytes are needed.
//!
//! The client of an adopted value can still write it. So no slice of it is ever made here: a
//! command that needs the bytes makes the table own the value first, which copies it once. That is
//! no change of the dataset: it has no effect, and no watcher of the key is notified.
//!
//! A long copy under the shard lock would block the shard's other clients. So it is made without
//! the lock, in a block that nothing refers to (`reserve.rs`), and linked under the guard if the
//! key is unchanged. Within an atomic record, and where the process pins as many values as it can,
//! it is made under the guard.

use arena::{
    ADOPTED_BYTES_MIN, Claim, Cost, Encoding, EntryId, HeldUpload, NeedRoom, ReservedBlock, Source,
    Uploaded,
};
use base::Key;
use effects::{Effect, EventClass, Expiry};

use crate::view::ReadView;
use crate::write::{KeyWriter, WriteView};

/// From this length on a value is copied while no shard is held. A shorter one that comes with its
/// request is copied under the guard too.
pub const COPIED_UNLOCKED_BYTES_MIN: u64 = 32 * 1024;

impl ReadView<'_> {
    /// Holds the value at `key` where it is long and a client can write it, to be copied while no
    /// shard is held: [`crate::Keyspace::copy_adopted`], then [`WriteView::own_with`].
    pub fn hold_adopted(&self, key: &Key<'_>) -> Option<HeldUpload> {
        let table = &self.part(key)?.table;
        let id = table.find(key.hash, key.bytes)?;
        let is_long = table.entry(id).value_length() >= COPIED_UNLOCKED_BYTES_MIN;
        if is_long { table.hold_adopted(id) } else { None }
    }
}

impl WriteView<'_> {
    /// Makes `key` hold the claimed upload as [`WriteView::set`] does: where it lies if it `stays`,
    /// else copied. Returns whether it was left where it lies: a short value is copied, and so is
    /// every one while a sink listens, as what it is told has to be what is stored.
    ///
    /// # Errors
    /// NeedRoom before any change.
    pub fn set_uploaded(
        &mut self,
        key: &Key<'_>,
        claim: &Claim<'_>,
        stays: bool,
        expiry: Expiry,
    ) -> Result<bool, NeedRoom> {
        if claim.len() < ADOPTED_BYTES_MIN {
            self.set(key, &claim.copied(), expiry)?;
            return Ok(false);
        }
        let mut writer = self.writer(key);
        let stays = writer.may_stay(stays);
        if stays || !writer.store_copy(key, claim, expiry)? {
            writer.store_uploaded(key, claim.uploaded(stays), expiry)?;
        }
        Ok(stays)
    }

    /// Returns whether [`WriteView::set_uploaded`] copies so much that the copy is to be made
    /// before, while no shard is held, and offered: [`crate::Keyspace::copy_upload`],
    /// [`crate::Guard::offer`].
    pub fn copies_long(&mut self, key: &Key<'_>, claim: &Claim<'_>, stays: bool) -> bool {
        claim.len() >= COPIED_UNLOCKED_BYTES_MIN && !self.writer(key).may_stay(stays)
    }

    /// Makes sure that nobody else can write the value at `key`, so that its bytes can be used.
    ///
    /// # Errors
    /// NeedRoom before any change.
    #[inline]
    pub fn own(&mut self, key: &Key<'_>) -> Result<(), NeedRoom> {
        self.writer(key).own(key)
    }

    /// As [`WriteView::own`], with the copy of the `held` value in `copy`, unless the key has
    /// another value by now.
    ///
    /// # Errors
    /// NeedRoom before any change.
    pub fn own_with(
        &mut self,
        key: &Key<'_>,
        held: HeldUpload,
        copy: &mut ReservedBlock,
    ) -> Result<(), NeedRoom> {
        let mut writer = self.writer(key);
        let Some(id) = writer.adopted(key) else { return Ok(()) };
        writer.resize(key, id, |table| table.own_with(id, held, copy).map(|()| id))
    }

    /// Returns whether [`WriteView::own`] of one of `keys` copies so much that it is to be done
    /// while no shard is held.
    pub fn owns_long(&mut self, keys: &[Key<'_>]) -> bool {
        keys.iter().any(|key| self.writer(key).adopted_bytes(key) >= COPIED_UNLOCKED_BYTES_MIN)
    }

    /// Returns how many bytes [`WriteView::own`] of all `keys` copies, where so much passes the
    /// memory limit by more than `overshoot` bytes.
    pub fn lacks_room_to_own(&mut self, keys: &[Key<'_>], overshoot: u64) -> Option<u64> {
        let mut bytes = 0;
        for (index, key) in keys.iter().enumerate() {
            let adopted = self.writer(key).adopted_bytes(key);
            // In this order: of many keys few are adopted, and to hold each against all takes long.
            if adopted > 0 && keys[..index].iter().all(|other| other.bytes != key.bytes) {
                bytes += adopted;
            }
        }
        (bytes > 0 && self.lacks_room(&keys[0], bytes, overshoot)).then_some(bytes)
    }

    /// Returns whether `bytes` more for `key` pass the memory limit by more than `overshoot` bytes.
    pub fn lacks_room(&mut self, key: &Key<'_>, bytes: u64, overshoot: u64) -> bool {
        self.writer(key).shard.lacks_room(bytes, overshoot)
    }
}

impl KeyWriter<'_> {
    /// Returns whether an upload that is to stay may.
    fn may_stay(&self, stays: bool) -> bool {
        stays && self.shard.sink.is_none()
    }

    /// Stores the copy of the claimed upload that is on offer; returns whether there is one.
    fn store_copy(
        &mut self,
        key: &Key<'_>,
        claim: &Claim<'_>,
        expiry: Expiry,
    ) -> Result<bool, NeedRoom> {
        let key_length = key.bytes.len();
        let copy = self
            .recorder
            .offer
            .as_deref()
            .filter(|it| it.is_full() && it.is_copy_of(claim, key_length));
        let Some(held) = copy.and_then(|block| block.hold()) else { return Ok(false) };
        self.store(key, held.as_ref(), Encoding::Raw, expiry)?;
        Ok(true)
    }

    fn store_uploaded(
        &mut self,
        key: &Key<'_>,
        uploaded: Uploaded<'_>,
        expiry: Expiry,
    ) -> Result<(), NeedRoom> {
        let found = self.live(key);
        let at = self.expiry_after(found, expiry);
        let cost = match expiry {
            Expiry::Keep => self.cost_at(found),
            Expiry::Clear | Expiry::At(_) => Cost::ONE,
        };
        // Too long for an integer or a short string.
        let value = self.new_value(key, found, &[], Encoding::Raw, at);
        self.put_from(key, found, Source::Uploaded(uploaded), &value)?;
        self.give_large(key, cost);
        // What the sink is told is what was stored, not what the client may have written since.
        let told = match self.shard.sink.is_some() {
            true => self.stored_bytes(key),
            false => Vec::new(),
        };
        let effect = Effect::Set { key: key.bytes, value: &told, expiry };
        self.changed(key, EventClass::String, effect);
        Ok(())
    }

    fn stored_bytes(&mut self, key: &Key<'_>) -> Vec<u8> {
        let table = &self.part().table;
        let id = table.find(key.hash, key.bytes).expect("it was stored just now");
        table.entry(id).value().to_vec()
    }

    fn own(&mut self, key: &Key<'_>) -> Result<(), NeedRoom> {
        let Some(id) = self.adopted(key) else { return Ok(()) };
        self.resize(key, id, |table| table.own(id).map(|()| id))
    }

    /// Returns the length of the value at `key` where a client can write it.
    fn adopted_bytes(&self, key: &Key<'_>) -> u64 {
        let Some(part) = self.shard.database(self.database) else { return 0 };
        self.adopted(key).map_or(0, |id| part.table.entry(id).value_length())
    }

    fn adopted(&self, key: &Key<'_>) -> Option<EntryId> {
        let table = &self.shard.database(self.database)?.table;
        table.find(key.hash, key.bytes).filter(|id| table.entry(*id).is_adopted())
    }
}
