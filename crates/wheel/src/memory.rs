//! Hints about memory, which the owner of a wheel can pass to the system. They change only the speed.

use std::fmt::Debug;

/// Receives hints about memory. The unit type `()` ignores all hints.
pub trait Memory: Debug {
    /// Hint that `address` will be read soon.
    #[inline]
    fn fetch(_address: *const ()) {}

    /// Hint that a large new block, the `len` bytes from `begin` on, will be read in random order.
    #[inline]
    fn scattered(_begin: *const (), _len: usize) {}
}

impl Memory for () {}

/// Size in bytes below which small pages are enough.
const MANY: usize = 4 << 20;

/// Extend a list to `len` items with `filler`.
///
/// A large list is allocated here, so that huge pages can be requested for it. A table of a million entries has
/// thousands of small pages, and looking a page up takes as long as fetching the memory. With huge pages, setting a
/// value takes a tenth less time (`make bench-cache`).
pub(crate) fn grow<M: Memory, T: Copy>(list: &mut Vec<T>, len: usize, filler: T) {
    if len > list.capacity() && len * size_of::<T>() >= MANY {
        let mut grown: Vec<T> = Vec::with_capacity(len.max(list.capacity() * 2));
        M::scattered(grown.as_ptr().cast(), grown.capacity() * size_of::<T>());
        grown.extend_from_slice(list);
        *list = grown;
    }
    list.resize(len, filler);
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local!(static ASKED: Cell<(usize, usize)> = const { Cell::new((0, 0)) });

    #[derive(Debug)]
    struct Noted;

    impl Memory for Noted {
        fn scattered(begin: *const (), len: usize) {
            ASKED.set((begin as usize, len));
        }
    }

    #[test]
    fn a_large_list_is_announced_where_it_lies_and_keeps_what_it_had() {
        let mut list = vec![7u64; 3];
        grow::<Noted, _>(&mut list, 100, 1);
        assert_eq!(ASKED.get(), (0, 0), "a small one is not");
        grow::<Noted, _>(&mut list, MANY, 2);
        assert_eq!(ASKED.get(), (list.as_ptr() as usize, list.capacity() * 8));
        assert_eq!((list.len(), list[2], list[99], list[100], list[MANY - 1]), (MANY, 7, 1, 2, 2));
    }
}
