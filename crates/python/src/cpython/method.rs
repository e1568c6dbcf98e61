//! Bound methods.

use pyo3::ffi;
use pyo3::prelude::*;

use crate::cpython::type_builder::KnownType;

extern "C" {
    fn PyMethod_Function(method: *mut ffi::PyObject) -> *mut ffi::PyObject;
}

static KIND: KnownType = KnownType::new();

/// Return the function of a bound method, borrowed from it, or None for any other object.
///
/// # Safety
///
/// `object` points to a living object.
#[inline]
pub(crate) unsafe fn function_of(object: *mut ffi::PyObject) -> Option<*mut ffi::PyObject> {
    // SAFETY: the type is compared before anything is read.
    unsafe { std::ptr::eq(ffi::Py_TYPE(object), KIND.get()).then(|| PyMethod_Function(object)) }
}

/// Look up the type of bound methods.
pub(crate) fn register(py: Python<'_>) -> PyResult<()> {
    KIND.set(py.import("types")?.getattr("MethodType")?.cast()?);
    Ok(())
}
