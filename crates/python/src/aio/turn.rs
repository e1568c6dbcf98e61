//! One iteration of an `EventLoop`: it appends due handles to `_ready`, and runs the ready handles.

use std::sync::atomic::Ordering;
use std::sync::OnceLock;

use pyo3::exceptions::{PyKeyboardInterrupt, PySystemExit};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyType};
use tickwheel_core::Pop;

use crate::aio::event_loop::{Pending, TimerLoop};
use crate::aio::handle::{layout, leave, share_context, tail, HandleObject, Layout};
use crate::aio::time::Genuine;
use crate::cpython::call::call;
use crate::once::{intern, made_once};

/// Maximum number of timers that one iteration of the loop moves from slot to slot before it does I/O. This takes about
/// a millisecond.
const WORK: usize = 32_768;

pub(crate) fn deliver(slf: &Bound<'_, TimerLoop>) -> PyResult<()> {
    let (py, this) = (slf.py(), slf.get());
    if this.state.with(py, |state| state.wheel.is_empty()) {
        return Ok(());
    }
    let now = TimerLoop::now(slf)?;
    let due = take_due(py, this, now.deadline(py)?, now.seconds());
    if due.is_empty() {
        return Ok(());
    }
    // SAFETY: the list gets the references of the wheel.
    let due = unsafe {
        let owned = |handle| {
            leave(handle);
            Bound::from_owned_ptr(py, handle.cast())
        };
        due.into_iter().map(owned).collect::<Vec<_>>()
    };
    let ready = slf.getattr(intern!(py, "_ready"))?;
    if let [handle] = due.as_slice() {
        return ready.call_method1(intern!(py, "append"), (handle,)).map(drop);
    }
    ready.call_method1(intern!(py, "extend"), (PyList::new(py, due)?,)).map(drop)
}

/// Take the due handles out of the wheel, and return them in the order of their times.
fn take_due(py: Python<'_>, this: &TimerLoop, deadline: u64, now: f64) -> Vec<*mut HandleObject> {
    let mut work = WORK;
    this.state.with(py, |state| {
        let (mut due, mut early) = (Vec::new(), Vec::new());
        state.wheel.begin_turn(deadline);
        let pop = loop {
            match state.wheel.pop(&mut work) {
                Pop::Expired(entry) => {
                    let handle = entry.payload.0;
                    // SAFETY: the reference of the entry keeps the handle alive.
                    if unsafe { tail(handle).when } > now {
                        early.push((handle, entry.deadline));
                    } else {
                        due.push(handle);
                    }
                }
                left => break left,
            }
        };
        state.wheel.end_turn();
        this.is_behind.store(matches!(pop, Pop::Busy), Ordering::Relaxed);
        // The loop's own clock may stop within a nanosecond; timers that are due later in that nanosecond wait, in
        // order.
        for (handle, deadline) in early {
            let id = state.wheel.insert(deadline, Pending(handle));
            // SAFETY: the wheel has its reference to the handle again.
            unsafe { tail(handle).id = id.to_u64() };
        }
        // SAFETY: due handles still have the wheel's reference.
        let when = |handle: &*mut HandleObject| unsafe { tail(*handle).when };
        // The wheel orders by nanoseconds, but floats distinguish finer times. The sort is stable, so at equal times
        // the handle that was set first fires first.
        if !due.is_sorted_by(|one, other| when(one) <= when(other)) {
            due.sort_by(|one, other| when(one).total_cmp(&when(other)));
        }
        due
    })
}

/// The three classes of handles that can be run natively, each with the check that its `_run` is still asyncio's own.
static RUN_WATCH: OnceLock<[(Py<PyType>, Genuine); 3]> = OnceLock::new();

/// Return the three classes of handles that can be run natively; the second is `tickwheel.aio.TimerHandle`. A class
/// whose `_run` was changed is replaced by null.
fn untouched(py: Python<'_>) -> PyResult<[*mut ffi::PyTypeObject; 3]> {
    let watch = made_once(&RUN_WATCH, || {
        let Layout { kind, bases: [handle, timer], .. } = layout();
        let name = intern!(py, "_run");
        let original = handle.bind(py).getattr(name)?;
        Ok([handle, kind, timer].map(|kind| (kind.clone_ref(py), Genuine::new(name, original.clone()))))
    })?;
    let mut kinds = [std::ptr::null_mut(); 3];
    for (place, (kind, genuine)) in kinds.iter_mut().zip(watch) {
        let kind = kind.as_ptr().cast();
        // SAFETY: the watch has a reference to each of its types.
        if unsafe { genuine.is_in(py, kind)? } {
            *place = kind;
        }
    }
    Ok(kinds)
}

