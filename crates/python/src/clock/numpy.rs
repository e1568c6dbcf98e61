//! Reads NumPy's numbers and times by their types. This code never imports NumPy, because such values exist only if the
//! program has imported it.
//!
//! A `timedelta64` is read from its memory, because asking the object for its unit takes ten times as long. The layout
//! of the memory is that of `PyTimedeltaScalarObject` in NumPy's public headers. The layout is checked once, on a value
//! of each unit, before it is used.

use std::sync::OnceLock;

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::clock::conversion::{by_float, by_index, not_a_number, refusal, shown};
use crate::clock::number::Number;
use crate::once::intern;

/// The length of one tick of a NumPy unit: a number of nanoseconds, or a fraction of a nanosecond.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Unit {
    Ns(i64),
    /// Number of ticks in a nanosecond.
    PerNs(i64),
    /// A year or a month, whose length is not fixed.
    Calendar,
    /// The unit of a value for which no unit was given.
    Generic,
}

/// NumPy's names for its units.
const UNITS: [(&str, Unit); 14] = [
    ("generic", Unit::Generic),
    ("Y", Unit::Calendar),
    ("M", Unit::Calendar),
    ("W", Unit::Ns(604_800_000_000_000)),
    ("D", Unit::Ns(86_400_000_000_000)),
    ("h", Unit::Ns(3_600_000_000_000)),
    ("m", Unit::Ns(60_000_000_000)),
    ("s", Unit::Ns(1_000_000_000)),
    ("ms", Unit::Ns(1_000_000)),
    ("us", Unit::Ns(1_000)),
    ("ns", Unit::Ns(1)),
    ("ps", Unit::PerNs(1_000)),
    ("fs", Unit::PerNs(1_000_000)),
    ("as", Unit::PerNs(1_000_000_000)),
];

/// The length of one tick: a number of units.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Resolution {
    unit: Unit,
    count: i32,
}

impl Resolution {
    /// Read the resolution from the text of a dtype, such as `<m8[25s]`.
    fn of_text(text: &str) -> Option<Self> {
        let Some((_, unit)) = text.split_once('[') else {
            return Some(Self { unit: Unit::Generic, count: 1 });
        };
        let unit = unit.strip_suffix(']')?;
        let digits = unit.bytes().take_while(u8::is_ascii_digit).count();
        let count = if digits == 0 { 1 } else { unit[..digits].parse().ok()? };
        let (_, unit) = UNITS.into_iter().find(|(name, _)| *name == &unit[digits..])?;
        Some(Self { unit, count })
    }

    /// Return the nanoseconds of a number of ticks, or None for NaT. Years, months and ticks without a unit are
    /// refused.
    pub(super) fn number(self, ticks: i64) -> Result<Option<Number>, &'static str> {
        if ticks == i64::MIN {
            return Ok(None);
        }
        let count = i128::from(ticks) * i128::from(self.count);
        match self.unit {
            Unit::Ns(1) => Ok(Some(Number::exact(count, || count as f64 / 1e9))),
            Unit::Ns(length) => {
                let ns = count * i128::from(length);
                Ok(Some(Number::exact(ns, || (ns / 1_000) as f64 / 1e6)))
            }
            Unit::PerNs(parts) => {
                let parts = i128::from(parts);
                let up = (parts - 1) * count.signum();
                Ok(Some(Number::exact((count + up) / parts, || 0.0)))
            }
            Unit::Calendar => Err("years and months have no fixed length: pass days or seconds"),
            Unit::Generic => Err("it has no unit: pass one, as in numpy.timedelta64(5, \"s\")"),
        }
    }
}

/// The types of NumPy that are needed here.
struct Types {
    generic: Py<PyType>,
    integer: Py<PyType>,
    floating: Py<PyType>,
    bool_: Py<PyType>,
    timedelta: Py<PyType>,
    array: Py<PyType>,
    /// The units, indexed by the codes that NumPy uses for them. Empty if the memory layout is not as expected.
    codes: [Option<Unit>; 16],
}

static TYPES: OnceLock<Types> = OnceLock::new();

/// The first fields of a `numpy.timedelta64` in memory.
#[repr(C)]
struct TimedeltaObject {
    ob_base: ffi::PyObject,
    ticks: i64,
    code: u32,
    count: i32,
}

