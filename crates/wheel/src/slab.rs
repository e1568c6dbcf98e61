//! The memory of entries. It consists of chunks of a fixed size, so growth copies nothing, and a chunk is released when
//! its last entry has left. Entries that have the same index one after another have different ids.

use crate::owner::Owner;

/// Number of entries per chunk. Growth allocates one chunk, which is small enough to avoid a pause, and large enough to
/// cost little per entry.
const CHUNK: usize = 256;
const CHUNK_BITS: u32 = CHUNK.trailing_zeros();
/// The index that means no entry.
pub(crate) const NIL: u32 = u32::MAX;
/// The largest generation, which keeps an id below `2^63`. An index that has reached this generation is not used again.
const LAST_GENERATION: u32 = (1 << 31) - 1;

/// The id of an entry: its generation and its index. It is never 0, always below `2^63`, and never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(u64);

impl Id {
    fn new(generation: u32, index: u32) -> Self {
        Self(u64::from(generation) << 32 | u64::from(index))
    }

    /// Return the id as a number.
    #[must_use]
    #[inline]
    pub fn to_u64(self) -> u64 {
        self.0
    }

    /// Return the id with this number. The number may be one that was never an id; then the result finds no entry.
    #[must_use]
    #[inline]
    pub fn from_u64(number: u64) -> Self {
        Self(number)
    }

    /// Return the index of the entry in the slab. Another entry may get the same index after this one has left.
    #[must_use]
    #[inline]
    pub fn index(self) -> u32 {
        self.0 as u32
    }

