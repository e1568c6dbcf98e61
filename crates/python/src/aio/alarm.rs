//! A system timer on which a selector can wait. Its resolution is a nanosecond, whereas `epoll_wait` counts whole
//! milliseconds.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tickwheel_core::NEVER;

use crate::cpython::cell::GilCell;

/// A `timerfd` on the monotonic clock. It exists on Linux only; elsewhere its construction raises OSError.
///
/// Register `fileno()` for reading, edge-triggered, and never read from it. After the timer is set again, the
/// descriptor is not ready until the new deadline.
#[pyclass(frozen, module = "tickwheel._core")]
pub(crate) struct Alarm {
    number: i32,
    state: GilCell<State>,
}

struct State {
    timer: Option<system::Timer>,
    deadline: u64,
}

impl Alarm {
    /// Set the timer to `deadline`, or disarm it if `deadline` is `NEVER`. A call costs nothing if the timer already
    /// has this deadline.
    #[inline]
    pub(crate) fn set(&self, py: Python<'_>, deadline: u64) -> PyResult<()> {
        self.state.with(py, |state| {
            if state.deadline != deadline {
                let timer = state.timer.as_ref().ok_or_else(|| PyValueError::new_err("the alarm is closed"))?;
                system::set(timer, deadline)?;
                state.deadline = deadline;
            }
            Ok(())
        })
    }
}

#[cfg(linux_calls)]
mod system {
    use std::io::{Error, Result};
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

    use tickwheel_core::NEVER;

    pub(super) type Timer = OwnedFd;

    /// Make a timer, and return it with the number of its descriptor.
    pub(super) fn make() -> Result<(Timer, i32)> {
        // SAFETY: the call returns a new descriptor or an error.
        let number = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC | libc::TFD_NONBLOCK) };
        if number < 0 {
            return Err(Error::last_os_error());
        }
        // SAFETY: the descriptor is new, so it has no other owner.
        Ok((unsafe { OwnedFd::from_raw_fd(number) }, number))
    }

    pub(super) fn set(fd: &Timer, deadline: u64) -> Result<()> {
        // All zeros would disarm the timer, so a deadline of 0 becomes the first nanosecond. An overdue timer rings at
        // once.
        let at = if deadline >= NEVER { 0 } else { deadline.max(1) };
        let value = libc::timespec { tv_sec: (at / 1_000_000_000) as _, tv_nsec: (at % 1_000_000_000) as _ };
        let spec = libc::itimerspec { it_interval: libc::timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        // SAFETY: the descriptor is open, and the specification is valid.
        let answer = unsafe {
            libc::timerfd_settime(fd.as_raw_fd(), libc::TFD_TIMER_ABSTIME, &raw const spec, std::ptr::null_mut())
        };
        if answer == 0 {
            Ok(())
        } else {
            Err(Error::last_os_error())
        }
    }
}

/// The replacement for `timerfd` on other systems. They need no alarm, because `tickwheel.aio` passes the timeout to
/// their selector. That is usually kqueue, which counts nanoseconds.
#[cfg(not(linux_calls))]
mod system {
    use std::io::{Error, ErrorKind, Result};

    pub(super) enum Timer {}

    pub(super) fn make() -> Result<(Timer, i32)> {
        Err(Error::new(ErrorKind::Unsupported, "this system has no timerfd: use a selector's own timeout"))
    }

    pub(super) fn set(timer: &Timer, _deadline: u64) -> Result<()> {
        match *timer {}
    }
}

#[pymethods]
impl Alarm {
    #[new]
    fn new() -> PyResult<Self> {
        let (timer, number) = system::make()?;
        Ok(Self { number, state: GilCell::new(State { timer: Some(timer), deadline: NEVER }) })
    }

    /// Return the number of the file descriptor.
    fn fileno(&self) -> i32 {
        self.number
    }

    /// Close the descriptor; closing twice is allowed.
    fn close(&self, py: Python<'_>) {
        drop(self.state.with(py, |state| state.timer.take()));
    }
}
