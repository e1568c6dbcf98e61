//! What an engine is made of.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use pyo3::ffi;
use pyo3::prelude::*;
use tickwheel_core::{Expired, Id, Wheel};

use crate::timers::batches::Batches;
use crate::timers::handle::CANCELLED;
use crate::timers::numbers::{ENGINES, NONE};
use crate::timers::payload::{Held, Payload, Timers};

/// What is guarded by the GIL.
pub(crate) struct State {
    pub(crate) wheel: Wheel<Payload, Timers>,
    pub(crate) batches: Batches,
    /// Anything set before this deadline wakes the driver; 0 while nothing is armed.
    pub(crate) armed: u64,
    pub(crate) max_pending: usize,
    pub(crate) is_closed: bool,
    /// The thread in `fire_due`, 0 for none.
    pub(crate) firing: u64,
    /// Entry i counts the firings less than 2^i ns late and not less than 2^(i-1).
    pub(crate) lateness: [u64; 64],
}

impl State {
    /// Whether the id is that of a pending entry of a batch; a handle's entry has no id that anyone was given.
    pub(crate) fn is_batched(&self, id: Id) -> bool {
        self.wheel.get(id).is_some_and(|(_, payload)| matches!(payload.held(), Held::Batch(_)))
    }

    /// Take an entry of a batch out.
    pub(crate) fn cancel_batched(&mut self, name: Id) -> Option<Payload> {
        let place = self.batches.place(name);
        if !self.is_batched(place) {
            return None;
        }
        self.batches.leave(place);
        self.wheel.cancel(place)
    }

    /// Take everything out, for the caller to release. Its timers are cancelled from here on, so that no Python that runs before they are
    /// released can end one a second time.
    pub(crate) fn take_all(&mut self, is_closing: bool) -> Vec<Expired<Payload>> {
        self.is_closed |= is_closing;
        let mut taken = self.wheel.drain();
        for entry in &mut taken {
            entry.id = self.batches.name(entry.id);
            if let Held::Timer(timer) = entry.payload.held() {
                // SAFETY: the GIL is held, and the entry's reference keeps the timer.
                unsafe { (*timer).index = CANCELLED };
            }
        }
        self.batches.leave_all();
        taken
    }

    /// Whether the driver must be notified of `deadline`; at most once for each arming.
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
            // A pending timer refers to its engine, so only batches can be left when that is freed.
            if let Held::Batch(callback) = entry.payload.held() {
                // SAFETY: an engine is freed with the GIL held, and the wheel's reference is nobody else's.
                unsafe { ffi::Py_DECREF(callback) };
            }
        }
    }
}

/// How many timers have not ended. While there are any, they have one reference to their engine among them: so an engine with pending
/// timers cannot be freed under them, and the collector is shown one reference instead of a million.
#[derive(Default)]
pub(crate) struct Living {
    count: AtomicUsize,
    /// The engine's number in its timers, which it has from the first one on.
    number: AtomicU32,
}

impl Living {
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed) // the GIL keeps others out: an atomic for the compiler only, which takes it as a plain word
    }

    /// A timer of `engine` was made: the number that it keeps instead of an address.
    ///
    /// # Safety
    ///
    /// The GIL is held and `engine` is the object that this is a part of.
    #[inline]
    pub(crate) unsafe fn enter(&self, py: Python<'_>, engine: *mut ffi::PyObject) -> u32 {
        let before = self.count();
        self.count.store(before + 1, Ordering::Relaxed);
        if before == 0 {
            // SAFETY: `engine` is a living object, and the first timer takes the reference that all will share.
            unsafe { ffi::Py_INCREF(engine) };
            if self.number.load(Ordering::Relaxed) == NONE {
                self.number.store(ENGINES.enter(py, engine), Ordering::Relaxed);
            }
        }
        self.number.load(Ordering::Relaxed)
    }

    /// A timer of `engine` has ended. Runs Python: no cell may be entered.
    ///
    /// # Safety
    ///
    /// The GIL is held, and `engine` is the object that `enter` was given.
    #[inline]
    pub(crate) unsafe fn leave(&self, engine: *mut ffi::PyObject) {
        let left = self.count() - 1;
        self.count.store(left, Ordering::Relaxed);
        if left == 0 {
            // SAFETY: the last timer gives up the reference that the first one took in `enter`.
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
