//! The opening of a slot when its time begins: the slot is sorted into the due set, or cascaded to the levels below.

use crate::geometry::{slot_last, slot_start};
use crate::owner::Owner;
use crate::slab::NIL;
use crate::slots::place;
use crate::wheel::Wheel;

/// Maximum number of entries of a slot that is sorted as a whole; a fuller slot is cascaded.
///
/// Entries that are set after their slot was sorted are inserted into the due set, which takes longer the larger the
/// set is. So the limit is low. Any limit from 16 to 1,024 costs the same, within a tenth.
const SPARSE: usize = 64;

/// Prefetch distance of a walk over a slot: when the walk reads an entry, it prefetches the entry whose index is higher
/// by this number. Entries that were set one after another are usually neighbours both in memory and in their slot.
const AHEAD: u32 = 16;
/// Prefetch distance for the owner's data: when the walk reads an entry, it prefetches the owner's data of the entry
/// whose index is higher by this number.
const NEAR: u32 = 8;

impl<P, O: Owner<P>> Wheel<P, O> {
    /// Return the first occupied slot that begins at or before `until`, or the slot whose cascade was interrupted.
    #[inline]
    pub(crate) fn first_begun(&self, until: u64) -> Option<(usize, usize)> {
        if self.cascading.is_some() {
            return self.cascading;
        }
        let (level, slot) = self.slots.first()?;
        (slot_start(self.hand, level, slot) <= until).then_some((level, slot))
    }

    /// Empty a slot whose time begins: sort its entries into the due set, or move them to the levels below.
    pub(crate) fn open(&mut self, level: usize, slot: usize, now: u64, work: &mut usize) {
        let place = place(level, slot);
        let start = slot_start(self.hand, level, slot);
        self.hand = self.hand.max(start);
        let last = slot_last(start, level);
        if level > 0 && (self.cascading.is_some() || !self.is_sorted_whole(place, last <= now, *work)) {
            if self.cascading.is_none() {
                self.stats.cascaded[level] += 1;
            }
            self.cascade(level, slot, now, work);
            return;
        }
        self.stats.sorted[level] += 1;
        let mut index = self.slots.head(place);
        self.slots.clear(place);
        while index != NIL {
            self.slab.touch::<O>(index.wrapping_add(AHEAD), AHEAD - NEAR);
            let deadline = self.slab.catch_up::<O>(index);
            let next = self.slab.at(index).next;
            if deadline <= last {
                self.due.arrive(&mut self.slab, index);
            } else {
                self.stats.refiles += 1;
                self.refile(index, deadline);
            }
            *work = work.saturating_sub(1);
            index = next;
        }
        self.due.settle(&mut self.slab);
    }

    /// Move the entries of a slot to finer levels, as far as `work` allows; due entries go to the due set. The wheel's
    /// time is the start of the slot, so no entry returns to this slot.
    fn cascade(&mut self, level: usize, slot: usize, now: u64, work: &mut usize) {
        let place = place(level, slot);
        while *work > 0 {
            let index = self.slots.head(place);
            if index == NIL {
                break;
            }
            self.slab.touch::<O>(index.wrapping_add(AHEAD), AHEAD - NEAR);
            self.slots.unlink(&mut self.slab, index);
            self.stats.cascades += 1;
            let deadline = self.slab.catch_up::<O>(index);
            if deadline <= now {
                self.due.arrive(&mut self.slab, index);
            } else {
                self.refile(index, deadline);
            }
            *work -= 1;
        }
        self.due.settle(&mut self.slab);
        self.cascading = (self.slots.head(place) != NIL).then_some((level, slot));
    }

    /// True if all entries of the slot are to be sorted into the due set, without a cascade. This is so if the slot has
    /// only a few entries. It is also so if its time has passed completely and `work` is enough for all of its entries;
    /// for a million overdue timers, sorting is a quarter cheaper than a cascade.
    fn is_sorted_whole(&self, place: u16, is_overdue: bool, work: usize) -> bool {
        let len = self.slots.len(place);
        len <= SPARSE || is_overdue && len <= work
    }

    /// Find the least deadline of a list by walking through it. Entries that were moved to a deadline after `until` are
    /// put into their new slots.
    pub(crate) fn walk_least(&mut self, place: u16, until: u64) -> Option<u64> {
        let mut least = None;
        let mut index = self.slots.head(place);
        while index != NIL {
            self.slab.touch::<O>(index.wrapping_add(AHEAD), AHEAD - NEAR);
            let deadline = self.slab.catch_up::<O>(index);
            let next = self.slab.at(index).next;
            if deadline > until {
                self.slots.unlink(&mut self.slab, index);
                self.stats.refiles += 1;
                self.refile(index, deadline);
            } else if least.is_none_or(|least| deadline < least) {
                least = Some(deadline);
            }
            index = next;
        }
        if let Some(least) = least {
            self.slots.set_least(place, least);
        }
        least
    }
}
