//! `Timer`, the handle: 48 bytes, from a free list, invisible to the garbage collector.
//!
//! The collector sees a pending timer's callback through the engine, which shows what its timers refer to; a timer that has ended refers
//! to nothing. So a million handles cost a collection nothing but a walk, and no cycle through a handle is missed.
//!
//! Written against the C interface: `docs/decisions/native-binding.md` has the figures.

use std::ffi::{c_int, c_void, CStr};
use std::ptr::{addr_of_mut, null_mut};

use pyo3::ffi;
use pyo3::prelude::*;
use tickwheel_core::{Id, NEVER};

use crate::call::Call;
use crate::cell::guard;
use crate::clock::{seconds, to_ns};
use crate::engine::Engine;

/// `TimerObject::id` while the callback is being called.
pub(crate) const FIRING: u64 = 0;
/// `TimerObject::id` after it.
pub(crate) const FIRED: u64 = 1;
/// `TimerObject::id` after a cancel, drain or close.
pub(crate) const CANCELLED: u64 = 2;

/// The layout of a `Timer`. Every field is touched with the GIL held only.
#[repr(C)]
pub(crate) struct TimerObject {
    ob_base: ffi::PyObject,
    /// The engine, kept alive by its count of living timers; null once the timer has ended.
    engine: *mut ffi::PyObject,
    /// What to call; none once the timer has ended.
    pub(crate) call: Call,
    /// The entry's id while pending; else a state, all of which are below every id.
    pub(crate) id: u64,
    pub(crate) deadline: u64,
}

const _: () = assert!(
    size_of::<TimerObject>() <= 48,
    "a handle fits the allocator's class of 48 bytes"
);

/// How many dead handles are kept for reuse: enough for the ups and downs of a busy server, 48 kB.
const KEPT: usize = 1024;

struct FreeList {
    handles: [*mut TimerObject; KEPT],
    len: usize,
}

static mut TYPE: *mut ffi::PyTypeObject = null_mut();
static mut FREE: FreeList = FreeList {
    handles: [null_mut(); KEPT],
    len: 0,
};

/// Make a handle, with one reference, of a timer that is not yet filed; takes over `call`.
///
/// # Safety
///
/// The GIL is held; `engine` is an `Engine`.
#[inline]
pub(crate) unsafe fn new(
    engine: *mut ffi::PyObject,
    call: Call,
    deadline: u64,
) -> PyResult<*mut TimerObject> {
    // SAFETY: the free list holds dead handles of this very type; the GIL keeps others out of it.
    unsafe {
        let free = &mut *addr_of_mut!(FREE);
        let timer = if free.len > 0 {
            free.len -= 1;
            let timer = free.handles[free.len];
            ffi::PyObject_Init(timer.cast(), TYPE);
            timer
        } else {
            let timer = ffi::PyType_GenericAlloc(TYPE, 0).cast::<TimerObject>();
            if timer.is_null() {
                call.release();
                return Err(PyErr::fetch(Python::assume_attached()));
            }
            timer
        };
        (*timer).engine = engine;
        (*timer)
            .engine(Python::assume_attached())
            .get()
            .living
            .enter(engine);
        (*timer).call = call;
        (*timer).id = FIRING;
        (*timer).deadline = deadline;
        Ok(timer)
    }
}

impl TimerObject {
    /// Whether the timer stands in the wheel.
    #[inline]
    pub(crate) fn is_pending(&self) -> bool {
        self.id > CANCELLED
    }

