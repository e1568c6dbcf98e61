//! Methods that the interpreter calls as native functions. A wrapper that unpacks the arguments would alone take longer
//! than setting a timer.

use std::ffi::{c_int, CStr};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::cpython::type_builder::Table;

/// The flags of a function that reads its arguments, and their names, directly from the caller's array.
const NAMED: c_int = ffi::METH_FASTCALL | ffi::METH_KEYWORDS;

/// A table of functions. The last item of a type's table consists of zeros.
pub(crate) type FastMethods<const N: usize> = Table<ffi::PyMethodDef, N>;

/// Return the definition of a method, as an item for a table.
const fn method(
    name: &'static CStr,
    body: ffi::PyMethodDefPointer,
    flags: c_int,
    doc: &'static CStr,
) -> ffi::PyMethodDef {
    ffi::PyMethodDef { ml_name: name.as_ptr(), ml_meth: body, ml_flags: flags, ml_doc: doc.as_ptr() }
}

/// Return the definition of a method without arguments.
pub(crate) const fn plain(name: &'static CStr, body: ffi::PyCFunction, doc: &'static CStr) -> ffi::PyMethodDef {
    method(name, ffi::PyMethodDefPointer { PyCFunction: body }, ffi::METH_NOARGS, doc)
}

/// Return the definition of a method with one positional argument.
pub(crate) const fn of_one(name: &'static CStr, body: ffi::PyCFunction, doc: &'static CStr) -> ffi::PyMethodDef {
    method(name, ffi::PyMethodDefPointer { PyCFunction: body }, ffi::METH_O, doc)
}

/// Return the definition of a method on a hot path, which reads its arguments directly from the caller's array.
pub(crate) const fn fast(
    name: &'static CStr,
    body: ffi::PyCFunctionFastWithKeywords,
    doc: &'static CStr,
) -> ffi::PyMethodDef {
    method(name, ffi::PyMethodDefPointer { PyCFunctionFastWithKeywords: body }, NAMED, doc)
}

impl<const N: usize> FastMethods<N> {
    /// Add the methods to `kind`.
    pub(crate) fn add_to(&'static self, kind: &Bound<'_, PyType>) -> PyResult<()> {
        for (name, definition) in self.definitions() {
            // SAFETY: the table is static, and the interpreter only reads it.
            let descriptor = unsafe {
                let made = ffi::PyDescr_NewMethod(kind.as_type_ptr(), definition);
                Bound::from_owned_ptr_or_err(kind.py(), made)?
            };
            kind.setattr(name, descriptor)?;
        }
        Ok(())
    }

    /// Add the functions to `module`.
    pub(crate) fn add_to_module(&'static self, module: &Bound<'_, PyModule>) -> PyResult<()> {
        for (name, definition) in self.definitions() {
            // SAFETY: the interpreter keeps a pointer to the definition, which is static.
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
            // SAFETY: a name is a static string, and this is not called for the zeros at the end of a table.
            let name = unsafe { CStr::from_ptr(definition.ml_name) };
            (name.to_str().expect("names are ASCII"), std::ptr::from_ref(definition).cast_mut())
        })
    }
}
