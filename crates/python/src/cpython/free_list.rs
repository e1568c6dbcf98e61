//! Dead objects of one kind, kept for reuse.

use std::ffi::c_void;
use std::ptr::NonNull;

use pyo3::ffi;
use pyo3::prelude::*;
use tickwheel_core::FreeList as Bounded;

use crate::cpython::cell::GilCell;

/// The memory of a dead object.
struct Dead<T>(NonNull<T>);

// SAFETY: the memory has no other user, and its allocator accepts it from any thread.
unsafe impl<T> Send for Dead<T> {}

/// The memory of dead objects, which all have one size.
pub(crate) struct FreeList<T>(GilCell<Bounded<Dead<T>>>);

impl<T> FreeList<T> {
    /// Make an empty list of at most `limit` objects.
    pub(crate) const fn new(limit: usize) -> Self {
        Self(GilCell::new(Bounded::new(limit)))
    }

    /// Take an object, if there is one. The caller owns it, and must initialise it.
    #[inline]
    pub(crate) fn take(&self, py: Python<'_>) -> Option<NonNull<T>> {
        // SAFETY: the cell is borrowed only here and in `keep`, and taking an object runs no code that could borrow it
        // again.
        unsafe { self.0.with_unchecked(py, Bounded::take) }.map(|Dead(memory)| memory)
    }

    /// Take an object from the list as a new object of `kind` with one reference, or call `allocate` if the list is
    /// empty.
    ///
    /// # Errors
    ///
    /// The exception of `allocate`, if it returned null.
    ///
    /// # Safety
    ///
    /// The list holds dead objects of `kind`, and `allocate` makes living ones.
    #[inline]
    pub(crate) unsafe fn object(
        &self,
        py: Python<'_>,
        kind: *mut ffi::PyTypeObject,
        allocate: impl FnOnce() -> *mut T,
    ) -> PyResult<*mut T> {
        if let Some(dead) = self.take(py) {
            // SAFETY: the list holds dead objects of this kind, which can be reused.
            unsafe { ffi::PyObject_Init(dead.as_ptr().cast(), kind) };
            return Ok(dead.as_ptr());
        }
        let made = allocate();
        if made.is_null() {
            return Err(PyErr::fetch(py));
        }
        Ok(made)
    }

    /// Keep a dead object for reuse. If the list is full, release the object's memory with `free`.
    ///
    /// # Safety
    ///
    /// The caller owns the memory at `dead`, its size is that of every object in the list, and `free` can release it.
    #[inline]
    pub(crate) unsafe fn keep(&self, py: Python<'_>, dead: *mut T, free: unsafe extern "C" fn(*mut c_void)) {
        // SAFETY: the memory of an object is not null. Keeping it runs no code that could borrow the cell again, and
        // `free` runs while the cell is not borrowed.
        unsafe {
            let dead = Dead(NonNull::new_unchecked(dead));
            if let Err(Dead(dead)) = self.0.with_unchecked(py, |list| list.keep(dead)) {
                free(dead.as_ptr().cast());
            }
        }
    }
}
