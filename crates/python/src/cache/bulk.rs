//! Many keys in one call.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::cache::object::{Cache, Entry, Life, Unless};

impl Cache {
    /// What those of the keys have that live, by key. Each counts as a lookup.
    pub(crate) fn look_up_all<'py>(&self, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
        let found = PyDict::new(keys.py());
        for key in keys.try_iter()? {
            let key = key?;
            if let Some(value) = self.look(&key)? {
                found.set_item(key, value)?;
            }
        }
        Ok(found)
    }

    /// Put all items of a mapping in, for one life.
    pub(crate) fn put_all<'py>(slf: &Bound<'py, Self>, items: &Bound<'py, PyAny>, life: Life) -> PyResult<()> {
        if !items.hasattr("items")? {
            let message = format!("items is {}: pass a mapping of keys to values", items.repr()?);
            return Err(PyTypeError::new_err(message));
        }
        for item in items.call_method0("items")?.try_iter()? {
            let (key, value): (Bound<'py, PyAny>, Bound<'py, PyAny>) = item?.extract()?;
            Self::put(slf, Entry { key: &key, value: &value, life, unless: Unless::Never })?;
        }
        Ok(())
    }
}
