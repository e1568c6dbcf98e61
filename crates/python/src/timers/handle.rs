//! `TimerObject`: how a handle is laid out in memory, and how its state is read.

use pyo3::ffi;

use crate::cpython::call::Call;
use crate::timers::numbers::NONE;

/// `TimerObject::index` of a life that was taken to be fired and is not yet called: it may wait for a worker.
pub(crate) const FIRING: u32 = u32::MAX;
/// `TimerObject::index` once it is called, until no call of the timer is under way any more.
pub(crate) const RUNNING: u32 = u32::MAX - 1;
/// `TimerObject::index` after it.
pub(crate) const FIRED: u32 = u32::MAX - 2;
/// `TimerObject::index` after a cancel, drain or close.
pub(crate) const CANCELLED: u32 = u32::MAX - 3;

/// `TimerObject::sequence` while calls are under way: this and how many. No order of a move is as high.
pub(crate) const CALLS: u64 = 1 << 63;

/// The layout of a `Timer`. Every field is touched with the GIL held only.
///
/// What it can do is in `timer`, above the engine that this one knows as an object only.
#[repr(C)]
pub(crate) struct TimerObject {
    ob_base: ffi::PyObject,
    /// The number of the engine, which its count of living timers keeps alive; `NONE` once the timer has ended.
    pub(crate) engine: u32,
    /// The entry's place while pending; else a state, all of which are above every place.
    pub(crate) index: u32,
    pub(crate) deadline: u64,
    /// The order of the last move to later, which the wheel learns of when the entry's slot comes up; 0: the wheel knows all. It
    /// does so as well while calls are under way, of this life or of former ones, which are counted here: see `CALLS`.
    pub(crate) sequence: u64,
    /// What to call; none once the timer has ended.
    pub(crate) call: Call,
}

/// A free-threaded interpreter's objects begin with 16 bytes more.
const SIZE_MAX: usize = if cfg!(Py_GIL_DISABLED) { 64 } else { 48 };
const _: () = assert!(size_of::<TimerObject>() <= SIZE_MAX, "a handle fits one of the allocator's classes");

impl TimerObject {
    /// Whether the timer has ended: it has no engine any more.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.engine == NONE
    }

    /// Whether the timer is in the wheel.
    #[inline]
    pub(crate) fn is_pending(&self) -> bool {
        self.index < CANCELLED
    }

    /// Whether the timer's last life was taken to be fired, and may still be followed by another one.
    #[inline]
    pub(crate) fn is_firing(&self) -> bool {
        self.index >= RUNNING
    }

    /// Whether calls are under way, of whatever life.
    #[inline]
    pub(crate) fn is_called(&self) -> bool {
        self.sequence > CALLS
    }

    /// Note the order of a move that the wheel is to learn of, or 0.
    #[inline]
    pub(crate) fn note_move(&mut self, sequence: u64) {
        if !self.is_called() {
            self.sequence = sequence;
        }
    }

    /// Call it from now on.
    #[inline]
    pub(crate) fn begin_call(&mut self) {
        self.index = RUNNING;
        self.sequence = self.sequence.max(CALLS) + 1;
    }

    /// A call is over; whether the timer has fired by that: no other call is under way, and there is no new life.
    #[inline]
    pub(crate) fn end_call(&mut self) -> bool {
        self.sequence -= 1;
        if self.is_called() {
            return false;
        }
        self.sequence = 0;
        self.index == RUNNING
    }
}
