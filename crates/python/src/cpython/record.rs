//! `make_fast` lets the interpreter make the objects of a class with slots without running its `__init__`.
//!
//! The `__init__` of a dataclass costs a frame, and a store for each field. A type's `tp_vectorcall` needs only one
//! allocation and a copy of the field values, which takes a third of the time. The rest of the class is unchanged.
//!
//! A frozen object whose fields cannot lead to a cycle is not tracked by the collector, like a tuple of such values in
//! the interpreter itself.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::OnceLock;

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple, PyType};

use crate::cpython::cell::guard;
use crate::cpython::type_builder::KnownType;

/// Maximum number of classes that `make_fast` changes. Each of them has its own native function, which knows the fields
/// of the class without a search.
const CLASSES: usize = 64;

/// One field of a fast class: its offset in the object, its name, and its default.
struct Field {
    offset: usize,
    name: Py<PyString>,
    default: Option<Py<PyAny>>,
}

/// The data of a class that `make_fast` has changed.
struct Known {
    fields: Vec<Field>,
    is_frozen: bool,
}

static KNOWN: [OnceLock<Known>; CLASSES] = [const { OnceLock::new() }; CLASSES];
/// The classes that `make_fast` has changed; null entries are free. `leads_nowhere` also looks up the type of a field's
/// value here.
static KINDS: [AtomicPtr<ffi::PyTypeObject>; CLASSES] = [const { AtomicPtr::new(null_mut()) }; CLASSES];
/// The class of all enumerations, whose members cannot lead to a cycle.
static ENUM: KnownType = KnownType::new();

static MAKERS: [ffi::vectorcallfunc; CLASSES] = {
    macro_rules! makers { ($($number:literal)*) => { [$(make::<$number>),*] } }
    makers!(
        0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
        32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63
    )
};

unsafe extern "C" fn make<const NUMBER: usize>(
    class: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    flags: usize,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by the interpreter on the class with this number, whose fields are known.
    unsafe {
        let count = ffi::PyVectorcall_NARGS(flags) as usize;
        let object = KNOWN[NUMBER].get().map_or(null_mut(), |known| fill(class.cast(), known, args, count, names));
        if object.is_null() && ffi::PyErr_Occurred().is_null() {
            return by_init(class, args, count, names);
        }
        object
    }
}

/// Return a new object, or null if the arguments are wrong; then `__init__` raises the error.
#[inline]
unsafe fn fill(
    class: *mut ffi::PyTypeObject,
    known: &Known,
    args: *const *mut ffi::PyObject,
    count: usize,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    let fields = &known.fields;
    // SAFETY: the words of a new object are null until they are written, and each word is inside the object.
    unsafe {
        if count > fields.len() {
            return null_mut();
        }
        let object = ffi::PyType_GenericAlloc(class, 0);
        if object.is_null() {
            return object;
        }
        let word = |field: &Field| object.byte_add(field.offset).cast::<*mut ffi::PyObject>();
        for (at, field) in fields[..count].iter().enumerate() {
            *word(field) = ffi::Py_NewRef(*args.add(at));
        }
        let mut is_good = true;
        if !names.is_null() {
            for at in 0..ffi::PyTuple_GET_SIZE(names) {
                let name = ffi::PyTuple_GET_ITEM(names, at);
                match fields[count..].iter().find(|field| field.name.as_ptr() == name) {
                    Some(field) if (*word(field)).is_null() => {
                        *word(field) = ffi::Py_NewRef(*args.add(count + at as usize));
                    }
                    _ => is_good = false,
                }
            }
        }
        for field in &fields[count..] {
            if (*word(field)).is_null() {
                is_good &= field.default.is_some();
                *word(field) = ffi::Py_XNewRef(field.default.as_ref().map_or(null_mut(), Py::as_ptr));
            }
        }
        if !is_good {
            ffi::Py_DECREF(object);
            return null_mut();
        }
        if known.is_frozen && fields.iter().all(|field| leads_nowhere(*word(field))) {
            ffi::PyObject_GC_UnTrack(object.cast::<c_void>());
        }
        object
    }
}

/// True if an object cannot be part of a reference cycle, because it never refers to a tracked object.
#[inline]
unsafe fn leads_nowhere(object: *mut ffi::PyObject) -> bool {
    // SAFETY: called with the GIL held, on a field of a new object.
    unsafe {
        let kind = ffi::Py_TYPE(object);
        if ffi::PyType_GetFlags(kind) & ffi::Py_TPFLAGS_HAVE_GC == 0 || ffi::Py_TYPE(kind.cast()) == ENUM.get() {
            return true;
        }
        // A tuple or a fast record that is untracked stays untracked, because neither changes.
        let is_fixed =
            ffi::PyTuple_CheckExact(object) != 0 || KINDS.iter().any(|known| known.load(Ordering::Relaxed) == kind);
        is_fixed && ffi::PyObject_GC_IsTracked(object) == 0
    }
}

/// `PyType_GenericAlloc` under another name. From 3.14 on, the interpreter ignores the `tp_vectorcall` of a class whose
/// `tp_alloc` is `PyType_GenericAlloc`, and calls the `__init__` of the class in a different way.
unsafe extern "C" fn allocate(kind: *mut ffi::PyTypeObject, items: ffi::Py_ssize_t) -> *mut ffi::PyObject {
    // SAFETY: called by the interpreter on a class that is ready.
    unsafe { ffi::PyType_GenericAlloc(kind, items) }
}

