//! Files of /proc, line by line.

use crate::sys;
use crate::syscall_table as nr;

/// Calls `each` with the lines of a file of /proc.
pub fn of(path: &core::ffi::CStr, mut each: impl FnMut(&[u8]) -> Option<()>) {
    let mut text = [0u8; 4096];
    // SAFETY: open, read and close with our own buffers.
    unsafe {
        let fd = sys::call(nr::OPEN, [path.as_ptr() as u64, 0o2_000_000, 0, 0, 0, 0]);
        if fd < 0 {
            return;
        }
        let mut kept = 0;
        loop {
            let room = text.len() - kept;
            let to = text.as_mut_ptr() as u64 + kept as u64;
            let got = sys::call(nr::READ, [fd as u64, to, room as u64, 0, 0, 0]);
            if got <= 0 {
                break;
            }
            let end = kept + got as usize;
            let mut start = 0;
            while let Some(length) = text
                .get(start..end)
                .and_then(|rest| rest.iter().position(|&byte| byte == b'\n'))
            {
                each(text.get(start..start + length).unwrap_or(&[]));
                start += length + 1;
            }
            // A line longer than the buffer is given up.
            if start == 0 && end == text.len() {
                break;
            }
            text.copy_within(start..end, 0);
            kept = end - start;
        }
        sys::call(nr::CLOSE, [fd as u64, 0, 0, 0, 0, 0]);
    }
}
