//! Engines by number: half a word in a handle, where an address would leave no room for the order of the timer's last move.

use std::ptr::null_mut;

use pyo3::ffi;
use pyo3::prelude::*;

use crate::cpython::cell::GilCell;

/// The number of no engine.
pub(crate) const NONE: u32 = 0;

/// Where the engines are; borrowed from those who have numbers.
struct Places(Vec<*mut ffi::PyObject>);

// SAFETY: an address is a number; it is followed with a timer at hand that keeps its engine alive.
unsafe impl Send for Places {}

pub(crate) struct Numbers(GilCell<Places>);

pub(crate) static ENGINES: Numbers = Numbers(GilCell::new(Places(Vec::new())));

impl Numbers {
    /// Give an engine a number: the lowest that is free, so that the list is never longer than there were engines at a time.
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

    /// The engine with a number.
    #[inline]
    pub(crate) fn get(&self, py: Python<'_>, number: u32) -> *mut ffi::PyObject {
        // SAFETY: what is run inside of this cell is in this file, and nothing of it comes back in.
        unsafe { self.0.with_unchecked(py, |Places(places)| places[number as usize - 1]) }
    }

    /// The engine with a number is freed.
    pub(crate) fn leave(&self, py: Python<'_>, number: u32) {
        self.0.with(py, |Places(places)| places[number as usize - 1] = null_mut());
    }
}
