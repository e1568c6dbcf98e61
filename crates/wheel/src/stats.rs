//! The counters of a wheel.

use crate::geometry::LEVELS;

/// The counters of a wheel since it was made.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stats {
    /// Number of entries that were set.
    pub sets: u64,
    /// Number of times that an entry was moved.
    pub moves: u64,
    /// Number of cancelled entries, including drained ones.
    pub cancels: u64,
    /// Number of entries that expired.
    pub fires: u64,
    /// Number of entries that were moved to a finer level, because their slot was too full.
    pub cascades: u64,
    /// Number of entries that were put into another slot, because their deadline had been moved.
    pub refiles: u64,
    /// Number of slots on each level that were sorted into the due set as a whole.
    pub sorted: [u64; LEVELS],
    /// Number of slots on each level that were cascaded.
    pub cascaded: [u64; LEVELS],
}
