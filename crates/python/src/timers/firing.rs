//! `Engine.fire_due`: it takes due entries out of the wheel one by one, and calls them while no `GilCell` is borrowed.

use pyo3::ffi;
use pyo3::prelude::*;
use tickwheel_core::{Expired, Id, Pop};

use crate::cpython::call::Callback;
use crate::cpython::errors::raise;
use crate::cpython::reports::checked_limit;
use crate::timers::batches::Under;
use crate::timers::coroutine::settle;
use crate::timers::engine::Engine;
use crate::timers::handle::{TimerObject, FIRING};
use crate::timers::id_array::{number, IdArray};
use crate::timers::payload::{Held, Payload};
use crate::timers::proxy::{call_ours, note_failure};
use crate::timers::timer;

/// Maximum number of entries that a `fire_due` with a limit moves from slot to slot. This takes about a millisecond.
const WORK: usize = 16_384;

/// Return the id of the calling thread, which is never 0.
pub(crate) fn this_thread() -> u64 {
    // SAFETY: the call always succeeds, even without the GIL.
    unsafe { ffi::PyThread_get_thread_ident() as u64 }
}

pub(crate) fn fire_due(engine: &Bound<'_, Engine>, limit: Option<&Bound<'_, PyAny>>) -> PyResult<usize> {
    let (py, this) = (engine.py(), engine.get());
    let limit = limit.map_or(Ok(usize::MAX), checked_limit)?;
    let now = this.now(py)?;
    let here = this_thread();
    let other = this.state.with(py, |state| {
        if state.firing == 0 {
            state.firing = here;
            state.wheel.begin_turn(now);
            return 0;
        }
        state.firing
    });
    if other == here {
        return Err(raise(py, "ReentrantError", ("fire_due",)));
    }
    if other != 0 {
        return Ok(0); // the running turn delivers the due timers
    }
    let mut turn =
        Turn { engine, now, work: if limit == usize::MAX { usize::MAX } else { WORK }, group: Group::default() };
    let outcome = turn.run(limit);
    this.state.with(py, |state| {
        state.firing = 0;
        state.wheel.end_turn();
    });
    outcome
}

struct Turn<'a, 'py> {
    engine: &'a Bound<'py, Engine>,
    now: u64,
    work: usize,
    group: Group,
}

/// The ids of timers that expired one after another and share a callback. One call of the callback delivers all of
/// them.
#[derive(Default)]
struct Group {
    callback: Option<Py<PyAny>>,
    ids: Vec<Id>,
}

impl Turn<'_, '_> {
    fn run(&mut self, limit: usize) -> PyResult<usize> {
        let mut fired = 0;
        while fired < limit {
            // The callback of a batch may cancel, move or drain later entries, so no later entry is removed before it
            // has run.
            if !self.group.ids.is_empty() && !self.goes_on() {
                self.flush()?;
            }
            let Some(entry) = self.take() else { break };
            fired += 1;
            match entry.payload.held() {
                // SAFETY: `take` has marked the timer as firing, and we now own the wheel's reference.
                Held::Timer(timer) => unsafe { self.fire(timer) }?,
                Held::Batch(callback) => self.gather(callback, entry.id),
            }
        }
        self.flush()?;
        Ok(fired)
    }

    /// True if the next entry belongs to the group and is due.
    fn goes_on(&mut self) -> bool {
        let work = &mut self.work;
        let group = self.group.callback.as_ref().map(Py::as_ptr);
        self.engine.get().state.with(self.engine.py(), |state| {
            let next = state.wheel.peek(work).map(Payload::held);
            matches!(next, Some(Held::Batch(callback)) if Some(callback) == group)
        })
    }

    #[inline]
    fn take(&mut self) -> Option<Expired<Payload>> {
        let (now, work) = (self.now, &mut self.work);
        self.engine.get().state.with(self.engine.py(), |state| match state.wheel.pop(work) {
            Pop::Expired(mut entry) => {
                entry.id = state.batches.leave(entry.id);
                let lateness = now.saturating_sub(entry.deadline);
                state.lateness[(64 - lateness.leading_zeros()).min(63) as usize] += 1;
                if let Held::Timer(timer) = entry.payload.held() {
                    // SAFETY: the reference of the entry keeps the timer alive. Until it is called, its state says that
                    // it is out of the wheel.
                    unsafe { (*timer).index = FIRING };
                }
                Some(entry)
            }
            Pop::Nothing | Pop::Busy => None,
        })
    }

