//! The one gate for numbers and times: it turns a type, or a buffer's format and unit, into nanoseconds, or refuses the value by name.
//!
//! An exact number (an int, a Fraction, a Decimal, a timedelta of Python, NumPy or pandas) becomes the least number of nanoseconds that
//! is not below it. A float becomes the least `n` with `n / 1e9 >= value`, so that 0.1 is 100,000,000 ns. Below zero the same holds of
//! the magnitude, so that the sign survives.

pub(crate) mod buffer;
mod functions;
mod number;
mod numpy;
mod scalar;

pub(crate) use functions::register;
pub(crate) use number::{seconds, Number};
pub(crate) use scalar::{is_one, read, to_ns};
