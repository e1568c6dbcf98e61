//! The methods `__aenter__` and `__aexit__` of `Timeout`, for `async with`.
//!
//! A lookup of one of them makes a `StepObject`. This object is called like a method, and the call returns the object
//! itself, which is then awaited. An ordinary method would make three objects: the bound method, its awaitable, and the
//! StopIteration with the result. Together they would cost as much as the rest of a timeout.

use std::ffi::{c_int, c_void};
use std::mem::{offset_of, replace, size_of};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use pyo3::Borrowed;

use crate::aio::handle::put;
use crate::aio::timeout_object::{self, TimeoutObject};
use crate::cpython::cell::guard;
use crate::cpython::free_list::FreeList;
use crate::cpython::type_builder::{KnownType, Table, TypeBuilder};

/// The state of a `StepObject`, which `async with` calls and then awaits. The first two states say which method was
/// looked up. The other states follow when the object is called and awaited.
#[derive(Clone, Copy, PartialEq)]
#[repr(u8)]
enum Stage {
    Enter,
    Exit,
    /// `__aenter__` was called. Awaiting the result enters the timeout.
    Entering,
    /// `__aexit__` was called, and the timeout has ended. Awaiting the result returns None.
    Exited,
    Over,
}

/// The object that a lookup of `__aenter__` or `__aexit__` on a `Timeout` returns. `async with` calls it, and then
/// awaits it. Its fields are accessed only with the GIL held.
#[repr(C)]
struct StepObject {
    ob_base: ffi::PyObject,
    vectorcall: Option<ffi::vectorcallfunc>,
    timeout: *mut TimeoutObject,
    /// The StopIteration that was raised with the timeout as its value; null before that.
    stop: *mut ffi::PyStopIterationObject,
    stage: Stage,
}

/// The descriptor `Timeout.__aenter__` or `Timeout.__aexit__`, which makes a `StepObject` for each lookup on a timeout.
#[repr(C)]
struct StepMaker {
    ob_base: ffi::PyObject,
    stage: Stage,
}

/// Maximum number of dead `StepObject`s that are kept for reuse.
const KEPT: usize = 256;

static TYPE: KnownType = KnownType::new();
static DEAD: FreeList<StepObject> = FreeList::new(KEPT);
/// A StopIteration that is kept for reuse, or null. An await of `__aenter__` takes it from here. Afterwards it is put
/// back, unless other code still refers to it.
static STOP: AtomicPtr<ffi::PyStopIterationObject> = AtomicPtr::new(null_mut());

/// `tp_descr_get`: return a new `StepObject` for `timeout`. If the lookup is on the class, `timeout` is null, and the
/// descriptor itself is returned.
unsafe extern "C" fn make(
    maker: *mut ffi::PyObject,
    timeout: *mut ffi::PyObject,
    _: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by the interpreter on a maker of `Timeout`. The free list holds dead steps of this type.
    unsafe {
        if timeout.is_null() || timeout == ffi::Py_None() {
            return ffi::Py_NewRef(maker);
        }
        guard(|py| {
            let step = DEAD.object(py, TYPE.get(), || ffi::PyObject_GC_New(TYPE.get()))?;
            (*step).vectorcall = Some(call);
            (*step).timeout = ffi::Py_NewRef(timeout).cast();
            (*step).stop = null_mut();
            (*step).stage = (*maker.cast::<StepMaker>()).stage;
            ffi::PyObject_GC_Track(step.cast());
            Ok(step.cast())
        })
    }
}

/// Call `Timeout.__aenter__(timeout)` or `Timeout.__aexit__(timeout, ...)`. `contextlib` looks up both methods on the
/// class.
unsafe extern "C" fn call_of_class(
    maker: *mut ffi::PyObject,
    args: *mut ffi::PyObject,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by the interpreter on a maker, with a tuple. We own the references that this call makes.
    unsafe {
        guard(|py| {
            let args = Borrowed::from_ptr(py, args).cast_unchecked::<PyTuple>();
            let timeout = args.get_borrowed_item(0).map_or(null_mut(), Borrowed::as_ptr);
            if timeout.is_null() || ffi::Py_TYPE(timeout) != timeout_object::TYPE.get() {
                return Err(PyTypeError::new_err("this method of the class takes a Timeout first"));
            }
            let step = Bound::from_owned_ptr_or_err(py, make(maker, timeout, null_mut()))?;
            let rest = args.get_slice(1, args.len());
            let called = ffi::PyObject_Call(step.as_ptr(), rest.as_ptr(), names);
            Ok(Bound::from_owned_ptr_or_err(py, called)?.into_ptr())
        })
    }
}

