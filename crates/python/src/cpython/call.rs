//! A callback with its arguments, in one reference: the callable itself, or, with arguments or a context, a pack of
//! callable, arguments and context.

use std::alloc::{handle_alloc_error, Layout};
use std::ptr::null_mut;

use pyo3::ffi;
use pyo3::prelude::*;

use crate::cpython::free_list::FreeList;

/// Marks a pointer to a `Pack`.
const PACKED: usize = 1;

/// The head of a pack, which replaces a tuple `(callback, *args)`; the words follow it.
///
/// The collector would track a tuple, although it already traverses the words through the engine. With a tuple, setting
/// and firing a timer with an argument took a fifth longer.
#[repr(C)]
struct Pack {
    references: u32,
    /// The number of words, and `IN_CONTEXT` if the first one is the context of the call.
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

/// The number of words of a callback with one argument; packs of that size are kept for reuse.
const USUAL: usize = 2;

/// Maximum number of kept packs: as many as dead handles with such a pack.
const KEPT: usize = 16 * 1024;

static DEAD: FreeList<Pack> = FreeList::new(KEPT);

/// Call a callback, which may run for any time: null with an exception set if it raised.
///
/// # Safety
///
/// The GIL is held; the caller keeps `callback` and the `count` objects at `args` alive.
#[inline]
pub(crate) unsafe fn call(
    callback: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: usize,
) -> *mut ffi::PyObject {
    // SAFETY: the caller keeps all arguments alive; null means no names.
    unsafe { ffi::PyObject_Vectorcall(callback, args, count, null_mut()) }
}

/// Enter a copy of a context that is already entered: returns a new reference, or null with the exception set if it had
/// another cause.
///
/// # Safety
///
/// The GIL is held with an exception set, and `context` is a context.
#[cold]
unsafe fn enter_copy(context: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: the copy has no other reference, so it can be entered; it is released if it is not.
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

/// A reference that must be released manually.
#[derive(Clone, Copy)]
pub(crate) struct Callback(pub(crate) *mut ffi::PyObject);

impl Callback {
    pub(crate) const NONE: Self = Self(null_mut());

    /// Take a new reference to a callback and its arguments.
    ///
    /// # Safety
    ///
    /// `words` are living objects, and the first is the callback.
    #[inline]
    pub(crate) unsafe fn new(py: Python<'_>, words: &[*mut ffi::PyObject]) -> Self {
        // SAFETY: the words are objects, borrowed from the caller's arguments, and the first is there.
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
    /// `words` are living objects, and the first is the callback.
    pub(crate) unsafe fn in_context(context: &Bound<'_, PyAny>, words: &[*mut ffi::PyObject]) -> Self {
        let all = [&[context.as_ptr()], words].concat();
        // SAFETY: the caller keeps all words and the context alive.
        unsafe { Self::packed(context.py(), &all, all.len() as u32 | IN_CONTEXT) }
    }

    /// Fill a fresh pack.
    ///
    /// # Safety
    ///
    /// `words` are living objects, as many as `len` says.
    #[inline]
    unsafe fn packed(py: Python<'_>, words: &[*mut ffi::PyObject], len: u32) -> Self {
        // SAFETY: the words are alive, and a fresh pack with room for them is filled before it is visible.
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

    /// Uninitialised memory for a pack.
    #[inline]
    fn room_for(py: Python<'_>, words: usize) -> *mut Pack {
        if words == USUAL {
            if let Some(dead) = DEAD.take(py) {
                return dead.as_ptr();
            }
        }
        // From the interpreter's pools, where packs are adjacent: the system's allocator puts them into the gaps
        // between the wheel's blocks, each on a page of its own, which cost 120 ns per set and firing with a million
        // timers pending.
        let layout =
            Layout::array::<*mut ffi::PyObject>(1 + words).expect("arguments that were passed fit into memory");
        // SAFETY: the GIL is held, as the interpreter's pools require.
        let pack: *mut Pack = unsafe { ffi::PyMem_Malloc(layout.size()) }.cast();
        if pack.is_null() {
            handle_alloc_error(layout);
        }
        pack
    }

    /// The pack, if the call is one.
    #[inline]
    fn pack(self) -> Option<*mut Pack> {
        (self.0 as usize & PACKED == PACKED).then_some((self.0 as usize & !PACKED) as *mut Pack)
    }

    /// Take one more reference.
    ///
    /// # Safety
    ///
    /// The GIL is held and the call is not `NONE`.
    #[inline]
    pub(crate) unsafe fn retain(self) {
        // SAFETY: a call other than `NONE` is an object or a living pack, and both are changed with the GIL held only.
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

    /// All its references, borrowed: the context, if there is one, callback and arguments.
    ///
    /// # Safety
    ///
    /// The call is not `NONE` and outlives the slice; the GIL is held.
    #[inline]
    pub(crate) unsafe fn all_words(&self) -> &[*mut ffi::PyObject] {
        match self.pack() {
            None => std::slice::from_ref(&self.0),
            // SAFETY: the words of a living pack follow its head.
            Some(pack) => unsafe { std::slice::from_raw_parts(pack.add(1).cast(), (*pack).words()) },
        }
    }

    /// Callback and arguments, borrowed.
    ///
    /// # Safety
    ///
    /// The call is not `NONE` and outlives the slice; the GIL is held.
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

    /// Call it, in its context, and pass the result to `settle` there; null with an exception set if one of them
    /// raised.
    ///
    /// # Safety
    ///
    /// The GIL is held, and the call is not `NONE`; the caller keeps it alive. `settle` consumes the result.
    #[inline]
    pub(crate) unsafe fn call(
        self,
        settle: impl FnOnce(*mut ffi::PyObject) -> *mut ffi::PyObject,
    ) -> *mut ffi::PyObject {
        // SAFETY: the words live as long as the call; an entered context is exited.
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
        // SAFETY: a call with a context has the context as its first word and the callback as its second; an entered
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

    /// Release the reference. Runs Python: no cell may be entered.
    ///
    /// # Safety
    ///
    /// The reference is owned.
    #[inline]
    pub(crate) unsafe fn release(self, py: Python<'_>) {
        // SAFETY: the caller gives up its reference; the last reference to a pack owns its words.
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
