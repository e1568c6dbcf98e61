//! The event loop's timers and the timeouts of asyncio.
//!
//! # Ground rules: who holds which reference
//!
//! The wheels store raw pointers, not `Py` objects, so these references are counted manually.
//!
//! | holder | holds | from | to |
//! |---|---|---|---|
//! | loop's wheel | the `TimerHandle` | the timer is set | the timer is cancelled, dropped because the loop is closed, or due (then the list `_ready` holds the handle) |
//! | `TimerHandle` | callback, arguments, context and loop | the handle is made | callback and arguments: the handle is cancelled; context and loop: the handle is freed |
//! | `Deadlines` of a loop | the loop, an empty context, and the armed handle | the `Deadlines` is made; for the handle: it is armed | the `Deadlines` is collected together with the loop; for the handle: it fires, or another handle is armed |
//! | loop (an attribute) | its `Deadlines` | the first timeout | the collector frees the loop and its `Deadlines`, which are a cycle |
//! | `Deadlines`' wheel | the `Timeout` | the timeout is entered or moved | the timeout is left, is moved or expires |
//! | `Timeout` | its `Deadlines`; its task | for `Deadlines`: the timeout is made (`timeout_at`: entered); for the task: the timeout is entered | for `Deadlines`: the timeout is freed; for the task: the timeout is left |
//! | `Timeout` (`soon`) | the handle that ends a timeout which is already due | the timeout is entered or moved | the handle runs, or the timeout is moved or left |
//! | `StepObject` (see `step.rs`) | its `Timeout`, and its StopIteration | for the timeout: `__aenter__` or `__aexit__` is looked up; for the exception: it is raised | the step is freed |
//! | `LAST_HOME`, `LAST` | no references: the addresses of the last lookup | a lookup | any `Deadlines` is freed |
//! | free lists | the memory of dead handles, timeouts and `StepObject`s, and no references | the objects are freed, unless the list is full | the memory is reused |
//!
//! The collector does not track a pending `TimerHandle`. Instead the loop traverses the references of the handle and,
//! if the handle's context is private, the references of the context. The collector tracks a handle from the moment
//! when the handle leaves the wheel. `Deadlines` traverses its pending timeouts, which are tracked like any object.

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
