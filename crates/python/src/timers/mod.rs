//! Timers: the wheel as the suites see it, the engine with its handles, and the wait of a driver.

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
pub(crate) mod set;
pub(crate) mod stand_in;
pub(crate) mod state;
pub(crate) mod timer;
pub(crate) mod timer_methods;
pub(crate) mod waiter;
pub(crate) mod wheel;
