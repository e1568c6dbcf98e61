//! Descriptions of pending timers, which `pending`, `drain` and `close` return.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use tickwheel_core::{Expired, NEVER};

use crate::clock::seconds;
use crate::cpython::modules::TYPING;
use crate::cpython::reports::checked_limit;
use crate::once::intern;
use crate::timers::engine::Engine;
use crate::timers::handle::{TimerObject, CANCELLED};
use crate::timers::payload::{Held, Payload};

/// Implement `Engine.pending`.
pub(crate) fn list<'py>(
    py: Python<'py>,
    engine: &Engine,
    limit: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyList>> {
    let limit = limit.map_or(Ok(usize::MAX), checked_limit)?;
    let now = engine.now(py)?;
    let seen: Vec<_> = engine.state.with(py, |state| {
        let first = state.wheel.first(limit).into_iter();
        let name = |id| state.batches.name(id);
        first.map(|(id, deadline, payload)| Expired { id: name(id), deadline, payload: payload.retain() }).collect()
    });
    described(py, now, seen.iter().map(|entry| Row::take(py, entry)).collect())
}

/// End all timers, and return their descriptions. For `Engine.drain` and `Engine.close`.
pub(crate) fn take<'py>(py: Python<'py>, engine: &Engine, is_closing: bool) -> PyResult<Bound<'py, PyList>> {
    let now = engine.now(py)?;
    let taken = engine.state.with(py, |state| state.take_all(is_closing));
    let ended = taken.iter().map(|entry| {
        let mut row = Row::take(py, entry)?;
        if let Some(timer) = row.timer.take() {
            // SAFETY: the wheel's reference keeps the timer alive, and its call was read before.
            unsafe { TimerObject::end(py, timer.as_ptr().cast(), CANCELLED) };
        }
        Ok(row)
    });
    described(py, now, ended.collect())
}

/// Make a `Pending` for each row.
fn described<'py>(py: Python<'py>, now: u64, rows: Vec<PyResult<Row<'py>>>) -> PyResult<Bound<'py, PyList>> {
    let described = PyList::empty(py);
    if rows.is_empty() {
        return Ok(described);
    }
    let pending = TYPING.get(py)?.getattr(intern!(py, "Pending"))?;
    for row in rows {
        let Row { callback, args, deadline, timer } = row?;
        described.append(pending.call1((callback, args, seconds(deadline), remaining(deadline, now), timer))?)?;
    }
    Ok(described)
}

fn remaining(deadline: u64, now: u64) -> f64 {
    if deadline >= NEVER {
        f64::INFINITY
    } else {
        (deadline as f64 - now as f64) / 1e9
    }
}

/// The data of a `Pending`.
struct Row<'py> {
    callback: Bound<'py, PyAny>,
    args: Bound<'py, PyTuple>,
    deadline: u64,
    timer: Option<Bound<'py, PyAny>>,
}

impl<'py> Row<'py> {
    /// Read an entry, and consume its reference.
    fn take(py: Python<'py>, entry: &Expired<Payload>) -> PyResult<Self> {
        // SAFETY: the caller gives up its reference, which keeps the timer alive while its call is read.
        unsafe {
            let object = Bound::from_owned_ptr(py, entry.payload.object());
            let (callback, args, timer) = match entry.payload.held() {
                Held::Timer(timer) => {
                    let (callback, args) = parts(py, timer)?;
                    (callback, args, Some(object))
                }
                Held::Batch(_) => (object, PyTuple::new(py, [entry.id.to_u64()])?, None),
            };
            Ok(Self { callback, args, deadline: entry.deadline, timer })
        }
    }
}

/// Return the callback and the arguments of a timer, or None and an empty tuple once it has ended.
///
/// # Safety
///
/// The timer is alive.
pub(crate) unsafe fn parts(
    py: Python<'_>,
    timer: *mut TimerObject,
) -> PyResult<(Bound<'_, PyAny>, Bound<'_, PyTuple>)> {
    // SAFETY: a living timer has its call or `NONE`, and we take references to the words before any Python runs.
    unsafe {
        if (*timer).call.is_none() {
            return Ok((py.None().into_bound(py), PyTuple::empty(py)));
        }
        let words = (*timer).call.words();
        let callback = Bound::from_borrowed_ptr(py, words[0]);
        let args: Vec<_> = words[1..].iter().map(|&word| Bound::from_borrowed_ptr(py, word)).collect();
        Ok((callback, PyTuple::new(py, args)?))
    }
}

/// Release the references of an entry of the wheel, and end its timer. This runs Python code, so the caller must not
/// have a `GilCell` borrowed.
pub(crate) fn release(py: Python<'_>, payload: &Payload) {
    // SAFETY: the entry is out of the wheel, so its reference is ours.
    unsafe {
        if let Held::Timer(timer) = payload.held() {
            TimerObject::end(py, timer, CANCELLED);
        }
        ffi::Py_DECREF(payload.object());
    }
}
