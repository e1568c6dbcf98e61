//! The methods of `Engine`, except `call_at` and `call_later`, which are in `set.rs`.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::ffi;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use tickwheel_core::{Wheel, NEVER};

use crate::clock::Clock;
use crate::cpython::cell::GilCell;
use crate::cpython::modules::import_for_engines;
use crate::cpython::reports::{checked, levels_list, stats_dict};
use crate::timers::batches::Batches;
use crate::timers::bulk;
use crate::timers::engine::{Engine, Hooks};
use crate::timers::firing;
use crate::timers::numbers::{ENGINES, NONE};
use crate::timers::payload::{self, Held};
use crate::timers::pending::{self, release};
use crate::timers::state::{Living, State};

#[pymethods]
impl Engine {
    #[new]
    #[pyo3(signature = (clock=None, *, max_pending=None))]
    fn new(py: Python<'_>, clock: Option<Bound<'_, PyAny>>, max_pending: Option<usize>) -> PyResult<Self> {
        import_for_engines(py)?;
        let clock = match clock {
            Some(clock) => clock,
            None => py.import("tickwheel.clock")?.getattr("MonotonicClock")?.call0()?,
        };
        let kind = Clock::of(&clock)?;
        let clock = clock.unbind();
        let now = kind.now(&clock, py)?;
        let state = State {
            wheel: Wheel::owned(now),
            batches: Batches::default(),
            armed: 0,
            max_pending: max_pending.unwrap_or(usize::MAX),
            is_closed: false,
            firing: 0,
            lateness: [0; 64],
        };
        Ok(Self {
            kind,
            clock,
            state: GilCell::new(state),
            hooks: GilCell::new(Hooks::default()),
            living: Living::default(),
            awaits: AtomicBool::default(),
            captures: AtomicBool::default(),
        })
    }

    /// The longest delay; None, because the native wheel holds any delay.
    #[getter]
    #[allow(clippy::unused_self)] // engines in Python may have a span
    fn span_ns(&self) -> Option<u64> {
        None
    }

    /// Called at most once after each `arm`, when a timer is set or moved before the armed deadline.
    #[getter]
    fn on_earlier(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.hook(py, |hooks| &hooks.on_earlier)
    }

    #[setter]
    fn set_on_earlier(&self, py: Python<'_>, hook: Option<Py<PyAny>>) {
        drop(self.hooks.with(py, |hooks| std::mem::replace(&mut hooks.on_earlier, hook)));
    }

    /// Receives every `Exception` that a callback raises, with the timer; None means `sys.unraisablehook`.
    #[getter]
    fn on_error(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.hook(py, |hooks| &hooks.on_error)
    }

    #[setter]
    fn set_on_error(&self, py: Python<'_>, hook: Option<Py<PyAny>>) {
        drop(self.hooks.with(py, |hooks| std::mem::replace(&mut hooks.on_error, hook)));
    }

    /// Receives every coroutine that a callback returns, with the timer; if this hook is None, coroutine functions are
    /// refused.
    #[getter]
    fn on_coroutine(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.hook(py, |hooks| &hooks.on_coroutine)
    }

    #[setter]
    fn set_on_coroutine(&self, py: Python<'_>, hook: Option<Py<PyAny>>) {
        self.awaits.store(hook.is_some(), Ordering::Relaxed);
        drop(self.hooks.with(py, |hooks| std::mem::replace(&mut hooks.on_coroutine, hook)));
    }

    /// True if a callback runs in a copy of the context in which it was set, and False if it runs in the context of the
    /// firing thread.
    #[getter]
    fn captures_context(&self) -> bool {
        self.captures()
    }

    #[setter]
    fn set_captures_context(&self, captures: bool) {
        self.captures.store(captures, Ordering::Relaxed);
    }

    /// If set, receives every due timer, and has to run it.
    #[getter]
    fn runner(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.hook(py, |hooks| &hooks.runner)
    }

    #[setter]
    fn set_runner(&self, py: Python<'_>, hook: Option<Py<PyAny>>) {
        drop(self.hooks.with(py, |hooks| std::mem::replace(&mut hooks.runner, hook)));
    }

