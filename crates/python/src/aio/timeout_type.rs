//! The methods of `Timeout`, its type, and the functions `timeout` and `timeout_at`.

use std::ffi::c_void;
use std::ptr::null_mut;

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::aio::step::makers;
use crate::aio::timeout::{after, at};
use crate::aio::timeout_object::{clear, dealloc, traverse, Phase, TimeoutObject, TYPE};
use crate::cpython::cell::guard;
use crate::cpython::fast_methods::{fast, of_one, plain, FastMethods};
use crate::cpython::type_builder::{Table, TypeBuilder};
use crate::once::intern;

unsafe extern "C" fn reschedule(object: *mut ffi::PyObject, when: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: called by the interpreter on a timeout, which the caller keeps, with an object.
    unsafe { guard(|py| TimeoutObject::reschedule(py, object.cast(), when).map(|()| py.None().into_ptr())) }
}

unsafe extern "C" fn on_timeout(object: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: called by the interpreter on a timeout, which the caller keeps.
    unsafe { guard(|py| TimeoutObject::ring(py, object.cast()).map(|()| py.None().into_ptr())) }
}

unsafe extern "C" fn when(object: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: called by the interpreter on a timeout; nothing runs while the reference into it lasts.
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
    // SAFETY: called by the interpreter on a timeout; `when` is a function of ours that takes one.
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

/// The one argument of `timeout(delay)` and `timeout_at(when)`, by place or by name.
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
    // SAFETY: called by the interpreter with as many words as `count` and `names` say.
    unsafe { guard(|py| after(py, argument(py, "timeout", "delay", args, count as usize, names)?)) }
}

unsafe extern "C" fn timeout_at(
    _: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the words are the caller's for the length of the call, as many as `count` and `names` say.
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

/// Make the type, and put it and the functions into the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let builder = TypeBuilder::new(c"tickwheel._core.Timeout", size_of::<TimeoutObject>())
        .flags(ffi::Py_TPFLAGS_HAVE_GC)
        .doc(c"What `timeout` and `timeout_at` return: an asynchronous context manager, as `asyncio.Timeout`.")
        .methods(&METHODS)
        .slot(ffi::Py_tp_dealloc, dealloc as *mut c_void)
        .slot(ffi::Py_tp_traverse, traverse as *mut c_void)
        .slot(ffi::Py_tp_clear, clear as *mut c_void)
        .slot(ffi::Py_tp_repr, repr as *mut c_void);
    // SAFETY: the functions are what their slots want, and take a `TimeoutObject`.
    let kind = unsafe { builder.build(module.py())? };
    TYPE.set(&kind);
    let [enter, exit] = makers(module.py())?;
    kind.setattr("__aenter__", enter)?;
    kind.setattr("__aexit__", exit)?;
    module.add("Timeout", kind)?;
    FUNCTIONS.add_to_module(module)
}
