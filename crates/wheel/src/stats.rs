//! Counts, kept by adding to integers.

use crate::geometry::LEVELS;

/// What a wheel has done since it was made.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stats {
    /// Entries set.
    pub sets: u64,
    /// Entries moved.
    pub moves: u64,
    /// Entries cancelled, drained ones included.
    pub cancels: u64,
    /// Entries that expired.
    pub fires: u64,
    /// Entries filed again on a finer level because their slot was crowded.
    pub cascades: u64,
    /// Entries filed again because they had been moved to later.
    pub refiles: u64,
    /// Per level, slots sorted into the due set as a whole: how coarse the filing tick was.
    pub sorted: [u64; LEVELS],
    /// Per level, slots cascaded.
    pub cascaded: [u64; LEVELS],
}
