//! `tickwheel._core`: the bindings, no algorithm. What is filed where is `tickwheel-core`'s; what is promised is written in Python,
//! in `tickwheel.wheels._contract` and `tickwheel.timers._contract`.

mod aio_alarm;
mod aio_deadlines;
mod aio_handle;
mod aio_loop;
mod aio_running;
mod aio_set;
mod aio_step;
mod aio_time;
mod aio_timeout;
mod aio_timeout_type;
mod aio_turn;
mod aio_type;
mod bulk;
mod cache;
mod cache_bulk;
mod cache_iter;
mod cache_leaving;
mod cache_loads;
mod cache_methods;
mod cache_order;
mod cache_probe;
mod cache_rules;
mod cache_span;
mod cache_store;
mod cache_table;
mod cache_watch;
mod call;
mod cell;
mod clock;
mod coroutine;
mod engine;
mod errors;
mod fast_methods;
mod firing;
mod id_array;
mod memory;
mod payload;
mod pending;
mod record;
mod set;
mod spares;
mod state;
mod system_clock;
mod timer;
mod timer_methods;
mod waiter;
mod wheel;

use pyo3::prelude::*;

/// The native core of tickwheel.
///
/// It says that it uses the GIL, which is its lock, so a free-threaded interpreter enables it.
#[pymodule(gil_used = true)]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    #[cfg(Py_GIL_DISABLED)]
    cell::require_gil(module.py())?;
    coroutine::register(module)?;
    timer_methods::register(module)?;
    set::register(module)?;
    aio_set::register(module)?;
    aio_timeout_type::register(module)?;
    record::register(module)?;
    module.add_class::<aio_alarm::Alarm>()?;
    module.add_class::<aio_deadlines::Deadlines>()?;
    module.add_class::<cache::Cache>()?;
    module.add_class::<cache_iter::CacheIterator>()?;
    module.add_class::<waiter::Waiter>()?;
    module.add_class::<wheel::Wheel>()
}
