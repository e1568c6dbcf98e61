//! Functions that set, cancel or move many timers in one native call. Callers identify the timers by integers.

use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use tickwheel_core::{Id, NEVER};

use crate::clock::{buffer, is_one, read, Number};
use crate::timers::batches::Voided;
use crate::timers::coroutine;
use crate::timers::engine::Engine;
use crate::timers::id_array::{number, IdArray};
use crate::timers::payload::Payload;
use crate::timers::pending::release;
use crate::timers::set::loosened;
use crate::timers::timer;

/// Implement `Engine.call_later_many`.
pub(crate) fn set<'py>(
    engine: &Bound<'py, Engine>,
    delays: &Bound<'py, PyAny>,
    callback: &Bound<'py, PyAny>,
    slack: u64,
) -> PyResult<Bound<'py, PyAny>> {
    let (py, this) = (engine.py(), engine.get());
    if !callback.is_callable() {
        let text = format!("callback is {}: pass something that can be called", callback.repr()?);
        return Err(PyTypeError::new_err(text));
    }
    if !this.awaits() {
        // SAFETY: the caller keeps the callback alive.
        unsafe { coroutine::check(py, callback.as_ptr()) }?;
    }
    let delays = buffer::all_ns(delays, "delays", "delay")?;
    let mut ids = IdArray::new(py, delays.len())?; // this comes first, because it may fail
    let places = ids.places();
    let now = this.now(py)?;
    let set = this.state.with(py, |state| {
        let room = state.max_pending.saturating_sub(state.wheel.len());
        if state.is_closed || delays.len() > room {
            return None;
        }
        let mut earliest = u64::MAX;
        for (&delay, place) in delays.iter().zip(places) {
            let deadline = loosened(now.saturating_add(delay).min(NEVER), slack);
            earliest = earliest.min(deadline);
            // SAFETY: each entry gets a reference of its own, and incrementing a reference count runs no Python.
            unsafe { ffi::Py_INCREF(callback.as_ptr()) };
            *place = number(state.wheel.insert(deadline, Payload::batch(callback.as_ptr())));
        }
        Some(state.is_earlier(earliest))
    });
    if set.ok_or_else(|| this.refusal(py))? {
        this.wake(py)?;
    }
    Ok(ids.into_array())
}

/// Return the slack of a call in nanoseconds.
pub(crate) fn slack_ns(slack: &Bound<'_, PyAny>) -> PyResult<u64> {
    read(slack, "slack").map(Number::deadline)
}

pub(crate) fn has_id(py: Python<'_>, engine: &Engine, id: &Bound<'_, PyAny>) -> PyResult<bool> {
    // A number that does not fit into 64 bits is not an id.
    let number = id.extract::<i64>().or_else(|error| {
        if error.is_instance_of::<PyOverflowError>(py) {
            Ok(NO_ID)
        } else {
            Err(error)
        }
    })?;
    Ok(engine.state.with(py, |state| state.is_batched(state.batches.place(Id::from_u64(number.cast_unsigned())))))
}

pub(crate) fn cancel(engine: &Bound<'_, Engine>, timers: &Bound<'_, PyAny>) -> PyResult<usize> {
    let (py, this) = (engine.py(), engine.get());
    let mut cancelled = 0;
    for name in names(timers)? {
        let was_pending = match name {
            // SAFETY: we own a reference to `timer`, which may belong to any engine.
            Name::Timer(timer) => unsafe { timer::cancel(py, timer.as_ptr().cast()) },
            Name::Id(id) => {
                let taken = this.state.with(py, |state| state.cancel_batched(id));
                taken.inspect(|payload| release(py, payload)).is_some()
            }
        };
        cancelled += usize::from(was_pending);
    }
    Ok(cancelled)
}

