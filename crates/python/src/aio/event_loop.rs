//! `TimerLoop`: what `tickwheel.aio.EventLoop` inherits beside asyncio's selector loop. Its timers live here, in the wheel.

use std::cell::Cell;

use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};
use tickwheel_core::{Expired, Id, Wheel, NEVER};

use crate::aio::alarm::Alarm;
use crate::aio::handle::{leave, tail, visit_fields, HandleObject};
use crate::aio::time::{Genuine, Reader, Time};
use crate::clock::{float_to_ns, seconds};
use crate::cpython::cell::GilCell;
use crate::system_clock::SystemClock;

/// A strong reference to a pending handle, which must be released by hand.
#[derive(Debug)]
pub(crate) struct Pending(pub(crate) *mut HandleObject);

// SAFETY: only a thread that holds the GIL touches what it points to.
unsafe impl Send for Pending {}

/// What is guarded by the GIL.
pub(crate) struct State {
    pub(crate) wheel: Wheel<Pending>,
    pub(crate) is_closed: bool,
}

/// Which attributes that matter on every call the loop has of its own.
#[derive(Default)]
struct Own {
    time: Cell<bool>,
    call_at: Cell<bool>,
    debug: Cell<bool>,
}

/// No longer than asyncio sleeps at a stretch: some systems refuse more.
const PAUSE_MAX_S: f64 = 86_400.0;

/// The timers of an event loop; a base of `tickwheel.aio.EventLoop`, not to be used alone.
///
/// Every method belongs to the loop's thread, as with asyncio's loops.
#[pyclass(frozen, subclass, module = "tickwheel._core")]
pub(crate) struct TimerLoop {
    pub(crate) state: GilCell<State>,
    reader: Reader,
    call_at: Genuine,
    /// What was assigned to the loop itself, as tests do that freeze its time; watched by `__setattr__`.
    own: Own,
    alarm: PyOnceLock<Py<Alarm>>,
    /// Whether the last turn left timers due, because it had done enough.
    pub(crate) is_behind: Cell<bool>,
}

// SAFETY: only touched with the GIL held.
unsafe impl Sync for TimerLoop {}

impl Drop for State {
    fn drop(&mut self) {
        let left = self.wheel.drain();
        if !left.is_empty() {
            Python::attach(|py| release(py, left));
        }
    }
}

/// Let go of what was pending, not cancelled, as asyncio does when a loop is closed.
fn release(_py: Python<'_>, left: Vec<Expired<Pending>>) {
    for entry in left {
        // SAFETY: the GIL is held, and the wheel's reference is ours.
        unsafe {
            leave(entry.payload.0);
            ffi::Py_DECREF(entry.payload.0.cast());
        }
    }
}

impl TimerLoop {
    /// The loop of a handle, if `object` is one of ours.
    ///
    /// # Safety
    ///
    /// `object` is null or an object that lives as long as the answer is used.
    #[inline]
    pub(crate) unsafe fn of<'a>(py: Python<'a>, object: &'a *mut ffi::PyObject) -> Option<&'a Self> {
        // SAFETY: as the caller says.
        let object = unsafe { Borrowed::from_ptr_or_opt(py, *object) }?;
        let home = object.cast::<Self>().ok()?;
        // SAFETY: the object outlives the answer.
        Some(unsafe { &*std::ptr::from_ref(home.get()) })
    }

    /// Take an entry out of the wheel, if it is this handle's.
    #[inline]
    pub(crate) fn take(&self, py: Python<'_>, id: Id, handle: *mut HandleObject) -> bool {
        self.state.with(py, |state| {
            let is_here = state.wheel.get(id).is_some_and(|(_, pending)| pending.0 == handle);
            is_here && state.wheel.cancel(id).is_some()
        })
    }

    /// Whether the loop is in debug mode.
    #[inline]
    pub(crate) fn is_debug(&self) -> bool {
        self.own.debug.get()
    }

    /// The loop's time.
    #[inline]
    pub(crate) fn now(&self, object: &Bound<'_, PyAny>) -> PyResult<Time> {
        self.reader.now(object, self.own.time.get())
    }

