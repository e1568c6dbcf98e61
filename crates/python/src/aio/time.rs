//! The time of a loop. It is read natively, unless a subclass overrides `time`, or a test replaces `loop.time` or
//! `time.monotonic`.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyString, PyType};
use tickwheel_core::NEVER;

use crate::clock::{read, seconds, Number};
use crate::cpython::errors::raise;
use crate::cpython::method::function_of;
use crate::once::intern;
use crate::system_clock::SystemClock;

/// Checks that an attribute of a class still has its original value, that is, that it was neither overridden nor
/// patched in the class or in a base class.
pub(crate) struct Genuine {
    name: Py<PyString>,
    original: Py<PyAny>,
    /// The version tag of the class that was last checked, or 0. The interpreter assigns a new tag whenever the class
    /// changes.
    version: AtomicU32,
    is_so: AtomicBool,
}

impl Genuine {
    /// Make a checker for the attribute `name`, whose value in an unchanged class is the object `original`. None as
    /// `original` means that the value is unknown; then no class passes the check.
    pub(crate) fn new(name: &Bound<'_, PyString>, original: Bound<'_, PyAny>) -> Self {
        Self {
            name: name.clone().unbind(),
            original: original.unbind(),
            version: AtomicU32::new(0),
            is_so: AtomicBool::new(false),
        }
    }

    /// True if the watched attribute still has its original value in the type `kind`.
    ///
    /// # Safety
    ///
    /// `kind` is a living type.
    #[inline]
    pub(crate) unsafe fn is_in(&self, py: Python<'_>, kind: *mut ffi::PyTypeObject) -> PyResult<bool> {
        // SAFETY: the caller keeps the type alive.
        let version = unsafe { (*kind).tp_version_tag };
        if version != 0 && version == self.version.load(Ordering::Relaxed) {
            return Ok(self.is_so.load(Ordering::Relaxed));
        }
        // SAFETY: the type is alive during the call.
        unsafe { self.look(py, kind) }
    }

    #[cold]
    unsafe fn look(&self, py: Python<'_>, kind: *mut ffi::PyTypeObject) -> PyResult<bool> {
        // SAFETY: the type is alive, and the lookup assigns it a version tag.
        unsafe {
            let class = PyType::from_borrowed_type_ptr(py, kind);
            self.is_so.store(class.getattr(&self.name)?.is(&self.original), Ordering::Relaxed);
            self.version.store((*kind).tp_version_tag, Ordering::Relaxed);
        }
        Ok(self.is_so.load(Ordering::Relaxed))
    }
}

/// A reading of a loop's clock.
#[derive(Clone, Copy)]
pub(crate) enum Time {
    /// Nanoseconds of the system's monotonic clock.
    System(u64),
    /// Seconds of the loop's own clock.
    Own(f64),
}

impl Time {
    /// Return the float that `loop.time()` returns.
    #[inline]
    pub(crate) fn seconds(self) -> f64 {
        match self {
            Self::System(ns) => seconds(ns),
            Self::Own(seconds) => seconds,
        }
    }

    /// Return the latest deadline, in nanoseconds, that can be due at this time.
    #[inline]
    pub(crate) fn deadline(self, py: Python<'_>) -> PyResult<u64> {
        match self {
            Self::System(ns) => Ok(ns),
            Self::Own(seconds) => Ok(deadline_of(py, seconds)?.min(NEVER - 1)),
        }
    }
}

/// Reads the time of a loop. If `loop.time` and `time.monotonic` are the originals, it reads the system's clock itself;
/// otherwise it calls `loop.time()`.
pub(crate) struct Reader {
    time: Genuine,
    monotonic: Py<PyAny>,
    module: Py<PyModule>,
    /// The names in the module `time`.
    names: Py<PyDict>,
    /// The dict in which asyncio's `loop.time` finds the module `time`.
    base: Py<PyDict>,
}

