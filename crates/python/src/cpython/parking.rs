//! A thread that is still in Python when the interpreter ends: parked, where it would be unwound.
//!
//! At its end the interpreter (before 3.14) ends other threads with `pthread_exit` as soon as they want the GIL. On Linux that
//! unwinds their stacks, and an unwinding that is none of Rust's aborts the process where it meets Rust: ours, and PyO3's, which
//! declares the interpreter's functions as ones that never unwind. So whatever may run Python is called through a function from here:
//! the linker puts `__wrap_NAME` in place of `NAME` in all of the module, and `__real_NAME` is what that was (`ld --wrap`; the build
//! script reads the names below). A thread that is unwound meets that function before any other of Rust's, and is parked there,
//! without the GIL, until the process is gone.
//!
//! `tests/house/test_crates.py` checks that no function that the module imports is forgotten.

use std::ffi::{c_char, c_int, c_void};

use pyo3::ffi::{PyObject, PyThreadState, PyTypeObject, Py_buffer, Py_hash_t, Py_ssize_t};

/// Stops a thread that is unwound.
struct Park;

impl Drop for Park {
    fn drop(&mut self) {
        loop {
            std::thread::park();
        }
    }
}

macro_rules! parked {
    ($($(#[$when:meta])? fn $name:ident($($arg:ident: $kind:ty),*) $(-> $result:ty)?;)*) => {
        $(
        // For the linker alone: the module exports its entry, and nothing else.
        $(#[$when])?
        std::arch::global_asm!(concat!(".hidden __wrap_", stringify!($name)));

        $(#[$when])?
        const _: () = {
            #[allow(clashing_extern_declarations, reason = "PyO3 says of the same functions that they never unwind")]
            extern "C-unwind" {
                #[link_name = concat!("__real_", stringify!($name))]
                fn real($($arg: $kind),*) $(-> $result)?;
                #[link_name = stringify!($name)]
                fn named($($arg: $kind),*) $(-> $result)?;
            }

            #[export_name = concat!("__wrap_", stringify!($name))]
            unsafe extern "C-unwind" fn wrap($($arg: $kind),*) $(-> $result)? {
                let guard = Park;
                // SAFETY: what the caller passes to the interpreter's function is passed on to that.
                let result = unsafe { real($($arg),*) };
                std::mem::forget(guard);
                result
            }

            /// The linker knows `__real_NAME` only where `NAME` is used, which depends on the optimiser.
            #[used]
            static USED: unsafe extern "C-unwind" fn($($kind),*) $(-> $result)? = named;
        };)*
    };
}

// Calls, and what calls the methods of objects; what makes an object that the collector knows, as it may collect on that; what lets an
// object go, an exception among them.
parked! {
    fn PyBuffer_Release(view: *mut Py_buffer);
    fn PyBuffer_ToContiguous(to: *mut c_void, view: *const Py_buffer, len: Py_ssize_t, order: c_char) -> c_int;
    fn PyCapsule_Import(name: *const c_char, no_block: c_int) -> *mut c_void;
    fn PyContext_Copy(context: *mut PyObject) -> *mut PyObject;
    fn PyContext_CopyCurrent() -> *mut PyObject;
    fn PyDict_GetItemWithError(dict: *mut PyObject, key: *mut PyObject) -> *mut PyObject;
    #[cfg(Py_3_13)]
    fn PyDict_GetItemRef(dict: *mut PyObject, key: *mut PyObject, value: *mut *mut PyObject) -> c_int;
    fn PyDict_New() -> *mut PyObject;
    fn PyDict_SetItem(dict: *mut PyObject, key: *mut PyObject, value: *mut PyObject) -> c_int;
    fn PyErr_Clear();
    fn PyErr_NormalizeException(kind: *mut *mut PyObject, value: *mut *mut PyObject, trace: *mut *mut PyObject);
    fn PyErr_PrintEx(keep: c_int);
    fn PyErr_Restore(kind: *mut PyObject, value: *mut PyObject, trace: *mut PyObject);
    fn PyErr_SetHandledException(error: *mut PyObject);
    fn PyErr_SetObject(kind: *mut PyObject, value: *mut PyObject);
    #[cfg(Py_3_12)]
    fn PyErr_SetRaisedException(error: *mut PyObject);
    fn PyErr_SetString(kind: *mut PyObject, text: *const c_char);
    fn PyErr_WriteUnraisable(source: *mut PyObject);
    fn PyException_SetCause(error: *mut PyObject, cause: *mut PyObject);
    fn PyException_SetTraceback(error: *mut PyObject, trace: *mut PyObject) -> c_int;
    fn PyFloat_AsDouble(object: *mut PyObject) -> f64;
    fn PyImport_Import(name: *mut PyObject) -> *mut PyObject;
    fn PyIter_Next(iterator: *mut PyObject) -> *mut PyObject;
    fn PyList_New(len: Py_ssize_t) -> *mut PyObject;
    fn PyLong_AsLong(object: *mut PyObject) -> std::ffi::c_long;
    fn PyLong_AsLongLongAndOverflow(object: *mut PyObject, overflow: *mut c_int) -> i64;
    fn PyNumber_Add(one: *mut PyObject, other: *mut PyObject) -> *mut PyObject;
    fn PyNumber_Index(object: *mut PyObject) -> *mut PyObject;
    fn PyNumber_Multiply(one: *mut PyObject, other: *mut PyObject) -> *mut PyObject;
    fn PyObject_Call(callable: *mut PyObject, args: *mut PyObject, names: *mut PyObject) -> *mut PyObject;
    fn PyObject_CallNoArgs(callable: *mut PyObject) -> *mut PyObject;
    fn PyObject_CallOneArg(callable: *mut PyObject, arg: *mut PyObject) -> *mut PyObject;
    fn PyObject_ClearWeakRefs(object: *mut PyObject);
    fn PyObject_DelItem(object: *mut PyObject, key: *mut PyObject) -> c_int;
    fn PyObject_GenericSetAttr(object: *mut PyObject, name: *mut PyObject, value: *mut PyObject) -> c_int;
    fn PyObject_GenericSetDict(object: *mut PyObject, value: *mut PyObject, closure: *mut c_void) -> c_int;
    fn PyObject_GetAttr(object: *mut PyObject, name: *mut PyObject) -> *mut PyObject;
    fn PyObject_GetBuffer(object: *mut PyObject, view: *mut Py_buffer, flags: c_int) -> c_int;
    fn PyObject_GetItem(object: *mut PyObject, key: *mut PyObject) -> *mut PyObject;
    fn PyObject_GetIter(object: *mut PyObject) -> *mut PyObject;
    #[cfg(Py_3_13)]
    fn PyObject_GetOptionalAttr(object: *mut PyObject, name: *mut PyObject, value: *mut *mut PyObject) -> c_int;
    #[cfg(Py_3_13)]
    fn PyObject_HasAttrWithError(object: *mut PyObject, name: *mut PyObject) -> c_int;
    fn PyObject_Hash(object: *mut PyObject) -> Py_hash_t;
    fn PyObject_IsInstance(object: *mut PyObject, class: *mut PyObject) -> c_int;
    fn PyObject_IsTrue(object: *mut PyObject) -> c_int;
    fn PyObject_LengthHint(object: *mut PyObject, default: Py_ssize_t) -> Py_ssize_t;
    fn PyObject_Repr(object: *mut PyObject) -> *mut PyObject;
    fn PyObject_RichCompare(one: *mut PyObject, other: *mut PyObject, how: c_int) -> *mut PyObject;
    fn PyObject_RichCompareBool(one: *mut PyObject, other: *mut PyObject, how: c_int) -> c_int;
    fn PyObject_SetAttr(object: *mut PyObject, name: *mut PyObject, value: *mut PyObject) -> c_int;
    fn PyObject_SetAttrString(object: *mut PyObject, name: *const c_char, value: *mut PyObject) -> c_int;
    fn PyObject_SetItem(object: *mut PyObject, key: *mut PyObject, value: *mut PyObject) -> c_int;
    fn PyObject_Size(object: *mut PyObject) -> Py_ssize_t;
    fn PyObject_Str(object: *mut PyObject) -> *mut PyObject;
    fn PyObject_Vectorcall(f: *mut PyObject, args: *const *mut PyObject, len: usize, names: *mut PyObject) -> *mut PyObject;
    fn PyObject_VectorcallDict(f: *mut PyObject, args: *const *mut PyObject, len: usize, names: *mut PyObject) -> *mut PyObject;
    fn PyObject_VectorcallMethod(f: *mut PyObject, args: *const *mut PyObject, len: usize, names: *mut PyObject) -> *mut PyObject;
    fn PySequence_Contains(object: *mut PyObject, item: *mut PyObject) -> c_int;
    fn PyTraceBack_Print(trace: *mut PyObject, file: *mut PyObject) -> c_int;
    fn PyTuple_GetSlice(tuple: *mut PyObject, low: Py_ssize_t, high: Py_ssize_t) -> *mut PyObject;
    fn PyTuple_New(len: Py_ssize_t) -> *mut PyObject;
    fn PyType_GenericAlloc(class: *mut PyTypeObject, items: Py_ssize_t) -> *mut PyObject;
    fn PyVectorcall_Call(callable: *mut PyObject, args: *mut PyObject, names: *mut PyObject) -> *mut PyObject;
    fn _PyObject_GC_New(class: *mut PyTypeObject) -> *mut PyObject;
    fn _PyObject_MakeTpCall(
        thread: *mut PyThreadState, f: *mut PyObject, args: *const *mut PyObject, len: Py_ssize_t, names: *mut PyObject
    ) -> *mut PyObject;
    fn _Py_Dealloc(object: *mut PyObject);
}

/// What PyO3 does not leave to the interpreter: for CPython 3.11 it has the code of `PyObject_CallOneArg` in itself, which asks what to
/// call. It gets the general function, which ends the same way.
#[cfg(not(Py_3_12))]
mod inlined {
    use pyo3::ffi::{vectorcallfunc, PyObject, PyObject_Vectorcall};

    #[rustfmt::skip] // the build script reads the name
    extern "C" {
    #[link_name = "__real_PyVectorcall_Function"]
    fn PyVectorcall_Function(callable: *mut PyObject) -> Option<vectorcallfunc>;
    }

    std::arch::global_asm!(".hidden __wrap_PyVectorcall_Function");

    #[export_name = "__wrap_PyVectorcall_Function"]
    unsafe extern "C" fn function_of(callable: *mut PyObject) -> Option<vectorcallfunc> {
        // SAFETY: the caller's object is passed on.
        unsafe { PyVectorcall_Function(callable).map(|_| PyObject_Vectorcall as vectorcallfunc) }
    }
}
