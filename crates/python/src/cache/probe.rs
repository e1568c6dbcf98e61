//! The search for a key without running Python code, as far as possible.

use std::collections::HashSet;

use pyo3::ffi;
use pyo3::prelude::*;
use tickwheel_core::{tag_of, Id};

use crate::cache::store::Store;

/// Maximum depth of the nested tuples that are compared without Python code. The key of a call with keywords is a tuple
/// of tuples.
const NESTED: u32 = 2;

/// The result of a search.
pub(crate) enum Probe {
    Found(u32),
    Absent,
    /// This entry's key might be equal to the wanted key, because the hashes of both share a tag. Python has to compare
    /// the two keys.
    Doubt(Id, Py<PyAny>),
}

/// Iterates over the entries whose hashes share a tag. It returns each entry at most once, even if Python code changes
/// the cache during the iteration.
#[derive(Default)]
pub(crate) struct CollisionChain {
    seen: HashSet<Id>,
    ahead: Vec<Id>,
}

impl Store {
    /// Search for a key without running Python code.
    #[inline]
    pub(crate) fn probe(&self, py: Python<'_>, key: *mut ffi::PyObject, hash: isize) -> Probe {
        self.probe_among(py, key, self.table.candidates(tag_of(hash)))
    }

    /// Continue the search after Python has found that the key of the entry `compared` is not equal to `key`.
    pub(crate) fn probe_on(
        &self,
        py: Python<'_>,
        key: *mut ffi::PyObject,
        hash: isize,
        compared: Id,
        crowd: &mut CollisionChain,
    ) -> Probe {
        let CollisionChain { seen, ahead } = crowd;
        seen.insert(compared);
        let next = || loop {
            if ahead.is_empty() {
                // At first these are all entries, and later those that were added in the meantime.
                let ids = self.table.candidates(tag_of(hash)).map(|index| self.wheel.id_at(index));
                ahead.extend(ids.filter(|&id| seen.insert(id)));
            }
            let id = ahead.pop()?;
            if self.wheel.get(id).is_some() {
                return Some(id.index());
            }
        };
        self.probe_among(py, key, std::iter::from_fn(next))
    }

    #[inline]
    fn probe_among(&self, py: Python<'_>, key: *mut ffi::PyObject, indices: impl Iterator<Item = u32>) -> Probe {
        for index in indices {
            let item = self.wheel.payload_at(index);
            if item.key.as_ptr() == key {
                return Probe::Found(index);
            }
            match plainly_equal(item.key.as_ptr(), key).or_else(|| equal_tuples(item.key.as_ptr(), key, NESTED)) {
                Some(true) => return Probe::Found(index),
                Some(false) => {}
                None => return Probe::Doubt(self.wheel.id_at(index), item.key.clone_ref(py)),
            }
        }
        Probe::Absent
    }
}

/// Return the stored hash of a string, if it has one.
#[inline]
pub(crate) fn known_hash(key: &Bound<'_, PyAny>) -> Option<isize> {
    // SAFETY: an exact string begins with this structure in every supported CPython.
    unsafe {
        let key = key.as_ptr();
        let is_string = ffi::Py_TYPE(key) == &raw mut ffi::PyUnicode_Type;
        let hash = if is_string { (*key.cast::<ffi::PyASCIIObject>()).hash } else { -1 };
        (hash != -1).then_some(hash)
    }
}

/// Compare two keys; return None if this cannot be decided without running Python code.
#[inline]
fn plainly_equal(a: *mut ffi::PyObject, b: *mut ffi::PyObject) -> Option<bool> {
    // SAFETY: both are living objects and the GIL is held. Comparing exact strings, integers, floats or bytes with one
    // another runs no Python code and allocates nothing.
    unsafe {
        let kind = ffi::Py_TYPE(a);
        if kind != ffi::Py_TYPE(b) {
            return None;
        }
        if kind == &raw mut ffi::PyUnicode_Type {
            return Some(ffi::PyUnicode_Compare(a, b) == 0);
        }
        let is_number = kind == &raw mut ffi::PyLong_Type || kind == &raw mut ffi::PyFloat_Type;
        let is_plain = is_number || kind == &raw mut ffi::PyBytes_Type;
        is_plain.then(|| ffi::PyObject_RichCompareBool(a, b, ffi::Py_EQ) == 1)
    }
}

/// Like `plainly_equal`, for tuples. As in Python, items are compared in order, up to the first pair that is neither
/// identical nor equal.
#[inline(never)]
fn equal_tuples(a: *mut ffi::PyObject, b: *mut ffi::PyObject, levels: u32) -> Option<bool> {
    // SAFETY: both are living objects and the GIL is held. An exact tuple keeps its items alive and never changes.
    unsafe {
        if levels == 0 || ffi::PyTuple_CheckExact(a) == 0 || ffi::PyTuple_CheckExact(b) == 0 {
            return None;
        }
        let len = ffi::PyTuple_GET_SIZE(a);
        if len != ffi::PyTuple_GET_SIZE(b) {
            return Some(false);
        }
        for at in 0..len {
            let (a, b) = (ffi::PyTuple_GET_ITEM(a, at), ffi::PyTuple_GET_ITEM(b, at));
            if a != b && !plainly_equal(a, b).or_else(|| equal_tuples(a, b, levels - 1))? {
                return Some(false);
            }
        }
        Some(true)
    }
}