    /// The engine of a timer that has not ended.
    ///
    /// # Safety
    ///
    /// The GIL is held, and the timer keeps its engine for as long as the answer is used.
    #[inline]
    pub(crate) unsafe fn engine<'py>(&self, py: Python<'py>) -> Borrowed<'py, 'py, Engine> {
        // SAFETY: `new` was given an `Engine`.
        unsafe { Borrowed::from_ptr(py, self.engine).cast_unchecked() }
    }

    /// The engine, to show to the collector.
    pub(crate) fn engine_pointer(&self) -> *mut ffi::PyObject {
        self.engine
    }

    /// End the timer and let go of what it refers to. Runs Python: no cell may be entered.
    ///
    /// # Safety
    ///
    /// The GIL is held, the timer is in no wheel, and the caller has a reference to it.
    #[inline]
    pub(crate) unsafe fn end(this: *mut Self, state: u64) {
        // SAFETY: the fields are made final first, so whatever Python runs in the releases finds a timer that has ended.
        unsafe {
            let call = std::mem::replace(&mut (*this).call, Call::NONE);
            let engine = std::mem::replace(&mut (*this).engine, null_mut());
            (*this).id = state;
            if !call.is_none() {
                call.release();
            }
            if !engine.is_null() {
                Borrowed::from_ptr(Python::assume_attached(), engine)
                    .cast_unchecked::<Engine>()
                    .get()
                    .living
                    .leave(engine);
            }
        }
    }

    /// Call the callback; afterwards the timer has fired, unless it was given a new life meanwhile. Null if it raised.
    ///
    /// # Safety
    ///
    /// The GIL is held, the timer is firing, no cell is entered, and the caller has a reference to the timer.
    #[inline]
    pub(crate) unsafe fn fire(this: *mut Self) -> *mut ffi::PyObject {
        // SAFETY: the timer might lose its own reference to the call when it is given a new life and that is cancelled.
        unsafe {
            let call = (*this).call;
            let object = call.object();
            ffi::Py_INCREF(object);
            let result = call.call();
            if (*this).id == FIRING {
                Self::end(this, FIRED);
            }
            ffi::Py_DECREF(object);
            result
        }
    }
}

unsafe extern "C" fn dealloc(object: *mut ffi::PyObject) {
    // SAFETY: a timer in a wheel is referred to by it, so this one has ended, or was never filed.
    unsafe {
        let timer = object.cast::<TimerObject>();
        TimerObject::end(timer, FIRED);
        let kind = ffi::Py_TYPE(object);
        let free = &mut *addr_of_mut!(FREE);
        if free.len < KEPT {
            free.handles[free.len] = timer;
            free.len += 1;
        } else {
            ffi::PyObject_Free(object.cast());
        }
        ffi::Py_DECREF(kind.cast());
    }
}

unsafe fn this<'a>(object: *mut ffi::PyObject) -> &'a mut TimerObject {
    // SAFETY: the type's methods are called on its own objects; no reference lives across a call into Python.
    unsafe { &mut *object.cast::<TimerObject>() }
}

fn truth(value: bool) -> PyResult<*mut ffi::PyObject> {
    // SAFETY: both are immortal, or counted up here.
    Ok(unsafe { ffi::PyBool_FromLong(value.into()) })
}

/// Take a timer out of its wheel; false if it is in none.
///
/// # Safety
///
/// The GIL is held, no cell is entered, and the caller has a reference to the timer.
#[inline]
pub(crate) unsafe fn cancel(py: Python<'_>, timer: *mut TimerObject) -> bool {
    // SAFETY: as the caller says; the wheel's reference to the timer is given up last.
    unsafe {
        if !(*timer).is_pending() {
            return false;
        }
        let id = Id::from_u64((*timer).id);
        (*timer).engine(py).get().cancel(py, id);
        TimerObject::end(timer, CANCELLED);
        ffi::Py_DECREF(timer.cast());
        true
    }
}

unsafe extern "C" fn method_cancel(
    object: *mut ffi::PyObject,
    _: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by the interpreter, as every function of this table.
    unsafe { guard(|py| truth(cancel(py, object.cast()))) }
}

unsafe extern "C" fn method_cancelled(
    object: *mut ffi::PyObject,
    _: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as above.
    unsafe { guard(|_| truth(this(object).id == CANCELLED)) }
}

unsafe extern "C" fn method_pending(
    object: *mut ffi::PyObject,
    _: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as above.
    unsafe { guard(|_| truth(this(object).is_pending())) }
}

unsafe extern "C" fn method_when(
    object: *mut ffi::PyObject,
    _: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as above.
    unsafe { guard(|_| Ok(ffi::PyFloat_FromDouble(seconds(this(object).deadline)))) }
}

