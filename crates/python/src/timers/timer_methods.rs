//! The methods of `Timer`, and its type.

use std::ffi::{c_int, c_void, CStr};
use std::ptr::null_mut;

use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use tickwheel_core::NEVER;

use crate::clock::{seconds, to_ns};
use crate::cpython::cell::guard;
use crate::timers::engine::Engine;
use crate::timers::pending::parts;
use crate::timers::timer::{cancel, dealloc, set_type, TimerObject, CANCELLED, FIRED, FIRING};

unsafe fn this<'a>(object: *mut ffi::PyObject) -> &'a mut TimerObject {
    // SAFETY: the type's methods are called on its own objects; no reference lives across a call into Python.
    unsafe { &mut *object.cast::<TimerObject>() }
}

fn truth(value: bool) -> *mut ffi::PyObject {
    // SAFETY: both are immortal, or counted up here.
    unsafe { ffi::PyBool_FromLong(value.into()) }
}

unsafe extern "C" fn method_cancel(object: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: called by the interpreter, as every function of this table.
    unsafe { guard(|py| Ok(truth(cancel(py, object.cast())))) }
}

unsafe extern "C" fn method_cancelled(object: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: as above.
    unsafe { guard(|_| Ok(truth(this(object).id == CANCELLED))) }
}

unsafe extern "C" fn method_pending(object: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: as above.
    unsafe { guard(|_| Ok(truth(this(object).is_pending()))) }
}

unsafe extern "C" fn method_when(object: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: as above.
    unsafe { guard(|_| Ok(ffi::PyFloat_FromDouble(seconds(this(object).deadline)))) }
}

unsafe extern "C" fn method_reschedule(object: *mut ffi::PyObject, when: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: as above.
    unsafe {
        guard(|py| {
            let deadline = to_ns(py, when, "when")?;
            shift(py, object.cast(), |_| Ok(deadline))
        })
    }
}

unsafe extern "C" fn method_restart(object: *mut ffi::PyObject, delay: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: as above.
    unsafe {
        guard(|py| {
            let delay = to_ns(py, delay, "delay")?;
            shift(py, object.cast(), |engine| Ok(engine.now(py)?.saturating_add(delay).min(NEVER)))
        })
    }
}

/// Move a timer, or begin a new life of one that is firing.
#[inline]
unsafe fn shift(
    py: Python<'_>,
    timer: *mut TimerObject,
    deadline: impl FnOnce(&Engine) -> PyResult<u64>,
) -> PyResult<*mut ffi::PyObject> {
    // SAFETY: the engine is kept alive by a reference of our own while Python may run; what the clock or `on_earlier` does to the timer
    // is seen afterwards, since its state is read again inside of `Engine::shift`.
    unsafe {
        if (*timer).engine_pointer().is_null() {
            return Ok(truth(false));
        }
        let engine = (*timer).engine(py).to_owned();
        let deadline = deadline(engine.get())?;
        Ok(truth(engine.get().shift(py, timer, deadline)?))
    }
}

unsafe extern "C" fn method_run(object: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: as above; the caller of a method holds a reference to its object.
    unsafe {
        guard(|py| {
            let timer = object.cast::<TimerObject>();
            if (*timer).id != FIRING {
                return Ok(py.None().into_ptr());
            }
            let engine = (*timer).engine(py).to_owned();
            let result = TimerObject::fire(py, timer, engine.get());
            if result.is_null() {
                let timer = Bound::from_borrowed_ptr(py, object);
                engine.get().report(py, PyErr::fetch(py), &timer)?;
                return Ok(py.None().into_ptr());
            }
            Ok(result)
        })
    }
}

unsafe extern "C" fn repr(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: as above.
    unsafe {
        guard(|py| {
            let state = match this(object).id {
                FIRING => "firing",
                FIRED => "fired",
                CANCELLED => "cancelled",
                _ => "pending",
            };
            let when = seconds(this(object).deadline);
            let callback = Bound::from_owned_ptr(py, given(py, object, 0)?);
            let what = if callback.is_none() { String::new() } else { format!(" {}", callback.repr()?) };
            let text = format!("<Timer {state} when={when}{what}>");
            Ok(text.into_pyobject(py)?.into_any().into_ptr())
        })
    }
}

/// The callback and the arguments that the user gave.
unsafe fn given(py: Python<'_>, object: *mut ffi::PyObject, at: usize) -> PyResult<*mut ffi::PyObject> {
    // SAFETY: as above; the caller of a getter holds a reference to its object.
    let parts = unsafe { parts(py, object.cast()) }?;
    let given = py.import(intern!(py, "tickwheel.timers._standin"))?.call_method1(intern!(py, "given"), parts)?;
    Ok(given.get_item(at)?.unbind().into_ptr())
}

unsafe extern "C" fn get_callback(object: *mut ffi::PyObject, _: *mut c_void) -> *mut ffi::PyObject {
    // SAFETY: as above.
    unsafe { guard(|py| given(py, object, 0)) }
}

unsafe extern "C" fn get_args(object: *mut ffi::PyObject, _: *mut c_void) -> *mut ffi::PyObject {
    // SAFETY: as above.
    unsafe { guard(|py| given(py, object, 1)) }
}

