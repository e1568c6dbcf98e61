//! The structures of a cache: a wheel with the entries, a table that finds them by key, and the order of their use.
//!
//! No code here runs Python: objects are only moved in and out, and the caller drops removed entries.

use pyo3::prelude::*;
use tickwheel_core::{tag_of, Id, Order, Table, Watches, Wheel, NEVER};

use crate::clock::Clock;
use crate::memory::{prefetch, Hints};

/// Nanoseconds that a lookup adds to the system's coarse clock, so that the sum is certainly later than now.
pub(crate) const AHEAD_OF_COARSE: u64 = 1_000_000_000;

/// The store counts time from an origin. If the present is this far from the origin (36 years), the origin is moved.
/// The limit leaves room below `NEVER` for a lifetime of up to [`LONGEST`].
const REACH: u64 = 1 << 60;
/// Time from the origin to the present just after the origin was moved: 18 years. The clock can go back that far.
const BEHIND: u64 = 1 << 59;
/// The longest finite lifetime: 146 years.
pub(crate) const LONGEST: u64 = 1 << 62;

/// A reading of the cache's clock in nanoseconds. It may exceed 64 bits, because a user's timer function may count in
/// another unit than seconds.
#[derive(Clone, Copy)]
pub(crate) struct Instant(pub(crate) u128);

/// The reason why an entry left, in the order of `tickwheel.cache.Reason`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    Expired,
    Size,
    Replaced,
    Removed,
}

/// A key with its value. With the wheel's fields it fills one cache line of 64 bytes; if it were larger, every
/// operation would need a second cache line.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) key: Py<PyAny>,
    pub(crate) value: Py<PyAny>,
    /// Lifetime of the value in nanoseconds, counted from the time when it was set or last touched.
    pub(crate) life: u64,
    /// The part of the key's hash that is stored.
    pub(crate) tag: u32,
}

/// A removed key with its value, which the caller has to report and drop.
pub(crate) struct RemovedEntry {
    pub(crate) key: Py<PyAny>,
    pub(crate) value: Py<PyAny>,
    pub(crate) reason: Reason,
}

/// The parameters of an insert.
#[derive(Clone, Copy)]
pub(crate) struct InsertSpec {
    pub(crate) instant: Instant,
    pub(crate) life: u64,
    pub(crate) size: f64,
    /// True if the deadline of a live value stays the same when the value is replaced.
    pub(crate) keeps_deadline: bool,
}

/// The counters of a cache: the hits, the misses, and the entries that have left it, by [`Reason`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) left: [u64; 4],
}

/// Key, value, lifetime, remaining lifetime, and remaining maximum age of an entry.
pub(crate) type Peeked = (Py<PyAny>, Py<PyAny>, u64, u64, u64);

#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) wheel: Wheel<Item>,
    pub(crate) table: Table<Hints>,
    pub(crate) order: Order<Hints>,
    /// The sizes of values by index; all sizes beyond the end of the list are 1. The list is empty in most caches.
    pub(crate) sizes: Vec<f64>,
    /// The sum of all sizes.
    pub(crate) size: f64,
    pub(crate) maxsize: f64,
    pub(crate) counts: Counts,
    /// A lower bound of the deadlines; the actual earliest deadline may be later.
    pub(crate) due_from: u64,
    /// The clock's reading at the origin, from which all relative times of the store count.
    base: u128,
    /// The deadline for which the driver waits. `NEVER` if it waits for none, and 0 if no deadline causes a
    /// notification.
    armed: u64,
    random: u64,
    pub(crate) clock: Clock,
    /// True if a lookup restarts the life of an entry.
    pub(crate) is_sliding: bool,
    /// Time for which an entry is kept after the end of its life, so that `grade` can still return it. The wheel's
    /// deadline is the end of this time.
    pub(crate) grace: u64,
    /// Maximum age of a value. The age counts from the time when the value was set, and a restart of its life does not
    /// change it.
    pub(crate) max_age: u64,
    /// For each entry, by index, the time when the entry reaches its maximum age, plus the grace. Empty if there is no
    /// `max_age`.
    pub(crate) ends: Vec<u64>,
    /// Time that a due entry waits for a driver before a lookup removes it.
    pub(crate) driver_lag: u64,
    pub(crate) watches: Watches,
}

