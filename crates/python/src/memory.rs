//! Memory that is read at random: hints that make it near.

use tickwheel_core::Memory;

/// Passes the core's hints on to processor and system.
#[derive(Debug)]
pub(crate) struct Hints;

impl Memory for Hints {
    #[inline]
    fn fetch(address: *const ()) {
        prefetch(address);
    }

    fn scattered(begin: *const (), len: usize) {
        want_huge_pages(begin as usize, len);
    }
}

/// Ask for pages of 2 MiB, where the system has them.
pub(crate) fn want_huge_pages(begin: usize, len: usize) {
    #[cfg(linux_calls)]
    {
        const PAGE: usize = 4096;
        let (first, end) = (begin.next_multiple_of(PAGE), (begin + len) / PAGE * PAGE);
        // SAFETY: whole pages of an allocation that is ours; the advice changes nothing in them, and if it is refused, nothing is lost.
        unsafe { libc::madvise(first as *mut libc::c_void, end.saturating_sub(first), libc::MADV_HUGEPAGE) };
    }
    #[cfg(not(linux_calls))]
    let _ = (begin, len);
}

/// Let memory fetch what is at an address, if there is one.
#[inline]
pub(crate) fn prefetch(address: impl Into<Option<*const ()>>) {
    let address = address.into();
    #[cfg(target_arch = "x86_64")]
    if let Some(address) = address {
        use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
        // SAFETY: a hint, which does nothing but fetch, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
