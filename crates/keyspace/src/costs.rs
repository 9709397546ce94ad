//! Strings with a cost: how much dearer than others they are to have back. It stays while the value
//! is changed, and goes when another value is stored.

use arena::{Cost, Encoding, EntryId, NeedRoom, NewValue, Source};
use base::number_text::IntegerText;
use base::{Key, UnixMs};
use effects::{Effect, EventClass, Expiry};

use crate::encoding::encoding_of;
use crate::write::{KeyWriter, WriteView};

impl WriteView<'_> {
    /// As [`WriteView::set`], of a value that has this `cost`, whatever it had before.
    ///
    /// # Errors
    /// NeedRoom before any change.
    pub fn set_costed(
        &mut self,
        key: &Key<'_>,
        value: &[u8],
        expiry: Expiry,
        cost: Cost,
    ) -> Result<(), NeedRoom> {
        let mut writer = self.writer(key);
        let found = writer.live(key);
        let at = writer.expiry_after(found, expiry);
        writer.put_costed(key, found, value, encoding_of(value), at, cost)?;
        writer.tell_costed(key, value, expiry, cost);
        Ok(())
    }
}

impl KeyWriter<'_> {
    /// As [`KeyWriter::store`], over the entry at `found`: its time to live and its cost stay.
    #[inline(never)]
    pub(crate) fn store_kept(
        &mut self,
        key: &Key<'_>,
        found: Option<EntryId>,
        value: &[u8],
        encoding: Encoding,
    ) -> Result<(), NeedRoom> {
        let expiry = Expiry::Keep;
        let at = self.expiry_after(found, expiry);
        self.put_changed(key, found, value, encoding, at)?;
        self.changed(key, EventClass::String, Effect::Set { key: key.bytes, value, expiry });
        Ok(())
    }

    /// As [`KeyWriter::put`], of what the string at `found` has become: its cost stays.
    pub(crate) fn put_changed(
        &mut self,
        key: &Key<'_>,
        found: Option<EntryId>,
        bytes: &[u8],
        encoding: Encoding,
        expiry: Option<UnixMs>,
    ) -> Result<(), NeedRoom> {
        let cost = self.cost_at(found);
        self.put_costed(key, found, bytes, encoding, expiry, cost)
    }

    /// As [`KeyWriter::put`], of a value that has this `cost`.
    #[inline(never)]
    fn put_costed(
        &mut self,
        key: &Key<'_>,
        found: Option<EntryId>,
        bytes: &[u8],
        encoding: Encoding,
        expiry: Option<UnixMs>,
        cost: Cost,
    ) -> Result<(), NeedRoom> {
        let value = self.new_value(key, found, bytes, encoding, expiry);
        let Some(block) = self.recorder.take_offer(bytes, key.bytes.len()) else {
            return self.put_value_at(key, found, &value, cost);
        };
        self.link(key, found, block, &value)?;
        self.give_large(key, cost);
        Ok(())
    }

    /// As [`KeyWriter::put_value`], of a value that has this `cost`.
    pub(crate) fn put_value_at(
        &mut self,
        key: &Key<'_>,
        found: Option<EntryId>,
        value: &NewValue<'_>,
        cost: Cost,
    ) -> Result<(), NeedRoom> {
        match cost {
            Cost::ONE => self.put_value(key, found, value),
            cost => self.put_from(key, found, Source::Costed(cost), value),
        }
    }

    /// Makes the entry of `key`, which is large and was stored just now without a cost, know this.
    pub(crate) fn give_large(&mut self, key: &Key<'_>, cost: Cost) {
        if cost != Cost::ONE {
            let table = &mut self.part().table;
            let id = table.find(key.hash, key.bytes).expect("it was stored just now");
            table.set_large_cost(id, cost);
        }
    }

    /// Tells the sink of a SET with a cost, as the request that it is.
    pub(crate) fn tell_costed(&mut self, key: &Key<'_>, value: &[u8], expiry: Expiry, cost: Cost) {
        let at;
        let time: &[&[u8]] = match expiry {
            Expiry::Clear => &[],
            Expiry::Keep => &[b"KEEPTTL"],
            Expiry::At(time) => {
                at = IntegerText::new(time.0);
                &[b"PXAT", at.as_bytes()]
            }
        };
        let number = IntegerText::unsigned(cost.number());
        let cost = [b"COST", number.as_bytes()];
        let arguments = [value].into_iter().chain(time.iter().copied()).chain(cost);
        self.changed_by(key, true, (EventClass::String, "SET"), arguments);
    }

    /// Returns what the entry at `found` costs.
    pub(crate) fn cost_at(&mut self, found: Option<EntryId>) -> Cost {
        found.map_or(Cost::ONE, |id| self.part().table.entry(id).cost())
    }
}
