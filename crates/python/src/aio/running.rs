//! The running loop and the running task, as asyncio of this Python has them.

use std::sync::OnceLock;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::once::made_once;

/// How to learn which task is running.
enum Tasks {
    /// asyncio's own table of the running task of each loop, up to 3.13.
    Table(Py<PyDict>),
    /// `asyncio.current_task`, where the threads have the running task, from 3.14 on.
    Function(Py<PyAny>),
}

/// What asyncio has that says where we are.
struct Asyncio {
    get_running_loop: Py<PyAny>,
    tasks: Tasks,
}

static ASYNCIO: OnceLock<Asyncio> = OnceLock::new();

impl Asyncio {
    #[inline]
    fn get(py: Python<'_>) -> PyResult<&Self> {
        made_once(&ASYNCIO, || {
            // Of the native module: the table of `asyncio.tasks` is still there in 3.14, and empty.
            let native = py.import("_asyncio")?;
            let tasks = match native.getattr_opt("_current_tasks")? {
                Some(table) => Tasks::Table(table.cast_into::<PyDict>()?.unbind()),
                None => Tasks::Function(native.getattr("current_task")?.unbind()),
            };
            Ok(Self { get_running_loop: py.import("asyncio.events")?.getattr("get_running_loop")?.unbind(), tasks })
        })
    }
}

/// The task that is running on a loop of this thread, or None.
#[inline]
pub(crate) fn current_task<'py>(py: Python<'py>, home: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    match &Asyncio::get(py)?.tasks {
        // SAFETY: the table and the loop are alive; what is found is kept alive by a reference of its own.
        Tasks::Table(table) => unsafe {
            let task = ffi::PyDict_GetItemWithError(table.as_ptr(), home.as_ptr());
            Bound::from_borrowed_ptr_or_opt(py, task).map_or_else(|| absent(py), Ok)
        },
        Tasks::Function(function) => function.bind(py).call1((home,)),
    }
}

/// None, or the error that a look into the table raised.
#[cold]
fn absent(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    PyErr::take(py).map_or_else(|| Ok(py.None().into_bound(py)), Err)
}

/// The running loop, or RuntimeError.
#[inline]
pub(crate) fn running_loop(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    Asyncio::get(py)?.get_running_loop.bind(py).call0()
}
