//! The parts that deal with CPython rather than with timers: the lock, the panic guard, calls, types and functions of
//! the C API.

pub(crate) mod blocks;
pub(crate) mod call;
pub(crate) mod cell;
pub(crate) mod errors;
pub(crate) mod fast_methods;
pub(crate) mod free_list;
pub(crate) mod member;
pub(crate) mod method;
pub(crate) mod modules;
#[cfg(unwinds_threads)]
mod parking;
pub(crate) mod record;
pub(crate) mod reports;
pub(crate) mod type_builder;
