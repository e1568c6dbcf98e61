//! `Engine`: the native wheel with a clock and callbacks, which implements `tickwheel.timers.contract.Engine`.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::ffi;
use pyo3::prelude::*;
use tickwheel_core::NEVER;

use crate::clock::Clock;
use crate::cpython::cell::GilCell;
use crate::cpython::errors::raise;
use crate::timers::handle::TimerObject;
use crate::timers::payload::Payload;
use crate::timers::state::{Living, State};

/// The objects that the engine calls, which Python code can replace.
#[derive(Default)]
pub(crate) struct Hooks {
    pub(crate) on_earlier: Option<Py<PyAny>>,
    pub(crate) on_error: Option<Py<PyAny>>,
    pub(crate) on_coroutine: Option<Py<PyAny>>,
    pub(crate) runner: Option<Py<PyAny>>,
}

/// A native wheel with a clock and callbacks.
///
/// Args:
///     clock: Source of time; None for the monotonic clock. `MonotonicClock` and `BootClock` are read without a Python call.
///     max_pending: Maximum number of pending timers; a further timer raises TooManyTimersError. None for no limit.
///
/// Every method may be called from any thread. `tickwheel.timers` describes the protocol.
#[pyclass(frozen, weakref, module = "tickwheel._core")]
pub(crate) struct Engine {
    pub(crate) kind: Clock,
    /// The engine's clock.
    #[pyo3(get)]
    pub(crate) clock: Py<PyAny>,
    pub(crate) state: GilCell<State>,
    pub(crate) hooks: GilCell<Hooks>,
    pub(crate) living: Living,
    pub(crate) awaits: AtomicBool,
    pub(crate) captures: AtomicBool,
}

impl Engine {
    /// True if coroutines are awaited, because the hook `on_coroutine` is set.
    #[inline]
    pub(crate) fn awaits(&self) -> bool {
        self.awaits.load(Ordering::Relaxed)
    }

    /// True if a callback runs in a copy of the context in which it was set.
    #[inline]
    pub(crate) fn captures(&self) -> bool {
        self.captures.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn now(&self, py: Python<'_>) -> PyResult<u64> {
        self.kind.now(&self.clock, py)
    }

    /// Return a new reference to one of the hooks. The caller calls it while no `GilCell` is borrowed.
    #[inline]
    pub(crate) fn hook(&self, py: Python<'_>, which: impl FnOnce(&Hooks) -> &Option<Py<PyAny>>) -> Option<Py<PyAny>> {
        self.hooks.with(py, |hooks| which(hooks).as_ref().map(|hook| hook.clone_ref(py)))
    }

    /// Insert a timer that is not pending into the wheel, which takes over a reference to the timer. Return true if the
    /// driver must be notified.
    #[inline]
    pub(crate) fn file(&self, py: Python<'_>, timer: *mut TimerObject, deadline: u64) -> PyResult<bool> {
        let refused = self.state.with(py, |state| {
            if state.is_closed || state.wheel.len() >= state.max_pending {
                return None;
            }
            // SAFETY: the caller holds the timer, which is not in a wheel yet.
            unsafe {
                (*timer).deadline = deadline;
                (*timer).note_move(0);
                (*timer).index = state.wheel.insert(deadline, Payload::timer(timer)).index();
            }
            Some(state.is_earlier(deadline))
        });
        refused.ok_or_else(|| self.refusal(py))
    }

    /// Move a timer, or reschedule it if it is firing. This does not notify the driver, so it runs no Python. Return
    /// true if the driver has to be notified, or None if the timer has ended.
    ///
    /// # Safety
    ///
    /// The caller has a reference to `timer`, which belongs to this engine.
    #[inline]
    pub(crate) unsafe fn refile(
        &self,
        py: Python<'_>,
        timer: *mut TimerObject,
        deadline: u64,
    ) -> PyResult<Option<bool>> {
        // SAFETY: the caller's reference keeps the timer alive. Its state is read after the clock, and no Python runs
        // in between.
        unsafe {
            if (*timer).is_pending() {
                return Ok(Some(self.state.with(py, |state| {
                    let is_called = (*timer).is_called();
                    let sequence = if is_called { None } else { state.wheel.postpone((*timer).deadline, deadline) };
                    if sequence.is_none() {
                        state.wheel.reschedule_at((*timer).index, deadline);
                    }
                    (*timer).note_move(sequence.unwrap_or(0));
                    (*timer).deadline = deadline;
                    state.is_earlier(deadline)
                })));
            }
            let is_firing = (*timer).is_firing() && !(*timer).call.is_none();
            if !is_firing || self.state.with(py, |state| state.is_closed) {
                return Ok(None);
            }
            let is_earlier = self.file(py, timer, deadline)?;
            ffi::Py_INCREF(timer.cast());
            Ok(Some(is_earlier))
        }
    }

    /// Notify the driver of an earlier deadline. If the notification raises, the next timer that is set causes another
    /// notification.
    #[cold]
    pub(crate) fn wake(&self, py: Python<'_>) -> PyResult<()> {
        let told = self.hook(py, |hooks| &hooks.on_earlier).map_or(Ok(()), |hook| hook.bind(py).call0().map(drop));
        told.inspect_err(|_| self.state.with(py, |state| state.armed = NEVER))
    }

    /// Pass an `Exception` to `on_error`. Return any other exception as an error.
    #[cold]
    pub(crate) fn report(&self, py: Python<'_>, error: PyErr, source: &Bound<'_, PyAny>) -> PyResult<()> {
        if !error.is_instance_of::<pyo3::exceptions::PyException>(py) {
            return Err(error);
        }
        let Some(hook) = self.hook(py, |hooks| &hooks.on_error) else {
            error.write_unraisable(py, Some(source));
            return Ok(());
        };
        hook.bind(py).call1((error, source)).map(drop)
    }

    #[cold]
    pub(crate) fn refusal(&self, py: Python<'_>) -> PyErr {
        let (is_closed, limit) = self.state.with(py, |state| (state.is_closed, state.max_pending));
        if is_closed {
            raise(py, "ClosedError", ("wheel",))
        } else {
            raise(py, "TooManyTimersError", (limit,))
        }
    }
}
