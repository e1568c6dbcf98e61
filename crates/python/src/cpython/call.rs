//! A callback with its arguments, as one reference. Without arguments and context, the reference is to the callable
//! itself.
//!
//! Otherwise it is to a `Pack`. This is a block of memory with pointers to the context (if there is one), the callback
//! and the arguments.

use std::alloc::{handle_alloc_error, Layout};
use std::ptr::null_mut;

use pyo3::ffi;
use pyo3::prelude::*;

use crate::cpython::free_list::FreeList;

/// The bit that marks a pointer to a `Pack`.
const PACKED: usize = 1;

/// The first bytes of a block of memory that contains a callback with its arguments. Pointers to the context (if there
/// is one), to the callback and to the arguments follow.
///
/// It replaces a tuple `(callback, *args)`, which the collector would track. With a tuple, setting and firing a timer
/// with an argument took a fifth longer.
#[repr(C)]
struct Pack {
    references: u32,
    /// The number of pointers, with the bit `IN_CONTEXT` if the first of them is the context of the call.
    len: u32,
}

/// The bit in `Pack::len` for a pack whose first pointer is a context.
const IN_CONTEXT: u32 = 1 << 31;

impl Pack {
    fn words(&self) -> usize {
        (self.len & !IN_CONTEXT) as usize
    }
}

const _: () = assert!(size_of::<Pack>() == size_of::<*mut ffi::PyObject>(), "the words are aligned behind the head");

/// Number of pointers in the most common pack: a callback and one argument. Dead packs of this size are kept for reuse.
const USUAL: usize = 2;

/// Maximum number of dead packs that are kept for reuse. It equals the number of dead timer handles that are kept.
const KEPT: usize = 16 * 1024;

static DEAD: FreeList<Pack> = FreeList::new(KEPT);

/// Call a callback; return null with an exception set if it raised.
///
/// # Safety
///
/// The GIL is held, and the caller keeps `callback` and the `count` objects at `args` alive.
#[inline]
pub(crate) unsafe fn call(
    callback: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: usize,
) -> *mut ffi::PyObject {
    // SAFETY: the caller keeps all arguments alive; null means no names.
    unsafe { ffi::PyObject_Vectorcall(callback, args, count, null_mut()) }
}

/// Enter a copy of a context that could not be entered because it is in use. Return a new reference, or null with the
/// exception still set if the failure had another cause.
///
/// # Safety
///
/// The GIL is held with an exception set, and `context` is a context.
#[cold]
unsafe fn enter_copy(context: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: the copy has no other reference, so it can be entered; otherwise it is released.
    unsafe {
        if ffi::PyErr_ExceptionMatches(ffi::PyExc_RuntimeError) == 0 {
            return null_mut();
        }
        ffi::PyErr_Clear();
        let copy = ffi::PyContext_Copy(context);
        if !copy.is_null() && ffi::PyContext_Enter(copy) != 0 {
            ffi::Py_DECREF(copy);
            return null_mut();
        }
        copy
    }
}

/// A reference to a callback, with its arguments and its context if there are any. The reference must be released
/// explicitly.
#[derive(Clone, Copy)]
pub(crate) struct Callback(pub(crate) *mut ffi::PyObject);

impl Callback {
    pub(crate) const NONE: Self = Self(null_mut());

    /// Take a new reference to a callback and its arguments.
    ///
    /// # Safety
    ///
    /// `words` are living objects, of which the first is the callback.
    #[inline]
    pub(crate) unsafe fn new(py: Python<'_>, words: &[*mut ffi::PyObject]) -> Self {
        // SAFETY: the words are objects borrowed from the caller's arguments, and there is at least one.
        unsafe {
            if let [callback] = words {
                ffi::Py_INCREF(*callback);
                return Self(*callback);
            }
            Self::packed(py, words, words.len() as u32)
        }
    }

    /// Take a new reference to a context, a callback and its arguments.
    ///
    /// # Safety
    ///
    /// `words` are living objects, of which the first is the callback.
    pub(crate) unsafe fn in_context(context: &Bound<'_, PyAny>, words: &[*mut ffi::PyObject]) -> Self {
        let all = [&[context.as_ptr()], words].concat();
        // SAFETY: the caller keeps all words and the context alive.
        unsafe { Self::packed(context.py(), &all, all.len() as u32 | IN_CONTEXT) }
    }

    /// Make a pack that has a new reference to each of the objects `words`.
    ///
    /// # Safety
    ///
    /// `words` are living objects. `len` is their number, with the bit `IN_CONTEXT` if the first of them is a context.
    #[inline]
    unsafe fn packed(py: Python<'_>, words: &[*mut ffi::PyObject], len: u32) -> Self {
        // SAFETY: the words are alive, and a new pack with room for them is filled before it is visible.
        unsafe {
            for &word in words {
                ffi::Py_INCREF(word);
            }
            let pack = Self::room_for(py, words.len());
            pack.write(Pack { references: 1, len });
            std::ptr::copy_nonoverlapping(words.as_ptr(), pack.add(1).cast(), words.len());
            Self((pack as usize | PACKED) as *mut ffi::PyObject)
        }
    }

