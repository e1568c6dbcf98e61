//! Timers: the native `Wheel`, the `Engine` with its handles, and the `Waiter` in which a driver's thread sleeps.
//!
//! # Ground rules: who holds which reference
//!
//! The wheel stores raw pointers, not `Py` objects, and handles are not tracked by the collector. So these references
//! are counted manually. Releasing a reference may run any Python code, so it happens while no
//! [`GilCell`](crate::cpython::cell) is borrowed.
//!
//! | holder | holds | from | to |
//! |---|---|---|---|
//! | wheel entry of a timer | the `Timer` | the timer is set, or is moved while it fires | the entry leaves the wheel: it is cancelled, drained, closed, or due (then `fire_due` holds the `Timer`) |
//! | wheel entry of a batch | the batch's callback, one reference for each entry | `call_later_many`, or a move while the timer fires | the entry leaves the wheel (then `fire_due` holds one reference for all entries that it passes to the callback together) |
//! | `fire_due` | the `Timer` that it calls, or passes to the hook `runner` | the entry leaves the wheel | the call has returned; the hook takes a reference of its own |
//! | `Timer` (`call`) | callback, arguments and context, in one [`Callback`](crate::cpython::call::Callback) | the timer is made | the timer ends: cancelled, or fired and not rescheduled |
//! | `TimerObject::fire` | one more reference to this `Callback`, because a cancel during the call releases the timer's own reference | before the call | after the call |
//! | all living timers of an engine together | one reference to the engine (`Living`) | the first timer is made | the last timer has ended |
//! | `Timer` (`engine`) | no reference, only a number; `ENGINES` has the engine's address under this number, borrowed | the timer is made | the timer ends; the number is freed with the engine |
//! | engine | clock and hooks | the engine is made, or they are assigned | they are replaced, or the engine is freed or cleared |
//! | `Firing` in `State::batches` | a batch's callback, or the `Timer` and the array that the hook `runner` gets | the call begins | a call in `fire_due`: until it ends; a worker's call: until the first later call of any batch begins |
//! | entry of `Keys` (Python) | the `Timer`, whose `Callback` holds the entry: a cycle | the key is set | the timer ends, and releases its `Callback` |
//! | free list | the memory of dead handles, and no references | the handle is freed, unless the list is full | the memory is reused |
//!
//! For the collector, an engine traverses its clock and its hooks and, for each wheel entry, the references of the
//! timer's `Callback`, or the batch's callback, as if the engine held them. The engine traverses the reference that its
//! timers share only if all living timers are in the wheel. So an engine stays alive while one of its timers is firing
//! elsewhere. A `Timer` traverses nothing: once it is out of the wheel and has ended, it holds nothing.

pub(crate) mod batches;
pub(crate) mod bulk;
pub(crate) mod coroutine;
pub(crate) mod engine;
pub(crate) mod engine_methods;
pub(crate) mod firing;
pub(crate) mod handle;
pub(crate) mod id_array;
pub(crate) mod keyed;
pub(crate) mod latch;
pub(crate) mod numbers;
pub(crate) mod payload;
pub(crate) mod pending;
pub(crate) mod proxy;
pub(crate) mod set;
pub(crate) mod state;
pub(crate) mod timer;
pub(crate) mod timer_methods;
pub(crate) mod waiter;
pub(crate) mod wheel;
