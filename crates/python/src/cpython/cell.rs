//! The lock of the native objects, which is the interpreter's GIL, and the guard that turns panics into exceptions.
//!
//! A `GilCell` is similar to a `RefCell`: it is *borrowed* while a closure uses its value, in `with` or one of its
//! variants. A second borrow in the meantime panics. Code that may run Python must therefore run while no `GilCell` is
//! borrowed.

use std::panic::{catch_unwind, AssertUnwindSafe};

use pyo3::ffi;
use pyo3::panic::PanicException;
use pyo3::prelude::*;

#[cfg(not(Py_GIL_DISABLED))]
pub(crate) use by_gil::GilCell;
#[cfg(Py_GIL_DISABLED)]
pub(crate) use by_lock::GilCell;

/// Refuse the import if the GIL is disabled, because the module is not safe without it. This is the case in a
/// free-threaded interpreter that was started with `PYTHON_GIL=0`.
///
/// Without that option, such an interpreter enables its GIL when it imports our module, which declares that it uses the
/// GIL.
#[cfg(Py_GIL_DISABLED)]
pub(crate) fn require_gil(py: Python<'_>) -> PyResult<()> {
    if py.import("sys")?.call_method0("_is_gil_enabled")?.is_truthy()? {
        return Ok(());
    }
    let text =
        "tickwheel needs the GIL, which this interpreter was asked to leave off: unset PYTHON_GIL, and drop -X gil=0";
    Err(pyo3::exceptions::PyImportError::new_err(text))
}

/// The `GilCell` whose lock is the GIL: only a thread that holds the GIL accesses the value, and never while that
/// thread runs Python code.
///
/// Another lock would cost 10 ns per call; this one costs only a flag. One mistake is still possible: code in `with`
/// may run Python, which may borrow the same cell again. The flag turns that into a panic, so that the wheel is not
/// corrupted.
#[cfg(not(Py_GIL_DISABLED))]
mod by_gil {
    use std::cell::{Cell, UnsafeCell};

    use pyo3::prelude::*;

    pub(crate) struct GilCell<T> {
        is_entered: Cell<bool>,
        value: UnsafeCell<T>,
    }

    // SAFETY: `with` needs a `Python` token, so threads use the value one after another, and therefore `T: Send` is
    // enough.
    unsafe impl<T: Send> Sync for GilCell<T> {}

    /// Marks the cell as no longer borrowed when this guard is dropped, even by a panic.
    struct Leave<'a>(&'a Cell<bool>);

    impl Drop for Leave<'_> {
        fn drop(&mut self) {
            self.0.set(false);
        }
    }

    impl<T> GilCell<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self { is_entered: Cell::new(false), value: UnsafeCell::new(value) }
        }

        /// Call `f` with the value. `f` must not run Python: it must not call or drop an object, or allocate an object
        /// that the collector counts.
        #[inline]
        pub(crate) fn with<R>(&self, _py: Python<'_>, f: impl FnOnce(&mut T) -> R) -> R {
            assert!(!self.is_entered.replace(true), "Python ran while a wheel was being changed");
            let _leave = Leave(&self.is_entered);
            // SAFETY: the GIL excludes other threads, and the flag excludes this one.
            f(unsafe { &mut *self.value.get() })
        }

        /// Call `f` with the value without setting the flag, for hot paths of a few instructions.
        ///
        /// # Safety
        ///
        /// The cell is not borrowed, and `f` does not borrow it again.
        #[inline]
        pub(crate) unsafe fn with_unchecked<R>(&self, _py: Python<'_>, f: impl FnOnce(&mut T) -> R) -> R {
            // SAFETY: the GIL excludes other threads, and the caller excludes this one.
            f(unsafe { &mut *self.value.get() })
        }

        /// Call `f` with the value, or return `None` if the cell is borrowed. The garbage collector needs this, because
        /// it may run at any time.
        pub(crate) fn try_with<R>(&self, f: impl FnOnce(&mut T) -> R) -> Option<R> {
            if self.is_entered.replace(true) {
                return None;
            }
            let _leave = Leave(&self.is_entered);
            // SAFETY: the collector runs with the GIL held, and the flag excludes this thread.
            Some(f(unsafe { &mut *self.value.get() }))
        }
    }
}

/// The `GilCell` with a lock of its own, for an interpreter without a GIL. A lock alone does not make the module safe,
/// so the module enables the GIL; `docs/decisions/free-threading.md` lists what is missing.
#[cfg(Py_GIL_DISABLED)]
mod by_lock {
    use pyo3::prelude::*;
    use tickwheel_core::Lock;

    pub(crate) struct GilCell<T>(Lock<T>);

    impl<T> GilCell<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(Lock::new(value))
        }

        /// Call `f` with the value. `f` must not run Python, which could wait for a thread that waits for this lock.
        pub(crate) fn with<R>(&self, _py: Python<'_>, f: impl FnOnce(&mut T) -> R) -> R {
            self.0.with(f)
        }

        /// Call `f` with the value. Without a GIL no call may skip the lock, so this function does the same as `with`.
        ///
        /// # Safety
        ///
        /// The cell is not borrowed, and `f` does not borrow it again.
        pub(crate) unsafe fn with_unchecked<R>(&self, _py: Python<'_>, f: impl FnOnce(&mut T) -> R) -> R {
            self.0.with(f)
        }

        /// Call `f` with the value, or return `None` if the cell is borrowed. The garbage collector needs this, because
        /// it may run at any time.
        pub(crate) fn try_with<R>(&self, f: impl FnOnce(&mut T) -> R) -> Option<R> {
            self.0.try_with(f)
        }
    }
}

/// Run `body`, the body of a function that the interpreter calls. An error of `body` is raised in Python, and a panic
/// becomes an exception.
///
/// # Safety
///
/// The calling thread holds the GIL.
#[inline]
pub(crate) unsafe fn guard(body: impl FnOnce(Python<'_>) -> PyResult<*mut ffi::PyObject>) -> *mut ffi::PyObject {
    // SAFETY: the interpreter calls this with the GIL held.
    let py = unsafe { Python::assume_attached() };
    match catch_unwind(AssertUnwindSafe(|| body(py))) {
        Ok(Ok(object)) => object,
        Ok(Err(error)) => {
            error.restore(py);
            std::ptr::null_mut()
        }
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map_or("a panic in tickwheel._core", |text| *text);
            PanicException::new_err((text.to_owned(),)).restore(py);
            std::ptr::null_mut()
        }
    }
}
