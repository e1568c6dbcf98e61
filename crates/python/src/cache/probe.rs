//! Looking for a key without running Python, as far as that goes.

use pyo3::ffi;
use pyo3::prelude::*;
use tickwheel_core::{tag_of, Id};

use crate::cache::store::Store;

/// What looking for a key came to.
pub(crate) enum Probe {
    Found(u32),
    Absent,
    /// Python has to compare: this entry has the tag of the hash, and a key that might be equal.
    Doubt(Id, Py<PyAny>),
}

impl Store {
    /// Look for a key, without running Python; `rejected` are entries that were compared already.
    #[inline]
    pub(crate) fn probe(&self, py: Python<'_>, key: *mut ffi::PyObject, hash: isize, rejected: &[Id]) -> Probe {
        for index in self.table.candidates(tag_of(hash)) {
            let item = self.wheel.payload_at(index);
            if item.key.as_ptr() == key {
                return Probe::Found(index);
            }
            if !rejected.is_empty() && rejected.contains(&self.wheel.id_at(index)) {
                continue;
            }
            match plainly_equal(item.key.as_ptr(), key) {
                Some(true) => return Probe::Found(index),
                Some(false) => {}
                None => return Probe::Doubt(self.wheel.id_at(index), item.key.clone_ref(py)),
            }
        }
        Probe::Absent
    }
}

/// The hash of a string that has computed it, which costs a look.
#[inline]
pub(crate) fn known_hash(key: &Bound<'_, PyAny>) -> Option<isize> {
    // SAFETY: an exact string begins with this structure on every CPython that is supported.
    unsafe {
        let key = key.as_ptr();
        let is_string = ffi::Py_TYPE(key) == &raw mut ffi::PyUnicode_Type;
        let hash = if is_string { (*key.cast::<ffi::PyASCIIObject>()).hash } else { -1 };
        (hash != -1).then_some(hash)
    }
}

/// Whether two keys of one tag are equal, where that can be decided without running Python; None where it cannot.
#[inline]
fn plainly_equal(a: *mut ffi::PyObject, b: *mut ffi::PyObject) -> Option<bool> {
    // SAFETY: both are living objects and the GIL is held; comparing exact strings, integers or bytes with one another runs no
    // Python code and allocates nothing.
    unsafe {
        let kind = ffi::Py_TYPE(a);
        if kind != ffi::Py_TYPE(b) {
            return None;
        }
        if kind == &raw mut ffi::PyUnicode_Type {
            return Some(ffi::PyUnicode_Compare(a, b) == 0);
        }
        let is_plain = kind == &raw mut ffi::PyLong_Type || kind == &raw mut ffi::PyBytes_Type;
        is_plain.then(|| ffi::PyObject_RichCompareBool(a, b, ffi::Py_EQ) == 1)
    }
}