    #[inline]
    fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// One entry. `previous` and `next` link it into the list of its slot. In the due heap, `previous` is the entry's
/// position there. In a free entry, `next` is the next free entry of its chunk.
#[derive(Debug)]
pub(crate) struct Entry<P> {
    pub(crate) deadline: u64,
    pub(crate) sequence: u64,
    pub(crate) previous: u32,
    pub(crate) next: u32,
    generation: u32,
    pub(crate) place: u16,
    payload: Option<P>,
}

/// A chunk's entries, aligned to a cache line, so that an entry of 64 bytes fills one line.
#[derive(Debug)]
#[repr(align(64))]
struct Block<P>([Entry<P>; CHUNK]);

#[derive(Debug)]
struct Chunk<P> {
    /// The entries, or `None` while none of them lives.
    entries: Option<Box<Block<P>>>,
    /// The first generation of the entries when the memory of the chunk is allocated again. It is above all generations
    /// of the former entries.
    first_generation: u32,
    free: u32,
    live: u32,
    /// True if the chunk is in `Slab::with_room`.
    is_listed: bool,
}

/// All entries, by index.
#[derive(Debug)]
pub(crate) struct Slab<P> {
    chunks: Vec<Chunk<P>>,
    /// Chunks with a free entry or without memory; the last chunk in the list is used next.
    with_room: Vec<u32>,
    /// The chunk that became empty last and keeps its memory, or `NIL` before the first one.
    spare: u32,
    len: usize,
}

impl<P> Slab<P> {
    pub(crate) fn new() -> Self {
        Self { chunks: Vec::new(), with_room: Vec::new(), spare: NIL, len: 0 }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Return the number of bytes used for entries, including free ones.
    pub(crate) fn bytes(&self) -> usize {
        let filled = self.chunks.iter().filter(|chunk| chunk.entries.is_some()).count();
        filled * size_of::<Block<P>>() + self.chunks.capacity() * size_of::<Chunk<P>>()
    }

    /// Store a payload in a free entry, and link that entry back to `previous`, the last entry of its list.
    ///
    /// # Panics
    ///
    /// If there are four billion entries.
    #[allow(clippy::inline_always)] // saves one and a half of eleven nanoseconds of an insert: `make bench-core`
    #[inline(always)]
    pub(crate) fn insert(&mut self, deadline: u64, sequence: u64, place: u16, previous: u32, payload: P) -> Id {
        let number = match self.with_room.last() {
            Some(&number) => number,
            None => self.grow(),
        };
        let chunk = &mut self.chunks[number as usize];
        if chunk.entries.is_none() {
            chunk.fill();
        }
        let Block(entries) = &mut **chunk.entries.as_mut().expect("a chunk with room was filled");
        let offset = chunk.free;
        let entry = &mut entries[offset as usize];
        chunk.free = entry.next;
        chunk.live += 1;
        entry.deadline = deadline;
        entry.sequence = sequence;
        entry.previous = previous;
        entry.next = NIL;
        entry.place = place;
        entry.payload = Some(payload);
        let id = Id::new(entry.generation, number << CHUNK_BITS | offset);
        if chunk.free == NIL {
            chunk.is_listed = false;
            self.with_room.pop();
        }
        self.len += 1;
        id
    }

    /// Remove a living entry, and return its payload; its id becomes stale.
    #[inline]
    pub(crate) fn remove(&mut self, index: u32) -> P {
        let number = index >> CHUNK_BITS;
        let chunk = &mut self.chunks[number as usize];
        let Block(entries) = &mut **chunk.entries.as_mut().expect("a living entry has a chunk");
        let entry = &mut entries[index as usize & (CHUNK - 1)];
        let payload = entry.payload.take().expect("the entry lives");
        self.len -= 1;
        chunk.live -= 1;
        if entry.generation < LAST_GENERATION {
            entry.generation += 1;
            entry.next = chunk.free;
            chunk.free = index & (CHUNK as u32 - 1);
        }
        if !chunk.is_listed && chunk.free != NIL {
            chunk.is_listed = true;
            self.with_room.push(number);
        }
        if chunk.live == 0 {
            self.give_back(number);
        }
        payload
    }

    /// Return the index of the entry with this id, if it lives.
    #[inline]
    pub(crate) fn find(&self, id: Id) -> Option<u32> {
        let index = id.index();
        let entry = self.get(index)?;
        (entry.generation == id.generation() && entry.payload.is_some()).then_some(index)
    }

    #[inline]
    pub(crate) fn id(&self, index: u32) -> Id {
        Id::new(self.at(index).generation, index)
    }

    /// Return the entry at `index`, living or free, or `None` if its chunk has no memory.
    #[inline]
    fn get(&self, index: u32) -> Option<&Entry<P>> {
        let entries = self.chunks.get((index >> CHUNK_BITS) as usize)?.entries.as_ref()?;
        Some(&entries.0[index as usize & (CHUNK - 1)])
    }

    /// Return the entry at `index`, living or free. Its chunk must have memory.
    #[inline]
    pub(crate) fn at(&self, index: u32) -> &Entry<P> {
        let entries = self.chunks[(index >> CHUNK_BITS) as usize].entries.as_ref();
        &entries.expect("an entry in use has a chunk").0[index as usize & (CHUNK - 1)]
    }

    #[inline]
    pub(crate) fn at_mut(&mut self, index: u32) -> &mut Entry<P> {
        let entries = self.chunks[(index >> CHUNK_BITS) as usize].entries.as_mut();
        &mut entries.expect("an entry in use has a chunk").0[index as usize & (CHUNK - 1)]
    }

    /// True if the entry at `index` lives and has this sequence.
    #[inline]
    pub(crate) fn is_filed(&self, index: u32, sequence: u64) -> bool {
        self.get(index).is_some_and(|entry| entry.sequence == sequence && entry.payload.is_some())
    }

    #[inline]
    pub(crate) fn payload(&self, index: u32) -> &P {
        self.at(index).payload.as_ref().expect("the entry lives")
    }

    #[inline]
    pub(crate) fn address_of(&self, index: u32) -> Option<*const ()> {
        Some(std::ptr::from_ref(&self.get(index)?.payload).cast())
    }

    /// Prefetch the entry at `index`, if it exists, and the owner's data of the entry at `index - behind`.
    #[inline]
    pub(crate) fn touch<O: Owner<P>>(&self, index: u32, behind: u32) {
        if let Some(entry) = self.get(index) {
            std::hint::black_box(entry.deadline);
        }
        if let Some(payload) = self.get(index.wrapping_sub(behind)).and_then(|entry| entry.payload.as_ref()) {
            O::expect(payload);
        }
    }

    /// Return the deadline and the sequence of a living entry, including a move that its owner has made.
    #[inline]
    pub(crate) fn latest<O: Owner<P>>(&self, index: u32) -> (u64, u64) {
        let entry = self.at(index);
        entry.payload.as_ref().and_then(O::moved).unwrap_or((entry.deadline, entry.sequence))
    }

    /// Store the move that the owner of an entry has made, and return the new deadline.
    #[inline]
    pub(crate) fn catch_up<O: Owner<P>>(&mut self, index: u32) -> u64 {
        let entry = self.at_mut(index);
        if let Some((deadline, sequence)) = entry.payload.as_ref().and_then(O::moved) {
            entry.deadline = deadline;
            entry.sequence = sequence;
        }
        entry.deadline
    }

    #[inline]
    pub(crate) fn payload_mut(&mut self, index: u32) -> &mut P {
        self.at_mut(index).payload.as_mut().expect("the entry lives")
    }

    /// Iterate over all living entries, in order of their indices.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &P)> {
        self.chunks.iter().enumerate().flat_map(|(number, chunk)| {
            let entries = chunk.entries.as_ref().map_or(&[][..], |entries| &entries.0[..]);
            entries.iter().enumerate().filter_map(move |(offset, entry)| {
                let payload = entry.payload.as_ref()?;
                Some(((number << CHUNK_BITS | offset) as u32, payload))
            })
        })
    }

