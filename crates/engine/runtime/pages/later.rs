//! Memory that the kernel writes after the call that asked for it (`io_submit(2)`, `io_uring_enter(2)`): it fails where a
//! page is watched, and no fault tells of it where not. So code that such a request names is compared from then on. Where
//! requests come without a call, or name registered memory, all code that can be written is.

use super::{Pages, arm};
use crate::cache::Cache;
use crate::program_memory;
use crate::syscall_table as nr;

/// Larger ones take longer to look through than code to be compared.
const LONGEST: u64 = 512 * SUBMISSION;
/// Bytes of one (`struct io_uring_sqe`).
const SUBMISSION: u64 = 64;
/// Where an array of submissions is in the file (`IORING_OFF_SQES`).
const SUBMISSIONS: u64 = 0x1000_0000;

impl Pages {
    /// io_uring_setup, io_uring_register, userfaultfd: before they are made.
    pub fn expects(&mut self, cache: &mut Cache, number: u64, a: [u64; 6]) {
        /// IORING_SETUP_SQPOLL, IORING_SETUP_NO_MMAP
        const UNSEEN: u32 = 1 << 1 | 1 << 14;
        let all = match number {
            // params.flags
            nr::IO_URING_SETUP => program_memory::read::<u32>(a[1].wrapping_add(8))
                .is_some_and(|flags| flags & UNSEEN != 0),
            // IORING_REGISTER_BUFFERS, IORING_REGISTER_BUFFERS2, IORING_REGISTER_PBUF_RING
            nr::IO_URING_REGISTER => matches!(a[1] & 0x7fff_ffff, 0 | 15 | 22),
            _ => {
                arm();
                false
            }
        };
        if all {
            self.compare_everything(cache);
        }
    }

    /// mmap with these arguments made this: perhaps an array of submissions.
    pub fn mapped_submissions(&mut self, cache: &mut Cache, start: u64, a: [u64; 6]) {
        // MAP_SHARED, no MAP_ANONYMOUS
        if a[5] != SUBMISSIONS || a[3] & 0x21 != 1 {
            return;
        }
        if a[1] > LONGEST || !self.submissions.add(start, a[1]) {
            self.compare_everything(cache);
        }
    }

    /// io_submit: what its requests read into.
    pub(super) fn open_requests(&mut self, cache: &mut Cache, count: u64, requests: u64) {
        const PREADV: u64 = 7;
        for at in 0..count.min(1024) {
            let request = program_memory::read::<u64>(requests.wrapping_add(8 * at));
            // data, key; operation, priority, descriptor; buffer, bytes
            let Some([_, _, operation, buffer, bytes]) =
                request.and_then(program_memory::read::<[u64; 5]>)
            else {
                return;
            };
            match operation & 0xffff {
                PREADV => self.leave_vector(cache, buffer, bytes),
                _ => self.leave(cache, buffer, bytes),
            }
        }
    }

    /// io_uring_enter: what the submissions read into. (Those that were made already are looked at as well.)
    pub(super) fn open_submissions(&mut self, cache: &mut Cache) {
        const READV: u64 = 1;
        const RECVMSG: u64 = 10;
        let submissions = self.submissions;
        for &(start, bytes) in submissions.known() {
            for at in 0..bytes / SUBMISSION {
                let submission = start.wrapping_add(at * SUBMISSION);
                // operation, flags, priority, descriptor; offset or a second address; address; length
                let Some([operation, second, address, length]) =
                    program_memory::read::<[u64; 4]>(submission)
                else {
                    break;
                };
                let length = length & 0xffff_ffff;
                match operation & 0xff {
                    READV => self.leave_vector(cache, address, length),
                    RECVMSG => {
                        if let Some([_, _, vector, count]) =
                            program_memory::read::<[u64; 4]>(address)
                        {
                            self.leave_vector(cache, vector, count);
                        }
                    }
                    _ => {
                        self.leave(cache, address, length);
                        self.leave(cache, second, 0x1000);
                    }
                }
            }
        }
    }

    fn leave_vector(&mut self, cache: &mut Cache, vector: u64, count: u64) {
        for at in 0..count.min(1024) {
            let part = program_memory::read::<[u64; 2]>(vector.wrapping_add(16 * at));
            let Some([start, length]) = part else {
                return;
            };
            self.leave(cache, start, length);
        }
    }

    /// From now on code of the range that can be written is compared.
    pub fn leave(&mut self, cache: &mut Cache, start: u64, length: u64) {
        if start < 0x1_0000 || start >> 47 != 0 {
            return;
        }
        let end = start.saturating_add(length.max(1));
        self.each(start, end, |pages, number| {
            pages.leave_writable(cache, number);
        });
    }
}
