//! `Timer`, the handle: 48 bytes, from a free list, invisible to the garbage collector.
//!
//! The collector sees a pending timer's callback through the engine, which shows what its timers refer to; a timer that has ended refers
//! to nothing. So a million handles cost a collection nothing but a walk, and no cycle through a handle is missed.
//!
//! Written against the C interface: `docs/decisions/native-binding.md` has the figures.

use std::ptr::{addr_of_mut, null_mut};

use pyo3::ffi;
use pyo3::prelude::*;
use tickwheel_core::Id;

use crate::cpython::call::Call;
use crate::cpython::spares::Spares;
use crate::timers::coroutine::settle;
use crate::timers::engine::Engine;

/// `TimerObject::id` while the callback is being called.
pub(crate) const FIRING: u64 = 0;
/// `TimerObject::id` after it.
pub(crate) const FIRED: u64 = 1;
/// `TimerObject::id` after a cancel, drain or close.
pub(crate) const CANCELLED: u64 = 2;

/// The layout of a `Timer`. Every field is touched with the GIL held only.
#[repr(C)]
pub(crate) struct TimerObject {
    ob_base: ffi::PyObject,
    /// The engine, kept alive by its count of living timers; null once the timer has ended.
    engine: *mut ffi::PyObject,
    /// What to call; none once the timer has ended.
    pub(crate) call: Call,
    /// The entry's id while pending; else a state, all of which are below every id.
    pub(crate) id: u64,
    pub(crate) deadline: u64,
}

/// A free-threaded interpreter's objects begin with 16 bytes more.
const SIZE_MAX: usize = if cfg!(Py_GIL_DISABLED) { 64 } else { 48 };
const _: () = assert!(size_of::<TimerObject>() <= SIZE_MAX, "a handle fits one of the allocator's classes");

static mut TYPE: *mut ffi::PyTypeObject = null_mut();
static mut SPARES: Spares = Spares::new();

/// Make a handle, with one reference, of a timer that is not yet filed; takes over `call`.
///
/// # Safety
///
/// The GIL is held; `engine` is an `Engine`.
#[inline]
pub(crate) unsafe fn new(engine: *mut ffi::PyObject, call: Call, deadline: u64) -> PyResult<*mut TimerObject> {
    // SAFETY: the spares are dead handles of this very type; the GIL keeps others out of them.
    unsafe {
        let mut timer = (*addr_of_mut!(SPARES)).take::<TimerObject>();
        if timer.is_null() {
            timer = ffi::PyType_GenericAlloc(TYPE, 0).cast::<TimerObject>();
            if timer.is_null() {
                call.release();
                return Err(PyErr::fetch(Python::assume_attached()));
            }
        } else {
            ffi::PyObject_Init(timer.cast(), TYPE);
        }
        (*timer).engine = engine;
        (*timer).engine(Python::assume_attached()).get().living.enter(engine);
        (*timer).call = call;
        (*timer).id = FIRING;
        (*timer).deadline = deadline;
        Ok(timer)
    }
}

impl TimerObject {
    /// Whether the timer stands in the wheel.
    #[inline]
    pub(crate) fn is_pending(&self) -> bool {
        self.id > CANCELLED
    }

