//! Dead objects of one kind, kept for reuse.
//!
//! A busy program sets timers as fast as others end, in waves: each wave reuses the objects of the previous one. The
//! interpreter's or the system's allocator took a fifth of the cost of setting and firing ten thousand timers for one
//! instant.

/// A stack of limited size. It reuses the object that died last first, as its memory is still cached.
#[derive(Debug)]
pub struct FreeList<T> {
    kept: Vec<T>,
    limit: usize,
}

impl<T> FreeList<T> {
    /// An empty stack. It grows on use, so a limit that is never reached costs nothing.
    #[must_use]
    pub const fn new(limit: usize) -> Self {
        Self { kept: Vec::new(), limit }
    }

    /// Take an object, if there is one.
    #[inline]
    pub fn take(&mut self) -> Option<T> {
        self.kept.pop()
    }

    /// Keep an object.
    ///
    /// # Errors
    ///
    /// The argument, if the stack is full.
    #[inline]
    pub fn keep(&mut self, dead: T) -> Result<(), T> {
        if self.kept.len() == self.limit {
            return Err(dead);
        }
        self.kept.push(dead);
        Ok(())
    }
}
