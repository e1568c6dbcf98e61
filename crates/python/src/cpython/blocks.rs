//! Memory for objects of one kind by the hundred thousand, in huge pages.
//!
//! Such objects are used in no order, so that each is on a page of its own, and looking up where that is takes as long as fetching the
//! object. In pages of 2 MiB a million handles are on 23 of them. A program that has few stays with the interpreter's allocator.

use std::marker::PhantomData;
use std::ptr::{null_mut, NonNull};

use pyo3::ffi;
use pyo3::prelude::*;

use crate::cpython::cell::GilCell;
use crate::memory::{give_page, take_page, HUGE_PAGE};

/// So many objects come from the interpreter's allocator: a processor finds their small pages without help, and a block that is almost
/// empty would weigh too much beside fewer. All objects of a free-threaded interpreter do, as it wants to know of them.
const FEW: usize = if cfg!(Py_GIL_DISABLED) { usize::MAX } else { 128 * 1024 };

/// What a block, which is one huge page, begins with; the pieces follow it.
#[repr(C, align(64))]
struct Head {
    /// The piece that was freed last; each begins with the address of the one before.
    free: *mut Link,
    /// How many pieces were ever given out: those behind have not been touched.
    begun: usize,
    live: usize,
}

struct Link(*mut Link);

struct State {
    /// How many living objects are in no block.
    few: usize,
    /// By address.
    blocks: Vec<*mut Head>,
    /// Those that have a free piece.
    with_room: Vec<*mut Head>,
}

// SAFETY: the blocks are the state's own, whichever thread asks it for a piece.
unsafe impl Send for State {}

/// The memory of all objects of one layout that refers to no other object's memory.
pub(crate) struct Blocks<T>(GilCell<State>, PhantomData<fn() -> T>);

impl<T> Blocks<T> {
    const PIECES: usize = (HUGE_PAGE - size_of::<Head>()) / size_of::<T>();

    pub(crate) const fn new() -> Self {
        assert!(size_of::<T>() >= size_of::<Link>() && align_of::<T>() <= align_of::<Head>());
        Self(GilCell::new(State { few: 0, blocks: Vec::new(), with_room: Vec::new() }), PhantomData)
    }

    /// A new object of `kind`, with one reference; null with an exception set if there is no memory.
    ///
    /// # Safety
    ///
    /// The objects of `kind` are of layout `T`, and invisible to the collector.
    #[cold]
    pub(crate) unsafe fn object(&self, py: Python<'_>, kind: *mut ffi::PyTypeObject) -> *mut T {
        let (is_few, piece) = self.0.with(py, |state| {
            let is_few = state.few < FEW;
            state.few += usize::from(is_few);
            // SAFETY: all pieces of these blocks are of this number and size.
            (is_few, if is_few { None } else { unsafe { state.take(Self::PIECES, size_of::<T>()) } })
        });
        // SAFETY: the cell is left, as a failure sets an exception; a piece is large enough for the object and nobody else's.
        unsafe {
            if is_few {
                let object = ffi::PyType_GenericAlloc(kind, 0);
                if object.is_null() {
                    self.0.with(py, |state| state.few -= 1);
                }
                return object.cast();
            }
            match piece {
                Some(piece) => ffi::PyObject_Init(piece.as_ptr().cast(), kind).cast(),
                None => ffi::PyErr_NoMemory().cast(),
            }
        }
    }

    /// Free the memory of an object.
    ///
    /// # Safety
    ///
    /// `object` is from here, and dead.
    #[cold]
    pub(crate) unsafe fn free(&self, py: Python<'_>, object: *mut T) {
        let is_piece = self.0.with(py, |state| {
            // SAFETY: nobody uses the object any more.
            let is_piece = unsafe { state.give(object.cast(), Self::PIECES) };
            state.few -= usize::from(!is_piece);
            is_piece
        });
        if !is_piece {
            // SAFETY: what is in none of our blocks is from the interpreter's allocator.
            unsafe { ffi::PyObject_Free(object.cast()) };
        }
    }
}

impl State {
    /// A piece, of which a block has `pieces`, each of `size` bytes.
    unsafe fn take(&mut self, pieces: usize, size: usize) -> Option<NonNull<Link>> {
        let head = match self.with_room.last() {
            Some(&head) => head,
            None => self.grow()?,
        };
        // SAFETY: a block with room has a piece that was freed, or one that was never given out.
        unsafe {
            let piece = (*head).free;
            let piece = if piece.is_null() {
                (*head).begun += 1;
                head.add(1).byte_add(((*head).begun - 1) * size).cast()
            } else {
                (*head).free = (*piece).0;
                piece
            };
            (*head).live += 1;
            if (*head).live == pieces {
                self.with_room.pop();
            }
            NonNull::new(piece)
        }
    }

    fn grow(&mut self) -> Option<*mut Head> {
        let head: *mut Head = take_page()?.as_ptr().cast();
        // SAFETY: a new block begins with its head, which nobody has seen yet.
        unsafe { head.write(Head { free: null_mut(), begun: 0, live: 0 }) };
        let place = self.blocks.partition_point(|&other| other < head);
        self.blocks.insert(place, head);
        self.with_room.push(head);
        Some(head)
    }

    /// Take a piece back; false if it is in no block.
    unsafe fn give(&mut self, piece: *mut Link, pieces: usize) -> bool {
        let head: *mut Head = piece.map_addr(|address| address & !(HUGE_PAGE - 1)).cast();
        let Ok(place) = self.blocks.binary_search(&head) else { return false };
        // SAFETY: the block is one of ours, and the piece, which nobody uses any more, is in it.
        unsafe {
            piece.write(Link((*head).free));
            (*head).free = piece;
            if (*head).live == pieces {
                self.with_room.push(head);
            }
            (*head).live -= 1;
            if (*head).live == 0 && self.with_room.len() > 1 {
                self.blocks.remove(place);
                self.with_room.retain(|&other| other != head);
                give_page(head.cast());
            }
        }
        true
    }
}
