//! Methods as the interpreter's own kind of function: no wrapper unpacks their arguments, which takes longer than a set.

use std::ffi::{c_int, CStr};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyType;

/// Flags of a function that gets its arguments where the caller has them, and their names.
const NAMED: c_int = ffi::METH_FASTCALL | ffi::METH_KEYWORDS;

/// A table of definitions, which the interpreter only reads, and for ever.
pub(crate) struct FastMethods<const N: usize>(pub(crate) [ffi::PyMethodDef; N]);

// SAFETY: never written.
unsafe impl<const N: usize> Sync for FastMethods<N> {}

/// Return a definition.
pub(crate) const fn method(
    name: &'static CStr,
    body: ffi::PyMethodDefPointer,
    flags: c_int,
    doc: &'static CStr,
) -> ffi::PyMethodDef {
    ffi::PyMethodDef { ml_name: name.as_ptr(), ml_meth: body, ml_flags: flags, ml_doc: doc.as_ptr() }
}

/// Return the definition of a method that is called millions of times a second.
pub(crate) const fn fast(
    name: &'static CStr,
    body: ffi::PyCFunctionFastWithKeywords,
    doc: &'static CStr,
) -> ffi::PyMethodDef {
    method(name, ffi::PyMethodDefPointer { PyCFunctionFastWithKeywords: body }, NAMED, doc)
}

impl<const N: usize> FastMethods<N> {
    /// Give `kind` the methods.
    pub(crate) fn add_to(&'static self, kind: &Bound<'_, PyType>) -> PyResult<()> {
        for (name, definition) in self.definitions() {
            // SAFETY: the table is static; the interpreter only reads it.
            let descriptor = unsafe {
                let made = ffi::PyDescr_NewMethod(kind.as_type_ptr(), definition);
                Bound::from_owned_ptr_or_err(kind.py(), made)?
            };
            kind.setattr(name, descriptor)?;
        }
        Ok(())
    }

    /// Give `module` them as functions.
    pub(crate) fn add_to_module(&'static self, module: &Bound<'_, PyModule>) -> PyResult<()> {
        for (name, definition) in self.definitions() {
            // SAFETY: as above.
            let function = unsafe {
                let made = ffi::PyCFunction_NewEx(definition, std::ptr::null_mut(), module.name()?.as_ptr());
                Bound::from_owned_ptr_or_err(module.py(), made)?
            };
            module.add(name, function)?;
        }
        Ok(())
    }

    fn definitions(&'static self) -> impl Iterator<Item = (&'static str, *mut ffi::PyMethodDef)> {
        self.0.iter().map(|definition| {
            // SAFETY: the name is static.
            let name = unsafe { CStr::from_ptr(definition.ml_name) };
            (name.to_str().expect("names are ASCII"), std::ptr::from_ref(definition).cast_mut())
        })
    }
}
