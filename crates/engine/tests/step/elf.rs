//! A tiny writer of static ELF programs from machine code written by hand: no compiler, no
//! assembler, no loader. One segment, readable, writable and executable, at a fixed address.

use std::fs;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use truecount_engine::step::{StepError, StepOptions, StepTotals, run};

/// Where the file is mapped.
const BASE: u32 = 0x40_0000;
/// Where the code starts: after the ELF and program headers (System V ABI, ELF-64).
pub const ENTRY: u32 = BASE + 64 + 56;
/// Scratch memory behind the code, zeroed.
pub const DATA: u32 = BASE + 0x4000;
/// A stack for a second thread (its upper end).
pub const STACK: u32 = BASE + 0x8000;
const MEMORY: u64 = 0x9000;

/// A 32-bit register by its number.
#[derive(Clone, Copy)]
pub struct Reg(u8);
pub const EAX: Reg = Reg(0);
pub const ECX: Reg = Reg(1);
pub const EDX: Reg = Reg(2);
pub const EBX: Reg = Reg(3);
pub const ESI: Reg = Reg(6);
pub const EDI: Reg = Reg(7);
pub const R10: Reg = Reg(10);

/// A place in the code, known or still to come.
#[derive(Clone, Copy)]
pub struct Label(usize);

/// Machine code under construction.
#[derive(Default)]
pub struct Asm {
    code: Vec<u8>,
    labels: Vec<Option<usize>>,
    /// Where a displacement goes, how many bytes it has, and to which label.
    fixups: Vec<(usize, usize, Label)>,
}

impl Asm {
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes of one or more instructions.
    pub fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.code.extend(bytes);
        self
    }

    /// The address of what comes next.
    pub fn here(&self) -> u32 {
        ENTRY + self.code.len() as u32
    }

    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    pub fn bind(&mut self, label: Label) -> &mut Self {
        self.labels[label.0] = Some(self.code.len());
        self
    }

    /// A short jump by its opcode: 0x75 `jnz`, 0x74 `jz`, 0xeb `jmp`, 0xe2 `loop`.
    pub fn jump(&mut self, opcode: u8, to: Label) -> &mut Self {
        self.code.extend([opcode, 0]);
        self.fixups.push((self.code.len() - 1, 1, to));
        self
    }

    /// `mov reg, imm32`: one instruction.
    pub fn mov(&mut self, reg: Reg, value: u32) -> &mut Self {
        if reg.0 >= 8 {
            self.code.push(0x41);
        }
        self.code.push(0xb8 + (reg.0 & 7));
        self.code.extend(value.to_le_bytes());
        self
    }

    /// `mov reg, label`: one instruction.
    pub fn mov_label(&mut self, reg: Reg, to: Label) -> &mut Self {
        self.mov(reg, 0);
        self.fixups.push((self.code.len() - 4, 4, to));
        self
    }

    /// A system call with its arguments: one `mov` for each, one for the number, and the call, so
    /// `args + 2` instructions.
    pub fn syscall(&mut self, number: u32, args: &[u32]) -> &mut Self {
        for (&reg, &value) in [EDI, ESI, EDX, R10].iter().zip(args) {
            self.mov(reg, value);
        }
        self.mov(EAX, number).raw(&[0x0f, 0x05])
    }

    /// `exit_group(code)`: three instructions.
    pub fn exit(&mut self, code: u32) -> &mut Self {
        self.syscall(231, &[code])
    }

    /// Installs a handler with SA_SIGINFO, SA_RESTORER and SA_RESTART, from a `sigaction` at DATA:
    /// handler and restorer addresses, flags, a `nop`: 3 · 2 + 1, and 6 for the call, so 13
    /// instructions.
    pub fn handle(&mut self, signal: u32, handler: Label, restorer: Label) -> &mut Self {
        let store = |asm: &mut Self, at: u32| {
            asm.raw(&[0x89, 0x04, 0x25]).raw(&at.to_le_bytes()); // mov [at], eax
        };
        self.mov_label(EAX, handler);
        store(self, DATA);
        self.raw(&[0x90]); // nop
        self.mov(EAX, 0x1400_0004);
        store(self, DATA + 8);
        self.mov_label(EAX, restorer);
        store(self, DATA + 16);
        self.syscall(13, &[signal, DATA, 0, 8])
    }

    fn image(&self) -> Vec<u8> {
        let mut code = self.code.clone();
        for &(at, size, label) in &self.fixups {
            let target = self.labels[label.0].unwrap();
            if size == 1 {
                let distance = i8::try_from(target as i64 - at as i64 - 1).unwrap();
                code[at] = distance.cast_unsigned();
            } else {
                code[at..at + 4].copy_from_slice(&(ENTRY + target as u32).to_le_bytes());
            }
        }
        assert!(code.len() < 0x3f00);
        let mut image = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        image.extend([2, 0, 62, 0, 1, 0, 0, 0]); // executable, x86-64, version
        image.extend(u64::from(ENTRY).to_le_bytes());
        image.extend(64u64.to_le_bytes()); // program headers
        image.extend([0; 12]); // no section headers, no flags
        image.extend([64, 0, 56, 0, 1, 0, 64, 0, 0, 0, 0, 0]);
        image.extend([1, 0, 0, 0, 7, 0, 0, 0]); // PT_LOAD, rwx
        let size = (64 + 56 + code.len()) as u64;
        for field in [0, u64::from(BASE), u64::from(BASE), size, MEMORY, 0x1000] {
            image.extend(field.to_le_bytes());
        }
        image.extend(code);
        image
    }

    /// Writes the program; it is removed when dropped.
    pub fn program(&self) -> Program {
        Program::from_image(&self.image())
    }

    /// Runs the program under the stepper.
    pub fn step(&self, options: StepOptions<'_>) -> StepTotals {
        self.program().step(options).unwrap()
    }
}

/// A program file.
pub struct Program(pub PathBuf);

impl Program {
    pub fn from_image(image: &[u8]) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("truecount-step-{}-{n}", std::process::id()));
        fs::write(&path, image).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        wait_until_unwritten(&path);
        Self(path)
    }

    pub fn step(&self, options: StepOptions<'_>) -> Result<StepTotals, StepError> {
        run(Command::new(&self.0), options)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// While another test forks, its child holds a file just written open for a moment, and nobody can
/// execute it (ETXTBSY). A read lease is granted once no writer is left (fcntl(2)).
fn wait_until_unwritten(path: &Path) {
    let file = fs::File::open(path).unwrap();
    for _ in 0..1000 {
        // SAFETY: the descriptor is this file's; the command takes a number.
        let outcome = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_RDLCK) };
        let busy = std::io::Error::last_os_error().raw_os_error() == Some(libc::EAGAIN);
        if outcome == 0 || !busy {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}
