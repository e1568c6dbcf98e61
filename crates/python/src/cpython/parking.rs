//! Parks threads that are still in Python when the interpreter ends, so that they are not unwound.
//!
//! At its end, the interpreter (before 3.14) ends other threads with `pthread_exit` as soon as they request the GIL. On
//! Linux that unwinds their stacks, and the process aborts when the unwinding reaches a Rust frame of ours or of PyO3,
//! because PyO3 declares that the interpreter's functions never unwind. So every function that may run Python is called
//! through a function of this file. The linker replaces `NAME` with `__wrap_NAME` in the whole module, and
//! `__real_NAME` is the original (`ld --wrap`; the build script reads the names below). An unwinding thread reaches
//! such a function before any other Rust frame, and is parked there, without the GIL, until the process ends.
//!
//! `tests/house/test_crates.py` checks that the list contains every such function that the module imports.

use std::arch::global_asm;

/// The personality routine of the functions below, which stops a thread that unwinds through them. An unwinder calls
/// the personality routine of a frame to learn how to handle the frame.
#[no_mangle]
extern "C" fn tickwheel_park() {
    loop {
        std::thread::park();
    }
}

// This name, like all names here, is for the linker only: the module exports its entry and no other name.
global_asm!(".hidden tickwheel_park");

/// Defines a function that calls another function with its own arguments, and returns the result. All arguments are
/// passed in registers.
macro_rules! passing_on {
    ($name:ident, $call:literal, [$($before:literal),*], [$($after:literal),*] $(, $option:ident)?) => {
        global_asm!(
            concat!(".globl __wrap_", stringify!($name)),
            concat!(".hidden __wrap_", stringify!($name)),
            concat!(".type __wrap_", stringify!($name), ", %function"),
            concat!("__wrap_", stringify!($name), ":"),
            ".cfi_startproc",
            ".cfi_personality 0x1b, tickwheel_park",
            $($before,)*
            concat!($call, " __real_", stringify!($name)),
            $($after,)*
            "ret",
            ".cfi_endproc",
            concat!(".size __wrap_", stringify!($name), ", . - __wrap_", stringify!($name)),
            $(options($option))?
        );
    };
}

#[cfg(target_arch = "x86_64")]
macro_rules! parking {
    ($name:ident) => {
        passing_on!(
            $name,
            "call",
            ["subq $8, %rsp", ".cfi_adjust_cfa_offset 8"],
            ["addq $8, %rsp", ".cfi_adjust_cfa_offset -8"],
            att_syntax
        );
    };
}

#[cfg(target_arch = "aarch64")]
macro_rules! parking {
    ($name:ident) => {
        passing_on!(
            $name,
            "bl",
            ["stp x29, x30, [sp, -16]!", ".cfi_def_cfa_offset 16", ".cfi_offset 29, -16", ".cfi_offset 30, -8"],
            ["ldp x29, x30, [sp], 16", ".cfi_def_cfa_offset 0", ".cfi_restore 29", ".cfi_restore 30"]
        );
    };
}

macro_rules! parked {
    ($($(#[$when:meta])? fn $name:ident();)*) => {
        $(
        $(#[$when])?
        parking!($name);

        $(#[$when])?
        const _: () = {
            #[allow(clashing_extern_declarations, reason = "nothing calls it by this declaration")]
            extern "C" {
                fn $name();
            }

            /// A use of `NAME` that the optimiser cannot remove. Without any use, the linker would not define
            /// `__real_NAME`.
            #[used]
            static USED: unsafe extern "C" fn() = $name;
        };
        )*
    };
}

// These are functions that call objects or methods of objects, functions that make tracked objects, because they may
// start a collection, and functions that release objects or exceptions.
parked! {
    fn PyBuffer_Release();
    fn PyBuffer_ToContiguous();
    fn PyCapsule_Import();
    fn PyContext_Copy();
    fn PyContext_CopyCurrent();
    fn PyDict_GetItemWithError();
    #[cfg(Py_3_13)]
    fn PyDict_GetItemRef();
    fn PyDict_New();
    fn PyDict_SetItem();
    fn PyErr_Clear();
    fn PyErr_NormalizeException();
    fn PyErr_PrintEx();
    fn PyErr_Restore();
    fn PyErr_SetHandledException();
    fn PyErr_SetObject();
    #[cfg(Py_3_12)]
    fn PyErr_SetRaisedException();
    fn PyErr_SetString();
    fn PyErr_WriteUnraisable();
    fn PyException_SetCause();
    fn PyException_SetContext();
    fn PyException_SetTraceback();
    fn PyFloat_AsDouble();
    fn PyImport_Import();
    fn PyIter_Next();
    fn PyList_New();
    fn PyLong_AsLong();
    fn PyLong_AsLongLongAndOverflow();
    fn PyNumber_Absolute();
    fn PyNumber_Add();
    fn PyNumber_Float();
    fn PyNumber_FloorDivide();
    fn PyNumber_Index();
    fn PyNumber_Multiply();
    fn PyNumber_Negative();
    fn PyObject_Call();
    fn PyObject_CallNoArgs();
    fn PyObject_CallOneArg();
    fn PyObject_ClearWeakRefs();
    fn PyObject_DelItem();
    fn PyObject_GenericSetAttr();
    fn PyObject_GenericSetDict();
    fn PyObject_GetAttr();
    fn PyObject_GetBuffer();
    fn PyObject_GetItem();
    fn PyObject_GetIter();
    #[cfg(Py_3_13)]
    fn PyObject_GetOptionalAttr();
    #[cfg(Py_3_13)]
    fn PyObject_HasAttrWithError();
    fn PyObject_Hash();
    fn PyObject_IsInstance();
    fn PyObject_IsTrue();
    fn PyObject_LengthHint();
    fn PyObject_Repr();
    fn PyObject_RichCompare();
    fn PyObject_RichCompareBool();
    fn PyObject_SetAttr();
    fn PyObject_SetAttrString();
    fn PyObject_SetItem();
    fn PyObject_Size();
    fn PyObject_Str();
    fn PyObject_Vectorcall();
    fn PyObject_VectorcallDict();
    fn PyObject_VectorcallMethod();
    fn PySequence_Contains();
    fn PySequence_DelSlice();
    fn PyTraceBack_Print();
    fn PyTuple_GetSlice();
    fn PyTuple_New();
    fn PyType_GenericAlloc();
    fn PyVectorcall_Call();
    fn _PyObject_GC_New();
    fn _PyObject_MakeTpCall();
    fn _Py_Dealloc();
}

/// PyO3 has its own copy of `PyObject_CallOneArg` for CPython 3.11. This copy calls the function that
/// `PyVectorcall_Function` returns, so the call would not pass through this file. Therefore this wrapper returns
/// `PyObject_Vectorcall`, which passes through this file and gives the same result.
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
        // SAFETY: the arguments are those of the caller.
        unsafe { PyVectorcall_Function(callable).map(|_| PyObject_Vectorcall as vectorcallfunc) }
    }
}
