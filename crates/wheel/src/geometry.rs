//! The arithmetic of levels and slots, as small pure functions.

/// A tick, which is the length of a slot on level 0, is `2^TICK_BITS` nanoseconds: about one microsecond. Python code
/// cannot distinguish finer times.
const TICK_BITS: u32 = 10;
/// There are `2^SLOT_BITS` slots on each level, with one bit each in a `u64`.
const SLOT_BITS: u32 = 6;
/// Number of slots on each level.
pub(crate) const SLOTS: usize = 1 << SLOT_BITS;
/// Number of levels needed for every `u64`: `(64 - TICK_BITS) / SLOT_BITS`.
pub(crate) const LEVELS: usize = 9;

const _: () = assert!(TICK_BITS + SLOT_BITS * LEVELS as u32 == 64);

/// Return the exponent of a slot's length: a slot on `level` is `2^shift(level)` nanoseconds long.
#[inline]
pub(crate) fn shift(level: usize) -> u32 {
    TICK_BITS + SLOT_BITS * level as u32
}

/// Return the slot of `time` on `level`.
#[inline]
pub(crate) fn slot_for(time: u64, level: usize) -> usize {
    (time >> shift(level)) as usize & (SLOTS - 1)
}

/// Return the level of a deadline relative to `hand`, or `None` if the deadline's tick has begun or passed.
#[inline]
pub(crate) fn level_for(deadline: u64, hand: u64) -> Option<usize> {
    let tick_last = hand | ((1 << TICK_BITS) - 1);
    (deadline > tick_last).then(|| (((deadline ^ hand).ilog2() - TICK_BITS) / SLOT_BITS) as usize)
}

/// Return the first instant of `slot` on `level`, in the revolution of this level that contains `hand`.
#[inline]
pub(crate) fn slot_start(hand: u64, level: usize, slot: usize) -> u64 {
    let above = shift(level) + SLOT_BITS;
    let turn = if above >= 64 { 0 } else { hand >> above << above };
    turn | (slot as u64) << shift(level)
}

/// Return the last instant of the slot of `level` that begins at `start`.
#[inline]
pub(crate) fn slot_last(start: u64, level: usize) -> u64 {
    start | ((1u64 << shift(level)) - 1)
}

/// Return the instant in `[deadline, deadline + slack]` with the most trailing zero bits, so that timers with slack
/// share a wake-up.
///
/// This is the rule of Linux's deferrable timers (`round_jiffies`, `apply_slack`), for any unit.
#[must_use]
pub fn coalesce(deadline: u64, slack: u64) -> u64 {
    let latest = deadline.saturating_add(slack);
    let Some(before) = deadline.checked_sub(1) else {
        return 0;
    };
    let kept = (before ^ latest).ilog2();
    latest >> kept << kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_in_the_hands_tick_or_before_it_has_no_level() {
        for hand in [0, 1, 1023, 1024, 1 << 40, u64::MAX >> 1] {
            assert_eq!(level_for(hand, hand), None);
            assert_eq!(level_for(hand | 1023, hand), None);
            assert_eq!(level_for(hand.saturating_sub(5000), hand), None);
        }
    }

    #[test]
    fn slack_finds_the_roundest_instant_that_it_allows() {
        for deadline in 0..300u64 {
            for slack in 0..70 {
                let roundest = (deadline..=deadline + slack).max_by_key(|at| at.trailing_zeros());
                let chosen = coalesce(deadline, slack);
                assert!((deadline..=deadline + slack).contains(&chosen));
                assert_eq!(chosen.trailing_zeros(), roundest.map_or(64, u64::trailing_zeros));
            }
        }
    }

    #[test]
    fn each_level_begins_where_the_one_below_it_ends() {
        for level in 0..LEVELS {
            assert_eq!(level_for(1 << shift(level), 0), Some(level));
            if level > 0 {
                assert_eq!(level_for((1 << shift(level)) - 1, 0), Some(level - 1));
            }
        }
        assert_eq!(level_for(u64::MAX, 0), Some(LEVELS - 1));
        assert_eq!(level_for(1 << 63, (1 << 63) - 1), Some(LEVELS - 1));
    }

    #[test]
    fn a_deadline_lies_in_the_slot_it_is_filed_in() {
        let instants: Vec<u64> =
            (0..63).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit, (1 << bit) + 1, 3 << bit]).collect();
        for &hand in &instants {
            for &deadline in &instants {
                let Some(level) = level_for(deadline, hand) else {
                    continue;
                };
                let slot = slot_for(deadline, level);
                let start = slot_start(hand, level, slot);
                assert!(start <= deadline && deadline <= slot_last(start, level));
                assert!(slot > slot_for(hand, level), "never the hand's own slot");
                assert!(start > hand);
            }
        }
    }
}
