//! The index of keys: an open-addressed table of 64-bit numbers. Half of a number is a part of the key's hash (the
//! tag), and the other half is the index of the entry.
//!
//! Keys are not stored here, so the caller compares them, and the table calls no other code. The search for a key
//! begins at the position that the high bits of its tag give. The numbers are therefore almost in the order of their
//! tags, so growth reads the old table and writes the new one from beginning to end. Neither growth nor removal touches
//! an entry.

use std::marker::PhantomData;

use crate::memory::{grow, Memory};

/// A position without an entry: the index `u32::MAX` is never used.
const EMPTY: u64 = u64::MAX;
/// Minimum size of a table, as the exponent of a power of two.
const LEAST_BITS: u32 = 3;
/// Multiplier that spreads adjacent hashes, because Python's small integers are their own hashes. It is 2^64 divided by
/// the golden ratio.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// Return the half of a hash that the table stores.
#[must_use]
#[inline]
pub fn tag_of(hash: isize) -> u32 {
    (hash.cast_unsigned() as u64).wrapping_mul(SPREAD).wrapping_shr(32) as u32
}

/// The table that finds the entries of a cache by the tags of their keys.
#[derive(Debug)]
pub struct Table<M = ()> {
    places: Vec<u64>,
    bits: u32,
    len: usize,
    memory: PhantomData<M>,
}

impl<M: Memory> Default for Table<M> {
    fn default() -> Self {
        Self::new()
    }
}

impl<M: Memory> Table<M> {
    /// Make an empty table.
    #[must_use]
    pub fn new() -> Self {
        Self { places: vec![EMPTY; 1 << LEAST_BITS], bits: LEAST_BITS, len: 0, memory: PhantomData }
    }

    /// Return the number of indices in the table.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if the table is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Return the number of bytes used.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.places)
    }

    /// Return the indices with this tag. Each of them could be that of the wanted key.
    #[inline]
    pub fn candidates(&self, tag: u32) -> impl Iterator<Item = u32> + '_ {
        let mut at = self.home(tag);
        std::iter::from_fn(move || loop {
            let word = self.places[at];
            if word == EMPTY {
                return None;
            }
            at = self.after(at);
            if (word >> 32) as u32 == tag {
                return Some(word as u32);
            }
        })
    }

    /// Add an index that is not in the table and is not `u32::MAX`.
    ///
    /// # Panics
    ///
    /// If there are four billion entries.
    #[inline]
    pub fn insert(&mut self, tag: u32, index: u32) {
        if self.len >= self.places.len() / 4 * 3 {
            self.resize(self.bits + 1);
        }
        self.len += 1;
        self.place(word_of(tag, index));
    }

    /// Remove an index; the indices behind it move up to close the gap.
    ///
    /// # Panics
    ///
    /// If the index is missing.
    #[inline]
    pub fn remove(&mut self, tag: u32, index: u32) {
        let word = word_of(tag, index);
        let mut gap = self.home(tag);
        while self.places[gap] != word {
            assert!(self.places[gap] != EMPTY, "what is removed is in the table");
            gap = self.after(gap);
        }
        let mut at = gap;
        loop {
            at = self.after(at);
            let moved = self.places[at];
            if moved == EMPTY {
                break;
            }
            // An index can move into the gap unless its home place is behind the gap.
            let home = self.home((moved >> 32) as u32);
            if self.distance(home, at) >= self.distance(gap, at) {
                self.places[gap] = moved;
                gap = at;
            }
        }
        self.places[gap] = EMPTY;
        self.len -= 1;
    }

    /// Remove several indices, which are given as pairs of tag and index.
    pub fn remove_all(&mut self, words: &[(u32, u32)]) {
        for &(tag, index) in words {
            self.remove(tag, index);
        }
    }

    /// Prefetch the position at which the search for a tag begins.
    #[inline]
    pub fn prefetch(&self, tag: u32) {
        M::fetch((&raw const self.places[self.home(tag)]).cast());
    }

    /// Release memory after many removals.
    pub fn shrink(&mut self) {
        if self.len < self.places.len() / 16 {
            let bits = (self.len * 2).next_power_of_two().trailing_zeros();
            self.resize(bits.max(LEAST_BITS));
        }
    }

    #[cold]
    fn resize(&mut self, bits: u32) {
        assert!(bits <= 32, "four billion entries");
        self.bits = bits;
        let former = std::mem::take(&mut self.places);
        grow::<M, _>(&mut self.places, 1 << bits, EMPTY);
        for &word in former.iter().filter(|&&word| word != EMPTY) {
            self.place(word);
        }
    }

    #[inline]
    fn place(&mut self, word: u64) {
        let mut at = self.home((word >> 32) as u32);
        while self.places[at] != EMPTY {
            at = self.after(at);
        }
        self.places[at] = word;
    }

    #[inline]
    fn home(&self, tag: u32) -> usize {
        (tag >> (32 - self.bits)) as usize
    }

    #[inline]
    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.places.len() - 1)
    }

    #[inline]
    fn distance(&self, from: usize, to: usize) -> usize {
        to.wrapping_sub(from) & (self.places.len() - 1)
    }

    /// Verify that the search for each index in the table finds it exactly once, and that `len` is the number of
    /// indices.
    ///
    /// # Panics
    ///
    /// If this does not hold; the message names the fault.
    pub fn check(&self) {
        let words = self.places.iter().filter(|&&word| word != EMPTY);
        assert_eq!(words.clone().count(), self.len, "the table counts its words");
        for &word in words {
            let found = self.candidates((word >> 32) as u32).filter(|&index| index == word as u32).count();
            assert_eq!(found, 1, "a word is found once from its home");
        }
    }
}

#[inline]
fn word_of(tag: u32, index: u32) -> u64 {
    u64::from(tag) << 32 | u64::from(index)
}
