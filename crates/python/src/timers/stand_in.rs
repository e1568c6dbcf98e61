//! Callbacks of ours, `StandIn`s in Python, and what they are notified of.

use pyo3::exceptions::PyException;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::cpython::modules::STANDIN;
use crate::once::intern;

/// Let a callback of ours, a `StandIn`, note that its call has raised the error that is set, which stays so.
///
/// # Safety
///
/// An error is set, and `callback` is an object that the caller keeps.
#[cold]
pub(crate) unsafe fn note_failure(py: Python<'_>, callback: *mut ffi::PyObject) {
    let mut error = PyErr::fetch(py);
    // SAFETY: the caller keeps the callback.
    let callback = unsafe { Borrowed::from_ptr(py, callback) }.to_owned();
    if let Err(second) = call_ours(&callback, "failed") {
        // An error in place of the call's own names that as its cause; one that ends the program is not replaced.
        if error.is_instance_of::<PyException>(py) {
            second.set_cause(py, Some(error));
            error = second;
        }
    }
    error.restore(py);
}

/// Call a method of a callback of ours, a `StandIn`; nothing of the user's.
pub(crate) fn call_ours(callback: &Bound<'_, PyAny>, method: &str) -> PyResult<()> {
    let py = callback.py();
    if callback.is_instance(&STANDIN.get(py)?.getattr(intern!(py, "StandIn"))?)? {
        callback.call_method0(method)?;
    }
    Ok(())
}
