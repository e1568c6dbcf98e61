//! What the wheel holds for an entry, in one word: which object, and which kind.

use pyo3::ffi;

use crate::timer::TimerObject;

/// The object is a callback, to be called without arguments, or with the ids of its batch.
const CALLBACK: usize = 0;
/// The object is a `Timer`, which has the callback.
const TIMER: usize = 1;
const KIND: usize = 1;

/// A strong reference that must be released by hand: dropping it would run Python inside the wheel.
#[derive(Debug)]
pub(crate) struct Payload(std::num::NonZeroUsize);

// SAFETY: only a thread that holds the GIL touches what it points to.
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
        Self::tagged(callback as usize | CALLBACK)
    }

    #[inline]
    fn tagged(word: usize) -> Self {
        Self(std::num::NonZeroUsize::new(word).expect("objects are not at address 0"))
    }

    #[inline]
    pub(crate) fn held(&self) -> Held {
        let word = self.0.get();
        if word & KIND == TIMER {
            Held::Timer((word & !KIND) as *mut TimerObject)
        } else {
            Held::Batch(word as *mut ffi::PyObject)
        }
    }
}
