//! Coroutines, which are the results of callbacks written with `async def`, and the hook that awaits them.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::cpython::method::function_of;
use crate::cpython::modules::COROUTINES;
use crate::cpython::type_builder::KnownType;
use crate::once::intern;
use crate::timers::engine::Engine;

/// Maximum number of code objects that are remembered as those of plain functions.
const KNOWN: usize = 64;

/// Addresses of the code objects of plain functions. The code objects are not kept alive. If one is freed and the code
/// of a coroutine function is stored at the same address, that function is detected only when it is called.
static PLAIN: [AtomicPtr<ffi::PyObject>; KNOWN] = [const { AtomicPtr::new(null_mut()) }; KNOWN];

/// The type `functools.partial`.
static PARTIAL: KnownType = KnownType::new();

/// Refuse a coroutine function if no hook awaits its result.
///
/// Functions, methods and partials are recognised by their types. Other callables that return a coroutine are detected
/// when they are called.
///
/// # Safety
///
/// `callback` points to a living object.
#[inline]
pub(crate) unsafe fn check(py: Python<'_>, callback: *mut ffi::PyObject) -> PyResult<()> {
    // SAFETY: types are compared before anything is read.
    unsafe {
        let function = function_of(callback).unwrap_or(callback);
        if ffi::PyFunction_Check(function) != 0 {
            let code = (*function.cast::<ffi::PyFunctionObject>()).func_code;
            let known = &PLAIN[place(code)];
            if known.load(Ordering::Relaxed) != code {
                look(&Bound::from_borrowed_ptr(py, callback))?;
                known.store(code, Ordering::Relaxed);
            }
        } else if std::ptr::eq(ffi::Py_TYPE(callback), PARTIAL.get()) {
            let partial = Bound::from_borrowed_ptr(py, callback);
            check(py, partial.getattr(intern!(py, "func"))?.as_ptr())?;
        }
    }
    Ok(())
}

fn place(code: *mut ffi::PyObject) -> usize {
    (code as usize >> 5) % KNOWN
}

#[cold]
fn look(callback: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = callback.py();
    if COROUTINES.get(py)?.call_method1(intern!(py, "is_coroutine_function"), (callback,))?.is_truthy()? {
        return Err(refusal(callback)?);
    }
    Ok(())
}

fn refusal(callback: &Bound<'_, PyAny>) -> PyResult<PyErr> {
    let py = callback.py();
    let text: String = COROUTINES.get(py)?.call_method1(intern!(py, "refusal"), (callback,))?.extract()?;
    Ok(PyTypeError::new_err(text))
}

/// If a callback returned a coroutine, pass it to the engine's `on_coroutine`. Consume the result; return null with an
/// exception set if the hook raised.
///
/// # Safety
///
/// No `GilCell` is borrowed, and `source` (the timer, or the callback of a batch) is alive.
#[inline]
pub(crate) unsafe fn settle(
    engine: &Engine,
    py: Python<'_>,
    result: *mut ffi::PyObject,
    callback: *mut ffi::PyObject,
    source: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the caller keeps callback and source alive, and gives up the result.
    unsafe {
        let methods = (*ffi::Py_TYPE(result)).tp_as_async;
        if methods.is_null() || (*methods).am_await.is_none() {
            return result;
        }
        let result = Bound::from_owned_ptr(py, result);
        let (callback, source) = (Bound::from_borrowed_ptr(py, callback), Bound::from_borrowed_ptr(py, source));
        match hand_on(engine, &result, &callback, &source) {
            Ok(true) => py.None().into_ptr(),
            Ok(false) => result.into_ptr(),
            Err(error) => {
                error.restore(py);
                null_mut()
            }
        }
    }
}

/// If the result of a callback is a coroutine, pass it to the hook, which then owns it, and return true.
#[cold]
fn hand_on(
    engine: &Engine,
    result: &Bound<'_, PyAny>,
    callback: &Bound<'_, PyAny>,
    source: &Bound<'_, PyAny>,
) -> PyResult<bool> {
    let py = result.py();
    if !COROUTINES.get(py)?.call_method1(intern!(py, "is_coroutine"), (result,))?.is_truthy()? {
        return Ok(false);
    }
    let Some(hook) = engine.hook(py, |hooks| &hooks.on_coroutine) else {
        result.call_method0(intern!(py, "close"))?;
        return Err(refusal(callback)?);
    };
    hook.bind(py).call1((result, source)).map(|_| true)
}

/// Look up the types by which coroutines and coroutine functions are recognised.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    PARTIAL.set(module.py().import("functools")?.getattr("partial")?.cast()?);
    Ok(())
}
