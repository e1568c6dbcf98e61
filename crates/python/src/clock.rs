//! The clock, and the conversion of all numbers and times. The conversion turns a value into nanoseconds by the value's
//! type, or by a buffer's format and unit, or raises an error with the name of the parameter.
//!
//! An exact number (an int, a Fraction, a Decimal, or a timedelta of Python, NumPy or pandas) becomes the least number
//! of nanoseconds that is not below the exact value. A float becomes the least `n` with `n / 1e9 >= value`, so that 0.1
//! is 100,000,000 ns. The magnitude of a negative value is rounded in the same way, so that its sign survives.

pub(crate) mod buffer;
mod conversion;
mod functions;
mod number;
mod numpy;
mod scalar;

use crate::once::intern;
use crate::system_clock::SystemClock;

pub(crate) use conversion::invalid;
pub(crate) use functions::register;
pub(crate) use number::{seconds, Number};
use pyo3::prelude::*;
pub(crate) use scalar::{is_one, read, to_ns};

/// The clock of an engine or a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    /// `MonotonicClock` or `BootClock`, read without a Python call.
    System(SystemClock),
    /// Any object with `monotonic_ns()`.
    Object,
}

impl Clock {
    /// The clock of `MonotonicClock`.
    pub(crate) const MONOTONIC: Self = Self::System(SystemClock::MONOTONIC);

    /// Recognise a clock by its exact type, because a subclass may override its methods.
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

    /// Return the clock's time in nanoseconds; it is in 0..NEVER.
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
