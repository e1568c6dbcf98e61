//! `EventLoop.call_at` and `call_later`: the hot path, written with the C API.

use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::aio::event_loop::TimerLoop;
use crate::aio::handle::{self, layout, put, word};
use crate::aio::time::{deadline_of, seconds_of};
use crate::cpython::cell::guard;
use crate::cpython::fast_methods::{fast, FastMethods};
use crate::cpython::type_builder::Table;
use crate::once::intern;

unsafe extern "C" fn call_at(
    slf: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the descriptor of the method ensures that the interpreter calls it on a `TimerLoop`, with the arguments
    // that `count` and `names` describe.
    unsafe {
        guard(|py| {
            let arguments = Arguments::read(py, "call_at", "when", args, count as usize, names)?;
            set(Bound::ref_from_ptr(py, &slf).cast_unchecked(), arguments.time, &arguments)
        })
    }
}

unsafe extern "C" fn call_later(
    slf: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by the interpreter on a `TimerLoop`, with `count` arguments at `args`, and one more for each name.
    unsafe {
        guard(|py| {
            let arguments = Arguments::read(py, "call_later", "delay", args, count as usize, names)?;
            let slf = Bound::ref_from_ptr(py, &slf).cast_unchecked();
            let is_genuine = TimerLoop::is_call_at_genuine(slf)?;
            let delay = seconds_of(py, arguments.time, "delay")?;
            let is_plain = ffi::PyFloat_CheckExact(arguments.time) != 0 || ffi::PyLong_CheckExact(arguments.time) != 0;
            if is_genuine && is_plain {
                return file(slf, TimerLoop::now(slf)?.seconds() + delay, None, &arguments);
            }
            let when = slf.call_method0(intern!(py, "time"))?.add(delay)?;
            if is_genuine {
                return set(slf, when.as_ptr(), &arguments);
            }
            through_call_at(slf, when, &arguments)
        })
    }
}

/// Call an overridden or patched `call_at`, as asyncio's `call_later` does.
#[cold]
unsafe fn through_call_at(
    slf: &Bound<'_, TimerLoop>,
    when: Bound<'_, PyAny>,
    arguments: &Arguments<'_>,
) -> PyResult<*mut ffi::PyObject> {
    let py = slf.py();
    // SAFETY: the caller keeps the arguments alive during the call.
    unsafe {
        let rest = std::iter::once(arguments.callback).chain(arguments.rest.iter().copied());
        let words: Vec<_> = std::iter::once(when).chain(rest.map(|word| Bound::from_borrowed_ptr(py, word))).collect();
        let names = pyo3::types::PyDict::new(py);
        names.set_item(intern!(py, "context"), Bound::from_borrowed_ptr(py, arguments.context))?;
        Ok(slf.getattr(intern!(py, "call_at"))?.call(PyTuple::new(py, words)?, Some(&names))?.into_ptr())
    }
}

/// The arguments of `call_at(when, callback, *args, context=None)` and of `call_later`, borrowed.
struct Arguments<'a> {
    time: *mut ffi::PyObject,
    callback: *mut ffi::PyObject,
    rest: &'a [*mut ffi::PyObject],
    context: *mut ffi::PyObject,
}

impl<'a> Arguments<'a> {
    #[inline]
    unsafe fn read(
        py: Python<'_>,
        method: &str,
        name: &str,
        args: *const *mut ffi::PyObject,
        count: usize,
        names: *mut ffi::PyObject,
    ) -> PyResult<Self> {
        // SAFETY: the interpreter passes `count` arguments, and one more for each name.
        unsafe {
            let words: &'a [_] = if count == 0 { &[] } else { std::slice::from_raw_parts(args, count) };
            let mut found = Self {
                time: words.first().copied().unwrap_or(std::ptr::null_mut()),
                callback: words.get(1).copied().unwrap_or(std::ptr::null_mut()),
                rest: words.get(2..).unwrap_or(&[]),
                context: ffi::Py_None(),
            };
            if !names.is_null() {
                found.read_names(py, method, name, args.add(count), names)?;
            }
            if found.time.is_null() || found.callback.is_null() {
                let text = format!("{method}() misses an argument: pass {name} in seconds and a callback");
                return Err(PyTypeError::new_err(text));
            }
            if found.time == ffi::Py_None() {
                let text = format!("{name} is None: pass seconds as a number (inf means never)");
                return Err(PyTypeError::new_err(text));
            }
            Ok(found)
        }
    }

