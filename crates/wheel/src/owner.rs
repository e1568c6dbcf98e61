//! Moves that the owner of an entry makes without the wheel, and how the wheel learns of one that has begun.

use crate::due::Key;
use crate::wheel::Wheel;

/// The owner of a wheel's entries; `()` leaves them all to the wheel.
///
/// A timer that is moved again and again is at hand where it is moved, and its entry is not: so an owner may write down there what
/// [`Wheel::postpone`] gave it, and the wheel asks when the entry's slot comes up.
pub trait Owner<P> {
    /// The deadline and the sequence of an entry that the owner has moved since the wheel filed it last; `None`: it has not.
    #[inline]
    fn moved(_payload: &P) -> Option<(u64, u64)> {
        None
    }

    /// `moved` is asked about this one soon.
    #[inline]
    fn expect(_payload: &P) {}
}

impl<P> Owner<P> for () {}

impl<P, O: Owner<P>> Wheel<P, O> {
    /// Let an owner move an entry itself, from `former`, where it is now, to `deadline`: returns the sequence that [`Owner::moved`] has
    /// to answer with from now on. `None`: it is to earlier, or into this turn, and so has to be `reschedule`.
    ///
    /// The entry is not touched, only what is known of the list that it is in.
    #[inline]
    pub fn postpone(&mut self, former: u64, deadline: u64) -> Option<u64> {
        if deadline < former || self.turn.is_some_and(|now| deadline <= now) {
            return None;
        }
        self.stats.moves += 1;
        // Unless it was moved before, it is where its deadline says, and may be the least there; or it has begun.
        if let Some(place) = self.slot_at(former) {
            self.slots.forget_least(place, former);
        }
        Some(self.next_sequence())
    }

    /// The earliest deadline in the due set.
    pub(crate) fn next_begun(&mut self) -> Option<u64> {
        loop {
            let key = self.due.peek(&self.slab)?;
            if !self.has_moved(&key) {
                return Some(key.deadline);
            }
            self.file_on(key);
        }
    }

    /// Whether the owner has moved the entry of a key in the due set.
    #[inline]
    pub(crate) fn has_moved(&self, key: &Key) -> bool {
        O::moved(self.slab.payload(key.index)).is_some_and(|(_, sequence)| sequence != key.sequence)
    }

    /// File what the owner has moved out of the due set, where it is the next to leave.
    #[cold]
    pub(crate) fn file_on(&mut self, key: Key) {
        self.due.pop(&mut self.slab, key);
        self.stats.refiles += 1;
        let deadline = self.slab.catch_up::<O>(key.index);
        self.refile(key.index, deadline);
    }
}
