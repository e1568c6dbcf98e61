//! The wheel: how entries are inserted and moved, and how time passes.

use std::marker::PhantomData;

use crate::due::{Due, Key};
use crate::geometry::{level_for, slot_for, slot_last, slot_start};
use crate::owner::Owner;
use crate::slab::{Id, Slab, NIL};
use crate::slots::{place, Place, Slots, HELD, IN_HEAP, IN_RUN};
use crate::stats::Stats;

/// The deadline that is never reached: the largest `i64`.
pub const NEVER: u64 = i64::MAX as u64;

/// An entry that has left the wheel.
#[derive(Debug, PartialEq, Eq)]
pub struct Expired<P> {
    /// The entry's id, which is now stale.
    pub id: Id,
    /// The deadline of the entry.
    pub deadline: u64,
    /// The payload of the entry.
    pub payload: P,
}

/// The result of [`Wheel::pop`].
#[derive(Debug)]
pub enum Pop<P> {
    /// The next due entry.
    Expired(Expired<P>),
    /// Nothing more is due in this turn.
    Nothing,
    /// The allowed work is used up, and it is not known yet whether an entry is due.
    Busy,
}

/// The result of a search for the next due entry, before the entry is removed.
enum Next {
    Due(Key),
    Nothing,
    Busy,
}

/// A hierarchical timing wheel.
///
/// It has no clock: the caller passes the time to [`begin_turn`](Wheel::begin_turn). Between `begin_turn` and
/// [`end_turn`](Wheel::end_turn), `pop` returns due entries one by one. Every other method may be called in between.
/// Entries that are set during a turn do not expire in that turn.
#[derive(Debug)]
pub struct Wheel<P, O = ()> {
    pub(crate) slab: Slab<P>,
    pub(crate) slots: Slots,
    pub(crate) due: Due,
    /// The time to which the wheel has advanced. Every slot that began at or before this instant is empty, except for
    /// the slot that is being cascaded.
    pub(crate) hand: u64,
    /// The slot whose cascade was interrupted; its remaining entries come before all other entries.
    pub(crate) cascading: Option<(usize, usize)>,
    pub(crate) turn: Option<u64>,
    sequence: u64,
    pub(crate) stats: Stats,
    owner: PhantomData<O>,
}

impl<P> Wheel<P> {
    /// Make an empty wheel that has no owner; its time begins at `start`.
    #[must_use]
    pub fn new(start: u64) -> Self {
        Self::owned(start)
    }
}

impl<P, O: Owner<P>> Wheel<P, O> {
    /// Make an empty wheel with an owner that may move entries; its time begins at `start`.
    #[must_use]
    pub fn owned(start: u64) -> Self {
        Self {
            slab: Slab::new(),
            slots: Slots::new(),
            due: Due::default(),
            hand: start,
            cascading: None,
            turn: None,
            sequence: 0,
            stats: Stats::default(),
            owner: PhantomData,
        }
    }

