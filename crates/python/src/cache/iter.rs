//! Iteration over a cache that may change during the iteration.

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use tickwheel_core::Id;

use crate::cache::object::Cache;

/// Iterates over the entries that a cache has when the iterator is made. An entry that leaves the cache or expires
/// before the iterator reaches it is skipped.
///
/// The iterator stores entries by id, so no key is hashed or compared, and changes of the cache do not disturb it.
#[pyclass(module = "tickwheel._core")]
pub(crate) struct CacheIterator {
    /// The cache, or None once the iteration has ended.
    cache: Option<Py<Cache>>,
    ids: std::vec::IntoIter<Id>,
    kind: u8,
}

impl CacheIterator {
    pub(crate) fn new(cache: &Bound<'_, Cache>, kind: u8) -> Self {
        let ids = cache.get().store.with(cache.py(), |store| store.ids());
        Self { cache: Some(cache.clone().unbind()), ids: ids.into_iter(), kind }
    }
}

#[pymethods]
impl CacheIterator {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(cache) = &self.cache else {
            return Ok(None);
        };
        let cache = cache.get();
        let now = cache.now(py)?;
        let found = cache.store.with(py, |store| {
            let now = store.at(now);
            self.ids.find_map(|id| store.peek(py, id, now))
        });
        let Some((key, value, life, left, most)) = found else {
            self.cache = None;
            return Ok(None);
        };
        match self.kind {
            0 => Ok(key.into_bound(py)),
            1 => Ok(value.into_bound(py)),
            2 => Ok((key, value).into_pyobject(py)?.into_any()),
            _ => Ok((key, value, life, left, most).into_pyobject(py)?.into_any()),
        }
        .map(Some)
    }

    fn __length_hint__(&self) -> usize {
        self.ids.len()
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.cache)
    }

    fn __clear__(&mut self) {
        self.cache = None;
    }
}
