//! `getrandom` with answers that are the same in every run. The same with and without the virtual PMU, as no
//! instruction of the program changes.
//!
//! Not covered here: `/dev/urandom`, `rdrand` (the virtual PMU answers them: `random`), and the vDSO's getrandom (Linux 6.11 with glibc 2.41) unless the vDSO is
//! hidden, too.

use std::collections::HashMap;
use std::os::fd::OwnedFd;

use truecount_stats::Rng;

use super::notification::{Notification, Response, still_valid};

/// Each thread has its own stream, numbered in the order of their first calls: it does not
/// depend on PIDs.
#[derive(Default)]
pub(super) struct Streams(HashMap<u32, Rng>);

impl Streams {
    fn fill(&mut self, thread: u32, seed: u64, bytes: &mut [u8]) {
        let number = self.0.len() as u64;
        let stream = self
            .0
            .entry(thread)
            .or_insert_with(|| Rng::new(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        for part in bytes.chunks_mut(8) {
            let word = stream.next_u64().to_ne_bytes();
            part.iter_mut().zip(word).for_each(|(to, from)| *to = from);
        }
    }
}

/// One call of `getrandom(buffer, length, flags)`.
pub(super) fn answer(
    listener: &OwnedFd,
    notification: &Notification,
    streams: &mut Streams,
    seed: u64,
) -> Response {
    /// The kernel gives no more at once (`MAX_RW_COUNT`, drivers/char/random.c).
    const MAX_BYTES: u64 = 0x7fff_f000;
    const PIECE: usize = 64 << 10;
    let [buffer, length, flags, ..] = notification.data.args;
    let (random, insecure) = (2, 4);
    if flags & !7 != 0 || flags & (random | insecure) == random | insecure {
        return Response::go_on(notification); // the kernel says what is wrong
    }
    let length = length.min(MAX_BYTES);
    let mut done: u64 = 0;
    let mut piece = vec![0u8; PIECE.min(usize::try_from(length).unwrap_or(PIECE))];
    while done < length {
        let now = usize::try_from(length - done).map_or(PIECE, |left| left.min(PIECE));
        let Some(bytes) = piece.get_mut(..now) else {
            break;
        };
        streams.fill(notification.pid, seed, bytes);
        let written = if still_valid(listener, notification) {
            let local = libc::iovec {
                iov_base: bytes.as_mut_ptr().cast(),
                iov_len: now,
            };
            let remote = libc::iovec {
                iov_base: buffer.wrapping_add(done) as *mut libc::c_void,
                iov_len: now,
            };
            let pid = notification.pid.cast_signed();
            // SAFETY: reads our slice; the memory written is the caller's, which waits.
            unsafe { libc::process_vm_writev(pid, &raw const local, 1, &raw const remote, 1, 0) }
        } else {
            -1
        };
        match u64::try_from(written) {
            Ok(written) if written > 0 => done += written,
            _ => break,
        }
    }
    if done == 0 && length > 0 {
        Response::error(notification, libc::EFAULT)
    } else {
        Response::value(notification, done.cast_signed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_depend_on_the_order_of_threads_and_not_on_their_numbers() {
        let draw = |threads: [u32; 3]| {
            let mut streams = Streams::default();
            threads.map(|thread| {
                let mut bytes = [0u8; 12];
                streams.fill(thread, 5, &mut bytes);
                bytes
            })
        };
        let [a, b, c] = draw([10, 20, 10]);
        assert_eq!([a, b, c], draw([7, 3, 7]));
        assert!(a != b && a != c && b != c);
    }
}
