//! What was still pending when a wheel was drained, closed or collected.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use tickwheel_core::{Expired, Id, NEVER};

use crate::clock::seconds;
use crate::cpython::reports::checked_limit;
use crate::once::intern;
use crate::timers::engine::Engine;
use crate::timers::handle::{TimerObject, CANCELLED};
use crate::timers::payload::{Held, Payload};

/// End what was taken out and describe it.
pub(crate) fn describe(py: Python<'_>, now: u64, taken: Vec<Expired<Payload>>) -> PyResult<Bound<'_, PyList>> {
    let described = PyList::empty(py);
    if taken.is_empty() {
        return Ok(described);
    }
    let pending = py.import(intern!(py, "tickwheel.typing"))?.getattr(intern!(py, "Pending"))?;
    let rows: Vec<_> = taken.into_iter().map(|entry| Row::take(py, &entry)).collect();
    for Row { callback, args, deadline } in rows {
        described.append(pending.call1((callback, args, seconds(deadline), remaining(deadline, now)))?)?;
    }
    Ok(described)
}

/// What is pending, with references of its own to what it names.
pub(crate) struct Seen {
    id: Id,
    deadline: u64,
    held: Held,
}

impl Seen {
    /// Look at an entry. Runs no Python.
    pub(crate) fn new(id: Id, deadline: u64, payload: &Payload) -> Self {
        let held = payload.held();
        // SAFETY: the wheel that is being looked into, with the GIL held, keeps both alive.
        unsafe {
            match held {
                Held::Timer(timer) => ffi::Py_INCREF(timer.cast()),
                Held::Batch(callback) => ffi::Py_INCREF(callback),
            }
        }
        Self { id, deadline, held }
    }

    /// The objects that `Pending` is made of: callback, arguments and handle.
    fn into_parts(self, py: Python<'_>) -> PyResult<(Bound<'_, PyAny>, Bound<'_, PyTuple>, Bound<'_, PyAny>)> {
        // SAFETY: `new` took the references, which become those of what is returned.
        unsafe {
            match self.held {
                Held::Timer(timer) => {
                    let (callback, args) = parts(py, timer)?;
                    Ok((callback, args, Bound::from_owned_ptr(py, timer.cast())))
                }
                Held::Batch(callback) => {
                    let callback = Bound::from_owned_ptr(py, callback);
                    Ok((callback, PyTuple::new(py, [self.id.to_u64()])?, py.None().into_bound(py)))
                }
            }
        }
    }
}

/// Callback and arguments of a timer; None and none once it has ended.
///
/// # Safety
///
/// The timer is alive.
pub(crate) unsafe fn parts(
    py: Python<'_>,
    timer: *mut TimerObject,
) -> PyResult<(Bound<'_, PyAny>, Bound<'_, PyTuple>)> {
    // SAFETY: a living timer has its call or none; the words become references before any Python runs.
    unsafe {
        if (*timer).call.is_none() {
            return Ok((py.None().into_bound(py), PyTuple::empty(py)));
        }
        let words: Vec<_> = (*timer).call.words().iter().map(|&word| Bound::from_borrowed_ptr(py, word)).collect();
        Ok((words[0].clone(), PyTuple::new(py, &words[1..])?))
    }
}

/// `Engine.pending`.
pub(crate) fn list<'py>(
    py: Python<'py>,
    engine: &Engine,
    limit: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyList>> {
    let limit = limit.filter(|limit| !limit.is_none()).map_or(Ok(usize::MAX), checked_limit)?;
    let now = engine.now(py)?;
    let seen: Vec<_> = engine.state.with(py, |state| {
        state.wheel.first(limit).into_iter().map(|(id, deadline, payload)| Seen::new(id, deadline, payload)).collect()
    });
    let shown = PyList::empty(py);
    let pending = py.import(intern!(py, "tickwheel.typing"))?.getattr(intern!(py, "Pending"))?;
    for each in seen {
        let deadline = each.deadline;
        let (callback, args, timer) = each.into_parts(py)?;
        shown.append(pending.call1((callback, args, seconds(deadline), remaining(deadline, now), timer))?)?;
    }
    Ok(shown)
}

fn remaining(deadline: u64, now: u64) -> f64 {
    if deadline >= NEVER {
        f64::INFINITY
    } else {
        (deadline as f64 - now as f64) / 1e9
    }
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
                    TimerObject::end(py, timer, CANCELLED);
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

/// Let go of what an entry of the wheel referred to, and end its timer. Runs Python: no cell may be entered.
pub(crate) fn release(py: Python<'_>, payload: &Payload) {
    // SAFETY: the entry is out of the wheel, so its reference is ours to give up.
    unsafe {
        match payload.held() {
            Held::Timer(timer) => {
                TimerObject::end(py, timer, CANCELLED);
                ffi::Py_DECREF(timer.cast());
            }
            Held::Batch(callback) => ffi::Py_DECREF(callback),
        }
    }
}

/// Let go of all entries without notifying anyone: what remains when an engine is collected.
pub(crate) fn release_all(py: Python<'_>, entries: Vec<Expired<Payload>>) {
    for entry in entries {
        release(py, &entry.payload);
    }
}
