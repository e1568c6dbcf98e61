//! What `async with` gets for `Timeout.__aenter__` and `__aexit__`: an object that is the bound method and its own awaitable.
//!
//! A method of the usual kind would be a new object for each, and so would the StopIteration that carries its answer: together they
//! cost as much as all the rest.

use std::ffi::{c_int, c_void};
use std::mem::{offset_of, replace, size_of};
use std::ptr::{addr_of_mut, null_mut};

use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;

use crate::aio::handle::put;
use crate::aio::timeout::TimeoutObject;
use crate::cpython::cell::guard;

/// Where a step is: what it was made for, then whether it was called.
#[derive(Clone, Copy, PartialEq)]
#[repr(u8)]
enum Stage {
    Enter,
    Exit,
    /// Called: awaiting it enters the timeout.
    Entering,
    /// Called, and the timeout was ended: awaiting it gives None.
    Exited,
    Over,
}

/// The layout of a step. Every field is touched with the GIL held only.
#[repr(C)]
struct StepObject {
    ob_base: ffi::PyObject,
    vectorcall: Option<ffi::vectorcallfunc>,
    timeout: *mut TimeoutObject,
    stage: Stage,
}

/// A descriptor: `Timeout.__aenter__` or `Timeout.__aexit__`.
#[repr(C)]
struct StepMaker {
    ob_base: ffi::PyObject,
    stage: Stage,
}

/// How many dead steps are kept for reuse.
const KEPT: usize = 256;

struct FreeList {
    steps: [*mut StepObject; KEPT],
    len: usize,
}

static mut TYPE: *mut ffi::PyTypeObject = null_mut();
static mut FREE: FreeList = FreeList { steps: [null_mut(); KEPT], len: 0 };
/// A StopIteration that is used again and again, as long as nobody keeps it.
static mut STOP: *mut ffi::PyStopIterationObject = null_mut();

/// `tp_descr_get` of a maker: a step of `timeout`; of the class itself, the maker.
unsafe extern "C" fn make(
    maker: *mut ffi::PyObject,
    timeout: *mut ffi::PyObject,
    _: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by the interpreter on a maker that stands in `Timeout` only; the free list holds dead steps of this very type.
    unsafe {
        if timeout.is_null() || timeout == ffi::Py_None() {
            return ffi::Py_NewRef(maker);
        }
        let free = &mut *addr_of_mut!(FREE);
        let step = if free.len > 0 {
            free.len -= 1;
            let step = free.steps[free.len];
            ffi::PyObject_Init(step.cast(), TYPE);
            step
        } else {
            ffi::PyObject_GC_New::<StepObject>(TYPE)
        };
        if !step.is_null() {
            (*step).vectorcall = Some(call);
            (*step).timeout = ffi::Py_NewRef(timeout).cast();
            (*step).stage = (*maker.cast::<StepMaker>()).stage;
            ffi::PyObject_GC_Track(step.cast());
        }
        step.cast()
    }
}

/// `__aenter__()` or `__aexit__(kind, error, traceback)`.
unsafe extern "C" fn call(
    step: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: usize,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by the interpreter on a step.
    unsafe {
        guard(|py| {
            let this = step.cast::<StepObject>();
            let count = ffi::PyVectorcall_NARGS(count);
            match (*this).stage {
                Stage::Enter if count == 0 && names.is_null() => (*this).stage = Stage::Entering,
                Stage::Exit if count == 3 && names.is_null() => {
                    forget((*this).timeout);
                    TimeoutObject::exit(py, (*this).timeout, *args, *args.add(1))?;
                    (*this).stage = Stage::Exited;
                }
                Stage::Enter => return Err(PyTypeError::new_err("__aenter__() takes no arguments")),
                Stage::Exit => {
                    let text = "__aexit__() takes three arguments: the type of an exception, itself and its traceback";
                    return Err(PyTypeError::new_err(text));
                }
                _ => {
                    return Err(PyRuntimeError::new_err("this method of a Timeout was called before: look it up anew"))
                }
            }
            Ok(ffi::Py_NewRef(step))
        })
    }
}

/// `tp_iternext`: there is nothing to wait for, so the first step is the last.
unsafe extern "C" fn next(step: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: as above. Null without an exception is StopIteration(None).
    unsafe {
        guard(|py| {
            let this = step.cast::<StepObject>();
            match replace(&mut (*this).stage, Stage::Over) {
                Stage::Exited => {}
                Stage::Entering => {
                    TimeoutObject::enter(py, (*this).timeout)?;
                    stop_with(py, (*this).timeout)?;
                }
                _ => return Err(PyRuntimeError::new_err("a Timeout's method was not called, or was awaited before")),
            }
            Ok(null_mut())
        })
    }
}

/// Set StopIteration(timeout).
#[inline]
#[allow(deprecated, reason = "PyErr_SetRaisedException is not in 3.11")]
unsafe fn stop_with(py: Python<'_>, timeout: *mut TimeoutObject) -> PyResult<()> {
    // SAFETY: an exception that nobody else has may be given another value.
    unsafe {
        if STOP.is_null() || ffi::Py_REFCNT(STOP.cast()) != 1 {
            let made = ffi::PyObject_CallNoArgs(ffi::PyExc_StopIteration);
            if made.is_null() {
                return Err(PyErr::fetch(py));
            }
            ffi::Py_XDECREF(replace(&mut *addr_of_mut!(STOP), made.cast()).cast());
        }
        put(&raw mut (*STOP).value, ffi::Py_NewRef(timeout.cast()));
        ffi::PyErr_Restore(ffi::Py_NewRef(ffi::PyExc_StopIteration), ffi::Py_NewRef(STOP.cast()), null_mut());
    }
    Ok(())
}

