//! A callback with its arguments, in one reference: the callable itself, or, where there are arguments, a tuple of both.

use pyo3::ffi;

/// Marks a pointer to a tuple `(callback, *args)`.
const PACKED: usize = 1;

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

/// An owned reference that must be released by hand.
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
    pub(crate) unsafe fn new(words: &[*mut ffi::PyObject]) -> Option<Self> {
        // SAFETY: the words are borrowed from the caller's arguments.
        unsafe {
            if let [callback] = words {
                ffi::Py_INCREF(*callback);
                return Some(Self(*callback));
            }
            Self::pack(words)
        }
    }

    unsafe fn pack(words: &[*mut ffi::PyObject]) -> Option<Self> {
        // SAFETY: a fresh tuple is filled before anyone sees it.
        unsafe {
            let packed = ffi::PyTuple_New(words.len() as ffi::Py_ssize_t);
            if packed.is_null() {
                return None;
            }
            for (at, &word) in words.iter().enumerate() {
                ffi::Py_INCREF(word);
                ffi::PyTuple_SET_ITEM(packed, at as ffi::Py_ssize_t, word);
            }
            Some(Self((packed as usize | PACKED) as *mut ffi::PyObject))
        }
    }

    /// The object that is referred to: what the collector is shown.
    #[inline]
    pub(crate) fn object(self) -> *mut ffi::PyObject {
        (self.0 as usize & !PACKED) as *mut ffi::PyObject
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
        if self.0 as usize & PACKED == 0 {
            return std::slice::from_ref(&self.0);
        }
        let packed = self.object();
        // SAFETY: a tuple's items lie in a row behind its first one.
        unsafe {
            let items = (&raw const (*packed.cast::<ffi::PyTupleObject>()).ob_item).cast();
            std::slice::from_raw_parts(items, ffi::PyTuple_GET_SIZE(packed) as usize)
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

    /// Let it go. Runs Python: no cell may be entered.
    ///
    /// # Safety
    ///
    /// The GIL is held and the reference is owned.
    #[inline]
    pub(crate) unsafe fn release(self) {
        // SAFETY: as the caller says.
        unsafe { ffi::Py_XDECREF(self.object()) }
    }
}
