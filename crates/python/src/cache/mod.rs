//! The storage of caches.
//!
//! # Ground rules: who holds which reference
//!
//! | holder | holds | from | to |
//! |---|---|---|---|
//! | wheel entry (`Item`) | key and value | the key is inserted; for a new value: it replaces the former value | the entry leaves the wheel: expired, evicted, replaced, removed, cleared |
//! | [`RemovedEntry`](store::RemovedEntry) | key and value of an entry that has left | the entry leaves the wheel | the `RemovedEntry` was reported to the hook or dropped, while no `GilCell` is borrowed |
//! | table, order of use, sizes, watches | no references: only indices of entries, and tags of hashes | the key is inserted | the entry leaves the wheel |
//! | `Hooks` of a cache | clock, callables | `_open` is called, or they are assigned | they are replaced, or the cache is freed or cleared |
//! | a lookup | a new reference to the value | the value is found, while the store's `GilCell` is borrowed | the caller drops the reference |
//! | `Probe::Doubt` | a new reference to a stored key that Python has to compare with the wanted key | the search finds the stored key | the two keys were compared |
//! | iterator | the cache, and ids of entries | the iterator is made | the iterator reaches its end |
//!
//! No object is dropped while a [`GilCell`](crate::cpython::cell) is borrowed, because dropping runs Python code. The
//! collector sees the keys, values and hooks of a cache through its `__traverse__`. It does not see a `RemovedEntry`.
//! The running call owns that object, so its key and value count as referenced from outside.

pub(crate) mod iter;
pub(crate) mod leaving;
pub(crate) mod loads;
pub(crate) mod methods;
pub(crate) mod object;
pub(crate) mod probe;
pub(crate) mod rules;
pub(crate) mod store;