    /// Return the number of pending entries.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.slab.len()
    }

    /// True if no entry is pending.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Return the counters since the wheel was made.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Return the number of bytes used for entries, including free ones.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.slab.bytes()
    }

    /// Insert `payload` with `deadline`, in O(1). An entry whose deadline has passed is due in the next turn.
    #[allow(clippy::inline_always)] // each binding calls it once, where a call would be a seventh of its instructions
    #[inline(always)]
    pub fn insert(&mut self, deadline: u64, payload: P) -> Id {
        self.stats.sets += 1;
        let sequence = self.next_sequence();
        let Some(place) = self.place_for(deadline) else {
            let id = self.slab.insert(deadline, sequence, IN_HEAP, NIL, payload);
            self.due.insert(&mut self.slab, id.index());
            return id;
        };
        let id = self.slab.insert(deadline, sequence, place, self.slots.tail(place), payload);
        self.slots.appended(&mut self.slab, place, id.index(), deadline);
        id
    }

    /// Remove an entry, in O(1), and return its payload, or `None` if the id is stale.
    #[inline]
    pub fn cancel(&mut self, id: Id) -> Option<P> {
        let index = self.slab.find(id)?;
        Some(self.cancel_at(index))
    }

    /// Move an entry to `deadline`, in O(1), keeping its id; return false if the id is stale.
    ///
    /// A move to a later deadline costs one write, because the entry stays in its slot until the slot begins. Among
    /// entries with the same deadline, the moved entry is ordered as if it were set now.
    #[inline]
    pub fn reschedule(&mut self, id: Id, deadline: u64) -> bool {
        let found = self.slab.find(id);
        if let Some(index) = found {
            self.reschedule_at(index, deadline);
        }
        found.is_some()
    }

    /// Like `reschedule`, for the living entry at `index`.
    #[inline]
    pub fn reschedule_at(&mut self, index: u32, deadline: u64) {
        self.stats.moves += 1;
        let sequence = self.next_sequence();
        let entry = self.slab.at_mut(index);
        let (former, place) = (entry.deadline, entry.place);
        let stays = place < HELD && deadline >= former;
        if stays && self.turn.is_none_or(|now| deadline > now) {
            entry.deadline = deadline;
            entry.sequence = sequence;
            self.slots.forget_least(place, former);
            return;
        }
        self.withdraw(index);
        let entry = self.slab.at_mut(index);
        entry.deadline = deadline;
        entry.sequence = sequence;
        self.file(index, self.place_for(deadline));
    }

    /// Return the deadline and payload of a pending entry.
    #[must_use]
    #[inline]
    pub fn get(&self, id: Id) -> Option<(u64, &P)> {
        let index = self.slab.find(id)?;
        Some((self.deadline_at(index), self.slab.payload(index)))
    }

    /// Iterate over all pending payloads, in any order.
    pub fn payloads(&self) -> impl Iterator<Item = &P> {
        self.slab.iter().map(|(_, payload)| payload)
    }

    /// Return the first `limit` entries with their payloads, by deadline and then in order of arrival. O(n).
    #[must_use]
    pub fn first(&self, limit: usize) -> Vec<(Id, u64, &P)> {
        let mut order = self.order();
        if limit < order.len() {
            order.select_nth_unstable(limit);
            order.truncate(limit);
        }
        order.sort_unstable();
        let found = order.into_iter();
        found.map(|(deadline, _, index)| (self.slab.id(index), deadline, self.slab.payload(index))).collect()
    }

    /// Return every entry as (deadline, sequence, index), in any order.
    fn order(&self) -> Vec<(u64, u64, u32)> {
        let entries = self.slab.iter().map(|(index, _)| (self.slab.latest::<O>(index), index));
        entries.map(|((deadline, sequence), index)| (deadline, sequence, index)).collect()
    }

    /// Begin a turn, in which `pop` removes the entries that are due at `now`. The clock may go back; even then no
    /// entry expires before its deadline.
    #[inline]
    pub fn begin_turn(&mut self, now: u64) {
        self.turn = Some(now);
    }

    /// End the turn. Entries that were set in this turn may expire in the next one.
    #[inline]
    pub fn end_turn(&mut self) {
        self.turn = None;
        while self.slots.head(HELD) != NIL {
            let index = self.slots.head(HELD);
            self.slots.unlink(&mut self.slab, index);
            let deadline = self.slab.catch_up::<O>(index);
            self.refile(index, deadline);
        }
    }

    /// Remove the next entry that is due in this turn.
    ///
    /// `work` is reduced by one for each entry that is put into another slot. At zero the result is [`Pop::Busy`], and
    /// the next call continues. Outside a turn nothing is due.
    #[inline]
    pub fn pop(&mut self, work: &mut usize) -> Pop<P> {
        match self.next(work) {
            Next::Due(key) => {
                self.due.pop(&mut self.slab, key);
                self.stats.fires += 1;
                let id = self.slab.id(key.index);
                let payload = self.slab.remove(key.index);
                Pop::Expired(Expired { id, deadline: key.deadline, payload })
            }
            Next::Nothing => Pop::Nothing,
            Next::Busy => Pop::Busy,
        }
    }

    /// Return the payload that the next `pop` would remove, if `work` is enough to find it.
    #[inline]
    pub fn peek(&mut self, work: &mut usize) -> Option<&P> {
        match self.next(work) {
            Next::Due(key) => Some(self.slab.payload(key.index)),
            Next::Nothing | Next::Busy => None,
        }
    }

    /// Find the next due entry; this opens the slots before it.
    #[inline]
    fn next(&mut self, work: &mut usize) -> Next {
        let Some(now) = self.turn else {
            return Next::Nothing;
        };
        loop {
            let next = self.due.peek(&self.slab);
            if let Some(key) = next.filter(|key| self.has_moved(key)) {
                if *work == 0 {
                    return Next::Busy;
                }
                *work -= 1;
                self.file_on(key);
                continue;
            }
            let until = next.map_or(now, |key| key.deadline.min(now));
            let Some((level, slot)) = self.first_begun(until) else {
                if let Some(key) = next.filter(|key| key.deadline <= now && key.deadline < NEVER) {
                    return Next::Due(key);
                }
                self.hand = self.hand.max(until);
                return Next::Nothing;
            };
            if *work == 0 {
                return Next::Busy;
            }
            self.open(level, slot, now, work);
        }
    }

    /// True if a cascade was interrupted, so that `pop` has work to do.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.cascading.is_some()
    }

    /// Return the earliest pending deadline, exactly.
    ///
    /// O(1), unless the entry with the least deadline has left the first slot or was moved; then all entries of that
    /// slot are read once.
    pub fn next_expiration(&mut self) -> Option<u64> {
        let mut least = self.next_begun();
        if self.slots.head(HELD) != NIL {
            let held = self.walk_least(HELD, u64::MAX);
            least = least.into_iter().chain(held).min();
        }
        while let Some((level, slot)) = self.cascading.or_else(|| self.slots.first()) {
            let start = slot_start(self.hand, level, slot);
            if least.is_some_and(|least| least <= start) {
                break;
            }
            if self.cascading.is_some() {
                self.open(level, slot, 0, &mut usize::MAX.clone());
                least = least.into_iter().chain(self.next_begun()).min();
                continue;
            }
            let place = place(level, slot);
            let in_slot = self.slots.least(place).or_else(|| self.walk_least(place, slot_last(start, level)));
            if in_slot.is_some() {
                least = least.into_iter().chain(in_slot).min();
                break;
            }
        }
        least.filter(|&least| least < NEVER)
    }

    /// Remove all entries, and return them by deadline and then in order of arrival.
    pub fn drain(&mut self) -> Vec<Expired<P>> {
        let mut order = self.order();
        order.sort_unstable();
        self.stats.cancels += order.len() as u64;
        self.slots = Slots::new();
        self.due = Due::default();
        self.cascading = None;
        let slab = &mut self.slab;
        let expired = order.into_iter().map(|(deadline, _, index)| {
            let id = slab.id(index);
            Expired { id, deadline, payload: slab.remove(index) }
        });
        expired.collect()
    }

    /// Move the origin of time `by` later: subtract `by` from the wheel's time and from each deadline except [`NEVER`].
    /// Entries keep their order.
    ///
    /// Costs O(n log n). Must not be used within a turn, or if an owner has moved entries without the wheel.
    pub fn rebase(&mut self, by: u64) {
        debug_assert!(self.turn.is_none());
        let mut order = self.order();
        order.sort_unstable();
        self.slots = Slots::new();
        self.due = Due::default();
        self.cascading = None;
        self.hand = self.hand.saturating_sub(by);
        for (deadline, _, index) in order {
            let deadline = if deadline >= NEVER { deadline } else { deadline.saturating_sub(by) };
            let sequence = self.next_sequence();
            let entry = self.slab.at_mut(index);
            (entry.deadline, entry.sequence) = (deadline, sequence);
            self.refile(index, deadline);
        }
    }

    #[inline]
    pub(crate) fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    /// Add an entry that is in no list to the list `place`, or to the due set if `place` is `None`.
    #[inline]
    fn file(&mut self, index: u32, place: Option<Place>) {
        match place {
            Some(place) => self.slots.append(&mut self.slab, place, index),
            None => self.due.insert(&mut self.slab, index),
        }
    }

    /// Put an entry that is in no list into the slot of its deadline, or into the due set if that slot has begun.
    pub(crate) fn refile(&mut self, index: u32, deadline: u64) {
        self.file(index, self.slot_at(deadline));
    }

    /// Return the list for an entry that is set now, or `None` if the entry belongs in the due set.
    #[inline]
    fn place_for(&self, deadline: u64) -> Option<Place> {
        if self.turn.is_some_and(|now| deadline <= now) {
            return Some(HELD);
        }
        self.slot_at(deadline)
    }

    /// Return the slot for `deadline`, or `None` if that slot has begun.
    #[inline]
    pub(crate) fn slot_at(&self, deadline: u64) -> Option<Place> {
        level_for(deadline, self.hand).map(|level| place(level, slot_for(deadline, level)))
    }

    /// Remove an entry from its list or from the due set, but leave it in the slab.
    #[inline]
    pub(crate) fn withdraw(&mut self, index: u32) {
        let entry = self.slab.at(index);
        let (left, previous) = (entry.place, entry.previous);
        match left {
            // Nothing is removed from the run: the key becomes stale when the entry gets another sequence, or ends.
            IN_RUN => {}
            IN_HEAP => self.due.take(&mut self.slab, previous as usize),
            _ => {
                self.slots.unlink(&mut self.slab, index);
                let was_cascading = self.cascading.is_some_and(|(level, slot)| left == place(level, slot));
                if was_cascading && self.slots.head(left) == NIL {
                    self.cascading = None;
                }
            }
        }
    }
}
