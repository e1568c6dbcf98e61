//! What the wheel holds for an entry, in one word: which object, and which kind.

use pyo3::ffi;

use tickwheel_core::Owner;

use crate::memory::prefetch;
use crate::timers::handle::{TimerObject, CALLS};

/// Marks a `Timer`, which has the callback; a word without it is the callback of a batch.
const TIMER: usize = 1;

/// A strong reference that must be released by hand: dropping it would run Python inside the wheel.
#[derive(Debug)]
pub(crate) struct Payload(std::num::NonZeroUsize);

// SAFETY: a payload is a number; only a thread that holds the GIL follows it to the object.
unsafe impl Send for Payload {}

/// What a payload is.
#[derive(Clone, Copy)]
pub(crate) enum Held {
    Timer(*mut TimerObject),
    Batch(*mut ffi::PyObject),
}

impl Payload {
    /// Keep a timer; takes over a reference.
    #[inline]
    pub(crate) fn timer(timer: *mut TimerObject) -> Self {
        Self::tagged(timer as usize | TIMER)
    }

    /// Keep the callback of a batch; takes over a reference.
    pub(crate) fn batch(callback: *mut ffi::PyObject) -> Self {
        Self::tagged(callback as usize)
    }

    #[inline]
    fn tagged(word: usize) -> Self {
        Self(std::num::NonZeroUsize::new(word).expect("objects are not at address 0"))
    }

    /// One more reference to the same; runs no Python.
    pub(crate) fn retain(&self) -> Self {
        // SAFETY: the GIL is held, and the reference that is kept here keeps the object.
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

/// The owner of an engine's entries: a handle knows where its timer was moved to.
#[derive(Debug)]
pub(crate) struct Timers;

impl Owner<Payload> for Timers {
    #[inline]
    fn moved(payload: &Payload) -> Option<(u64, u64)> {
        let Held::Timer(timer) = payload.held() else { return None };
        // SAFETY: the wheel's reference keeps the timer, and the wheel is used with the GIL held.
        let (deadline, sequence) = unsafe { ((*timer).deadline, (*timer).sequence) };
        (1..CALLS).contains(&sequence).then_some((deadline, sequence))
    }

    #[inline]
    fn expect(payload: &Payload) {
        prefetch(payload.object().cast_const().cast());
    }
}

/// How many objects are under way from memory in a walk.
const AHEAD: usize = 32;

/// Call `look` with every payload, in no order, until it fails.
///
/// For the collector's walks over millions: the objects are where the allocator put them, so each is asked for some steps before its
/// turn. And the iterator is driven from within, which costs it a third of the instructions of a `for`.
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