    /// Call a timer, or pass it to the hook `runner`.
    ///
    /// # Safety
    ///
    /// The caller gives up a reference to `timer`, which is out of the wheel and marked as firing.
    #[inline]
    unsafe fn fire(&mut self, timer: *mut TimerObject) -> PyResult<()> {
        let py = self.engine.py();
        // SAFETY: `object` keeps the reference until the end.
        unsafe {
            let object = Bound::from_owned_ptr(py, timer.cast());
            let engine = self.engine.get();
            if let Some(runner) = engine.hook(py, |hooks| &hooks.runner) {
                let Err(error) = runner.bind(py).call1((&object,)) else { return Ok(()) };
                let told = refuse(py, timer);
                TimerObject::pass_over(py, timer);
                engine.report(py, error, &object)?;
                return told.or_else(|error| engine.report(py, error, &object));
            }
            let result = TimerObject::fire(py, timer, engine);
            if result.is_null() {
                return engine.report(py, PyErr::fetch(py), &object);
            }
            ffi::Py_DECREF(result);
            Ok(())
        }
    }

    /// Add an id to the group, which is empty or has the callback `callback`.
    fn gather(&mut self, callback: *mut ffi::PyObject, id: Id) {
        // SAFETY: the entry is out of the wheel, so we own its reference to the callback.
        let callback = unsafe { Bound::from_owned_ptr(self.engine.py(), callback) }.unbind();
        self.group.callback.get_or_insert(callback);
        self.group.ids.push(id);
    }

    /// Call the batch's callback with the gathered ids in one array.
    fn flush(&mut self) -> PyResult<()> {
        let Group { callback: Some(callback), ids } = std::mem::take(&mut self.group) else {
            return Ok(());
        };
        let py = self.engine.py();
        let mut array = IdArray::new(py, ids.len())?;
        for (place, &id) in array.places().iter_mut().zip(&ids) {
            *place = number(id);
        }
        let array = array.into_array();
        let engine = self.engine.get();
        let has_runner = engine.hooks.with(py, |hooks| hooks.runner.is_some());
        if has_runner {
            // SAFETY: the words live during the call, and `fire` consumes the reference.
            unsafe {
                let call = Callback::new(py, &[callback.as_ptr(), array.as_ptr()]);
                let timer = timer::new(py, self.engine.as_ptr(), call, self.now)?;
                let object = Bound::from_borrowed_ptr(py, timer.cast()).unbind();
                let under = Under::Runner(object, array.unbind());
                drop(engine.state.with(py, |state| state.batches.begin(under, ids)));
                return self.fire(timer);
            }
        }
        let under = Under::Turn(callback.clone_ref(py));
        let (token, over) = engine.state.with(py, |state| state.batches.begin(under, ids));
        drop(over);
        let callback = callback.bind(py);
        let outcome = callback.call1((array,)).and_then(|result| {
            // SAFETY: the result is consumed, and becomes an owned object or an error.
            unsafe {
                let settled = settle(engine, py, result.into_ptr(), callback.as_ptr(), callback.as_ptr());
                Bound::from_owned_ptr_or_err(py, settled)
            }
        });
        drop(engine.state.with(py, |state| state.batches.end(token)));
        outcome.map(drop).or_else(|error| engine.report(py, error, callback))
    }
}

/// The hook `runner` did not accept a timer: if the timer's callback is a `TimerProxy`, call its method `refused`,
/// which may reschedule the timer.
///
/// # Safety
///
/// The caller has a reference to `timer`.
#[cold]
unsafe fn refuse(py: Python<'_>, timer: *mut TimerObject) -> PyResult<()> {
    // SAFETY: the caller's reference keeps the timer alive, a firing timer has its call, and the callback is kept alive
    // during the notification.
    unsafe {
        if (*timer).index != FIRING {
            return Ok(());
        }
        let callback = Borrowed::from_ptr(py, (*timer).call.words()[0]).to_owned();
        call_ours(&callback, "refused").map_err(|error| {
            error.restore(py);
            note_failure(py, callback.as_ptr());
            PyErr::fetch(py)
        })
    }
}
