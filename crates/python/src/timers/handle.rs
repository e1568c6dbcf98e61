//! `TimerObject`: how a handle is laid out in memory, and how its state is read.

use pyo3::ffi;

use crate::cpython::call::Call;

/// `TimerObject::id` while the callback is being called.
pub(crate) const FIRING: u64 = 0;
/// `TimerObject::id` after it.
pub(crate) const FIRED: u64 = 1;
/// `TimerObject::id` after a cancel, drain or close.
pub(crate) const CANCELLED: u64 = 2;

/// The layout of a `Timer`. Every field is touched with the GIL held only.
///
/// What it can do is in `timer`, above the engine that this one knows as an object only.
#[repr(C)]
pub(crate) struct TimerObject {
    ob_base: ffi::PyObject,
    /// The engine, kept alive by its count of living timers; null once the timer has ended.
    pub(crate) engine: *mut ffi::PyObject,
    /// What to call; none once the timer has ended.
    pub(crate) call: Call,
    /// The entry's id while pending; else a state, all of which are below every id.
    pub(crate) id: u64,
    pub(crate) deadline: u64,
}

/// A free-threaded interpreter's objects begin with 16 bytes more.
const SIZE_MAX: usize = if cfg!(Py_GIL_DISABLED) { 64 } else { 48 };
const _: () = assert!(size_of::<TimerObject>() <= SIZE_MAX, "a handle fits one of the allocator's classes");

impl TimerObject {
    /// Whether the timer is in the wheel.
    #[inline]
    pub(crate) fn is_pending(&self) -> bool {
        self.id > CANCELLED
    }
}
