//! What is made on first use, and what a fork cannot leave half made.
//!
//! PyO3's `intern!` and `PyOnceLock` give the interpreter away while they enter what was made. A thread that forks at that moment leaves
//! a child in which the entry is never finished, and whatever needs it hangs. Here a value is made first, which may run Python and may
//! happen twice, and is then entered without letting go of the interpreter, which a fork needs, too.

use std::sync::OnceLock;

use pyo3::prelude::*;
use pyo3::types::PyString;

/// What is in *cell*, made on first use.
#[inline]
pub(crate) fn made_once<T>(cell: &'static OnceLock<T>, make: impl FnOnce() -> PyResult<T>) -> PyResult<&'static T> {
    cell.get().map_or_else(|| enter(cell, make), Ok)
}

#[cold]
fn enter<T>(cell: &'static OnceLock<T>, make: impl FnOnce() -> PyResult<T>) -> PyResult<&'static T> {
    let value = make()?;
    Ok(cell.get_or_init(|| value))
}

/// The interned string of *text*, which lives as long as the process.
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

/// The interned string of a literal.
macro_rules! intern {
    ($py:expr, $text:expr) => {{
        static NAME: std::sync::OnceLock<pyo3::Py<pyo3::types::PyString>> = std::sync::OnceLock::new();
        $crate::once::interned(&NAME, $py, $text)
    }};
}

pub(crate) use intern;
