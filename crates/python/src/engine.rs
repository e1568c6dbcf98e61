//! `Engine`: the native wheel with a clock and callbacks, behind `tickwheel.timers._contract.Engine`.

use std::cell::Cell;

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use tickwheel_core::{coalesce, Expired, Id, Wheel, NEVER};

use crate::call::Call;
use crate::cell::GilCell;
use crate::clock::{seconds, to_ns, Clock};
use crate::errors::raise;
use crate::payload::{Held, Payload};
use crate::timer::{self, TimerObject, CANCELLED, FIRING};

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

/// The objects that the engine refers to, replaceable from Python.
#[derive(Default)]
pub(crate) struct Hooks {
    pub(crate) on_earlier: Option<Py<PyAny>>,
    pub(crate) on_error: Option<Py<PyAny>>,
    pub(crate) runner: Option<Py<PyAny>>,
}

/// A native wheel with a clock and callbacks.
///
/// Args:
///     clock: Where time comes from; None: the monotonic clock. `MonotonicClock` and `BootClock` are read without a Python call.
///     max_pending: How many timers may be pending; one more is refused with TooManyTimersError. None: no limit.
///
/// Every method may be called from any thread. `tickwheel.timers` describes the protocol.
#[pyclass(frozen, weakref, module = "tickwheel._core")]
pub(crate) struct Engine {
    kind: Clock,
    clock: Py<PyAny>,
    pub(crate) state: GilCell<State>,
    pub(crate) hooks: GilCell<Hooks>,
    pub(crate) living: Living,
}

/// How many timers have not ended. While there are any, they have one reference to their engine among them: so an engine with pending
/// timers cannot be freed under them, and the collector is shown one reference instead of a million.
#[derive(Default)]
pub(crate) struct Living(Cell<usize>);

// SAFETY: only touched with the GIL held.
unsafe impl Sync for Living {}

impl Living {
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

impl Engine {
    #[inline]
    pub(crate) fn now(&self, py: Python<'_>) -> PyResult<u64> {
        self.kind.now(&self.clock, py)
    }

    /// Take an entry out of the wheel.
    #[inline]
    pub(crate) fn cancel(&self, py: Python<'_>, id: Id) -> Option<Payload> {
        self.state.with(py, |state| state.wheel.cancel(id))
    }

    /// File a timer that is not pending and return whether the driver has to be told; the wheel takes over a reference.
    #[inline]
    pub(crate) fn file(
        &self,
        py: Python<'_>,
        timer: *mut TimerObject,
        deadline: u64,
    ) -> PyResult<bool> {
        let refused = self.state.with(py, |state| {
            if state.is_closed || state.wheel.len() >= state.max_pending {
                return None;
            }
            // SAFETY: the caller holds the timer; the GIL is held.
            unsafe {
                (*timer).deadline = deadline;
                (*timer).id = state.wheel.insert(deadline, Payload::timer(timer)).to_u64();
            }
            Some(state.is_earlier(deadline))
        });
        refused.ok_or_else(|| self.refusal(py))
    }

    /// Move a timer, or begin a new life of one that is firing; false if it has ended.
    ///
    /// # Safety
    ///
    /// The caller has a reference to `timer`, which is one of this engine's.
    #[inline]
    pub(crate) unsafe fn shift(
        &self,
        py: Python<'_>,
        timer: *mut TimerObject,
        deadline: u64,
    ) -> PyResult<bool> {
        // SAFETY: as the caller says; the state is read after the clock was, with no Python in between.
        let is_earlier = unsafe {
            if (*timer).is_pending() {
                (*timer).deadline = deadline;
                let id = Id::from_u64((*timer).id);
                self.state.with(py, |state| {
                    state.wheel.reschedule(id, deadline);
                    state.is_earlier(deadline)
                })
            } else if (*timer).id == FIRING && !(*timer).call.is_none() {
                if self.state.with(py, |state| state.is_closed) {
                    return Ok(false);
                }
                let is_earlier = self.file(py, timer, deadline)?;
                ffi::Py_INCREF(timer.cast());
                is_earlier
            } else {
                return Ok(false);
            }
        };
        if is_earlier {
            self.wake(py)?;
        }
        Ok(true)
    }

