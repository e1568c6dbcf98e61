//! The event loop's timers and the timeouts of asyncio.
//!
//! # Ground rules: who holds which reference
//!
//! The wheels store words, not `Py` objects, so these references are counted manually.
//!
//! | holder | holds | from | to |
//! |---|---|---|---|
//! | loop's wheel | the `TimerHandle` | it is set | cancelled, dropped by a close, or due (then the list `_ready` holds it) |
//! | `TimerHandle` | callback, arguments, context and loop | it is made | callback and arguments until its cancel, the others until it is freed |
//! | `Deadlines` of a loop | the loop, an empty context, and the armed handle | its construction; the handle from its arming | the loop is collected with it; the handle until it fires or another is armed |
//! | loop (an attribute) | its `Deadlines` | the first timeout | the loop is freed: the two are a cycle for the collector |
//! | `Deadlines`' wheel | the `Timeout` | it is entered, or moved | it is left or moved, or it expires |
//! | `Timeout` | its `Deadlines`; its task | it is made, or for `timeout_at` entered; the task from its entry | it is freed; the task until it is left |
//! | `Timeout` (`soon`) | the handle of a timeout that was already due | it is entered | it rings, or is moved or left |
//! | step of `async with` | its `Timeout`, and its StopIteration | the method is looked up; the exception from its raise | the step is freed |
//! | `LAST_HOME`, `LAST` | no references: the addresses of the last lookup | a lookup | any `Deadlines` is freed |
//! | free lists | the memory of dead handles, timeouts and steps, and no references | they are freed | they are reused, or the list is full |
//!
//! What the collector sees: a pending `TimerHandle` is not tracked; its loop traverses the handle's references, and for a
//! private context the context's own. A handle is tracked from the moment it leaves the wheel. `Deadlines` traverses its
//! pending timeouts, which are tracked like any object.

pub(crate) mod alarm;
pub(crate) mod deadlines;
pub(crate) mod event_loop;
pub(crate) mod handle;
pub(crate) mod loop_methods;
pub(crate) mod loop_type;
pub(crate) mod running;
pub(crate) mod set;
pub(crate) mod step;
pub(crate) mod time;
pub(crate) mod timeout;
pub(crate) mod timeout_object;
pub(crate) mod turn;