/// Do not keep `timeout` alive by the exception that carried it.
#[inline]
unsafe fn forget(timeout: *mut TimeoutObject) {
    // SAFETY: the exception is ours; the caller has a reference to the timeout.
    unsafe {
        if !STOP.is_null() && (*STOP).value == timeout.cast() {
            put(&raw mut (*STOP).value, ffi::Py_NewRef(ffi::Py_None()));
        }
    }
}

unsafe extern "C" fn traverse(object: *mut ffi::PyObject, visit: ffi::visitproc, arg: *mut c_void) -> c_int {
    // SAFETY: called by the collector on a step.
    unsafe {
        let answer = visit(ffi::Py_TYPE(object).cast(), arg);
        let timeout = (*object.cast::<StepObject>()).timeout;
        if answer != 0 || timeout.is_null() {
            return answer;
        }
        visit(timeout.cast(), arg)
    }
}

unsafe extern "C" fn dealloc(object: *mut ffi::PyObject) {
    // SAFETY: nobody refers to the step any more.
    unsafe {
        ffi::PyObject_GC_UnTrack(object.cast());
        let step = object.cast::<StepObject>();
        ffi::Py_DECREF(replace(&mut (*step).timeout, null_mut()).cast());
        let free = &mut *addr_of_mut!(FREE);
        if free.len < KEPT {
            free.steps[free.len] = step;
            free.len += 1;
        } else {
            ffi::PyObject_GC_Del(object.cast());
        }
        ffi::Py_DECREF(TYPE.cast());
    }
}

struct Members([ffi::PyMemberDef; 2]);

// SAFETY: never written.
unsafe impl Sync for Members {}

static MEMBERS: Members = Members([
    ffi::PyMemberDef {
        name: c"__vectorcalloffset__".as_ptr(),
        type_code: ffi::Py_T_PYSSIZET,
        offset: offset_of!(StepObject, vectorcall) as ffi::Py_ssize_t,
        flags: ffi::Py_READONLY,
        doc: std::ptr::null(),
    },
    // SAFETY: zeros end the table.
    unsafe { std::mem::zeroed() },
]);

fn slot(slot: c_int, pointer: *mut c_void) -> ffi::PyType_Slot {
    ffi::PyType_Slot { slot, pfunc: pointer }
}

fn type_of<'py>(
    py: Python<'py>,
    name: &'static std::ffi::CStr,
    size: usize,
    flags: std::ffi::c_ulong,
    slots: &mut [ffi::PyType_Slot],
) -> PyResult<Bound<'py, PyAny>> {
    let own = ffi::Py_TPFLAGS_DEFAULT | ffi::Py_TPFLAGS_DISALLOW_INSTANTIATION | ffi::Py_TPFLAGS_IMMUTABLETYPE;
    let mut spec = ffi::PyType_Spec {
        name: name.as_ptr(),
        basicsize: size as c_int,
        itemsize: 0,
        flags: (own | flags) as _,
        slots: slots.as_mut_ptr(),
    };
    // SAFETY: the spec is complete.
    unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyType_FromSpec(&raw mut spec)) }
}

/// The descriptors `__aenter__` and `__aexit__`; to be called once, by the module's import.
pub(crate) fn makers(py: Python<'_>) -> PyResult<[Bound<'_, PyAny>; 2]> {
    let mut step_slots = [
        slot(ffi::Py_tp_dealloc, dealloc as *mut c_void),
        slot(ffi::Py_tp_traverse, traverse as *mut c_void),
        slot(ffi::Py_tp_call, ffi::PyVectorcall_Call as *mut c_void),
        slot(ffi::Py_tp_members, MEMBERS.0.as_ptr().cast_mut().cast()),
        slot(ffi::Py_am_await, ffi::PyObject_SelfIter as *mut c_void),
        slot(ffi::Py_tp_iter, ffi::PyObject_SelfIter as *mut c_void),
        slot(ffi::Py_tp_iternext, next as *mut c_void),
        slot(0, null_mut()),
    ];
    let flags = ffi::Py_TPFLAGS_HAVE_GC | ffi::Py_TPFLAGS_HAVE_VECTORCALL;
    let step = type_of(py, c"tickwheel._core.TimeoutStep", size_of::<StepObject>(), flags, &mut step_slots)?;
    // SAFETY: the GIL is held; the type is kept for ever.
    unsafe { TYPE = step.into_ptr().cast() };
    let mut maker_slots = [slot(ffi::Py_tp_descr_get, make as *mut c_void), slot(0, null_mut())];
    let maker = type_of(py, c"tickwheel._core.TimeoutMethod", size_of::<StepMaker>(), 0, &mut maker_slots)?;
    let made = |stage| -> PyResult<Bound<'_, PyAny>> {
        // SAFETY: a fresh object of the type, which has no other field.
        unsafe {
            let object = ffi::PyType_GenericAlloc(maker.as_ptr().cast(), 0);
            let object = Bound::from_owned_ptr_or_err(py, object)?;
            (*object.as_ptr().cast::<StepMaker>()).stage = stage;
            Ok(object)
        }
    };
    Ok([made(Stage::Enter)?, made(Stage::Exit)?])
}
