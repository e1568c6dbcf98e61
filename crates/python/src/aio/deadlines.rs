//! `Deadlines`: the wheel behind `tickwheel.aio.timeout`. Each loop has one.
//!
//! `Deadlines` schedules one call in the loop, for the earliest deadline. If the timeout with this deadline ends early,
//! the call is not cancelled. When it runs, it finds no due timeout, and schedules the next call. So a timeout that
//! ends before its deadline costs the loop nothing.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use pyo3::ffi;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tickwheel_core::{Id, Pop, Wheel};

use crate::aio::event_loop::{Pending, TimerLoop};
use crate::aio::time::{deadline_of, Reader, Time};
use crate::aio::timeout_object::TimeoutObject;
use crate::clock::seconds;
use crate::cpython::cell::GilCell;
use crate::once::intern;
use crate::system_clock::SystemClock;

/// The stored deadline while no call is scheduled. Every real deadline is earlier, so the next timeout schedules a
/// call.
const UNARMED: u64 = u64::MAX;

/// The loop for which `Deadlines::of` was last called; `LAST` is the result of that call. Both are borrowed references.
static LAST_HOME: AtomicPtr<ffi::PyObject> = AtomicPtr::new(null_mut());
static LAST: AtomicPtr<ffi::PyObject> = AtomicPtr::new(null_mut());

/// Remember the last lookup: the loop `home` and its `Deadlines`. The caller holds the GIL.
fn remember(home: *mut ffi::PyObject, found: *mut ffi::PyObject) {
    LAST_HOME.store(home, Ordering::Relaxed);
    LAST.store(found, Ordering::Relaxed);
}

/// The source from which `Deadlines` reads the time of its loop.
enum Source {
    /// The clock of a `TimerLoop`.
    Ours,
    /// The `time` method of an asyncio loop that is not a `TimerLoop`. It is looked up each time, because a test may
    /// have replaced it.
    Asked(Reader),
    /// The system's monotonic clock plus this number of seconds. This is for loops such as uvloop, whose `time` may
    /// return the time of the last wake-up. A delay that is counted from that time would end early.
    Read(f64),
}

/// If the time of a loop differs from the system's monotonic time by less than this number of seconds, both count as
/// the same clock. They differ if the loop returns the time of its last wake-up.
const STALE_MAX_S: f64 = 60.0;

impl Source {
    fn of(home: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = home.py();
        if home.is_instance_of::<TimerLoop>() {
            return Ok(Self::Ours);
        }
        if home.is_instance(&py.import("asyncio")?.getattr("BaseEventLoop")?)? {
            return Ok(Self::Asked(Reader::new(py)?));
        }
        let ahead =
            home.call_method0(intern!(py, "time"))?.extract::<f64>()? - seconds(SystemClock::MONOTONIC.now_ns());
        Ok(Self::Read(if ahead.abs() < STALE_MAX_S { 0.0 } else { ahead }))
    }
}

struct State {
    /// The pending timeouts. The wheel is empty when `Deadlines` is freed, because each pending timeout refers to its
    /// `Deadlines`.
    wheel: Wheel<Pending<TimeoutObject>>,
    armed: u64,
    handle: Option<Py<PyAny>>,
}

impl Drop for Deadlines {
    fn drop(&mut self) {
        remember(null_mut(), null_mut()); // the next lookup starts from nothing
    }
}

fn release(pending: &Pending<TimeoutObject>) {
    // SAFETY: the entry is out of the wheel, so the caller owns its reference and gives it up.
    unsafe {
        (*pending.0).id = 0;
        ffi::Py_DECREF(pending.0.cast());
    }
}

/// The timeouts of one event loop, which may be tickwheel's loop or any other. The object is made for the first timeout
/// in the loop.
#[pyclass(frozen, module = "tickwheel._core")]
pub(crate) struct Deadlines {
    /// The event loop to which the timeouts belong.
    pub(crate) home: Py<PyAny>,
    time: Source,
    /// An empty context for the scheduled call, so that the call keeps no context variables alive.
    context: Py<PyAny>,
    state: GilCell<State>,
}

