//! Counters, plain integers.

use crate::geometry::LEVELS;

/// The counters of a wheel since its construction.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stats {
    /// Entries set.
    pub sets: u64,
    /// Entries moved.
    pub moves: u64,
    /// Entries cancelled, including drained ones.
    pub cancels: u64,
    /// Entries that expired.
    pub fires: u64,
    /// Entries filed again on a finer level because their slot was full.
    pub cascades: u64,
    /// Entries filed again because they had been moved to later.
    pub refiles: u64,
    /// Per level, slots that were sorted into the due set as a whole.
    pub sorted: [u64; LEVELS],
    /// Per level, slots cascaded.
    pub cascaded: [u64; LEVELS],
}
