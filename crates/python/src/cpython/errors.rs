//! Raises the exceptions of `tickwheel.errors`.

use pyo3::call::PyCallArgs;
use pyo3::prelude::*;

use crate::cpython::modules::ERRORS;

/// Make the exception `tickwheel.errors.NAME(*facts)`, which composes its own message.
#[cold]
pub(crate) fn raise<'py>(py: Python<'py>, name: &str, facts: impl PyCallArgs<'py>) -> PyErr {
    let make = || -> PyResult<PyErr> {
        let class = ERRORS.get(py)?.getattr(name)?;
        Ok(PyErr::from_value(class.call1(facts)?))
    };
    make().unwrap_or_else(|error| error)
}
