//! Converts one number or time of any type to nanoseconds.

use std::sync::atomic::{AtomicU32, Ordering};

use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyComplex, PyDelta, PyDeltaAccess, PyString};
use tickwheel_core::NEVER;

use crate::clock::conversion::{by_float, by_index, int, is_text, not_a_number, refusal};
use crate::clock::number::{least_ns, Number, NS_PER_S, USUAL};
use crate::clock::numpy::{self, Found};
use crate::once::intern;

/// Whole seconds whose nanoseconds a float represents exactly.
const EXACT: std::ops::RangeInclusive<i64> = 0..=(1 << 53) / NS_PER_S as i64;

/// Return the nanoseconds of a delay or an instant in seconds. A negative value becomes zero, and `NEVER` means
/// all values from 292 years on.
///
/// # Safety
///
/// The GIL is held and `value` points to a living object.
#[inline]
pub(crate) unsafe fn to_ns(py: Python<'_>, value: *mut ffi::PyObject, name: &str) -> PyResult<u64> {
    // SAFETY: the type of an exact float or int is checked before it is read.
    unsafe {
        if ffi::PyFloat_CheckExact(value) != 0 {
            let value = ffi::PyFloat_AS_DOUBLE(value);
            if USUAL.contains(&value) {
                return Ok(least_ns(value));
            }
        } else if ffi::PyLong_CheckExact(value) != 0 {
            let mut overflow = 0;
            let value = ffi::PyLong_AsLongLongAndOverflow(value, &raw mut overflow);
            if overflow == 0 && EXACT.contains(&value) {
                return Ok(value.cast_unsigned() * NS_PER_S);
            }
        }
        read(&Borrowed::from_ptr(py, value), name).map(Number::deadline)
    }
}

/// Read a number or a time; `name` is used in the error.
///
/// # Errors
///
/// InvalidDelayError if the value is NaN or NaT, TypeError if it is not a length of time, or the error that the value's
/// own conversion raises.
#[inline(never)]
pub(crate) fn read(value: &Bound<'_, PyAny>, name: &str) -> PyResult<Number> {
    let object = value.as_ptr();
    // SAFETY: the type of the object is checked before it is read, and a subclass has the layout of its base.
    unsafe {
        if ffi::PyFloat_Check(object) != 0 {
            let float = ffi::PyFloat_AS_DOUBLE(object);
            return if float.is_nan() { Err(not_a_number(value, name)) } else { Ok(Number::Float(float)) };
        }
        if ffi::PyLong_Check(object) != 0 {
            return Ok(int(object));
        }
    }
    if let Ok(delta) = value.cast::<PyDelta>() {
        if delta.cast_exact::<PyDelta>().is_err() && may_count_ns(value) {
            // A Timedelta of pandas is a timedelta that also has nanoseconds.
            let fine = value.getattr(intern!(value.py(), "asm8"))?;
            if numpy::is_timedelta(&fine) {
                return read(&fine, name);
            }
        }
        return Ok(timedelta(delta));
    }
    match numpy::read(value, name)? {
        Found::Number(number) => Ok(number),
        Found::Item(item) => read(&item, name),
        Found::Foreign => foreign(value, name),
    }
}

/// The version tag of the last timedelta class that was found not to count nanoseconds, or 0. Version tags are
/// unique, and the interpreter assigns a new tag whenever a class changes.
static PLAIN: AtomicU32 = AtomicU32::new(0);

/// True if a timedelta may count nanoseconds, as those of pandas do. This is recognised by the attribute `asm8` of its
/// class.
#[inline]
fn may_count_ns(value: &Bound<'_, PyAny>) -> bool {
    // SAFETY: a living object has a type.
    let version = unsafe { (*value.get_type_ptr()).tp_version_tag };
    (version == 0 || version != PLAIN.load(Ordering::Relaxed)) && look(value)
}

#[cold]
fn look(value: &Bound<'_, PyAny>) -> bool {
    let kind = value.get_type();
    let has_units = kind.hasattr(intern!(value.py(), "asm8")).unwrap_or(false);
    if !has_units {
        // SAFETY: the type is alive, and has a version tag by now.
        PLAIN.store(unsafe { (*kind.as_type_ptr()).tp_version_tag }, Ordering::Relaxed);
    }
    has_units
}

fn timedelta(delta: &Bound<'_, PyDelta>) -> Number {
    let whole = i128::from(delta.get_days()) * 86_400 + i128::from(delta.get_seconds());
    let us = whole * 1_000_000 + i128::from(delta.get_microseconds());
    Number::exact(us * 1_000, || us as f64 / 1e6)
}

