//! Engines by number: half a word in a handle, where an address would leave no room for the order of the timer's last move.

use std::cell::UnsafeCell;
use std::ptr::null_mut;

use pyo3::ffi;
use pyo3::prelude::*;

/// The number of no engine.
pub(crate) const NONE: u32 = 0;

/// Where the engines are; borrowed from those who have numbers.
pub(crate) struct Numbers(UnsafeCell<Vec<*mut ffi::PyObject>>);

// SAFETY: every method needs a `Python` token, so threads take turns, and none runs anything that could come back in.
unsafe impl Sync for Numbers {}

pub(crate) static ENGINES: Numbers = Numbers(UnsafeCell::new(Vec::new()));

impl Numbers {
    /// Give an engine a number: the lowest that is free, so that the list is never longer than there were engines at a time.
    #[cold]
    pub(crate) fn enter(&self, _py: Python<'_>, engine: *mut ffi::PyObject) -> u32 {
        // SAFETY: the token keeps other threads out.
        let places = unsafe { &mut *self.0.get() };
        let free = places.iter().position(|place| place.is_null()).unwrap_or_else(|| {
            places.push(null_mut());
            places.len() - 1
        });
        places[free] = engine;
        free as u32 + 1
    }

    /// The engine with a number.
    #[inline]
    pub(crate) fn get(&self, _py: Python<'_>, number: u32) -> *mut ffi::PyObject {
        // SAFETY: the token keeps other threads out.
        unsafe { (&*self.0.get())[number as usize - 1] }
    }

    /// The engine with a number is freed.
    pub(crate) fn leave(&self, _py: Python<'_>, number: u32) {
        if number != NONE {
            // SAFETY: the token keeps other threads out.
            unsafe { (&mut *self.0.get())[number as usize - 1] = null_mut() };
        }
    }
}
