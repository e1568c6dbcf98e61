//! The type of `handle`: how it is derived from `asyncio.TimerHandle`, its methods and attributes.

use std::ffi::{c_int, c_void};
use std::mem::size_of;
use std::ptr::null_mut;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};
use tickwheel_core::Id;

use crate::aio::event_loop::TimerLoop;
use crate::aio::handle::{
    clear, dealloc, layout, leave, put, set_layout, share_context, tail, traverse, unknown_layout, word, HandleObject,
    Layout, Tail, MEMBERS,
};
use crate::cpython::cell::guard;

fn none() -> *mut ffi::PyObject {
    // SAFETY: None is always there.
    unsafe { ffi::Py_NewRef(ffi::Py_None()) }
}

/// `cancel()`: end the timer; its callback and arguments go at once, and so does its place in the wheel.
unsafe extern "C" fn cancel(object: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: called by the interpreter on a handle, with a reference to it.
    unsafe {
        guard(|py| {
            let handle = object.cast::<HandleObject>();
            if (*handle).cancelled == ffi::Py_True() {
                return Ok(none());
            }
            put(&raw mut (*handle).cancelled, ffi::Py_NewRef(ffi::Py_True()));
            let home = TimerLoop::of(py, &(*handle).home);
            if home.is_some_and(|home| withdraw(py, home, handle)) {
                ffi::Py_DECREF(object); // the wheel's; the caller has another
            }
            if home.is_some_and(TimerLoop::is_debug) {
                // A cancelled handle still says what it was.
                let text = Bound::ref_from_ptr(py, &object).repr()?;
                put(&raw mut (*handle).repr, text.into_ptr());
            }
            put(&raw mut (*handle).callback, none());
            put(&raw mut (*handle).args, none());
            Ok(none())
        })
    }
}

/// Take a handle out of its loop's wheel; the wheel's reference is the caller's if it was in it.
#[inline]
unsafe fn withdraw(py: Python<'_>, home: &TimerLoop, handle: *mut HandleObject) -> bool {
    // SAFETY: `_loop` may have been written from Python, so the entry is only taken if it is this very handle's.
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
    // SAFETY: called by the interpreter on a handle.
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
    // SAFETY: as above. As with the base's own field, this does not move the timer.
    unsafe { put(word(object.cast(), layout().when), ffi::Py_XNewRef(value)) };
    0
}

unsafe extern "C" fn get_context(object: *mut ffi::PyObject, _: *mut c_void) -> *mut ffi::PyObject {
    // SAFETY: as above.
    unsafe {
        let handle = object.cast::<HandleObject>();
        share_context(handle);
        if (*handle).context.is_null() {
            return none();
        }
        ffi::Py_NewRef((*handle).context)
    }
}

unsafe extern "C" fn set_context(object: *mut ffi::PyObject, value: *mut ffi::PyObject, _: *mut c_void) -> c_int {
    // SAFETY: as above.
    unsafe {
        share_context(object.cast());
        put(&raw mut (*object.cast::<HandleObject>()).context, ffi::Py_XNewRef(value));
    }
    0
}

/// The tables live as long as the type does: for ever.
struct Tables {
    methods: [ffi::PyMethodDef; 2],
    attributes: [ffi::PyGetSetDef; 3],
}

// SAFETY: never written.
unsafe impl Sync for Tables {}

static TABLES: Tables = Tables {
    methods: [
        ffi::PyMethodDef {
            ml_name: c"cancel".as_ptr(),
            ml_meth: ffi::PyMethodDefPointer { PyCFunction: cancel },
            ml_flags: ffi::METH_NOARGS,
            ml_doc: c"cancel($self, /)\n--\n\nEnd this timer, in O(1); it leaves the loop at once. Never raises."
                .as_ptr(),
        },
        ffi::PyMethodDef::zeroed(),
    ],
    attributes: [
        ffi::PyGetSetDef {
            name: c"_when".as_ptr(),
            get: Some(get_when),
            set: Some(set_when),
            doc: c"The deadline in seconds of the loop's time.".as_ptr(),
            closure: null_mut(),
        },
        ffi::PyGetSetDef {
            name: c"_context".as_ptr(),
            get: Some(get_context),
            set: Some(set_context),
            doc: c"The context that the callback runs in.".as_ptr(),
            closure: null_mut(),
        },
        ffi::PyGetSetDef { name: std::ptr::null(), get: None, set: None, doc: std::ptr::null(), closure: null_mut() },
    ],
};

