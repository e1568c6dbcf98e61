//! The keys that are being loaded, and the writes to them: a load stores its value only if its key was not written
//! after the load began.
//!
//! Keys are identified by the tags of their hashes, so a write does not have to compare keys. If two keys share a tag
//! (one pair in four billion does), a write of one key prevents a load of the other key from storing its value.

use std::collections::HashMap;

/// Records which keys were written while they were being loaded. While no key is being loaded, a write costs only one
/// check.
#[derive(Debug, Default)]
pub struct Watches {
    watched: HashMap<u32, Watched>,
    /// The number of writes that were observed.
    writes: u64,
    /// The number of the last write that affected all keys.
    of_all: u64,
    /// One record for each trace that is running: the number of the trace, and the tags that were looked up since it
    /// began. Traces show which key a subclass looks up in place of another.
    traces: Vec<(u64, Vec<u32>)>,
}

/// A tag that is being watched.
#[derive(Debug, Default)]
struct Watched {
    watchers: u32,
    /// The number of the last write to this tag, or 0 before the first one.
    written: u64,
}

/// The number of the latest write at the time when keys began to be watched, and the tags of these keys.
pub type Ticket = (u64, Vec<u32>);

impl Watches {
    /// Begin to watch several tags for writes.
    pub fn begin(&mut self, tags: Vec<u32>) -> Ticket {
        for &tag in &tags {
            self.watched.entry(tag).or_default().watchers += 1;
        }
        (self.writes, tags)
    }

    /// Stop watching the tags of a ticket.
    pub fn end(&mut self, (_, tags): &Ticket) {
        for tag in tags {
            if let Some(watched) = self.watched.get_mut(tag) {
                watched.watchers -= 1;
                if watched.watchers == 0 {
                    self.watched.remove(tag);
                }
            }
        }
    }

    /// Record that a key was written or removed.
    #[inline]
    pub fn note(&mut self, tag: u32) {
        if !self.watched.is_empty() {
            self.note_watched(tag);
        }
    }

    #[cold]
    fn note_watched(&mut self, tag: u32) {
        if let Some(watched) = self.watched.get_mut(&tag) {
            self.writes += 1;
            watched.written = self.writes;
        }
    }

    /// Record that all keys were removed.
    pub fn note_all(&mut self) {
        self.writes += 1;
        self.of_all = self.writes;
    }

    /// True if one of the ticket's keys was written or removed after the ticket was made.
    #[must_use]
    pub fn is_written(&self, (since, tags): &Ticket) -> bool {
        let is_later = |tag| self.watched.get(tag).is_some_and(|watched| watched.written > *since);
        self.of_all > *since || tags.iter().any(is_later)
    }

    /// Begin to record the tags of keys that are looked up; the result is an argument of `end_trace`.
    pub fn begin_trace(&mut self) -> u64 {
        let number = self.traces.iter().map(|(number, _)| number + 1).max().unwrap_or(0);
        self.traces.push((number, Vec::new()));
        number
    }

    /// Return the tags that were looked up since `begin_trace` returned this number.
    ///
    /// # Panics
    ///
    /// If the trace has ended.
    pub fn end_trace(&mut self, number: u64) -> Vec<u32> {
        let at = self.traces.iter().position(|(each, _)| *each == number).expect("a trace ends once");
        self.traces.swap_remove(at).1
    }

    /// Record the lookup of a key. If several traces run at the same time, each records all lookups. So a load may
    /// watch too many tags, but never too few.
    #[inline]
    pub fn asked(&mut self, tag: u32) {
        for (_, tags) in &mut self.traces {
            tags.push(tag);
        }
    }
}
