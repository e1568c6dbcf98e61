//! The methods of `TimerLoop`, except `call_at` and `call_later`, which are in `set.rs`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::OnceLock;

use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};
use tickwheel_core::{Wheel, NEVER};

use crate::aio::alarm::Alarm;
use crate::aio::event_loop::{release, Own, State, TimerLoop};
use crate::aio::handle::{tail, visit_fields};
use crate::aio::loop_type::prepare;
use crate::aio::time::{Genuine, Reader, Time};
use crate::aio::turn;
use crate::clock::seconds;
use crate::cpython::cell::GilCell;
use crate::cpython::reports::checked;
use crate::once::intern;
use crate::system_clock::SystemClock;

/// Maximum pause in seconds, as in asyncio, because some systems refuse longer pauses.
const PAUSE_MAX_S: f64 = 86_400.0;

#[pymethods]
impl TimerLoop {
    #[new]
    #[pyo3(signature = (*_args, **_names))]
    fn new(py: Python<'_>, _args: &Bound<'_, PyTuple>, _names: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        prepare(py)?;
        let wheel = Wheel::new(SystemClock::MONOTONIC.now_ns());
        Ok(Self {
            state: GilCell::new(State { wheel, is_closed: false }),
            reader: Reader::new(py)?,
            call_at: Genuine::new(intern!(py, "call_at"), py.get_type::<Self>().getattr("call_at")?),
            own: Own::default(),
            alarm: OnceLock::new(),
            is_behind: AtomicBool::new(false),
        })
    }

    /// Wake the selector with *alarm* instead of the selector's own timeout, which may be too coarse.
    #[pyo3(name = "_set_alarm")]
    fn set_alarm(&self, alarm: Py<Alarm>) -> PyResult<()> {
        self.alarm.set(alarm).map_err(|_| PyRuntimeError::new_err("the loop has an alarm already"))
    }

    fn __setattr__(slf: &Bound<'_, Self>, name: &Bound<'_, PyString>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        Self::assign(slf, name, Some(value))
    }

    fn __delattr__(slf: &Bound<'_, Self>, name: &Bound<'_, PyString>) -> PyResult<()> {
        Self::assign(slf, name, None)
    }

    /// Return the selector's timeout in seconds, or None if there is no limit or the alarm ends the wait.
    #[pyo3(name = "_pause")]
    fn pause(slf: &Bound<'_, Self>) -> PyResult<Option<f64>> {
        let (py, this) = (slf.py(), slf.get());
        let has_work = this.is_behind.load(Ordering::Relaxed) || slf.getattr(intern!(py, "_ready"))?.len()? > 0;
        if has_work || slf.getattr(intern!(py, "_stopping"))?.is_truthy()? {
            return Ok(Some(0.0));
        }
        let alarm = this.alarm.get().map(Py::get);
        let Some(deadline) = this.state.with(py, |state| state.wheel.next_expiration()) else {
            return alarm.map_or(Ok(()), |alarm| alarm.set(py, NEVER)).map(|()| None);
        };
        match (Self::now(slf)?, alarm) {
            (Time::System(now), _) if now >= deadline => Ok(Some(0.0)),
            (Time::System(_), Some(alarm)) => alarm.set(py, deadline).map(|()| None),
            (Time::System(now), None) => Ok(Some(((deadline - now) as f64 / 1e9).min(PAUSE_MAX_S))),
            (Time::Own(now), _) => Ok(Some((seconds(deadline) - now).clamp(0.0, PAUSE_MAX_S))),
        }
    }

    /// Append every due timer to the loop's `_ready`, in order.
    #[pyo3(name = "_deliver")]
    fn deliver(slf: &Bound<'_, Self>) -> PyResult<()> {
        turn::deliver(slf)
    }

    /// Run the handles that are now in the loop's `_ready`.
    #[pyo3(name = "_run_ready")]
    fn run_ready(slf: &Bound<'_, Self>) -> PyResult<()> {
        turn::run_ready(slf)
    }

    /// Return the number of pending timers.
    #[pyo3(name = "_pending_count")]
    fn pending_count(&self, py: Python<'_>) -> usize {
        self.state.with(py, |state| state.wheel.len())
    }

    /// Return the handles of all pending timers, earliest first. O(n log n).
    #[pyo3(name = "_pending")]
    fn pending<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let mut handles: Vec<_> =
            self.state.with(py, |state| state.wheel.payloads().map(|pending| pending.0).collect());
        // SAFETY: the wheel holds the handles, and no Python code runs until each handle has another reference.
        unsafe {
            handles.sort_by(|&one, &other| tail(one).when.total_cmp(&tail(other).when));
            let handles: Vec<_> =
                handles.into_iter().map(|handle| Bound::from_borrowed_ptr(py, handle.cast())).collect();
            PyList::new(py, handles)
        }
    }

    /// Drop every pending timer without cancelling it. None of them will run.
    #[pyo3(name = "_drop_pending")]
    fn drop_pending(&self, py: Python<'_>) {
        let left = self.state.with(py, |state| state.wheel.drain());
        release(py, left);
    }

    /// Refuse new timers from now on.
    #[pyo3(name = "_close_timers")]
    fn close_timers(&self, py: Python<'_>) {
        self.state.with(py, |state| state.is_closed = true);
        self.drop_pending(py);
    }

    /// Verify the invariants of the wheel; raises AssertionError.
    #[pyo3(name = "_check_timers")]
    fn check_timers(&self, py: Python<'_>) -> PyResult<()> {
        self.state.with(py, |state| checked(|| state.wheel.check()))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        if let Some(alarm) = self.alarm.get() {
            visit.call(alarm)?;
        }
        let mut show = |object: *mut ffi::PyObject| {
            // SAFETY: a `Py` is a pointer to an object. It is only read here, while the wheel's reference exists.
            visit.call(unsafe { &*(&raw const object).cast::<Py<PyAny>>() })
        };
        let mut visit_all = |state: &mut State| {
            // SAFETY: the wheel has a reference to each of its handles.
            state.wheel.payloads().try_for_each(|pending| unsafe { visit_fields(pending.0, &mut show) })
        };
        let shown = self.state.try_with(&mut visit_all);
        shown.unwrap_or(Ok(()))
    }

    fn __clear__(&self, py: Python<'_>) {
        // The collector found the loop unreachable, so it will not run again.
        let left = self.state.try_with(|state| {
            state.is_closed = true;
            state.wheel.drain()
        });
        release(py, left.unwrap_or_default());
    }
}
