//! What the process has used.

use std::fs::{read_dir, read_to_string};

/// Return the CPU nanoseconds of all threads.
pub fn cpu_ns() -> u64 {
    let mut at = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes to `at` and to nothing else.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut at) };
    at.tv_sec as u64 * 1_000_000_000 + at.tv_nsec as u64
}

/// Return the bytes of the resident set.
pub fn resident() -> u64 {
    let text = read_to_string("/proc/self/statm").expect("Linux");
    // SAFETY: the call has no effect.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64;
    text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("a number") * page
}

/// Return how often all threads have gone to sleep.
pub fn switched() -> u64 {
    let tasks = read_dir("/proc/self/task").expect("Linux").flatten();
    let texts = tasks.filter_map(|task| read_to_string(task.path().join("status")).ok());
    let count = |text: String| {
        let line = text.lines().find(|line| line.starts_with("voluntary"))?.to_owned();
        line.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    texts.filter_map(count).sum()
}
