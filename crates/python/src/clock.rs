//! Reading the clock, and seconds in nanoseconds: the fast path of `tickwheel.clock`.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDelta, PyDeltaAccess};
use tickwheel_core::NEVER;

use crate::once::intern;
use crate::system_clock::SystemClock;

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

/// `tickwheel.clock.seconds`.
#[inline]
pub(crate) fn seconds(ns: u64) -> f64 {
    if ns >= NEVER {
        f64::INFINITY
    } else {
        ns.cast_signed() as f64 / 1e9 // a signed integer becomes a float in one instruction
    }
}

/// The fast path of `tickwheel.clock.to_deadline`: a float or an int that is neither NaN nor out of range. A timedelta is read here too;
/// everything else, and every error, is that function's.
///
/// # Safety
///
/// The GIL is held and `value` is an object.
#[inline]
pub(crate) unsafe fn to_ns(py: Python<'_>, value: *mut ffi::PyObject, name: &str) -> PyResult<u64> {
    // SAFETY: an exact float or int is checked before it is read.
    unsafe {
        if ffi::PyFloat_CheckExact(value) != 0 {
            let value = ffi::PyFloat_AS_DOUBLE(value);
            if USUAL.contains(&value) {
                return Ok(least_ns(value));
            }
        } else if ffi::PyLong_CheckExact(value) != 0 {
            let mut overflow = 0;
            let value = ffi::PyLong_AsLongLongAndOverflow(value, &raw mut overflow);
            if overflow == 0 && EXACT.contains(&value) {
                return Ok(value.cast_unsigned() * NS_PER_S);
            }
        }
    }
    to_ns_slowly(py, value, name)
}

/// The same for a bare float.
#[inline]
pub(crate) fn float_to_ns(py: Python<'_>, value: f64, name: &str) -> PyResult<u64> {
    if USUAL.contains(&value) {
        return Ok(least_ns(value));
    }
    to_ns_slowly(py, value.into_pyobject(py)?.as_ptr(), name)
}

const NS_PER_S: u64 = 1_000_000_000;

/// Seconds that are neither negative nor NaN nor past `NEVER`.
const USUAL: std::ops::Range<f64> = 0.0..9.2e9;

/// Whole seconds whose nanoseconds a float counts one by one, so that they read as neither less nor more.
const EXACT: std::ops::RangeInclusive<i64> = 0..=(1 << 53) / NS_PER_S as i64;

/// 26 days in nanoseconds. Below, `value * 1e9` is rounded by an eighth of one at most, and `n / 1e9` by a quarter.
const NEAR: f64 = (1_u64 << 51) as f64;

/// The least `n` with `n / 1e9 >= value`.
#[inline]
fn least_ns(value: f64) -> u64 {
    let product = value * 1e9;
    if product < NEAR {
        // So its whole part less one is too small, and the whole part plus one is enough: one division finds which it is.
        let whole = product as i64;
        return (whole + i64::from((whole as f64 / 1e9) < value)).cast_unsigned();
    }
    let mut ns = product.ceil() as u64;
    while (ns - 1) as f64 / 1e9 >= value {
        ns -= 1;
    }
    while (ns as f64 / 1e9) < value {
        ns += 1;
    }
    ns
}

/// The nanoseconds of a timedelta that is neither negative nor so long that a float rounds them.
fn delta_ns(delta: &Bound<'_, PyDelta>) -> Option<u64> {
    let whole = i64::from(delta.get_days()) * 86_400 + i64::from(delta.get_seconds());
    let ns = u64::try_from(whole).ok()? * NS_PER_S + u64::try_from(delta.get_microseconds()).ok()? * 1_000;
    EXACT.contains(&(whole + 1)).then_some(ns)
}

#[cold]
fn to_ns_slowly(py: Python<'_>, value: *mut ffi::PyObject, name: &str) -> PyResult<u64> {
    // SAFETY: the caller holds a reference to `value`.
    let value = unsafe { Borrowed::from_ptr(py, value) };
    if let Some(ns) = value.cast_exact::<PyDelta>().ok().and_then(|delta| delta_ns(&delta)) {
        return Ok(ns);
    }
    py.import(intern!(py, "tickwheel.clock"))?.call_method1(intern!(py, "to_deadline"), (&*value, name))?.extract()
}