    /// Tell the driver that something earlier has come.
    #[cold]
    pub(crate) fn wake(&self, py: Python<'_>) -> PyResult<()> {
        let hook = self.hooks.with(py, |hooks| {
            hooks.on_earlier.as_ref().map(|hook| hook.clone_ref(py))
        });
        hook.map_or(Ok(()), |hook| hook.bind(py).call0().map(drop))
    }

    /// Give an `Exception` to `on_error`; hand back everything else.
    #[cold]
    pub(crate) fn report(
        &self,
        py: Python<'_>,
        error: PyErr,
        source: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        if !error.is_instance_of::<pyo3::exceptions::PyException>(py) {
            return Err(error);
        }
        match self.hooks.with(py, |hooks| {
            hooks.on_error.as_ref().map(|hook| hook.clone_ref(py))
        }) {
            Some(hook) => hook.bind(py).call1((error, source)).map(drop),
            None => {
                error.write_unraisable(py, Some(source));
                Ok(())
            }
        }
    }

    #[cold]
    pub(crate) fn refusal(&self, py: Python<'_>) -> PyErr {
        let (is_closed, limit) = self
            .state
            .with(py, |state| (state.is_closed, state.max_pending));
        if is_closed {
            raise(py, "ClosedError", ("wheel",))
        } else {
            raise(py, "TooManyTimersError", (limit,))
        }
    }

    /// Take everything out of the wheel; the payloads are the caller's to release.
    fn take_all(&self, py: Python<'_>, is_closing: bool) -> Vec<Expired<Payload>> {
        self.state.with(py, |state| {
            state.is_closed |= is_closing;
            state.armed = 0;
            state.wheel.drain()
        })
    }

    /// End what was taken out and describe it.
    fn describe<'py>(
        &self,
        py: Python<'py>,
        taken: Vec<Expired<Payload>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let described = PyList::empty(py);
        if taken.is_empty() {
            return Ok(described);
        }
        let pending = py
            .import(intern!(py, "tickwheel.typing"))?
            .getattr(intern!(py, "Pending"))?;
        let now = self.now(py)?;
        let rows: Vec<_> = taken
            .into_iter()
            .map(|entry| Row::take(py, entry))
            .collect();
        for Row {
            callback,
            args,
            deadline,
        } in rows
        {
            let remaining = if deadline >= NEVER {
                f64::INFINITY
            } else {
                (deadline as f64 - now as f64) / 1e9
            };
            described.append(pending.call1((callback, args, seconds(deadline), remaining))?)?;
        }
        Ok(described)
    }
}

/// What was pending, with the reference that the wheel had.
struct Row<'py> {
    callback: Bound<'py, PyAny>,
    args: Bound<'py, PyTuple>,
    deadline: u64,
}

impl<'py> Row<'py> {
    fn take(py: Python<'py>, entry: Expired<Payload>) -> Self {
        // SAFETY: the wheel's references become ours; a call is read before its timer is ended.
        unsafe {
            match entry.payload.held() {
                Held::Timer(timer) => {
                    let words = (*timer).call.words();
                    let callback = Bound::from_borrowed_ptr(py, words[0]);
                    let args = words[1..]
                        .iter()
                        .map(|&word| Bound::from_borrowed_ptr(py, word));
                    let args = PyTuple::new(py, args.collect::<Vec<_>>())
                        .unwrap_or_else(|_| PyTuple::empty(py));
                    TimerObject::end(timer, CANCELLED);
                    ffi::Py_DECREF(timer.cast());
                    Self {
                        callback,
                        args,
                        deadline: entry.deadline,
                    }
                }
                Held::Batch(callback) => {
                    let id = PyTuple::new(py, [entry.id.to_u64()])
                        .unwrap_or_else(|_| PyTuple::empty(py));
                    Self {
                        callback: Bound::from_owned_ptr(py, callback),
                        args: id,
                        deadline: entry.deadline,
                    }
                }
            }
        }
    }
}

