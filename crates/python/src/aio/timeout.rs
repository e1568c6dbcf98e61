//! What a `Timeout` does, which is what `tickwheel.aio.timeout` returns: `asyncio.Timeout` with its bookkeeping in a wheel.

use std::ptr::null_mut;

use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::aio::deadlines::Deadlines;
use crate::aio::handle::put;
use crate::aio::running::{cancelling, current_task, running_loop};
use crate::aio::time::{deadline_of, plain_seconds};
use crate::aio::timeout_object::{new, Phase, TimeoutObject};
use crate::cpython::errors::raise;
use crate::once::intern;

/// `timeout(delay)`; `delay` is borrowed.
///
/// # Safety
///
/// `delay` is an object.
#[inline]
pub(crate) unsafe fn after(py: Python<'_>, delay: *mut ffi::PyObject) -> PyResult<*mut ffi::PyObject> {
    // SAFETY: `delay` is an object.
    unsafe {
        let deadlines = Deadlines::of(&running_loop(py)?)?;
        if let Some(delay) = plain_seconds(delay) {
            if delay.is_nan() {
                return Err(raise(py, "InvalidDelayError", ("delay", delay)));
            }
            let now = deadlines.get().time(py)?;
            return new(py, Some(deadlines.into_any()), now + delay, null_mut(), delay > 0.0);
        }
        if delay == ffi::Py_None() {
            return new(py, Some(deadlines.into_any()), f64::INFINITY, delay, false);
        }
        let when = deadlines.get().time_object(py)?.add(Borrowed::from_ptr(py, delay))?;
        at(py, when.as_ptr())
    }
}

/// `timeout_at(when)`; `when` is borrowed.
///
/// # Safety
///
/// `when` is an object.
pub(crate) unsafe fn at(py: Python<'_>, when: *mut ffi::PyObject) -> PyResult<*mut ffi::PyObject> {
    // SAFETY: `when` is an object, and so is what is read of it, or null.
    unsafe {
        let (seconds, given) = read(py, when)?;
        new(py, None, seconds, given, false)
    }
}

/// A deadline as a float, and as it was given if that is not a float.
unsafe fn read(py: Python<'_>, when: *mut ffi::PyObject) -> PyResult<(f64, *mut ffi::PyObject)> {
    // SAFETY: `when` is an object.
    unsafe {
        if when == ffi::Py_None() {
            return Ok((f64::INFINITY, when));
        }
        let seconds = Borrowed::from_ptr(py, when).extract::<f64>()?;
        deadline_of(py, seconds)?; // refuses NaN
        Ok((seconds, if ffi::PyFloat_CheckExact(when) != 0 { null_mut() } else { when }))
    }
}

impl TimeoutObject {
    /// What awaiting `__aenter__` does.
    ///
    /// # Safety
    ///
    /// The caller has a reference to the timeout.
    pub(crate) unsafe fn enter(py: Python<'_>, timeout: *mut Self) -> PyResult<()> {
        // SAFETY: the timeout is alive, and no reference into it lives across a call into Python.
        unsafe {
            if (*timeout).phase != Phase::Created {
                return Err(PyRuntimeError::new_err("Timeout has already been entered"));
            }
            if (*timeout).deadlines.is_null() {
                put(&raw mut (*timeout).deadlines, Deadlines::of(&running_loop(py)?)?.into_ptr());
            }
            let deadlines = Self::deadlines(py, timeout);
            let task = current_task(py, deadlines.get().home.bind(py))?;
            if task.is_none() {
                return Err(PyRuntimeError::new_err("Timeout should be used inside a task"));
            }
            (*timeout).cancelling = cancelling(&task)?;
            put(&raw mut (*timeout).task, task.into_ptr());
            (*timeout).phase = Phase::Active;
            Self::set(py, timeout)
        }
    }

