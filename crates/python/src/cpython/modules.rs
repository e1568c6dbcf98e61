//! Python modules, cached after their import. While the interpreter shuts down, imports fail, but finalizers may still
//! set timers.

use std::sync::OnceLock;

use pyo3::prelude::*;

use crate::once::made_once;

/// A module, imported on first use.
pub(crate) struct Module {
    name: &'static str,
    module: OnceLock<Py<PyModule>>,
}

impl Module {
    const fn new(name: &'static str) -> Self {
        Self { name, module: OnceLock::new() }
    }

    #[inline]
    pub(crate) fn get<'py>(&'static self, py: Python<'py>) -> PyResult<&'py Bound<'py, PyModule>> {
        let module = made_once(&self.module, || Ok(py.import(self.name)?.unbind()))?;
        Ok(module.bind(py))
    }
}

pub(crate) static ARRAY: Module = Module::new("array");
pub(crate) static COROUTINES: Module = Module::new("tickwheel.timers._coroutines");
pub(crate) static ERRORS: Module = Module::new("tickwheel.errors");
pub(crate) static PROXY: Module = Module::new("tickwheel.timers.proxy");
pub(crate) static TYPING: Module = Module::new("tickwheel.typing");

/// Import all modules that an engine may need later.
pub(crate) fn import_for_engines(py: Python<'_>) -> PyResult<()> {
    crate::clock::invalid(py)?;
    [&ARRAY, &COROUTINES, &ERRORS, &PROXY, &TYPING].into_iter().try_for_each(|module| module.get(py).map(drop))
}