/// As `Methods`.
struct Getters([ffi::PyGetSetDef; 3]);

// SAFETY: never written.
unsafe impl Sync for Getters {}

const fn getter(name: &'static CStr, get: ffi::getter, doc: &'static CStr) -> ffi::PyGetSetDef {
    ffi::PyGetSetDef { name: name.as_ptr(), get: Some(get), set: None, doc: doc.as_ptr(), closure: null_mut() }
}

static GETTERS: Getters = Getters([
    getter(c"callback", get_callback, c"What it calls, as the user gave it; None once it never will again."),
    getter(c"args", get_args, c"With which arguments; none once it never will again."),
    getter_end(),
]);

const fn getter_end() -> ffi::PyGetSetDef {
    ffi::PyGetSetDef { name: std::ptr::null(), get: None, set: None, doc: std::ptr::null(), closure: null_mut() }
}

const fn method(name: &'static CStr, function: ffi::PyCFunction, flags: c_int, doc: &'static CStr) -> ffi::PyMethodDef {
    ffi::PyMethodDef {
        ml_name: name.as_ptr(),
        ml_meth: ffi::PyMethodDefPointer { PyCFunction: function },
        ml_flags: flags,
        ml_doc: doc.as_ptr(),
    }
}

/// The table lives as long as the type does: for ever.
struct Methods([ffi::PyMethodDef; 8]);

// SAFETY: never written.
unsafe impl Sync for Methods {}

static METHODS: Methods = Methods([
    method(
        c"cancel",
        method_cancel,
        ffi::METH_NOARGS,
        c"cancel($self, /)\n--\n\nEnd this timer; return True if it will never run because of this call.\n\n\
          False: it has fired, is firing, or was cancelled before. Never raises. O(1), from any thread.",
    ),
    method(
        c"cancelled",
        method_cancelled,
        ffi::METH_NOARGS,
        c"cancelled($self, /)\n--\n\nReturn whether the timer was cancelled: by its handle, in bulk, or by drain or close.",
    ),
    method(
        c"pending",
        method_pending,
        ffi::METH_NOARGS,
        c"pending($self, /)\n--\n\nReturn whether the timer is still going to fire.",
    ),
    method(
        c"when",
        method_when,
        ffi::METH_NOARGS,
        c"when($self, /)\n--\n\nReturn the deadline in seconds of the wheel's clock; inf for never. Survives both ends.",
    ),
    method(
        c"reschedule",
        method_reschedule,
        ffi::METH_O,
        c"reschedule($self, when, /)\n--\n\nMove this timer to *when*, in seconds of the wheel's clock.\n\n\
          O(1), one write when the deadline moves later. While the timer fires this begins a new life of it.\n\n\
          Returns whether it is now going to fire at *when*; False if it had fired or been cancelled.\n\
          Raises InvalidDelayError if *when* is NaN.",
    ),
    method(
        c"restart",
        method_restart,
        ffi::METH_O,
        c"restart($self, delay, /)\n--\n\nMove this timer to *delay* seconds from now; otherwise as `reschedule`.",
    ),
    method(
        c"run",
        method_run,
        ffi::METH_NOARGS,
        c"run($self, /)\n--\n\nCall the callback of a timer that is due, and return what it returns: for executors, once for each timer.\n\n\
          What it raises goes to the engine's on_error if it is an Exception, and leaves this call otherwise.",
    ),
    ffi::PyMethodDef::zeroed(),
]);

/// Make the type and put it into the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let slot = |slot: c_int, pointer: *mut c_void| ffi::PyType_Slot { slot, pfunc: pointer };
    let doc = c"A handle on one timer; `call_at` and `call_later` make it.\n\n\
                All methods may be called from any thread, at any time, also after the end. None runs the callback, but `run`.";
    let mut slots = [
        slot(ffi::Py_tp_dealloc, dealloc as *mut c_void),
        slot(ffi::Py_tp_repr, repr as *mut c_void),
        slot(ffi::Py_tp_methods, METHODS.0.as_ptr().cast_mut().cast()),
        slot(ffi::Py_tp_getset, GETTERS.0.as_ptr().cast_mut().cast()),
        slot(ffi::Py_tp_doc, doc.as_ptr().cast_mut().cast()),
        slot(0, null_mut()),
    ];
    let flags = ffi::Py_TPFLAGS_DEFAULT | ffi::Py_TPFLAGS_DISALLOW_INSTANTIATION | ffi::Py_TPFLAGS_IMMUTABLETYPE;
    let mut spec = ffi::PyType_Spec {
        name: c"tickwheel._core.Timer".as_ptr(),
        basicsize: size_of::<TimerObject>() as c_int,
        itemsize: 0,
        flags: flags as _,
        slots: slots.as_mut_ptr(),
    };
    // SAFETY: the spec is complete; the module's import holds the GIL and happens once.
    unsafe {
        let kind = ffi::PyType_FromSpec(&raw mut spec);
        if kind.is_null() {
            return Err(PyErr::fetch(module.py()));
        }
        set_type(kind.cast());
        module.add("Timer", Bound::from_borrowed_ptr(module.py(), kind))
    }
}