unsafe extern "C" fn method_reschedule(
    object: *mut ffi::PyObject,
    when: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as above.
    unsafe {
        guard(|py| {
            let deadline = to_ns(py, when, "when")?;
            shift(py, object.cast(), |_| Ok(deadline))
        })
    }
}

unsafe extern "C" fn method_restart(
    object: *mut ffi::PyObject,
    delay: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as above.
    unsafe {
        guard(|py| {
            let delay = to_ns(py, delay, "delay")?;
            shift(py, object.cast(), |engine| {
                Ok(engine.now(py)?.saturating_add(delay).min(NEVER))
            })
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
        if (*timer).engine.is_null() {
            return truth(false);
        }
        let engine = (*timer).engine(py).to_owned();
        let deadline = deadline(engine.get())?;
        truth(engine.get().shift(py, timer, deadline)?)
    }
}

unsafe extern "C" fn method_run(
    object: *mut ffi::PyObject,
    _: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as above; the caller of a method holds a reference to its object.
    unsafe {
        guard(|py| {
            let timer = object.cast::<TimerObject>();
            if (*timer).id != FIRING {
                return Ok(py.None().into_ptr());
            }
            let engine = (*timer).engine(py).to_owned();
            let result = TimerObject::fire(timer);
            if result.is_null() {
                let timer = Bound::from_borrowed_ptr(py, object);
                engine.get().report(py, PyErr::fetch(py), &timer)?;
            } else {
                ffi::Py_DECREF(result);
            }
            Ok(py.None().into_ptr())
        })
    }
}

unsafe extern "C" fn repr(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: as above.
    unsafe {
        guard(|py| {
            let timer = this(object);
            let state = match timer.id {
                FIRING => "firing",
                FIRED => "fired",
                CANCELLED => "cancelled",
                _ => "pending",
            };
            let text = format!("<Timer {state} when={}>", seconds(timer.deadline));
            Ok(text.into_pyobject(py)?.into_any().into_ptr())
        })
    }
}

const fn method(
    name: &'static CStr,
    function: ffi::PyCFunction,
    flags: c_int,
    doc: &'static CStr,
) -> ffi::PyMethodDef {
    ffi::PyMethodDef {
        ml_name: name.as_ptr(),
        ml_meth: ffi::PyMethodDefPointer {
            PyCFunction: function,
        },
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
        c"run($self, /)\n--\n\nCall the callback of a timer that is due: for executors, once for each timer that they were handed.\n\n\
          What it raises goes to the engine's on_error if it is an Exception, and leaves this call otherwise.",
    ),
    ffi::PyMethodDef::zeroed(),
]);

/// Make the type and put it into the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let slot = |slot: c_int, pointer: *mut c_void| ffi::PyType_Slot {
        slot,
        pfunc: pointer,
    };
    let doc = c"A handle on one timer; `call_at` and `call_later` make it.\n\n\
                All methods may be called from any thread, at any time, also after the end. None runs the callback, but `run`.";
    let mut slots = [
        slot(ffi::Py_tp_dealloc, dealloc as *mut c_void),
        slot(ffi::Py_tp_repr, repr as *mut c_void),
        slot(ffi::Py_tp_methods, METHODS.0.as_ptr().cast_mut().cast()),
        slot(ffi::Py_tp_doc, doc.as_ptr().cast_mut().cast()),
        slot(0, null_mut()),
    ];
    let flags = ffi::Py_TPFLAGS_DEFAULT
        | ffi::Py_TPFLAGS_DISALLOW_INSTANTIATION
        | ffi::Py_TPFLAGS_IMMUTABLETYPE;
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
        TYPE = kind.cast();
        module.add("Timer", Bound::from_borrowed_ptr(module.py(), kind))
    }
}

/// The timer behind an object, if it is one.
pub(crate) fn from_object(object: &Bound<'_, PyAny>) -> Option<*mut TimerObject> {
    // SAFETY: the type was set when the module was imported.
    unsafe { (ffi::Py_TYPE(object.as_ptr()) == TYPE).then(|| object.as_ptr().cast()) }
}
