//! The machine that a program is shown, as launcher and runtime share it. `core` only.

/// A row of `cpuid`: leaf, subleaf, EAX, EBX, ECX, EDX.
pub type Row = [u32; 6];

/// A row for every subleaf that no other row has.
pub const ANY: u32 = u32::MAX;
/// Most rows.
pub const MAX_ROWS: usize = 64;
/// Bytes for the texts of files.
pub const TEXTS: usize = 24 << 10;
/// A field of `struct utsname`.
pub const NAME: usize = 65;
/// Room for the extended state in every signal frame, bytes: what the largest of today's CPUs needs without AMX, whose
/// state is in a frame only once the program has asked for it.
pub const STATE_ROOM: u64 = 3072;

/// Bytes of the file behind the random devices that are random; zeros follow, without end.
pub const RANDOM_BYTES: u64 = 4 << 20;

/// The n-th number of SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
pub fn mixed(n: u64) -> u64 {
    let mut z = n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// What is shown. All zero: nothing.
#[repr(C)]
pub struct Shown {
    /// Answers of `cpuid`.
    pub rows: [Row; MAX_ROWS],
    /// How many.
    pub row_count: u32,
    /// XCR0.
    pub components: u32,
    /// CPUs.
    pub cpus: u32,
    /// Bytes of `texts` that are used.
    pub text_bytes: u32,
    /// Bytes of memory.
    pub memory: u64,
    /// `struct utsname`.
    pub names: [[u8; NAME]; 6],
    /// Files: a byte of [`kind`], path, zero, two bytes of length, that many bytes of content.
    pub texts: [u8; TEXTS],
}

/// What a path of [`Shown::texts`] is.
pub mod kind {
    /// A file with this content.
    pub const FILE: u8 = b'f';
    /// Nothing that begins with it exists, but for files.
    pub const ABSENT: u8 = b'-';
    /// A random device.
    pub const RANDOM: u8 = b'r';
    /// A directory that cannot be opened, as if it were not there; what is in it is the kernel's.
    pub const CLOSED: u8 = b'd';
}

impl Shown {
    /// The registers EAX, EBX, ECX, EDX for a leaf: zero where the table has none.
    pub fn cpuid(&self, leaf: u32, subleaf: u32) -> [u32; 4] {
        let rows = self.rows.iter().take(self.row_count as usize);
        let mut any = [0; 4];
        for &[of, sub, a, b, c, d] in rows {
            if of == leaf && sub == subleaf {
                return [a, b, c, d];
            }
            if of == leaf && sub == ANY {
                any = [a, b, c, d];
            }
        }
        any
    }

    /// What a path is: its kind and the file's content.
    pub fn find(&self, path: &[u8]) -> Option<(u8, &[u8])> {
        let mut rest = self.texts.get(..self.text_bytes as usize)?;
        let mut found = None;
        while let Some((&kind, behind)) = rest.split_first() {
            let end = behind.iter().position(|&byte| byte == 0)?;
            let (name, behind) = behind.split_at(end);
            let length = u16::from_le_bytes([*behind.get(1)?, *behind.get(2)?]);
            let (content, behind) = behind.get(3..)?.split_at_checked(usize::from(length))?;
            rest = behind;
            if kind == kind::ABSENT {
                if path.starts_with(name) {
                    found = Some((kind, content));
                }
            } else if path == name
                || (kind == kind::CLOSED && path.strip_suffix(b"/") == Some(name))
            {
                return Some((kind, content));
            }
        }
        found
    }
}
