//! Access by index, for an owner that keeps its data of an entry in the payload, and links entries to each other.
//!
//! An index is half of an [`Id`]. When an entry has left, a later entry may get its index. So an index is valid only
//! while the entry lives.

use crate::owner::Owner;
use crate::slab::Id;
use crate::wheel::Wheel;

impl<P, O: Owner<P>> Wheel<P, O> {
    /// Return the id of the living entry at `index`.
    #[must_use]
    #[inline]
    pub fn id_at(&self, index: u32) -> Id {
        self.slab.id(index)
    }

    /// Return the deadline of the living entry at `index`.
    #[must_use]
    #[inline]
    pub fn deadline_at(&self, index: u32) -> u64 {
        self.slab.latest::<O>(index).0
    }

    /// Like [`cancel`](Wheel::cancel), for the living entry at `index`.
    ///
    /// # Panics
    ///
    /// If no entry lives there.
    #[inline]
    pub fn cancel_at(&mut self, index: u32) -> P {
        self.stats.cancels += 1;
        self.withdraw(index);
        self.slab.remove(index)
    }

    /// Return the payload at `index`.
    ///
    /// # Panics
    ///
    /// If no entry lives there.
    #[must_use]
    #[inline]
    pub fn payload_at(&self, index: u32) -> &P {
        self.slab.payload(index)
    }

    /// Return the payload at `index`, mutable.
    ///
    /// # Panics
    ///
    /// If no entry lives there.
    #[inline]
    pub fn payload_at_mut(&mut self, index: u32) -> &mut P {
        self.slab.payload_mut(index)
    }

    /// Return the address of the payload at `index`, for a prefetch; `None` if its chunk is empty.
    #[must_use]
    #[inline]
    pub fn address_of(&self, index: u32) -> Option<*const ()> {
        self.slab.address_of(index)
    }

    /// Return the address of the payload that will probably leave after `ahead` other payloads, for a prefetch.
    #[must_use]
    #[inline]
    pub fn address_ahead(&self, ahead: usize) -> Option<*const ()> {
        self.address_of(self.due.index_ahead(ahead)?)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Pop, Wheel};

    #[test]
    fn an_entry_is_found_and_changed_by_its_index() {
        let mut wheel = Wheel::new(0);
        let id = wheel.insert(50, "before");
        let index = id.index();
        *wheel.payload_at_mut(index) = "after";
        assert_eq!((wheel.id_at(index), wheel.deadline_at(index), *wheel.payload_at(index)), (id, 50, "after"));
        assert_eq!(wheel.get(id), Some((50, &"after")));
    }

    #[test]
    fn what_leaves_next_is_known_ahead_while_a_slot_is_due() {
        let mut wheel = Wheel::new(0);
        assert_eq!(wheel.address_ahead(0), None);
        let ids: Vec<_> = (0..4).map(|number| wheel.insert(5000 + number, number)).collect();
        wheel.begin_turn(6000);
        assert!(matches!(wheel.pop(&mut 100), Pop::Expired(entry) if entry.payload == 0));
        assert_eq!(wheel.address_ahead(0), wheel.address_of(ids[1].index()));
        assert_eq!(wheel.address_ahead(2), wheel.address_of(ids[3].index()));
        assert_eq!(wheel.address_ahead(3), None);
    }
}
