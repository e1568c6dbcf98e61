//! Ids in an `array.array("q")`, whose memory is filled directly.

use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use tickwheel_core::Id;

use crate::cpython::modules::ARRAY;
use crate::once::intern;

/// A new array, and the buffer through which its items are filled. No other code refers to the array.
pub(crate) struct IdArray<'py> {
    array: Bound<'py, PyAny>,
    /// `None` if the array is empty. An empty array has no memory, and its address may not be aligned for `i64`.
    buffer: Option<PyBuffer<i64>>,
}

impl<'py> IdArray<'py> {
    /// Return an array of `len` zeros.
    pub(crate) fn new(py: Python<'py>, len: usize) -> PyResult<Self> {
        let kind = ARRAY.get(py)?.getattr(intern!(py, "array"))?;
        let array = kind.call1(("q", [0]))?.mul(len)?;
        let buffer = if len == 0 { None } else { Some(PyBuffer::get(&array)?) };
        Ok(Self { array, buffer })
    }

    /// Return the items of the array, which the caller fills. This call runs no Python code.
    pub(crate) fn places(&mut self) -> &mut [i64] {
        let Some(buffer) = &self.buffer else {
            return &mut [];
        };
        // SAFETY: the buffer keeps the memory of the array in place, and the array has no other user.
        unsafe { std::slice::from_raw_parts_mut(buffer.buf_ptr().cast(), buffer.item_count()) }
    }

    /// Return the array, once it is filled.
    pub(crate) fn into_array(self) -> Bound<'py, PyAny> {
        self.array
    }
}

/// Return an id as the number that Python sees.
pub(crate) fn number(id: Id) -> i64 {
    id.to_u64().cast_signed()
}
