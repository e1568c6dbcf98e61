//! Moves of entries that the owner makes without the wheel. The wheel learns of a move when the entry's slot begins.

use crate::due::Key;
use crate::wheel::Wheel;

/// The owner of a wheel's entries, which may move them without the wheel. The unit type `()` is an owner that never
/// moves entries.
///
/// When a timer is moved, its handle is in the processor's cache, but its entry is not. So an owner may store the
/// result of [`Wheel::postpone`] in the handle, and the wheel asks for it when the entry's slot begins.
pub trait Owner<P> {
    /// Return the deadline and the sequence of an entry that the owner has moved since the wheel put it into its slot,
    /// or `None` if it was not moved.
    #[inline]
    fn moved(_payload: &P) -> Option<(u64, u64)> {
        None
    }

    /// Prefetch the data that `moved` reads for this entry, because the wheel will soon call `moved`.
    #[inline]
    fn expect(_payload: &P) {}
}

impl<P> Owner<P> for () {}

impl<P, O: Owner<P>> Wheel<P, O> {
    /// Let an owner move one of its entries from the deadline `former` to `deadline`, without reading or writing the
    /// entry. Return the sequence that [`Owner::moved`] has to return from now on.
    ///
    /// The result is `None`, and nothing is changed, if the new deadline is earlier than `former`, or due in this turn.
    /// The owner then has to use `reschedule`.
    #[inline]
    pub fn postpone(&mut self, former: u64, deadline: u64) -> Option<u64> {
        if deadline < former || self.turn.is_some_and(|now| deadline <= now) {
            return None;
        }
        self.stats.moves += 1;
        // Unless the entry was moved before, it is in the slot of `former`, and may have the least deadline there. If
        // there is no such slot, the slot has begun.
        if let Some(place) = self.slot_at(former) {
            self.slots.forget_least(place, former);
        }
        Some(self.next_sequence())
    }

    /// Return the earliest deadline in the due set.
    pub(crate) fn next_begun(&mut self) -> Option<u64> {
        loop {
            let key = self.due.peek(&self.slab)?;
            if !self.has_moved(&key) {
                return Some(key.deadline);
            }
            self.file_on(key);
        }
    }

    /// True if the owner has moved an entry since the entry's key was added to the due set.
    #[inline]
    pub(crate) fn has_moved(&self, key: &Key) -> bool {
        O::moved(self.slab.payload(key.index)).is_some_and(|(_, sequence)| sequence != key.sequence)
    }

    /// Insert the next entry of the due set again with its new deadline, because its owner has moved it.
    #[cold]
    pub(crate) fn file_on(&mut self, key: Key) {
        self.due.pop(&mut self.slab, key);
        self.stats.refiles += 1;
        let deadline = self.slab.catch_up::<O>(key.index);
        self.refile(key.index, deadline);
    }
}
