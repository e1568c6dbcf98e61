//! `Keys`: the native base class of `tickwheel.timers.keyed`. It sets and moves a pending key in one step, without a
//! lock. Python code does the rest, with a lock.
//!
//! First the key is looked up, which may run any Python code. After that no Python runs while the entry's timer is read
//! and moved and its value is replaced. So a thread that holds the lock sees a pending entry either before or after the
//! whole step. Keys that are not pending are left to the Python code.

use std::mem::{replace, swap};
use std::sync::OnceLock;

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple, PyType};
use tickwheel_core::NEVER;

use crate::clock::{seconds, to_ns};
use crate::cpython::call::Callback;
use crate::cpython::cell::guard;
use crate::cpython::fast_methods::{fast, FastMethods};
use crate::cpython::member::offset_of_member;
use crate::cpython::modules::import_for_engines;
use crate::cpython::type_builder::Table;
use crate::once::intern;
use crate::timers::engine::Engine;
use crate::timers::handle::TimerObject;
use crate::timers::set::current_context;
use crate::timers::timer::TYPE;

/// The native part of an engine's keyed timers.
#[pyclass(frozen, subclass, module = "tickwheel._core")]
pub(crate) struct Keys {
    place: OnceLock<Place>,
}

/// The dict of entries, and the offsets of the timer and the value in an entry.
struct Place {
    entries: Py<PyDict>,
    kind: Py<PyType>,
    timer: usize,
    value: usize,
}

/// The new callback of an entry, bound to the current context; after `swap`, the callback that was replaced. Dropping
/// it runs Python code.
struct Spare<'py> {
    call: Callback,
    py: Python<'py>,
}

impl Spare<'_> {
    fn swap(&mut self, timer: *mut TimerObject) {
        if !self.call.is_none() {
            // SAFETY: the caller keeps the timer alive, which has not ended. Afterwards each of the two calls again has
            // one owner.
            swap(&mut self.call, unsafe { &mut (*timer).call });
        }
    }
}

impl Drop for Spare<'_> {
    fn drop(&mut self) {
        if !self.call.is_none() {
            // SAFETY: we own the reference.
            unsafe { self.call.release(self.py) };
        }
    }
}

/// The timer of an entry, and the timer's engine, each with a reference.
struct Filed<'py> {
    timer: Bound<'py, PyAny>,
    engine: Bound<'py, Engine>,
}

impl<'py> Filed<'py> {
    /// Return the timer of an entry, if it is a native timer that has not ended.
    fn of(place: &Place, entry: &Bound<'py, PyAny>) -> Option<Self> {
        // SAFETY: a slot of an entry is an object or null. Its type is checked, and a timer has its engine until it
        // ends.
        unsafe {
            let timer = Bound::from_borrowed_ptr_or_opt(entry.py(), *place.word(entry, place.timer))?;
            let object = timer.as_ptr().cast::<TimerObject>();
            if !TYPE.is_of(&timer) || (*object).is_over() {
                return None;
            }
            let engine = (*object).engine(entry.py()).to_owned();
            Some(Self { timer, engine })
        }
    }

    fn object(&self) -> *mut TimerObject {
        self.timer.as_ptr().cast()
    }

    fn is_pending(&self) -> bool {
        // SAFETY: our reference keeps the timer alive, and its state is a number.
        unsafe { (*self.object()).is_pending() }
    }

