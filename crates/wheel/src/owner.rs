//! What a wheel asks of its owner: where an entry is by now, if the owner moves entries without it.

/// The owner of a wheel's entries; `()` leaves them all to the wheel.
///
/// A timer that is moved again and again is at hand where it is moved, and its entry is not: so an owner may write down there what
/// [`Wheel::postpone`](crate::Wheel::postpone) gave it, and the wheel asks when the entry's slot comes up.
pub trait Owner<P> {
    /// The deadline and the sequence of an entry that the owner has moved since the wheel filed it last; `None`: it has not.
    #[inline]
    fn moved(payload: &P) -> Option<(u64, u64)> {
        let _ = payload;
        None
    }

    /// `moved` is asked about this one soon.
    #[inline]
    fn expect(payload: &P) {
        let _ = payload;
    }
}

impl<P> Owner<P> for () {}
