//! Types that are written with the C API: their tables, how they are made, and where they are stored.

use std::ffi::{c_int, c_ulong, c_void, CStr};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyType;

/// A table that the interpreter may read at any time; its last item is zeros.
pub(crate) struct Table<T: Definition, const N: usize>(pub(crate) [T; N]);

/// Marks a type that may be an item of a [`Table`]. Such items consist of names, functions and numbers.
pub(crate) trait Definition {}

impl Definition for ffi::PyMethodDef {}
impl Definition for ffi::PyGetSetDef {}
impl Definition for ffi::PyMemberDef {}

// SAFETY: a table is never written, and it points to statics.
unsafe impl<T: Definition, const N: usize> Sync for Table<T, N> {}

/// Return the definition of a readable attribute, which is writable if `set` is given.
pub(crate) const fn attribute(
    name: &'static CStr,
    get: ffi::getter,
    set: Option<ffi::setter>,
    doc: &'static CStr,
) -> ffi::PyGetSetDef {
    ffi::PyGetSetDef { name: name.as_ptr(), get: Some(get), set, doc: doc.as_ptr(), closure: null_mut() }
}

/// The item that ends a table of attributes.
pub(crate) const LAST_ATTRIBUTE: ffi::PyGetSetDef =
    ffi::PyGetSetDef { name: std::ptr::null(), get: None, set: None, doc: std::ptr::null(), closure: null_mut() };

/// A type under construction, whose objects Python code cannot make.
pub(crate) struct TypeBuilder {
    name: &'static CStr,
    size: usize,
    flags: c_ulong,
    slots: Vec<ffi::PyType_Slot>,
}

impl TypeBuilder {
    /// Begin a type, with its full name and the size of its objects, including the fields of the base type.
    pub(crate) fn new(name: &'static CStr, size: usize) -> Self {
        let flags = ffi::Py_TPFLAGS_DEFAULT | ffi::Py_TPFLAGS_DISALLOW_INSTANTIATION;
        Self { name, size, flags, slots: Vec::new() }
    }

    pub(crate) fn flags(mut self, more: c_ulong) -> Self {
        self.flags |= more;
        self
    }

    /// Set a slot to a function, a table or a type.
    pub(crate) fn slot(mut self, slot: c_int, content: *const c_void) -> Self {
        self.slots.push(ffi::PyType_Slot { slot, pfunc: content.cast_mut() });
        self
    }

    pub(crate) fn doc(self, doc: &'static CStr) -> Self {
        self.slot(ffi::Py_tp_doc, doc.as_ptr().cast())
    }

    pub(crate) fn methods<const N: usize>(self, methods: &'static Table<ffi::PyMethodDef, N>) -> Self {
        self.slot(ffi::Py_tp_methods, methods.0.as_ptr().cast())
    }

    pub(crate) fn attributes<const N: usize>(self, attributes: &'static Table<ffi::PyGetSetDef, N>) -> Self {
        self.slot(ffi::Py_tp_getset, attributes.0.as_ptr().cast())
    }

    pub(crate) fn members<const N: usize>(self, members: &'static Table<ffi::PyMemberDef, N>) -> Self {
        self.slot(ffi::Py_tp_members, members.0.as_ptr().cast())
    }

    /// Make the type.
    ///
    /// # Safety
    ///
    /// Each function has the type of its slot and expects objects of the given size, and each table ends with zeros.
    pub(crate) unsafe fn build(self, py: Python<'_>) -> PyResult<Bound<'_, PyType>> {
        let mut slots = self.slot(0, null_mut());
        let mut spec = ffi::PyType_Spec {
            name: slots.name.as_ptr(),
            basicsize: slots.size as c_int,
            itemsize: 0,
            flags: slots.flags as _,
            slots: slots.slots.as_mut_ptr(),
        };
        // SAFETY: the specification is complete and ends with zeros, and the caller guarantees its functions.
        unsafe {
            let kind = ffi::PyType_FromSpec(&raw mut spec);
            Ok(Bound::from_owned_ptr_or_err(py, kind)?.cast_into_unchecked())
        }
    }
}

/// A type that is made or looked up once, and never freed; null before that.
pub(crate) struct KnownType(AtomicPtr<ffi::PyTypeObject>);

impl KnownType {
    pub(crate) const fn new() -> Self {
        Self(AtomicPtr::new(null_mut()))
    }

    #[inline]
    pub(crate) fn get(&self) -> *mut ffi::PyTypeObject {
        self.0.load(Ordering::Relaxed) // the caller holds the GIL, which orders this after `set`
    }

    pub(crate) fn set(&self, kind: &Bound<'_, PyType>) {
        self.0.store(kind.clone().into_ptr().cast(), Ordering::Relaxed);
    }

    /// True if an object is of exactly this type.
    #[inline]
    pub(crate) fn is_of(&self, object: &Bound<'_, PyAny>) -> bool {
        std::ptr::eq(object.get_type_ptr(), self.get())
    }
}
