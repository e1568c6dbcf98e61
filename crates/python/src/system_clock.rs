//! The system's clocks. They are the clocks of Python's `time`, so that no caller sees a timer fire early.

/// A clock that counts nanoseconds and never goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SystemClock(system::Id);

impl SystemClock {
    /// The clock of `time.monotonic()`, which stops while the machine is suspended.
    pub(crate) const MONOTONIC: Self = Self(system::MONOTONIC);
    /// The time since boot, including suspend, if the system has such a clock; otherwise the monotonic clock.
    pub(crate) const BOOT: Self = Self(system::BOOT);
    /// The monotonic clock as it was at the kernel's last tick, some milliseconds ago, which is read in 5 ns.
    #[cfg(linux_calls)]
    pub(crate) const COARSE: Self = Self(libc::CLOCK_MONOTONIC_COARSE);

    #[inline]
    pub(crate) fn now_ns(self) -> u64 {
        system::read(self.0)
    }
}

#[cfg(unix)]
mod system {
    pub(super) type Id = libc::clockid_t;

    // On macOS, CLOCK_MONOTONIC counts suspend. Python reads mach_absolute_time, which has this id.
    #[cfg(target_vendor = "apple")]
    pub(super) const MONOTONIC: Id = libc::CLOCK_UPTIME_RAW;
    #[cfg(not(target_vendor = "apple"))]
    pub(super) const MONOTONIC: Id = libc::CLOCK_MONOTONIC;

    #[cfg(linux_calls)]
    pub(super) const BOOT: Id = libc::CLOCK_BOOTTIME;
    #[cfg(not(linux_calls))]
    pub(super) const BOOT: Id = MONOTONIC;

    #[inline]
    pub(super) fn read(id: Id) -> u64 {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` is valid for writing, and reading a clock that the system has cannot fail.
        unsafe { libc::clock_gettime(id, &raw mut time) };
        time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
    }
}

/// The clocks of Windows. Up to Python 3.12, the clock has ticks of 15.6 ms; from 3.13 on, it is the performance
/// counter.
#[cfg(windows)]
mod system {
    pub(super) type Id = ();

    pub(super) const MONOTONIC: Id = ();
    pub(super) const BOOT: Id = ();

    #[cfg(not(Py_3_13))]
    pub(super) fn read((): Id) -> u64 {
        #[link(name = "kernel32")]
        extern "system" {
            fn GetTickCount64() -> u64;
        }
        // SAFETY: the call has no arguments and cannot fail.
        unsafe { GetTickCount64() * 1_000_000 }
    }

    #[cfg(Py_3_13)]
    pub(super) fn read((): Id) -> u64 {
        use std::sync::OnceLock;

        #[link(name = "kernel32")]
        extern "system" {
            fn QueryPerformanceCounter(count: *mut i64) -> i32;
            fn QueryPerformanceFrequency(frequency: *mut i64) -> i32;
        }
        static FREQUENCY: OnceLock<i64> = OnceLock::new();
        let frequency = *FREQUENCY.get_or_init(|| {
            let mut frequency = 0;
            // SAFETY: `frequency` is valid for writing, and the call cannot fail since Windows XP.
            unsafe { QueryPerformanceFrequency(&raw mut frequency) };
            frequency
        });
        let mut count = 0;
        // SAFETY: `count` is valid for writing, and if the frequency could be read, so can the counter.
        unsafe { QueryPerformanceCounter(&raw mut count) };
        (i128::from(count) * 1_000_000_000 / i128::from(frequency)) as u64
    }
}
