//! `Timeout` and the functions `timeout` and `timeout_at`, which return a `Timeout`. A `Timeout` works like
//! `asyncio.Timeout`, but its deadline is in a wheel.

use std::ffi::c_void;
use std::ptr::null_mut;

use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;

use crate::aio::deadlines::Deadlines;
use crate::aio::handle::put;
use crate::aio::running::{cancelling, current_task, running_loop};
use crate::aio::step::makers;
use crate::aio::time::{deadline_of, seconds_of};
use crate::aio::timeout_object::{clear, dealloc, new, traverse, Phase, TimeoutObject, TYPE};
use crate::cpython::cell::guard;
use crate::cpython::fast_methods::{fast, of_one, plain, FastMethods};
use crate::cpython::type_builder::{Table, TypeBuilder};
use crate::once::intern;

/// Make a timeout for an instant; `when` is borrowed.
unsafe fn at(py: Python<'_>, when: *mut ffi::PyObject) -> PyResult<*mut ffi::PyObject> {
    // SAFETY: `when` is an object, and the values read from it are objects or null.
    unsafe {
        let (seconds, given) = read(py, when)?;
        new(py, None, seconds, given, false)
    }
}

/// Return a deadline as a float. If `when` is None or an integer, also return `when` itself, otherwise null.
unsafe fn read(py: Python<'_>, when: *mut ffi::PyObject) -> PyResult<(f64, *mut ffi::PyObject)> {
    // SAFETY: `when` is an object.
    unsafe {
        if when == ffi::Py_None() {
            return Ok((f64::INFINITY, when));
        }
        let seconds = seconds_of(py, when, "when")?;
        Ok((seconds, if ffi::PyLong_Check(when) != 0 { when } else { null_mut() }))
    }
}

impl TimeoutObject {
    /// Enter the timeout. This is what happens when the result of `__aenter__` is awaited.
    ///
    /// # Safety
    ///
    /// The caller has a reference to the timeout.
    pub(crate) unsafe fn enter(py: Python<'_>, timeout: *mut Self) -> PyResult<()> {
        // SAFETY: the timeout is alive, and no Rust reference to its fields exists during a call of Python.
        unsafe {
            if (*timeout).phase != Phase::Created {
                return Err(PyRuntimeError::new_err("Timeout has already been entered"));
            }
            if (*timeout).deadlines.is_null() {
                put(&raw mut (*timeout).deadlines, Deadlines::of(&running_loop(py)?)?.into_ptr());
            }
            let deadlines = Self::deadlines(py, timeout);
            let task = current_task(py, deadlines.get().home.bind(py))?;
            if task.is_none() {
                return Err(PyRuntimeError::new_err("Timeout should be used inside a task"));
            }
            (*timeout).cancelling = cancelling(&task)?;
            put(&raw mut (*timeout).task, task.into_ptr());
            (*timeout).phase = Phase::Active;
            Self::set(py, timeout)
        }
    }

