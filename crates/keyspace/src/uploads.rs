//! Values from upload memory: stored by SHM COMMIT, and owned when their bytes are needed.
//!
//! An adopted value lies where its client can still write it. So no slice of it is ever made here:
//! a command that needs the bytes has the table own the value first, which copies it once. That is
//! no change of the dataset: it has no effect, and whoever watches the key is not told.

use arena::{ADOPTED_BYTES_MIN, Claim, Encoding, EntryId, NeedRoom, Uploaded};
use base::Key;

use crate::effect::{Effect, Expiry};
use crate::write::{Place, WriteView};

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
        let mut place = self.place(key);
        let stays = stays && place.shard.sink.is_none();
        place.store_uploaded(key, claim.uploaded(stays), expiry)?;
        Ok(stays)
    }

    /// Makes sure that nobody else can write the value at `key`, so that its bytes can be used.
    ///
    /// # Errors
    /// NeedRoom before any change.
    #[inline]
    pub fn own(&mut self, key: &Key<'_>) -> Result<(), NeedRoom> {
        self.place(key).own(key)
    }

    /// Returns how many bytes [`WriteView::own`] of all `keys` copies, where so much passes the
    /// memory limit by more than `overshoot` bytes.
    pub fn lacks_room_to_own(&mut self, keys: &[Key<'_>], overshoot: u64) -> Option<u64> {
        let mut bytes = 0;
        for (index, key) in keys.iter().enumerate() {
            if keys[..index].iter().all(|other| other.bytes != key.bytes) {
                bytes += self.place(key).adopted_bytes(key);
            }
        }
        (bytes > 0 && self.lacks_room(&keys[0], bytes, overshoot)).then_some(bytes)
    }

    /// Returns whether `bytes` more for `key` pass the memory limit by more than `overshoot` bytes.
    pub fn lacks_room(&mut self, key: &Key<'_>, bytes: u64, overshoot: u64) -> bool {
        self.place(key).shard.lacks_room(bytes, overshoot)
    }
}

impl Place<'_> {
    fn store_uploaded(
        &mut self,
        key: &Key<'_>,
        uploaded: Uploaded<'_>,
        expiry: Expiry,
    ) -> Result<(), NeedRoom> {
        let found = self.live(key);
        let at = match expiry {
            Expiry::Clear => None,
            Expiry::At(at) => Some(at),
            Expiry::Keep => found.and_then(|id| self.part().table.entry(id).expiry()),
        };
        // Too long for an integer or a short string.
        let value = self.new_value(found, &[], Encoding::Raw, at);
        match found {
            Some(id) => self.rewrite(key, id, |table| {
                table.replace_uploaded(id, key.bytes, uploaded, &value)
            })?,
            None => {
                self.add(key, |table| table.insert_uploaded(key.hash, key.bytes, uploaded, &value))?
            }
        }
        // What the sink is told is what was stored, not what the client may have written since.
        let told = match self.shard.sink.is_some() {
            true => self.stored_bytes(key),
            false => Vec::new(),
        };
        self.changed(key, &Effect::Set { key: key.bytes, value: &told, expiry });
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