    /// Return uninitialised memory for a pack of `words` pointers.
    #[inline]
    fn room_for(py: Python<'_>, words: usize) -> *mut Pack {
        if words == USUAL {
            if let Some(dead) = DEAD.take(py) {
                return dead.as_ptr();
            }
        }
        // The memory comes from the interpreter's pools, where packs are adjacent. The system's allocator puts them
        // into the gaps between the wheel's blocks, each on another page, which cost 120 ns per set and firing with a
        // million pending timers.
        let layout =
            Layout::array::<*mut ffi::PyObject>(1 + words).expect("arguments that were passed fit into memory");
        // SAFETY: the GIL is held, as the interpreter's pools require.
        let pack: *mut Pack = unsafe { ffi::PyMem_Malloc(layout.size()) }.cast();
        if pack.is_null() {
            handle_alloc_error(layout);
        }
        pack
    }

    /// Return the address of the pack, or `None` if the reference is to the callable itself.
    #[inline]
    fn pack(self) -> Option<*mut Pack> {
        (self.0 as usize & PACKED == PACKED).then_some((self.0 as usize & !PACKED) as *mut Pack)
    }

    /// Take another reference.
    ///
    /// # Safety
    ///
    /// The GIL is held and the callback is not `NONE`.
    #[inline]
    pub(crate) unsafe fn retain(self) {
        // SAFETY: a call that is not `NONE` is an object or a living pack, and both are changed only with the GIL held.
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

    /// Return the context (if there is one), the callback and the arguments, all borrowed.
    ///
    /// # Safety
    ///
    /// The callback is not `NONE` and outlives the slice, and the GIL is held.
    #[inline]
    pub(crate) unsafe fn all_words(&self) -> &[*mut ffi::PyObject] {
        match self.pack() {
            None => std::slice::from_ref(&self.0),
            // SAFETY: the words of a living pack follow its head.
            Some(pack) => unsafe { std::slice::from_raw_parts(pack.add(1).cast(), (*pack).words()) },
        }
    }

    /// Return the callback and the arguments, borrowed.
    ///
    /// # Safety
    ///
    /// The callback is not `NONE` and outlives the slice, and the GIL is held.
    #[inline]
    pub(crate) unsafe fn words(&self) -> &[*mut ffi::PyObject] {
        // SAFETY: the first word of a pack with a context is the context.
        unsafe { &self.all_words()[usize::from(self.has_context())..] }
    }

    #[inline]
    unsafe fn has_context(&self) -> bool {
        // SAFETY: a pack lives as long as the call.
        self.pack().is_some_and(|pack| unsafe { (*pack).len & IN_CONTEXT != 0 })
    }

    /// Call the callback in its context, and pass the result to `settle` in the same context. Return null with an
    /// exception set if one of the two raised.
    ///
    /// # Safety
    ///
    /// The GIL is held, the callback is not `NONE`, and the caller keeps it alive. `settle` consumes the result.
    #[inline]
    pub(crate) unsafe fn call(
        self,
        settle: impl FnOnce(*mut ffi::PyObject) -> *mut ffi::PyObject,
    ) -> *mut ffi::PyObject {
        // SAFETY: the words live as long as the call, and an entered context is exited.
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
        // SAFETY: the first word of a call with a context is the context, and the second is the callback. An entered
        // context is exited.
        unsafe {
            let (context, words) = (self.all_words()[0], self.words());
            let is_entered = ffi::PyContext_Enter(context) == 0;
            let entered = if is_entered { context } else { enter_copy(context) };
            if entered.is_null() {
                return null_mut();
            }
            let mut result = call(words[0], words[1..].as_ptr(), words.len() - 1);
            if !result.is_null() {
                result = settle(result);
            }
            if ffi::PyContext_Exit(entered) != 0 {
                ffi::Py_XDECREF(std::mem::replace(&mut result, null_mut()));
            }
            if !is_entered {
                ffi::Py_DECREF(entered);
            }
            result
        }
    }

    /// Release the reference. This runs Python code, so the caller must not have a `GilCell` borrowed.
    ///
    /// # Safety
    ///
    /// The caller owns the reference.
    #[inline]
    pub(crate) unsafe fn release(self, py: Python<'_>) {
        // SAFETY: the caller gives up its reference, and the last reference to a pack owns the words of the pack.
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
            if words == USUAL {
                DEAD.keep(py, pack, ffi::PyMem_Free);
            } else {
                ffi::PyMem_Free(pack.cast());
            }
        }
    }
}