impl State {
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

/// Let go of payloads without telling anyone: what remains when an engine is collected.
pub(crate) fn release(entries: Vec<Expired<Payload>>) {
    for entry in entries {
        // SAFETY: the wheel's references are ours now, and the GIL is held.
        unsafe {
            match entry.payload.held() {
                Held::Timer(timer) => {
                    TimerObject::end(timer, CANCELLED);
                    ffi::Py_DECREF(timer.cast());
                }
                Held::Batch(callback) => ffi::Py_DECREF(callback),
            }
        }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        // An engine dies with the GIL held, and only batches can be pending: a pending timer refers to its engine.
        let left = self.wheel.drain();
        if !left.is_empty() {
            Python::attach(|_| release(left));
        }
    }
}

#[pymethods]
impl Engine {
    #[new]
    #[pyo3(signature = (clock=None, *, max_pending=None))]
    fn new(
        py: Python<'_>,
        clock: Option<Bound<'_, PyAny>>,
        max_pending: Option<usize>,
    ) -> PyResult<Self> {
        let clock = match clock {
            Some(clock) => clock,
            None => py
                .import("tickwheel.clock")?
                .getattr("MonotonicClock")?
                .call0()?,
        };
        let kind = Clock::of(&clock)?;
        let clock = clock.unbind();
        let now = kind.now(&clock, py)?;
        let state = State {
            wheel: Wheel::new(now),
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
        })
    }

    /// Where time comes from.
    #[getter]
    fn clock<'py>(&self, py: Python<'py>) -> &Bound<'py, PyAny> {
        self.clock.bind(py)
    }

    /// Called, once for each arming, when a timer is set or moved before the armed deadline.
    #[getter]
    fn on_earlier(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.hooks.with(py, |hooks| {
            hooks.on_earlier.as_ref().map(|hook| hook.clone_ref(py))
        })
    }

    #[setter]
    fn set_on_earlier(&self, py: Python<'_>, hook: Option<Py<PyAny>>) {
        let former = self
            .hooks
            .with(py, |hooks| std::mem::replace(&mut hooks.on_earlier, hook));
        drop(former);
    }

    /// Gets every `Exception` that a callback raises, and the timer; None: `sys.unraisablehook`.
    #[getter]
    fn on_error(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.hooks.with(py, |hooks| {
            hooks.on_error.as_ref().map(|hook| hook.clone_ref(py))
        })
    }

    #[setter]
    fn set_on_error(&self, py: Python<'_>, hook: Option<Py<PyAny>>) {
        let former = self
            .hooks
            .with(py, |hooks| std::mem::replace(&mut hooks.on_error, hook));
        drop(former);
    }

    /// Where set, gets every due timer instead of its being called.
    #[getter]
    fn runner(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.hooks.with(py, |hooks| {
            hooks.runner.as_ref().map(|hook| hook.clone_ref(py))
        })
    }

    #[setter]
    fn set_runner(&self, py: Python<'_>, hook: Option<Py<PyAny>>) {
        let former = self
            .hooks
            .with(py, |hooks| std::mem::replace(&mut hooks.runner, hook));
        drop(former);
    }

    /// Return when to call `fire_due` next, in clock nanoseconds, or None; see the protocol.
    fn arm(&self, py: Python<'_>) -> Option<u64> {
        self.state.with(py, |state| {
            let next = if state.wheel.is_busy() {
                Some(0)
            } else {
                state.wheel.next_expiration()
            };
            state.armed = next.unwrap_or(NEVER);
            next
        })
    }

    /// Call what is due by the clock and return how many were called; see the protocol.
    #[pyo3(signature = (limit=None))]
    fn fire_due(slf: &Bound<'_, Self>, limit: Option<isize>) -> PyResult<usize> {
        crate::firing::fire_due(slf, limit)
    }

    /// Cancel everything that is pending and return it, in order.
    fn drain<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.describe(py, self.take_all(py, false))
    }

    /// Drain, and refuse to set from now on; twice is allowed.
    fn close<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.describe(py, self.take_all(py, true))
    }

    /// Return whether the engine was closed.
    fn closed(&self, py: Python<'_>) -> bool {
        self.state.with(py, |state| state.is_closed)
    }

    /// Begin anew in the child of a fork; see the protocol.
    fn after_fork(&self, py: Python<'_>) {
        let taken = self.take_all(py, false);
        release(taken);
        let here = crate::firing::this_thread();
        self.state.with(py, |state| {
            if state.firing != here {
                state.firing = 0;
                state.wheel.end_turn();
            }
        });
    }

    /// Return the counters of engine and wheel.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (stats, pending, bytes, lateness) = self.state.with(py, |state| {
            (
                *state.wheel.stats(),
                state.wheel.len(),
                state.wheel.bytes(),
                state.lateness,
            )
        });
        let dict = crate::wheel::stats_dict(py, &stats, pending, bytes)?;
        dict.set_item("lateness", lateness.to_vec())?;
        Ok(dict)
    }

    /// Verify the invariants of the wheel; raises AssertionError.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.state
            .with(py, |state| crate::wheel::checked(|| state.wheel.check()))
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        self.state.with(py, |state| state.wheel.len())
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.clock)?;
        let hooks = self.hooks.try_with(|hooks| -> Result<(), PyTraverseError> {
            visit.call(&hooks.on_earlier)?;
            visit.call(&hooks.on_error)?;
            visit.call(&hooks.runner)
        });
        hooks.unwrap_or(Ok(()))?;
        let show = |object: *mut ffi::PyObject| {
            // SAFETY: a `Py` is a pointer to an object; it is only looked at, for as long as the wheel's reference lasts.
            visit.call(unsafe { &*(&raw const object).cast::<Py<PyAny>>() })
        };
        let entries = self.state.try_with(|state| {
            let (mut pending, mut engine) = (0, std::ptr::null_mut());
            for payload in state.wheel.payloads() {
                match payload.held() {
                    // SAFETY: a pending timer is alive, and refers to its call and to this engine.
                    Held::Timer(timer) => unsafe {
                        show((*timer).call.object())?;
                        engine = (*timer).engine_pointer();
                        pending += 1;
                    },
                    Held::Batch(callback) => show(callback)?,
                }
            }
            // The reference that living timers share is the wheel's own, unless one is firing: that one keeps the engine from outside.
            if pending > 0 && pending == self.living.0.get() {
                show(engine)?;
            }
            Ok(())
        });
        entries.unwrap_or(Ok(()))
    }

    fn __clear__(&self) {
        // The collector found the engine unreachable: no one can fire its timers any more.
        let taken = self.state.try_with(|state| {
            state.is_closed = true;
            state.wheel.drain()
        });
        release(taken.unwrap_or_default());
        drop(self.hooks.try_with(std::mem::take));
    }
}

