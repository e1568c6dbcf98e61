//! Dead objects of one kind, kept for the next one.

use std::ffi::c_void;
use std::ptr::NonNull;

use pyo3::ffi;
use pyo3::prelude::*;
use tickwheel_core::Spares;

use crate::cpython::cell::GilCell;

/// The memory of a dead object.
struct Dead<T>(NonNull<T>);

// SAFETY: the memory is nobody else's, and from allocators that take it back from any thread.
unsafe impl<T> Send for Dead<T> {}

/// Memory of dead objects that all have the same size.
pub(crate) struct FreeList<T>(GilCell<Spares<Dead<T>>>);

impl<T> FreeList<T> {
    /// An empty list of at most `limit`.
    pub(crate) const fn new(limit: usize) -> Self {
        Self(GilCell::new(Spares::new(limit)))
    }

    /// Take one out, if there is one. It is the caller's, and holds nothing of use.
    #[inline]
    pub(crate) fn take(&self, py: Python<'_>) -> Option<NonNull<T>> {
        // SAFETY: the cell is entered here and in `keep` only, and taking runs nothing that could come back in.
        unsafe { self.0.with_unchecked(py, Spares::take) }.map(|Dead(memory)| memory)
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
    pub(crate) unsafe fn keep(&self, py: Python<'_>, dead: *mut T, free: unsafe extern "C" fn(*mut c_void)) {
        // SAFETY: what has an object's memory is not null; keeping runs nothing that could come back in, and `free` runs outside.
        unsafe {
            let dead = Dead(NonNull::new_unchecked(dead));
            if let Err(Dead(dead)) = self.0.with_unchecked(py, |spares| spares.keep(dead)) {
                free(dead.as_ptr().cast());
            }
        }
    }
}
