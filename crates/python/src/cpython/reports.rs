//! Values that every wheel converts in the same way: counters, levels, errors of the checker, and limits.

use std::panic::{catch_unwind, AssertUnwindSafe};

use pyo3::exceptions::{PyAssertionError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict, PyInt, PyList};
use tickwheel_core::{Occupancy, Stats};

/// Run a check of invariants, and turn its panic into an AssertionError.
pub(crate) fn checked(check: impl FnOnce()) -> PyResult<()> {
    catch_unwind(AssertUnwindSafe(check)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
        PyAssertionError::new_err(text.unwrap_or_default())
    })
}

/// Return the levels for Python, each as (length of a slot, slot that contains the wheel's time, number of entries by
/// occupied slot).
pub(crate) fn levels_list(py: Python<'_>, levels: Vec<Occupancy>) -> PyResult<Bound<'_, PyList>> {
    let list = PyList::empty(py);
    for level in levels {
        list.append((level.slot_ns, level.hand, level.counts.into_py_dict(py)?))?;
    }
    Ok(list)
}

/// Return the counters by name.
pub(crate) fn stats_dict<'py>(
    py: Python<'py>,
    stats: &Stats,
    pending: usize,
    bytes: usize,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("pending", pending)?;
    dict.set_item("sets", stats.sets)?;
    dict.set_item("moves", stats.moves)?;
    dict.set_item("cancels", stats.cancels)?;
    dict.set_item("fires", stats.fires)?;
    dict.set_item("cascades", stats.cascades)?;
    dict.set_item("refiles", stats.refiles)?;
    dict.set_item("sorted_by_level", stats.sorted.to_vec())?;
    dict.set_item("cascaded_by_level", stats.cascaded.to_vec())?;
    dict.set_item("bytes", bytes)?;
    Ok(dict)
}

/// Convert a limit on the number of entries.
pub(crate) fn checked_limit(value: &Bound<'_, PyAny>) -> PyResult<usize> {
    if !value.is_exact_instance_of::<PyInt>() {
        let kind = value.get_type().name()?;
        let text = format!("limit is {}: pass an integer or None, not {kind}", value.repr()?);
        return Err(PyTypeError::new_err(text));
    }
    if value.lt(0)? {
        let text = format!("limit is {}: pass 0 or more, or None for all that is due", value.repr()?);
        return Err(PyValueError::new_err(text));
    }
    // A number that does not fit into the type means no limit.
    Ok(value.extract().unwrap_or(usize::MAX))
}
