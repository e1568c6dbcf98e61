//! A check of the wheel's invariants by simple loops.

use crate::geometry::{slot_for, slot_start, LEVELS, SLOTS};
use crate::owner::Owner;
use crate::slab::NIL;
use crate::slots::{place, split, Place, HELD, IN_HEAP, IN_RUN};
use crate::wheel::Wheel;

impl<P, O: Owner<P>> Wheel<P, O> {
    /// Walk through all entries and verify every invariant, in O(n).
    ///
    /// # Panics
    ///
    /// If an invariant is broken.
    pub fn check(&self) {
        self.slab.check();
        let mut found = self.check_list(HELD);
        assert!(found == 0 || self.turn.is_some(), "only a turn holds entries back");
        for level in 0..LEVELS {
            for slot in 0..SLOTS {
                found += self.check_slot(level, slot);
            }
            assert_eq!(self.slots.levels >> level & 1 == 1, self.slots.occupied[level] != 0);
        }
        found += self.check_due();
        assert_eq!(found, self.len(), "every entry is in one place");
    }

    fn check_slot(&self, level: usize, slot: usize) -> usize {
        let count = self.check_list(place(level, slot));
        assert_eq!(count > 0, self.slots.occupied[level] >> slot & 1 == 1, "the bit of {level}/{slot}");
        if count == 0 {
            assert_ne!(self.cascading, Some((level, slot)), "a cascade that is over is forgotten");
        } else if self.cascading == Some((level, slot)) {
            assert_eq!(slot, slot_for(self.hand, level), "the slot being cascaded has begun");
        } else {
            assert!(slot > slot_for(self.hand, level), "no slot that has begun keeps entries");
        }
        count
    }

    fn check_list(&self, list: Place) -> usize {
        let (level, slot) = split(list);
        let start = if list == HELD { 0 } else { slot_start(self.hand, level, slot) };
        let (mut count, mut previous, mut index, mut least) = (0, NIL, self.slots.head(list), u64::MAX);
        while index != NIL {
            let entry = self.slab.at(index);
            assert_eq!(entry.place, list, "an entry knows its list");
            assert_eq!(entry.previous, previous, "links go both ways");
            assert!(entry.deadline >= start, "no entry is in a slot after its deadline");
            let (latest, _) = self.slab.latest::<O>(index);
            assert!(entry.deadline <= latest, "an owner moves to later only");
            least = least.min(latest);
            previous = index;
            index = entry.next;
            count += 1;
        }
        assert_eq!(count, self.slots.len(list), "a list counts its entries");
        // The least deadlines of the held list and of the list being cascaded are not used, and `postpone` does not
        // know that an entry is in one of them.
        let is_asked = list != HELD && self.cascading != Some((level, slot));
        if let (true, Some(known)) = (count > 0 && is_asked, self.slots.least(list)) {
            assert_eq!(known, least, "the least deadline that a list knows is its least");
        }
        count
    }

    fn check_due(&self) -> usize {
        let (run, heap) = self.due.parts();
        assert!(run.windows(2).all(|pair| pair[0] > pair[1]), "the run is sorted");
        let living = run.iter().filter(|key| self.slab.is_filed(key.index, key.sequence));
        let mut count = 0;
        for key in living {
            let entry = self.slab.at(key.index);
            assert_eq!((entry.place, entry.deadline), (IN_RUN, key.deadline));
            count += 1;
        }
        for (at, key) in heap.iter().enumerate() {
            let entry = self.slab.at(key.index);
            assert!(self.slab.is_filed(key.index, key.sequence), "the heap holds only the living");
            assert_eq!((entry.place, entry.previous as usize), (IN_HEAP, at), "an entry knows its place");
            assert_eq!(entry.deadline, key.deadline);
            assert!(at == 0 || heap[(at - 1) / 4] < *key, "no child is before its parent");
        }
        count + heap.len()
    }
}
