//! The state of an engine.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use pyo3::ffi;
use pyo3::prelude::*;
use tickwheel_core::{Expired, Id, Wheel};

use crate::timers::batches::Batches;
use crate::timers::handle::CANCELLED;
use crate::timers::numbers::{ENGINES, NONE};
use crate::timers::payload::{Held, Payload, Timers};

/// The data of an engine. The GIL protects it.
pub(crate) struct State {
    pub(crate) wheel: Wheel<Payload, Timers>,
    pub(crate) batches: Batches,
    /// The armed deadline: a timer with an earlier deadline wakes the driver. 0 if nothing is armed.
    pub(crate) armed: u64,
    pub(crate) max_pending: usize,
    pub(crate) is_closed: bool,
    /// The id of the thread that is in `fire_due`, or 0.
    pub(crate) firing: u64,
    /// Number of firings by lateness: entry i counts those that were less than 2^i ns late, and at least 2^(i-1).
    pub(crate) lateness: [u64; 64],
}

impl State {
    /// True if `id` is the wheel's id of a pending timer of a batch. A timer with a handle also has an id in the wheel,
    /// but callers never get that id.
    pub(crate) fn is_batched(&self, id: Id) -> bool {
        self.wheel.get(id).is_some_and(|(_, payload)| matches!(payload.held(), Held::Batch(_)))
    }

    /// Remove the timer that callers know by the id `name`, if it is a pending timer of a batch.
    pub(crate) fn cancel_batched(&mut self, name: Id) -> Option<Payload> {
        let place = self.batches.place(name);
        if !self.is_batched(place) {
            return None;
        }
        self.batches.leave(place);
        self.wheel.cancel(place)
    }

    /// Remove all entries, which the caller releases. Their timers are cancelled at once, so that Python code that runs
    /// before the release cannot end a timer a second time.
    pub(crate) fn take_all(&mut self, is_closing: bool) -> Vec<Expired<Payload>> {
        self.is_closed |= is_closing;
        let mut taken = self.wheel.drain();
        for entry in &mut taken {
            entry.id = self.batches.name(entry.id);
            if let Held::Timer(timer) = entry.payload.held() {
                // SAFETY: the GIL is held, and the reference of the entry keeps the timer alive.
                unsafe { (*timer).index = CANCELLED };
            }
        }
        self.batches.leave_all();
        taken
    }

    /// True if the driver must be notified of `deadline`, which happens at most once after each `arm`.
    #[inline]
    pub(crate) fn is_earlier(&mut self, deadline: u64) -> bool {
        let is_earlier = deadline < self.armed;
        if is_earlier {
            self.armed = 0;
        }
        is_earlier
    }
}

impl Drop for State {
    fn drop(&mut self) {
        for entry in self.wheel.drain() {
            // A pending timer refers to its engine, so when the engine is freed, only entries of batches can be left.
            if let Held::Batch(callback) = entry.payload.held() {
                // SAFETY: an engine is freed with the GIL held, and the wheel owns its references.
                unsafe { ffi::Py_DECREF(callback) };
            }
        }
    }
}

/// The number of timers that have not ended. While the number is not 0, these timers share one reference to their
/// engine. So an engine with pending timers cannot be freed, and the collector traverses one reference instead of one
/// for each timer.
#[derive(Default)]
pub(crate) struct Living {
    count: AtomicUsize,
    /// The engine's number, which is assigned with its first timer and stored in all its timers.
    number: AtomicU32,
}

impl Living {
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed) // the GIL excludes other threads: this is a plain load
    }

    /// Register a new timer of `engine`. Return the engine's number, which the timer stores instead of the engine's
    /// address.
    ///
    /// # Safety
    ///
    /// The GIL is held and this is a field of `engine`.
    #[inline]
    pub(crate) unsafe fn enter(&self, py: Python<'_>, engine: *mut ffi::PyObject) -> u32 {
        let before = self.count();
        self.count.store(before + 1, Ordering::Relaxed);
        if before == 0 {
            // SAFETY: `engine` is alive, and its first timer takes the reference that all timers share.
            unsafe { ffi::Py_INCREF(engine) };
            if self.number.load(Ordering::Relaxed) == NONE {
                self.number.store(ENGINES.enter(py, engine), Ordering::Relaxed);
            }
        }
        self.number.load(Ordering::Relaxed)
    }

    /// Unregister an ended timer of `engine`. This runs Python code, so the caller must not have a `GilCell` borrowed.
    ///
    /// # Safety
    ///
    /// The GIL is held, and `engine` is the object that was passed to `enter`.
    #[inline]
    pub(crate) unsafe fn leave(&self, engine: *mut ffi::PyObject) {
        let left = self.count() - 1;
        self.count.store(left, Ordering::Relaxed);
        if left == 0 {
            // SAFETY: the last timer releases the reference that the first one took in `enter`.
            unsafe { ffi::Py_DECREF(engine) };
        }
    }
}

impl Drop for Living {
    fn drop(&mut self) {
        let number = *self.number.get_mut();
        if number != NONE {
            // SAFETY: an engine is freed with the GIL held.
            ENGINES.leave(unsafe { Python::assume_attached() }, number);
        }
    }
}
