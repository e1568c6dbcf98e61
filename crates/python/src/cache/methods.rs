//! The methods of `Cache`.

use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use tickwheel_core::{tag_of, Ticket, NEVER};

use crate::cache::iter::CacheIterator;
use crate::cache::object::{Cache, Entry, Life, Put, Unless};
use crate::cache::rules::{Hooks, Rules};
use crate::cache::store::{Instant, Reason, Store, LONGEST};
use crate::clock::{to_ns, Clock};
use crate::cpython::cell::GilCell;
use crate::cpython::reports::checked;
use crate::once::intern;

/// Lateness in nanoseconds after which a driver counts as closed or stopped, so that lookups remove due entries.
const DRIVER_LAG: u64 = 1_000_000_000;

#[pymethods]
#[allow(clippy::needless_pass_by_value)] // tickets are extracted from Python objects
impl Cache {
    #[new]
    #[pyo3(signature = (*_args, **_kwargs))]
    fn new(_args: &Bound<'_, PyTuple>, _kwargs: Option<&Bound<'_, PyDict>>) -> Self {
        Self {
            store: GilCell::new(Store::new(0.0, Instant(0))),
            rules: GilCell::new(Rules::default()),
            hooks: GilCell::new(Hooks::default()),
        }
    }

    /// Initialise an empty cache with the given rules, for `__init__`.
    #[pyo3(signature = (
        maxsize, *, is_sliding=false, grace_ns=0, clock=None, sizer=None, lifetime=None, on_leave=None, on_earlier=None,
        life_ns=NEVER, max_age_ns=NEVER, jitter=0.0, is_overridden=false, has_item_methods=false
    ))]
    #[allow(clippy::too_many_arguments)] // the keywords of one call
    fn _open(
        &self,
        py: Python<'_>,
        maxsize: f64,
        is_sliding: bool,
        grace_ns: u64,
        clock: Option<Py<PyAny>>,
        sizer: Option<Py<PyAny>>,
        lifetime: Option<Py<PyAny>>,
        on_leave: Option<Py<PyAny>>,
        on_earlier: Option<Py<PyAny>>,
        life_ns: u64,
        max_age_ns: u64,
        jitter: f64,
        is_overridden: bool,
        has_item_methods: bool,
    ) -> PyResult<()> {
        let rules = Rules {
            life: life_ns.min(max_age_ns),
            max_age: max_age_ns,
            jitter,
            has_sizer: sizer.is_some(),
            has_lifetime: lifetime.is_some(),
            has_on_leave: on_leave.is_some(),
            is_overridden,
            has_item_methods,
        };
        let kind = clock.as_ref().map_or(Ok(Clock::MONOTONIC), |clock| Clock::of(clock.bind(py)))?;
        let is_driven = on_earlier.is_some();
        let hooks = Hooks { clock, sizer, lifetime, on_leave, on_earlier };
        let former_hooks = self.hooks.with(py, |cell| std::mem::replace(cell, hooks));
        self.rules.with(py, |cell| *cell = rules);
        self.store.with(py, |store| store.clock = kind);
        let mut store = Store::new(maxsize, self.now(py)?);
        (store.clock, store.is_sliding, store.grace, store.max_age) = (kind, is_sliding, grace_ns, max_age_ns);
        store.driver_lag = if is_driven { DRIVER_LAG } else { 0 };
        let former = self.store.with(py, |cell| std::mem::replace(cell, store));
        drop((former, former_hooks));
        Ok(())
    }

    #[inline]
    fn __getitem__<'py>(slf: &Bound<'py, Self>, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        match slf.get().look(key)? {
            Some(value) => Ok(value),
            None => slf.call_method1(intern!(slf.py(), "__missing__"), (key,)),
        }
    }

    #[inline]
    fn __setitem__<'py>(slf: &Bound<'py, Self>, key: &Bound<'py, PyAny>, value: &Bound<'py, PyAny>) -> PyResult<()> {
        Self::put(slf, Entry { key, value, life: Life::Usual, unless: Unless::Never }).map(drop)
    }

    fn __delitem__(&self, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let value = self.take_out(key)?;
        value.map(drop).ok_or_else(|| PyKeyError::new_err((key.clone().unbind(),)))
    }

    #[inline]
    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.remaining_ns(key)?.is_some())
    }

    /// Return the number of keys that have not expired.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let now = self.now(py)?;
        self.sweep(py, now, usize::MAX)?;
        Ok(self.store.with(py, |store| {
            let now = store.at(now);
            store.living(now)
        }))
    }

    /// Return the value of *key*, or *default*.
    #[pyo3(signature = (key, default=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.look(key)?.or(default).unwrap_or_else(|| py.None().into_bound(py)))
    }

    /// Return the value of *key*, or *default*; the call does not count as a use, a hit or a miss.
    #[pyo3(signature = (key, default=None))]
    fn peek(&self, py: Python<'_>, key: &Bound<'_, PyAny>, default: Option<Py<PyAny>>) -> PyResult<Py<PyAny>> {
        let hash = key.hash()?;
        let now = self.now(py)?;
        let found = self.find(key, hash)?;
        let value = self.store.with(py, |store| {
            let now = store.at(now);
            store.peek(py, store.wheel.id_at(found?), now)
        });
        Ok(value.map(|(_, value, ..)| value).or(default).unwrap_or_else(|| py.None()))
    }

    /// Return the value of *key*; if it is missing, store and return *default*. The operation is atomic: if several
    /// threads call it, only one of them stores a value.
    #[pyo3(signature = (key, default=None))]
    fn setdefault<'py>(
        slf: &Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let value = default.unwrap_or_else(|| slf.py().None().into_bound(slf.py()));
        match Self::put(slf, Entry { key, value: &value, life: Life::Usual, unless: Unless::Found })? {
            Put::Kept(kept) => Ok(kept),
            Put::Done | Put::Overtaken => Ok(value),
        }
    }

    /// Set *key* to *value*, with a lifetime of *ttl* seconds, or the default of the cache.
    ///
    /// With *keep_ttl* an existing value is replaced, and its deadline stays.
    #[pyo3(signature = (key, value, ttl=None, *, keep_ttl=false))]
    fn set<'py>(
        slf: &Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
        ttl: Option<&Bound<'py, PyAny>>,
        keep_ttl: bool,
    ) -> PyResult<()> {
        let life = match ttl {
            Some(ttl) if keep_ttl => {
                let message = format!("ttl is {} and keep_ttl is True: pass one of them", ttl.repr()?);
                return Err(PyTypeError::new_err(message));
            }
            None if keep_ttl => Life::Kept,
            Some(ttl) => Life::About(Self::span(slf, ttl)?),
            None if slf.get().rule(slf.py(), |rules| rules.has_item_methods) => {
                return slf.call_method1(intern!(slf.py(), "__setitem__"), (key, value)).map(drop);
            }
            None => Life::Usual,
        };
        Self::put(slf, Entry { key, value, life, unless: Unless::Never }).map(drop)
    }

    /// Return a dict with the values of those *keys* that are present.
    fn get_many<'py>(&self, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
        let found = PyDict::new(keys.py());
        for key in keys.try_iter()? {
            let key = key?;
            if let Some(value) = self.look(&key)? {
                found.set_item(key, value)?;
            }
        }
        Ok(found)
    }

    /// Set all items of a mapping, as `set` does.
    #[pyo3(signature = (items, ttl=None))]
    fn set_many<'py>(
        slf: &Bound<'py, Self>,
        items: &Bound<'py, PyAny>,
        ttl: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<()> {
        let life = ttl.map_or(Ok(Life::Usual), |ttl| Self::span(slf, ttl).map(Life::About))?;
        if !items.hasattr("items")? {
            let message = format!("items is {}: pass a mapping of keys to values", items.repr()?);
            return Err(PyTypeError::new_err(message));
        }
        for item in items.call_method0("items")?.try_iter()? {
            let (key, value): (Bound<'py, PyAny>, Bound<'py, PyAny>) = item?.extract()?;
            Self::put(slf, Entry { key: &key, value: &value, life, unless: Unless::Never })?;
        }
        Ok(())
    }

    /// Return the value of *key*, even if its life has ended, and the remaining and total lifetime of the value in
    /// nanoseconds. Return None if *key* is missing.
    #[pyo3(name = "_grade")]
    fn grade<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Option<(Bound<'py, PyAny>, i64, u64)>> {
        self.graded(key)
    }

    /// Watch *key* for writes, because it is going to be loaded; return a ticket for `_end_loads`.
    #[pyo3(name = "_begin_load")]
    fn begin_load(slf: &Bound<'_, Self>, key: &Bound<'_, PyAny>) -> PyResult<Ticket> {
        Self::watch(slf, key)
    }

    /// Stop watching the keys of *tickets*, and empty this list, so that no ticket is ended twice.
    #[pyo3(name = "_end_loads")]
    fn end_loads(&self, tickets: &Bound<'_, PyList>) -> PyResult<()> {
        let ended: Vec<Ticket> = tickets.extract()?;
        tickets.del_slice(0, ended.len())?;
        self.store.with(tickets.py(), |store| ended.iter().for_each(|ticket| store.watches.end(ticket)));
        Ok(())
    }

    /// Return True if the key of *ticket* was written or removed after the ticket was made.
    #[pyo3(name = "_is_overtaken")]
    fn is_overtaken(&self, py: Python<'_>, ticket: Ticket) -> bool {
        self.store.with(py, |store| store.watches.is_written(&ticket))
    }

    /// Set *key* to the loaded *value*, unless *key* was written or removed after the ticket was made; return True if
    /// the value was set.
    #[pyo3(name = "_keep_loaded", signature = (ticket, key, value, ttl=None))]
    fn keep_loaded<'py>(
        slf: &Bound<'py, Self>,
        ticket: Ticket,
        key: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
        ttl: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<bool> {
        let life = ttl.map_or(Ok(Life::Usual), |ttl| Self::span(slf, ttl).map(Life::About))?;
        Self::settle(slf, &ticket, key, value, life)
    }

    /// Insert *key* and *value* from another cache. *left_ns* is the remaining lifetime, *life_ns* the full lifetime,
    /// and *most_ns* the remaining maximum age, all in nanoseconds.
    fn _restore<'py>(
        slf: &Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
        life_ns: u64,
        left_ns: u64,
        most_ns: u64,
    ) -> PyResult<()> {
        Self::put(slf, Entry { key, value, life: Life::Exactly(left_ns), unless: Unless::Never })?;
        let found = slf.get().find(key, key.hash()?)?;
        let now = slf.get().now(slf.py())?;
        slf.get().store.with(slf.py(), |store| {
            let now = store.at(now);
            found.map(|index| store.restore(index, now, life_ns, most_ns))
        });
        Ok(())
    }

    /// Remove *key*; return its value, or *default*.
    fn _pop(&self, key: &Bound<'_, PyAny>, default: Py<PyAny>) -> PyResult<Py<PyAny>> {
        Ok(self.take_out(key)?.unwrap_or(default))
    }

    /// Remove the least recently used key, and return it with its value, or None if the cache is empty.
    fn _pop_least(&self, py: Python<'_>) -> PyResult<Option<(Py<PyAny>, Py<PyAny>)>> {
        let now = self.now(py)?;
        self.sweep(py, now, usize::MAX)?;
        let mut left = Vec::new();
        self.store.with(py, |store| {
            let now = store.at(now);
            store.take_least(now, &mut left);
        });
        let taken = left.last().filter(|last| last.reason == Reason::Removed);
        let pair = taken.map(|taken| (taken.key.clone_ref(py), taken.value.clone_ref(py)));
        self.report(py, left)?;
        Ok(pair)
    }

    /// Remove all entries.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        let now = self.now(py)?;
        let left = self.store.with(py, |store| {
            let now = store.at(now);
            store.clear(now)
        });
        self.report(py, left)
    }

    /// Remove at most *limit* due entries, and return their number.
    #[pyo3(name = "_purge", signature = (limit=None))]
    fn purge(&self, py: Python<'_>, limit: Option<usize>) -> PyResult<usize> {
        self.sweep(py, self.now(py)?, limit.unwrap_or(usize::MAX))
    }

    /// Remove due entries, and return them as pairs in order of their deadlines.
    #[pyo3(signature = (now_ns=None))]
    fn _expire<'py>(&self, py: Python<'py>, now_ns: Option<u128>) -> PyResult<Bound<'py, PyList>> {
        let now = self.now(py)?;
        let mut left = Vec::new();
        self.store.with(py, |store| {
            let now = store.at(now);
            let until = now_ns.map_or(now, |until| store.relative(Instant(until)));
            store.expire(until, usize::MAX, &mut left);
        });
        let pairs = left.iter().map(|left| (left.key.clone_ref(py), left.value.clone_ref(py)));
        let pairs = PyList::new(py, pairs.collect::<Vec<_>>())?;
        self.report(py, left)?;
        Ok(pairs)
    }

    /// Return the remaining nanoseconds of *key*, or None. The call does not count as a use.
    #[inline]
    #[pyo3(name = "_remaining_ns")]
    fn remaining_ns(&self, key: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
        let hash = key.hash()?;
        let now = self.now(key.py())?;
        let found = self.find(key, hash)?;
        Ok(self.store.with(key.py(), |store| {
            let now = store.at(now);
            store.watches.asked(tag_of(hash));
            store.remaining(found?, now)
        }))
    }

    /// Restart the life of *key*, with *ttl* seconds or its old lifetime; return True if it was present. The call
    /// counts as a use.
    #[pyo3(signature = (key, ttl=None))]
    fn touch<'py>(slf: &Bound<'py, Self>, key: &Bound<'py, PyAny>, ttl: Option<&Bound<'py, PyAny>>) -> PyResult<bool> {
        let (py, this) = (slf.py(), slf.get());
        let life_ns = ttl.map(|ttl| Self::span(slf, ttl)).transpose()?;
        let hash = key.hash()?;
        let now = this.now(py)?;
        let found = this.find(key, hash)?;
        let mut left = Vec::new();
        let (is_there, is_earlier) = this.store.with(py, |store| {
            let now = store.at(now);
            let Some(index) = found.filter(|&index| store.is_living(index, now)) else {
                return (false, false);
            };
            store.order.use_now(index);
            if life_ns == Some(0) {
                store.watches.note(tag_of(hash));
                left.push(store.remove(index, Reason::Expired));
                return (true, false);
            }
            let deadline = store.renew(index, now, life_ns);
            (true, store.is_before_armed(deadline))
        });
        if is_earlier {
            this.wake(py)?;
        }
        this.report(py, left)?;
        Ok(is_there)
    }

    /// Return the next deadline in nanoseconds. From now on, the next earlier deadline that is set calls `on_earlier`.
    /// None means that the driver has nothing to do until `on_earlier` is called.
    #[pyo3(name = "_arm")]
    fn arm(&self, py: Python<'_>) -> Option<u128> {
        self.store.with(py, Store::arm)
    }

    /// Forget the armed deadline, so that the next value that is set with a deadline calls `on_earlier`.
    #[pyo3(name = "_disarm")]
    fn disarm(&self, py: Python<'_>) {
        self.store.with(py, Store::disarm);
    }

    /// Return an iterator over the current entries, the least recently used first. *kind* is 0 for keys, 1 for values,
    /// 2 for items and 3 for records. A record has key, value, lifetime, remaining lifetime and remaining maximum age,
    /// in nanoseconds.
    fn _iterate(slf: &Bound<'_, Self>, kind: u8) -> CacheIterator {
        CacheIterator::new(slf, kind)
    }

    /// Return the sum of all sizes.
    fn _size(&self, py: Python<'_>) -> PyResult<f64> {
        self.purge(py, None)?;
        Ok(self.store.with(py, |store| store.size))
    }

    /// Return the numbers of hits and misses, and of expired, evicted, replaced and removed entries.
    fn _counts(&self, py: Python<'_>) -> (u64, u64, [u64; 4]) {
        self.store.with(py, |store| (store.counts.hits, store.counts.misses, store.counts.left))
    }

    /// Return the bytes of the storage, without keys and values.
    fn __sizeof__(&self, py: Python<'_>) -> usize {
        size_of::<Self>() + self.store.with(py, |store| store.bytes())
    }

    /// Verify the invariants; raises AssertionError.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.store.with(py, |store| checked(|| store.check()))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let items = self.store.try_with(|store| {
            store.wheel.payloads().try_for_each(|item| {
                visit.call(&item.key)?;
                visit.call(&item.value)
            })
        });
        items.unwrap_or(Ok(()))?;
        self.hooks.try_with(|hooks| hooks.traverse(&visit)).unwrap_or(Ok(()))
    }

    fn __clear__(&self) {
        // Entries are moved out of the cells before they are dropped, because dropping runs Python.
        drop(self.store.try_with(|store| store.clear(0)));
        drop(self.hooks.try_with(std::mem::take));
    }
}

impl Cache {
    /// Convert *ttl* to nanoseconds. A value that becomes 0, or exceeds the longest lifetime, is passed to Python code,
    /// which refuses negative values and values that are too long for some clocks.
    #[inline]
    fn span(slf: &Bound<'_, Self>, ttl: &Bound<'_, PyAny>) -> PyResult<u64> {
        // SAFETY: `ttl` is an object, and the GIL is held.
        match unsafe { to_ns(slf.py(), ttl.as_ptr(), "ttl") }? {
            0 | LONGEST.. => slf.call_method1(intern!(slf.py(), "_span_ns"), (ttl,))?.extract(),
            ns => Ok(ns),
        }
    }
}
