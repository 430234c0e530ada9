//! Whether the code of an interval loads from memory: without loads a prefetch has nothing to win.

use std::path::Path;

use truecount_engine::virt::Interval;
use truecount_sample::code::Isa;
use truecount_sample::elf::Elf;

/// Whether the code from the interval's start to its end reads memory; `None` when that is not known: an interval to the
/// next execution of its start may pass through anything, and so may one with a call in it.
pub fn loads(program: &Path, at: &Interval) -> Option<bool> {
    let end = at.end.filter(|end| *end > at.start)?;
    let elf = Elf::open(program).ok()??;
    let (address, text) = elf.section(".text")?;
    let first = usize::try_from(at.start.checked_sub(address)?).ok()?;
    let length = usize::try_from(end - at.start).ok()?;
    let bytes = text.get(first..first.checked_add(length)?)?;
    let isa = Isa::of_machine(elf.machine).ok()?;
    let mut last = None;
    for instruction in isa.listing(bytes, at.start) {
        if instruction.text.starts_with("call") || instruction.text.starts_with("syscall") {
            return None;
        }
        last = Some(instruction.address);
    }
    Some(isa.decode(bytes, at.start, last?)?.data_loads() > 0)
}
