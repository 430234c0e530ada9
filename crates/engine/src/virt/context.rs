//! A thread's context, and other parts of its region, as the launcher sees them.

use crate::layout::{CONTEXT_BYTES, Context, region_offset};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, PoisonError};

/// A part of the totals file, mapped: memory that the program may change at any time.
pub(super) struct Mapped<T> {
    pub(super) at: NonNull<T>,
    len: usize,
}

impl<T> Mapped<T> {
    /// Maps `len` bytes from an offset of the totals file on, a multiple of the page size.
    pub(super) fn new(totals: &File, offset: u64, len: usize) -> io::Result<Self> {
        // SAFETY: maps a file of ours; the result is checked.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                totals.as_raw_fd(),
                libc::off_t::try_from(offset).map_err(io::Error::other)?,
            )
        };
        match NonNull::new(at.cast::<T>()) {
            Some(at) if at.as_ptr().cast() != libc::MAP_FAILED => Ok(Self { at, len }),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl<T> Drop for Mapped<T> {
    fn drop(&mut self) {
        // SAFETY: our mapping.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.len) };
    }
}

/// Contexts that lie side by side, mapped at once and kept: a map for each `execve` costs more than all else about one.
#[derive(Default)]
pub(super) struct Windows(Mutex<HashMap<u32, Arc<Window>>>);

struct Window(Mapped<u8>);

// SAFETY: the mapping is shared memory, which lives as long as this; see `MappedContext` for what is done with it.
unsafe impl Send for Window {}
// SAFETY: as above.
unsafe impl Sync for Window {}

impl Windows {
    /// Contexts in one.
    const CONTEXTS: u32 = 64;

    /// The context of a slot, where nothing but contexts is in the totals file's regions.
    pub(super) fn context(&self, totals: &File, slot: u32) -> io::Result<MappedContext> {
        let apart = CONTEXT_BYTES as usize;
        let slot = slot.checked_sub(1).ok_or(io::ErrorKind::InvalidInput)?;
        let (number, place) = (slot / Self::CONTEXTS, slot % Self::CONTEXTS);
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let window = match known.get(&number) {
            Some(window) => Arc::clone(window),
            None => {
                let offset = region_offset(number * Self::CONTEXTS + 1, CONTEXT_BYTES);
                let bytes = apart * Self::CONTEXTS as usize;
                let window = Arc::new(Window(Mapped::new(totals, offset, bytes)?));
                known.insert(number, Arc::clone(&window));
                window
            }
        };
        drop(known);
        // SAFETY: inside the window, whose contexts are `apart` bytes each.
        let at = unsafe { window.0.at.add(place as usize * apart) };
        Ok(MappedContext {
            at: at.cast(),
            _window: window,
        })
    }
}

/// A context page mapped into the launcher.
pub(super) struct MappedContext {
    at: NonNull<Context>,
    _window: Arc<Window>,
}

impl MappedContext {
    /// Maps the context at an offset of the totals file.
    pub(super) fn new(totals: &File, offset: u64) -> io::Result<Self> {
        let len = size_of::<Context>().next_multiple_of(4096);
        let window = Arc::new(Window(Mapped::new(totals, offset, len)?));
        Ok(Self {
            at: window.0.at.cast(),
            _window: window,
        })
    }

    /// Writes into it.
    pub(super) fn write(&self, offset: usize, bytes: &[u8]) -> io::Result<()> {
        if offset + bytes.len() > size_of::<Context>() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: inside the mapped context, which no thread has yet.
        unsafe {
            let to = self.at.as_ptr().cast::<u8>().add(offset);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
        Ok(())
    }

    /// The request word.
    pub(super) fn exec(&self) -> &std::sync::atomic::AtomicU32 {
        // SAFETY: mapped as long as self lives; an atomic in shared memory.
        unsafe { &(*self.at.as_ptr()).exec }
    }
    /// The word of a process that offers its translations.
    pub(super) fn save(&self) -> &std::sync::atomic::AtomicU32 {
        // SAFETY: as above.
        unsafe { &(*self.at.as_ptr()).save }
    }
    /// Where it describes them.
    pub(super) fn save_request(&self) -> u64 {
        // SAFETY: mapped; written before the request.
        unsafe { (&raw const (*self.at.as_ptr()).save_request).read_volatile() }
    }
    /// The first slot of its image, and the key that this was given.
    pub(super) fn save_image(&self) -> (u32, u64) {
        let context = self.at.as_ptr();
        // SAFETY: as above.
        unsafe {
            (
                (&raw const (*context).save_image).read_volatile(),
                (&raw const (*context).save_key).read_volatile(),
            )
        }
    }
    /// The thread id that made the request.
    pub(super) fn tid(&self) -> u32 {
        // SAFETY: mapped; written before the request.
        unsafe { (&raw const (*self.at.as_ptr()).tid).read_volatile() }
    }
    /// The process id.
    pub(super) fn pid(&self) -> u32 {
        // SAFETY: as above.
        unsafe { (&raw const (*self.at.as_ptr()).pid).read_volatile() }
    }
}

/// Bytes of a region mapped into the launcher: words that the program may change at any time.
pub(super) struct MappedBytes(Mapped<u64>);

// SAFETY: the mapping is shared memory, read by volatile loads and atomics only.
unsafe impl Send for MappedBytes {}

impl MappedBytes {
    /// Maps `len` bytes from an offset of the totals file on, a multiple of the page size.
    pub(super) fn new(totals: &File, offset: u64, len: usize) -> io::Result<Self> {
        Mapped::new(totals, offset, len).map(Self)
    }

    /// Copies words; those outside are left alone.
    pub(super) fn copy(&self, from: usize, to: &mut [u64]) {
        let count = to.len().min((self.0.len / 8).saturating_sub(from));
        for (at, place) in to.iter_mut().take(count).enumerate() {
            // SAFETY: inside the mapping, aligned.
            *place = unsafe { self.0.at.as_ptr().add(from + at).read_volatile() };
        }
    }

    /// Writes values at the start, as many as fit.
    pub(super) fn write<T: Copy>(&self, values: &[T]) {
        let count = values.len().min(self.0.len / size_of::<T>().max(1));
        // SAFETY: inside the mapping, which begins at a page.
        unsafe {
            std::ptr::copy_nonoverlapping(values.as_ptr(), self.0.at.as_ptr().cast::<T>(), count);
        }
    }

    /// An atomic word at an offset in bytes, a multiple of four.
    pub(super) fn atomic(&self, offset: usize) -> Option<&AtomicU32> {
        if !offset.is_multiple_of(4) || offset + 4 > self.0.len {
            return None;
        }
        // SAFETY: inside the mapping, aligned, mapped as long as self lives.
        Some(unsafe { AtomicU32::from_ptr(self.0.at.as_ptr().cast::<u32>().add(offset / 4)) })
    }
}
