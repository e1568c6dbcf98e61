//! `Timer`, the handle: 48 bytes, from a free list or a huge page, invisible to the garbage collector.
//!
//! The collector sees a pending timer's callback through the engine, which shows what its timers refer to; a timer that has ended refers
//! to nothing. So a million handles cost a collection nothing but a walk, and no cycle through a handle is missed.
//!
//! Written against the C interface: `docs/decisions/native-binding.md` has the figures.

use std::ffi::c_void;

use pyo3::ffi;
use pyo3::prelude::*;

use crate::cpython::blocks::Blocks;
use crate::cpython::call::Call;
use crate::cpython::free_list::FreeList;
use crate::cpython::type_builder::KnownType;
use crate::timers::coroutine::settle;
use crate::timers::engine::Engine;
use crate::timers::handle::{TimerObject, CANCELLED, FIRED, FIRING, RUNNING};
use crate::timers::numbers::{ENGINES, NONE};
use crate::timers::stand_in::note_failure;

/// How many dead handles are kept: the waves of a busy server. That is 768 kB, which only a program that has had so many keeps.
const KEPT: usize = 16 * 1024;

pub(crate) static TYPE: KnownType = KnownType::new();
static DEAD: FreeList<TimerObject> = FreeList::new(KEPT);
static BLOCKS: Blocks<TimerObject> = Blocks::new();

/// Make a handle, with one reference, of a timer that is not yet filed; takes over `call`.
///
/// # Safety
///
/// `engine` is an `Engine`.
#[inline]
pub(crate) unsafe fn new(
    py: Python<'_>,
    engine: *mut ffi::PyObject,
    call: Call,
    deadline: u64,
) -> PyResult<*mut TimerObject> {
    // SAFETY: the list holds dead handles of this very type; every field is written before anyone sees the handle.
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
    /// The engine of a timer that has not ended.
    ///
    /// # Safety
    ///
    /// The timer has an engine, and keeps it for as long as the answer is used.
    #[inline]
    pub(crate) unsafe fn engine<'py>(&self, py: Python<'py>) -> Borrowed<'py, 'py, Engine> {
        // SAFETY: only an `Engine` has a number, and the one of a timer that has not ended is alive.
        unsafe { Borrowed::from_ptr(py, ENGINES.get(py, self.engine)).cast_unchecked() }
    }

    /// End the timer and let go of what it refers to. Runs Python: no cell may be entered.
    ///
    /// # Safety
    ///
    /// The timer is in no wheel, and the caller has a reference to it.
    #[inline]
    pub(crate) unsafe fn end(py: Python<'_>, this: *mut Self, state: u32) {
        // SAFETY: the fields are made final first, so whatever Python runs in the releases finds a timer that has ended.
        unsafe {
            let call = std::mem::replace(&mut (*this).call, Call::NONE);
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

    /// Call the callback; afterwards the timer has fired, unless it was given a new life meanwhile, or a call of a former one is still
    /// under way. Null if it raised.
    ///
    /// # Safety
    ///
    /// The timer is firing, no cell is entered, and the caller has a reference to the timer and its engine.
    #[inline]
    pub(crate) unsafe fn fire(py: Python<'_>, this: *mut Self, engine: &Engine) -> *mut ffi::PyObject {
        // SAFETY: the timer might lose its own reference to the call when it is given a new life and that is cancelled.
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

    /// The life that waits to be called never will be: it has fired. Runs Python: no cell may be entered.
    ///
    /// # Safety
    ///
    /// The caller has a reference to the timer.
    #[cold]
    pub(crate) unsafe fn pass_over(py: Python<'_>, this: *mut Self) {
        // SAFETY: the caller's reference keeps the timer; one that waits is in no wheel, and a call under way ends it later.
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
    // SAFETY: objects are freed with the GIL held; a timer in a wheel is referred to by it, so this one has ended, or was never filed.
    unsafe {
        let timer = object.cast::<TimerObject>();
        let py = Python::assume_attached();
        TimerObject::end(py, timer, FIRED);
        let kind = ffi::Py_TYPE(object);
        DEAD.keep(py, timer, free);
        ffi::Py_DECREF(kind.cast());
    }
}

/// Take a timer out of its wheel; false if it is in none.
///
/// # Safety
///
/// No cell is entered, and the caller has a reference to the timer.
#[inline]
pub(crate) unsafe fn cancel(py: Python<'_>, timer: *mut TimerObject) -> bool {
    // SAFETY: the caller's reference keeps the timer; the wheel's, which is ours once it is out, is given up last.
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

/// Move a timer, or begin a new life of one that is firing; false if it has ended.
///
/// # Safety
///
/// No cell is entered, and the caller has a reference to the timer.
#[inline]
pub(crate) unsafe fn shift(
    py: Python<'_>,
    timer: *mut TimerObject,
    deadline: impl FnOnce(&Engine) -> PyResult<u64>,
) -> PyResult<bool> {
    // SAFETY: the engine is kept alive by a reference of our own while Python may run; what the clock or `on_earlier` does to the timer
    // is seen afterwards, since its state is read again inside of `Engine::refile`.
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