    #[cold]
    unsafe fn read_names(
        &mut self,
        py: Python<'_>,
        method: &str,
        time_name: &str,
        values: *const *mut ffi::PyObject,
        names: *mut ffi::PyObject,
    ) -> PyResult<()> {
        // SAFETY: the names of a call are a tuple.
        let names = unsafe { Borrowed::from_ptr(py, names).cast_unchecked::<PyTuple>() };
        for (at, name) in names.iter().enumerate() {
            // SAFETY: the values are adjacent, one for each name.
            let value = unsafe { *values.add(at) };
            let name = name.extract::<String>()?;
            let place = match name.as_str() {
                "context" => &mut self.context,
                "callback" if self.callback.is_null() => &mut self.callback,
                other if other == time_name && self.time.is_null() => &mut self.time,
                other => {
                    let text =
                        format!("{method}() got {other} as a keyword: it takes {time_name}, callback and context");
                    return Err(PyTypeError::new_err(text));
                }
            };
            *place = value;
        }
        Ok(())
    }
}

/// Set a timer for the instant `when`, a Python object. If `when` is an integer, the handle's `when()` returns it
/// unchanged.
unsafe fn set(
    slf: &Bound<'_, TimerLoop>,
    when: *mut ffi::PyObject,
    arguments: &Arguments<'_>,
) -> PyResult<*mut ffi::PyObject> {
    let py = slf.py();
    // SAFETY: the caller keeps `when` alive.
    unsafe {
        let seconds = seconds_of(py, when, "when")?;
        let is_integer = ffi::PyLong_Check(when) != 0;
        file(slf, seconds, is_integer.then(|| Borrowed::from_ptr(py, when)).as_deref(), arguments)
    }
}

/// Set a timer. This is the hot path of `call_at` and `call_later`.
#[inline]
unsafe fn file(
    slf: &Bound<'_, TimerLoop>,
    when: f64,
    given: Option<&Bound<'_, PyAny>>,
    arguments: &Arguments<'_>,
) -> PyResult<*mut ffi::PyObject> {
    let (py, this) = (slf.py(), slf.get());
    // SAFETY: the caller keeps the arguments alive during the call, and the handle takes references of its own.
    unsafe {
        let deadline = deadline_of(py, when)?;
        if this.state.with(py, |state| state.is_closed) {
            return Err(PyRuntimeError::new_err("Event loop is closed"));
        }
        let is_debug = this.is_debug();
        if is_debug {
            let callback = Borrowed::from_ptr(py, arguments.callback);
            slf.call_method1(intern!(py, "_check_timer"), (callback,))?;
        }
        let is_private = arguments.context == ffi::Py_None();
        let context = if is_private { ffi::PyContext_CopyCurrent() } else { ffi::Py_NewRef(arguments.context) };
        let context = Bound::from_owned_ptr_or_err(py, context)?;
        let args = tuple_of(py, arguments.rest)?;
        let handle = handle::new(py, slf.as_ptr(), when, arguments.callback, args, context, is_private)?;
        if let Some(given) = given {
            put(word(handle, layout().when), given.clone().into_ptr());
        }
        this.file(py, handle, deadline);
        let handle = Bound::from_owned_ptr(py, handle.cast());
        if is_debug {
            slf.call_method1(intern!(py, "_trace_timer"), (&handle,))?;
        }
        Ok(handle.into_ptr())
    }
}

unsafe fn tuple_of<'py>(py: Python<'py>, words: &[*mut ffi::PyObject]) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: a new tuple is filled before it is visible, and the empty tuple is shared.
    unsafe {
        let tuple = Bound::from_owned_ptr_or_err(py, ffi::PyTuple_New(words.len() as ffi::Py_ssize_t))?;
        for (at, &word) in words.iter().enumerate() {
            ffi::PyTuple_SET_ITEM(tuple.as_ptr(), at as ffi::Py_ssize_t, ffi::Py_NewRef(word));
        }
        Ok(tuple)
    }
}

static METHODS: FastMethods<2> = Table([
    fast(
        c"call_at",
        call_at,
        c"call_at($self, when, callback, *args, context=None)\n--\n\n\
            Call *callback* with *args* once the loop's time is *when*; O(1). A real `asyncio.TimerHandle` comes back.",
    ),
    fast(
        c"call_later",
        call_later,
        c"call_later($self, delay, callback, *args, context=None)\n--\n\n\
            Call *callback* with *args* in *delay* seconds of the loop's time; O(1).",
    ),
]);

/// Add the type to the module, with its methods `call_at` and `call_later`.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let kind = module.py().get_type::<TimerLoop>();
    METHODS.add_to(&kind)?;
    module.add("TimerLoop", kind)
}