/// Make an object by the class's `__init__`, as for any other class.
#[cold]
unsafe fn by_init(
    class: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: usize,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by the interpreter, with `count` arguments and one more for each name.
    unsafe {
        guard(|py| {
            let word = |at: usize| Bound::from_borrowed_ptr(py, *args.add(at));
            let rest = PyTuple::new(py, (0..count).map(word))?;
            let keywords = PyDict::new(py);
            if !names.is_null() {
                let names = Bound::from_borrowed_ptr(py, names).cast_into_unchecked::<PyTuple>();
                for (at, name) in names.iter().enumerate() {
                    keywords.set_item(name, word(count + at))?;
                }
            }
            let call = ffi::PyType_Type.tp_call.expect("types can be called");
            let object = call(class, rest.as_ptr(), keywords.as_ptr());
            Ok(Bound::from_owned_ptr_or_err(py, object)?.into_ptr())
        })
    }
}

const OTHER_WORDS: &str = "its objects are not the fields that they are given, in slots, and nothing else";

/// Make objects of *cls* fast from now on; return the class.
///
/// *cls* must be a dataclass with slots whose `__init__` only stores its fields. Wrong arguments get the error of
/// `__init__`; subclasses, copies and pickles are made as usual. Objects of a frozen class whose fields cannot lead to
/// a cycle (text, bytes, numbers, members of an Enum, and tuples and fast records of these) are hidden from the
/// garbage collector. Once the maximum number of classes is fast, further classes stay as they are.
///
/// # Errors
///
/// `TypeError` if *cls* is another kind of class.
#[pyfunction]
#[pyo3(signature = (cls, /))]
fn make_fast<'py>(cls: &Bound<'py, PyType>) -> PyResult<Bound<'py, PyType>> {
    let refuse = |why: &str| PyTypeError::new_err(format!("{cls} cannot be made fast: {why}"));
    let (mut fields, probe, marks) = fields_of(cls, &refuse)?;
    // An object whose field values are known shows the offsets of the words. SAFETY: the words between the head and the
    // basic size belong to the object, and the class is never freed.
    unsafe {
        let kind = cls.as_type_ptr();
        let words = (size_of::<ffi::PyObject>()..(*kind).tp_basicsize as usize).step_by(size_of::<usize>());
        if words.len() != fields.len() {
            return Err(refuse(OTHER_WORDS));
        }
        for (field, mark) in fields.iter_mut().zip(&marks) {
            field.offset = words
                .clone()
                .find(|&at| *probe.as_ptr().byte_add(at).cast::<*mut ffi::PyObject>() == mark.as_ptr())
                .ok_or_else(|| refuse(OTHER_WORDS))?;
        }
        let is_frozen = cls.getattr("__dataclass_params__")?.getattr("frozen")?.is_truthy()?;
        // No Python code runs from here on, so the number stays free.
        if let Some(number) = KINDS.iter().position(|known| known.load(Ordering::Relaxed).is_null()) {
            let _ = KNOWN[number].set(Known { fields, is_frozen });
            KINDS[number].store(cls.clone().into_ptr().cast(), Ordering::Relaxed);
            (*kind).tp_vectorcall = Some(MAKERS[number]);
            (*kind).tp_alloc = Some(allocate);
        }
    }
    Ok(cls.clone())
}

type Probed<'py> = (Vec<Field>, Bound<'py, PyAny>, Vec<Bound<'py, PyAny>>);

/// Make an object of a class, and return the fields of the class, the object, and the values of its fields. The offsets
/// of the fields are not known yet.
fn fields_of<'py>(cls: &Bound<'py, PyType>, refuse: &impl Fn(&str) -> PyErr) -> PyResult<Probed<'py>> {
    let py = cls.py();
    let dataclasses = py.import("dataclasses")?;
    let missing = dataclasses.getattr("MISSING")?;
    if cls.hasattr("__post_init__")? {
        return Err(refuse("it has a __post_init__"));
    }
    let (mut fields, mut marks) = (Vec::new(), Vec::new());
    for field in dataclasses.call_method1("fields", (cls,))?.try_iter()? {
        let field = field?;
        if !field.getattr("default_factory")?.is(&missing) || !field.getattr("init")?.is_truthy()? {
            return Err(refuse("a field is made, not given"));
        }
        let name = PyString::intern(py, field.getattr("name")?.cast::<PyString>()?.to_str()?);
        let default = field.getattr("default")?;
        let default = (!default.is(&missing)).then(|| default.unbind());
        fields.push(Field { offset: 0, name: name.unbind(), default });
        marks.push(py.import("builtins")?.getattr("object")?.call0()?);
    }
    let probe = cls.call1(PyTuple::new(py, &marks)?)?;
    Ok((fields, probe, marks))
}

/// Add `make_fast` to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    ENUM.set(module.py().import("enum")?.getattr("EnumType")?.cast()?);
    module.add_function(wrap_pyfunction!(make_fast, module)?)
}
