//! The type `TimerHandle`: its derivation from `asyncio.TimerHandle`, its methods and its attributes. The memory layout
//! of its objects is in `handle`.

use std::ffi::{c_int, c_void};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyType;
use tickwheel_core::Id;

use crate::aio::event_loop::TimerLoop;
use crate::aio::handle::{
    clear, dealloc, layout, leave, put, share_context, tail, traverse, unknown_layout, word, HandleObject, Layout,
    Tail, LAYOUT, MEMBERS,
};
use crate::cpython::cell::guard;
use crate::cpython::fast_methods::{plain, FastMethods};
use crate::cpython::member::offset_of_member;
use crate::cpython::type_builder::{attribute, Table, TypeBuilder, LAST_ATTRIBUTE};
use crate::once::made_once;

/// `cancel()`: end the timer, remove it from the wheel, and release its callback and arguments at once.
unsafe extern "C" fn cancel(object: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: called by the interpreter on a handle, to which it holds a reference.
    unsafe {
        guard(|py| {
            let none = || py.None().into_ptr();
            let handle = object.cast::<HandleObject>();
            if (*handle).cancelled == ffi::Py_True() {
                return Ok(none());
            }
            put(&raw mut (*handle).cancelled, ffi::Py_NewRef(ffi::Py_True()));
            let home = TimerLoop::of(py, (*handle).home);
            if home.is_some_and(|home| withdraw(py, home, handle)) {
                ffi::Py_DECREF(object); // this was the wheel's reference; the caller has another
            }
            if home.is_some_and(TimerLoop::is_debug) {
                // The repr of a cancelled handle still shows its callback.
                let text = Bound::ref_from_ptr(py, &object).repr()?;
                put(&raw mut (*handle).repr, text.into_ptr());
            }
            put(&raw mut (*handle).callback, none());
            put(&raw mut (*handle).args, none());
            Ok(none())
        })
    }
}

/// Take a handle out of its loop's wheel; the caller gets the wheel's reference.
#[inline]
unsafe fn withdraw(py: Python<'_>, home: &TimerLoop, handle: *mut HandleObject) -> bool {
    // SAFETY: Python code may have assigned `_loop`, so the entry is removed only if it belongs to this handle.
    unsafe {
        let id = tail(handle).id;
        if id == 0 || !home.take(py, Id::from_u64(id), handle) {
            return false;
        }
        leave(handle);
        true
    }
}

unsafe extern "C" fn get_when(object: *mut ffi::PyObject, _: *mut c_void) -> *mut ffi::PyObject {
    // SAFETY: called by the interpreter on a handle, whose fields the layout describes.
    unsafe {
        let given = *word(object.cast(), layout().when);
        if given.is_null() {
            ffi::PyFloat_FromDouble(tail(object.cast()).when)
        } else {
            ffi::Py_NewRef(given)
        }
    }
}

unsafe extern "C" fn set_when(object: *mut ffi::PyObject, value: *mut ffi::PyObject, _: *mut c_void) -> c_int {
    // SAFETY: called by the interpreter on a handle, with a value or null. As with the field of the base class, this
    // does not move the timer.
    unsafe { put(word(object.cast(), layout().when), ffi::Py_XNewRef(value)) };
    0
}

unsafe extern "C" fn get_context(object: *mut ffi::PyObject, _: *mut c_void) -> *mut ffi::PyObject {
    // SAFETY: called by the interpreter on a handle. The collector tracks the context before it is returned.
    unsafe {
        let handle = object.cast::<HandleObject>();
        share_context(handle);
        let context = (*handle).context;
        ffi::Py_NewRef(if context.is_null() { ffi::Py_None() } else { context })
    }
}

unsafe extern "C" fn set_context(object: *mut ffi::PyObject, value: *mut ffi::PyObject, _: *mut c_void) -> c_int {
    // SAFETY: called by the interpreter on a handle, with a value or null. The former context is released like a shared
    // one.
    unsafe {
        share_context(object.cast());
        put(&raw mut (*object.cast::<HandleObject>()).context, ffi::Py_XNewRef(value));
    }
    0
}

static METHODS: FastMethods<2> = Table([
    plain(
        c"cancel",
        cancel,
        c"cancel($self, /)\n--\n\nEnd this timer, in O(1); it leaves the loop at once. Never raises.",
    ),
    ffi::PyMethodDef::zeroed(),
]);

static ATTRIBUTES: Table<ffi::PyGetSetDef, 3> = Table([
    attribute(c"_when", get_when, Some(set_when), c"The deadline in seconds of the loop's time."),
    attribute(c"_context", get_context, Some(set_context), c"The context that the callback runs in."),
    LAST_ATTRIBUTE,
]);

/// Return the offset of a member in objects of a class with slots.
fn member(class: &Bound<'_, PyType>, name: &str) -> PyResult<usize> {
    offset_of_member(class, name)?.ok_or_else(|| unknown_layout(name))
}

/// Make the type `TimerHandle`, once for all loops.
///
/// # Errors
///
/// SystemError if `asyncio.TimerHandle` does not have the layout that it has in CPython 3.11 to 3.15.
pub(crate) fn prepare(py: Python<'_>) -> PyResult<()> {
    made_once(&LAYOUT, || derive(py)).map(drop)
}

fn derive(py: Python<'_>) -> PyResult<Layout> {
    let events = py.import("asyncio.events")?;
    let handle = events.getattr("Handle")?.cast_into::<PyType>()?;
    let timer = events.getattr("TimerHandle")?.cast_into::<PyType>()?;
    for (name, offset) in MEMBERS {
        if member(&handle, name)? != offset {
            return Err(unknown_layout(name));
        }
    }
    let (scheduled, when) = (member(&timer, "_scheduled")?, member(&timer, "_when")?);
    // SAFETY: a type object outlives the call.
    let base_size = unsafe { (*timer.as_type_ptr()).tp_basicsize };
    let tail = usize::try_from(base_size).map_err(|_| unknown_layout("size"))?;
    let builder = TypeBuilder::new(c"tickwheel.aio.TimerHandle", tail + size_of::<Tail>())
        .slot(ffi::Py_tp_base, timer.as_ptr().cast())
        .flags(ffi::Py_TPFLAGS_HAVE_GC)
        .doc(c"The handle of a timer of `EventLoop`: an `asyncio.TimerHandle` with a place in the wheel.")
        .methods(&METHODS)
        .attributes(&ATTRIBUTES)
        .slot(ffi::Py_tp_dealloc, dealloc as *mut c_void)
        .slot(ffi::Py_tp_traverse, traverse as *mut c_void)
        .slot(ffi::Py_tp_clear, clear as *mut c_void);
    // SAFETY: each function has the type of its slot, and takes an object that begins like the base, followed by a
    // `Tail`.
    let kind = unsafe { builder.build(py)? };
    // The offset is negative from 3.12 on, where the list is before the object. SAFETY: this is a new type object.
    let weakrefs = unsafe { (*kind.as_type_ptr()).tp_weaklistoffset };
    if weakrefs == 0 || tail % align_of::<Tail>() != 0 {
        return Err(unknown_layout("weak references"));
    }
    let bases = [handle.unbind(), timer.unbind()];
    Ok(Layout { kind: kind.unbind(), bases, scheduled, when, tail, weakrefs })
}
