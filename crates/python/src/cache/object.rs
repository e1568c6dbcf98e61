//! `Cache`: the base class of `tickwheel.cache`. It stores, finds, expires and evicts; Python code converts the
//! arguments.
//!
//! The `GilCell` of the store is borrowed only while no Python code runs. Everything that runs Python happens before
//! (hash, size, lifetime, comparison) or afterwards (hooks, dropping removed entries). So a re-entrant call finds the
//! cache consistent.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use tickwheel_core::{tag_of, Id, Ticket, NEVER};

use crate::cache::probe::{known_hash, CollisionChain, Probe};
use crate::cache::rules::{Hooks, Rules};
use crate::cache::store::{InsertSpec, Instant, Reason, RemovedEntry, Store, AHEAD_OF_COARSE};
use crate::clock::Clock;
use crate::cpython::cell::GilCell;
use crate::cpython::errors::raise;
use crate::once::intern;

/// Maximum number of due entries that an insert, or a lookup of an expired key, removes. This takes about 50 us. The
/// next call, or the driver, removes the rest.
const ON_THE_WAY: usize = 256;

/// Maximum number of due entries that a lookup removes if its own key has not expired. This keeps each lookup quick.
const BESIDE_A_LOOKUP: usize = 8;

/// Maximum number of entries that are taken out of the store before their keys and values are dropped. The memory of so
/// few entries is then still in the processor's cache.
const CHUNK: usize = 1024;

/// The storage of a cache: keys with values, deadlines and the order of use.
///
/// `tickwheel.cache` documents its subclasses.
#[pyclass(frozen, subclass, weakref, mapping, module = "tickwheel._core")]
pub(crate) struct Cache {
    pub(crate) store: GilCell<Store>,
    pub(crate) rules: GilCell<Rules>,
    pub(crate) hooks: GilCell<Hooks>,
}

/// The lifetime that a value gets.
#[derive(Clone, Copy)]
pub(crate) enum Life {
    /// The default lifetime of the cache.
    Usual,
    /// The rest of the former value's life, or the default if there was no value.
    Kept,
    /// This number of nanoseconds, plus or minus the jitter.
    About(u64),
    /// Exactly this number of nanoseconds.
    Exactly(u64),
}

/// The arguments of an insert.
#[derive(Clone, Copy)]
pub(crate) struct Entry<'a, 'py> {
    pub(crate) key: &'a Bound<'py, PyAny>,
    pub(crate) value: &'a Bound<'py, PyAny>,
    pub(crate) life: Life,
    pub(crate) unless: Unless<'a>,
}

/// A condition under which nothing is inserted.
#[derive(Clone, Copy)]
pub(crate) enum Unless<'a> {
    Never,
    /// The key already has a value.
    Found,
    /// The key was written or removed after the ticket was made.
    Written(&'a Ticket),
}

/// The outcome of an insert.
pub(crate) enum Put<'py> {
    Done,
    /// The key already has a value, which is returned and was not changed.
    Kept(Bound<'py, PyAny>),
    /// The key was written or removed during the load, so nothing was stored.
    Overtaken,
}

impl Cache {
    /// Return a new reference to one of the hooks. The caller calls it while no `GilCell` is borrowed.
    pub(crate) fn hook(&self, py: Python<'_>, which: impl FnOnce(&Hooks) -> &Option<Py<PyAny>>) -> Option<Py<PyAny>> {
        self.hooks.with(py, |hooks| which(hooks).as_ref().map(|hook| hook.clone_ref(py)))
    }

    /// Return one of the rules, without copying the others.
    #[inline]
    pub(crate) fn rule<R: Copy>(&self, py: Python<'_>, which: impl FnOnce(&Rules) -> R) -> R {
        self.rules.with(py, |rules| which(rules))
    }

    /// Read the time.
    #[inline]
    pub(crate) fn now(&self, py: Python<'_>) -> PyResult<Instant> {
        match self.store.with(py, |store| store.clock) {
            Clock::System(clock) => Ok(Instant(clock.now_ns().into())),
            Clock::Object => Hooks::now(self.hook(py, |hooks| &hooks.clock), py),
        }
    }

    /// Find the entry of a key. The index is valid until Python code runs again.
    #[inline]
    pub(crate) fn find(&self, key: &Bound<'_, PyAny>, hash: isize) -> PyResult<Option<u32>> {
        let py = key.py();
        match self.store.with(py, |store| store.probe(py, key.as_ptr(), hash)) {
            Probe::Found(index) => Ok(Some(index)),
            Probe::Absent => Ok(None),
            Probe::Doubt(id, other) => self.find_by_comparing(key, hash, id, other),
        }
    }

