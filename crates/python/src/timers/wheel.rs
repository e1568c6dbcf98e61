//! `Wheel`: the native wheel behind `tickwheel.wheels.contract.Wheel`, for users with their own clock and callbacks.

use pyo3::exceptions::PyTypeError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyList};
use tickwheel_core::{Expired, Id, Pop, Wheel as Core};

use crate::cpython::cell::GilCell;
use crate::cpython::errors::raise;
use crate::cpython::modules::TYPING;
use crate::cpython::reports::{checked, checked_limit, levels_list, stats_dict};
use crate::once::intern;

/// The hierarchical wheel of `crates/wheel`: 64 slots per level, exact deadlines, everything in O(1).
#[pyclass(frozen, weakref, module = "tickwheel._core")]
pub(crate) struct Wheel {
    core: GilCell<Core<Py<PyAny>>>,
}

#[pymethods]
impl Wheel {
    #[new]
    fn new() -> Self {
        Self { core: GilCell::new(Core::new(0)) }
    }

    /// Insert *payload* with *deadline*, and return the id of the entry.
    fn insert(&self, deadline: &Bound<'_, PyAny>, payload: Py<PyAny>) -> PyResult<u64> {
        let deadline_ns = checked_deadline(deadline, "deadline")?;
        Ok(self.core.with(deadline.py(), |core| core.insert(deadline_ns, payload)).to_u64())
    }

    /// Remove the entry; return True if it was pending.
    fn cancel(&self, id: &Bound<'_, PyAny>) -> PyResult<bool> {
        let id_number = checked_id(id)?;
        // The payload is moved out of the cell before it is dropped, because dropping runs Python.
        let payload = self.core.with(id.py(), |core| core.cancel(id_number));
        Ok(payload.is_some())
    }

    /// Move the entry to *deadline*, keeping its id; return True if it was pending.
    fn reschedule(&self, id: &Bound<'_, PyAny>, deadline: &Bound<'_, PyAny>) -> PyResult<bool> {
        let (id_number, deadline) = (checked_id(id)?, checked_deadline(deadline, "deadline")?);
        Ok(self.core.with(id.py(), |core| core.reschedule(id_number, deadline)))
    }

    /// Return the deadline of a pending entry, or None.
    fn deadline(&self, id: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
        let id_number = checked_id(id)?;
        Ok(self.core.with(id.py(), |core| core.get(id_number).map(|(deadline, _)| deadline)))
    }

    /// Remove and return at most *limit* entries that are due at *now*, in order.
    #[pyo3(signature = (now, limit=None))]
    fn advance<'py>(&self, now: &Bound<'py, PyAny>, limit: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyList>> {
        let py = now.py();
        let now = checked_deadline(now, "now")?;
        let limit = limit.map_or(Ok(usize::MAX), checked_limit)?;
        let expired = self.core.with(py, |core| {
            let mut expired = Vec::new();
            core.begin_turn(now);
            while expired.len() < limit {
                let Pop::Expired(entry) = core.pop(&mut usize::MAX.clone()) else {
                    break;
                };
                expired.push(entry);
            }
            core.end_turn();
            expired
        });
        listed(py, expired)
    }

    /// Return the earliest deadline that can be reached, or None.
    fn next_expiration(&self, py: Python<'_>) -> Option<u64> {
        self.core.with(py, Core::next_expiration)
    }

    /// Remove all entries and return them, by deadline, then in order of arrival.
    fn drain<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        listed(py, self.core.with(py, Core::drain))
    }

    /// Return the counters.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (stats, pending, bytes) = self.core.with(py, |core| (*core.stats(), core.len(), core.bytes()));
        stats_dict(py, &stats, pending, bytes)
    }

    /// Return for each level the length of a slot, the slot that contains the wheel's time, and the number of entries
    /// in each occupied slot.
    fn occupancy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        levels_list(py, self.core.with(py, |core| core.occupancy()))
    }

    /// Return the level and the slot of an entry; None if its slot has begun, or it is not pending.
    fn slot_of(&self, id: &Bound<'_, PyAny>) -> PyResult<Option<(usize, usize)>> {
        let id_number = checked_id(id)?;
        Ok(self.core.with(id.py(), |core| core.slot_of(id_number)))
    }

    /// Verify the invariants; raises AssertionError.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.core.with(py, |core| checked(|| core.check()))
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        self.core.with(py, |core| core.len())
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let visited = self.core.try_with(|core| core.payloads().try_for_each(|payload| visit.call(payload)));
        visited.unwrap_or(Ok(()))
    }

    fn __clear__(&self) {
        drop(self.core.try_with(Core::drain));
    }
}

fn listed(py: Python<'_>, entries: Vec<Expired<Py<PyAny>>>) -> PyResult<Bound<'_, PyList>> {
    let class = TYPING.get(py)?.getattr(intern!(py, "Expired"))?;
    let listed = PyList::empty(py);
    for entry in entries {
        listed.append(class.call1((entry.id.to_u64(), entry.deadline, entry.payload))?)?;
    }
    Ok(listed)
}

fn checked_deadline(value: &Bound<'_, PyAny>, name: &str) -> PyResult<u64> {
    let py = value.py();
    if !value.is_exact_instance_of::<PyInt>() {
        let kind = value.get_type().name()?;
        let text = format!("{name} is {}: pass an integer of nanoseconds, not {kind}", value.repr()?);
        return Err(PyTypeError::new_err(text));
    }
    match value.extract::<i64>() {
        Ok(ns) if ns >= 0 => Ok(ns.cast_unsigned()),
        _ => Err(raise(py, "InvalidDeadlineError", (value, name))),
    }
}

/// Convert an id; an integer that was never an id counts as stale.
fn checked_id(value: &Bound<'_, PyAny>) -> PyResult<Id> {
    if !value.is_instance_of::<PyInt>() {
        let text = format!("id is {}: pass the integer that insert returned", value.repr()?);
        return Err(PyTypeError::new_err(text));
    }
    Ok(Id::from_u64(value.extract().unwrap_or(0)))
}
