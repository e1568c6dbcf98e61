//! Conversions by a value's own methods, and the errors for refused values.

use std::sync::OnceLock;

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyString};
use tickwheel_core::NEVER;

use crate::clock::number::Number;
use crate::once::{intern, made_once};

/// Convert an int.
///
/// # Safety
///
/// `object` is an int.
pub(super) unsafe fn int(object: *mut ffi::PyObject) -> Number {
    let mut overflow = 0;
    // SAFETY: the caller guarantees it.
    let value = unsafe { ffi::PyLong_AsLongLongAndOverflow(object, &raw mut overflow) };
    if overflow == 0 {
        Number::whole(value)
    } else {
        Number::Ns(NEVER.cast_signed() * i64::from(overflow))
    }
}

/// Return the integer that `__index__` returns.
pub(super) fn by_index(value: &Bound<'_, PyAny>) -> PyResult<Number> {
    // SAFETY: the call returns a new reference to an int, or null with an exception set.
    unsafe {
        let index = Bound::from_owned_ptr_or_err(value.py(), ffi::PyNumber_Index(value.as_ptr()))?;
        Ok(int(index.as_ptr()))
    }
}

/// Return the float that `__float__` returns.
pub(super) fn by_float(value: &Bound<'_, PyAny>) -> PyResult<f64> {
    // SAFETY: the call returns a new reference to a float, or null with an exception set.
    unsafe {
        let float = Bound::from_owned_ptr_or_err(value.py(), ffi::PyNumber_Float(value.as_ptr()))?;
        Ok(ffi::PyFloat_AS_DOUBLE(float.as_ptr()))
    }
}

/// Return true if a value is text, because its characters or bytes must not be read as numbers of seconds.
pub(super) fn is_text(value: &Bound<'_, PyAny>) -> bool {
    value.is_instance_of::<PyString>() || value.is_instance_of::<PyBytes>() || value.is_instance_of::<PyByteArray>()
}

/// Return the class `tickwheel.errors.InvalidDelayError`. It is cached at the first call, because imports fail while
/// the interpreter shuts down.
pub(crate) fn invalid(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static KIND: OnceLock<Py<PyAny>> = OnceLock::new();
    let find = || Ok(py.import(intern!(py, "tickwheel.errors"))?.getattr("InvalidDelayError")?.unbind());
    Ok(made_once(&KIND, find)?.bind(py))
}

#[cold]
pub(super) fn not_a_number(value: &Bound<'_, PyAny>, name: &str) -> PyErr {
    let error = invalid(value.py()).and_then(|kind| kind.call1((name, value)));
    error.map_or_else(|error| error, PyErr::from_value)
}

#[cold]
pub(super) fn refusal(value: &Bound<'_, PyAny>, name: &str) -> PyErr {
    let kind = value.get_type();
    let kind = kind.name().map_or_else(|_| "this".into(), |name| name.to_string());
    let text = format!("{name} is {}: pass seconds as a number or a timedelta, not {kind}", shown(value));
    PyTypeError::new_err(text)
}

/// Return the repr of a value, shortened if it is long.
#[cold]
pub(super) fn shown(value: &Bound<'_, PyAny>) -> String {
    let text = value.repr().map_or_else(|_| "an object".into(), |text| text.to_string());
    match text.char_indices().nth(200) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}
