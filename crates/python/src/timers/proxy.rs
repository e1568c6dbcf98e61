//! Internal callbacks, which are `TimerProxy` objects in Python, and the notifications that they get.

use pyo3::exceptions::PyException;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::cpython::modules::PROXY;
use crate::once::intern;

/// If `callback` is a `TimerProxy`, call its method `failed`, because its call has raised. The exception stays set.
///
/// # Safety
///
/// An exception is set, and `callback` is an object that the caller keeps alive.
#[cold]
pub(crate) unsafe fn note_failure(py: Python<'_>, callback: *mut ffi::PyObject) {
    let mut error = PyErr::fetch(py);
    // SAFETY: the caller keeps the callback alive.
    let callback = unsafe { Borrowed::from_ptr(py, callback) }.to_owned();
    if let Err(second) = call_ours(&callback, "failed") {
        // If `failed` raises an error, the error of the call becomes its cause. An exception that ends the program is
        // not replaced.
        if error.is_instance_of::<PyException>(py) {
            second.set_cause(py, Some(error));
            error = second;
        }
    }
    error.restore(py);
}

/// If `callback` is a `TimerProxy`, call its method `method`, which runs no user code.
pub(crate) fn call_ours(callback: &Bound<'_, PyAny>, method: &str) -> PyResult<()> {
    let py = callback.py();
    if callback.is_instance(&PROXY.get(py)?.getattr(intern!(py, "TimerProxy"))?)? {
        callback.call_method0(method)?;
    }
    Ok(())
}
