//! The methods of `Timer`, and its type.

use std::ffi::c_void;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBool;
use tickwheel_core::NEVER;

use crate::clock::{seconds, to_ns};
use crate::cpython::cell::guard;
use crate::cpython::fast_methods::{of_one, plain, FastMethods};
use crate::cpython::modules::PROXY;
use crate::cpython::type_builder::{attribute, Table, TypeBuilder, LAST_ATTRIBUTE};
use crate::memory::prefetch;
use crate::once::intern;
use crate::timers::engine::Engine;
use crate::timers::handle::{TimerObject, CANCELLED, FIRED, FIRING, RUNNING};
use crate::timers::pending::parts;
use crate::timers::timer::{cancel, dealloc, shift, TYPE};

unsafe fn this<'a>(object: *mut ffi::PyObject) -> &'a mut TimerObject {
    // SAFETY: the methods of the type are called on its own objects, and no Rust reference lives across a call of
    // Python.
    unsafe { &mut *object.cast::<TimerObject>() }
}

fn truth(py: Python<'_>, value: bool) -> *mut ffi::PyObject {
    PyBool::new(py, value).to_owned().into_ptr()
}

unsafe extern "C" fn method_cancel(object: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: called by the interpreter on a timer that the caller keeps alive, while no `GilCell` is borrowed.
    unsafe { guard(|py| Ok(truth(py, cancel(py, object.cast())))) }
}

unsafe extern "C" fn method_cancelled(object: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: called by the interpreter on a timer, whose state is a number and is copied.
    unsafe { guard(|py| Ok(truth(py, this(object).index == CANCELLED))) }
}

unsafe extern "C" fn method_pending(object: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: called by the interpreter on a timer, whose state is only read.
    unsafe { guard(|py| Ok(truth(py, this(object).is_pending()))) }
}

unsafe extern "C" fn method_when(object: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: called by the interpreter on a timer, whose deadline is copied before a float is made.
    unsafe { guard(|_| Ok(ffi::PyFloat_FromDouble(seconds(this(object).deadline)))) }
}

unsafe extern "C" fn method_reschedule(object: *mut ffi::PyObject, when: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: called by the interpreter on a timer that the caller keeps alive, with an object as the time.
    unsafe {
        guard(|py| {
            let deadline = to_ns(py, when, "when")?;
            Ok(truth(py, shift(py, object.cast(), |_| Ok(deadline))?))
        })
    }
}

unsafe extern "C" fn method_restart(object: *mut ffi::PyObject, delay: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: called by the interpreter on a timer that the caller keeps alive, with an object as the delay.
    unsafe {
        guard(|py| {
            // A handle may span two cache lines, and the clock is read while the prefetch runs.
            prefetch((&raw const (*object.cast::<TimerObject>()).sequence).cast());
            let delay = to_ns(py, delay, "delay")?;
            let deadline = |engine: &Engine| Ok(engine.now(py)?.saturating_add(delay).min(NEVER));
            Ok(truth(py, shift(py, object.cast(), deadline)?))
        })
    }
}

unsafe extern "C" fn method_run(object: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: called by the interpreter on a timer, and the caller of a method holds a reference to its object.
    unsafe {
        guard(|py| {
            let timer = object.cast::<TimerObject>();
            if (*timer).index != FIRING {
                return Ok(py.None().into_ptr());
            }
            let engine = (*timer).engine(py).to_owned();
            let result = TimerObject::fire(py, timer, engine.get());
            if result.is_null() {
                let timer = Bound::from_borrowed_ptr(py, object);
                engine.get().report(py, PyErr::fetch(py), &timer)?;
                return Ok(py.None().into_ptr());
            }
            Ok(result)
        })
    }
}

unsafe extern "C" fn repr(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: called by the interpreter on a timer, and no Rust reference to its fields exists while Python runs.
    unsafe {
        guard(|py| {
            let state = match this(object).index {
                FIRING | RUNNING => "firing",
                FIRED => "fired",
                CANCELLED => "cancelled",
                _ => "pending",
            };
            let when = seconds(this(object).deadline);
            let callback = Bound::from_owned_ptr(py, given(py, object, 0)?);
            let what = if callback.is_none() { String::new() } else { format!(" {}", callback.repr()?) };
            let text = format!("<Timer {state} when={when}{what}>");
            Ok(text.into_pyobject(py)?.into_any().into_ptr())
        })
    }
}