    /// Move the timer of *entry*, and set *value* if one is given, in one step. Return the former value in a tuple of
    /// one item.
    ///
    /// None means that nothing was changed, because the timer has ended, or because it is firing and `of_pending_only`
    /// is true.
    #[inline]
    fn renew(
        &self,
        place: &Place,
        entry: &Bound<'py, PyAny>,
        value: Option<&Bound<'py, PyAny>>,
        delay: &Bound<'py, PyAny>,
        of_pending_only: bool,
    ) -> PyResult<Option<(Option<Bound<'py, PyAny>>,)>> {
        let (py, engine) = (entry.py(), self.engine.get());
        let mut spare = Spare { call: Callback::NONE, py };
        if value.is_some() && engine.captures() {
            // SAFETY: the entry is a living object, and it is the callback of its timer.
            spare.call = unsafe { Callback::in_context(&current_context(py)?, &[entry.as_ptr()]) };
        }
        // SAFETY: the caller keeps the delay alive.
        let delay = unsafe { to_ns(py, delay.as_ptr(), "delay") }?;
        let deadline = engine.now(py)?.saturating_add(delay).min(NEVER);
        // From here on no Python runs until the end, unless there is an error.
        if of_pending_only && !self.is_pending() {
            return Ok(None);
        }
        // SAFETY: our reference keeps the timer alive, and it belongs to this engine.
        let Some(is_earlier) = (unsafe { engine.refile(py, self.object(), deadline)? }) else {
            return Ok(None);
        };
        spare.swap(self.object());
        let former = value.and_then(|value| place.exchange(entry, value));
        if is_earlier {
            engine.wake(py)?;
        }
        Ok(Some((former,)))
    }
}

impl Place {
    /// Return the address of the slot at `offset` in an entry.
    fn word(&self, entry: &Bound<'_, PyAny>, offset: usize) -> *mut *mut ffi::PyObject {
        assert!(entry.get_type().is(&self.kind), "an entry is of the class that was given");
        // SAFETY: the offset is that of a slot of this class.
        unsafe { entry.as_ptr().byte_add(offset).cast() }
    }

    /// Replace the value of an entry, and return the former value. Dropping the former value runs Python.
    fn exchange<'py>(&self, entry: &Bound<'py, PyAny>, value: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
        // SAFETY: the slot owns a reference, which is returned, and gets a new one.
        unsafe {
            let former = replace(&mut *self.word(entry, self.value), value.clone().into_ptr());
            Bound::from_owned_ptr_or_opt(entry.py(), former)
        }
    }
}

impl Keys {
    fn place(&self) -> PyResult<&Place> {
        self.place.get().ok_or_else(|| PyTypeError::new_err("the keys were never opened"))
    }

    /// Set or move a pending key; return false if the Python code has to do it, with the lock.
    #[inline]
    fn renew_pending<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        value: Option<&Bound<'py, PyAny>>,
        delay: &Bound<'py, PyAny>,
    ) -> PyResult<bool> {
        let (py, place) = (key.py(), self.place()?);
        let Some(entry) = place.entries.bind(py).get_item(key)? else {
            return Ok(false);
        };
        let Some(filed) = Filed::of(place, &entry).filter(Filed::is_pending) else {
            return Ok(false);
        };
        Ok(filed.renew(place, &entry, value, delay, true)?.is_some())
    }
}

#[pymethods]
impl Keys {
    #[new]
    #[pyo3(signature = (*_args, **_kwargs))]
    fn new(_args: &Bound<'_, PyTuple>, _kwargs: Option<&Bound<'_, PyDict>>) -> Self {
        Self { place: OnceLock::new() }
    }

    /// Initialise with *entries*, a dict of objects of the class *kind*, which has slots `timer` and `value`; for
    /// `__init__`.
    fn _open(&self, entries: Py<PyDict>, kind: &Bound<'_, PyType>) -> PyResult<()> {
        import_for_engines(kind.py())?; // engines in Python need this, too
        let slot = |name: &str| {
            let no_slot = || PyTypeError::new_err(format!("{kind} has no slot {name}"));
            offset_of_member(kind, name)?.ok_or_else(no_slot)
        };
        let place = Place { entries, kind: kind.clone().unbind(), timer: slot("timer")?, value: slot("value")? };
        self.place.set(place).map_err(|_| PyTypeError::new_err("the keys were opened before"))
    }

