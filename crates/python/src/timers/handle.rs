//! `TimerObject`: how a handle is laid out in memory, and how its state is read.

use pyo3::ffi;

use crate::cpython::call::Call;
use crate::timers::numbers::NONE;

/// `TimerObject::index` while the callback is being called.
pub(crate) const FIRING: u32 = u32::MAX;
/// `TimerObject::index` after it.
pub(crate) const FIRED: u32 = u32::MAX - 1;
/// `TimerObject::index` after a cancel, drain or close.
pub(crate) const CANCELLED: u32 = u32::MAX - 2;

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
    /// The order of the last move to later, which the wheel learns of when the entry's slot comes up; 0: the wheel knows all.
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
}
