//! The due set: entries whose slot has begun, in exact order (deadline, then sequence).
//!
//! The entries of a slot are sorted once into a list, called `run`. Entries that are set later, for a slot that has
//! begun, go into a small heap. The next entry to leave is the first one of the list or of the heap, whichever is less.
//!
//! A cancelled entry is removed from the heap at once. In the list, its key stays behind; the key is stale, which its
//! sequence shows. The list is filled only when a slot begins, so cancels do not make it grow.

use crate::slab::{Slab, NIL};
use crate::slots::{IN_HEAP, IN_RUN};

/// Number of children of a node in the heap: four keys fill two cache lines.
const ARITY: usize = 4;
/// A list or heap with a larger capacity than this releases its memory when it becomes empty.
const KEPT: usize = 4096;

/// The sort key of an entry (deadline, then sequence), with the index of the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) deadline: u64,
    pub(crate) sequence: u64,
    pub(crate) index: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Due {
    /// The sorted entries of a slot, the latest first, so that the next entry to leave is popped from the end.
    run: Vec<Key>,
    heap: Vec<Key>,
    /// The entries of a slot, until they are sorted.
    arriving: Vec<Key>,
}

impl Due {
    /// Add an entry of a slot that has begun; `settle` must follow before any other call.
    #[inline]
    pub(crate) fn arrive<P>(&mut self, slab: &mut Slab<P>, index: u32) {
        let entry = slab.at_mut(index);
        entry.place = IN_RUN;
        entry.next = NIL;
        self.arriving.push(Key { deadline: entry.deadline, sequence: entry.sequence, index });
    }

    /// Sort the entries that `arrive` has added into the list `run`. If there are only a few, insert them into the heap
    /// instead.
    pub(crate) fn settle<P>(&mut self, slab: &mut Slab<P>) {
        match self.arriving.len() {
            0 => return,
            // For a few entries beside a longer run, inserting into the heap is cheaper than moving the run.
            few @ 1..=16 if self.run.len() > 4 * few => {
                while let Some(key) = self.arriving.pop() {
                    self.push(slab, key);
                }
                return;
            }
            _ => {}
        }
        self.arriving.sort_unstable_by(|a, b| b.cmp(a));
        if self.run.is_empty() {
            std::mem::swap(&mut self.run, &mut self.arriving);
        } else {
            self.run.append(&mut self.arriving);
            self.run.sort_by(|a, b| b.cmp(a)); // the list is two sorted runs, which this sort merges
        }
        if self.arriving.capacity() > KEPT {
            self.arriving = Vec::new();
        }
    }

    /// Add one entry to the heap, in O(log n).
    pub(crate) fn insert<P>(&mut self, slab: &mut Slab<P>, index: u32) {
        let entry = slab.at(index);
        let key = Key { deadline: entry.deadline, sequence: entry.sequence, index };
        self.push(slab, key);
    }

    /// Return the key of the next entry to leave.
    #[inline]
    pub(crate) fn peek<P>(&mut self, slab: &Slab<P>) -> Option<Key> {
        while let Some(key) = self.run.last() {
            if slab.is_filed(key.index, key.sequence) {
                break;
            }
            self.run.pop();
        }
        match (self.run.last(), self.heap.first()) {
            (Some(run), Some(heap)) => Some(*run.min(heap)),
            (one, other) => one.or(other).copied(),
        }
    }

    /// Return the index of the entry that probably leaves after `ahead` other entries. The result may be wrong, because
    /// the list of sorted entries may contain keys of cancelled entries.
    #[inline]
    pub(crate) fn index_ahead(&self, ahead: usize) -> Option<u32> {
        self.run.iter().nth_back(ahead).map(|key| key.index)
    }

    /// Remove the entry that `peek` has just returned.
    #[inline]
    pub(crate) fn pop<P>(&mut self, slab: &mut Slab<P>, key: Key) {
        if slab.at(key.index).place == IN_HEAP {
            self.take(slab, 0);
            return;
        }
        self.run.pop();
        if self.run.is_empty() && self.run.capacity() > KEPT {
            self.run = Vec::new();
        }
    }

    /// Return the keys of the sorted list, some of which may be stale, and the keys of the heap; for the checker.
    pub(crate) fn parts(&self) -> (&[Key], &[Key]) {
        debug_assert!(self.arriving.is_empty());
        (&self.run, &self.heap)
    }

    fn push<P>(&mut self, slab: &mut Slab<P>, key: Key) {
        slab.at_mut(key.index).place = IN_HEAP;
        self.heap.push(key);
        self.sift_up(slab, self.heap.len() - 1, key);
    }

    /// Remove the entry at position `at` of the heap.
    pub(crate) fn take<P>(&mut self, slab: &mut Slab<P>, at: usize) {
        let last = self.heap.pop().expect("the heap holds what is taken");
        if at < self.heap.len() {
            let gone = std::mem::replace(&mut self.heap[at], last);
            if last < gone {
                self.sift_up(slab, at, last);
            } else {
                self.sift_down(slab, at, last);
            }
        } else if self.heap.is_empty() && self.heap.capacity() > KEPT {
            self.heap = Vec::new();
        }
    }

    fn sift_up<P>(&mut self, slab: &mut Slab<P>, mut at: usize, key: Key) {
        while at > 0 {
            let parent = (at - 1) / ARITY;
            if self.heap[parent] < key {
                break;
            }
            self.put(slab, at, self.heap[parent]);
            at = parent;
        }
        self.put(slab, at, key);
    }

    fn sift_down<P>(&mut self, slab: &mut Slab<P>, mut at: usize, key: Key) {
        loop {
            let first = at * ARITY + 1;
            let children = first..(first + ARITY).min(self.heap.len());
            let Some(least) = children.min_by_key(|&child| self.heap[child]) else {
                break;
            };
            if key < self.heap[least] {
                break;
            }
            self.put(slab, at, self.heap[least]);
            at = least;
        }
        self.put(slab, at, key);
    }

    #[inline]
    fn put<P>(&mut self, slab: &mut Slab<P>, at: usize, key: Key) {
        self.heap[at] = key;
        slab.at_mut(key.index).previous = at as u32;
    }
}