/// Return the user's callback or, if `at` is 1, its arguments.
unsafe fn given(py: Python<'_>, object: *mut ffi::PyObject, at: usize) -> PyResult<*mut ffi::PyObject> {
    // SAFETY: the caller, which reads an attribute, holds a reference to its timer.
    let parts = unsafe { parts(py, object.cast()) }?;
    let given = PROXY.get(py)?.call_method1(intern!(py, "given"), parts)?;
    Ok(given.get_item(at)?.unbind().into_ptr())
}

unsafe extern "C" fn get_given<const AT: usize>(object: *mut ffi::PyObject, _: *mut c_void) -> *mut ffi::PyObject {
    // SAFETY: called by the interpreter on a timer that the caller keeps alive.
    unsafe { guard(|py| given(py, object, AT)) }
}

static GETTERS: Table<ffi::PyGetSetDef, 3> = Table([
    attribute(c"callback", get_given::<0>, None, c"What it calls, as the user gave it; None once it never will again."),
    attribute(c"args", get_given::<1>, None, c"With which arguments; none once it never will again."),
    LAST_ATTRIBUTE,
]);

static METHODS: FastMethods<8> = Table([
    plain(
        c"cancel",
        method_cancel,
        c"cancel($self, /)\n--\n\nEnd this timer; return True if it will never run because of this call.\n\n\
          False: it has fired, is firing, or was cancelled before. Never raises. O(1), from any thread.",
    ),
    plain(
        c"cancelled",
        method_cancelled,
        c"cancelled($self, /)\n--\n\nReturn whether the timer was cancelled: by its handle, in bulk, or by drain or close.",
    ),
    plain(
        c"pending",
        method_pending,
        c"pending($self, /)\n--\n\nReturn whether the timer is still going to fire.",
    ),
    plain(
        c"when",
        method_when,
        c"when($self, /)\n--\n\nReturn the deadline in seconds of the wheel's clock; inf for never. Survives both ends.",
    ),
    of_one(
        c"reschedule",
        method_reschedule,
        c"reschedule($self, when, /)\n--\n\nMove this timer to *when*, in seconds of the wheel's clock.\n\n\
          O(1), one write when the deadline moves later. While the timer fires this begins a new life of it.\n\n\
          Returns whether it is now going to fire at *when*; False if it had fired or been cancelled.\n\
          Raises InvalidDelayError if *when* is NaN.",
    ),
    of_one(
        c"restart",
        method_restart,
        c"restart($self, delay, /)\n--\n\nMove this timer to *delay* seconds from now; otherwise as `reschedule`.",
    ),
    plain(
        c"run",
        method_run,
        c"run($self, /)\n--\n\nCall the callback of a timer that is due, and return what it returns: for executors.\n\n\
          Does nothing, and returns None, if that firing was overtaken: by a run before, or by a new life.\n\
          What it raises goes to the engine's on_error if it is an Exception, and leaves this call otherwise.",
    ),
    ffi::PyMethodDef::zeroed(),
]);

/// Make the type and add it to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let doc = c"A handle on one timer; `call_at` and `call_later` make it.\n\n\
                All methods may be called from any thread, at any time, also after the end. None runs the callback, but `run`.";
    let builder = TypeBuilder::new(c"tickwheel._core.Timer", size_of::<TimerObject>())
        .flags(ffi::Py_TPFLAGS_IMMUTABLETYPE)
        .doc(doc)
        .methods(&METHODS)
        .attributes(&GETTERS)
        .slot(ffi::Py_tp_dealloc, dealloc as *mut c_void)
        .slot(ffi::Py_tp_repr, repr as *mut c_void);
    // SAFETY: each function has the type of its slot and takes a `TimerObject`.
    let kind = unsafe { builder.build(module.py())? };
    TYPE.set(&kind);
    module.add("Timer", kind)
}