    /// Move the timer of *entry*, even if it is firing, and set *value*, in one step; return `(former value,)`.
    ///
    /// None means that the timer has ended and nothing was changed.
    fn _renew<'py>(
        &self,
        entry: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
        delay: &Bound<'py, PyAny>,
    ) -> PyResult<Option<(Option<Bound<'py, PyAny>>,)>> {
        let (py, place) = (entry.py(), self.place()?);
        let Some(filed) = Filed::of(place, entry) else {
            let timer = entry.getattr(intern!(py, "timer"))?; // of an engine in Python, whose lock is held
            let is_moved = timer.call_method1(intern!(py, "restart"), (delay,))?.is_truthy()?;
            return Ok(is_moved.then(|| (place.exchange(entry, value),)));
        };
        filed.renew(place, entry, Some(value), delay, false)
    }

    /// Return the value of *entry* and its expiry in seconds, read atomically.
    fn _look<'py>(&self, entry: &Bound<'py, PyAny>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let (py, place) = (entry.py(), self.place()?);
        let value = || entry.getattr(intern!(py, "value"));
        let Some(filed) = Filed::of(place, entry) else {
            let when = entry.getattr(intern!(py, "timer"))?.call_method0(intern!(py, "when"))?;
            return Ok((value()?, when));
        };
        // SAFETY: our reference keeps the timer alive, and its deadline is copied.
        let deadline = unsafe { (*filed.object()).deadline };
        Ok((value()?, seconds(deadline).into_pyobject(py)?.into_any()))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        // The dict's own traversal breaks a cycle through the entries.
        self.place.get().map_or(Ok(()), |place| visit.call(&place.entries))
    }
}

/// `set`, or `move`, which keeps the value. This function handles a pending key in one step; for any other key it calls
/// `_set` or `_move` of the subclass.
unsafe extern "C" fn renew<const IS_SET: bool>(
    slf: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the descriptor of the method ensures that the interpreter calls it on `Keys`, with `count` arguments and
    // one more for each name.
    unsafe {
        guard(|py| {
            let keys = Borrowed::from_ptr(py, slf).cast_unchecked::<Keys>();
            if count == if IS_SET { 3 } else { 2 } && names.is_null() {
                let word = |at: usize| Borrowed::from_ptr(py, *args.add(at));
                let value = if IS_SET { Some(word(1)) } else { None };
                if keys.get().renew_pending(&word(0), value.as_deref(), &word(count as usize - 1))? {
                    return Ok(if IS_SET { ffi::Py_NewRef(ffi::Py_None()) } else { ffi::Py_NewRef(ffi::Py_True()) });
                }
            }
            let name = if IS_SET { intern!(py, "_set") } else { intern!(py, "_move") };
            by_python(py, slf, name.as_ptr(), args, count as usize, names)
        })
    }
}

/// Call the subclass's method `name` with the arguments of `set` or `move`.
unsafe fn by_python(
    py: Python<'_>,
    slf: *mut ffi::PyObject,
    name: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: usize,
    names: *mut ffi::PyObject,
) -> PyResult<*mut ffi::PyObject> {
    // SAFETY: `count` and `names` give the number of arguments, and the interpreter keeps none of them.
    unsafe {
        let all = count + if names.is_null() { 0 } else { ffi::PyTuple_GET_SIZE(names) as usize };
        let mut words = Vec::with_capacity(all + 1);
        words.push(slf);
        words.extend_from_slice(std::slice::from_raw_parts(args, all));
        let result = ffi::PyObject_VectorcallMethod(name, words.as_ptr(), count + 1, names);
        Ok(Bound::from_owned_ptr_or_err(py, result)?.into_ptr())
    }
}

static METHODS: FastMethods<2> = Table([
    fast(
        c"set",
        renew::<true>,
        c"set($self, key, value, delay)\n--\n\n\
            Let *key* expire with *value* in *delay* seconds; a pending key is moved and takes the new value.",
    ),
    fast(
        c"move",
        renew::<false>,
        c"move($self, key, delay)\n--\n\n\
            Let *key* expire in *delay* seconds from now, with the value it has; return whether it was pending.",
    ),
]);

/// Add the type to the module, with its methods `set` and `move`.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let kind = module.py().get_type::<Keys>();
    METHODS.add_to(&kind)?;
    module.add("Keys", kind)
}
