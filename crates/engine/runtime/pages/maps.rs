//! The list of mappings that matter: `/proc/self/maps` (proc(5)), without those
//! that are neither executable nor shared and writable.

use super::{EXEC, READ, WRITE};
use crate::sys;
use crate::syscall_table as nr;

/// One mapping.
#[derive(Clone, Copy)]
pub(super) struct Vma {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) prot: u8,
    /// Others may see what is written here, and write it.
    pub(super) shared: bool,
    /// Which file (a mixture of device and inode); 0: none.
    pub(super) file: u64,
    /// Where in the file it starts.
    pub(super) offset: u64,
    /// The file has no name that others know: a program's own, made to be written.
    pub(super) nameless: bool,
    /// A stack, which grows downwards.
    pub(super) grows: bool,
}

impl Vma {
    /// Private memory of a file that nothing can write: code as it was linked.
    /// The file's inode, as far as it is kept.
    pub(super) fn inode(&self) -> u64 {
        self.file & ((1 << 40) - 1)
    }

    pub(super) fn is_constant(&self) -> bool {
        self.file != 0 && !self.shared && self.prot & (EXEC | WRITE) == EXEC
    }
}

const MAX_VMAS: usize = 16_384;

pub(super) struct Maps {
    list: [Vma; MAX_VMAS],
    count: usize,
}

impl Maps {
    pub(super) const fn new() -> Self {
        const NONE: Vma = Vma {
            start: 0,
            end: 0,
            prot: 0,
            shared: false,
            file: 0,
            offset: 0,
            nameless: false,
            grows: false,
        };
        Self {
            list: [NONE; MAX_VMAS],
            count: 0,
        }
    }

    pub(super) fn list(&self) -> &[Vma] {
        self.list.get(..self.count).unwrap_or(&[])
    }

    pub(super) fn find(&self, address: u64) -> Option<Vma> {
        let found = |v: &&Vma| v.start <= address && address < v.end;
        self.list().iter().find(found).copied()
    }

    /// Whether code of this mapping can be written elsewhere than there: shared memory, files that the program made
    /// itself, and those that it has mapped for writing as well.
    pub(super) fn is_written_elsewhere(&self, own: &Vma) -> bool {
        let writes = |v: &Vma| v.file == own.file && v.shared && v.prot & WRITE != 0;
        own.shared || own.file != 0 && (own.nameless || self.list().iter().any(writes))
    }

    /// Reads the list again.
    pub(super) fn read(&mut self) {
        self.count = 0;
        let path = b"/proc/self/maps\0";
        // SAFETY: open, read and close with our own buffers.
        let fd = unsafe { sys::call(nr::OPEN, [path.as_ptr() as u64, 0o2_000_000, 0, 0, 0, 0]) };
        crate::check!(fd >= 0, "/proc/self/maps cannot be opened (errno {})", -fd);
        let mut buffer = [0u8; 4096];
        // start-end permissions offset major:minor inode path
        let (mut field, mut values) = (0usize, [0u64; 7]);
        let (mut prot, mut shared) = (0u8, false);
        // The path: its first byte but one, and its last.
        let mut path = [0u8; 3];
        loop {
            // SAFETY: as above.
            let got = unsafe {
                sys::call(
                    nr::READ,
                    [fd as u64, buffer.as_mut_ptr() as u64, 4096, 0, 0, 0],
                )
            };
            if got <= 0 {
                break;
            }
            for &byte in buffer.iter().take(got as usize) {
                match (field, byte) {
                    (_, b'\n') => {
                        let [start, end, _, offset, major, minor, inode] = values;
                        if prot & EXEC != 0 || shared && prot & WRITE != 0 {
                            let file = if inode == 0 {
                                0
                            } else {
                                inode | (major << 20 | minor) << 40 | 1 << 63
                            };
                            // "/memfd:…" and "… (deleted)".
                            let nameless = path[2] == b')' || path[0] == b'/' && path[1] == b'm';
                            self.add(Vma {
                                start,
                                end,
                                prot,
                                shared,
                                file,
                                offset,
                                nameless: file != 0 && nameless,
                                grows: path[0] == b'[' && path[1] == b's',
                            });
                        }
                        (field, values, prot, shared) = (0, [0; 7], 0, false);
                        path = [0; 3];
                    }
                    (0, b'-') | (1 | 2 | 3 | 5, b' ') | (4, b':') => field += 1,
                    (2, b'r') => prot |= READ,
                    (2, b'w') => prot |= WRITE,
                    (2, b'x') => prot |= EXEC,
                    (2, b's') => shared = true,
                    (6, digit @ b'0'..=b'9') => {
                        values[6] = values[6]
                            .wrapping_mul(10)
                            .wrapping_add(u64::from(digit - b'0'));
                    }
                    (6, _) => field = 7,
                    (7, b' ') if path[0] == 0 => {}
                    (7, byte) => {
                        match path {
                            [0, ..] => path[0] = byte,
                            [_, 0, _] => path[1] = byte,
                            _ => {}
                        }
                        path[2] = byte;
                    }
                    (0 | 1 | 3 | 4 | 5, digit) => values[field] = values[field] << 4 | hex(digit),
                    _ => {}
                }
            }
        }
        // SAFETY: our descriptor.
        unsafe { sys::call(nr::CLOSE, [fd as u64, 0, 0, 0, 0, 0]) };
        crate::counts::note_mappings();
    }

    fn add(&mut self, vma: Vma) {
        crate::check!(
            self.count < MAX_VMAS,
            "more than {MAX_VMAS} mappings with code"
        );
        if let Some(place) = self.list.get_mut(self.count) {
            *place = vma;
            self.count += 1;
        }
    }
}

fn hex(digit: u8) -> u64 {
    match digit {
        b'0'..=b'9' => u64::from(digit - b'0'),
        b'a'..=b'f' => u64::from(digit - b'a' + 10),
        _ => 0,
    }
}
