//! Reading the clock, and its seconds in nanoseconds.

use crate::once::intern;
use crate::system_clock::SystemClock;
pub(crate) use crate::units::{seconds, to_ns};
use pyo3::prelude::*;

/// Where the time of an engine or a cache comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    /// `MonotonicClock` and `BootClock` themselves, read without a Python call.
    System(SystemClock),
    /// Anything with `monotonic_ns()`.
    Object,
}

impl Clock {
    /// What `MonotonicClock` is.
    pub(crate) const MONOTONIC: Self = Self::System(SystemClock::MONOTONIC);

    /// Recognise a clock by its exact type; a subclass may have changed it.
    pub(crate) fn of(clock: &Bound<'_, PyAny>) -> PyResult<Self> {
        let module = clock.py().import("tickwheel.clock")?;
        let kind = clock.get_type();
        if kind.is(module.getattr("MonotonicClock")?) {
            return Ok(Self::MONOTONIC);
        }
        if kind.is(module.getattr("BootClock")?) {
            return Ok(Self::System(SystemClock::BOOT));
        }
        Ok(Self::Object)
    }

    /// Nanoseconds, in 0..NEVER.
    #[inline]
    pub(crate) fn now(self, clock: &Py<PyAny>, py: Python<'_>) -> PyResult<u64> {
        match self {
            Self::System(clock) => Ok(clock.now_ns()),
            Self::Object => {
                let now: i64 = clock.bind(py).call_method0(intern!(py, "monotonic_ns"))?.extract()?;
                Ok(now.max(0).cast_unsigned())
            }
        }
    }
}
