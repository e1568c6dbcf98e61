//! `tickwheel._core`: the bindings, no algorithm.

use pyo3::prelude::*;

/// The native core of tickwheel.
#[pymodule]
fn _core(_module: &Bound<'_, PyModule>) -> PyResult<()> {
    Ok(())
}
