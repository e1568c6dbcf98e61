//! `Timeout`: what `tickwheel.aio.timeout` returns; `asyncio.Timeout` with its bookkeeping in a wheel.

use std::ptr::{addr_of_mut, null_mut};

use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;

use crate::aio::deadlines::Deadlines;
use crate::aio::event_loop::deadline_of;
use crate::aio::handle::put;
use crate::aio::running::{current_task, running_loop};
use crate::cpython::errors::raise;

/// Where a timeout is in its life; the names are those that its `repr` shows.
#[derive(Clone, Copy, PartialEq)]
#[repr(u8)]
pub(crate) enum Phase {
    Created,
    Active,
    Expiring,
    Expired,
    Finished,
}

impl Phase {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Active => "active",
            Self::Expiring => "expiring",
            Self::Expired => "expired",
            Self::Finished => "finished",
        }
    }
}

/// The layout of a `Timeout`. Every field is touched with the GIL held only; pointers are owned or null.
#[repr(C)]
pub(crate) struct TimeoutObject {
    ob_base: ffi::PyObject,
    /// The deadline where it is no float: None, or what was given.
    pub(crate) given: *mut ffi::PyObject,
    pub(crate) task: *mut ffi::PyObject,
    /// The wheel of the loop that it was made on; null before `timeout_at` is entered.
    pub(crate) deadlines: *mut ffi::PyObject,
    /// The handle of a timeout that was due when it was set.
    pub(crate) soon: *mut ffi::PyObject,
    pub(crate) when: f64,
    /// The entry's id while it is in the wheel, else 0.
    pub(crate) id: u64,
    /// How many cancellations of the task were under way when it entered.
    pub(crate) cancelling: i64,
    pub(crate) phase: Phase,
    /// Whether the deadline was later than the loop's time when it was computed, a moment ago.
    is_ahead: bool,
}

/// How many dead timeouts are kept for reuse.
const KEPT: usize = 256;

struct FreeList {
    timeouts: [*mut TimeoutObject; KEPT],
    len: usize,
}

static mut TYPE: *mut ffi::PyTypeObject = null_mut();
static mut FREE: FreeList = FreeList { timeouts: [null_mut(); KEPT], len: 0 };

/// Tell this room what the type is, once.
///
/// # Safety
///
/// The GIL is held.
pub(crate) unsafe fn set_type(kind: *mut ffi::PyTypeObject) {
    // SAFETY: as the caller says.
    unsafe { TYPE = kind };
}

/// `timeout(delay)`; `delay` is borrowed.
///
/// # Safety
///
/// The GIL is held, `delay` is an object.
#[inline]
pub(crate) unsafe fn after(py: Python<'_>, delay: *mut ffi::PyObject) -> PyResult<*mut ffi::PyObject> {
    // SAFETY: as the caller says; an exact float is checked before it is read.
    unsafe {
        let deadlines = Deadlines::of(&running_loop(py)?)?;
        if ffi::PyFloat_CheckExact(delay) != 0 {
            let delay = ffi::PyFloat_AS_DOUBLE(delay);
            if delay.is_nan() {
                return Err(raise(py, "InvalidDelayError", ("delay", delay)));
            }
            let now = deadlines.get().time(py)?;
            return new(py, Some(deadlines), now + delay, null_mut(), delay > 0.0);
        }
        if delay == ffi::Py_None() {
            return new(py, Some(deadlines), f64::INFINITY, delay, false);
        }
        let when = deadlines.get().time_object(py)?.add(Borrowed::from_ptr(py, delay))?;
        at(py, when.as_ptr())
    }
}

/// `timeout_at(when)`; `when` is borrowed.
///
/// # Safety
///
/// As `after`.
pub(crate) unsafe fn at(py: Python<'_>, when: *mut ffi::PyObject) -> PyResult<*mut ffi::PyObject> {
    // SAFETY: as the caller says.
    unsafe {
        let (seconds, given) = read(py, when)?;
        new(py, None, seconds, given, false)
    }
}

/// A deadline as a float, and as it was given if that is no float.
unsafe fn read(py: Python<'_>, when: *mut ffi::PyObject) -> PyResult<(f64, *mut ffi::PyObject)> {
    // SAFETY: `when` is an object.
    unsafe {
        if when == ffi::Py_None() {
            return Ok((f64::INFINITY, when));
        }
        let seconds = Borrowed::from_ptr(py, when).extract::<f64>()?;
        deadline_of(py, seconds)?; // refuses NaN
        Ok((seconds, if ffi::PyFloat_CheckExact(when) != 0 { null_mut() } else { when }))
    }
}