    /// Find the entry of a key by comparing keys in Python. No entry is compared twice, so a lookup among many keys
    /// with the same hash costs no more than in a dict.
    ///
    /// A comparison may change this cache, so the search continues from an entry's id, which becomes stale if the entry
    /// leaves.
    #[cold]
    #[inline(never)]
    fn find_by_comparing(
        &self,
        key: &Bound<'_, PyAny>,
        hash: isize,
        mut id: Id,
        mut other: Py<PyAny>,
    ) -> PyResult<Option<u32>> {
        let py = key.py();
        let mut crowd = CollisionChain::default();
        loop {
            let is_equal = other.bind(py).eq(key)?;
            drop(other);
            if is_equal && self.store.with(py, |store| store.wheel.get(id).is_some()) {
                return Ok(Some(id.index()));
            }
            match self.store.with(py, |store| store.probe_on(py, key.as_ptr(), hash, id, &mut crowd)) {
                Probe::Found(index) => return Ok(Some(index)),
                Probe::Absent => return Ok(None),
                Probe::Doubt(next, next_other) => (id, other) = (next, next_other),
            }
        }
    }

    /// Return the value of a live key; the call counts as a use, and as a hit or a miss.
    #[inline]
    pub(crate) fn look<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        match self.look_quickly(key) {
            Some(value) => Ok(Some(value)),
            None => self.look_thoroughly(key),
        }
    }

    /// Do the most common lookup: a string with a known hash, the system's clock, and an entry that lives for at least
    /// another second. Return None in any other case.
    #[inline]
    fn look_quickly<'py>(&self, key: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
        let py = key.py();
        let hash = known_hash(key)?;
        self.store.with(py, |store| {
            store.prefetch(hash);
            let beyond = store.beyond_now()?;
            if store.is_overdue(beyond - AHEAD_OF_COARSE) {
                return None;
            }
            match store.probe(py, key.as_ptr(), hash) {
                Probe::Found(index) => store.hit(py, index, beyond),
                _ => None,
            }
        })
    }

    /// Do a lookup of any kind. This may run Python code that hashes and compares the key.
    #[inline(never)]
    fn look_thoroughly<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = key.py();
        let hash = key.hash()?;
        let now = self.now(py)?;
        let found = self.find(key, hash)?;
        let (hit, is_overdue) = self.store.with(py, |store| {
            let now = store.at(now);
            let hit = found.and_then(|index| store.hit(py, index, now));
            store.counts.misses += u64::from(hit.is_none());
            (hit, store.is_overdue(now))
        });
        if hit.is_none() && found.is_some() {
            self.sweep(py, now, ON_THE_WAY)?;
        } else if is_overdue {
            self.sweep(py, now, BESIDE_A_LOOKUP)?;
        }
        Ok(hit)
    }

    /// Remove a key and return its value, unless it has expired.
    pub(crate) fn take_out(&self, key: &Bound<'_, PyAny>) -> PyResult<Option<Py<PyAny>>> {
        let py = key.py();
        let hash = key.hash()?;
        let now = self.now(py)?;
        self.store.with(py, |store| store.watches.note(tag_of(hash))); // the key may be without a value, and in a load
        let Some(index) = self.find(key, hash)? else {
            return Ok(None);
        };
        let left = self.store.with(py, |store| {
            let now = store.at(now);
            let reason = if store.is_living(index, now) { Reason::Removed } else { Reason::Expired };
            store.remove(index, reason)
        });
        let value = (left.reason == Reason::Removed).then(|| left.value.clone_ref(py));
        self.report(py, vec![left])?;
        Ok(value)
    }

    /// Remove due entries in chunks, report them to the hook, and drop them. The number of removed entries never
    /// exceeds the number of entries at the start, even if the hook adds entries.
    pub(crate) fn sweep(&self, py: Python<'_>, now: Instant, limit: usize) -> PyResult<usize> {
        let limit = self.store.with(py, |store| store.wheel.len()).min(limit);
        let mut count = 0;
        while count < limit {
            let chunk = CHUNK.min(limit - count);
            let mut left = Vec::with_capacity(chunk);
            self.store.with(py, |store| {
                let now = store.at(now);
                store.expire(now, chunk, &mut left);
            });
            let taken = left.len();
            count += taken;
            self.report(py, left)?;
            if taken < chunk {
                break;
            }
        }
        Ok(count)
    }

    /// Report all removed entries to the hook, and drop them even if the hook raises.
    pub(crate) fn report(&self, py: Python<'_>, left: Vec<RemovedEntry>) -> PyResult<()> {
        if left.is_empty() {
            return Ok(());
        }
        let Some(hook) = self.hook(py, |hooks| &hooks.on_leave) else {
            // This does the same as a drop, without checking for each object that this thread has the GIL.
            for RemovedEntry { key, value, .. } in left {
                key.drop_ref(py);
                value.drop_ref(py);
            }
            return Ok(());
        };
        let mut outcome = Ok(());
        for RemovedEntry { key, value, reason } in left {
            outcome = outcome.and(hook.bind(py).call1((key, value, reason as u8)).map(drop));
        }
        outcome
    }

    /// Insert a value.
    #[inline]
    pub(crate) fn put<'py>(slf: &Bound<'py, Self>, entry: Entry<'_, 'py>) -> PyResult<Put<'py>> {
        let (py, this, key) = (slf.py(), slf.get(), entry.key);
        let hash = key.hash()?;
        let size = if this.rule(py, |rules| rules.has_sizer) {
            // A default that will not be used is not measured.
            if matches!(entry.unless, Unless::Found) {
                let (now, found) = (this.now(py)?, this.find(key, hash)?);
                let kept = this.store.with(py, |store| {
                    let now = store.at(now);
                    found.and_then(|index| store.hit(py, index, now))
                });
                if let Some(kept) = kept {
                    return Ok(Put::Kept(kept));
                }
            }
            this.size_by_hook(py, entry.value)?
        } else {
            1.0
        };
        let maxsize = this.store.with(py, |store| {
            store.prefetch(hash);
            store.maxsize
        });
        if size > maxsize {
            return Err(raise(py, "ValueTooLargeError", (size, maxsize)));
        }
        let terms = this.terms(py, entry, size)?;
        if this.rule(py, |rules| rules.is_overridden) {
            Self::make_room_by_methods(slf, key, hash, terms)?;
        }
        let mut found = this.find(key, hash)?;
        if found.is_some() && this.rule(py, |rules| rules.has_on_leave) {
            found = this.report_former(key, hash, found, terms.instant, entry.unless)?;
        }
        let mut left = Vec::new();
        let (outcome, former, is_earlier) = this.store.with(py, |store| {
            match entry.unless {
                Unless::Never => {}
                Unless::Found => {
                    let now = store.at(terms.instant);
                    if let Some(kept) = found.and_then(|index| store.hit(py, index, now)) {
                        return (Put::Kept(kept), None, false);
                    }
                }
                Unless::Written(ticket) => {
                    if store.watches.is_written(ticket) {
                        return (Put::Overtaken, None, false);
                    }
                }
            }
            store.watches.note(tag_of(hash));
            let former = place(store, entry, hash, found, terms, &mut left);
            (Put::Done, former, store.is_earlier(terms))
        });
        if let Some(value) = former.filter(|_| this.rule(py, |rules| rules.has_on_leave)) {
            left.insert(0, RemovedEntry { key: key.clone().unbind(), value, reason: Reason::Replaced });
        }
        if is_earlier {
            this.wake(py)?;
        }
        this.report(py, left)?;
        Ok(outcome)
    }

    /// Report an expired value before it is replaced, and then find the entry of the key again, because the report may
    /// have changed the cache.
    fn report_former(
        &self,
        key: &Bound<'_, PyAny>,
        hash: isize,
        found: Option<u32>,
        now: Instant,
        unless: Unless<'_>,
    ) -> PyResult<Option<u32>> {
        let py = key.py();
        let left = self.store.with(py, |store| {
            let now = store.at(now);
            let index = found.filter(|&index| !store.is_living(index, now))?;
            let is_refused = matches!(unless, Unless::Written(ticket) if store.watches.is_written(ticket));
            (!is_refused).then(|| store.remove(index, Reason::Expired))
        });
        let Some(left) = left else {
            return Ok(found);
        };
        self.report(py, vec![left])?;
        self.find(key, hash)
    }

    /// Notify the driver of an earlier deadline. If the notification raises, the next value that is set with a deadline
    /// causes another notification.
    #[cold]
    pub(crate) fn wake(&self, py: Python<'_>) -> PyResult<()> {
        let told = self.hook(py, |hooks| &hooks.on_earlier).map_or(Ok(()), |hook| hook.bind(py).call0().map(drop));
        told.inspect_err(|_| self.store.with(py, Store::disarm))
    }

    /// Return the parameters for the insert of a value, such as the time and the lifetime.
    #[inline]
    fn terms(&self, py: Python<'_>, entry: Entry<'_, '_>, size: f64) -> PyResult<InsertSpec> {
        let keeps_deadline = matches!(entry.life, Life::Kept);
        if matches!(entry.life, Life::Usual | Life::Kept) && self.rule(py, |rules| rules.has_lifetime) {
            let Some(lifetime) = self.hook(py, |hooks| &hooks.lifetime) else {
                return Err(PyTypeError::new_err("the cache was cleared by the garbage collector"));
            };
            let (now, life): (u128, u64) = lifetime.bind(py).call1((entry.key, entry.value))?.extract()?;
            let life = life.min(self.rule(py, |rules| rules.max_age));
            return Ok(InsertSpec { instant: Instant(now), life, size, keeps_deadline });
        }
        let instant = self.now(py)?;
        let (life, jitter) = match entry.life {
            Life::Usual | Life::Kept => self.rule(py, |rules| (rules.life, rules.jitter)),
            Life::About(life) => self.rule(py, |rules| (life.min(rules.max_age), rules.jitter)),
            Life::Exactly(life) => self.rule(py, |rules| (life.min(rules.max_age), 0.0)),
        };
        if life >= NEVER || jitter == 0.0 {
            return Ok(InsertSpec { instant, life, size, keeps_deadline });
        }
        let life = self.store.with(py, |store| store.jittered(life, jitter).min(store.max_age));
        Ok(InsertSpec { instant, life, size, keeps_deadline })
    }

    #[cold]
    #[inline(never)]
    fn size_by_hook(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<f64> {
        let Some(sizer) = self.hook(py, |hooks| &hooks.sizer) else {
            return Ok(1.0);
        };
        let size = sizer.bind(py).call1((value,))?;
        match size.extract::<f64>() {
            Ok(number) if number >= 0.0 => Ok(number),
            Ok(_) => Err(PyValueError::new_err(format!(
                "getsizeof returned {}: the size of a value must be non-negative, return a number of 0 or more",
                size.repr()?
            ))),
            Err(_) => Err(PyTypeError::new_err(format!(
                "getsizeof returned {}: return the size as a number, not {}",
                size.repr()?,
                size.get_type().name()?
            ))),
        }
    }

    /// Make room by calling `expire` and `popitem` of a subclass that overrides one of them. Subclasses of cachetools'
    /// classes expect these calls.
    #[cold]
    #[inline(never)]
    fn make_room_by_methods(
        slf: &Bound<'_, Self>,
        key: &Bound<'_, PyAny>,
        hash: isize,
        terms: InsertSpec,
    ) -> PyResult<()> {
        let py = slf.py();
        slf.call_method0(intern!(py, "expire"))?;
        loop {
            let found = slf.get().find(key, hash)?;
            if terms.life == 0 || slf.get().store.with(py, |store| store.has_room(terms.size, found)) {
                return Ok(());
            }
            slf.call_method0(intern!(py, "popitem"))?;
        }
    }
}

/// Store a value in the entry `found`, or in a new entry if `found` is `None`. A value whose lifetime is 0 is not
/// stored. Return the former value if it was live and was replaced in its entry.
#[inline]
fn place(
    store: &mut Store,
    entry: Entry<'_, '_>,
    hash: isize,
    found: Option<u32>,
    terms: InsertSpec,
    left: &mut Vec<RemovedEntry>,
) -> Option<Py<PyAny>> {
    let value = || entry.value.clone().unbind();
    let now = store.at(terms.instant);
    match found {
        Some(index) if terms.life > 0 && store.is_living(index, now) => {
            let former = store.replace(index, value(), terms);
            store.expire(now, ON_THE_WAY, left);
            store.make_room(0.0, now, left);
            return Some(former);
        }
        Some(index) => {
            let reason = if store.is_living(index, now) { Reason::Replaced } else { Reason::Expired };
            left.push(store.remove(index, reason));
        }
        None => {}
    }
    store.expire(now, ON_THE_WAY, left);
    if terms.life > 0 {
        store.make_room(terms.size, now, left);
        store.insert(entry.key.clone().unbind(), hash, value(), terms);
    }
    None
}
