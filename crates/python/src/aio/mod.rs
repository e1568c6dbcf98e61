//! The event loop's timers and the timeouts of asyncio.

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
