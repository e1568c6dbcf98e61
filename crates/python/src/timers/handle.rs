//! `TimerObject`: the memory layout of a handle, and its state.

use pyo3::ffi;

use crate::cpython::call::Callback;
use crate::timers::numbers::NONE;

/// `TimerObject::index` of a timer that is due and was not called yet; it may wait for a worker.
pub(crate) const FIRING: u32 = u32::MAX;
/// `TimerObject::index` while the timer's callback is running, unless the timer was rescheduled during the call.
pub(crate) const RUNNING: u32 = u32::MAX - 1;
/// `TimerObject::index` once the last call has ended.
pub(crate) const FIRED: u32 = u32::MAX - 2;
/// `TimerObject::index` after a cancel, drain or close.
pub(crate) const CANCELLED: u32 = u32::MAX - 3;

/// While calls are running, `TimerObject::sequence` is this number plus the number of running calls. The sequence
/// number of a move is always less than this number.
pub(crate) const CALLS: u64 = 1 << 63;

/// The layout of a `Timer`. Its fields are accessed only with the GIL held.
///
/// Its methods are in `timer`, which also uses the engine. This module only stores the number of the engine.
#[repr(C)]
pub(crate) struct TimerObject {
    ob_base: ffi::PyObject,
    /// The number of the engine, or `NONE` once the timer has ended. The engine stays alive until then, because all its
    /// living timers share a reference to it.
    pub(crate) engine: u32,
    /// The index of the timer's entry in the wheel while the timer is pending; otherwise a state, such as `FIRED`. All
    /// states are larger than any index.
    pub(crate) index: u32,
    pub(crate) deadline: u64,
    /// While calls of the timer are running: the number of these calls, plus `CALLS`. Otherwise: the sequence number of
    /// the timer's last move, or 0 if the wheel's entry has this number already.
    pub(crate) sequence: u64,
    /// The callback, or `NONE` once the timer has ended.
    pub(crate) call: Callback,
}

/// Maximum size of a handle in bytes. Objects of a free-threaded interpreter are 16 bytes larger than those of other
/// interpreters.
const SIZE_MAX: usize = if cfg!(Py_GIL_DISABLED) { 64 } else { 48 };
const _: () = assert!(size_of::<TimerObject>() <= SIZE_MAX, "a handle fits one of the allocator's classes");

impl TimerObject {
    /// True if the timer has ended, so that it has no engine any more.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.engine == NONE
    }

    /// True if the timer is in the wheel.
    #[inline]
    pub(crate) fn is_pending(&self) -> bool {
        self.index < CANCELLED
    }

    /// True if the timer is firing and can still be rescheduled.
    #[inline]
    pub(crate) fn is_firing(&self) -> bool {
        self.index >= RUNNING
    }

    /// True if any call of the timer is running.
    #[inline]
    pub(crate) fn is_called(&self) -> bool {
        self.sequence > CALLS
    }

    /// Store the sequence number of a move that the wheel has not read yet, or 0 if there is no such move. Do nothing
    /// while the timer's callback is running.
    #[inline]
    pub(crate) fn note_move(&mut self, sequence: u64) {
        if !self.is_called() {
            self.sequence = sequence;
        }
    }

    /// Record the start of a call.
    #[inline]
    pub(crate) fn begin_call(&mut self) {
        self.index = RUNNING;
        self.sequence = self.sequence.max(CALLS) + 1;
    }

    /// Record the end of a call. Return true if the timer has now fired, because no other call is running and it was
    /// not rescheduled.
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
