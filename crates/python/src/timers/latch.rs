//! `Latch`: one thread sleeps in the latch until it is woken or a timeout is over; any other thread can wake the
//! sleeping thread.

#[cfg(not(windows))]
pub(super) use condition::Latch;
#[cfg(windows)]
pub(super) use timer::Latch;

/// A condition variable, which on Linux is a futex with a deadline on the monotonic clock, without rounding.
#[cfg(not(windows))]
mod condition {
    use std::sync::{Condvar, Mutex, PoisonError};
    use std::time::Duration;

    #[derive(Default)]
    pub(in crate::timers) struct Latch {
        is_woken: Mutex<bool>,
        changed: Condvar,
    }

    impl Latch {
        /// End the current sleep or, if no thread sleeps, the next sleep. The sleep returns true.
        pub(in crate::timers) fn wake(&self) {
            *self.is_woken.lock().unwrap_or_else(PoisonError::into_inner) = true;
            self.changed.notify_one();
        }

        /// Sleep for at most the given number of nanoseconds, or without limit; return true if the thread was woken.
        /// The sleep may end early.
        pub(in crate::timers) fn sleep(&self, left: Option<u64>) -> bool {
            let mut is_woken = self.is_woken.lock().unwrap_or_else(PoisonError::into_inner);
            if !*is_woken && left != Some(0) {
                is_woken = match left {
                    None => self.changed.wait(is_woken).unwrap_or_else(PoisonError::into_inner),
                    Some(left) => {
                        let waited = self.changed.wait_timeout(is_woken, Duration::from_nanos(left));
                        waited.unwrap_or_else(PoisonError::into_inner).0
                    }
                };
            }
            std::mem::take(&mut *is_woken)
        }
    }
}

/// A waitable timer of high resolution (Windows 10 1803 and newer), because a condition variable would wake at ticks of
/// 15.6 ms.
#[cfg(windows)]
mod timer {
    use std::ffi::c_void;
    use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle, RawHandle};
    use std::ptr::null;

    const HIGH_RESOLUTION: u32 = 2;
    const ALL_ACCESS: u32 = 0x1F_0003;
    const FOREVER: u32 = u32::MAX;

    #[link(name = "kernel32")]
    extern "system" {
        fn CreateEventW(security: *const c_void, is_manual: i32, is_set: i32, name: *const u16) -> RawHandle;
        fn SetEvent(event: RawHandle) -> i32;
        fn CreateWaitableTimerExW(security: *const c_void, name: *const u16, flags: u32, access: u32) -> RawHandle;
        fn SetWaitableTimer(
            timer: RawHandle,
            due: *const i64,
            period: i32,
            routine: *const c_void,
            argument: *const c_void,
            resumes: i32,
        ) -> i32;
        fn WaitForMultipleObjects(count: u32, handles: *const RawHandle, waits_for_all: i32, milliseconds: u32) -> u32;
    }

    pub(in crate::timers) struct Latch {
        woken: OwnedHandle,
        timer: OwnedHandle,
    }

    impl Default for Latch {
        /// # Panics
        ///
        /// If the process has no Windows handles left.
        fn default() -> Self {
            // SAFETY: this makes an unnamed auto-reset event.
            let woken = unsafe { CreateEventW(null(), 0, 0, null()) };
            // SAFETY: this makes an unnamed timer.
            let mut timer = unsafe { CreateWaitableTimerExW(null(), null(), HIGH_RESOLUTION, ALL_ACCESS) };
            if timer.is_null() {
                // SAFETY: this does the same on a system without high resolution.
                timer = unsafe { CreateWaitableTimerExW(null(), null(), 0, ALL_ACCESS) };
            }
            assert!(!woken.is_null() && !timer.is_null(), "no handles left: {}", std::io::Error::last_os_error());
            // SAFETY: both handles are open and have no other owner.
            unsafe { Self { woken: OwnedHandle::from_raw_handle(woken), timer: OwnedHandle::from_raw_handle(timer) } }
        }
    }

    impl Latch {
        /// End the current sleep or, if no thread sleeps, the next sleep. The sleep returns true.
        pub(in crate::timers) fn wake(&self) {
            // SAFETY: the event is open as long as this object lives.
            unsafe { SetEvent(self.woken.as_raw_handle()) };
        }

        /// Sleep for at most the given number of nanoseconds, or without limit; return true if the thread was woken.
        /// The sleep may end early.
        pub(in crate::timers) fn sleep(&self, left: Option<u64>) -> bool {
            let handles = [self.woken.as_raw_handle(), self.timer.as_raw_handle()];
            let mut count = 1;
            if let Some(left) = left {
                // The unit is 100 ns, and a negative number is relative to now.
                let due = -(left.div_ceil(100).cast_signed());
                // SAFETY: the timer is open, `due` is valid for reading, and there is no callback.
                if unsafe { SetWaitableTimer(handles[1], &raw const due, 0, null(), null(), 0) } != 0 {
                    count = 2;
                }
            }
            // If the timer cannot be set, the wait has a resolution of milliseconds.
            let limit = match left {
                Some(left) if count == 1 => u32::try_from(left.div_ceil(1_000_000)).unwrap_or(FOREVER - 1),
                _ => FOREVER,
            };
            // SAFETY: there are `count` open handles. The result is the index of the first one that is set.
            unsafe { WaitForMultipleObjects(count, handles.as_ptr(), 0, limit) == 0 }
        }
    }
}
