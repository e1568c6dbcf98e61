//! Converts many numbers in one call: a buffer is read by its format, and any other object item by item.
//!
//! If the format of a buffer is unknown (long doubles, objects, records, text), the object is iterated over, and each
//! item is converted by its own type. The same applies to an array of a NumPy subclass, which may be masked or have a
//! unit.

use std::ffi::CStr;

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::clock::conversion::{is_text, not_a_number, refusal, shown};
use crate::clock::number::{least_ns, Number, USUAL};
use crate::clock::numpy::{self, Resolution};
use crate::clock::scalar::{self, to_ns};
use crate::once::intern;

/// The type of an item of a buffer.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Bool,
    Signed,
    Unsigned,
    Float,
}

/// The format of a buffer's items.
#[derive(Clone, Copy, Debug)]
struct Format {
    kind: Kind,
    size: usize,
    is_big: bool,
}

impl Format {
    /// Parse a format of the `struct` module with a single item. The size is taken from the buffer, because ctypes uses
    /// `<l` for eight bytes.
    fn of(text: &[u8], size: usize) -> Option<Self> {
        let (is_big, code) = match text {
            [b'>' | b'!', code] => (true, *code),
            [b'<', code] => (false, *code),
            [b'@' | b'=', code] | [code] => (cfg!(target_endian = "big"), *code),
            _ => return None,
        };
        let (kind, sizes): (_, &[usize]) = match code {
            b'?' => (Kind::Bool, &[1]),
            b'b' => (Kind::Signed, &[1]),
            b'B' => (Kind::Unsigned, &[1]),
            b'h' | b'i' | b'l' | b'q' | b'n' => (Kind::Signed, &[2, 4, 8]),
            b'H' | b'I' | b'L' | b'Q' | b'N' => (Kind::Unsigned, &[2, 4, 8]),
            b'e' => (Kind::Float, &[2]),
            b'f' => (Kind::Float, &[4]),
            b'd' => (Kind::Float, &[8]),
            _ => return None,
        };
        sizes.contains(&size).then_some(Self { kind, size, is_big })
    }

    /// Return the bits of an item as an unsigned integer.
    #[inline]
    fn bits(self, item: &[u8]) -> u64 {
        let mut bytes = [0; 8];
        bytes[..self.size].copy_from_slice(item);
        if self.is_big {
            bytes[..self.size].reverse();
        }
        u64::from_le_bytes(bytes)
    }

    /// Return the value of an item that is an integer.
    fn integer(self, item: &[u8]) -> i128 {
        let (bits, unused) = (self.bits(item), 64 - 8 * self.size);
        match self.kind {
            Kind::Signed => ((bits << unused).cast_signed() >> unused).into(),
            Kind::Bool => (bits != 0).into(),
            Kind::Unsigned | Kind::Float => bits.into(),
        }
    }

    #[inline]
    fn float(self, item: &[u8]) -> f64 {
        let bits = self.bits(item);
        match self.size {
            8 => f64::from_bits(bits),
            4 => f32::from_bits(bits as u32).into(),
            _ => half(bits as u16),
        }
    }
}

/// Return the value of a float of 16 bits.
fn half(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1F), f64::from(bits & 0x3FF));
    let size = match exponent {
        0 => fraction * 2_f64.powi(-24),
        0x1F if fraction == 0.0 => f64::INFINITY,
        0x1F => f64::NAN,
        _ => (1024.0 + fraction) * 2_f64.powi(exponent - 25),
    };
    if bits >> 15 == 0 {
        size
    } else {
        -size
    }
}

/// A buffer of numbers, which is released when this is dropped.
struct Held(Box<ffi::Py_buffer>, Format);

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: the buffer was acquired, and the GIL is held.
        unsafe { ffi::PyBuffer_Release(&raw mut *self.0) }
    }
}

impl Held {
    /// Return the buffer of an object with numbers, or None if its items have to be read one by one.
    fn of(values: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let py = values.py();
        let mut view = Box::new(ffi::Py_buffer::new());
        // SAFETY: an acquired buffer is released when the result is dropped, at the latest. Its format is text, or null
        // for bytes.
        unsafe {
            if ffi::PyObject_GetBuffer(values.as_ptr(), &raw mut *view, ffi::PyBUF_FULL_RO) != 0 {
                drop(PyErr::take(py)); // a dtype without a buffer, so its items are read
                return Ok(None);
            }
            let text = if view.format.is_null() { c"B" } else { CStr::from_ptr(view.format) };
            let Some(format) = Format::of(text.to_bytes(), view.itemsize as usize) else {
                ffi::PyBuffer_Release(&raw mut *view);
                return Ok(None);
            };
            let held = Self(view, format);
            if held.0.ndim != 1 {
                let text = format!("{} has {} dimensions: pass an array of one dimension", shown(values), held.0.ndim);
                return Err(PyTypeError::new_err(text));
            }
            Ok(Some(held))
        }
    }

