//! How long a single entry is to live: `ttl` of `set`, `set_many` and `touch`, in nanoseconds.

use pyo3::prelude::*;

use crate::cache::object::Cache;
use crate::clock::to_ns;
use crate::once::intern;

impl Cache {
    /// A life in nanoseconds. Zero is also what is negative, which Python refuses.
    #[inline]
    pub(crate) fn span(slf: &Bound<'_, Self>, ttl: &Bound<'_, PyAny>) -> PyResult<u64> {
        // SAFETY: `ttl` is an object, and the GIL is held.
        match unsafe { to_ns(slf.py(), ttl.as_ptr(), "ttl") }? {
            0 => slf.call_method1(intern!(slf.py(), "_span_ns"), (ttl,))?.extract(),
            ns => Ok(ns),
        }
    }
}
