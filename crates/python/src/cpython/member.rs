//! The offsets of slots (`__slots__`) in objects of a class.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyType;

/// Return the offset of the member `name` in an object of `class`; None if `class` itself has no such slot.
pub(crate) fn offset_of_member(class: &Bound<'_, PyType>, name: &str) -> PyResult<Option<usize>> {
    let Ok(member) = class.getattr("__dict__")?.get_item(name) else {
        return Ok(None);
    };
    if member.get_type().name()? != "member_descriptor" {
        return Ok(None);
    }
    // SAFETY: the type was checked, and its structure is public.
    let offset = unsafe { (*(*member.as_ptr().cast::<ffi::PyMemberDescrObject>()).d_member).offset };
    Ok(usize::try_from(offset).ok())
}
