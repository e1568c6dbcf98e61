//! `Timer`, the handle: 48 bytes from a free list or a huge page, which the garbage collector does not track.
//!
//! Instead, the engine traverses the references of its pending timers, and a timer that has ended has no references. So
//! a million handles cost a collection little, and no cycle through a handle is missed.
//!
//! The type is written with the C API, for the reasons in `docs/decisions/native-binding.md`.

use std::ffi::c_void;

use pyo3::ffi;
use pyo3::prelude::*;

use crate::cpython::blocks::Blocks;
use crate::cpython::call::Callback;
use crate::cpython::free_list::FreeList;
use crate::cpython::type_builder::KnownType;
use crate::timers::coroutine::settle;
use crate::timers::engine::Engine;
use crate::timers::handle::{TimerObject, CANCELLED, FIRED, FIRING, RUNNING};
use crate::timers::numbers::{ENGINES, NONE};
use crate::timers::proxy::note_failure;

/// Maximum number of dead handles that are kept, enough for the bursts of a busy server. They take up to 768 kB.
const KEPT: usize = 16 * 1024;

pub(crate) static TYPE: KnownType = KnownType::new();
static DEAD: FreeList<TimerObject> = FreeList::new(KEPT);
static BLOCKS: Blocks<TimerObject> = Blocks::new();

/// Make the handle of a timer that is not in the wheel yet. The handle has one reference, and takes over `call`.
///
/// # Safety
///
/// `engine` is an `Engine`.
#[inline]
pub(crate) unsafe fn new(
    py: Python<'_>,
    engine: *mut ffi::PyObject,
    call: Callback,
    deadline: u64,
) -> PyResult<*mut TimerObject> {
    // SAFETY: the free list holds dead handles of this type. Every field is written before the handle is visible.
    unsafe {
        let made = DEAD.object(py, TYPE.get(), || BLOCKS.object(py, TYPE.get()));
        let timer = match made {
            Ok(timer) => timer,
            Err(error) => {
                call.release(py);
                return Err(error);
            }
        };
        let living = &Borrowed::from_ptr(py, engine).cast_unchecked::<Engine>().get().living;
        (*timer).engine = living.enter(py, engine);
        (*timer).index = FIRING;
        (*timer).deadline = deadline;
        (*timer).sequence = 0;
        (*timer).call = call;
        Ok(timer)
    }
}

impl TimerObject {
    /// Return the engine of a timer that has not ended.
    ///
    /// # Safety
    ///
    /// The timer has an engine, and keeps it alive as long as the result is used.
    #[inline]
    pub(crate) unsafe fn engine<'py>(&self, py: Python<'py>) -> Borrowed<'py, 'py, Engine> {
        // SAFETY: only an `Engine` has a number, and the engine of a timer that has not ended is alive.
        unsafe { Borrowed::from_ptr(py, ENGINES.get(py, self.engine)).cast_unchecked() }
    }

    /// End the timer and release its references. This runs Python code, so the caller must not have a `GilCell`
    /// borrowed.
    ///
    /// # Safety
    ///
    /// The timer is in no wheel, and the caller has a reference to it.
    #[inline]
    pub(crate) unsafe fn end(py: Python<'_>, this: *mut Self, state: u32) {
        // SAFETY: the fields are final before the references are released, so Python code that this runs sees an ended
        // timer.
        unsafe {
            let call = std::mem::replace(&mut (*this).call, Callback::NONE);
            let engine = std::mem::replace(&mut (*this).engine, NONE);
            (*this).index = state;
            if !call.is_none() {
                call.release(py);
            }
            if engine != NONE {
                let engine = ENGINES.get(py, engine);
                Borrowed::from_ptr(py, engine).cast_unchecked::<Engine>().get().living.leave(engine);
            }
        }
    }

    /// Call the callback. Afterwards the timer has fired, unless it was rescheduled during the call, or an earlier call
    /// is still running. Return null if the callback raised.
    ///
    /// # Safety
    ///
    /// The timer is firing, no `GilCell` is borrowed, and the caller has a reference to the timer and its engine.
    #[inline]
    pub(crate) unsafe fn fire(py: Python<'_>, this: *mut Self, engine: &Engine) -> *mut ffi::PyObject {
        // SAFETY: we hold another reference to the call, because the timer may lose its own if it is rescheduled and
        // then cancelled.
        unsafe {
            let call = (*this).call;
            call.retain();
            (*this).begin_call();
            let result = call.call(|result| settle(engine, py, result, call.words()[0], this.cast()));
            if result.is_null() {
                note_failure(py, call.words()[0]);
            }
            if (*this).end_call() {
                Self::end(py, this, FIRED);
            }
            call.release(py);
            result
        }
    }

    /// Record that a call which waited for a worker will not be made. The timer then counts as fired. This runs Python
    /// code, so the caller must not have a `GilCell` borrowed.
    ///
    /// # Safety
    ///
    /// The caller has a reference to the timer.
    #[cold]
    pub(crate) unsafe fn pass_over(py: Python<'_>, this: *mut Self) {
        // SAFETY: the caller's reference keeps the timer alive. A waiting timer is in no wheel, and if a call is
        // running, that call ends it later.
        unsafe {
            if (*this).index != FIRING {
                return;
            }
            if (*this).is_called() {
                (*this).index = RUNNING;
            } else {
                Self::end(py, this, FIRED);
            }
        }
    }
}

