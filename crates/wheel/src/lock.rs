//! A lock that knows which thread holds it, for values that threads share without an interpreter lock.

use std::ptr::from_ref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

// The address of this variable identifies the thread.
thread_local!(static MARK: u8 = const { 0 });

/// A value that only one thread at a time uses.
///
/// If a thread that uses the value calls `with` again, that call panics instead of waiting for its own thread. A panic
/// leaves the value in its current state, and other threads may continue to use it.
#[derive(Debug)]
pub struct Lock<T> {
    /// The mark (see `mark`) of the thread that holds the lock, or 0. A thread only compares this field with its own
    /// mark, which no other thread writes, so no memory ordering is needed.
    inside: AtomicUsize,
    value: Mutex<T>,
}

/// Makes the lock free again when this guard is dropped, even by a panic.
struct Leave<'a>(&'a AtomicUsize);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

impl<T> Lock<T> {
    /// Make a free lock.
    pub const fn new(value: T) -> Self {
        Self { inside: AtomicUsize::new(0), value: Mutex::new(value) }
    }

    /// Call `f` with the value, as soon as no other thread uses it.
    ///
    /// # Panics
    ///
    /// If this thread uses it already.
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        assert!(self.inside.load(Ordering::Relaxed) != mark(), "a thread came back into a lock that it is in");
        self.enter(self.value.lock().unwrap_or_else(PoisonError::into_inner), f)
    }

    /// Call `f` with the value, or return `None` if a thread uses it already.
    pub fn try_with<R>(&self, f: impl FnOnce(&mut T) -> R) -> Option<R> {
        let value = match self.value.try_lock() {
            Ok(value) => value,
            Err(TryLockError::Poisoned(error)) => error.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(self.enter(value, f))
    }

    fn enter<R>(&self, mut value: MutexGuard<'_, T>, f: impl FnOnce(&mut T) -> R) -> R {
        self.inside.store(mark(), Ordering::Relaxed);
        let _leave = Leave(&self.inside); // dropped before the guard, so it never clears the mark of the next thread
        f(&mut value)
    }
}

/// Return a number that identifies the calling thread; no two living threads have the same number.
fn mark() -> usize {
    MARK.with(|mark| from_ref(mark).addr())
}

#[cfg(test)]
mod tests {
    use std::panic::{catch_unwind, AssertUnwindSafe};
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    #[test]
    fn threads_take_turns() {
        let lock = Lock::new(0);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        lock.with(|value| {
                            let read = *value;
                            thread::yield_now();
                            *value = read + 1;
                        });
                    }
                });
            }
        });
        assert_eq!(lock.with(|value| *value), 2000);
    }

    #[test]
    fn while_one_is_in_another_may_try_and_waits() {
        let (lock, met) = (Lock::new(1), Barrier::new(2));
        thread::scope(|scope| {
            scope.spawn(|| {
                lock.with(|value| {
                    met.wait(); // the lock is held
                    met.wait(); // the other thread has tried
                    *value = 2;
                });
            });
            met.wait();
            assert_eq!(lock.try_with(|value| *value), None);
            met.wait();
            assert_eq!(lock.with(|value| *value), 2, "not before the first has left");
        });
        assert_eq!(lock.try_with(|value| *value), Some(2));
    }

    #[test]
    fn whoever_comes_back_panics_and_nobody_is_locked_out() {
        let lock = Lock::new(1);
        let back = catch_unwind(AssertUnwindSafe(|| lock.with(|_| lock.with(|value| *value))));
        assert!(back.is_err());
        assert_eq!(lock.try_with(|value| std::mem::replace(value, 2)), Some(1));
        assert_eq!(lock.with(|value| (*value, lock.try_with(|value| *value))), (2, None));
    }
}
