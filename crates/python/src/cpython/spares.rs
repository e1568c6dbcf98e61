//! Dead objects of one size, kept for the next one.
//!
//! A busy program sets timers as fast as others end, in waves: what a wave leaves is what the next one takes. Going through the
//! interpreter's allocator or the system's took a fifth of setting and firing ten thousand timers for one instant.

use std::ptr::null_mut;

/// How many are kept: the waves of a busy server. Of 48 bytes each that is 768 kB, which only a program that has had so many keeps.
const KEPT: usize = 16 * 1024;

/// A list of blocks, each of which begins with the address of the next. Touched with the GIL held only.
pub(crate) struct Spares {
    first: *mut Spare,
    len: usize,
}

struct Spare {
    next: *mut Spare,
}

impl Spares {
    pub(crate) const fn new() -> Self {
        Self { first: null_mut(), len: 0 }
    }

    /// Take a block out; null if there is none.
    #[inline]
    pub(crate) fn take<T>(&mut self) -> *mut T {
        let spare = self.first;
        if !spare.is_null() {
            // SAFETY: `keep` was given a block that is nobody else's, and wrote it.
            self.first = unsafe { (*spare).next };
            self.len -= 1;
        }
        spare.cast()
    }

    /// Keep a block; false, and it is still the caller's, if there are enough.
    ///
    /// # Safety
    ///
    /// The block is the caller's, aligned for and not smaller than a pointer, and of the size that the takers expect.
    #[inline]
    pub(crate) unsafe fn keep<T>(&mut self, block: *mut T) -> bool {
        if self.len == KEPT {
            return false;
        }
        let spare = block.cast::<Spare>();
        // SAFETY: as the caller says.
        unsafe { spare.write(Spare { next: self.first }) };
        self.first = spare;
        self.len += 1;
        true
    }
}