/// Return NumPy's types, or None before NumPy is imported.
#[inline]
fn types(py: Python<'_>) -> Option<&'static Types> {
    TYPES.get().or_else(|| find(py))
}

#[cold]
fn find(py: Python<'_>) -> Option<&'static Types> {
    let modules = py.import(intern!(py, "sys")).and_then(|sys| sys.getattr(intern!(py, "modules"))).ok()?;
    let numpy = modules.get_item(intern!(py, "numpy")).ok()?;
    let kind = |name| numpy.getattr(name).ok()?.cast_into::<PyType>().ok();
    let timedelta = kind("timedelta64")?;
    let found = Types {
        generic: kind("generic")?.unbind(),
        integer: kind("integer")?.unbind(),
        floating: kind("floating")?.unbind(),
        bool_: kind("bool_")?.unbind(),
        array: kind("ndarray")?.unbind(),
        codes: codes(&timedelta).unwrap_or_default(),
        timedelta: timedelta.unbind(),
    };
    Some(TYPES.get_or_init(|| found))
}

/// Make a value of each unit, and read its code from memory.
fn codes(kind: &Bound<'_, PyType>) -> Option<[Option<Unit>; 16]> {
    let size: usize = kind.getattr("__basicsize__").ok()?.extract().ok()?;
    if size < size_of::<TimedeltaObject>() {
        return None;
    }
    let mut codes = [None; 16];
    for (at, (name, unit)) in UNITS.into_iter().enumerate() {
        let (ticks, count) = (0x0123_4567_89AB + at as i64, if unit == Unit::Generic { 1 } else { 25 + at as i32 });
        let made = if unit == Unit::Generic { kind.call1((ticks,)) } else { kind.call1((ticks, (name, count))) };
        let made = made.ok()?;
        // SAFETY: an object of the type is at least as large as the part that is read.
        let seen = unsafe { &*made.as_ptr().cast::<TimedeltaObject>() };
        let place = codes.get_mut(seen.code as usize)?;
        if seen.ticks != ticks || seen.count != count || place.is_some() {
            return None;
        }
        *place = Some(unit);
    }
    Some(codes)
}

/// Return true if an object is a `numpy.timedelta64` or an instance of a subclass.
pub(super) fn is_timedelta(value: &Bound<'_, PyAny>) -> bool {
    types(value.py()).is_some_and(|types| is_sub(value, &types.timedelta))
}

/// Return whether an object is exactly a `numpy.ndarray`, and not of a subclass; None if it is not a NumPy array.
pub(super) fn is_plain_array(value: &Bound<'_, PyAny>) -> Option<bool> {
    let types = types(value.py())?;
    is_sub(value, &types.array).then(|| is_exact(value, &types.array))
}

#[inline]
fn is_exact(value: &Bound<'_, PyAny>, kind: &Py<PyType>) -> bool {
    std::ptr::eq(value.get_type_ptr().cast(), kind.as_ptr())
}

#[inline]
fn is_sub(value: &Bound<'_, PyAny>, kind: &Py<PyType>) -> bool {
    // SAFETY: both are types.
    unsafe { ffi::PyType_IsSubtype(value.get_type_ptr(), kind.as_ptr().cast()) != 0 }
}

/// The result of reading a value as a number or time of NumPy.
pub(super) enum Found<'py> {
    Number(Number),
    /// The value was an array, and this is its only item.
    Item(Bound<'py, PyAny>),
    /// The value is not from NumPy.
    Foreign,
}

/// Read a number or a time of NumPy.
#[inline]
pub(super) fn read<'py>(value: &Bound<'py, PyAny>, name: &str) -> PyResult<Found<'py>> {
    let Some(types) = types(value.py()) else { return Ok(Found::Foreign) };
    if is_exact(value, &types.timedelta) {
        // SAFETY: the layout of this object's type was checked.
        let seen = unsafe { &*value.as_ptr().cast::<TimedeltaObject>() };
        return match types.codes.get(seen.code as usize).copied().flatten() {
            Some(unit) => timedelta(value, Resolution { unit, count: seen.count }, seen.ticks, name).map(Found::Number),
            None => timedelta_slowly(value, name).map(Found::Number),
        };
    }
    if is_sub(value, &types.array) {
        let has_no_dimension = value.getattr(intern!(value.py(), "ndim"))?.eq(0)?;
        if !has_no_dimension || !is_exact(value, &types.array) {
            return Err(refusal(value, name)); // this includes masked values and values with a unit
        }
        return value.get_item(()).map(Found::Item);
    }
    if !is_sub(value, &types.generic) {
        return Ok(Found::Foreign);
    }
    if is_sub(value, &types.timedelta) {
        return timedelta_slowly(value, name).map(Found::Number);
    }
    if is_sub(value, &types.integer) {
        return by_index(value).map(Found::Number);
    }
    if is_exact(value, &types.bool_) {
        return Ok(Found::Number(Number::whole(value.is_truthy()?.into())));
    }
    if is_sub(value, &types.floating) {
        let float = by_float(value)?;
        if float.is_nan() {
            return Err(not_a_number(value, name));
        }
        // The nearest float of a long double may be smaller than the value; then the next float is taken.
        return Ok(Found::Number(Number::Float(if value.gt(float)? { float.next_up() } else { float })));
    }
    let is_nat = value.ne(value).unwrap_or(false);
    Err(if is_nat { not_a_number(value, name) } else { refusal(value, name) })
}

fn timedelta(value: &Bound<'_, PyAny>, resolution: Resolution, ticks: i64, name: &str) -> PyResult<Number> {
    match resolution.number(ticks) {
        Ok(Some(number)) => Ok(number),
        Ok(None) => Err(not_a_number(value, name)),
        Err(reason) => Err(PyTypeError::new_err(format!("{name} is {}, and {reason}", shown(value)))),
    }
}

/// Read a timedelta by its attributes and methods.
#[cold]
fn timedelta_slowly(value: &Bound<'_, PyAny>, name: &str) -> PyResult<Number> {
    let resolution = resolution(value)?.ok_or_else(|| refusal(value, name))?;
    let ticks = value.call_method1(intern!(value.py(), "view"), ("i8",))?.extract()?;
    timedelta(value, resolution, ticks, name)
}

/// Return the resolution of a scalar or an array of times.
pub(super) fn resolution(value: &Bound<'_, PyAny>) -> PyResult<Option<Resolution>> {
    let py = value.py();
    let text = value.getattr(intern!(py, "dtype"))?.getattr(intern!(py, "str"))?.extract::<String>()?;
    Ok(Resolution::of_text(&text))
}
