//! The depth check of JSON text.

use pyo3::prelude::*;

/// Return True if the arrays and objects of a JSON *text* nest deeper than *levels*; brackets in strings do not count.
#[pyfunction]
#[pyo3(signature = (text, levels, /))]
fn nests_deeper(text: &[u8], levels: usize) -> bool {
    tickwheel_core::nests_deeper(text, levels)
}

/// Add `nests_deeper` to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(nests_deeper, module)?)
}
