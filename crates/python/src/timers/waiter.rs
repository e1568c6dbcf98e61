//! `Waiter`: the thread of a driver sleeps in it, with nanosecond resolution, until a deadline or until it is woken.

use pyo3::prelude::*;
use tickwheel_core::NEVER;

use crate::system_clock::SystemClock;
use crate::timers::latch::Latch;

/// One thread waits, and any other thread can wake it.
///
/// Each `wake` sets a token. If the token is already set when a wait begins, the wait ends at once; several calls of
/// `wake` before that count as one.
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

    /// Sleep until the monotonic clock reads *deadline_ns* or the thread is woken; return True if it was woken.
    ///
    /// The GIL is released during the sleep. With None the thread sleeps until it is woken. At its first wait a thread
    /// disables the system's timer slack, so the wait ends within the system's scheduling latency, some 50 us.
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

    /// End the current wait or, if no thread waits, the next wait.
    fn wake(&self) {
        // No thread waits for the GIL while it holds the lock of the latch, so taking the lock with the GIL held cannot
        // deadlock.
        self.latch.wake();
    }
}

/// Disable timer slack, by which Linux lets a thread's sleeps take 50 us longer to save power.
fn be_exact() {
    #[cfg(linux_calls)]
    {
        thread_local!(static IS_EXACT: std::cell::Cell<bool> = const { std::cell::Cell::new(false) });
        if !IS_EXACT.replace(true) {
            // SAFETY: this sets an attribute of the calling thread.
            unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
        }
    }
}