    /// The wheel of a timeout that was entered.
    #[inline]
    unsafe fn deadlines(py: Python<'_>, timeout: *mut Self) -> Bound<'_, Deadlines> {
        // SAFETY: set by then, and let go of only when nobody can reach it.
        unsafe { Bound::from_borrowed_ptr(py, (*timeout).deadlines).cast_into_unchecked() }
    }

    /// File the timeout under its deadline; one that is due is called in the loop's next turn.
    #[inline]
    unsafe fn set(py: Python<'_>, timeout: *mut Self) -> PyResult<()> {
        // SAFETY: the caller's reference keeps the timeout, which has its wheel once it was entered.
        unsafe {
            if (*timeout).given == ffi::Py_None() {
                return Ok(());
            }
            let deadlines = Self::deadlines(py, timeout);
            if !(*timeout).is_ahead && (*timeout).when <= deadlines.get().time(py)? {
                let on_timeout = Borrowed::from_ptr(py, timeout.cast()).getattr(intern!(py, "_on_timeout"))?;
                let soon = deadlines.get().home.bind(py).call_method1(intern!(py, "call_soon"), (on_timeout,))?;
                put(&raw mut (*timeout).soon, soon.into_ptr());
                return Ok(());
            }
            let deadline = deadline_of(py, (*timeout).when)?;
            Deadlines::insert(&deadlines, timeout, deadline)
        }
    }

    /// Take the timeout out of the wheel, or its handle out of the loop.
    #[inline]
    unsafe fn unset(py: Python<'_>, timeout: *mut Self) -> PyResult<()> {
        // SAFETY: the caller's reference keeps the timeout; the handle is taken out before it is let go.
        unsafe {
            if (*timeout).id != 0 {
                Self::deadlines(py, timeout).get().withdraw(py, timeout);
            }
            if !(*timeout).soon.is_null() {
                let soon = Bound::from_owned_ptr(py, std::mem::replace(&mut (*timeout).soon, null_mut()));
                soon.call_method0(intern!(py, "cancel"))?;
            }
            Ok(())
        }
    }

    /// `reschedule(when)`; `when` is borrowed.
    ///
    /// # Safety
    ///
    /// The caller has a reference to the timeout and to `when`.
    pub(crate) unsafe fn reschedule(py: Python<'_>, timeout: *mut Self, when: *mut ffi::PyObject) -> PyResult<()> {
        // SAFETY: both are alive, and the fields are written with no reference into the timeout left.
        unsafe {
            match (*timeout).phase {
                Phase::Active => {}
                Phase::Created => return Err(PyRuntimeError::new_err("Timeout has not been entered")),
                phase => {
                    let text = format!("Cannot change state of {} Timeout", phase.name());
                    return Err(PyRuntimeError::new_err(text));
                }
            }
            let (seconds, given) = read(py, when)?;
            Self::unset(py, timeout)?;
            (*timeout).when = seconds;
            (*timeout).is_ahead = false;
            put(&raw mut (*timeout).given, ffi::Py_XNewRef(given));
            Self::set(py, timeout)
        }
    }

    /// `__aexit__`; the exception is borrowed.
    ///
    /// # Safety
    ///
    /// The caller has a reference to the timeout, `kind` and `error`.
    pub(crate) unsafe fn exit(
        py: Python<'_>,
        timeout: *mut Self,
        kind: *mut ffi::PyObject,
        error: *mut ffi::PyObject,
    ) -> PyResult<()> {
        // SAFETY: all three are alive, and a timeout that was entered has a task until it is left.
        unsafe {
            Self::unset(py, timeout)?;
            match (*timeout).phase {
                Phase::Active => (*timeout).phase = Phase::Finished,
                Phase::Expiring => {
                    (*timeout).phase = Phase::Expired;
                    let task = Borrowed::from_ptr(py, (*timeout).task).to_owned();
                    let left: i64 = task.call_method0(intern!(py, "uncancel"))?.extract()?;
                    if left <= (*timeout).cancelling && kind != ffi::Py_None() {
                        // Rare, and as asyncio of this version has it: written in Python.
                        let settle = py.import("tickwheel.aio._settle")?.getattr("settle")?;
                        settle.call1((Borrowed::from_ptr(py, kind), Borrowed::from_ptr(py, error)))?;
                    }
                }
                _ => return Err(PyRuntimeError::new_err("Timeout has not been entered, or was left before")),
            }
            put(&raw mut (*timeout).task, null_mut());
            Ok(())
        }
    }
}
