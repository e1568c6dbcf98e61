//! `tickwheel.aio.TimerHandle`: an `asyncio.TimerHandle` that stores the id of its entry in the wheel.
//!
//! It is a real subclass, made on first use. Our fields follow the fields of the base class, whose offsets are read
//! from the members of that class.
//!
//! While a handle is pending, the collector does not track the handle; instead the loop traverses the handle's
//! references. So a million handles do not make every full collection longer. When a handle leaves the wheel, the
//! collector tracks it like any other object.

use std::ffi::{c_int, c_void};
use std::mem::{offset_of, replace};
use std::ptr::null_mut;
use std::sync::OnceLock;

use pyo3::exceptions::PySystemError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::cpython::free_list::FreeList;

/// The layout of the fields with which every `asyncio.Handle` begins. Before it is used, `loop_type` checks it against
/// the actual offsets of these fields.
#[repr(C)]
pub(crate) struct HandleObject {
    ob_base: ffi::PyObject,
    pub(crate) args: *mut ffi::PyObject,
    pub(crate) callback: *mut ffi::PyObject,
    pub(crate) cancelled: *mut ffi::PyObject,
    pub(crate) context: *mut ffi::PyObject,
    pub(crate) home: *mut ffi::PyObject,
    pub(crate) repr: *mut ffi::PyObject,
    pub(crate) source_traceback: *mut ffi::PyObject,
}

/// The fields that tickwheel adds to a handle. They follow the fields of `asyncio.TimerHandle`.
#[repr(C)]
pub(crate) struct Tail {
    /// The id of the entry while the handle is pending, otherwise 0.
    pub(crate) id: u64,
    /// The value of `_when`, if it was given as a float.
    pub(crate) when: f64,
    /// True if the collector tracks the handle.
    is_tracked: bool,
    /// True if the context is a copy to which only this handle refers. Then the collector does not track the context.
    is_context_private: bool,
}

/// Offsets of fields that differ between Python versions, read once from the members of the base class.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) kind: Py<PyType>,
    /// `asyncio.Handle` and `asyncio.TimerHandle`.
    pub(crate) bases: [Py<PyType>; 2],
    pub(crate) scheduled: usize,
    pub(crate) when: usize,
    pub(crate) tail: usize,
    pub(crate) weakrefs: isize,
}

/// The layout of all handles; set when the first loop is made.
pub(crate) static LAYOUT: OnceLock<Layout> = OnceLock::new();

/// Maximum number of dead handles that are kept for reuse.
const KEPT: usize = 1024;

static DEAD: FreeList<HandleObject> = FreeList::new(KEPT);

/// The members of `asyncio.Handle` and their offsets in `HandleObject`.
pub(crate) const MEMBERS: [(&str, usize); 7] = [
    ("_args", offset_of!(HandleObject, args)),
    ("_callback", offset_of!(HandleObject, callback)),
    ("_cancelled", offset_of!(HandleObject, cancelled)),
    ("_context", offset_of!(HandleObject, context)),
    ("_loop", offset_of!(HandleObject, home)),
    ("_repr", offset_of!(HandleObject, repr)),
    ("_source_traceback", offset_of!(HandleObject, source_traceback)),
];

impl Layout {
    /// Return the type of our handles.
    #[inline]
    pub(crate) fn kind(&self) -> *mut ffi::PyTypeObject {
        self.kind.as_ptr().cast()
    }
}

/// Return the layout of all handles.
#[inline]
pub(crate) fn layout() -> &'static Layout {
    LAYOUT.get().expect("there is no handle before there is a loop")
}

