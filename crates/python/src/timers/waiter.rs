//! `Waiter`: where a driver's thread sleeps, to the nanosecond, until a deadline or a wake.

use pyo3::prelude::*;
use tickwheel_core::NEVER;

use crate::system_clock::SystemClock;
use crate::timers::latch::Latch;

/// Where one thread waits and any other wakes it.
///
/// A wake is a token: one that comes before the wait ends that wait at once, and several are one.
#[pyclass(frozen, module = "tickwheel._core")]
pub(crate) struct Waiter {
    latch: Latch,
}

#[pymethods]
impl Waiter {
    #[new]
    fn new() -> Self {
        Self { latch: Latch::default() }
    }

    /// Sleep until the monotonic clock reads *deadline_ns* or a wake; return whether it was a wake.
    ///
    /// The GIL is released meanwhile. None waits for a wake only. A thread that waits for the first time asks the system for timers
    /// without slack, so the wait ends within the time the system takes to run a thread, some 50 us.
    #[pyo3(signature = (deadline_ns=None))]
    fn wait(&self, py: Python<'_>, deadline_ns: Option<u64>) -> bool {
        let deadline = deadline_ns.filter(|&ns| ns < NEVER);
        py.detach(|| {
            be_exact();
            loop {
                let left = deadline.map(|ns| ns.saturating_sub(SystemClock::MONOTONIC.now_ns()));
                if self.latch.sleep(left) {
                    return true;
                }
                if left == Some(0) {
                    return false;
                }
            }
        })
    }

    /// End the wait that is under way, or the next one.
    fn wake(&self) {
        // No thread holds the latch's lock while it waits for the GIL, so taking it with the GIL held cannot lock up.
        self.latch.wake();
    }
}

/// Linux lets a thread's sleeps run 50 us over, to save power: ask for none.
fn be_exact() {
    #[cfg(linux_calls)]
    {
        thread_local!(static IS_EXACT: std::cell::Cell<bool> = const { std::cell::Cell::new(false) });
        if !IS_EXACT.replace(true) {
            // SAFETY: sets a number of the calling thread.
            unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
        }
    }
}
