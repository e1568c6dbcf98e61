//! A number of seconds, and its conversion to nanoseconds.

use tickwheel_core::NEVER;

pub(crate) const NS_PER_S: u64 = 1_000_000_000;

/// Seconds that are not negative, not NaN and not beyond `NEVER`.
pub(super) const USUAL: std::ops::Range<f64> = 0.0..9.2e9;

/// 26 days in nanoseconds. Below this, rounding changes `value * 1e9` by at most an eighth of a nanosecond, and `n /
/// 1e9` by at most a quarter of a nanosecond.
const NEAR: f64 = (1_u64 << 51) as f64;

/// Return nanoseconds as seconds, like `tickwheel.clock.seconds`.
#[inline]
pub(crate) fn seconds(ns: u64) -> f64 {
    if ns >= NEVER {
        f64::INFINITY
    } else {
        ns.cast_signed() as f64 / 1e9 // a signed integer becomes a float in one instruction
    }
}

/// A number of seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Number {
    /// A value of a floating-point type; never NaN.
    Float(f64),
    /// The nanoseconds of a value of an exact type. `NEVER` also means all larger values, and `-NEVER` all smaller
    /// ones.
    Ns(i64),
}

impl Number {
    /// Make an exact number: `ns` is its nanoseconds, rounded away from zero, and `value` returns its seconds as the
    /// nearest float.
    ///
    /// Beyond 104 days, floats are coarser than nanoseconds. The nanoseconds are then raised until they are not less
    /// than `value`.
    #[inline]
    pub(super) fn exact(ns: i128, value: impl FnOnce() -> f64) -> Self {
        if ns.unsigned_abs() <= 1 << f64::MANTISSA_DIGITS {
            return Self::Ns(ns as i64);
        }
        Self::Ns(Self::raised(ns, value()))
    }

    #[cold]
    fn raised(ns: i128, value: f64) -> i64 {
        let never = i128::from(NEVER);
        let mut ns = ns.clamp(-never, never) as i64;
        while ns > 0 && ns < NEVER.cast_signed() && (ns as f64 / 1e9) < value {
            ns += 1;
        }
        ns
    }

    /// Make a number of whole seconds.
    pub(super) fn whole(value: i64) -> Self {
        Self::exact(i128::from(value) * i128::from(NS_PER_S), || value as f64)
    }

    /// Return nanoseconds, rounded away from zero.
    pub(crate) fn ns(self) -> i64 {
        match self {
            Self::Float(value) if value < 0.0 => -magnitude(-value),
            Self::Float(value) => magnitude(value),
            Self::Ns(ns) => ns,
        }
    }

    /// Return the nanoseconds of a deadline or a delay; a negative value becomes zero.
    pub(crate) fn deadline(self) -> u64 {
        self.ns().max(0).cast_unsigned()
    }

    /// Return the number of seconds as a float.
    pub(crate) fn seconds(self) -> f64 {
        match self {
            Self::Float(value) => value,
            Self::Ns(ns) if ns < 0 => -seconds(ns.unsigned_abs()),
            Self::Ns(ns) => seconds(ns.unsigned_abs()),
        }
    }
}

fn magnitude(value: f64) -> i64 {
    if value < NEVER as f64 / 1e9 {
        least_ns(value).min(NEVER).cast_signed()
    } else {
        NEVER.cast_signed()
    }
}

/// Return the least `n` with `n / 1e9 >= value`.
#[inline]
pub(super) fn least_ns(value: f64) -> u64 {
    let product = value * 1e9;
    if product < NEAR {
        // So the whole part minus one is too small, and the whole part plus one is large enough: one division decides.
        let whole = product as i64;
        return (whole + i64::from((whole as f64 / 1e9) < value)).cast_unsigned();
    }
    let mut ns = product.ceil() as u64;
    while (ns - 1) as f64 / 1e9 >= value {
        ns -= 1;
    }
    while (ns as f64 / 1e9) < value {
        ns += 1;
    }
    ns
}
