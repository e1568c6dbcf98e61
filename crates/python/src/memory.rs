//! Hints about memory that is read in random order.

use std::ptr::NonNull;

use tickwheel_core::Memory;

/// Passes the core's hints to the processor and the system.
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

/// Ask for pages of 2 MiB, if the system has them.
pub(crate) fn want_huge_pages(begin: usize, len: usize) {
    #[cfg(linux_calls)]
    {
        const PAGE: usize = 4096;
        let (first, end) = (begin.next_multiple_of(PAGE), (begin + len) / PAGE * PAGE);
        // SAFETY: these are whole pages of our allocation. The advice does not change their contents, and a refusal
        // does no harm.
        unsafe { libc::madvise(first as *mut libc::c_void, end.saturating_sub(first), libc::MADV_HUGEPAGE) };
    }
    #[cfg(not(linux_calls))]
    let _ = (begin, len);
}

/// The size and the alignment of a huge page in bytes.
pub(crate) const HUGE_PAGE: usize = 2 << 20;

/// Return memory that can be one huge page, or `None` if there is no memory.
///
/// The memory comes directly from the system, so a page can be given back at any time.
#[cfg(linux_calls)]
pub(crate) fn take_page() -> Option<NonNull<u8>> {
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: this is a new mapping without other users, and the parts before and behind the page are unmapped.
    unsafe {
        let mapping = libc::mmap(std::ptr::null_mut(), 2 * HUGE_PAGE, access, kind, -1, 0);
        if mapping == libc::MAP_FAILED {
            return None;
        }
        let before = (mapping as usize).next_multiple_of(HUGE_PAGE) - mapping as usize;
        let page = mapping.byte_add(before);
        if before > 0 {
            libc::munmap(mapping, before);
        }
        libc::munmap(page.byte_add(HUGE_PAGE), HUGE_PAGE - before);
        want_huge_pages(page as usize, HUGE_PAGE);
        NonNull::new(page.cast())
    }
}

/// Release a page that `take_page` returned.
///
/// # Safety
///
/// Nothing uses the page any more.
#[cfg(linux_calls)]
pub(crate) unsafe fn give_page(page: *mut u8) {
    // SAFETY: this is our mapping, which the caller gives up.
    unsafe { libc::munmap(page.cast(), HUGE_PAGE) };
}

#[cfg(not(linux_calls))]
const LAYOUT: std::alloc::Layout = match std::alloc::Layout::from_size_align(HUGE_PAGE, HUGE_PAGE) {
    Ok(layout) => layout,
    Err(_) => unreachable!(),
};

/// Return memory of the size of a huge page, on systems without huge pages, or `None` if there is no memory.
#[cfg(not(linux_calls))]
pub(crate) fn take_page() -> Option<NonNull<u8>> {
    // SAFETY: the layout is not empty.
    NonNull::new(unsafe { std::alloc::alloc(LAYOUT) })
}

/// Release a page that `take_page` returned.
///
/// # Safety
///
/// Nothing uses the page any more.
#[cfg(not(linux_calls))]
pub(crate) unsafe fn give_page(page: *mut u8) {
    // SAFETY: the page was allocated with this layout, and the caller gives it up.
    unsafe { std::alloc::dealloc(page, LAYOUT) };
}

/// Prefetch the memory at an address, if there is one.
#[inline]
pub(crate) fn prefetch(address: impl Into<Option<*const ()>>) {
    let address = address.into();
    #[cfg(target_arch = "x86_64")]
    if let Some(address) = address {
        use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
        // SAFETY: a prefetch is only a hint, and is allowed for any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
