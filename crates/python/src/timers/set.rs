//! `Engine.call_at` and `Engine.call_later`: the hot path, written with the C API.

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use tickwheel_core::{coalesce, NEVER};

use crate::clock::to_ns;
use crate::cpython::call::Callback;
use crate::cpython::cell::guard;
use crate::cpython::fast_methods::{fast, FastMethods};
use crate::cpython::type_builder::Table;
use crate::timers::coroutine;
use crate::timers::engine::Engine;
use crate::timers::timer;

/// Run `call_later`, which is relative to now, or `call_at`.
unsafe extern "C" fn call<const FROM_NOW: bool>(
    slf: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the descriptor of the method ensures that the interpreter calls it on an `Engine`, with the arguments
    // that `count` and `names` describe.
    unsafe { guard(|py| set(py, slf, args, count as usize, names, FROM_NOW)) }
}

/// Set a timer. This is the hot path of `call_at` and `call_later`.
#[inline]
unsafe fn set(
    py: Python<'_>,
    slf: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: usize,
    names: *mut ffi::PyObject,
    from_now: bool,
) -> PyResult<*mut ffi::PyObject> {
    // SAFETY: the caller keeps the arguments alive during the call, and the wheel has its own reference to a timer.
    unsafe {
        let name = if from_now { "delay" } else { "when" };
        if count < 2 {
            return Err(too_few(name));
        }
        let words = std::slice::from_raw_parts(args, count);
        let value = to_ns(py, words[0], name)?;
        if ffi::PyCallable_Check(words[1]) == 0 {
            return Err(not_callable(py, words[1]));
        }
        let engine = Borrowed::from_ptr(py, slf).cast_unchecked::<Engine>().get();
        if !engine.awaits() {
            coroutine::check(py, words[1])?;
        }
        let options = if names.is_null() { Options::default() } else { Options::read(py, args.add(count), names)? };
        let deadline = if from_now { engine.now(py)?.saturating_add(value).min(NEVER) } else { value };
        let deadline = loosened(deadline, options.slack_ns);
        let call = match &options.context {
            None if engine.captures() => Callback::in_context(&current_context(py)?, &words[1..]),
            None => Callback::new(py, &words[1..]),
            Some(context) => Callback::in_context(context, &words[1..]),
        };
        let timer = timer::new(py, slf, call, deadline)?;
        let handle = Bound::from_owned_ptr(py, timer.cast());
        let is_earlier = engine.file(py, timer, deadline)?;
        ffi::Py_INCREF(timer.cast());
        if is_earlier {
            engine.wake(py)?;
        }
        Ok(handle.into_ptr())
    }
}

/// Return a deadline that is at most `slack` nanoseconds later, and below `NEVER`, so that several timers share a
/// wake-up.
#[inline]
pub(crate) fn loosened(deadline: u64, slack: u64) -> u64 {
    if slack > 0 && deadline < NEVER {
        coalesce(deadline, slack.min(NEVER - 1 - deadline))
    } else {
        deadline
    }
}

/// The keyword arguments of `call_at` and `call_later`.
#[derive(Default)]
struct Options<'py> {
    slack_ns: u64,
    context: Option<Bound<'py, PyAny>>,
}

impl<'py> Options<'py> {
    #[cold]
    unsafe fn read(py: Python<'py>, values: *const *mut ffi::PyObject, names: *mut ffi::PyObject) -> PyResult<Self> {
        // SAFETY: the interpreter passes as many values as names.
        let names = unsafe { Borrowed::from_ptr(py, names).cast_unchecked::<PyTuple>() };
        let mut options = Self::default();
        for (at, name) in names.iter().enumerate() {
            // SAFETY: the values are adjacent, one for each name, and the caller keeps them alive during the call.
            let value = unsafe { Borrowed::from_ptr(py, *values.add(at)) };
            match name.extract::<&str>()? {
                // SAFETY: `value` is an object that is borrowed from the caller.
                "slack" => options.slack_ns = unsafe { to_ns(py, value.as_ptr(), "slack") }?,
                "context" if value.is_none() => {}
                // SAFETY: any object has a type.
                "context" if unsafe { ffi::PyContext_CheckExact(value.as_ptr()) } != 0 => {
                    options.context = Some(value.to_owned());
                }
                "context" => {
                    let text = format!("context is {}: pass a contextvars.Context, or None", value.repr()?);
                    return Err(PyTypeError::new_err(text));
                }
                other => {
                    let text = format!("unknown keyword {other}: only slack= and context= are known");
                    return Err(PyTypeError::new_err(text));
                }
            }
        }
        Ok(options)
    }
}

pub(crate) fn current_context(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    // SAFETY: the call returns a new reference, or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyContext_CopyCurrent()) }
}

#[cold]
fn too_few(name: &str) -> PyErr {
    PyTypeError::new_err(format!("too few arguments: pass a {name} in seconds and a callback"))
}

#[cold]
fn not_callable(py: Python<'_>, object: *mut ffi::PyObject) -> PyErr {
    // SAFETY: the object is an argument of the call.
    let shown =
        unsafe { Borrowed::from_ptr(py, object) }.repr().map_or_else(|_| "an object".into(), |text| text.to_string());
    PyTypeError::new_err(format!("callback is {shown}: pass something that can be called"))
}

static METHODS: FastMethods<2> = Table([
    fast(
        c"call_at",
        call::<false>,
        c"call_at($self, when, callback, /, *args, slack=0.0, context=None)\n--\n\n\
            Call *callback* with *args* once the clock reads *when* seconds; see the protocol.",
    ),
    fast(
        c"call_later",
        call::<true>,
        c"call_later($self, delay, callback, /, *args, slack=0.0, context=None)\n--\n\n\
            Call *callback* with *args* in *delay* seconds; see the protocol.",
    ),
]);

/// Add the type to the module, with its methods `call_at` and `call_later`.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let kind = module.py().get_type::<Engine>();
    METHODS.add_to(&kind)?;
    module.add("Engine", kind)
}