/// Call `__aenter__()` or `__aexit__(kind, error, traceback)`.
unsafe extern "C" fn call(
    step: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: usize,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by the interpreter on a step, which refers to its timeout, with `count` arguments at `args`.
    unsafe {
        guard(|py| {
            let this = step.cast::<StepObject>();
            let count = ffi::PyVectorcall_NARGS(count);
            match (*this).stage {
                Stage::Enter if count == 0 && names.is_null() => (*this).stage = Stage::Entering,
                Stage::Exit if count == 3 && names.is_null() => {
                    TimeoutObject::exit(py, (*this).timeout, *args, *args.add(1))?;
                    (*this).stage = Stage::Exited;
                }
                Stage::Enter => return Err(PyTypeError::new_err("__aenter__() takes no arguments")),
                Stage::Exit => {
                    let text = "__aexit__() takes three arguments: the type of an exception, itself and its traceback";
                    return Err(PyTypeError::new_err(text));
                }
                _ => {
                    return Err(PyRuntimeError::new_err("this method of a Timeout was called before: look it up again"))
                }
            }
            Ok(ffi::Py_NewRef(step))
        })
    }
}

/// Return the result of awaiting `__aenter__()` or `__aexit__(...)`, borrowed. The await never suspends.
#[inline]
unsafe fn awaited(py: Python<'_>, step: *mut ffi::PyObject) -> PyResult<*mut ffi::PyObject> {
    // SAFETY: the caller has a step, which refers to its timeout.
    unsafe {
        let this = step.cast::<StepObject>();
        match replace(&mut (*this).stage, Stage::Over) {
            Stage::Exited => Ok(ffi::Py_None()),
            Stage::Entering => {
                TimeoutObject::enter(py, (*this).timeout)?;
                Ok((*this).timeout.cast())
            }
            _ => Err(PyRuntimeError::new_err("a Timeout's method was not called, or was awaited before")),
        }
    }
}

/// `tp_iternext`: at the first call, end the await by raising StopIteration with the result.
unsafe extern "C" fn next(step: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: called by the interpreter on a step. Null without an exception means StopIteration(None).
    unsafe {
        guard(|py| {
            let given = awaited(py, step)?;
            if given != ffi::Py_None() {
                stop_with(py, step.cast(), given)?;
            }
            Ok(null_mut())
        })
    }
}

/// `am_send`: returns the result without an exception. Some versions of CPython, such as 3.11, call `am_send` instead
/// of `tp_iternext`.
unsafe extern "C" fn send(
    step: *mut ffi::PyObject,
    _: *mut ffi::PyObject,
    given: *mut *mut ffi::PyObject,
) -> ffi::PySendResult {
    // SAFETY: called by the interpreter on a step, with a place for the result.
    unsafe {
        *given = guard(|py| awaited(py, step).map(|given| ffi::Py_NewRef(given)));
        if (*given).is_null() {
            ffi::PySendResult::PYGEN_ERROR
        } else {
            ffi::PySendResult::PYGEN_RETURN
        }
    }
}

/// Raise StopIteration(timeout).
#[inline]
#[allow(deprecated, reason = "PyErr_SetRaisedException is not in 3.11")]
unsafe fn stop_with(py: Python<'_>, step: *mut StepObject, timeout: *mut ffi::PyObject) -> PyResult<()> {
    // SAFETY: an exception without other references may get another value, and a step raises it only once.
    unsafe {
        let mut raised = STOP.swap(null_mut(), Ordering::Relaxed);
        if raised.is_null() {
            raised = ffi::PyObject_CallNoArgs(ffi::PyExc_StopIteration).cast();
            if raised.is_null() {
                return Err(PyErr::fetch(py));
            }
        }
        put(&raw mut (*raised).value, ffi::Py_NewRef(timeout));
        (*step).stop = raised;
        ffi::PyErr_Restore(ffi::Py_NewRef(ffi::PyExc_StopIteration), ffi::Py_NewRef(raised.cast()), null_mut());
    }
    Ok(())
}

/// Keep the StopIteration `stop` for reuse, unless other code refers to it or has seen it.
#[inline]
unsafe fn give_back(stop: *mut ffi::PyStopIterationObject) {
    // SAFETY: the caller gives up its reference. Without a traceback the exception was in no frame, so it refers to
    // nothing else.
    unsafe {
        let is_ours = ffi::Py_REFCNT(stop.cast()) == 1 && (*stop).traceback.is_null() && (*stop).context.is_null();
        if is_ours {
            put(&raw mut (*stop).value, ffi::Py_NewRef(ffi::Py_None()));
        }
        let other = if is_ours { STOP.swap(stop, Ordering::Relaxed) } else { stop };
        ffi::Py_XDECREF(other.cast());
    }
}