    /// Return the `Deadlines` of a timeout that was entered.
    #[inline]
    unsafe fn deadlines(py: Python<'_>, timeout: *mut Self) -> Bound<'_, Deadlines> {
        // SAFETY: this is set when the timeout is entered, and released only when the timeout is unreachable.
        unsafe { Bound::from_borrowed_ptr(py, (*timeout).deadlines).cast_into_unchecked() }
    }

    /// Insert the timeout into the wheel. If it is due already, let it expire in the next iteration of the loop.
    #[inline]
    unsafe fn set(py: Python<'_>, timeout: *mut Self) -> PyResult<()> {
        // SAFETY: the caller's reference keeps the timeout alive, and a timeout that was entered has a wheel.
        unsafe {
            if (*timeout).given == ffi::Py_None() {
                return Ok(());
            }
            let deadlines = Self::deadlines(py, timeout);
            if !(*timeout).is_ahead && (*timeout).when <= deadlines.get().time(py)? {
                let on_timeout = Borrowed::from_ptr(py, timeout.cast()).getattr(intern!(py, "_on_timeout"))?;
                let soon = deadlines.get().home.bind(py).call_method1(intern!(py, "call_soon"), (on_timeout,))?;
                put(&raw mut (*timeout).soon, soon.into_ptr());
                return Ok(());
            }
            let deadline = deadline_of(py, (*timeout).when)?;
            Deadlines::insert(&deadlines, timeout, deadline)
        }
    }

    /// Take the timeout out of the wheel, or its handle out of the loop.
    #[inline]
    unsafe fn unset(py: Python<'_>, timeout: *mut Self) -> PyResult<()> {
        // SAFETY: the caller's reference keeps the timeout alive, and the handle is taken from the field before it is
        // released.
        unsafe {
            if (*timeout).id != 0 {
                Self::deadlines(py, timeout).get().withdraw(py, timeout);
            }
            if !(*timeout).soon.is_null() {
                let soon = Bound::from_owned_ptr(py, std::mem::replace(&mut (*timeout).soon, null_mut()));
                soon.call_method0(intern!(py, "cancel"))?;
            }
            Ok(())
        }
    }

    /// Leave the timeout (`__aexit__`); the exception is borrowed.
    ///
    /// # Safety
    ///
    /// The caller has references to the timeout, `kind` and `error`.
    pub(crate) unsafe fn exit(
        py: Python<'_>,
        timeout: *mut Self,
        kind: *mut ffi::PyObject,
        error: *mut ffi::PyObject,
    ) -> PyResult<()> {
        // SAFETY: all three are alive, and a timeout that was entered has a task until it is left.
        unsafe {
            Self::unset(py, timeout)?;
            match (*timeout).phase {
                Phase::Active => (*timeout).phase = Phase::Finished,
                Phase::Expiring => {
                    (*timeout).phase = Phase::Expired;
                    let task = Borrowed::from_ptr(py, (*timeout).task).to_owned();
                    let left: i64 = task.call_method0(intern!(py, "uncancel"))?.extract()?;
                    if left <= (*timeout).cancelling && kind != ffi::Py_None() {
                        // This is rare, and different in each version of asyncio, so it is written in Python.
                        let settle = py.import("tickwheel.aio._settle")?.getattr("settle")?;
                        settle.call1((Borrowed::from_ptr(py, kind), Borrowed::from_ptr(py, error)))?;
                    }
                }
                _ => return Err(PyRuntimeError::new_err("Timeout has not been entered, or was left before")),
            }
            put(&raw mut (*timeout).task, null_mut());
            Ok(())
        }
    }
}

unsafe extern "C" fn reschedule(object: *mut ffi::PyObject, when: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: the caller keeps timeout and object alive, and no Rust reference to the fields exists while they are
    // written.
    unsafe {
        guard(|py| {
            let timeout = object.cast::<TimeoutObject>();
            match (*timeout).phase {
                Phase::Active => {}
                Phase::Created => return Err(PyRuntimeError::new_err("Timeout has not been entered")),
                phase => {
                    let text = format!("Cannot change state of {} Timeout", phase.name());
                    return Err(PyRuntimeError::new_err(text));
                }
            }
            let (seconds, given) = read(py, when)?;
            TimeoutObject::unset(py, timeout)?;
            (*timeout).when = seconds;
            (*timeout).is_ahead = false;
            put(&raw mut (*timeout).given, ffi::Py_XNewRef(given));
            TimeoutObject::set(py, timeout)?;
            Ok(py.None().into_ptr())
        })
    }
}

unsafe extern "C" fn on_timeout(object: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: called by the interpreter on a timeout, which the caller keeps alive.
    unsafe { guard(|py| TimeoutObject::ring(py, object.cast()).map(|()| py.None().into_ptr())) }
}

unsafe extern "C" fn when(object: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: called by the interpreter on a timeout, and no Python code runs while a Rust reference to its fields
    // exists.
    unsafe {
        let this = &*object.cast::<TimeoutObject>();
        if this.given.is_null() {
            ffi::PyFloat_FromDouble(this.when)
        } else {
            ffi::Py_NewRef(this.given)
        }
    }
}

unsafe extern "C" fn expired(object: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: called by the interpreter on a timeout, whose phase is copied.
    unsafe {
        let phase = (*object.cast::<TimeoutObject>()).phase;
        ffi::PyBool_FromLong(matches!(phase, Phase::Expiring | Phase::Expired).into())
    }
}

unsafe extern "C" fn repr(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: called by the interpreter on a timeout, and `when` is one of our functions that take a timeout.
    unsafe {
        guard(|py| {
            let phase = (*object.cast::<TimeoutObject>()).phase;
            let mut info = String::new();
            if phase == Phase::Active {
                let when = Bound::from_owned_ptr_or_err(py, when(object, null_mut()))?;
                let shown = if when.is_none() { when } else { when.call_method1(intern!(py, "__round__"), (3,))? };
                info = format!(" when={shown}");
            }
            let text = format!("<Timeout [{}]{info}>", phase.name());
            Ok(text.into_pyobject(py)?.into_any().into_ptr())
        })
    }
}

/// Return the only argument of `timeout(delay)` and `timeout_at(when)`, which may be passed by position or by name.
unsafe fn argument(
    py: Python<'_>,
    function: &str,
    name: &str,
    args: *const *mut ffi::PyObject,
    count: usize,
    names: *mut ffi::PyObject,
) -> PyResult<*mut ffi::PyObject> {
    // SAFETY: the interpreter passes `count` words, and one more for each name.
    unsafe {
        let by_name = if names.is_null() { 0 } else { ffi::PyTuple_GET_SIZE(names) };
        let is_known =
            by_name == 0 || Borrowed::from_ptr(py, ffi::PyTuple_GET_ITEM(names, 0)).extract::<&str>()? == name;
        if count as isize + by_name != 1 || !is_known {
            return Err(PyTypeError::new_err(format!("{function}() takes one argument, {name}")));
        }
        Ok(*args)
    }
}

unsafe extern "C" fn timeout(
    _: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by the interpreter with the arguments that `count` and `names` describe.
    unsafe {
        guard(|py| {
            let delay = argument(py, "timeout", "delay", args, count as usize, names)?;
            let deadlines = Deadlines::of(&running_loop(py)?)?;
            if delay == ffi::Py_None() {
                return new(py, Some(deadlines.into_any()), f64::INFINITY, delay, false);
            }
            let delay = seconds_of(py, delay, "delay")?;
            let now = deadlines.get().time(py)?;
            new(py, Some(deadlines.into_any()), now + delay, null_mut(), delay > 0.0)
        })
    }
}

unsafe extern "C" fn timeout_at(
    _: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the caller keeps the arguments that `count` and `names` describe alive during the call.
    unsafe { guard(|py| at(py, argument(py, "timeout_at", "when", args, count as usize, names)?)) }
}

static METHODS: FastMethods<5> = Table([
    of_one(
        c"reschedule",
        reschedule,
        c"reschedule($self, when, /)\n--\n\nMove the deadline of a timeout that is active; None is never.",
    ),
    plain(c"when", when, c"when($self, /)\n--\n\nReturn the deadline in seconds of the loop's time, or None."),
    plain(c"expired", expired, c"expired($self, /)\n--\n\nReturn whether the time was up before the block ended."),
    plain(c"_on_timeout", on_timeout, c"_on_timeout($self, /)\n--\n\nCancel the task: the time is up."),
    ffi::PyMethodDef::zeroed(),
]);

static FUNCTIONS: FastMethods<2> = Table([
    fast(
        c"timeout",
        timeout,
        c"timeout(delay)\n--\n\n\
            Cancel the body of `async with` when it takes longer than *delay* seconds: `asyncio.timeout`, cheaper.",
    ),
    fast(
        c"timeout_at",
        timeout_at,
        c"timeout_at(when)\n--\n\nThe same for an instant of the loop's time; None is never.",
    ),
]);

/// Make the type, and add it and the functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let builder = TypeBuilder::new(c"tickwheel._core.Timeout", size_of::<TimeoutObject>())
        .flags(ffi::Py_TPFLAGS_HAVE_GC)
        .doc(c"What `timeout` and `timeout_at` return: an asynchronous context manager, as `asyncio.Timeout`.")
        .methods(&METHODS)
        .slot(ffi::Py_tp_dealloc, dealloc as *mut c_void)
        .slot(ffi::Py_tp_traverse, traverse as *mut c_void)
        .slot(ffi::Py_tp_clear, clear as *mut c_void)
        .slot(ffi::Py_tp_repr, repr as *mut c_void);
    // SAFETY: each function has the type of its slot and takes a `TimeoutObject`.
    let kind = unsafe { builder.build(module.py())? };
    TYPE.set(&kind);
    let [enter, exit] = makers(module.py())?;
    kind.setattr("__aenter__", enter)?;
    kind.setattr("__aexit__", exit)?;
    module.add("Timeout", kind)?;
    FUNCTIONS.add_to_module(module)
}
