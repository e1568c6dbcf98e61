//! Which keys are being loaded, and which of them were written meanwhile: a load that ends keeps its value only if nothing newer was
//! said about its key since it began.
//!
//! Keys are known by the tags of their hashes, so that no write compares one. Two keys of one tag, one in four billion, at worst leave
//! a loaded value unkept.

use std::collections::HashMap;

/// The writes that loads look back at. While nothing is loaded a write costs one look.
#[derive(Debug, Default)]
pub struct Watches {
    watched: HashMap<u32, Watched>,
    /// How many writes were seen.
    writes: u64,
    /// Which of them was the last to concern all keys.
    of_all: u64,
    /// Where the tags of keys that are asked about are written down, for those that find out which key a subclass makes of another.
    traces: Vec<(u64, Vec<u32>)>,
}

/// One tag that somebody watches.
#[derive(Debug, Default)]
struct Watched {
    watchers: u32,
    /// The last write that concerned it, 0 before the first.
    written: u64,
}

/// Since when which tags are watched.
pub type Ticket = (u64, Vec<u32>);

impl Watches {
    /// Watch several tags.
    pub fn begin(&mut self, tags: Vec<u32>) -> Ticket {
        for &tag in &tags {
            self.watched.entry(tag).or_default().watchers += 1;
        }
        (self.writes, tags)
    }

    /// Watch no longer what a ticket was given for.
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

    /// A key was written or removed.
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

    /// All keys were removed.
    pub fn note_all(&mut self) {
        self.writes += 1;
        self.of_all = self.writes;
    }

    /// Whether one of the keys was written or removed since the ticket was given.
    #[must_use]
    pub fn is_written(&self, (since, tags): &Ticket) -> bool {
        let is_later = |tag| self.watched.get(tag).is_some_and(|watched| watched.written > *since);
        self.of_all > *since || tags.iter().any(is_later)
    }

    /// Write down from here on which keys are asked about; the number is for `end_trace`.
    pub fn begin_trace(&mut self) -> u64 {
        let number = self.traces.iter().map(|(number, _)| number + 1).max().unwrap_or(0);
        self.traces.push((number, Vec::new()));
        number
    }

    /// The tags that were asked about since `begin_trace` gave this number.
    ///
    /// # Panics
    ///
    /// If the trace has ended.
    pub fn end_trace(&mut self, number: u64) -> Vec<u32> {
        let at = self.traces.iter().position(|(each, _)| *each == number).expect("a trace ends once");
        self.traces.swap_remove(at).1
    }

    /// A key is asked about. Of several threads that trace, each gets all: too many tags are watched then, never too few.
    #[inline]
    pub fn asked(&mut self, tag: u32) {
        for (_, tags) in &mut self.traces {
            tags.push(tag);
        }
    }
}