    /// The engine of a timer that has not ended.
    ///
    /// # Safety
    ///
    /// The GIL is held, and the timer keeps its engine for as long as the answer is used.
    #[inline]
    pub(crate) unsafe fn engine<'py>(&self, py: Python<'py>) -> Borrowed<'py, 'py, Engine> {
        // SAFETY: `new` was given an `Engine`.
        unsafe { Borrowed::from_ptr(py, self.engine).cast_unchecked() }
    }

    /// The engine, to show to the collector.
    pub(crate) fn engine_pointer(&self) -> *mut ffi::PyObject {
        self.engine
    }

    /// End the timer and let go of what it refers to. Runs Python: no cell may be entered.
    ///
    /// # Safety
    ///
    /// The GIL is held, the timer is in no wheel, and the caller has a reference to it.
    #[inline]
    pub(crate) unsafe fn end(this: *mut Self, state: u64) {
        // SAFETY: the fields are made final first, so whatever Python runs in the releases finds a timer that has ended.
        unsafe {
            let call = std::mem::replace(&mut (*this).call, Call::NONE);
            let engine = std::mem::replace(&mut (*this).engine, null_mut());
            (*this).id = state;
            if !call.is_none() {
                call.release();
            }
            if !engine.is_null() {
                Borrowed::from_ptr(Python::assume_attached(), engine)
                    .cast_unchecked::<Engine>()
                    .get()
                    .living
                    .leave(engine);
            }
        }
    }

    /// Call the callback; afterwards the timer has fired, unless it was given a new life meanwhile. Null if it raised.
    ///
    /// # Safety
    ///
    /// The GIL is held, the timer is firing, no cell is entered, and the caller has a reference to the timer and its engine.
    #[inline]
    pub(crate) unsafe fn fire(py: Python<'_>, this: *mut Self, engine: &Engine) -> *mut ffi::PyObject {
        // SAFETY: the timer might lose its own reference to the call when it is given a new life and that is cancelled.
        unsafe {
            let call = (*this).call;
            call.retain();
            let result = call.call(|result| settle(engine, py, result, call.words()[0], this.cast()));
            if (*this).id == FIRING {
                Self::end(this, FIRED);
            }
            call.release();
            result
        }
    }
}

/// `tp_dealloc`: keep the handle for reuse.
pub(crate) unsafe extern "C" fn dealloc(object: *mut ffi::PyObject) {
    // SAFETY: a timer in a wheel is referred to by it, so this one has ended, or was never filed.
    unsafe {
        let timer = object.cast::<TimerObject>();
        TimerObject::end(timer, FIRED);
        let kind = ffi::Py_TYPE(object);
        if !(*addr_of_mut!(SPARES)).keep(timer) {
            ffi::PyObject_Free(object.cast());
        }
        ffi::Py_DECREF(kind.cast());
    }
}

/// Take a timer out of its wheel; false if it is in none.
///
/// # Safety
///
/// The GIL is held, no cell is entered, and the caller has a reference to the timer.
#[inline]
pub(crate) unsafe fn cancel(py: Python<'_>, timer: *mut TimerObject) -> bool {
    // SAFETY: as the caller says; the wheel's reference to the timer is given up last.
    unsafe {
        if !(*timer).is_pending() {
            return false;
        }
        let id = Id::from_u64((*timer).id);
        let payload = (*timer).engine(py).get().cancel(py, id);
        assert!(payload.is_some(), "a pending timer is in its wheel");
        TimerObject::end(timer, CANCELLED);
        ffi::Py_DECREF(timer.cast());
        true
    }
}

/// Move a timer to a deadline that is known; false if it has ended.
///
/// # Safety
///
/// The GIL is held, no cell is entered, and the caller has a reference to the timer.
pub(crate) unsafe fn shift_to(py: Python<'_>, timer: *mut TimerObject, deadline: u64) -> PyResult<bool> {
    // SAFETY: as in `shift`.
    unsafe {
        if (*timer).engine.is_null() {
            return Ok(false);
        }
        let engine = (*timer).engine(py).to_owned();
        engine.get().shift(py, timer, deadline)
    }
}

/// Whether an object is a `Timer`.
pub(crate) fn is_timer(object: &Bound<'_, PyAny>) -> bool {
    // SAFETY: the type was set when the module was imported.
    unsafe { ffi::Py_TYPE(object.as_ptr()) == TYPE }
}

/// Tell this room what the type is, once.
///
/// # Safety
///
/// The GIL is held.
pub(crate) unsafe fn set_type(kind: *mut ffi::PyTypeObject) {
    // SAFETY: as the caller says.
    unsafe { TYPE = kind };
}
