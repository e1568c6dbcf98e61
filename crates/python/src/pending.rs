//! What was still pending when a wheel was drained, closed or collected.

use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use tickwheel_core::{Expired, NEVER};

use crate::clock::seconds;
use crate::payload::{Held, Payload};
use crate::timer::{TimerObject, CANCELLED};

/// End what was taken out and describe it.
pub(crate) fn describe(py: Python<'_>, now: u64, taken: Vec<Expired<Payload>>) -> PyResult<Bound<'_, PyList>> {
    let described = PyList::empty(py);
    if taken.is_empty() {
        return Ok(described);
    }
    let pending = py.import(intern!(py, "tickwheel.typing"))?.getattr(intern!(py, "Pending"))?;
    let rows: Vec<_> = taken.into_iter().map(|entry| Row::take(py, &entry)).collect();
    for Row { callback, args, deadline } in rows {
        let remaining = if deadline >= NEVER { f64::INFINITY } else { (deadline as f64 - now as f64) / 1e9 };
        described.append(pending.call1((callback, args, seconds(deadline), remaining))?)?;
    }
    Ok(described)
}

/// What was pending, with the reference that the wheel had.
struct Row<'py> {
    callback: Bound<'py, PyAny>,
    args: Bound<'py, PyTuple>,
    deadline: u64,
}

impl<'py> Row<'py> {
    fn take(py: Python<'py>, entry: &Expired<Payload>) -> Self {
        // SAFETY: the wheel's references become ours; a call is read before its timer is ended.
        unsafe {
            match entry.payload.held() {
                Held::Timer(timer) => {
                    let words = (*timer).call.words();
                    let callback = Bound::from_borrowed_ptr(py, words[0]);
                    let args = words[1..].iter().map(|&word| Bound::from_borrowed_ptr(py, word));
                    let args = PyTuple::new(py, args.collect::<Vec<_>>()).unwrap_or_else(|_| PyTuple::empty(py));
                    TimerObject::end(timer, CANCELLED);
                    ffi::Py_DECREF(timer.cast());
                    Self { callback, args, deadline: entry.deadline }
                }
                Held::Batch(callback) => {
                    let id = PyTuple::new(py, [entry.id.to_u64()]).unwrap_or_else(|_| PyTuple::empty(py));
                    Self { callback: Bound::from_owned_ptr(py, callback), args: id, deadline: entry.deadline }
                }
            }
        }
    }
}

/// Let go of payloads without telling anyone: what remains when an engine is collected.
pub(crate) fn release(py: Python<'_>, entries: Vec<Expired<Payload>>) {
    for entry in entries {
        entry.payload.release(py);
    }
}
