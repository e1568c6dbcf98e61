//! `tickwheel._core`, which contains only bindings. The algorithm is in `tickwheel-core`, and the contracts are in
//! Python, in `tickwheel.wheels.contract` and `tickwheel.timers.contract`.

mod aio;
mod cache;
mod clock;
mod cpython;
mod json;
mod memory;
mod once;
mod system_clock;
mod timers;

use pyo3::exceptions::PyImportError;
use pyo3::ffi;
use pyo3::prelude::*;

/// Refuse the import in a subinterpreter that shares the GIL. Our statics belong to the first interpreter that imports
/// the module, and its objects would leak into other interpreters. CPython itself refuses subinterpreters with a GIL of
/// their own.
fn require_main_interpreter() -> PyResult<()> {
    // SAFETY: a module is imported with the GIL held, so there is an interpreter, which outlives the call.
    if unsafe { ffi::PyInterpreterState_GetID(ffi::PyInterpreterState_Get()) } == 0 {
        return Ok(());
    }
    let text = "tickwheel works in a process's main interpreter only, and this is a subinterpreter: use threads or processes instead; \
                with mod_wsgi, set WSGIApplicationGroup %{GLOBAL}";
    Err(PyImportError::new_err(text))
}

/// The native core of tickwheel.
///
/// The module declares that it uses the GIL, which is its lock, so a free-threaded interpreter enables the GIL.
#[pymodule(gil_used = true)]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    require_main_interpreter()?;
    #[cfg(Py_GIL_DISABLED)]
    cpython::cell::require_gil(module.py())?;
    cpython::method::register(module.py())?;
    timers::coroutine::register(module)?;
    timers::timer_methods::register(module)?;
    timers::set::register(module)?;
    timers::keyed::register(module)?;
    aio::set::register(module)?;
    aio::timeout::register(module)?;
    cpython::record::register(module)?;
    clock::register(module)?;
    json::register(module)?;
    module.add_class::<aio::alarm::Alarm>()?;
    module.add_class::<aio::deadlines::Deadlines>()?;
    module.add_class::<cache::object::Cache>()?;
    module.add_class::<cache::iter::CacheIterator>()?;
    module.add_class::<timers::waiter::Waiter>()?;
    module.add_class::<timers::wheel::Wheel>()
}
