//! The storage of caches.

pub(crate) mod iter;
pub(crate) mod leaving;
pub(crate) mod loads;
pub(crate) mod methods;
pub(crate) mod object;
pub(crate) mod probe;
pub(crate) mod rules;
pub(crate) mod store;