    /// Pass the items to `read` in order, copied if they are not contiguous in memory.
    fn read<R>(&self, py: Python<'_>, read: impl FnOnce(Format, &[u8]) -> R) -> PyResult<R> {
        let (view, len) = (&*self.0, self.0.len as usize);
        // SAFETY: a contiguous buffer has `len` bytes and does not move while it is held, and reading runs no Python
        // code.
        unsafe {
            if len == 0 {
                return Ok(read(self.1, &[]));
            }
            let is_dense = view.strides.is_null() || *view.strides == view.itemsize;
            if is_dense && view.suboffsets.is_null() {
                return Ok(read(self.1, std::slice::from_raw_parts(view.buf.cast(), len)));
            }
            let mut copy = vec![0_u8; len];
            if ffi::PyBuffer_ToContiguous(copy.as_mut_ptr().cast(), view, view.len, b'C' as _) != 0 {
                return Err(PyErr::fetch(py));
            }
            Ok(read(self.1, &copy))
        }
    }
}

/// Return the buffer of `values`, or None if the items have to be read one by one. For a NumPy array of timedeltas,
/// also return the length of its ticks.
fn buffer_of(values: &Bound<'_, PyAny>, name: &str) -> PyResult<Option<(Held, Option<Resolution>)>> {
    let py = values.py();
    match numpy::is_plain_array(values) {
        Some(false) => return Ok(None), // the array may be masked or have a unit
        Some(true) => {
            let dtype = values.getattr(intern!(py, "dtype"))?;
            match dtype.getattr(intern!(py, "kind"))?.extract::<char>()? {
                'm' => {
                    let integers = format!("{}i8", dtype.getattr(intern!(py, "byteorder"))?.extract::<char>()?);
                    let ticks = values.call_method1(intern!(py, "view"), (integers,))?;
                    return Ok(Held::of(&ticks)?.zip(Some(numpy::resolution(values)?)));
                }
                'M' | 'c' => return Err(refusal(values, name)),
                _ => {}
            }
        }
        None => {}
    }
    Ok(Held::of(values)?.map(|held| (held, None)))
}

/// Return many delays in nanoseconds. All delays are read before any timer is set.
pub(crate) fn all_ns(values: &Bound<'_, PyAny>, several: &str, name: &str) -> PyResult<Vec<u64>> {
    let py = values.py();
    if is_text(values) {
        let text = format!("{several} is {}: pass numbers of seconds, one for each timer", shown(values));
        return Err(PyTypeError::new_err(text));
    }
    if let Ok(list) = values.cast_exact::<PyList>() {
        // SAFETY: the iterator holds a reference to each item while it is read.
        return list.iter().map(|value| unsafe { to_ns(py, value.as_ptr(), name) }).collect();
    }
    if let Some((held, resolution)) = buffer_of(values, several)? {
        let numbers = held.read(py, |format, bytes| decode(format, resolution, bytes))?;
        return numbers.map_err(|place| wrong_item(values, place, name));
    }
    // SAFETY: we own a reference to each value while it is read.
    values.try_iter()?.map(|value| unsafe { to_ns(py, value?.as_ptr(), name) }).collect()
}

/// Decode the items of a buffer to nanoseconds; the error is the position of the first invalid item.
fn decode(format: Format, resolution: Option<Resolution>, bytes: &[u8]) -> Result<Vec<u64>, usize> {
    let items = bytes.chunks_exact(format.size).enumerate();
    if let Some(resolution) = resolution {
        let number = |(place, item)| match resolution.number(format.integer(item) as i64) {
            Ok(Some(number)) => Ok(number.deadline()),
            _ => Err(place),
        };
        return items.map(number).collect();
    }
    if format.kind != Kind::Float {
        let number = |(_, item)| i64::try_from(format.integer(item)).map_or(i64::MAX, |value| value);
        return Ok(items.map(number).map(|value| Number::whole(value).deadline()).collect());
    }
    let is_native = format.size == 8 && !format.is_big;
    let number = |(place, item): (usize, &[u8])| {
        let value = match item.try_into() {
            Ok(bytes) if is_native => f64::from_le_bytes(bytes),
            _ => format.float(item),
        };
        if USUAL.contains(&value) {
            return Ok(least_ns(value));
        }
        if value.is_nan() {
            return Err(place);
        }
        Ok(Number::Float(value).deadline())
    };
    items.map(number).collect()
}

/// Make the error for an item that is NaN, NaT or has no unit.
#[cold]
fn wrong_item(values: &Bound<'_, PyAny>, place: usize, name: &str) -> PyErr {
    let item = values.get_item(place);
    let error = item.and_then(|item| scalar::read(&item, name).map(|_| not_a_number(&item, name)));
    error.unwrap_or_else(|error| error)
}

/// Return the integers of a buffer of integers, or None for other objects. Integers beyond `i64` become 0, which is not
/// an id.
pub(crate) fn integers(values: &Bound<'_, PyAny>) -> PyResult<Option<Vec<i64>>> {
    if numpy::is_plain_array(values) == Some(false) || is_text(values) {
        return Ok(None);
    }
    match Held::of(values)? {
        Some(held) if matches!(held.1.kind, Kind::Signed | Kind::Unsigned) => held
            .read(values.py(), |format, bytes| {
                bytes.chunks_exact(format.size).map(|item| i64::try_from(format.integer(item)).unwrap_or(0)).collect()
            })
            .map(Some),
        _ => Ok(None),
    }
}