/// Where a member of a class with slots stands in its objects.
fn member(class: &Bound<'_, PyType>, name: &str) -> PyResult<usize> {
    let member = class.getattr("__dict__")?.get_item(name).map_err(|_| unknown_layout(name))?;
    if member.get_type().name()? != "member_descriptor" {
        return Err(unknown_layout(name));
    }
    // SAFETY: the type was checked; its layout is public.
    let offset = unsafe { (*(*member.as_ptr().cast::<ffi::PyMemberDescrObject>()).d_member).offset };
    usize::try_from(offset).map_err(|_| unknown_layout(name))
}

/// Derive the type, once for all loops.
///
/// # Errors
///
/// SystemError if `asyncio.TimerHandle` is not laid out as it is in CPython 3.11 to 3.13.
pub(crate) fn prepare(py: Python<'_>) -> PyResult<()> {
    // SAFETY: the GIL is held.
    if unsafe { !layout().kind.is_null() } {
        return Ok(());
    }
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
    let kind = make(py, &timer, tail)?;
    // SAFETY: a fresh type object.
    let weakrefs = unsafe { (*kind).tp_weaklistoffset };
    if weakrefs == 0 || tail % align_of::<Tail>() != 0 {
        return Err(unknown_layout("weak references"));
    }
    let bases = [handle.as_type_ptr(), timer.as_type_ptr()];
    // SAFETY: `asyncio.events` keeps its classes; ours is never freed.
    unsafe { set_layout(Layout { kind, bases, scheduled, when, tail, weakrefs }) };
    std::mem::forget((handle, timer));
    Ok(())
}

fn make(py: Python<'_>, base: &Bound<'_, PyType>, base_size: usize) -> PyResult<*mut ffi::PyTypeObject> {
    let slot = |slot: c_int, pointer: *mut c_void| ffi::PyType_Slot { slot, pfunc: pointer };
    let doc = c"The handle of a timer of `EventLoop`: an `asyncio.TimerHandle` with a place in the wheel.";
    let mut slots = [
        slot(ffi::Py_tp_dealloc, dealloc as *mut c_void),
        slot(ffi::Py_tp_traverse, traverse as *mut c_void),
        slot(ffi::Py_tp_clear, clear as *mut c_void),
        slot(ffi::Py_tp_methods, TABLES.methods.as_ptr().cast_mut().cast()),
        slot(ffi::Py_tp_getset, TABLES.attributes.as_ptr().cast_mut().cast()),
        slot(ffi::Py_tp_doc, doc.as_ptr().cast_mut().cast()),
        slot(0, null_mut()),
    ];
    let flags = ffi::Py_TPFLAGS_DEFAULT | ffi::Py_TPFLAGS_HAVE_GC | ffi::Py_TPFLAGS_DISALLOW_INSTANTIATION;
    let mut spec = ffi::PyType_Spec {
        name: c"tickwheel.aio.TimerHandle".as_ptr(),
        basicsize: (base_size + size_of::<Tail>()) as c_int,
        itemsize: 0,
        flags: flags as _,
        slots: slots.as_mut_ptr(),
    };
    let bases = PyTuple::new(py, [base])?;
    // SAFETY: the spec is complete.
    let kind = unsafe { ffi::PyType_FromSpecWithBases(&raw mut spec, bases.as_ptr()) };
    if kind.is_null() {
        return Err(PyErr::fetch(py));
    }
    Ok(kind.cast())
}