impl Deadlines {
    /// Return the `Deadlines` of a loop. The loop stores its `Deadlines` as an attribute.
    ///
    /// # Errors
    ///
    /// AttributeError if the loop allows no attributes.
    #[inline]
    pub(crate) fn of<'py>(home: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Self>> {
        if LAST_HOME.load(Ordering::Relaxed) == home.as_ptr() {
            let last = LAST.load(Ordering::Relaxed);
            // SAFETY: the cache is cleared when the `Deadlines` is freed, and until then this object keeps its loop
            // alive.
            return Ok(unsafe { Bound::from_borrowed_ptr(home.py(), last).cast_into_unchecked() });
        }
        let found = Self::find_or_make(home)?;
        remember(home.as_ptr(), found.as_ptr());
        Ok(found)
    }

    #[cold]
    fn find_or_make<'py>(home: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Self>> {
        let (py, name) = (home.py(), intern!(home.py(), "_tickwheel_deadlines"));
        if let Some(found) = home.getattr_opt(name)? {
            return Ok(found.cast_into()?);
        }
        let context = py.import("contextvars")?.getattr("Context")?.call0()?.unbind();
        let now = deadline_of(py, home.call_method0(intern!(py, "time"))?.extract()?)?;
        let state = GilCell::new(State { wheel: Wheel::new(now), armed: UNARMED, handle: None });
        let made = Bound::new(py, Self { home: home.clone().unbind(), time: Source::of(home)?, context, state })?;
        home.setattr(name, &made)?;
        Ok(made)
    }

    /// Return the result of `loop.time()`, read from the clock itself if possible.
    #[inline]
    pub(crate) fn time(&self, py: Python<'_>) -> PyResult<f64> {
        let home = self.home.bind(py);
        match &self.time {
            // SAFETY: the type was checked when this object was made.
            Source::Ours => TimerLoop::now(unsafe { home.cast_unchecked() }).map(Time::seconds),
            Source::Asked(reader) => reader.ask(home).map(Time::seconds),
            Source::Read(ahead) => Ok(seconds(SystemClock::MONOTONIC.now_ns()) + ahead),
        }
    }

    /// Insert a timeout that is not pending into the wheel. The wheel takes a reference to it.
    ///
    /// # Safety
    ///
    /// `timeout` is a living `TimeoutObject`.
    #[inline]
    pub(crate) unsafe fn insert(slf: &Bound<'_, Self>, timeout: *mut TimeoutObject, deadline: u64) -> PyResult<()> {
        let (py, this) = (slf.py(), slf.get());
        let is_earlier = this.state.with(py, |state| {
            // SAFETY: the timeout is alive, and the wheel gets a reference of its own.
            unsafe {
                ffi::Py_INCREF(timeout.cast());
                (*timeout).id = state.wheel.insert(deadline, Pending(timeout)).to_u64();
            }
            deadline < state.armed
        });
        if is_earlier {
            Self::arm(slf, deadline)?;
        }
        Ok(())
    }

    /// Remove a timeout from the wheel, and release the wheel's reference. If the timeout has already left the wheel as
    /// due, prevent it from expiring.
    ///
    /// # Safety
    ///
    /// `timeout` is pending here, and the caller has a reference to it.
    #[inline]
    pub(crate) unsafe fn withdraw(&self, py: Python<'_>, timeout: *mut TimeoutObject) {
        // SAFETY: the caller's reference keeps the timeout alive.
        let id = unsafe { Id::from_u64((*timeout).id) };
        match self.state.with(py, |state| state.wheel.cancel(id)) {
            Some(pending) => release(&pending),
            // SAFETY: the caller keeps the timeout alive. It is due, and clearing its id prevents it from expiring.
            None => unsafe { (*timeout).id = 0 },
        }
    }

    /// Schedule a call of `_fire` in the loop at `deadline`, in place of the call that was scheduled before.
    #[cold]
    fn arm(slf: &Bound<'_, Self>, deadline: u64) -> PyResult<()> {
        let (py, this) = (slf.py(), slf.get());
        let names = PyDict::new(py);
        names.set_item(intern!(py, "context"), &this.context)?;
        let fire = slf.getattr(intern!(py, "_fire"))?;
        let (home, when) = (this.home.bind(py), seconds(deadline));
        let handle = if matches!(this.time, Source::Read(_)) {
            let delay = (when - this.time(py)?).max(0.0);
            home.getattr(intern!(py, "call_later"))?.call((delay, fire), Some(&names))?
        } else {
            home.getattr(intern!(py, "call_at"))?.call((when, fire), Some(&names))?
        };
        let former = this.state.with(py, |state| {
            state.armed = deadline;
            state.handle.replace(handle.unbind())
        });
        former.map_or(Ok(()), |former| former.call_method0(py, intern!(py, "cancel")).map(drop))
    }
}

#[pymethods]
impl Deadlines {
    /// Cancel the tasks whose timeout has passed, and schedule the next call of this method for the next deadline.
    #[pyo3(name = "_fire")]
    fn fire(slf: &Bound<'_, Self>) -> PyResult<()> {
        let (py, this) = (slf.py(), slf.get());
        drop(this.state.with(py, |state| {
            state.armed = UNARMED;
            state.handle.take()
        }));
        let home = this.home.bind(py);
        let now = deadline_of(py, this.time(py)?)?;
        let due = this.state.with(py, |state| {
            let (mut due, mut work) = (Vec::new(), usize::MAX);
            state.wheel.begin_turn(now);
            while let Pop::Expired(entry) = state.wheel.pop(&mut work) {
                due.push((entry.payload.0, entry.id.to_u64()));
            }
            state.wheel.end_turn();
            due
        });
        // SAFETY: due timeouts are out of the wheel, and `expire` gets their references.
        let expire = |(timeout, id)| unsafe { TimeoutObject::expire(py, timeout, id).err() };
        let failed: Vec<_> = due.into_iter().filter_map(expire).collect();
        for error in failed {
            let context = PyDict::new(py);
            context.set_item("message", "a task could not be cancelled at its timeout")?;
            context.set_item("exception", error)?;
            home.call_method1(intern!(py, "call_exception_handler"), (context,))?;
        }
        let next = this.state.with(py, |state| state.wheel.next_expiration().filter(|&next| next < state.armed));
        next.map_or(Ok(()), |next| Self::arm(slf, next))
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        self.state.with(py, |state| state.wheel.len())
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.home)?;
        visit.call(&self.context)?;
        let shown = self.state.try_with(|state| {
            visit.call(&state.handle)?;
            state.wheel.payloads().try_for_each(|pending| {
                // SAFETY: a `Py` is a pointer to an object. It is only read here, while the wheel's reference exists.
                visit.call(unsafe { &*(&raw const pending.0).cast::<Py<PyAny>>() })
            })
        });
        shown.unwrap_or(Ok(()))
    }

    fn __clear__(&self) {
        // The collector found the loop unreachable, so it will not run again.
        let taken = self.state.try_with(|state| (state.wheel.drain(), state.handle.take()));
        let (left, handle) = taken.unwrap_or_default();
        for entry in left {
            release(&entry.payload);
        }
        drop(handle);
    }
}