unsafe extern "C" fn traverse(object: *mut ffi::PyObject, visit: ffi::visitproc, arg: *mut c_void) -> c_int {
    // SAFETY: called by the collector on a step.
    unsafe {
        let this = object.cast::<StepObject>();
        let fields: [*mut ffi::PyObject; 3] =
            [ffi::Py_TYPE(object).cast(), (*this).timeout.cast(), (*this).stop.cast()];
        let mut answers = fields.into_iter().filter(|field| !field.is_null()).map(|field| visit(field, arg));
        answers.find(|&answer| answer != 0).unwrap_or(0)
    }
}

unsafe extern "C" fn dealloc(object: *mut ffi::PyObject) {
    // SAFETY: objects are freed with the GIL held and without other references, so we may release timeout and
    // exception.
    unsafe {
        ffi::PyObject_GC_UnTrack(object.cast());
        let step = object.cast::<StepObject>();
        let raised = replace(&mut (*step).stop, null_mut());
        if !raised.is_null() {
            give_back(raised);
        }
        ffi::Py_DECREF(replace(&mut (*step).timeout, null_mut()).cast());
        DEAD.keep(Python::assume_attached(), step, ffi::PyObject_GC_Del);
        ffi::Py_DECREF(TYPE.get().cast());
    }
}

static MEMBERS: Table<ffi::PyMemberDef, 2> = Table([
    ffi::PyMemberDef {
        name: c"__vectorcalloffset__".as_ptr(),
        type_code: ffi::Py_T_PYSSIZET,
        offset: offset_of!(StepObject, vectorcall) as ffi::Py_ssize_t,
        flags: ffi::Py_READONLY,
        doc: std::ptr::null(),
    },
    // SAFETY: null pointers and zeros are a valid member, which ends a table.
    unsafe { std::mem::zeroed() },
]);

/// Make the descriptors `__aenter__` and `__aexit__`; called once, when the module is imported.
pub(crate) fn makers(py: Python<'_>) -> PyResult<[Bound<'_, PyAny>; 2]> {
    let step = TypeBuilder::new(c"tickwheel._core.TimeoutStep", size_of::<StepObject>())
        .flags(ffi::Py_TPFLAGS_IMMUTABLETYPE | ffi::Py_TPFLAGS_HAVE_GC | ffi::Py_TPFLAGS_HAVE_VECTORCALL)
        .members(&MEMBERS)
        .slot(ffi::Py_tp_dealloc, dealloc as *mut c_void)
        .slot(ffi::Py_tp_traverse, traverse as *mut c_void)
        .slot(ffi::Py_tp_call, ffi::PyVectorcall_Call as *mut c_void)
        .slot(ffi::Py_am_send, send as *mut c_void)
        .slot(ffi::Py_am_await, ffi::PyObject_SelfIter as *mut c_void)
        .slot(ffi::Py_tp_iter, ffi::PyObject_SelfIter as *mut c_void)
        .slot(ffi::Py_tp_iternext, next as *mut c_void);
    // SAFETY: each function has the type of its slot and takes a `StepObject`, and the member is one of its fields.
    TYPE.set(&unsafe { step.build(py)? });
    let maker = TypeBuilder::new(c"tickwheel._core.TimeoutMethod", size_of::<StepMaker>())
        .flags(ffi::Py_TPFLAGS_IMMUTABLETYPE)
        .slot(ffi::Py_tp_descr_get, make as *mut c_void)
        .slot(ffi::Py_tp_call, call_of_class as *mut c_void);
    // SAFETY: each function has the type of its slot and takes a `StepMaker`.
    let maker = unsafe { maker.build(py)? };
    let made = |stage| -> PyResult<Bound<'_, PyAny>> {
        // SAFETY: this is a new object of the type, which has no other field.
        unsafe {
            let object = ffi::PyType_GenericAlloc(maker.as_type_ptr(), 0);
            let object = Bound::from_owned_ptr_or_err(py, object)?;
            (*object.as_ptr().cast::<StepMaker>()).stage = stage;
            Ok(object)
        }
    };
    Ok([made(Stage::Enter)?, made(Stage::Exit)?])
}
