//! Dead things of one kind, kept for the next one.
//!
//! A busy program sets timers as fast as others end, in waves: what a wave leaves is what the next one takes. Going through the
//! interpreter's allocator or the system's took a fifth of setting and firing ten thousand timers for one instant.

/// A stack of at most so many: the one that died last, whose memory is nearest, is taken first.
#[derive(Debug)]
pub struct Spares<T> {
    kept: Vec<T>,
    limit: usize,
}

impl<T> Spares<T> {
    /// An empty stack. It grows as it is used, so a limit that is never reached costs nothing.
    #[must_use]
    pub const fn new(limit: usize) -> Self {
        Self { kept: Vec::new(), limit }
    }

    /// Take one out, if there is one.
    #[inline]
    pub fn take(&mut self) -> Option<T> {
        self.kept.pop()
    }

    /// Keep one.
    ///
    /// # Errors
    ///
    /// What was given, if there are enough.
    #[inline]
    pub fn keep(&mut self, dead: T) -> Result<(), T> {
        if self.kept.len() == self.limit {
            return Err(dead);
        }
        self.kept.push(dead);
        Ok(())
    }
}