/// Make a pending handle, with one reference. `is_context_private` means that no other object refers to `context`.
///
/// # Safety
///
/// All arguments are living objects, and `home` is the event loop.
#[inline]
pub(crate) unsafe fn new(
    py: Python<'_>,
    home: *mut ffi::PyObject,
    when: f64,
    callback: *mut ffi::PyObject,
    args: Bound<'_, PyAny>,
    context: Bound<'_, PyAny>,
    is_context_private: bool,
) -> PyResult<*mut HandleObject> {
    // SAFETY: the free list holds dead handles of this type. Every field is written before the handle is visible.
    unsafe {
        let layout = layout();
        let handle = DEAD.object(py, layout.kind(), || fresh(layout))?;
        let (none, no) = (ffi::Py_None(), ffi::Py_False());
        (*handle).args = args.into_ptr();
        (*handle).callback = ffi::Py_NewRef(callback);
        (*handle).cancelled = ffi::Py_NewRef(no);
        (*handle).context = context.into_ptr();
        (*handle).home = ffi::Py_NewRef(home);
        (*handle).repr = ffi::Py_NewRef(none);
        (*handle).source_traceback = ffi::Py_NewRef(none);
        *word(handle, layout.scheduled) = ffi::Py_NewRef(ffi::Py_True());
        if is_context_private {
            ffi::PyObject_GC_UnTrack((*handle).context.cast());
        }
        *tail(handle) = Tail { id: 0, when, is_tracked: false, is_context_private };
        Ok(handle)
    }
}

/// Make a handle whose optional fields are empty; return null with an exception set if there is no memory.
#[cold]
unsafe fn fresh(layout: &Layout) -> *mut HandleObject {
    // SAFETY: the layout gives the offsets of those fields in an object of this type.
    unsafe {
        let handle = ffi::PyObject_GC_New::<HandleObject>(layout.kind());
        if !handle.is_null() {
            *word(handle, layout.when) = null_mut();
            if layout.weakrefs > 0 {
                *handle.byte_offset(layout.weakrefs).cast::<*mut ffi::PyObject>() = null_mut();
            } // from 3.12 on the field is before the object, and the allocation has cleared it
        }
        handle
    }
}

/// Return a field of the base class, given its offset in the layout.
///
/// # Safety
///
/// `handle` is one of our handles.
#[inline]
pub(crate) unsafe fn word<'a>(handle: *mut HandleObject, offset: usize) -> &'a mut *mut ffi::PyObject {
    // SAFETY: the offset is that of a member.
    unsafe { &mut *handle.byte_add(offset).cast() }
}

/// Return the fields that tickwheel adds to a handle.
///
/// # Safety
///
/// `handle` is one of our handles.
#[inline]
pub(crate) unsafe fn tail<'a>(handle: *mut HandleObject) -> &'a mut Tail {
    // SAFETY: every object of this type has the tail.
    unsafe { &mut *handle.byte_add(layout().tail).cast() }
}

/// Store `value` in a field, which takes over the caller's reference, and release the former value. This may run Python
/// code, so the caller must not have a `GilCell` borrowed.
///
/// # Safety
///
/// The GIL is held, and `place` is a field of a living handle.
#[inline]
pub(crate) unsafe fn put(place: *mut *mut ffi::PyObject, value: *mut ffi::PyObject) {
    // SAFETY: `place` is writable, and is written before any Python code runs.
    unsafe { ffi::Py_XDECREF(replace(&mut *place, value)) };
}

/// Mark a handle as out of the wheel, and let the collector track it.
///
/// # Safety
///
/// `handle` is a living handle of ours, and the GIL is held.
#[inline]
pub(crate) unsafe fn leave(handle: *mut HandleObject) {
    // SAFETY: the handle is alive, and True and False always are.
    unsafe {
        let tail = tail(handle);
        tail.id = 0;
        put(word(handle, layout().scheduled), ffi::Py_NewRef(ffi::Py_False()));
        if !replace(&mut tail.is_tracked, true) {
            ffi::PyObject_GC_Track(handle.cast());
        }
    }
}

/// Mark the context as shared with other code, so that the collector tracks the context from now on.
///
/// # Safety
///
/// `handle` is a living handle of ours, and the GIL is held.
#[inline]
pub(crate) unsafe fn share_context(handle: *mut HandleObject) {
    // SAFETY: a private context is an untracked object, and its type supports collection.
    unsafe {
        if replace(&mut tail(handle).is_context_private, false) {
            ffi::PyObject_GC_Track((*handle).context.cast());
        }
    }
}