/// Implement `Engine.move_many`.
pub(crate) fn shift(
    engine: &Bound<'_, Engine>,
    timers: &Bound<'_, PyAny>,
    delays: &Bound<'_, PyAny>,
) -> PyResult<usize> {
    let (py, this) = (engine.py(), engine.get());
    let names = names(timers)?;
    let delays = if is_one(delays) {
        vec![read(delays, "delay")?.deadline(); names.len()]
    } else {
        buffer::all_ns(delays, "delays", "delay")?
    };
    if delays.len() != names.len() {
        let text = format!("{} delays for {} timers: pass one delay, or one for each", delays.len(), names.len());
        return Err(PyValueError::new_err(text));
    }
    let now = this.now(py)?;
    let (mut moved, mut is_earlier) = (0, false);
    let outcome = names.into_iter().zip(delays).try_for_each(|(name, delay)| {
        let deadline = now.saturating_add(delay).min(NEVER);
        match name {
            Name::Timer(timer) => {
                // SAFETY: we own a reference to `timer`, and `shift` uses the timer's own engine.
                moved += usize::from(unsafe { timer::shift(py, timer.as_ptr().cast(), |_| Ok(deadline))? });
            }
            Name::Id(id) => {
                let (has_moved, wakes, voided) = move_batched(py, this, id, deadline)?;
                moved += usize::from(has_moved);
                is_earlier |= wakes;
                if let Some(voided) = voided {
                    voided.settle(py)?;
                }
            }
        }
        Ok(())
    });
    if is_earlier {
        this.wake(py)?; // also if one was refused, because earlier ones may need the driver
    }
    outcome.map(|()| moved)
}

/// Move a timer by its id, or reschedule it if it is firing. Return whether the timer will fire, whether the driver has
/// to be notified, and the [`Voided`] that removes the timer from an earlier call.
fn move_batched(py: Python<'_>, engine: &Engine, name: Id, deadline: u64) -> PyResult<(bool, bool, Option<Voided>)> {
    let outcome = engine.state.with(py, |state| {
        let place = state.batches.place(name);
        if state.is_batched(place) {
            state.wheel.reschedule(place, deadline);
            return Some((true, state.is_earlier(deadline), None));
        }
        if state.is_closed || !state.batches.is_firing(name) {
            return Some((false, false, None));
        }
        if state.wheel.len() >= state.max_pending {
            return None;
        }
        let (callback, voided) = state.batches.renew(py, name)?;
        let place = state.wheel.insert(deadline, Payload::batch(callback));
        state.batches.enter(name, place);
        Some((true, state.is_earlier(deadline), Some(voided)))
    });
    outcome.ok_or_else(|| engine.refusal(py))
}

/// A number that is not an id.
const NO_ID: i64 = 0;

/// A timer that a caller names by its handle or by its id.
enum Name<'py> {
    Timer(Bound<'py, PyAny>),
    Id(Id),
}

/// Return the timers of a list: the ids in a buffer of integers, or the handles and ids in any other iterable.
fn names<'py>(timers: &Bound<'py, PyAny>) -> PyResult<Vec<Name<'py>>> {
    let with_id = |id: i64| Name::Id(Id::from_u64(id.cast_unsigned()));
    if let Some(ids) = buffer::integers(timers)? {
        return Ok(ids.into_iter().map(with_id).collect());
    }
    let names = timers.try_iter()?.map(|name| {
        let name = name?;
        if timer::TYPE.is_of(&name) {
            return Ok(Name::Timer(name));
        }
        match name.extract::<i64>() {
            Ok(id) => Ok(with_id(id)),
            Err(error) if error.is_instance_of::<PyOverflowError>(name.py()) => Ok(with_id(NO_ID)),
            Err(error) if error.is_instance_of::<PyTypeError>(name.py()) => {
                let text = format!("{} is not a timer: pass handles, or the ids of call_later_many", name.repr()?);
                Err(PyTypeError::new_err(text))
            }
            Err(error) => Err(error),
        }
    });
    names.collect()
}
