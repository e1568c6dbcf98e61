//! The conversion functions for Python.

use pyo3::ffi;
use pyo3::prelude::*;

use crate::clock::{buffer, scalar};

/// Return *value* seconds in nanoseconds, rounded away from zero. The results 2**63 - 1 and its negative also mean
/// all values beyond them.
#[pyfunction]
#[pyo3(signature = (value, name, /))]
fn to_ns(value: &Bound<'_, PyAny>, name: &str) -> PyResult<i64> {
    Ok(scalar::read(value, name)?.ns())
}

/// Return *value* in seconds as a float.
#[pyfunction]
#[pyo3(signature = (value, name, /))]
fn to_seconds(value: &Bound<'_, PyAny>, name: &str) -> PyResult<f64> {
    Ok(scalar::read(value, name)?.seconds())
}

/// Return many delays in nanoseconds; negative delays become 0.
#[pyfunction]
#[pyo3(signature = (values, /))]
fn delays_ns(values: &Bound<'_, PyAny>) -> PyResult<Vec<u64>> {
    buffer::all_ns(values, "delays", "delay")
}

/// Return True if *value* is a single number or time.
#[pyfunction]
#[pyo3(signature = (value, /))]
fn is_one(value: &Bound<'_, PyAny>) -> bool {
    scalar::is_one(value)
}

/// Return the integers of a buffer of integers, or None if *values* is not such a buffer.
#[pyfunction]
#[pyo3(signature = (values, /))]
fn integers(values: &Bound<'_, PyAny>) -> PyResult<Option<Vec<i64>>> {
    buffer::integers(values)
}

/// Add the functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    // SAFETY: the GIL is held. This API recognises timedeltas, and could not be loaded later, while the interpreter
    // shuts down.
    unsafe { ffi::PyDateTime_IMPORT() };
    module.add_function(wrap_pyfunction!(to_ns, module)?)?;
    module.add_function(wrap_pyfunction!(to_seconds, module)?)?;
    module.add_function(wrap_pyfunction!(delays_ns, module)?)?;
    module.add_function(wrap_pyfunction!(is_one, module)?)?;
    module.add_function(wrap_pyfunction!(integers, module)?)
}
