//! The order of use: a list of all entries, linked by index.
//!
//! The links are separate from the entries. Removing an entry writes to the links of its two neighbours, which may not
//! have been used for a long time. Links of eight bytes in a dense array are more often in the cache than two whole
//! entries.

use std::marker::PhantomData;

use crate::memory::{grow, Memory};
use crate::slab::NIL;

#[derive(Clone, Copy, Debug)]
struct Link {
    earlier: u32,
    later: u32,
}

const UNLINKED: Link = Link { earlier: NIL, later: NIL };

/// A list of all entries, the least recently used first.
#[derive(Debug)]
pub struct Order<M = ()> {
    /// The links of the entries, by index. The list never shrinks, because indices become free in any order, and a
    /// shorter list would soon grow again.
    links: Vec<Link>,
    oldest: u32,
    newest: u32,
    memory: PhantomData<M>,
}

impl<M: Memory> Default for Order<M> {
    fn default() -> Self {
        Self::new()
    }
}

impl<M: Memory> Order<M> {
    /// Make an empty list.
    #[must_use]
    pub fn new() -> Self {
        Self { links: Vec::new(), oldest: NIL, newest: NIL, memory: PhantomData }
    }

    /// Return the number of bytes used.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.links.capacity() * size_of::<Link>()
    }

    /// Return the index of the least recently used entry.
    #[must_use]
    #[inline]
    pub fn oldest(&self) -> Option<u32> {
        (self.oldest != NIL).then_some(self.oldest)
    }

    /// Iterate over the indices of all entries, the least recently used first.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        std::iter::successors(self.oldest(), |&index| {
            let later = self.links[index as usize].later;
            (later != NIL).then_some(later)
        })
    }

    /// Add an entry that is not in the list, as the most recently used.
    #[inline]
    pub fn add(&mut self, index: u32) {
        if index as usize >= self.links.len() {
            grow::<M, _>(&mut self.links, index as usize + 1, UNLINKED);
        }
        self.link(index);
    }

    /// Make an entry of the list the most recently used.
    #[inline]
    pub fn use_now(&mut self, index: u32) {
        if index != self.newest {
            self.remove(index);
            self.link(index);
        }
    }

    /// Remove an entry from the list.
    #[inline]
    pub fn remove(&mut self, index: u32) {
        let Link { earlier, later } = self.links[index as usize];
        match self.links.get_mut(earlier as usize) {
            Some(link) => link.later = later,
            None => self.oldest = later,
        }
        match self.links.get_mut(later as usize) {
            Some(link) => link.earlier = earlier,
            None => self.newest = earlier,
        }
    }

    #[inline]
    fn link(&mut self, index: u32) {
        let newest = std::mem::replace(&mut self.newest, index);
        self.links[index as usize] = Link { earlier: newest, later: NIL };
        match self.links.get_mut(newest as usize) {
            Some(link) => link.later = index,
            None => self.oldest = index,
        }
    }

    /// Prefetch an entry's links.
    #[inline]
    pub fn prefetch(&self, index: u32) {
        if let Some(link) = self.links.get(index as usize) {
            M::fetch(std::ptr::from_ref(link).cast());
        }
    }

    /// Prefetch the links of an entry's neighbours.
    #[inline]
    pub fn prefetch_neighbours(&self, index: u32) {
        let Link { earlier, later } = self.links[index as usize];
        self.prefetch(earlier);
        self.prefetch(later);
    }

    /// Verify that the links in both directions agree.
    ///
    /// # Panics
    ///
    /// If the links do not agree; the message names the fault.
    pub fn check(&self) {
        let mut earlier = NIL;
        for index in self.iter() {
            assert_eq!(self.links[index as usize].earlier, earlier, "the list goes both ways");
            earlier = index;
        }
        assert_eq!(self.newest, earlier, "the list ends at the newest");
    }
}
