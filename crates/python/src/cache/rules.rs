//! The rules of a cache: the numbers that every operation reads, and the objects that the cache calls.

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;

use crate::cache::store::Instant;
use crate::once::intern;
use crate::system_clock::SystemClock;

/// The rules of a cache that every operation reads. They are numbers and flags.
#[derive(Default)]
#[allow(clippy::struct_excessive_bools)] // these flags are independent, and not states
pub(crate) struct Rules {
    /// Default lifetime of a value in nanoseconds.
    pub(crate) life: u64,
    /// Maximum age of a value in nanoseconds.
    pub(crate) max_age: u64,
    /// Maximum fraction by which jitter makes a lifetime shorter or longer.
    pub(crate) jitter: f64,
    pub(crate) has_sizer: bool,
    pub(crate) has_lifetime: bool,
    pub(crate) has_on_leave: bool,
    /// True if a subclass overrides `expire` or `popitem`.
    pub(crate) is_overridden: bool,
    /// True if a subclass overrides `__setitem__` or another method for single items.
    pub(crate) has_item_methods: bool,
}

/// The clock of a cache, and the callables that the cache calls.
#[derive(Default)]
pub(crate) struct Hooks {
    /// An object with `monotonic_ns()`.
    pub(crate) clock: Option<Py<PyAny>>,
    /// Returns the size of a value.
    pub(crate) sizer: Option<Py<PyAny>>,
    /// Takes a key and a value. Returns the current time and the lifetime of the entry, in nanoseconds.
    pub(crate) lifetime: Option<Py<PyAny>>,
    /// Called with the key, the value and the reason when an entry has left.
    pub(crate) on_leave: Option<Py<PyAny>>,
    /// Called when a deadline is set that is earlier than the armed deadline.
    pub(crate) on_earlier: Option<Py<PyAny>>,
}

impl Hooks {
    /// Read the time from a clock that is a Python object.
    pub(crate) fn now(clock: Option<Py<PyAny>>, py: Python<'_>) -> PyResult<Instant> {
        let Some(clock) = clock else {
            return Ok(Instant(SystemClock::MONOTONIC.now_ns().into()));
        };
        let reading = clock.bind(py).call_method0(intern!(py, "monotonic_ns"))?;
        let now: i128 = reading.extract::<i64>().map_or_else(|_| reading.extract(), |now| Ok(now.into()))?;
        Ok(Instant(now.max(0).cast_unsigned()))
    }

    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        let all = [&self.clock, &self.sizer, &self.lifetime, &self.on_leave, &self.on_earlier];
        all.into_iter().try_for_each(|hook| visit.call(hook))
    }
}
