//! The calls for timers that `call_later_many` has set. All timers of one call of `call_later_many` are a batch, and
//! share a callback. If such a timer is moved by its id while its callback runs, it fires again, under the same id.
//!
//! The wheel gives the rescheduled timer a new id. So the timer then has two ids: callers keep using the old one
//! (`name`), and the wheel uses the new one (`place`). The tables that translate between them are empty unless such
//! timers exist.

use std::collections::{HashMap, HashSet};

use pyo3::ffi;
use pyo3::prelude::*;
use tickwheel_core::Id;

use crate::once::intern;
use crate::timers::handle::{TimerObject, FIRING};
use crate::timers::id_array::number;

/// A call of a batch's callback, which is running, or waits for a worker. A batch is the timers of one
/// `call_later_many`.
pub(crate) struct Firing {
    token: u64,
    call: Under,
    ids: Vec<Id>,
    /// The `ids` as a `HashSet`, made at the first lookup.
    known: Option<HashSet<Id>>,
}

/// The caller of a batch's callback: the engine itself, or the engine's hook `runner`.
pub(crate) enum Under {
    /// The engine itself, in `fire_due`. The field is the callback.
    Turn(Py<PyAny>),
    /// The hook `runner`, which may call the callback in another thread. The fields are the `Timer` that the hook gets,
    /// and the array of ids for the callback.
    Runner(Py<PyAny>, Py<PyAny>),
}

impl Firing {
    /// True until the call is over.
    fn is_under_way(&self) -> bool {
        let Under::Runner(timer, _) = &self.call else { return true };
        // SAFETY: the GIL is held, and the reference keeps the timer alive.
        unsafe {
            let timer = &*timer.as_ptr().cast::<TimerObject>();
            timer.is_called() || timer.is_firing() && !timer.call.is_none()
        }
    }

    fn known(&mut self) -> &mut HashSet<Id> {
        self.known.get_or_insert_with(|| self.ids.iter().copied().collect())
    }
}

/// A call that still waits for a worker, although one of its timers was rescheduled. `settle` removes this timer from
/// the call. The field is `None` if no such call waits.
pub(crate) struct Voided(Option<(Py<PyAny>, Py<PyAny>, Id)>);

impl Voided {
    /// Remove the timer's id from the array of ids of the waiting call, unless a worker has begun the call. The caller
    /// must not have a `GilCell` borrowed.
    pub(crate) fn settle(self, py: Python<'_>) -> PyResult<()> {
        let Some((timer, array, id)) = self.0 else { return Ok(()) };
        // SAFETY: the reference keeps the timer alive, and `flush` has made the timer.
        unsafe {
            let object = timer.as_ptr().cast::<TimerObject>();
            if (*object).index != FIRING {
                return Ok(());
            }
            array.bind(py).call_method1(intern!(py, "remove"), (number(id),))?;
            if array.bind(py).len()? == 0 {
                TimerObject::pass_over(py, object);
            }
        }
        Ok(())
    }
}

/// The running and waiting calls for the timers of `call_later_many`, and the two ids of each rescheduled timer: the id
/// that callers use, and the id in the wheel.
#[derive(Default)]
pub(crate) struct Batches {
    firings: Vec<Firing>,
    last_token: u64,
    places: HashMap<Id, Id>,
    names: HashMap<Id, Id>,
}

impl Batches {
    /// Return the wheel's id of the timer that callers know by the id `name`.
    #[inline]
    pub(crate) fn place(&self, name: Id) -> Id {
        if self.places.is_empty() {
            name
        } else {
            self.places.get(&name).copied().unwrap_or(name)
        }
    }

    /// Return the id by which callers know the timer whose id in the wheel is `place`.
    #[inline]
    pub(crate) fn name(&self, place: Id) -> Id {
        if self.names.is_empty() {
            place
        } else {
            self.names.get(&place).copied().unwrap_or(place)
        }
    }

    /// Record that the timer with the wheel's id `place` has left the wheel. Return the id by which callers know the
    /// timer.
    #[inline]
    pub(crate) fn leave(&mut self, place: Id) -> Id {
        if self.names.is_empty() {
            return place;
        }
        let Some(name) = self.names.remove(&place) else { return place };
        self.places.remove(&name);
        name
    }

    /// Record that all timers have left the wheel.
    pub(crate) fn leave_all(&mut self) {
        self.places.clear();
        self.names.clear();
    }

    /// Record that a call of a batch's callback begins, in `fire_due` or in a worker. Return the token of the call, and
    /// the records of completed calls, which the caller must drop while no `GilCell` is borrowed.
    pub(crate) fn begin(&mut self, call: Under, ids: Vec<Id>) -> (u64, Vec<Firing>) {
        let over = self.take_over();
        self.last_token += 1;
        self.firings.push(Firing { token: self.last_token, call, ids, known: None });
        (self.last_token, over)
    }

    /// Remove and return the record of a call that `fire_due` made itself and that has ended.
    pub(crate) fn end(&mut self, token: u64) -> Option<Firing> {
        let at = self.firings.iter().rposition(|firing| firing.token == token)?;
        Some(self.firings.swap_remove(at))
    }

    /// Remove and return the records of the calls that workers have completed.
    pub(crate) fn take_over(&mut self) -> Vec<Firing> {
        if self.firings.iter().all(Firing::is_under_way) {
            return Vec::new();
        }
        let (under_way, over) = std::mem::take(&mut self.firings).into_iter().partition(Firing::is_under_way);
        self.firings = under_way;
        over
    }

    /// True if the timer is firing and was not rescheduled since it expired.
    pub(crate) fn is_firing(&mut self, name: Id) -> bool {
        self.firing_of(name).is_some()
    }

    fn firing_of(&mut self, name: Id) -> Option<&mut Firing> {
        let mut firings = self.firings.iter_mut().rev().filter(|firing| firing.is_under_way());
        firings.find_map(|firing| firing.known().contains(&name).then_some(firing))
    }

    /// Reschedule a firing timer. Return a new reference to its callback, and the [`Voided`] that removes the timer
    /// from the earlier call.
    pub(crate) fn renew(&mut self, py: Python<'_>, name: Id) -> Option<(*mut ffi::PyObject, Voided)> {
        let firing = self.firing_of(name)?;
        firing.known().remove(&name);
        match &firing.call {
            Under::Turn(callback) => Some((callback.clone_ref(py).into_ptr(), Voided(None))),
            Under::Runner(timer, array) => {
                // SAFETY: the timer of a running call has its `call`, whose first word is the callback.
                let callback = unsafe { ffi::Py_NewRef((*timer.as_ptr().cast::<TimerObject>()).call.words()[0]) };
                Some((callback, Voided(Some((timer.clone_ref(py), array.clone_ref(py), name)))))
            }
        }
    }

    /// Record that the rescheduled timer that callers know as `name` has the id `place` in the wheel.
    pub(crate) fn enter(&mut self, name: Id, place: Id) {
        self.places.insert(name, place);
        self.names.insert(place, name);
    }
}