/// `call_at` and `call_later` differ in where the time counts from.
#[derive(Clone, Copy, PartialEq)]
enum From {
    Zero,
    Now,
}

unsafe extern "C" fn call_at(
    slf: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by the interpreter on an `Engine`, as its method descriptor sees to.
    unsafe { crate::cell::guard(|py| set(py, slf, args, count as usize, names, From::Zero)) }
}

unsafe extern "C" fn call_later(
    slf: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as above.
    unsafe { crate::cell::guard(|py| set(py, slf, args, count as usize, names, From::Now)) }
}

/// Set a timer: the hot path.
#[inline]
unsafe fn set(
    py: Python<'_>,
    slf: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: usize,
    names: *mut ffi::PyObject,
    from: From,
) -> PyResult<*mut ffi::PyObject> {
    // SAFETY: the arguments are the caller's for the length of the call; a timer is in the wheel only with a reference of its own.
    unsafe {
        let name = if from == From::Now { "delay" } else { "when" };
        if count < 2 {
            return Err(too_few(name));
        }
        let words = std::slice::from_raw_parts(args, count);
        let value = to_ns(py, words[0], name)?;
        if ffi::PyCallable_Check(words[1]) == 0 {
            return Err(not_callable(py, words[1]));
        }
        let engine = Borrowed::from_ptr(py, slf).cast_unchecked::<Engine>().get();
        let options = if names.is_null() {
            Options::default()
        } else {
            Options::read(py, args.add(count), names)?
        };
        let mut deadline = match from {
            From::Zero => value,
            From::Now => engine.now(py)?.saturating_add(value).min(NEVER),
        };
        if options.slack_ns > 0 && deadline < NEVER {
            deadline = coalesce(deadline, options.slack_ns).min(NEVER);
        }
        let call = match &options.run {
            None => Call::new(&words[1..]),
            Some(run) => Call::new(&[&[run.as_ptr()], &words[1..]].concat()),
        };
        let timer = timer::new(slf, call.ok_or_else(|| PyErr::fetch(py))?, deadline)?;
        match engine.file(py, timer, deadline) {
            Ok(is_earlier) => {
                ffi::Py_INCREF(timer.cast());
                if is_earlier {
                    if let Err(error) = engine.wake(py) {
                        ffi::Py_DECREF(timer.cast());
                        return Err(error);
                    }
                }
                Ok(timer.cast())
            }
            Err(error) => {
                ffi::Py_DECREF(timer.cast());
                Err(error)
            }
        }
    }
}

