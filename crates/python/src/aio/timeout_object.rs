//! `TimeoutObject`: the memory layout of a timeout, how it is made and freed, and how it cancels its task.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use pyo3::ffi;
use pyo3::prelude::*;

use crate::aio::handle::put;
use crate::cpython::free_list::FreeList;
use crate::cpython::type_builder::KnownType;
use crate::once::intern;

/// The state of a timeout; `repr(timeout)` shows its name.
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

/// The layout of a `Timeout`. Its fields are accessed only with the GIL held; its pointers are owned or null.
#[repr(C)]
pub(crate) struct TimeoutObject {
    ob_base: ffi::PyObject,
    /// The deadline if it is not a float: None, or the object that was passed.
    pub(crate) given: *mut ffi::PyObject,
    pub(crate) task: *mut ffi::PyObject,
    /// The `Deadlines` of the timeout's loop, or null before `timeout_at` is entered.
    pub(crate) deadlines: *mut ffi::PyObject,
    /// The handle in the loop's ready list, if the timeout was already due when it was set.
    pub(crate) soon: *mut ffi::PyObject,
    pub(crate) when: f64,
    /// The id of the entry while the timeout is in the wheel, or is due and about to expire; otherwise 0.
    pub(crate) id: u64,
    /// Number of pending cancellations of the task when the task entered the timeout.
    pub(crate) cancelling: i64,
    pub(crate) phase: Phase,
    /// True if the deadline was still in the future when it was computed.
    pub(crate) is_ahead: bool,
}

/// Maximum number of dead timeouts that are kept for reuse.
const KEPT: usize = 256;

pub(crate) static TYPE: KnownType = KnownType::new();
static DEAD: FreeList<TimeoutObject> = FreeList::new(KEPT);

/// Make a timeout that is not entered yet; `given` is borrowed or null.
///
/// # Safety
///
/// `given` is null or an object.
pub(crate) unsafe fn new(
    py: Python<'_>,
    deadlines: Option<Bound<'_, PyAny>>,
    when: f64,
    given: *mut ffi::PyObject,
    is_ahead: bool,
) -> PyResult<*mut ffi::PyObject> {
    // SAFETY: the free list holds dead timeouts of this type. Every field is written before the collector sees the
    // object.
    unsafe {
        let timeout = DEAD.object(py, TYPE.get(), || ffi::PyObject_GC_New(TYPE.get()))?;
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

impl TimeoutObject {
    /// Cancel the timeout's task, because the deadline has passed.
    ///
    /// # Safety
    ///
    /// The caller has a reference to the timeout.
    pub(crate) unsafe fn ring(py: Python<'_>, timeout: *mut Self) -> PyResult<()> {
        // SAFETY: the timeout is alive, owns its handle, and has a task while it is active.
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

    /// Expire a due timeout whose entry `id` was taken out of the wheel, unless the timeout was exited or moved since
    /// then.
    ///
    /// # Safety
    ///
    /// The caller gives up the wheel's reference to the timeout.
    pub(crate) unsafe fn expire(py: Python<'_>, timeout: *mut Self, id: u64) -> PyResult<()> {
        // SAFETY: the wheel's reference keeps the timeout alive until it is given up here.
        unsafe {
            let mut rung = Ok(());
            if (*timeout).id == id {
                (*timeout).id = 0;
                rung = Self::ring(py, timeout);
            }
            ffi::Py_DECREF(timeout.cast());
            rung
        }
    }
}

pub(crate) unsafe extern "C" fn clear(object: *mut ffi::PyObject) -> c_int {
    // SAFETY: the collector found the timeout unreachable, or it is being freed. The field `deadlines` stays, and the
    // wheel releases the timeout.
    unsafe {
        let this = &mut *object.cast::<TimeoutObject>();
        for field in [&mut this.given, &mut this.task, &mut this.soon] {
            put(field, null_mut());
        }
    }
    0
}

pub(crate) unsafe extern "C" fn traverse(object: *mut ffi::PyObject, visit: ffi::visitproc, arg: *mut c_void) -> c_int {
    // SAFETY: called by the collector on a timeout.
    unsafe {
        let this = &*object.cast::<TimeoutObject>();
        let fields = [ffi::Py_TYPE(object).cast(), this.given, this.task, this.deadlines, this.soon];
        let mut answers = fields.into_iter().filter(|field| !field.is_null()).map(|field| visit(field, arg));
        answers.find(|&answer| answer != 0).unwrap_or(0)
    }
}

/// `tp_dealloc`: keep the timeout for reuse. A timeout in the wheel is never freed, because the wheel has a reference
/// to it.
pub(crate) unsafe extern "C" fn dealloc(object: *mut ffi::PyObject) {
    // SAFETY: objects are freed with the GIL held and without other references, so we may clear the fields.
    unsafe {
        ffi::PyObject_GC_UnTrack(object.cast());
        clear(object);
        put(&raw mut (*object.cast::<TimeoutObject>()).deadlines, null_mut());
        DEAD.keep(Python::assume_attached(), object.cast(), ffi::PyObject_GC_Del);
        ffi::Py_DECREF(TYPE.get().cast());
    }
}
