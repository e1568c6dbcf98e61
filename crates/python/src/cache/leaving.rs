//! The ways in which entries leave a cache: they are removed, expired, evicted or cleared.

use tickwheel_core::{Order, Pop, Table, NEVER};

use crate::cache::store::{Item, Reason, RemovedEntry, Store};
use crate::memory::prefetch;

/// Prefetch distance: the memory of an entry is prefetched this number of entries before the entry expires.
const AHEAD: usize = 16;

impl Store {
    /// Remove an entry.
    pub(crate) fn remove(&mut self, index: u32, reason: Reason) -> RemovedEntry {
        let item = self.wheel.cancel(self.wheel.id_at(index)).expect("the table knows only living entries");
        self.detach(index, reason);
        self.table.remove(item.tag, index);
        if matches!(reason, Reason::Replaced | Reason::Removed) {
            self.watches.note(item.tag); // an entry that expires or is evicted has no newer value
        }
        RemovedEntry { key: item.key, value: item.value, reason }
    }

    /// Remove at most `limit` entries that are due at `now`, in order of deadline.
    pub(crate) fn expire(&mut self, now: u64, limit: usize, left: &mut Vec<RemovedEntry>) {
        if now < self.due_from {
            return;
        }
        let enough = left.len().saturating_add(limit);
        // The entries are removed from the table in groups, so that many of its places are fetched at once.
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
            // The caller will drop key and value, which writes to both.
            prefetch(item.key.as_ptr().cast_const().cast());
            prefetch(item.value.as_ptr().cast_const().cast());
            left.push(RemovedEntry { key: item.key, value: item.value, reason: Reason::Expired });
        }
        self.table.remove_all(&places[..gone]);
        self.wheel.end_turn();
        self.due_from = self.wheel.next_expiration().unwrap_or(NEVER);
        self.table.shrink();
    }

    /// Remove entries until a value of size `more` fits: due entries first, then the least recently used entries.
    pub(crate) fn make_room(&mut self, more: f64, now: u64, left: &mut Vec<RemovedEntry>) {
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

    /// Remove the least recently used live entry, and the expired entries that are found before it.
    pub(crate) fn take_least(&mut self, now: u64, left: &mut Vec<RemovedEntry>) {
        while let Some(index) = self.order.oldest() {
            let reason = if self.is_living(index, now) { Reason::Removed } else { Reason::Expired };
            left.push(self.remove(index, reason));
            if reason == Reason::Removed {
                break;
            }
        }
    }

    /// Remove all entries. The reason is "expired" for entries whose life has ended, and "removed" for all others.
    pub(crate) fn clear(&mut self, now: u64) -> Vec<RemovedEntry> {
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
            left.push(RemovedEntry { key, value, reason });
        }
        left
    }

    /// Count an entry that has left the wheel, and remove it from the order of use and from the sum of sizes. The
    /// caller removes the entry from the table.
    #[inline]
    fn detach(&mut self, index: u32, reason: Reason) {
        self.counts.left[reason as usize] += 1;
        self.order.remove(index);
        self.size -= self.size_at(index);
        self.settle_size();
    }
}
