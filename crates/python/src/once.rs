//! Values that are made on first use, in a way that is safe across a fork.
//!
//! PyO3's `intern!` and `PyOnceLock` release the GIL while they store a new value. If a thread forks at that moment,
//! the value is never completed in the child, and code that needs it hangs. Here a value is made first, which may run
//! Python and may happen twice. Then it is stored without releasing the GIL, so that no fork can come in between.

use std::sync::OnceLock;

use pyo3::prelude::*;
use pyo3::types::PyString;

/// Return the value of *cell*. The first call makes the value.
#[inline]
pub(crate) fn made_once<T>(cell: &'static OnceLock<T>, make: impl FnOnce() -> PyResult<T>) -> PyResult<&'static T> {
    cell.get().map_or_else(|| enter(cell, make), Ok)
}

#[cold]
fn enter<T>(cell: &'static OnceLock<T>, make: impl FnOnce() -> PyResult<T>) -> PyResult<&'static T> {
    let value = make()?;
    Ok(cell.get_or_init(|| value))
}

/// Return the interned string of *text*, which lives as long as the process.
#[inline]
pub(crate) fn interned<'py>(
    cell: &'static OnceLock<Py<PyString>>,
    py: Python<'py>,
    text: &str,
) -> &'py Bound<'py, PyString> {
    cell.get().unwrap_or_else(|| enter_text(cell, py, text)).bind(py)
}

#[cold]
fn enter_text(cell: &'static OnceLock<Py<PyString>>, py: Python<'_>, text: &str) -> &'static Py<PyString> {
    let value = PyString::intern(py, text).unbind();
    cell.get_or_init(|| value)
}

/// Return the interned string for a string literal.
macro_rules! intern {
    ($py:expr, $text:expr) => {{
        static NAME: std::sync::OnceLock<pyo3::Py<pyo3::types::PyString>> = std::sync::OnceLock::new();
        $crate::once::interned(&NAME, $py, $text)
    }};
}

pub(crate) use intern;