    #[cold]
    fn grow(&mut self) -> u32 {
        let number = self.chunks.len();
        assert!(number < (NIL >> CHUNK_BITS) as usize, "four billion timers are pending");
        self.chunks.push(Chunk { entries: None, first_generation: 1, free: NIL, live: 0, is_listed: true });
        self.with_room.push(number as u32);
        number as u32
    }

    /// Keep the memory of the chunk `number`, which has become empty, and release the memory of the chunk that became
    /// empty before it. So repeatedly setting and cancelling a timer allocates nothing.
    #[inline]
    fn give_back(&mut self, number: u32) {
        let spare = std::mem::replace(&mut self.spare, number);
        if spare != number && spare != NIL && self.chunks[spare as usize].live == 0 {
            self.chunks[spare as usize].empty();
        }
    }

    /// Verify the chunks: counts, free lists, and the list of chunks with room.
    pub(crate) fn check(&self) {
        let mut listed = vec![false; self.chunks.len()];
        for &number in &self.with_room {
            assert!(!std::mem::replace(&mut listed[number as usize], true), "a chunk is listed twice");
        }
        let mut len = 0;
        for (number, chunk) in self.chunks.iter().enumerate() {
            assert_eq!(chunk.is_listed, listed[number], "chunk {number} knows whether it is listed");
            let Some(Block(entries)) = chunk.entries.as_deref() else {
                assert!(chunk.live == 0 && chunk.is_listed, "an empty chunk has room");
                continue;
            };
            let live = entries.iter().filter(|entry| entry.payload.is_some()).count();
            assert_eq!(live, chunk.live as usize, "chunk {number} counts its entries");
            len += live;
            let (mut free, mut at) = (0, chunk.free);
            while at != NIL {
                let entry = &entries[at as usize];
                assert!(entry.payload.is_none(), "a free entry holds nothing");
                free += 1;
                at = entry.next;
            }
            let retired =
                entries.iter().filter(|entry| entry.payload.is_none() && entry.generation == LAST_GENERATION).count();
            assert!(free + live <= CHUNK && free + live + retired >= CHUNK, "no entry is lost");
            assert_eq!(chunk.free != NIL, chunk.is_listed, "a chunk is listed while it has room");
        }
        assert_eq!(len, self.len, "the slab counts its entries");
    }
}

impl<P> Chunk<P> {
    #[cold]
    fn fill(&mut self) {
        let generation = self.first_generation;
        let entries = std::array::from_fn(|offset| Entry {
            deadline: 0,
            sequence: 0,
            previous: NIL,
            next: if offset + 1 == CHUNK { NIL } else { offset as u32 + 1 },
            generation,
            place: 0,
            payload: None,
        });
        self.entries = Some(Box::new(Block(entries)));
        self.free = 0;
    }

    /// Release the memory of the chunk, and store a generation that no former id has. A chunk that would run out of
    /// generations keeps its memory.
    #[cold]
    fn empty(&mut self) {
        let Some(Block(entries)) = self.entries.as_deref() else { return };
        let highest = entries.iter().map(|entry| entry.generation).max().unwrap_or(1);
        if highest < LAST_GENERATION - 1 {
            self.first_generation = highest;
            self.entries = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_stale_once_its_entry_has_left_and_is_never_given_again() {
        let mut slab = Slab::new();
        let mut seen = std::collections::HashSet::new();
        for round in 0..10_000u64 {
            let id = slab.insert(round, round, 0, NIL, round);
            assert!(seen.insert(id));
            let index = slab.find(id).expect("just inserted");
            assert_eq!(slab.remove(index), round);
            assert_eq!(slab.find(id), None);
        }
        slab.check();
    }

    #[test]
    fn memory_is_given_back_when_a_crowd_has_left() {
        let mut slab = Slab::new();
        let ids: Vec<Id> = (0..100_000).map(|n| slab.insert(n, n, 0, NIL, n)).collect();
        let full = slab.bytes();
        for &id in &ids {
            let index = slab.find(id).expect("it lives");
            slab.remove(index);
        }
        slab.check();
        assert!(slab.bytes() < full / 10, "{} of {full} bytes are still held", slab.bytes());
        let again: Vec<Id> = (0..100_000).map(|n| slab.insert(n, n, 0, NIL, n)).collect();
        assert!(ids.iter().all(|&id| slab.find(id).is_none()), "old ids stay stale in chunks that are made again");
        assert!(again.iter().all(|&id| slab.find(id).is_some()));
        slab.check();
    }

    #[test]
    fn an_entry_out_of_generations_is_retired() {
        let mut slab = Slab::new();
        let id = slab.insert(0, 0, 0, NIL, 0);
        slab.at_mut(id.index()).generation = LAST_GENERATION;
        assert_eq!(slab.remove(id.index()), 0);
        let next = slab.insert(0, 0, 0, NIL, 0);
        assert_ne!(next.index(), id.index());
        slab.check();
    }
}