/// Read a number of another library. The conversion is exact if the number has `as_integer_ratio` or `__index__`;
/// otherwise `__float__` is called.
#[cold]
fn foreign(value: &Bound<'_, PyAny>, name: &str) -> PyResult<Number> {
    let py = value.py();
    if is_text(value) || value.is_instance_of::<PyComplex>() || has_dimensions_or_unit(value) {
        return Err(refusal(value, name));
    }
    // SAFETY: a living object has a type, whose table of number methods exists or is null.
    let (has_index, has_float) = unsafe {
        (*ffi::Py_TYPE(value.as_ptr()))
            .tp_as_number
            .as_ref()
            .map_or((false, false), |table| (table.nb_index.is_some(), table.nb_float.is_some()))
    };
    if has_index {
        match by_index(value) {
            Err(error) if has_float && error.is_instance_of::<PyTypeError>(py) => {} // a tensor of some dtypes
            outcome => return outcome,
        }
    }
    if !has_float {
        let is_nan = value.ne(value).unwrap_or(false); // true for pandas' NaT
        return Err(if is_nan { not_a_number(value, name) } else { refusal(value, name) });
    }
    let float = match by_float(value) {
        Err(error) if error.is_instance_of::<PyOverflowError>(py) => {
            return Ok(Number::Ns(if value.gt(0)? { NEVER.cast_signed() } else { -NEVER.cast_signed() }));
        }
        Err(error) if error.is_instance_of::<PyValueError>(py) && is_signalling_nan(value) => f64::NAN,
        Err(error) if error.is_instance_of::<PyTypeError>(py) => {
            let refused = refusal(value, name);
            refused.set_cause(py, Some(error));
            return Err(refused);
        }
        outcome => outcome?,
    };
    if float.is_nan() {
        return Err(not_a_number(value, name));
    }
    if float.is_infinite() {
        return Ok(Number::Float(float));
    }
    let Some(ratio) = value.getattr_opt(intern!(py, "as_integer_ratio"))? else {
        return Ok(Number::Float(float));
    };
    if float.abs() < f64::MIN_POSITIVE {
        // The number is smaller than any float, and its ratio may have a billion digits.
        return Ok(Number::Ns(i64::from(value.gt(0)?) - i64::from(value.lt(0)?)));
    }
    let (numerator, denominator): (Bound<'_, PyAny>, Bound<'_, PyAny>) = ratio.call0()?.extract()?;
    let scaled = numerator.abs()?.mul(NS_PER_S)?;
    let ns: i64 = scaled.neg()?.floor_div(denominator)?.neg()?.extract().unwrap_or(NEVER.cast_signed());
    Ok(Number::exact(if float < 0.0 { -i128::from(ns) } else { ns.into() }, || float))
}

/// True if an array of another library has several items, or items that are not plain numbers, such as times, text or
/// complex numbers.
fn has_dimensions_or_unit(value: &Bound<'_, PyAny>) -> bool {
    let py = value.py();
    if attribute(value, intern!(py, "ndim")).is_some_and(|count| !count.eq(0).unwrap_or(true)) {
        return true;
    }
    let kind = attribute(value, intern!(py, "dtype")).and_then(|dtype| attribute(&dtype, intern!(py, "kind")));
    kind.and_then(|kind| kind.extract::<char>().ok()).is_some_and(|kind| !"biuf".contains(kind))
}

fn attribute<'py>(object: &Bound<'py, PyAny>, name: &Bound<'py, PyString>) -> Option<Bound<'py, PyAny>> {
    object.getattr_opt(name).ok().flatten()
}

/// True if a value is a single number or time.
pub(crate) fn is_one(value: &Bound<'_, PyAny>) -> bool {
    let (py, object) = (value.py(), value.as_ptr());
    // SAFETY: any object has a type with these slots.
    let is_sequence = unsafe {
        if ffi::PyFloat_Check(object) != 0 || ffi::PyLong_Check(object) != 0 {
            return true;
        }
        (*ffi::Py_TYPE(object)).tp_iter.is_some() || ffi::PySequence_Check(object) != 0
    };
    let has_no_dimension =
        || matches!(value.getattr_opt(intern!(py, "ndim")), Ok(Some(count)) if count.eq(0).unwrap_or(false));
    !is_sequence || is_text(value) || has_no_dimension()
}

/// True if a value is a NaN that cannot become a float, which is a signalling NaN of a Decimal.
fn is_signalling_nan(value: &Bound<'_, PyAny>) -> bool {
    let answer = value.call_method0(intern!(value.py(), "is_nan")).and_then(|answer| answer.is_truthy());
    answer.unwrap_or(false)
}