    /// Whether `call_at` is our own, so that `call_later` need not go through it.
    #[inline]
    pub(crate) fn is_call_at_genuine(&self, object: &Bound<'_, PyAny>) -> PyResult<bool> {
        // SAFETY: the object and its type are alive.
        let is_genuine = unsafe { self.call_at.is_in(object.py(), ffi::Py_TYPE(object.as_ptr()))? };
        Ok(is_genuine && !self.own.call_at.get())
    }

    /// An attribute was assigned or deleted.
    fn note(&self, name: &Bound<'_, PyString>, value: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        match name.to_str()? {
            "time" => self.own.time.set(value.is_some()),
            "call_at" => self.own.call_at.set(value.is_some()),
            "_debug" => self.own.debug.set(value.map_or(Ok(false), PyAnyMethods::is_truthy)?),
            _ => {}
        }
        Ok(())
    }

    /// File a handle; the wheel takes a reference.
    #[inline]
    pub(crate) fn file(&self, py: Python<'_>, handle: *mut HandleObject, deadline: u64) {
        // SAFETY: the caller holds the handle.
        unsafe {
            ffi::Py_INCREF(handle.cast());
            tail(handle).id = self.state.with(py, |state| state.wheel.insert(deadline, Pending(handle)).to_u64());
        }
    }

    fn pause_until(&self, object: &Bound<'_, PyAny>, deadline: u64) -> PyResult<Option<f64>> {
        let py = object.py();
        let when = seconds(deadline);
        match self.now(object)? {
            Time::System(now) if now >= deadline => Ok(Some(0.0)),
            Time::System(now) => match self.alarm.get(py) {
                Some(alarm) => alarm.get().set(deadline).map(|()| None),
                None => Ok(Some(((deadline - now) as f64 / 1e9).min(PAUSE_MAX_S))),
            },
            Time::Own(now) => Ok(Some((when - now).clamp(0.0, PAUSE_MAX_S))),
        }
    }
}

#[pymethods]
impl TimerLoop {
    #[new]
    #[pyo3(signature = (*_args, **_names))]
    fn new(py: Python<'_>, _args: &Bound<'_, PyTuple>, _names: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        crate::aio::loop_type::prepare(py)?;
        let wheel = Wheel::new(SystemClock::MONOTONIC.now_ns());
        Ok(Self {
            state: GilCell::new(State { wheel, is_closed: false }),
            reader: Reader::new(py)?,
            call_at: Genuine::new(intern!(py, "call_at"), py.get_type::<Self>().getattr("call_at")?),
            own: Own::default(),
            alarm: PyOnceLock::new(),
            is_behind: Cell::new(false),
        })
    }

    /// Wake the selector by *alarm* instead of its own timeout, which may be too coarse.
    #[pyo3(name = "_set_alarm")]
    fn set_alarm(&self, py: Python<'_>, alarm: Py<Alarm>) -> PyResult<()> {
        self.alarm.set(py, alarm).map_err(|_| PyRuntimeError::new_err("the loop has an alarm already"))
    }

    fn __setattr__(slf: &Bound<'_, Self>, name: &Bound<'_, PyString>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        assign(slf, name, value.as_ptr())?;
        slf.get().note(name, Some(value))
    }

    fn __delattr__(slf: &Bound<'_, Self>, name: &Bound<'_, PyString>) -> PyResult<()> {
        assign(slf, name, std::ptr::null_mut())?;
        slf.get().note(name, None)
    }

    /// Return for how many seconds the selector may wait: None for ever, or until the alarm.
    #[pyo3(name = "_pause")]
    fn pause(slf: &Bound<'_, Self>) -> PyResult<Option<f64>> {
        let (py, this) = (slf.py(), slf.get());
        let has_work = this.is_behind.get() || slf.getattr(intern!(py, "_ready"))?.len()? > 0;
        if has_work || slf.getattr(intern!(py, "_stopping"))?.is_truthy()? {
            return Ok(Some(0.0));
        }
        match this.state.with(py, |state| state.wheel.next_expiration()) {
            Some(deadline) => this.pause_until(slf.as_any(), deadline),
            None => this.alarm.get(py).map_or(Ok(()), |alarm| alarm.get().set(NEVER)).map(|()| None),
        }
    }

    /// Put every timer that is due into the loop's `_ready`, in order.
    #[pyo3(name = "_deliver")]
    fn deliver(slf: &Bound<'_, Self>) -> PyResult<()> {
        crate::aio::turn::deliver(slf)
    }

