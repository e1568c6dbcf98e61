//! A callback with its arguments, in one reference: the callable itself, or, where there are arguments, a pack of both.

use std::alloc::{handle_alloc_error, Layout};
use std::ptr::{addr_of_mut, null_mut};

use pyo3::ffi;

use crate::spares::Spares;

/// Marks a pointer to a `Pack`.
const PACKED: usize = 1;

/// The head of what a tuple `(callback, *args)` would be; the words lie behind it.
///
/// A tuple would be tracked by the collector, which knows them by their engine already: setting and firing a timer with an argument
/// took a fifth longer with one.
#[repr(C)]
struct Pack {
    references: u32,
    len: u32,
}

const _: () = assert!(size_of::<Pack>() == size_of::<*mut ffi::PyObject>(), "the words are aligned behind the head");

/// The words of a callback with one argument; packs of that size are kept for reuse.
const USUAL: usize = 2;

static mut SPARES: Spares = Spares::new();

extern "C-unwind" {
    /// As `ffi::PyObject_Vectorcall`, but declared as what it is: a call that may unwind, see `Park`.
    fn PyObject_Vectorcall(
        callback: *mut ffi::PyObject,
        args: *const *mut ffi::PyObject,
        count: usize,
        names: *mut ffi::PyObject,
    ) -> *mut ffi::PyObject;
}

type Vectorcall = unsafe extern "C-unwind" fn(
    *mut ffi::PyObject,
    *const *mut ffi::PyObject,
    usize,
    *mut ffi::PyObject,
) -> *mut ffi::PyObject;

/// Stops a thread that is unwound.
///
/// At its end the interpreter (before 3.14) ends other threads with `pthread_exit` as soon as they want the GIL. That unwinds
/// their stacks, and an unwinding that is none of Rust's aborts the process where it meets Rust. So a thread whose callback is
/// still running then is parked, without the GIL, until the process is gone.
struct Park;

impl Drop for Park {
    fn drop(&mut self) {
        loop {
            std::thread::park();
        }
    }
}

/// Call what may run for as long as the process: null with an exception set if it raised.
///
/// # Safety
///
/// The GIL is held; `callback` and the `count` objects at `args` are kept alive by the caller.
#[inline]
pub(crate) unsafe fn call(
    callback: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: usize,
) -> *mut ffi::PyObject {
    let guard = Park;
    // Behind a pointer that the compiler cannot see through: it also knows the function as one that never unwinds.
    let vectorcall = std::hint::black_box(PyObject_Vectorcall as Vectorcall);
    // SAFETY: as the caller says.
    let result = unsafe { vectorcall(callback, args, count, std::ptr::null_mut()) };
    std::mem::forget(guard);
    result
}

/// A reference that must be released by hand.
#[derive(Clone, Copy)]
pub(crate) struct Call(pub(crate) *mut ffi::PyObject);

impl Call {
    pub(crate) const NONE: Self = Self(std::ptr::null_mut());

    /// Take a new reference to a callback and its arguments.
    ///
    /// # Safety
    ///
    /// The GIL is held; `words` has at least the callback.
    #[inline]
    pub(crate) unsafe fn new(words: &[*mut ffi::PyObject]) -> Self {
        // SAFETY: the words are borrowed from the caller's arguments; a fresh pack is filled before anyone sees it.
        unsafe {
            for &word in words {
                ffi::Py_INCREF(word);
            }
            if let [callback] = words {
                return Self(*callback);
            }
            let pack = Self::room_for(words.len());
            pack.write(Pack { references: 1, len: words.len() as u32 });
            std::ptr::copy_nonoverlapping(words.as_ptr(), pack.add(1).cast(), words.len());
            Self((pack as usize | PACKED) as *mut ffi::PyObject)
        }
    }

    /// Room for a pack, uninitialised.
    ///
    /// # Safety
    ///
    /// The GIL is held.
    #[inline]
    unsafe fn room_for(words: usize) -> *mut Pack {
        // SAFETY: a layout is never empty; the spares were packs of this size.
        unsafe {
            let mut pack: *mut Pack = null_mut();
            if words == USUAL {
                pack = (*addr_of_mut!(SPARES)).take();
            }
            if pack.is_null() {
                // From the interpreter's pools, where packs lie side by side: the system's allocator puts them into the gaps between
                // the wheel's blocks, each on a page of its own, which cost 120 ns to set and fire a timer with a million waiting.
                let layout = Self::layout(words);
                pack = ffi::PyMem_Malloc(layout.size()).cast();
                if pack.is_null() {
                    handle_alloc_error(layout);
                }
            }
            pack
        }
    }

    fn layout(words: usize) -> Layout {
        Layout::array::<*mut ffi::PyObject>(1 + words).expect("arguments that were passed lie in memory")
    }

    /// The pack, where it is one.
    #[inline]
    fn pack(self) -> Option<*mut Pack> {
        (self.0 as usize & PACKED == PACKED).then_some((self.0 as usize & !PACKED) as *mut Pack)
    }

    /// Take one more reference.
    ///
    /// # Safety
    ///
    /// The GIL is held and the call is not none.
    #[inline]
    pub(crate) unsafe fn retain(self) {
        // SAFETY: as the caller says.
        unsafe {
            match self.pack() {
                None => ffi::Py_INCREF(self.0),
                Some(pack) => (*pack).references += 1,
            }
        }
    }

    #[inline]
    pub(crate) fn is_none(self) -> bool {
        self.0.is_null()
    }

    /// Callback and arguments, borrowed.
    ///
    /// # Safety
    ///
    /// The call is not none and outlives the slice; the GIL is held.
    #[inline]
    pub(crate) unsafe fn words(&self) -> &[*mut ffi::PyObject] {
        // SAFETY: the words lie behind the head.
        match self.pack() {
            None => std::slice::from_ref(&self.0),
            Some(pack) => unsafe { std::slice::from_raw_parts(pack.add(1).cast(), (*pack).len as usize) },
        }
    }

    /// Call it; null with an exception set if it raised.
    ///
    /// # Safety
    ///
    /// As `words`; the caller keeps the call alive meanwhile.
    #[inline]
    pub(crate) unsafe fn call(self) -> *mut ffi::PyObject {
        // SAFETY: the words are alive for as long as the call is.
        unsafe {
            let words = self.words();
            call(words[0], words[1..].as_ptr(), words.len() - 1)
        }
    }

    /// Let a reference go. Runs Python: no cell may be entered.
    ///
    /// # Safety
    ///
    /// The GIL is held and the reference is owned.
    #[inline]
    pub(crate) unsafe fn release(self) {
        // SAFETY: as the caller says; the words of the last reference are nobody else's.
        unsafe {
            let Some(pack) = self.pack() else {
                return ffi::Py_XDECREF(self.0);
            };
            (*pack).references -= 1;
            if (*pack).references > 0 {
                return;
            }
            for &word in self.words() {
                ffi::Py_DECREF(word);
            }
            let words = (*pack).len as usize;
            if words != USUAL || !(*addr_of_mut!(SPARES)).keep(pack) {
                ffi::PyMem_Free(pack.cast());
            }
        }
    }
}