unsafe extern "C" fn free(timer: *mut c_void) {
    // SAFETY: called with the GIL held, on the memory of a dead handle.
    unsafe { BLOCKS.free(Python::assume_attached(), timer.cast()) };
}

/// `tp_dealloc`: keep the handle for reuse.
pub(crate) unsafe extern "C" fn dealloc(object: *mut ffi::PyObject) {
    // SAFETY: objects are freed with the GIL held. The wheel has references to its timers, so this one has ended or was
    // never filed.
    unsafe {
        let timer = object.cast::<TimerObject>();
        let py = Python::assume_attached();
        TimerObject::end(py, timer, FIRED);
        let kind = ffi::Py_TYPE(object);
        DEAD.keep(py, timer, free);
        ffi::Py_DECREF(kind.cast());
    }
}

/// Remove a timer from its wheel; return false if the timer is in no wheel.
///
/// # Safety
///
/// No `GilCell` is borrowed, and the caller has a reference to the timer.
#[inline]
pub(crate) unsafe fn cancel(py: Python<'_>, timer: *mut TimerObject) -> bool {
    // SAFETY: the caller's reference keeps the timer alive. The wheel's reference, which is then ours, is released
    // last.
    unsafe {
        if !(*timer).is_pending() {
            return false;
        }
        let index = (*timer).index;
        (*timer).engine(py).get().state.with(py, |state| state.wheel.cancel_at(index));
        TimerObject::end(py, timer, CANCELLED);
        ffi::Py_DECREF(timer.cast());
        true
    }
}

/// Move a timer, or reschedule it if it is firing; return false if it has ended.
///
/// # Safety
///
/// No `GilCell` is borrowed, and the caller has a reference to the timer.
#[inline]
pub(crate) unsafe fn shift(
    py: Python<'_>,
    timer: *mut TimerObject,
    deadline: impl FnOnce(&Engine) -> PyResult<u64>,
) -> PyResult<bool> {
    // SAFETY: our reference keeps the engine alive while Python may run. If the clock or `on_earlier` changes the
    // timer, that is noticed, because `Engine::refile` reads the state again.
    unsafe {
        if (*timer).is_over() {
            return Ok(false);
        }
        let engine = (*timer).engine(py).to_owned();
        let engine = engine.get();
        let moved = engine.refile(py, timer, deadline(engine)?)?;
        if moved == Some(true) {
            engine.wake(py)?;
        }
        Ok(moved.is_some())
    }
}