    /// Set a timer for each of *delays*, even if there are a million, and return their ids as an `array("q")`.
    ///
    /// When some of them expire, *callback* gets their ids in one array. `cancel_many` and `move_many` take ids.
    ///
    /// Args:
    ///     delays: Seconds; an array of doubles (`array("d")`, NumPy) or any iterable of numbers.
    ///     callback: Called with an `array("q")` of ids that expired in succession.
    ///     slack: Maximum additional delay of each timer in seconds, so that several timers expire together, as in
    ///         `call_later`.
    ///
    /// Raises:
    ///     InvalidDelayError: If one of *delays*, or *slack*, is NaN. After this and any other error, no timer was set.
    ///     TooManyTimersError: If max_pending does not allow all of them.
    ///     ClosedError: After close.
    #[pyo3(signature = (delays, callback, *, slack=0), text_signature = "($self, delays, callback, *, slack=0.0)")]
    fn call_later_many<'py>(
        slf: &Bound<'py, Self>,
        delays: &Bound<'py, PyAny>,
        callback: &Bound<'py, PyAny>,
        #[pyo3(from_py_with = bulk::slack_ns)] slack: u64,
    ) -> PyResult<Bound<'py, PyAny>> {
        bulk::set(slf, delays, callback, slack)
    }

    /// Return True if *id* is the id of a pending timer of `call_later_many`.
    #[pyo3(signature = (id, /))]
    fn has_id(&self, py: Python<'_>, id: &Bound<'_, PyAny>) -> PyResult<bool> {
        bulk::has_id(py, self, id)
    }

    /// Cancel many timers and return how many of them were pending.
    ///
    /// Args:
    ///     timers: Ids (`array("q")`, NumPy int64) or an iterable of ids and handles.
    fn cancel_many(slf: &Bound<'_, Self>, timers: &Bound<'_, PyAny>) -> PyResult<usize> {
        bulk::cancel(slf, timers)
    }

    /// Move many timers to new delays from now, and return how many of them are going to fire.
    ///
    /// Args:
    ///     timers: As in `cancel_many`.
    ///     delays: One number of seconds for all, or as many as there are timers.
    ///
    /// Raises:
    ///     InvalidDelayError: If a delay is NaN. Nothing was moved.
    ///     ValueError: If the number of delays is neither one nor the number of timers. Nothing was moved.
    fn move_many(slf: &Bound<'_, Self>, timers: &Bound<'_, PyAny>, delays: &Bound<'_, PyAny>) -> PyResult<usize> {
        bulk::shift(slf, timers, delays)
    }

    /// Return the time of the next `fire_due`, in clock nanoseconds, or None; see `tickwheel.timers.contract.Engine`.
    fn arm(&self, py: Python<'_>) -> Option<u64> {
        self.state.with(py, |state| {
            let next = if state.wheel.is_busy() { Some(0) } else { state.wheel.next_expiration() };
            state.armed = next.unwrap_or(NEVER);
            next
        })
    }

    /// Make the next timer that is set or moved call `on_earlier`, whatever its deadline.
    fn disarm(&self, py: Python<'_>) {
        self.state.with(py, |state| state.armed = NEVER);
    }

    /// Call due timers and return their number; see `tickwheel.timers.contract.Engine`.
    #[pyo3(signature = (limit=None))]
    fn fire_due(slf: &Bound<'_, Self>, limit: Option<&Bound<'_, PyAny>>) -> PyResult<usize> {
        firing::fire_due(slf, limit)
    }

    /// Return at most *limit* pending timers, in order.
    #[pyo3(signature = (limit=None))]
    fn pending<'py>(&self, py: Python<'py>, limit: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyList>> {
        pending::list(py, self, limit)
    }

    /// Cancel all pending timers and return them, in order.
    fn drain<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        pending::take(py, self, false)
    }

    /// Drain the engine, and refuse further timers; may be called twice.
    fn close<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        pending::take(py, self, true)
    }

    /// Return True if the engine was closed.
    fn closed(&self, py: Python<'_>) -> bool {
        self.state.with(py, |state| state.is_closed)
    }

    /// Start again in the child of a fork; see `tickwheel.timers.contract.Engine`.
    fn after_fork(&self, py: Python<'_>) {
        for entry in self.state.with(py, |state| state.take_all(false)) {
            release(py, &entry.payload);
        }
        let here = firing::this_thread();
        self.state.with(py, |state| {
            if state.firing != here {
                state.firing = 0;
                state.wheel.end_turn();
            }
        });
    }

    /// Return the counters of engine and wheel.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (stats, pending, bytes, lateness, levels) = self.state.with(py, |state| {
            let wheel = &state.wheel;
            (*wheel.stats(), wheel.len(), wheel.bytes(), state.lateness, wheel.occupancy())
        });
        let dict = stats_dict(py, &stats, pending, bytes)?;
        dict.set_item("lateness", lateness.to_vec())?;
        dict.set_item("levels", levels_list(py, levels)?)?;
        Ok(dict)
    }

    /// Verify the invariants of the wheel; raises AssertionError.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.state.with(py, |state| checked(|| state.wheel.check()))
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        self.state.with(py, |state| state.wheel.len())
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.clock)?;
        let hooks = self.hooks.try_with(|hooks| -> Result<(), PyTraverseError> {
            visit.call(&hooks.on_earlier)?;
            visit.call(&hooks.on_error)?;
            visit.call(&hooks.on_coroutine)?;
            visit.call(&hooks.runner)
        });
        hooks.unwrap_or(Ok(()))?;
        let show = |object: *mut ffi::PyObject| {
            // SAFETY: a `Py` is a pointer to an object. It is only read here, while the wheel's reference exists.
            visit.call(unsafe { &*(&raw const object).cast::<Py<PyAny>>() })
        };
        let entries = self.state.try_with(|state| {
            let (mut pending, mut number) = (0, NONE);
            payload::walk(state.wheel.payloads(), |payload| match payload.held() {
                // SAFETY: a pending timer is alive, and refers to its call and to this engine.
                Held::Timer(timer) => unsafe {
                    number = (*timer).engine;
                    pending += 1;
                    (*timer).call.all_words().iter().try_for_each(|&word| show(word))
                },
                Held::Batch(callback) => show(callback),
            })?;
            // If all living timers are in the wheel, it owns their shared reference. If one is firing, that timer keeps
            // the engine alive from outside.
            if pending > 0 && pending == self.living.count() {
                // SAFETY: the collector runs with the GIL held.
                show(ENGINES.get(unsafe { Python::assume_attached() }, number))?;
            }
            Ok(())
        });
        entries.unwrap_or(Ok(()))
    }

    fn __clear__(&self, py: Python<'_>) {
        // The collector found the engine unreachable, so its timers cannot fire any more.
        for entry in self.state.try_with(|state| state.take_all(true)).unwrap_or_default() {
            release(py, &entry.payload);
        }
        drop(self.hooks.try_with(std::mem::take));
    }
}