    /// Run what was in the loop's `_ready` at the start.
    #[pyo3(name = "_run_ready")]
    fn run_ready(slf: &Bound<'_, Self>) -> PyResult<()> {
        crate::aio::turn::run_ready(slf)
    }

    /// Return how many timers are pending.
    #[pyo3(name = "_pending_count")]
    fn pending_count(&self, py: Python<'_>) -> usize {
        self.state.with(py, |state| state.wheel.len())
    }

    /// Return the handles of all pending timers, the earliest first. O(n log n).
    #[pyo3(name = "_pending")]
    fn pending<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let mut handles: Vec<_> =
            self.state.with(py, |state| state.wheel.payloads().map(|pending| pending.0).collect());
        // SAFETY: the wheel holds them, and no Python runs before each has a reference of its own.
        unsafe {
            handles.sort_by(|&one, &other| tail(one).when.total_cmp(&tail(other).when));
            let handles: Vec<_> =
                handles.into_iter().map(|handle| Bound::from_borrowed_ptr(py, handle.cast())).collect();
            PyList::new(py, handles)
        }
    }

    /// Drop every pending timer; none of them is cancelled, and none will run.
    #[pyo3(name = "_drop_pending")]
    fn drop_pending(&self, py: Python<'_>) {
        let left = self.state.with(py, |state| state.wheel.drain());
        release(py, left);
    }

    /// Refuse to set timers from now on.
    #[pyo3(name = "_close_timers")]
    fn close_timers(&self, py: Python<'_>) {
        self.state.with(py, |state| state.is_closed = true);
        self.drop_pending(py);
    }

    /// Return the counters of the wheel.
    #[pyo3(name = "_timer_stats")]
    fn timer_stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (stats, pending, bytes) =
            self.state.with(py, |state| (*state.wheel.stats(), state.wheel.len(), state.wheel.bytes()));
        crate::timers::wheel::stats_dict(py, &stats, pending, bytes)
    }

    /// Verify the invariants of the wheel; raises AssertionError.
    #[pyo3(name = "_check_timers")]
    fn check_timers(&self, py: Python<'_>) -> PyResult<()> {
        self.state.with(py, |state| crate::timers::wheel::checked(|| state.wheel.check()))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        // SAFETY: the collector holds the GIL, under which the cell was set.
        let py = unsafe { Python::assume_attached() };
        if let Some(alarm) = self.alarm.get(py) {
            visit.call(alarm)?;
        }
        let mut show = |object: *mut ffi::PyObject| {
            // SAFETY: a `Py` is a pointer to an object; it is only looked at, for as long as the wheel's reference lasts.
            visit.call(unsafe { &*(&raw const object).cast::<Py<PyAny>>() })
        };
        // SAFETY: the wheel's handles are alive.
        let mut visit_all = |state: &mut State| {
            state.wheel.payloads().try_for_each(|pending| unsafe { visit_fields(pending.0, &mut show) })
        };
        let shown = self.state.try_with(&mut visit_all);
        shown.unwrap_or(Ok(()))
    }

    fn __clear__(&self, py: Python<'_>) {
        // The collector found the loop unreachable: no one can run it any more.
        let left = self.state.try_with(|state| {
            state.is_closed = true;
            state.wheel.drain()
        });
        release(py, left.unwrap_or_default());
    }
}

/// Assign or delete an attribute as any object does.
fn assign(slf: &Bound<'_, TimerLoop>, name: &Bound<'_, PyString>, value: *mut ffi::PyObject) -> PyResult<()> {
    // SAFETY: all three are alive, or the value null.
    match unsafe { ffi::PyObject_GenericSetAttr(slf.as_ptr(), name.as_ptr(), value) } {
        0 => Ok(()),
        _ => Err(PyErr::fetch(slf.py())),
    }
}

/// The deadline of an instant in seconds; NaN is refused.
#[inline]
pub(crate) fn deadline_of(py: Python<'_>, when: f64) -> PyResult<u64> {
    if when == f64::INFINITY {
        return Ok(NEVER);
    }
    if when <= 0.0 {
        return Ok(0);
    }
    float_to_ns(py, when, "when")
}
