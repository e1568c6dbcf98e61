//! The payload of an entry of the wheel: a pointer to an object, with a bit for the kind of the object.

use pyo3::ffi;

use tickwheel_core::Owner;

use crate::memory::prefetch;
use crate::timers::handle::{TimerObject, CALLS};

/// The bit that marks a pointer to a `Timer`. A pointer without the bit is to the callback of a `call_later_many`.
const TIMER: usize = 1;

/// A strong reference that must be released explicitly, because dropping it would run Python inside the wheel.
#[derive(Debug)]
pub(crate) struct Payload(std::num::NonZeroUsize);

// SAFETY: a payload is a number, and only a thread that holds the GIL dereferences it.
unsafe impl Send for Payload {}

/// The object that a payload holds.
#[derive(Clone, Copy)]
pub(crate) enum Held {
    Timer(*mut TimerObject),
    Batch(*mut ffi::PyObject),
}

impl Payload {
    /// Make the payload of a timer; consumes a reference.
    #[inline]
    pub(crate) fn timer(timer: *mut TimerObject) -> Self {
        Self::tagged(timer as usize | TIMER)
    }

    /// Make the payload of a batch's callback; consumes a reference.
    pub(crate) fn batch(callback: *mut ffi::PyObject) -> Self {
        Self::tagged(callback as usize)
    }

    #[inline]
    fn tagged(word: usize) -> Self {
        Self(std::num::NonZeroUsize::new(word).expect("objects are not at address 0"))
    }

    /// Take another reference; this runs no Python.
    pub(crate) fn retain(&self) -> Self {
        // SAFETY: the GIL is held, and our reference keeps the object alive.
        unsafe { ffi::Py_INCREF(self.object()) };
        Self(self.0)
    }

    #[inline]
    pub(crate) fn object(&self) -> *mut ffi::PyObject {
        (self.0.get() & !TIMER) as *mut ffi::PyObject
    }

    #[inline]
    pub(crate) fn held(&self) -> Held {
        if self.0.get() & TIMER == TIMER {
            Held::Timer(self.object().cast())
        } else {
            Held::Batch(self.object())
        }
    }
}

/// The [`Owner`] of an engine's entries: a move of a timer is stored in its handle, where the wheel reads it.
#[derive(Debug)]
pub(crate) struct Timers;

impl Owner<Payload> for Timers {
    #[inline]
    fn moved(payload: &Payload) -> Option<(u64, u64)> {
        let Held::Timer(timer) = payload.held() else { return None };
        // SAFETY: the wheel's reference keeps the timer alive, and the wheel is used with the GIL held.
        let (deadline, sequence) = unsafe { ((*timer).deadline, (*timer).sequence) };
        (1..CALLS).contains(&sequence).then_some((deadline, sequence))
    }

    #[inline]
    fn expect(payload: &Payload) {
        prefetch(payload.object().cast_const().cast());
    }
}

/// Prefetch distance: `walk` prefetches each object this number of steps before it passes the object on.
const AHEAD: usize = 32;

/// Call `look` with every payload, in any order, until it fails.
///
/// This is for the collector's walks over millions of objects, which are scattered in memory, so each object is
/// prefetched. Internal iteration takes a third of the instructions of a `for` loop.
pub(crate) fn walk<'a, E>(
    mut payloads: impl Iterator<Item = &'a Payload>,
    mut look: impl FnMut(&'a Payload) -> Result<(), E>,
) -> Result<(), E> {
    let mut ring = [None; AHEAD];
    let mut turn = 0;
    payloads.try_for_each(|payload| {
        prefetch(payload.object().cast_const().cast());
        turn = (turn + 1) % AHEAD;
        ring[turn].replace(payload).map_or(Ok(()), &mut look)
    })?;
    ring.into_iter().flatten().try_for_each(look)
}