/// The keywords of `call_at` and `call_later`.
#[derive(Default)]
struct Options<'py> {
    slack_ns: u64,
    /// `context.run`.
    run: Option<Bound<'py, PyAny>>,
}

impl<'py> Options<'py> {
    #[cold]
    unsafe fn read(
        py: Python<'py>,
        values: *const *mut ffi::PyObject,
        names: *mut ffi::PyObject,
    ) -> PyResult<Self> {
        // SAFETY: the interpreter passes as many values as names.
        let names = unsafe { Borrowed::from_ptr(py, names).cast_unchecked::<PyTuple>() };
        let mut options = Self::default();
        for (at, name) in names.iter().enumerate() {
            // SAFETY: as above.
            let value = unsafe { Borrowed::from_ptr(py, *values.add(at)) };
            match name.extract::<&str>()? {
                "slack" => options.slack_ns = unsafe { to_ns(py, value.as_ptr(), "slack") }?,
                "context" if value.is_none() => {}
                "context" => options.run = Some(value.getattr(intern!(py, "run"))?),
                other => {
                    let text =
                        format!("unknown keyword {other}: only slack= and context= are known");
                    return Err(PyTypeError::new_err(text));
                }
            }
        }
        Ok(options)
    }
}

#[cold]
fn too_few(name: &str) -> PyErr {
    PyTypeError::new_err(format!(
        "too few arguments: pass a {name} in seconds and a callback"
    ))
}

#[cold]
fn not_callable(py: Python<'_>, object: *mut ffi::PyObject) -> PyErr {
    // SAFETY: the object is an argument of the call.
    let shown = unsafe { Borrowed::from_ptr(py, object) }
        .repr()
        .map_or_else(|_| "an object".into(), |text| text.to_string());
    PyTypeError::new_err(format!(
        "callback is {shown}: pass something that can be called"
    ))
}

const FLAGS: std::ffi::c_int = ffi::METH_FASTCALL | ffi::METH_KEYWORDS;

/// The methods that are called millions of times a second, as the interpreter's own kind of fast function.
struct Methods([ffi::PyMethodDef; 2]);

// SAFETY: never written after the module's import.
unsafe impl Sync for Methods {}

static METHODS: Methods = Methods([
    ffi::PyMethodDef {
        ml_name: c"call_at".as_ptr(),
        ml_meth: ffi::PyMethodDefPointer {
            PyCFunctionFastWithKeywords: call_at,
        },
        ml_flags: FLAGS,
        ml_doc: c"call_at($self, when, callback, /, *args, slack=0.0, context=None)\n--\n\n\
            Call *callback* with *args* once the clock reads *when* seconds; see the protocol."
            .as_ptr(),
    },
    ffi::PyMethodDef {
        ml_name: c"call_later".as_ptr(),
        ml_meth: ffi::PyMethodDefPointer {
            PyCFunctionFastWithKeywords: call_later,
        },
        ml_flags: FLAGS,
        ml_doc: c"call_later($self, delay, callback, /, *args, slack=0.0, context=None)\n--\n\n\
            Call *callback* with *args* in *delay* seconds; see the protocol."
            .as_ptr(),
    },
]);

/// Put the type into the module, with its fast methods.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let kind = py.get_type::<Engine>();
    for method in &METHODS.0 {
        // SAFETY: the table is static; the interpreter only reads it.
        unsafe {
            let descriptor =
                ffi::PyDescr_NewMethod(kind.as_type_ptr(), std::ptr::from_ref(method).cast_mut());
            let descriptor = Bound::from_owned_ptr_or_err(py, descriptor)?;
            let name = std::ffi::CStr::from_ptr(method.ml_name)
                .to_str()
                .expect("names are ASCII");
            kind.setattr(name, descriptor)?;
        }
    }
    module.add("Engine", kind)
}
