//! Pages that the kernel is about to write for the program: it could not write watched ones.

use super::Pages;
use crate::cache::Cache;
use crate::program_memory;
use crate::syscall_table as nr;

/// What is larger is a length only where a call has one: it may be an address.
const LONG: u64 = 1 << 24;

/// Of `ioctl_userfaultfd(2)`.
const UFFDIO_MOVE: u32 = 0xc028_aa05;

impl Pages {
    /// The kernel is going to write at `start` for the program.
    pub fn open(&mut self, cache: &mut Cache, start: u64, len: u64) {
        let end = start.saturating_add(len.max(1));
        self.each(start, end, |pages, number| {
            if pages.existing(number).is_some_and(|page| page.watched) {
                pages.write_fault(cache, number << 12);
            }
        });
    }

    /// No page is watched for now.
    pub fn open_everything(&mut self, cache: &mut Cache) {
        self.each(0, 1 << 47, |pages, number| {
            if pages.existing(number).is_some_and(|page| page.watched) {
                pages.write_fault(cache, number << 12);
            }
        });
    }

    /// Before a system call while pages are watched: gives write permission back
    /// wherever an argument points, for the length that follows it or one page.
    /// Without this the kernel would answer EFAULT, or less than was asked for.
    pub fn open_for(&mut self, cache: &mut Cache, number: u64, a: [u64; 6]) {
        for (at, &start) in a.iter().enumerate() {
            if start < 0x1_0000 || start >> 47 != 0 {
                continue;
            }
            let len = a.get(at + 1).copied().filter(|&len| len <= LONG);
            self.open(cache, start, len.unwrap_or(0).max(0x1000));
        }
        // readv, preadv, process_vm_readv, preadv2; recvmsg, recvmmsg.
        match number {
            nr::READ | nr::PREAD64 | nr::RECVFROM if a[2] > LONG => self.open(cache, a[1], a[2]),
            nr::GETRANDOM | nr::MREMAP | nr::MADVISE if a[1] > LONG => {
                self.open(cache, a[0], a[1]);
            }
            nr::READV | nr::PREADV | nr::PROCESS_VM_READV | nr::PREADV2 => {
                self.open_vector(cache, a[1], a[2]);
            }
            nr::IO_SUBMIT => self.open_requests(cache, a[1], a[2]),
            nr::IO_URING_ENTER if a[1] as u32 != 0 => self.open_submissions(cache),
            nr::IOCTL if a[1] as u32 == UFFDIO_MOVE => self.open_move(cache, a[2]),
            nr::RECVMSG => self.open_message(cache, a[1]),
            nr::RECVMMSG => {
                for at in 0..a[2].min(1024) {
                    self.open_message(cache, a[1].wrapping_add(at * 64));
                }
            }
            _ => {}
        }
    }

    /// `struct uffdio_move`: pages go from one place to another. They are code no longer, or others.
    fn open_move(&mut self, cache: &mut Cache, argument: u64) {
        if let Some([to, from, length]) = program_memory::read::<[u64; 3]>(argument) {
            for start in [to, from] {
                self.open(cache, start, length);
                self.written(cache, start, start.saturating_add(length));
            }
        }
    }

    fn open_vector(&mut self, cache: &mut Cache, vector: u64, count: u64) {
        for at in 0..count.min(1024) {
            let Some([start, len]) = program_memory::read::<[u64; 2]>(vector.wrapping_add(at * 16))
            else {
                return;
            };
            self.open(cache, start, len);
        }
    }

    /// `struct msghdr`: name, its length, vector, its length, control, its length.
    fn open_message(&mut self, cache: &mut Cache, message: u64) {
        if let Some([name, _, vector, count, control, len]) =
            program_memory::read::<[u64; 6]>(message)
        {
            self.open(cache, name, 128);
            self.open(cache, control, len);
            self.open_vector(cache, vector, count);
        }
    }
}