impl Store {
    pub(crate) fn new(maxsize: f64, now: Instant) -> Self {
        let base = now.0.saturating_sub(u128::from(BEHIND));
        let now = (now.0 - base) as u64;
        Self {
            wheel: Wheel::new(now),
            table: Table::new(),
            order: Order::new(),
            sizes: Vec::new(),
            size: 0.0,
            maxsize,
            counts: Counts::default(),
            due_from: NEVER,
            base,
            armed: 0,
            random: now | 1,
            clock: Clock::MONOTONIC,
            is_sliding: false,
            grace: 0,
            max_age: NEVER,
            ends: Vec::new(),
            driver_lag: 0,
            watches: Watches::default(),
        }
    }

    /// Convert a reading of the clock to the time since the store's origin. If the result would be too large, the
    /// origin is moved first, which makes all earlier results invalid.
    #[inline]
    pub(crate) fn at(&mut self, instant: Instant) -> u64 {
        let now = self.relative(instant);
        if now < REACH {
            return now;
        }
        self.rebase(instant.0 - self.base - u128::from(BEHIND))
    }

    /// Return the time from the store's origin to an instant; at most `NEVER`.
    #[inline]
    pub(crate) fn relative(&self, instant: Instant) -> u64 {
        u64::try_from(instant.0.saturating_sub(self.base)).unwrap_or(NEVER).min(NEVER)
    }

    #[cold]
    fn rebase(&mut self, by: u128) -> u64 {
        self.base += by;
        let by = u64::try_from(by).unwrap_or(NEVER);
        let earlier = |time: u64| if time >= NEVER { time } else { time.saturating_sub(by) };
        self.wheel.rebase(by);
        self.ends.iter_mut().for_each(|end| *end = earlier(*end));
        (self.due_from, self.armed) = (earlier(self.due_from), earlier(self.armed));
        BEHIND
    }

    /// Return the number of bytes used, without the objects.
    pub(crate) fn bytes(&self) -> usize {
        self.wheel.bytes()
            + self.table.bytes()
            + self.order.bytes()
            + self.sizes.capacity() * size_of::<f64>()
            + self.ends.capacity() * size_of::<u64>()
    }

    /// Return a time that is certainly later than now, or `None` if the exact time is needed. An entry with a later
    /// deadline is live.
    ///
    /// Linux stores the monotonic time of its last tick, which is milliseconds old; this function adds a second to it.
    /// Reading it takes 5 ns. The exact clock takes 20 ns, a third of a lookup.
    #[inline]
    pub(crate) fn beyond_now(&self) -> Option<u64> {
        #[cfg(linux_calls)]
        if self.clock == Clock::MONOTONIC && !self.is_sliding {
            return Some(crate::system_clock::SystemClock::COARSE.now_ns() + AHEAD_OF_COARSE);
        }
        None
    }

    /// True if a lookup has to remove due entries, because the cache has no driver or the driver is late.
    #[inline]
    pub(crate) fn is_overdue(&self, now: u64) -> bool {
        self.due_from.saturating_add(self.driver_lag) <= now
    }

    #[inline]
    pub(crate) fn is_living(&self, index: u32, now: u64) -> bool {
        self.wheel.deadline_at(index) > now.saturating_add(self.grace)
    }

    /// Return the wheel's deadline for an entry whose life begins now.
    #[inline]
    fn deadline(&self, now: u64, life: u64) -> u64 {
        now.saturating_add(life).saturating_add(self.grace).min(NEVER)
    }

