//! Support for functions that load missing values: how fresh a value is, and whether its key was written during the
//! load.

use pyo3::prelude::*;
use tickwheel_core::{tag_of, Ticket, NEVER};

use crate::cache::object::{Cache, Entry, Life, Put, Unless};
use crate::once::intern;

impl Cache {
    /// Return the value of a key, and the remaining and total lifetime of the value in nanoseconds. The call counts as
    /// a use.
    ///
    /// A value that is kept after the end of its life counts as a miss, and has at most 0 remaining nanoseconds.
    pub(crate) fn graded<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Option<(Bound<'py, PyAny>, i64, u64)>> {
        let py = key.py();
        let hash = key.hash()?;
        let now = self.now(py)?;
        let found = self.find(key, hash)?;
        Ok(self.store.with(py, |store| {
            let now = store.at(now);
            let hit = found.and_then(|index| store.hit(py, index, now).map(|value| (index, value)));
            if let Some((index, value)) = hit {
                let left = store.remaining(index, now).unwrap_or(NEVER).cast_signed();
                return Some((value, left, store.wheel.payload_at(index).life));
            }
            store.counts.misses += 1;
            let index = found.filter(|&index| store.wheel.deadline_at(index) > now)?;
            let over = now + store.grace - store.wheel.deadline_at(index);
            store.order.use_now(index);
            let item = store.wheel.payload_at(index);
            Some((item.value.bind(py).clone(), -over.cast_signed(), item.life))
        }))
    }

    /// Begin to watch a key for writes.
    pub(crate) fn watch(slf: &Bound<'_, Self>, key: &Bound<'_, PyAny>) -> PyResult<Ticket> {
        let (py, this) = (slf.py(), slf.get());
        let tags = if this.rule(py, |rules| rules.has_item_methods) {
            Self::tags_behind(slf, key)?
        } else {
            vec![tag_of(key.hash()?)]
        };
        Ok(this.store.with(py, |store| store.watches.begin(tags)))
    }

    /// Look the key up with the subclass's own method. Return the hash tags of all keys that the lookup requested from
    /// this class; these may be other keys than `key`.
    #[cold]
    fn tags_behind(slf: &Bound<'_, Self>, key: &Bound<'_, PyAny>) -> PyResult<Vec<u32>> {
        let store = &slf.get().store;
        let number = store.with(slf.py(), |store| store.watches.begin_trace());
        let outcome = slf.as_any().contains(key);
        let tags = store.with(slf.py(), |store| store.watches.end_trace(number));
        outcome.map(|_| tags)
    }

    /// Store a loaded value, unless its key was written or removed after the ticket was made. `life` is the value's own
    /// lifetime, or the default of the cache. Return true if the value was stored.
    pub(crate) fn settle<'py>(
        slf: &Bound<'py, Self>,
        ticket: &Ticket,
        key: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
        life: Life,
    ) -> PyResult<bool> {
        let (py, this) = (slf.py(), slf.get());
        if this.rule(py, |rules| rules.has_item_methods) {
            let is_written = this.store.with(py, |store| store.watches.is_written(ticket));
            if !is_written && matches!(life, Life::Usual) {
                slf.call_method1(intern!(py, "__setitem__"), (key, value))?;
            }
            if is_written || matches!(life, Life::Usual) {
                return Ok(!is_written);
            }
        }
        let unless = Unless::Written(ticket);
        let outcome = Self::put(slf, Entry { key, value, life, unless })?;
        Ok(!matches!(outcome, Put::Overtaken))
    }
}