pub(crate) fn run_ready(slf: &Bound<'_, TimerLoop>) -> PyResult<()> {
    let py = slf.py();
    let ready = slf.getattr(intern!(py, "_ready"))?;
    let popleft = ready.getattr(intern!(py, "popleft"))?;
    let kinds = untouched(py)?;
    for _ in 0..ready.len()? {
        let handle = popleft.call0()?;
        if !kinds.contains(&handle.get_type_ptr()) {
            if !handle.getattr(intern!(py, "_cancelled"))?.is_truthy()? {
                handle.call_method0(intern!(py, "_run"))?;
            }
            continue;
        }
        // SAFETY: our reference keeps the handle alive, and its type begins with the fields of a handle.
        unsafe { run(slf, &handle, kinds[1])? };
    }
    Ok(())
}

/// Run a handle natively, as `Handle._run` would do.
#[inline]
unsafe fn run(slf: &Bound<'_, TimerLoop>, handle: &Bound<'_, PyAny>, ours: *mut ffi::PyTypeObject) -> PyResult<()> {
    let py = slf.py();
    // SAFETY: our references keep the callback and its arguments alive, whatever the callback does to its handle.
    unsafe {
        let this = handle.as_ptr().cast::<HandleObject>();
        if (*this).cancelled == ffi::Py_True() {
            return Ok(());
        }
        if handle.get_type_ptr() == ours {
            share_context(this);
        }
        let words = [(*this).context, (*this).callback, (*this).args];
        if words.iter().any(|word| word.is_null()) || ffi::PyTuple_CheckExact(words[2]) == 0 {
            return handle.call_method0(intern!(py, "_run")).map(drop);
        }
        let kept = words.map(|word| Bound::from_borrowed_ptr(py, word));
        let result = Bound::from_owned_ptr_or_err(py, call_in(words));
        drop(kept);
        result.map(drop).or_else(|error| report(slf, handle, error))
    }
}

/// Call `callback(*args)` in `context`; return null with an exception set if the callback raised.
#[inline]
unsafe fn call_in([context, callback, args]: [*mut ffi::PyObject; 3]) -> *mut ffi::PyObject {
    // SAFETY: the items of a tuple are adjacent, and `PyContext_Enter` refuses an object that is not a context.
    unsafe {
        if ffi::PyContext_Enter(context) != 0 {
            return std::ptr::null_mut();
        }
        let items = (&raw const (*args.cast::<ffi::PyTupleObject>()).ob_item).cast();
        let count = ffi::PyTuple_GET_SIZE(args) as usize;
        let result = call(callback, items, count);
        if ffi::PyContext_Exit(context) != 0 {
            ffi::Py_XDECREF(result);
            return std::ptr::null_mut();
        }
        result
    }
}

/// Pass the exception of a callback to the loop's exception handler. As in an `except` block, `sys.exception()` returns
/// the exception while the handler runs. SystemExit and KeyboardInterrupt are not passed to the handler, but returned.
#[cold]
fn report(slf: &Bound<'_, TimerLoop>, handle: &Bound<'_, PyAny>, error: PyErr) -> PyResult<()> {
    let py = slf.py();
    if error.is_instance_of::<PySystemExit>(py) || error.is_instance_of::<PyKeyboardInterrupt>(py) {
        return Err(error);
    }
    let error = error.into_value(py);
    // SAFETY: the former exception is restored afterwards.
    unsafe {
        let former = ffi::PyErr_GetHandledException();
        ffi::PyErr_SetHandledException(error.as_ptr());
        let told = slf.call_method1(intern!(py, "_callback_failed"), (handle, error));
        ffi::PyErr_SetHandledException(former);
        ffi::Py_XDECREF(former);
        told.map(drop)
    }
}
