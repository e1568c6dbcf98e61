//! The running loop and the running task, taken from asyncio's own records.

use std::sync::OnceLock;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::once::{intern, made_once};

/// The way in which the running task of a loop is looked up.
enum Tasks {
    /// Up to Python 3.13, in the table in which asyncio stores the running task of each loop.
    Table(Py<PyDict>),
    /// From Python 3.14 on, by a call of `asyncio.current_task`, because each thread stores its own running task.
    Function(Py<PyAny>),
}

/// asyncio's records of the running loop and task.
struct Asyncio {
    get_running_loop: Py<PyAny>,
    tasks: Tasks,
    /// asyncio's own task type. The field `cancelling` is the C function of this type's method `cancelling`.
    task_kind: Py<PyAny>,
    cancelling: Option<ffi::PyCFunction>,
}

static ASYNCIO: OnceLock<Asyncio> = OnceLock::new();

impl Asyncio {
    #[inline]
    fn get(py: Python<'_>) -> PyResult<&Self> {
        made_once(&ASYNCIO, || {
            // Read the table from the native module: `asyncio.tasks` still has one in 3.14, but it is empty.
            let native = py.import("_asyncio")?;
            let tasks = match native.getattr_opt("_current_tasks")? {
                Some(table) => Tasks::Table(table.cast_into::<PyDict>()?.unbind()),
                None => Tasks::Function(native.getattr("current_task")?.unbind()),
            };
            let task_kind = native.getattr("Task")?;
            let cancelling = function_of(&task_kind.getattr("cancelling")?);
            Ok(Self {
                get_running_loop: py.import("asyncio.events")?.getattr("get_running_loop")?.unbind(),
                tasks,
                task_kind: task_kind.unbind(),
                cancelling,
            })
        })
    }
}

/// Return the C function of a native method that takes no arguments, or `None` for any other method.
fn function_of(method: &Bound<'_, PyAny>) -> Option<ffi::PyCFunction> {
    // SAFETY: a descriptor of this type has a definition as long as its type lives, and the flags describe the
    // arguments of the function.
    unsafe {
        if ffi::Py_TYPE(method.as_ptr()) != &raw mut ffi::PyMethodDescr_Type {
            return None;
        }
        let definition = (*method.as_ptr().cast::<ffi::PyMethodDescrObject>()).d_method;
        let takes_nothing = (*definition).ml_flags == ffi::METH_NOARGS;
        takes_nothing.then(|| (*definition).ml_meth.PyCFunction)
    }
}

/// Return the number of pending cancellations of a task: `task.cancelling()`.
#[inline]
pub(crate) fn cancelling(task: &Bound<'_, PyAny>) -> PyResult<i64> {
    let py = task.py();
    let asyncio = Asyncio::get(py)?;
    if let (Some(function), true) = (asyncio.cancelling, task.get_type().is(&asyncio.task_kind)) {
        // SAFETY: this is the function of a method of this type, which takes only the object.
        return unsafe { Bound::from_owned_ptr_or_err(py, function(task.as_ptr(), std::ptr::null_mut()))? }.extract();
    }
    task.call_method0(intern!(py, "cancelling"))?.extract()
}

/// Return the running task of a loop, or Python's None if no task runs. The loop must belong to the calling thread.
#[inline]
pub(crate) fn current_task<'py>(py: Python<'py>, home: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    match &Asyncio::get(py)?.tasks {
        // SAFETY: the table and the loop are alive, and the result gets a reference of its own.
        Tasks::Table(table) => unsafe {
            let task = ffi::PyDict_GetItemWithError(table.as_ptr(), home.as_ptr());
            Bound::from_borrowed_ptr_or_opt(py, task).map_or_else(|| absent(py), Ok)
        },
        Tasks::Function(function) => function.bind(py).call1((home,)),
    }
}

/// Return Python's None for a loop that is not in the table, or the exception that the lookup in the table has raised.
#[cold]
fn absent(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    PyErr::take(py).map_or_else(|| Ok(py.None().into_bound(py)), Err)
}

