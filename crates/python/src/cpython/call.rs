//! A callback with its arguments, in one reference: the callable itself, or, where there are arguments or a context, a pack of all.

use std::alloc::{handle_alloc_error, Layout};
use std::ptr::{addr_of_mut, null_mut};

use pyo3::ffi;
use pyo3::prelude::*;

use crate::cpython::spares::Spares;

/// Marks a pointer to a `Pack`.
const PACKED: usize = 1;

/// The head of what a tuple `(callback, *args)` would be; the words lie behind it.
///
/// A tuple would be tracked by the collector, which knows them by their engine already: setting and firing a timer with an argument
/// took a fifth longer with one.
#[repr(C)]
struct Pack {
    references: u32,
    /// How many words there are, and `IN_CONTEXT` if the first of them is the context to call in.
    len: u32,
}

/// Marks a pack with a context.
const IN_CONTEXT: u32 = 1 << 31;

impl Pack {
    fn words(&self) -> usize {
        (self.len & !IN_CONTEXT) as usize
    }
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
        // SAFETY: the words are borrowed from the caller's arguments.
        unsafe {
            if let [callback] = words {
                ffi::Py_INCREF(*callback);
                return Self(*callback);
            }
            Self::packed(words, words.len() as u32)
        }
    }

    /// The same, to be called in a context.
    ///
    /// # Safety
    ///
    /// As `new`.
    pub(crate) unsafe fn in_context(context: &Bound<'_, PyAny>, words: &[*mut ffi::PyObject]) -> Self {
        let all = [&[context.as_ptr()], words].concat();
        // SAFETY: all words are borrowed from the caller.
        unsafe { Self::packed(&all, all.len() as u32 | IN_CONTEXT) }
    }

    /// Fill a fresh pack.
    ///
    /// # Safety
    ///
    /// As `new`.
    #[inline]
    unsafe fn packed(words: &[*mut ffi::PyObject], len: u32) -> Self {
        // SAFETY: the words are borrowed from the caller's arguments; a fresh pack is filled before anyone sees it.
        unsafe {
            for &word in words {
                ffi::Py_INCREF(word);
            }
            let pack = Self::room_for(words.len());
            pack.write(Pack { references: 1, len });
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

    /// All that it refers to, borrowed: the context, if there is one, callback and arguments.
    ///
    /// # Safety
    ///
    /// The call is not none and outlives the slice; the GIL is held.
    #[inline]
    pub(crate) unsafe fn all_words(&self) -> &[*mut ffi::PyObject] {
        // SAFETY: the words lie behind the head.
        match self.pack() {
            None => std::slice::from_ref(&self.0),
            Some(pack) => unsafe { std::slice::from_raw_parts(pack.add(1).cast(), (*pack).words()) },
        }
    }

    /// Callback and arguments, borrowed.
    ///
    /// # Safety
    ///
    /// As `all_words`.
    #[inline]
    pub(crate) unsafe fn words(&self) -> &[*mut ffi::PyObject] {
        // SAFETY: a pack with a context begins with that.
        unsafe { &self.all_words()[usize::from(self.has_context())..] }
    }

    #[inline]
    unsafe fn has_context(&self) -> bool {
        // SAFETY: a pack lives as long as the call.
        self.pack().is_some_and(|pack| unsafe { (*pack).len & IN_CONTEXT != 0 })
    }

    /// Call it, in its context, and let `settle` see the result there; null with an exception set if one of them raised.
    ///
    /// # Safety
    ///
    /// As `words`; the caller keeps the call alive meanwhile. `settle` takes over the result.
    #[inline]
    pub(crate) unsafe fn call(
        self,
        settle: impl FnOnce(*mut ffi::PyObject) -> *mut ffi::PyObject,
    ) -> *mut ffi::PyObject {
        // SAFETY: the words are alive for as long as the call is; a context that was entered is left.
        unsafe {
            if self.has_context() {
                return self.call_in_context(settle);
            }
            let words = self.words();
            let result = call(words[0], words[1..].as_ptr(), words.len() - 1);
            if result.is_null() {
                return result;
            }
            settle(result)
        }
    }

    #[inline(never)]
    unsafe fn call_in_context(
        self,
        settle: impl FnOnce(*mut ffi::PyObject) -> *mut ffi::PyObject,
    ) -> *mut ffi::PyObject {
        // SAFETY: as `call`.
        unsafe {
            let (context, words) = (self.all_words()[0], self.words());
            if ffi::PyContext_Enter(context) != 0 {
                return null_mut();
            }
            let mut result = call(words[0], words[1..].as_ptr(), words.len() - 1);
            if !result.is_null() {
                result = settle(result);
            }
            if ffi::PyContext_Exit(context) != 0 {
                ffi::Py_XDECREF(result);
                return null_mut();
            }
            result
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
            for &word in self.all_words() {
                ffi::Py_DECREF(word);
            }
            let words = (*pack).words();
            if words != USUAL || !(*addr_of_mut!(SPARES)).keep(pack) {
                ffi::PyMem_Free(pack.cast());
            }
        }
    }
}
