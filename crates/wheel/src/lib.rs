//! A hierarchical timing wheel with exact nanosecond deadlines: no clock, no Python, no unsafe.
#![forbid(unsafe_code)]