unsafe fn new(
    py: Python<'_>,
    deadlines: Option<Bound<'_, Deadlines>>,
    when: f64,
    given: *mut ffi::PyObject,
    is_ahead: bool,
) -> PyResult<*mut ffi::PyObject> {
    // SAFETY: the free list holds dead timeouts of this very type; every field is written before the collector sees it.
    unsafe {
        let free = &mut *addr_of_mut!(FREE);
        let timeout = if free.len > 0 {
            free.len -= 1;
            let timeout = free.timeouts[free.len];
            ffi::PyObject_Init(timeout.cast(), TYPE);
            timeout
        } else {
            ffi::PyObject_GC_New::<TimeoutObject>(TYPE)
        };
        if timeout.is_null() {
            return Err(PyErr::fetch(py));
        }
        let this = &mut *timeout;
        this.given = ffi::Py_XNewRef(given);
        (this.task, this.deadlines, this.soon) =
            (null_mut(), deadlines.map_or(null_mut(), Bound::into_ptr), null_mut());
        (this.when, this.id, this.cancelling) = (when, 0, 0);
        (this.phase, this.is_ahead) = (Phase::Created, is_ahead);
        ffi::PyObject_GC_Track(timeout.cast());
        Ok(timeout.cast())
    }
}

/// A method of an object that takes nothing and returns a number.
unsafe fn count(py: Python<'_>, object: *mut ffi::PyObject, name: &Bound<'_, pyo3::types::PyString>) -> PyResult<i64> {
    // SAFETY: the object is alive.
    unsafe { Borrowed::from_ptr(py, object).call_method0(name)?.extract() }
}

impl TimeoutObject {
    /// What awaiting `__aenter__` does.
    ///
    /// # Safety
    ///
    /// The GIL is held and the caller has a reference; likewise below.
    pub(crate) unsafe fn enter(py: Python<'_>, timeout: *mut Self) -> PyResult<()> {
        // SAFETY: as the caller says; no reference into the object lives across a call into Python.
        unsafe {
            if (*timeout).phase != Phase::Created {
                return Err(PyRuntimeError::new_err("Timeout has already been entered"));
            }
            if (*timeout).deadlines.is_null() {
                put(&raw mut (*timeout).deadlines, Deadlines::of(&running_loop(py)?)?.into_ptr());
            }
            let deadlines = Self::deadlines(py, timeout);
            let task = current_task(py, deadlines.get().home(py))?;
            if task.is_none() {
                return Err(PyRuntimeError::new_err("Timeout should be used inside a task"));
            }
            (*timeout).cancelling = count(py, task.as_ptr(), intern!(py, "cancelling"))?;
            put(&raw mut (*timeout).task, task.into_ptr());
            (*timeout).phase = Phase::Active;
            Self::set(py, timeout)
        }
    }

