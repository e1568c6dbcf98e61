//! A hierarchical timing wheel with exact nanosecond deadlines: no clock, no Python, no unsafe.
//!
//! The idea is Varghese and Lauck's ("Hashed and hierarchical timing wheels", SOSP 1987, scheme 7), with three changes:
//!
//! * Entries are put into slots by a coarse tick, but leave by their exact deadline: when the span of a slot begins,
//!   its entries are sorted into the [due set](due). So precision does not depend on the tick.
//! * A slot with few entries is sorted into the due set at any level. Only a slot with many entries is cascaded to the
//!   finer levels below. So sparse timers are touched twice in their life, and dense timers get slots of microseconds.
//! * An entry that is moved to a later deadline stays in its old slot until that slot begins. An [owner](Owner) that
//!   stores deadlines itself does not even touch the entry.
//!
//! # Geometry
//!
//! | level | slots | one slot spans | the level reaches |
//! |---|---|---|---|
//! | 0 | 64 | 1.02 us | 65.5 us |
//! | 1 | 64 | 65.5 us | 4.19 ms |
//! | 2 | 64 | 4.19 ms | 268 ms |
//! | 3 | 64 | 268 ms | 17.2 s |
//! | 4 | 64 | 17.2 s | 18.3 min |
//! | 5 | 64 | 18.3 min | 19.5 h |
//! | 6 | 64 | 19.5 h | 52 days |
//! | 7 | 64 | 52 days | 9.1 years |
//! | 8 | 64 | 9.1 years | 584 years: every `u64` of nanoseconds |
//!
//! An entry's level is the highest digit (base 64) in which its deadline differs from the wheel's time (the *hand*). So
//! no entry is in the slot that contains the hand, and deadlines are never clamped, however long the uptime.
//!
//! # Cost
//!
//! `insert`, `cancel`, `reschedule`: O(1), or O(log m) for an entry whose slot has already begun, if there are m such
//! entries. `pop`: O(1) amortised over at most nine cascades and one sort in an entry's life.

//! # For a cache
//!
//! A [table] finds entries by the hashes of keys, and never sees the keys. A list keeps the [order] of use. Both
//! identify an entry by its index, as the wheel does, so only the wheel stores keys and values. [Watches] record which
//! keys are written during a load.
//!
//! # For a service
//!
//! The nesting depth of [JSON text](nests_deeper) is counted before a decoder reads it.

#![forbid(unsafe_code)]

mod access;
mod check;
pub mod due;
mod free_list;
mod geometry;
mod lock;
mod memory;
mod nesting;
mod occupancy;
mod opening;
pub mod order;
mod owner;
mod slab;
mod slots;
mod stats;
pub mod table;
pub mod watches;
mod wheel;

pub use free_list::FreeList;
pub use geometry::coalesce;
pub use lock::Lock;
pub use memory::Memory;
pub use nesting::nests_deeper;
pub use occupancy::Occupancy;
pub use order::Order;
pub use owner::Owner;
pub use slab::Id;
pub use stats::Stats;
pub use table::{tag_of, Table};
pub use watches::{Ticket, Watches};
pub use wheel::{Expired, Pop, Wheel, NEVER};
