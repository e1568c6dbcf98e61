//! By which rules a cache keeps things: plain numbers, read once by every call, and the objects that it asks or notifies.

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;

use crate::cache::store::Instant;
use crate::once::intern;
use crate::system_clock::SystemClock;

/// What a call looks at.
#[derive(Default)]
#[allow(clippy::struct_excessive_bools)] // each is an answer of its own, none a state
pub(crate) struct Rules {
    /// How long a value lives, in nanoseconds.
    pub(crate) life: u64,
    /// Its longest age.
    pub(crate) max_age: u64,
    /// By what fraction of itself a life is shorter or longer, at most.
    pub(crate) jitter: f64,
    pub(crate) has_sizer: bool,
    pub(crate) has_lifetime: bool,
    pub(crate) has_on_leave: bool,
    /// Whether `expire` or `popitem` are a subclass's own.
    pub(crate) is_overridden: bool,
    /// Whether `__setitem__` or another method of single items is a subclass's own.
    pub(crate) has_item_methods: bool,
}

/// The objects.
#[derive(Default)]
pub(crate) struct Hooks {
    /// Has `monotonic_ns()`.
    pub(crate) clock: Option<Py<PyAny>>,
    /// From a value to its size.
    pub(crate) sizer: Option<Py<PyAny>>,
    /// From key and value to the time and the life, in nanoseconds.
    pub(crate) lifetime: Option<Py<PyAny>>,
    /// Gets key, value and reason of what has left.
    pub(crate) on_leave: Option<Py<PyAny>>,
    /// Called when something is due before the driver comes.
    pub(crate) on_earlier: Option<Py<PyAny>>,
}

impl Hooks {
    /// Read the clock that is an object.
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