    /// The wheel of a timeout that was entered.
    #[inline]
    unsafe fn deadlines(py: Python<'_>, timeout: *mut Self) -> Bound<'_, Deadlines> {
        // SAFETY: set by then, and let go of only when nobody can reach it.
        unsafe { Bound::from_borrowed_ptr(py, (*timeout).deadlines).cast_into_unchecked() }
    }

    /// File the timeout under its deadline; one that is due is called in the loop's next turn.
    #[inline]
    unsafe fn set(py: Python<'_>, timeout: *mut Self) -> PyResult<()> {
        // SAFETY: as above.
        unsafe {
            if (*timeout).given == ffi::Py_None() {
                return Ok(());
            }
            let deadlines = Self::deadlines(py, timeout);
            if !(*timeout).is_ahead && (*timeout).when <= deadlines.get().time(py)? {
                let on_timeout = Borrowed::from_ptr(py, timeout.cast()).getattr(intern!(py, "_on_timeout"))?;
                let soon = deadlines.get().home(py).call_method1(intern!(py, "call_soon"), (on_timeout,))?;
                put(&raw mut (*timeout).soon, soon.into_ptr());
                return Ok(());
            }
            let deadline = deadline_of(py, (*timeout).when)?;
            Deadlines::insert(&deadlines, timeout, deadline)
        }
    }

    /// Take the timeout out of the wheel, or its handle out of the loop.
    #[inline]
    unsafe fn unset(py: Python<'_>, timeout: *mut Self) -> PyResult<()> {
        // SAFETY: as above.
        unsafe {
            if (*timeout).id != 0 {
                Self::deadlines(py, timeout).get().withdraw(py, timeout);
            }
            if !(*timeout).soon.is_null() {
                let soon = Bound::from_owned_ptr(py, std::mem::replace(&mut (*timeout).soon, null_mut()));
                soon.call_method0(intern!(py, "cancel"))?;
            }
            Ok(())
        }
    }

    /// `reschedule(when)`; `when` is borrowed.
    pub(crate) unsafe fn reschedule(py: Python<'_>, timeout: *mut Self, when: *mut ffi::PyObject) -> PyResult<()> {
        // SAFETY: as above.
        unsafe {
            match (*timeout).phase {
                Phase::Active => {}
                Phase::Created => return Err(PyRuntimeError::new_err("Timeout has not been entered")),
                phase => {
                    let text = format!("Cannot change state of {} Timeout", phase.name());
                    return Err(PyRuntimeError::new_err(text));
                }
            }
            let (seconds, given) = read(py, when)?;
            Self::unset(py, timeout)?;
            (*timeout).when = seconds;
            (*timeout).is_ahead = false;
            put(&raw mut (*timeout).given, ffi::Py_XNewRef(given));
            Self::set(py, timeout)
        }
    }

    /// The time is up: cancel the task.
    pub(crate) unsafe fn ring(py: Python<'_>, timeout: *mut Self) -> PyResult<()> {
        // SAFETY: as above.
        unsafe {
            drop(Bound::from_owned_ptr_or_opt(py, std::mem::replace(&mut (*timeout).soon, null_mut())));
            if (*timeout).phase == Phase::Active {
                let task = Bound::from_borrowed_ptr(py, (*timeout).task);
                task.call_method0(intern!(py, "cancel"))?;
                (*timeout).phase = Phase::Expiring;
            }
            Ok(())
        }
    }

    /// The timeout has left the wheel as due; takes over the wheel's reference.
    pub(crate) unsafe fn expire(py: Python<'_>, timeout: *mut Self) -> PyResult<()> {
        // SAFETY: as above, with the wheel's reference.
        unsafe {
            (*timeout).id = 0;
            let rung = Self::ring(py, timeout);
            ffi::Py_DECREF(timeout.cast());
            rung
        }
    }

    /// `__aexit__`; the exception is borrowed.
    pub(crate) unsafe fn exit(
        py: Python<'_>,
        timeout: *mut Self,
        kind: *mut ffi::PyObject,
        error: *mut ffi::PyObject,
    ) -> PyResult<()> {
        // SAFETY: as above.
        unsafe {
            Self::unset(py, timeout)?;
            match (*timeout).phase {
                Phase::Active => (*timeout).phase = Phase::Finished,
                Phase::Expiring => {
                    (*timeout).phase = Phase::Expired;
                    let left = count(py, (*timeout).task, intern!(py, "uncancel"))?;
                    if left <= (*timeout).cancelling && kind != ffi::Py_None() {
                        // Rare, and as asyncio of this version has it: written in Python.
                        let settle = py.import("tickwheel.aio._settle")?.getattr("settle")?;
                        settle.call1((Borrowed::from_ptr(py, kind), Borrowed::from_ptr(py, error)))?;
                    }
                }
                _ => return Err(PyRuntimeError::new_err("Timeout has not been entered, or was left before")),
            }
            put(&raw mut (*timeout).task, null_mut());
            Ok(())
        }
    }
}

/// `tp_clear`.
pub(crate) unsafe extern "C" fn clear(object: *mut ffi::PyObject) -> std::ffi::c_int {
    // SAFETY: the collector found the timeout unreachable, or it is being freed. Its wheel it keeps: the wheel lets go of it.
    unsafe {
        let this = &mut *object.cast::<TimeoutObject>();
        for field in [&mut this.given, &mut this.task, &mut this.soon] {
            put(field, null_mut());
        }
    }
    0
}

/// `tp_traverse`.
pub(crate) unsafe extern "C" fn traverse(
    object: *mut ffi::PyObject,
    visit: ffi::visitproc,
    arg: *mut std::ffi::c_void,
) -> std::ffi::c_int {
    // SAFETY: called by the collector on a timeout.
    unsafe {
        let this = &*object.cast::<TimeoutObject>();
        for field in [ffi::Py_TYPE(object).cast(), this.given, this.task, this.deadlines, this.soon] {
            if !field.is_null() {
                let answer = visit(field, arg);
                if answer != 0 {
                    return answer;
                }
            }
        }
        0
    }
}

/// `tp_dealloc`: keep the timeout for reuse. One in a wheel is referred to by it.
pub(crate) unsafe extern "C" fn dealloc(object: *mut ffi::PyObject) {
    // SAFETY: nobody refers to the timeout any more.
    unsafe {
        ffi::PyObject_GC_UnTrack(object.cast());
        clear(object);
        put(&raw mut (*object.cast::<TimeoutObject>()).deadlines, null_mut());
        let free = &mut *addr_of_mut!(FREE);
        if free.len < KEPT {
            free.timeouts[free.len] = object.cast();
            free.len += 1;
        } else {
            ffi::PyObject_GC_Del(object.cast());
        }
        ffi::Py_DECREF(TYPE.cast());
    }
}
