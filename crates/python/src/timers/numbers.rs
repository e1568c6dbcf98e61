//! Numbers of engines. A handle stores the 32-bit number of its engine. An address would take 64 bits, and would leave
//! no room for the sequence number of the timer's last move.

use std::ptr::null_mut;

use pyo3::ffi;
use pyo3::prelude::*;

use crate::cpython::cell::GilCell;

/// The number that means no engine.
pub(crate) const NONE: u32 = 0;

/// The addresses of engines, by number. They are not counted as references.
struct Places(Vec<*mut ffi::PyObject>);

// SAFETY: an address is a number, and is dereferenced only for a timer that keeps its engine alive.
unsafe impl Send for Places {}

pub(crate) struct EngineRegistry(GilCell<Places>);

pub(crate) static ENGINES: EngineRegistry = EngineRegistry(GilCell::new(Places(Vec::new())));

impl EngineRegistry {
    /// Assign the lowest free number to an engine, so that the list is only as long as the largest number of engines
    /// that existed at the same time.
    #[cold]
    pub(crate) fn enter(&self, py: Python<'_>, engine: *mut ffi::PyObject) -> u32 {
        self.0.with(py, |Places(places)| {
            let free = places.iter().position(|place| place.is_null()).unwrap_or_else(|| {
                places.push(null_mut());
                places.len() - 1
            });
            places[free] = engine;
            free as u32 + 1
        })
    }

    /// Return the address of the engine to which `number` is assigned.
    #[inline]
    pub(crate) fn get(&self, py: Python<'_>, number: u32) -> *mut ffi::PyObject {
        // SAFETY: all code that borrows this cell is in this file, and does not borrow it a second time.
        unsafe { self.0.with_unchecked(py, |Places(places)| places[number as usize - 1]) }
    }

    /// Free the number of an engine, because the engine is being freed.
    pub(crate) fn leave(&self, py: Python<'_>, number: u32) {
        self.0.with(py, |Places(places)| places[number as usize - 1] = null_mut());
    }
}
