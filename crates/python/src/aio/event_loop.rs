//! `TimerLoop`: the native base of `tickwheel.aio.EventLoop`, which also derives from asyncio's selector loop.
//! `TimerLoop` holds the wheel with the timers.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::OnceLock;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyString;
use tickwheel_core::{Expired, Id, Wheel};

use crate::aio::alarm::Alarm;
use crate::aio::handle::{leave, tail, HandleObject};
use crate::aio::time::{Genuine, Reader, Time};
use crate::cpython::cell::GilCell;

/// A strong reference in a wheel, which must be released explicitly.
pub(crate) struct Pending<T>(pub(crate) *mut T);

// SAFETY: an address is a number, which only a thread that holds the GIL uses to access the object.
unsafe impl<T> Send for Pending<T> {}

/// The state of a `TimerLoop`, which the GIL guards.
pub(crate) struct State {
    pub(crate) wheel: Wheel<Pending<HandleObject>>,
    pub(crate) is_closed: bool,
}

/// Flags that every call reads: whether `time` and `call_at` were assigned on this loop object, and the loop's
/// `_debug`.
#[derive(Default)]
pub(crate) struct Own {
    time: AtomicBool,
    call_at: AtomicBool,
    debug: AtomicBool,
}

/// The timers of an event loop. This is a base class of `tickwheel.aio.EventLoop`, and is not used alone.
///
/// Every method must be called in the loop's thread, as with asyncio's loops.
#[pyclass(frozen, subclass, module = "tickwheel._core")]
pub(crate) struct TimerLoop {
    pub(crate) state: GilCell<State>,
    pub(crate) reader: Reader,
    pub(crate) call_at: Genuine,
    /// Flags for attributes that were assigned on the loop object itself, for example by tests that freeze its time.
    /// `__setattr__` updates them.
    pub(crate) own: Own,
    pub(crate) alarm: OnceLock<Py<Alarm>>,
    /// True if the last iteration of the loop reached its limit of work while timers were still due.
    pub(crate) is_behind: AtomicBool,
}

impl Drop for State {
    fn drop(&mut self) {
        let left = self.wheel.drain();
        if !left.is_empty() {
            Python::attach(|py| release(py, left));
        }
    }
}

/// Release pending timers without cancelling them, as asyncio does when a loop is closed.
pub(crate) fn release(_py: Python<'_>, left: Vec<Expired<Pending<HandleObject>>>) {
    for entry in left {
        // SAFETY: the entry is out of the wheel, so its reference is ours.
        unsafe {
            leave(entry.payload.0);
            ffi::Py_DECREF(entry.payload.0.cast());
        }
    }
}

impl TimerLoop {
    /// Return `object` as a `TimerLoop`, or `None` if it has another type. The object is the loop of a handle.
    ///
    /// # Safety
    ///
    /// `object` is null, or lives as long as the result is used.
    #[inline]
    pub(crate) unsafe fn of(py: Python<'_>, object: *mut ffi::PyObject) -> Option<&Self> {
        // SAFETY: `object` is null or lives as long as the result is used.
        let object = unsafe { Borrowed::from_ptr_or_opt(py, object) }?;
        object.cast().ok().map(Borrowed::get)
    }

    /// Remove the entry `id` from the wheel, if it is the entry of `handle`. Return true if it was removed.
    #[inline]
    pub(crate) fn take(&self, py: Python<'_>, id: Id, handle: *mut HandleObject) -> bool {
        self.state.with(py, |state| {
            let is_here = state.wheel.get(id).is_some_and(|(_, pending)| pending.0 == handle);
            is_here && state.wheel.cancel(id).is_some()
        })
    }

    /// True if the loop is in debug mode.
    #[inline]
    pub(crate) fn is_debug(&self) -> bool {
        self.own.debug.load(Ordering::Relaxed)
    }

    /// Return the loop's time.
    #[inline]
    pub(crate) fn now(slf: &Bound<'_, Self>) -> PyResult<Time> {
        let this = slf.get();
        this.reader.now(slf, this.own.time.load(Ordering::Relaxed))
    }

    /// True if `call_at` is not overridden, so that `call_later` need not call it.
    #[inline]
    pub(crate) fn is_call_at_genuine(slf: &Bound<'_, Self>) -> PyResult<bool> {
        let this = slf.get();
        // SAFETY: the object and its type are alive.
        let is_genuine = unsafe { this.call_at.is_in(slf.py(), slf.get_type_ptr())? };
        Ok(is_genuine && !this.own.call_at.load(Ordering::Relaxed))
    }

    /// Set or delete an attribute of the loop object as usual. If the attribute is one of those in `Own`, update the
    /// flag in `own`.
    pub(crate) fn assign(
        slf: &Bound<'_, Self>,
        name: &Bound<'_, PyString>,
        value: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let word = value.map_or(null_mut(), Bound::as_ptr);
        // SAFETY: object and name are alive, and so is the value, unless it is null, which deletes the attribute.
        if unsafe { ffi::PyObject_GenericSetAttr(slf.as_ptr(), name.as_ptr(), word) } != 0 {
            return Err(PyErr::fetch(slf.py()));
        }
        let own = &slf.get().own;
        match name.to_str()? {
            "time" => own.time.store(value.is_some(), Ordering::Relaxed),
            "call_at" => own.call_at.store(value.is_some(), Ordering::Relaxed),
            "_debug" => own.debug.store(value.map_or(Ok(false), PyAnyMethods::is_truthy)?, Ordering::Relaxed),
            _ => {}
        }
        Ok(())
    }

    /// Insert a handle into the wheel, which takes a reference to it.
    #[inline]
    pub(crate) fn file(&self, py: Python<'_>, handle: *mut HandleObject, deadline: u64) {
        // SAFETY: the caller holds the handle, which is not in a wheel yet.
        unsafe {
            ffi::Py_INCREF(handle.cast());
            tail(handle).id = self.state.with(py, |state| state.wheel.insert(deadline, Pending(handle)).to_u64());
        }
    }
}
