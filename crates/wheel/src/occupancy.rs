//! The number of entries per slot, for a picture of the wheel.

use crate::geometry::{shift, slot_for, LEVELS, SLOTS};
use crate::owner::Owner;
use crate::slab::Id;
use crate::slots::{place, split};
use crate::wheel::Wheel;

/// The slots of one level, and the number of entries in each, at a given moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occupancy {
    /// The length of a slot, in nanoseconds.
    pub slot_ns: u64,
    /// The number of the slot that contains the hand, which is the time to which the wheel has advanced.
    pub hand: usize,
    /// For each occupied slot, the number of the slot and the number of its entries.
    pub counts: Vec<(usize, usize)>,
}

impl<P, O: Owner<P>> Wheel<P, O> {
    /// Return how full each level is, from fine to coarse, in O(slots). Entries whose slot has begun are not counted.
    #[must_use]
    pub fn occupancy(&self) -> Vec<Occupancy> {
        let level_at = |level| {
            let counts = (0..SLOTS).map(|slot| (slot, self.slots.len(place(level, slot))));
            Occupancy {
                slot_ns: 1 << shift(level),
                hand: slot_for(self.hand, level),
                counts: counts.filter(|&(_, count)| count > 0).collect(),
            }
        };
        (0..LEVELS).map(level_at).collect()
    }

    /// Return the level and the slot of an entry, or `None` if its slot has begun or the entry is gone.
    #[must_use]
    pub fn slot_of(&self, id: Id) -> Option<(usize, usize)> {
        self.get(id)?;
        let (level, slot) = split(self.slab.at(id.index()).place);
        (level < LEVELS).then_some((level, slot))
    }
}

#[cfg(test)]
mod tests {
    use crate::geometry::SLOTS;
    use crate::{Pop, Wheel};

    #[test]
    fn each_entry_is_counted_in_the_slot_it_lies_in() {
        let mut wheel = Wheel::new(0);
        for deadline in [0, 2 << 10, (2 << 10) + 5, 63 << 10, 64 << 10, 1 << 58] {
            wheel.insert(deadline, ());
        }
        let levels = wheel.occupancy();
        assert_eq!(levels[0].counts, [(2, 2), (63, 1)], "what was due at once is in no slot");
        assert_eq!((&levels[1].counts[..], levels[1].slot_ns), (&[(1, 1)][..], 64 << 10));
        assert_eq!((levels[8].counts[0].1, levels[8].slot_ns), (1, 1 << 58));
        assert!(levels.iter().all(|level| level.hand < SLOTS));
        wheel.drain();
        assert!(wheel.occupancy().iter().all(|level| level.counts.is_empty()));
    }

    #[test]
    fn an_entry_is_found_in_its_slot_until_that_begins() {
        let mut wheel = Wheel::new(0);
        let [due, near, far] = [0, 2 << 10, 64 << 10].map(|deadline| wheel.insert(deadline, ()));
        assert_eq!([due, near, far].map(|id| wheel.slot_of(id)), [None, Some((0, 2)), Some((1, 1))]);
        wheel.begin_turn(2 << 10);
        while matches!(wheel.pop(&mut usize::MAX.clone()), Pop::Expired(_)) {}
        wheel.end_turn();
        assert_eq!(wheel.slot_of(near), None, "begun");
        wheel.cancel(far);
        assert_eq!(wheel.slot_of(far), None, "gone");
    }

    #[test]
    fn the_hand_goes_with_time() {
        let mut wheel = Wheel::<()>::new(0);
        wheel.begin_turn((5 << 16) + (7 << 10));
        wheel.pop(&mut usize::MAX.clone());
        wheel.end_turn();
        let hands: Vec<_> = wheel.occupancy().iter().map(|level| level.hand).collect();
        assert_eq!(hands[..3], [7, 5, 0]);
    }
}
