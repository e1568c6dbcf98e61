//! Memory in huge pages, for large numbers of objects of one kind.
//!
//! The objects are accessed in random order, so that almost each access is to another page. Without huge pages, finding
//! the page would take as long as fetching the object. A million handles take 23 huge pages of 2 MiB. The first objects
//! come from the interpreter's allocator.

use std::marker::PhantomData;
use std::ptr::{null_mut, NonNull};

use pyo3::ffi;
use pyo3::prelude::*;

use crate::cpython::cell::GilCell;
use crate::memory::{give_page, take_page, HUGE_PAGE};

/// Number of objects that come from the interpreter's allocator before a huge page is used. In a free-threaded
/// interpreter all objects come from there, because the interpreter must know them.
const FEW: usize = if cfg!(Py_GIL_DISABLED) { usize::MAX } else { 128 * 1024 };

/// The first bytes of a block, which is one huge page. The rest of the block is divided into pieces, each for one
/// object.
#[repr(C, align(64))]
struct Head {
    /// The piece that was freed last. Each free piece begins with the address of the piece that was freed before it.
    free: *mut Link,
    /// Number of pieces that have ever been used; the memory after them is untouched.
    begun: usize,
    live: usize,
}

struct Link(*mut Link);

struct State {
    /// Number of living objects that came from the interpreter's allocator.
    few: usize,
    /// All blocks, sorted by address.
    blocks: Vec<*mut Head>,
    /// The blocks that have a free piece.
    with_room: Vec<*mut Head>,
}

// SAFETY: the state owns the blocks, whichever thread asks for a piece.
unsafe impl Send for State {}

/// The memory for all objects of one layout. It contains no other objects.
pub(crate) struct Blocks<T>(GilCell<State>, PhantomData<fn() -> T>);

impl<T> Blocks<T> {
    const PIECES: usize = (HUGE_PAGE - size_of::<Head>()) / size_of::<T>();

    pub(crate) const fn new() -> Self {
        assert!(size_of::<T>() >= size_of::<Link>() && align_of::<T>() <= align_of::<Head>());
        Self(GilCell::new(State { few: 0, blocks: Vec::new(), with_room: Vec::new() }), PhantomData)
    }

    /// Make an object of `kind` with one reference; return null with an exception set if there is no memory.
    ///
    /// # Safety
    ///
    /// The objects of `kind` have the layout `T`, and the collector does not track them.
    #[cold]
    pub(crate) unsafe fn object(&self, py: Python<'_>, kind: *mut ffi::PyTypeObject) -> *mut T {
        let (is_few, piece) = self.0.with(py, |state| {
            let is_few = state.few < FEW;
            state.few += usize::from(is_few);
            // SAFETY: all pieces in these blocks have this size, and each block has this number of them.
            (is_few, if is_few { None } else { unsafe { state.take(Self::PIECES, size_of::<T>()) } })
        });
        // SAFETY: the cell is no longer borrowed, because a failure sets an exception. A piece is large enough for the
        // object and has no other user.
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
    /// `object` was made here, and is dead.
    #[cold]
    pub(crate) unsafe fn free(&self, py: Python<'_>, object: *mut T) {
        let is_piece = self.0.with(py, |state| {
            // SAFETY: the object has no other user.
            let is_piece = unsafe { state.give(object.cast(), Self::PIECES) };
            state.few -= usize::from(!is_piece);
            is_piece
        });
        if !is_piece {
            // SAFETY: an object outside our blocks is from the interpreter's allocator.
            unsafe { ffi::PyObject_Free(object.cast()) };
        }
    }
}

impl State {
    /// Take a piece, which is the memory for one object, from a block. Each block has `pieces` pieces of `size` bytes.
    unsafe fn take(&mut self, pieces: usize, size: usize) -> Option<NonNull<Link>> {
        let head = match self.with_room.last() {
            Some(&head) => head,
            None => self.grow()?,
        };
        // SAFETY: a block with room has a freed piece, or one that was never used.
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
        // SAFETY: a new block begins with its head, and is not visible yet.
        unsafe { head.write(Head { free: null_mut(), begun: 0, live: 0 }) };
        let place = self.blocks.partition_point(|&other| other < head);
        self.blocks.insert(place, head);
        self.with_room.push(head);
        Some(head)
    }

    /// Give a piece back to its block; return false if no block contains the piece.
    unsafe fn give(&mut self, piece: *mut Link, pieces: usize) -> bool {
        let head: *mut Head = piece.map_addr(|address| address & !(HUGE_PAGE - 1)).cast();
        let Ok(place) = self.blocks.binary_search(&head) else { return false };
        // SAFETY: the block is ours, and the piece in it is not used any more.
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