/// Traverse the references of a handle. If its context is private, traverse the references of the context in place of
/// the context itself.
///
/// # Safety
///
/// Called by the collector, on one of our handles.
pub(crate) unsafe fn visit_fields<E, F: FnMut(*mut ffi::PyObject) -> Result<(), E>>(
    handle: *mut HandleObject,
    show: &mut F,
) -> Result<(), E> {
    // SAFETY: fields are objects or null, and a relay lives until the traversal of the context has ended.
    unsafe {
        let (this, layout) = (&*handle, layout());
        let seen = [this.args, this.callback, this.home, this.repr, this.source_traceback, *word(handle, layout.when)];
        for object in seen {
            if !object.is_null() && object != ffi::Py_None() {
                show(object)?;
            }
        }
        if this.context.is_null() {
            return Ok(());
        }
        match (*ffi::Py_TYPE(this.context)).tp_traverse {
            Some(traverse) if tail(handle).is_context_private => {
                let mut relay = (show, Ok(()));
                traverse(this.context, pass_on::<E, F>, (&raw mut relay).cast());
                relay.1
            }
            _ => show(this.context),
        }
    }
}

/// Call the closure that the C interface of the collector passes as `arg`.
unsafe extern "C" fn pass_on<E, F: FnMut(*mut ffi::PyObject) -> Result<(), E>>(
    object: *mut ffi::PyObject,
    relay: *mut c_void,
) -> c_int {
    // SAFETY: the collector passes on the argument of `traverse`: the closure and the place of its result.
    let (show, shown) = unsafe { &mut *relay.cast::<(&mut F, Result<(), E>)>() };
    *shown = show(object);
    shown.is_err().into()
}

pub(crate) unsafe extern "C" fn traverse(object: *mut ffi::PyObject, visit: ffi::visitproc, arg: *mut c_void) -> c_int {
    // SAFETY: the collector passes a tracked handle, which is therefore out of the wheel.
    unsafe {
        let mut show = |object| match visit(object, arg) {
            0 => Ok(()),
            answer => Err(answer),
        };
        let shown = show(ffi::Py_TYPE(object).cast()).and_then(|()| visit_fields(object.cast(), &mut show));
        shown.err().unwrap_or(0)
    }
}

pub(crate) unsafe extern "C" fn clear(object: *mut ffi::PyObject) -> c_int {
    // SAFETY: the collector found the handle unreachable.
    unsafe {
        let handle = object.cast::<HandleObject>();
        share_context(handle);
        let this = &mut *handle;
        for field in [&mut this.args, &mut this.callback, &mut this.context, &mut this.home, &mut this.repr] {
            put(field, null_mut());
        }
        put(&raw mut (*handle).source_traceback, null_mut());
        put(word(handle, layout().when), null_mut());
    }
    0
}

/// `tp_dealloc`: keep the handle for reuse. A handle in the wheel is never freed, because the wheel has a reference to
/// it.
pub(crate) unsafe extern "C" fn dealloc(object: *mut ffi::PyObject) {
    // SAFETY: objects are freed with the GIL held and without other references, so we may clear the fields.
    unsafe {
        let (handle, layout) = (object.cast::<HandleObject>(), layout());
        if tail(handle).is_tracked {
            ffi::PyObject_GC_UnTrack(object.cast());
        }
        let weakrefs = *object.byte_offset(layout.weakrefs).cast::<*mut ffi::PyObject>();
        if !weakrefs.is_null() {
            ffi::PyObject_ClearWeakRefs(object);
        }
        clear(object);
        put(&raw mut (*handle).cancelled, null_mut());
        put(word(handle, layout.scheduled), null_mut());
        DEAD.keep(Python::assume_attached(), handle, ffi::PyObject_GC_Del);
        ffi::Py_DECREF(layout.kind().cast());
    }
}

/// Make the error for a base class with an unknown layout.
#[cold]
pub(crate) fn unknown_layout(what: &str) -> PyErr {
    let text =
        format!("asyncio.TimerHandle of this Python is laid out otherwise ({what}): use asyncio's own loop with it");
    PySystemError::new_err(text)
}
