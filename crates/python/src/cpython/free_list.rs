//! Dead objects of one kind, kept for the next one.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::ptr::NonNull;

use pyo3::ffi;
use pyo3::prelude::*;
use tickwheel_core::Spares;

/// Memory of dead objects that all have the same size; `tickwheel_core::Spares` with the GIL as its lock.
pub(crate) struct FreeList<T>(UnsafeCell<Spares<NonNull<T>>>);

// SAFETY: both methods need a `Python` token, so threads take turns; neither looks into the memory.
unsafe impl<T> Sync for FreeList<T> {}

impl<T> FreeList<T> {
    /// An empty list of at most `limit`.
    pub(crate) const fn new(limit: usize) -> Self {
        Self(UnsafeCell::new(Spares::new(limit)))
    }

    /// Take one out, if there is one. It is the caller's, and holds nothing of use.
    #[inline]
    pub(crate) fn take(&self, _py: Python<'_>) -> Option<NonNull<T>> {
        // SAFETY: the token keeps other threads out, and taking runs nothing that could come back in.
        unsafe { (*self.0.get()).take() }
    }

    /// Take one out as a new object of `kind`, with one reference, or let `allocate` make one.
    ///
    /// # Errors
    ///
    /// What `allocate` set when it returned null.
    ///
    /// # Safety
    ///
    /// What is in the list are dead objects of `kind`, and `allocate` makes living ones.
    #[inline]
    pub(crate) unsafe fn object(
        &self,
        py: Python<'_>,
        kind: *mut ffi::PyTypeObject,
        allocate: impl FnOnce() -> *mut T,
    ) -> PyResult<*mut T> {
        if let Some(dead) = self.take(py) {
            // SAFETY: the list holds dead objects of this kind, which may live again.
            unsafe { ffi::PyObject_Init(dead.as_ptr().cast(), kind) };
            return Ok(dead.as_ptr());
        }
        let made = allocate();
        if made.is_null() {
            return Err(PyErr::fetch(py));
        }
        Ok(made)
    }

    /// Keep what has died, or let `free` have it if there are enough.
    ///
    /// # Safety
    ///
    /// The memory is the caller's, as large as that of the others, and `free` gives such memory back.
    #[inline]
    pub(crate) unsafe fn keep(&self, _py: Python<'_>, dead: *mut T, free: unsafe extern "C" fn(*mut c_void)) {
        // SAFETY: the token keeps other threads out of the list; what has an object's memory is not null.
        unsafe {
            if let Err(dead) = (*self.0.get()).keep(NonNull::new_unchecked(dead)) {
                free(dead.as_ptr().cast());
            }
        }
    }
}
