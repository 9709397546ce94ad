//! Values from upload memory: stored by SHM COMMIT, and owned when their bytes are needed.
//!
//! An adopted value lies where its client can still write it. So no slice of it is ever made here:
//! a command that needs the bytes has the table own the value first, which copies it once. That is
//! no change of the dataset: it has no effect, and whoever watches the key is not told.

use arena::{ADOPTED_BYTES_MIN, Claim, Encoding, NeedRoom, Uploaded};
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
        let Some(part) = self.shard.database(self.database) else { return Ok(()) };
        let Some(id) = part.table.find(key.hash, key.bytes) else { return Ok(()) };
        if !part.table.entry(id).is_adopted() {
            return Ok(());
        }
        self.resize(key, id, |table| table.own(id).map(|()| id))
    }
}
