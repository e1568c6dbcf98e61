//! Internal callbacks, `TimerProxy`s in Python, and their notifications.

use pyo3::exceptions::PyException;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::cpython::modules::PROXY;
use crate::once::intern;

/// Call `failed` of a `TimerProxy` after its call has raised; the exception stays set.
///
/// # Safety
///
/// An exception is set, and `callback` is an object that the caller keeps.
#[cold]
pub(crate) unsafe fn note_failure(py: Python<'_>, callback: *mut ffi::PyObject) {
    let mut error = PyErr::fetch(py);
    // SAFETY: the caller keeps the callback.
    let callback = unsafe { Borrowed::from_ptr(py, callback) }.to_owned();
    if let Err(second) = call_ours(&callback, "failed") {
        // An error of `failed` gets the call's error as its cause; an exception that ends the program is not replaced.
        if error.is_instance_of::<PyException>(py) {
            second.set_cause(py, Some(error));
            error = second;
        }
    }
    error.restore(py);
}

/// Call a method of a `TimerProxy`, which runs no code of the user's.
pub(crate) fn call_ours(callback: &Bound<'_, PyAny>, method: &str) -> PyResult<()> {
    let py = callback.py();
    if callback.is_instance(&PROXY.get(py)?.getattr(intern!(py, "TimerProxy"))?)? {
        callback.call_method0(method)?;
    }
    Ok(())
}