/// Return the running loop, or raise RuntimeError.
#[inline]
pub(crate) fn running_loop(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    #[cfg(all(linux_calls, not(Py_3_12)))]
    if let Some(home) = held::running_loop(py) {
        return Ok(home);
    }
    let home = Asyncio::get(py)?.get_running_loop.bind(py).call0()?;
    #[cfg(all(linux_calls, not(Py_3_12)))]
    held::look(&home);
    Ok(home)
}

/// The running loop of a thread, as asyncio of Python 3.11 stores it: in an object that also stores the id of the
/// process in which the loop was set.
///
/// `get_running_loop` asks the system for the process id each time, because a process may have inherited the loop from
/// its parent in a fork. That takes a third of the time of a whole timeout. A fork handler makes it unnecessary; later
/// versions of Python have such a handler.
#[cfg(all(linux_calls, not(Py_3_12)))]
mod held {
    use std::ptr::null_mut;
    use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};
    use std::sync::Once;

    use pyo3::ffi;
    use pyo3::prelude::*;

    use crate::once::intern;

    #[repr(C)]
    struct Holder {
        ob_base: ffi::PyObject,
        home: *mut ffi::PyObject,
        pid: libc::pid_t,
    }

    /// The type of `Holder` objects; null until an object with the layout of `Holder` has been seen.
    static KIND: AtomicPtr<ffi::PyTypeObject> = AtomicPtr::new(null_mut());
    /// The id of this process.
    static PID: AtomicI32 = AtomicI32::new(0);
    static WATCH: Once = Once::new();

    extern "C" fn note_pid() {
        // SAFETY: the call always succeeds.
        PID.store(unsafe { libc::getpid() }, Ordering::Relaxed);
    }

    unsafe fn holder(py: Python<'_>) -> *mut Holder {
        // SAFETY: the thread's dict and its values are alive or null, and hashing and comparing a string cannot fail.
        unsafe {
            let dict = ffi::PyThreadState_GetDict();
            if dict.is_null() {
                return null_mut();
            }
            ffi::PyDict_GetItemWithError(dict, intern!(py, "__asyncio_running_event_loop__").as_ptr()).cast()
        }
    }

    /// Return the running loop, or `None` if the caller has to ask asyncio.
    #[inline]
    pub(super) fn running_loop(py: Python<'_>) -> Option<Bound<'_, PyAny>> {
        let kind = KIND.load(Ordering::Relaxed);
        if kind.is_null() {
            return None;
        }
        // SAFETY: an object of the recorded type is a `Holder`. The thread keeps it alive, and it keeps its loop or
        // None alive.
        unsafe {
            let holder = holder(py);
            let is_ours = !holder.is_null()
                && ffi::Py_TYPE(holder.cast()) == kind
                && (*holder).pid == PID.load(Ordering::Relaxed)
                && (*holder).home != ffi::Py_None();
            is_ours.then(|| Bound::from_borrowed_ptr(py, (*holder).home))
        }
    }

    /// Record the type of the thread's `Holder`, if its layout is as expected and it contains `home`. The loop `home`
    /// is what asyncio has just returned as the running loop.
    #[cold]
    pub(super) fn look(home: &Bound<'_, PyAny>) {
        WATCH.call_once(|| {
            note_pid();
            // SAFETY: the handler may run in the child of a fork.
            let failed = unsafe { libc::pthread_atfork(None, None, Some(note_pid)) };
            assert_eq!(failed, 0, "there is memory for a handler");
        });
        // SAFETY: the fields are read only if the object is as large as a `Holder`.
        unsafe {
            let holder = holder(home.py());
            if holder.is_null() {
                return; // asyncio without its native part
            }
            let kind = ffi::Py_TYPE(holder.cast());
            let is_long = (*kind).tp_basicsize as usize >= size_of::<Holder>();
            if is_long && (*holder).home == home.as_ptr() && (*holder).pid == PID.load(Ordering::Relaxed) {
                KIND.store(kind, Ordering::Relaxed);
            }
        }
    }
}