impl Reader {
    pub(crate) fn new(py: Python<'_>) -> PyResult<Self> {
        let name = intern!(py, "time");
        let base = py.import("asyncio.base_events")?;
        let (module, base_names) = (py.import(name)?, base.dict());
        // If the attribute was replaced before the first loop was made, the replacement must not count as the original.
        let asked = base.getattr("BaseEventLoop")?.getattr(name)?;
        let is_asyncios = asked.getattr_opt(intern!(py, "__globals__"))?.is_some_and(|globals| globals.is(&base_names));
        let monotonic = module.getattr("monotonic")?;
        let is_systems = monotonic.is_instance_of::<PyCFunction>() && monotonic.getattr("__name__")?.eq("monotonic")?;
        let none = py.None().into_bound(py);
        Ok(Self {
            time: Genuine::new(name, if is_asyncios { asked } else { none.clone() }),
            monotonic: if is_systems { monotonic } else { none }.unbind(),
            names: module.dict().unbind(),
            module: module.unbind(),
            base: base_names.unbind(),
        })
    }

    /// True if `time.monotonic` is the system's function.
    #[inline]
    fn is_monotonic_genuine(&self, py: Python<'_>) -> bool {
        find(self.names.bind(py), intern!(py, "monotonic")) == self.monotonic.as_ptr()
    }

    /// Return the time of a loop. `has_own` is true if `time` was assigned on the loop object itself.
    #[inline]
    pub(crate) fn now(&self, object: &Bound<'_, PyAny>, has_own: bool) -> PyResult<Time> {
        let py = object.py();
        // SAFETY: the object and its type are alive.
        let is_system =
            unsafe { !has_own && self.time.is_in(py, ffi::Py_TYPE(object.as_ptr()))? && self.is_monotonic_genuine(py) };
        if is_system {
            return Ok(Time::System(SystemClock::MONOTONIC.now_ns()));
        }
        object.call_method0(intern!(py, "time"))?.extract().map(Time::Own)
    }

    /// Return the time of an asyncio loop that is not a `TimerLoop`. The loop's method `time` is called only if it is
    /// not asyncio's own.
    pub(crate) fn ask(&self, object: &Bound<'_, PyAny>) -> PyResult<Time> {
        let (py, name) = (object.py(), intern!(object.py(), "time"));
        let time = object.getattr(name)?;
        // SAFETY: the object is alive.
        let is_asyncios = unsafe { function_of(time.as_ptr()) } == Some(self.time.original.as_ptr());
        if is_asyncios && find(self.base.bind(py), name) == self.module.as_ptr() && self.is_monotonic_genuine(py) {
            return Ok(Time::System(SystemClock::MONOTONIC.now_ns()));
        }
        time.call0()?.extract().map(Time::Own)
    }
}

/// Return the value of `key`, borrowed, or null if the key is missing. The key is an interned string.
#[inline]
pub(crate) fn find(dict: &Bound<'_, PyDict>, key: &Bound<'_, PyString>) -> *mut ffi::PyObject {
    // SAFETY: both are alive, and hashing and comparing a string cannot fail.
    unsafe { ffi::PyDict_GetItemWithError(dict.as_ptr(), key.as_ptr()) }
}

/// Return the seconds of a delay or an instant of any supported type; NaN and None are refused.
///
/// # Safety
///
/// `value` points to a living object.
#[inline]
pub(crate) unsafe fn seconds_of(py: Python<'_>, value: *mut ffi::PyObject, name: &str) -> PyResult<f64> {
    // SAFETY: the type of an exact float is checked before it is read.
    unsafe {
        if ffi::PyFloat_CheckExact(value) != 0 {
            let seconds = ffi::PyFloat_AS_DOUBLE(value);
            if !seconds.is_nan() {
                return Ok(seconds);
            }
        } else if ffi::PyLong_Check(value) != 0 {
            let seconds = ffi::PyFloat_AsDouble(value); // as when Python adds it to a float, which fails for 10**400
            return if seconds < 0.0 { PyErr::take(py).map_or(Ok(seconds), Err) } else { Ok(seconds) };
        }
        read(&Borrowed::from_ptr(py, value), name).map(Number::seconds)
    }
}

/// Return the deadline for an instant in seconds; NaN is refused.
#[inline]
pub(crate) fn deadline_of(py: Python<'_>, when: f64) -> PyResult<u64> {
    if when.is_nan() {
        return Err(raise(py, "InvalidDelayError", ("when", when)));
    }
    Ok(Number::Float(when).deadline())
}
