//! The rings: 64 lists of entries on each level, and a bit for each list that is not empty.

use crate::geometry::{LEVELS, SLOTS};
use crate::slab::{Slab, NIL};

/// The number of a list: `level * 64 + slot`, or [`HELD`].
pub(crate) type Place = u16;

/// The list of entries that were set between `begin_turn` and `end_turn` and are already due; they wait for the next
/// turn.
pub(crate) const HELD: Place = (LEVELS * SLOTS) as Place;
/// The value of `Entry::place` for an entry in the due set's list of sorted entries.
pub(crate) const IN_RUN: Place = HELD + 1;
/// The value of `Entry::place` for an entry in the heap of the due set. The field `previous` of the entry is then its
/// position in the heap.
pub(crate) const IN_HEAP: Place = HELD + 2;

/// A doubly linked list of entries.
#[derive(Clone, Debug)]
struct List {
    head: u32,
    tail: u32,
    len: usize,
    /// A lower bound of the deadlines in the list. It is the exact minimum if the list's bit in `least_known` is set.
    least: u64,
}

const EMPTY: List = List { head: NIL, tail: NIL, len: 0, least: u64::MAX };

#[derive(Debug)]
pub(crate) struct Slots {
    lists: Vec<List>,
    /// For each level, a bit for each occupied slot.
    pub(crate) occupied: [u64; LEVELS],
    /// A bit for each level that has entries.
    pub(crate) levels: u16,
    /// A bit for each list, which is set if `least` is exactly the deadline of an entry. It is cleared when that entry
    /// leaves or moves.
    least_known: [u64; LEVELS + 1],
}

impl Slots {
    pub(crate) fn new() -> Self {
        Self { lists: vec![EMPTY; LEVELS * SLOTS + 1], occupied: [0; LEVELS], levels: 0, least_known: [0; LEVELS + 1] }
    }

    #[inline]
    pub(crate) fn head(&self, place: Place) -> u32 {
        self.lists[place as usize].head
    }

    /// Return the number of entries in the list `place`.
    #[inline]
    pub(crate) fn len(&self, place: Place) -> usize {
        self.lists[place as usize].len
    }

    /// Return the least deadline in the list `place`, if it is known without a walk.
    #[inline]
    pub(crate) fn least(&self, place: Place) -> Option<u64> {
        let (level, slot) = split(place);
        (self.least_known[level] >> slot & 1 == 1).then(|| self.lists[place as usize].least)
    }

    /// Store the least deadline, which a walk has found.
    pub(crate) fn set_least(&mut self, place: Place, least: u64) {
        let (level, slot) = split(place);
        self.lists[place as usize].least = least;
        self.least_known[level] |= 1 << slot;
    }

    /// Mark the least deadline of a list as unknown if it is `deadline`, because an entry with this deadline has left
    /// the list, or has a later deadline now.
    #[inline]
    pub(crate) fn forget_least(&mut self, place: Place, deadline: u64) {
        if self.lists[place as usize].least == deadline {
            let (level, slot) = split(place);
            self.least_known[level] &= !(1 << slot);
        }
    }

    /// Return the index of the last entry of the list `place`.
    #[inline]
    pub(crate) fn tail(&self, place: Place) -> u32 {
        self.lists[place as usize].tail
    }

    /// Append an entry, whose deadline is already set, to a list.
    #[inline]
    pub(crate) fn append<P>(&mut self, slab: &mut Slab<P>, place: Place, index: u32) {
        let tail = self.tail(place);
        let entry = slab.at_mut(index);
        entry.place = place;
        entry.previous = tail;
        entry.next = NIL;
        let deadline = entry.deadline;
        self.appended(slab, place, index, deadline);
    }

    /// Make an entry the tail of a list; the entry already links back to the former tail.
    #[inline]
    pub(crate) fn appended<P>(&mut self, slab: &mut Slab<P>, place: Place, index: u32, deadline: u64) {
        let list = &mut self.lists[place as usize];
        let tail = std::mem::replace(&mut list.tail, index);
        list.len += 1;
        let (level, slot) = split(place);
        if deadline <= list.least {
            list.least = deadline;
            self.least_known[level] |= 1 << slot;
        }
        if tail == NIL {
            list.head = index;
            if level < LEVELS {
                self.occupied[level] |= 1 << slot;
                self.levels |= 1 << level;
            }
        } else {
            slab.at_mut(tail).next = index;
        }
    }

    /// Remove an entry from its list.
    #[inline]
    pub(crate) fn unlink<P>(&mut self, slab: &mut Slab<P>, index: u32) {
        let entry = slab.at(index);
        let (place, previous, next, deadline) = (entry.place, entry.previous, entry.next, entry.deadline);
        self.lists[place as usize].len -= 1;
        if previous == NIL {
            self.lists[place as usize].head = next;
        } else {
            slab.at_mut(previous).next = next;
        }
        if next == NIL {
            self.lists[place as usize].tail = previous;
        } else {
            slab.at_mut(next).previous = previous;
        }
        if previous == NIL && next == NIL {
            self.clear(place);
        } else {
            self.forget_least(place, deadline);
        }
    }

    /// Empty a list.
    pub(crate) fn clear(&mut self, place: Place) {
        self.lists[place as usize] = EMPTY;
        let (level, slot) = split(place);
        self.least_known[level] &= !(1 << slot);
        if level < LEVELS {
            self.occupied[level] &= !(1 << slot);
            if self.occupied[level] == 0 {
                self.levels &= !(1 << level);
            }
        }
    }

    /// Return the occupied slot that begins first: the first slot on the lowest occupied level.
    ///
    /// Deadlines on a lower level are always earlier, because they differ from the hand only in a lower digit.
    #[inline]
    pub(crate) fn first(&self) -> Option<(usize, usize)> {
        if self.levels == 0 {
            return None;
        }
        let level = self.levels.trailing_zeros() as usize;
        Some((level, self.occupied[level].trailing_zeros() as usize))
    }
}

#[inline]
pub(crate) fn place(level: usize, slot: usize) -> Place {
    (level * SLOTS + slot) as Place
}

#[inline]
pub(crate) fn split(place: Place) -> (usize, usize) {
    (place as usize / SLOTS, place as usize % SLOTS)
}
