//! Memory that is read at random: hints that make it near.

/// Below this, small pages do.
const HUGE: usize = 4 << 20;

/// Make a list longer, filled up with `filler`.
///
/// A large one is asked for in huge pages, where the system gives them on request: a table of a million entries has thousands of
/// small ones, and looking up which memory a page is takes as long as fetching that. `make bench-cache`: a set takes a tenth less.
pub(crate) fn grow<T: Copy>(list: &mut Vec<T>, len: usize, filler: T) {
    if len > list.capacity() && len * size_of::<T>() >= HUGE {
        let mut grown = Vec::with_capacity(len.max(list.capacity() * 2));
        want_huge_pages(&grown);
        grown.extend_from_slice(list);
        *list = grown;
    }
    list.resize(len, filler);
}

fn want_huge_pages<T>(list: &Vec<T>) {
    #[cfg(target_os = "linux")]
    {
        const PAGE: usize = 4096;
        let begin = (list.as_ptr() as usize).next_multiple_of(PAGE);
        let end = (list.as_ptr() as usize + list.capacity() * size_of::<T>()) / PAGE * PAGE;
        // SAFETY: whole pages of an allocation that is ours; the advice changes nothing in them, and if it is refused, nothing is lost.
        unsafe { libc::madvise(begin as *mut libc::c_void, end.saturating_sub(begin), libc::MADV_HUGEPAGE) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = list;
}

/// Let memory fetch what lies at an address, if there is one.
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
