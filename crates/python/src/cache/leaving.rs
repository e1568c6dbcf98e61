//! How entries leave a cache: taken out, due, making room, all at once.

use tickwheel_core::{Order, Pop, Table, NEVER};

use crate::cache::store::{Item, Left, Reason, Store};
use crate::memory::prefetch;

/// How many entries before its turn memory is asked for one that expires.
const AHEAD: usize = 16;

impl Store {
    /// Take an entry out.
    pub(crate) fn remove(&mut self, index: u32, reason: Reason) -> Left {
        let item = self.wheel.cancel(self.wheel.id_at(index)).expect("the table knows only living entries");
        self.detach(index, reason);
        self.table.remove(item.tag, index);
        if matches!(reason, Reason::Replaced | Reason::Removed) {
            self.watches.note(item.tag); // of what left for its age or size nothing newer is known
        }
        Left { key: item.key, value: item.value, reason }
    }

    /// Take out what is due at `now`, at most `limit` of it, by deadline.
    pub(crate) fn expire(&mut self, now: u64, limit: usize, left: &mut Vec<Left>) {
        if now < self.due_from {
            return;
        }
        let enough = left.len().saturating_add(limit);
        // The table forgets them by the handful, so that memory fetches many of its places at once.
        let (mut places, mut gone) = ([(0, 0); 32], 0);
        self.wheel.begin_turn(now);
        while left.len() < enough {
            prefetch(self.wheel.address_ahead(AHEAD));
            let Pop::Expired(entry) = self.wheel.pop(&mut usize::MAX.clone()) else {
                break;
            };
            let (item, index) = (entry.payload, entry.id.index());
            self.detach(index, Reason::Expired);
            if gone == places.len() {
                self.table.remove_all(&places);
                gone = 0;
            }
            places[gone] = (item.tag, index);
            self.table.prefetch(item.tag);
            gone += 1;
            // The caller drops both, which writes to them.
            prefetch(item.key.as_ptr().cast_const().cast());
            prefetch(item.value.as_ptr().cast_const().cast());
            left.push(Left { key: item.key, value: item.value, reason: Reason::Expired });
        }
        self.table.remove_all(&places[..gone]);
        self.wheel.end_turn();
        self.due_from = self.wheel.next_expiration().unwrap_or(NEVER);
        self.table.shrink();
    }

    /// Take out one due entry, or else the one used longest ago, until `more` fits.
    pub(crate) fn make_room(&mut self, more: f64, now: u64, left: &mut Vec<Left>) {
        while self.size + more > self.maxsize {
            let before = left.len();
            self.expire(now, 1, left);
            if left.len() > before {
                continue;
            }
            let Some(index) = self.order.oldest() else { break };
            let reason = if self.is_living(index, now) { Reason::Size } else { Reason::Expired };
            left.push(self.remove(index, reason));
        }
    }

    /// Take out the living entry used longest ago, and with it those used before whose life is over.
    pub(crate) fn take_least(&mut self, now: u64, left: &mut Vec<Left>) {
        while let Some(index) = self.order.oldest() {
            let reason = if self.is_living(index, now) { Reason::Removed } else { Reason::Expired };
            left.push(self.remove(index, reason));
            if reason == Reason::Removed {
                break;
            }
        }
    }

    /// Take out everything: as removed, or as expired if its life was over.
    pub(crate) fn clear(&mut self, now: u64) -> Vec<Left> {
        self.watches.note_all();
        let entries = self.wheel.drain();
        self.table = Table::new();
        (self.order, self.sizes, self.ends) = (Order::new(), Vec::new(), Vec::new());
        (self.size, self.due_from) = (0.0, NEVER);
        let over = now.saturating_add(self.grace);
        let mut left = Vec::with_capacity(entries.len());
        for entry in entries {
            let Item { key, value, .. } = entry.payload;
            let reason = if entry.deadline > over { Reason::Removed } else { Reason::Expired };
            self.counts.left[reason as usize] += 1;
            left.push(Left { key, value, reason });
        }
        left
    }

    /// Take what has left the wheel out of everything but the table.
    #[inline]
    fn detach(&mut self, index: u32, reason: Reason) {
        self.counts.left[reason as usize] += 1;
        self.order.remove(index);
        self.size -= self.size_at(index);
        self.settle_size();
    }
}
