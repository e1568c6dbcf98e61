//! Names of attributes, interned on first use, which a fork cannot leave half made.
//!
//! PyO3's own `intern!` gives the interpreter away while it makes one. In the child of a fork at that moment the name is never finished,
//! and whatever needs it hangs.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyString;

/// A name that is made once.
pub(crate) struct Name {
    text: &'static str,
    object: AtomicPtr<ffi::PyObject>,
}

impl Name {
    pub(crate) const fn new(text: &'static str) -> Self {
        Self { text, object: AtomicPtr::new(null_mut()) }
    }

    /// The string, which lives as long as the process.
    #[inline]
    pub(crate) fn bind<'py>(&'static self, py: Python<'py>) -> &'py Bound<'py, PyString> {
        if self.object.load(Ordering::Acquire).is_null() {
            self.make(py);
        }
        // SAFETY: the word is that of a string that was made, whose reference it owns; it does not change any more.
        unsafe { &*self.object.as_ptr().cast::<Py<PyString>>() }.bind(py)
    }

    #[cold]
    fn make(&self, py: Python<'_>) {
        let made = PyString::intern(py, self.text).into_ptr();
        if self.object.compare_exchange(null_mut(), made, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // SAFETY: somebody else was first, and this reference is ours.
            unsafe { ffi::Py_DECREF(made) };
        }
    }
}

/// The interned string of a literal, made on first use.
macro_rules! intern {
    ($py:expr, $text:expr) => {{
        static NAME: $crate::name::Name = $crate::name::Name::new($text);
        NAME.bind($py)
    }};
}

pub(crate) use intern;