    /// Return the value of an entry if it is live; the call counts as a use.
    #[inline]
    pub(crate) fn hit<'py>(&mut self, py: Python<'py>, index: u32, now: u64) -> Option<Bound<'py, PyAny>> {
        if !self.is_living(index, now) {
            return None;
        }
        self.counts.hits += 1;
        self.order.prefetch_neighbours(index);
        let value = self.wheel.payload_at(index).value.bind(py).clone();
        self.order.use_now(index);
        if self.is_sliding {
            self.renew(index, now, None);
        }
        Some(value)
    }

    /// Insert a key that is missing; the caller has made room.
    pub(crate) fn insert(&mut self, key: Py<PyAny>, hash: isize, value: Py<PyAny>, terms: InsertSpec) {
        let now = self.at(terms.instant);
        let (tag, deadline) = (tag_of(hash), self.deadline(now, terms.life));
        let index = self.wheel.insert(deadline, Item { key, value, life: terms.life, tag }).index();
        self.table.insert(tag, index);
        self.order.add(index);
        self.set_size(index, terms.size);
        self.set_end(index, now);
        self.size += terms.size;
        self.due_from = self.due_from.min(deadline);
    }

    /// Replace the value of an entry and restart its life, which counts as a use; return the former value.
    #[inline]
    pub(crate) fn replace(&mut self, index: u32, value: Py<PyAny>, terms: InsertSpec) -> Py<PyAny> {
        self.counts.left[Reason::Replaced as usize] += 1;
        self.order.prefetch_neighbours(index);
        let former = std::mem::replace(&mut self.wheel.payload_at_mut(index).value, value);
        self.size += terms.size - self.size_at(index);
        self.set_size(index, terms.size);
        self.settle_size();
        if !terms.keeps_deadline {
            let now = self.at(terms.instant);
            self.set_end(index, now);
            self.renew(index, now, Some(terms.life));
        }
        self.order.use_now(index);
        former
    }

    /// Restart the life of an entry, with `life` or its present lifetime; return the deadline.
    #[inline]
    pub(crate) fn renew(&mut self, index: u32, now: u64, life: Option<u64>) -> u64 {
        let item = self.wheel.payload_at_mut(index);
        item.life = life.unwrap_or(item.life);
        let life = item.life;
        let deadline = self.deadline(now, life).min(self.end_at(index));
        self.wheel.reschedule(self.wheel.id_at(index), deadline);
        self.due_from = self.due_from.min(deadline);
        deadline
    }

    /// Return the remaining lifetime of an entry.
    pub(crate) fn remaining(&self, index: u32, now: u64) -> Option<u64> {
        let deadline = self.wheel.deadline_at(index);
        let gone = now.saturating_add(self.grace);
        (deadline > gone).then(|| if deadline >= NEVER { NEVER } else { deadline - gone })
    }

    /// Return the number of live entries; O(n) if the cache has a grace period.
    pub(crate) fn living(&self, now: u64) -> usize {
        match self.grace {
            0 => self.wheel.len(),
            _ => self.order.iter().filter(|&index| self.is_living(index, now)).count(),
        }
    }

    /// Return the entry with this id if it is live: key, value, lifetime, remaining lifetime and remaining maximum age.
    pub(crate) fn peek(&self, py: Python<'_>, id: Id, now: u64) -> Option<Peeked> {
        let (_, item) = self.wheel.get(id)?;
        let left = self.remaining(id.index(), now)?;
        let end = self.end_at(id.index());
        let most = if end >= NEVER { NEVER } else { end.saturating_sub(now.saturating_add(self.grace)) };
        Some((item.key.clone_ref(py), item.value.clone_ref(py), item.life, left, most))
    }

    /// Restore the full lifetime and the maximum age of an entry from another cache. The entry was inserted with its
    /// remaining lifetime. The full lifetime applies from the next restart of the entry's life.
    pub(crate) fn restore(&mut self, index: u32, now: u64, life: u64, most: u64) {
        self.wheel.payload_at_mut(index).life = life;
        if let Some(end) = self.ends.get_mut(index as usize) {
            *end = (*end).min(now.saturating_add(most).saturating_add(self.grace));
        }
    }

    /// Return a lifetime with jitter, so that entries that were set together do not expire together.
    pub(crate) fn jittered(&mut self, life: u64, fraction: f64) -> u64 {
        // This is xorshift64 (Marsaglia 2003), which is fast; the numbers need not be secret.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let unit = (self.random >> 11) as f64 / (1u64 << 53) as f64;
        ((life as f64 * (1.0 + fraction * (2.0 * unit - 1.0))) as u64).min(LONGEST)
    }

    /// Arm the next deadline and return it. From now on, the driver is notified of an earlier deadline.
    pub(crate) fn arm(&mut self) -> Option<u128> {
        let next = self.wheel.next_expiration();
        self.armed = next.unwrap_or(NEVER);
        next.map(|deadline| self.base + u128::from(deadline))
    }

    /// Forget the armed deadline, so that the driver is notified of the next deadline that is set.
    pub(crate) fn disarm(&mut self) {
        self.armed = NEVER;
    }

    /// True if the driver has to be notified, because `deadline` is earlier than the armed deadline. After it was true
    /// once, the result is false until `arm` or `disarm` is called.
    #[inline]
    pub(crate) fn is_before_armed(&mut self, deadline: u64) -> bool {
        let is_earlier = deadline < self.armed;
        if is_earlier {
            self.armed = 0;
        }
        is_earlier
    }

    #[inline]
    pub(crate) fn is_earlier(&mut self, terms: InsertSpec) -> bool {
        let now = self.at(terms.instant);
        terms.life > 0 && !terms.keeps_deadline && self.is_before_armed(self.deadline(now, terms.life))
    }

    /// True if a value of this size fits, in addition to the present values or in place of the value of the entry
    /// `found`.
    pub(crate) fn has_room(&self, size: f64, found: Option<u32>) -> bool {
        let former = found.map_or(0.0, |index| self.size_at(index));
        self.size - former + size <= self.maxsize
    }

    /// Return the ids of all entries, the least recently used first.
    pub(crate) fn ids(&self) -> Vec<Id> {
        let mut ids = Vec::with_capacity(self.wheel.len());
        ids.extend(self.order.iter().map(|index| self.wheel.id_at(index)));
        ids
    }

    /// Prefetch the probable entry of a key. Waiting for memory is the largest part of a lookup among a million
    /// entries.
    #[inline]
    pub(crate) fn prefetch(&self, hash: isize) {
        if let Some(index) = self.table.candidates(tag_of(hash)).next() {
            prefetch(self.wheel.address_of(index));
            self.order.prefetch(index);
        }
    }

    #[inline]
    pub(crate) fn size_at(&self, index: u32) -> f64 {
        self.sizes.get(index as usize).copied().unwrap_or(1.0)
    }

    #[inline]
    fn end_at(&self, index: u32) -> u64 {
        self.ends.get(index as usize).copied().unwrap_or(NEVER)
    }

    /// Store the time when an entry that is set at `now` reaches its maximum age, plus the grace.
    #[inline]
    fn set_end(&mut self, index: u32, now: u64) {
        if self.max_age < NEVER {
            let end = self.deadline(now, self.max_age);
            if self.ends.len() <= index as usize {
                self.ends.resize(index as usize + 1, NEVER);
            }
            self.ends[index as usize] = end;
        }
    }

    #[inline]
    #[allow(clippy::float_cmp)] // a size of exactly 1 is not stored
    fn set_size(&mut self, index: u32, size: f64) {
        match self.sizes.get_mut(index as usize) {
            Some(place) => *place = size,
            None if size == 1.0 => {}
            None => {
                self.sizes.resize(index as usize + 1, 1.0);
                self.sizes[index as usize] = size;
            }
        }
    }

    /// Remove the rounding errors from the sum of sizes, if at most one entry is left: the sum becomes the size of that
    /// entry, or 0.
    #[inline]
    pub(crate) fn settle_size(&mut self) {
        if self.wheel.len() <= 1 {
            self.size = self.order.oldest().map_or(0.0, |index| self.size_at(index));
        }
    }

    /// Verify that wheel, table, order and sizes agree.
    pub(crate) fn check(&self) {
        self.wheel.check();
        self.table.check();
        self.order.check();
        let ids = self.ids();
        assert_eq!([ids.len(), self.table.len()], [self.wheel.len(); 2], "list, table and wheel have the same entries");
        let mut size = 0.0;
        for id in ids {
            let (index, item) = (id.index(), self.wheel.payload_at(id.index()));
            assert_eq!(self.table.candidates(item.tag).filter(|&found| found == index).count(), 1);
            assert!(self.wheel.deadline_at(index) >= self.due_from, "nothing is due before the bound");
            assert!(self.wheel.deadline_at(index) <= self.end_at(index), "no entry outlives its longest age");
            size += self.size_at(index);
        }
        assert!((self.size - size).abs() <= 1e-6 * size.abs().max(1.0), "{} is not the size {size}", self.size);
        assert!(self.size <= self.maxsize || self.wheel.is_empty(), "the cache is not over its bound");
    }
}
