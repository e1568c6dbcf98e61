//! What an engine is made of.

use std::cell::Cell;

use pyo3::ffi;
use pyo3::prelude::*;
use tickwheel_core::{Expired, Id, Wheel};

use crate::timers::payload::{Held, Payload};
use crate::timers::pending::release;
use crate::timers::timer::CANCELLED;

/// What is guarded by the GIL.
pub(crate) struct State {
    pub(crate) wheel: Wheel<Payload>,
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
    pub(crate) fn cancel_batched(&mut self, id: Id) -> Option<Payload> {
        self.is_batched(id).then(|| self.wheel.cancel(id)).flatten()
    }

    /// Take everything out. Its timers are cancelled from here on, so that no Python that runs before they are released can end one
    /// a second time.
    pub(crate) fn take_all(&mut self) -> Vec<Expired<Payload>> {
        let taken = self.wheel.drain();
        for entry in &taken {
            if let Held::Timer(timer) = entry.payload.held() {
                // SAFETY: the GIL is held, and the entry's reference keeps the timer.
                unsafe { (*timer).id = CANCELLED };
            }
        }
        taken
    }

    /// Whether the driver must be told of `deadline`; at most once for each arming.
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
        // An engine dies with the GIL held, and only batches can be pending: a pending timer refers to its engine.
        let left = self.wheel.drain();
        if !left.is_empty() {
            Python::attach(|py| release(py, left));
        }
    }
}

/// How many timers have not ended. While there are any, they have one reference to their engine among them: so an engine with pending
/// timers cannot be freed under them, and the collector is shown one reference instead of a million.
#[derive(Default)]
pub(crate) struct Living(Cell<usize>);

// SAFETY: only touched with the GIL held.
unsafe impl Sync for Living {}

impl Living {
    pub(crate) fn count(&self) -> usize {
        self.0.get()
    }

    /// A timer of `engine` was made.
    ///
    /// # Safety
    ///
    /// The GIL is held and `engine` is the object that this is a part of.
    #[inline]
    pub(crate) unsafe fn enter(&self, engine: *mut ffi::PyObject) {
        if self.0.replace(self.0.get() + 1) == 0 {
            // SAFETY: as the caller says.
            unsafe { ffi::Py_INCREF(engine) };
        }
    }

    /// A timer of `engine` has ended. Runs Python: no cell may be entered.
    ///
    /// # Safety
    ///
    /// As `enter`.
    #[inline]
    pub(crate) unsafe fn leave(&self, engine: *mut ffi::PyObject) {
        self.0.set(self.0.get() - 1);
        if self.0.get() == 0 {
            // SAFETY: the reference that `enter` took.
            unsafe { ffi::Py_DECREF(engine) };
        }
    }
}
