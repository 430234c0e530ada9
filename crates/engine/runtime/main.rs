//! The runtime that lives in the target: a freestanding program at a fixed
//! address, without libc, TLS or heap. `build.rs` compiles it with `rustc`
//! directly; `virt::inject` maps it into each new process image.
//!
//! | file | idea |
//! |---|---|
//! | `entry` | assembly between translated code and here |
//! | `sys`, `program_memory` | raw system calls, fault-safe access to program memory |
//! | `lock`, `engine` | the lock, and what the threads of a process share under it |
//! | `slots`, `thread_context`, `stacks` | what belongs to one thread |
//! | `own_memory`, `table`, `totals`, `give_way` | the engine's memory in the program's address space |
//! | `cache`, `block` | code areas, blocks, linking, indirect-branch tables |
//! | `cache_file` | translations on disk: taken over, followed, offered |
//! | `pages` | what is mapped where, watched code pages |
//! | `dispatch` | what to do when translated code comes back |
//! | `syscalls`, `memory_calls`, `memory_limits`, `memory_locks`, `threads`, `images` | system calls with a meaning for us |
//! | `interrupt` | system calls by `int 0x80` |
//! | `unfollowed` | what is out of our sight |
//! | `write_execute` | `PR_SET_MDWE` |
//! | `perf` | `perf_event_open` and what is done with its descriptors |
//! | `confine` | filters of system calls, user dispatch |
//! | `open_pages` | watched pages that a call is about to write |
//! | `code_writes` | system calls that write code |
//! | `rseq` | restartable sequences: the C library's registration |
//! | `proc_maps` | what the program sees of its mappings |
//! | `signals`, `locate`, `frames` | signals in, where they found the program, frames out |
//! | `signal_calls`, `action`, `altstack` | the program's handlers, masks, alternate stacks |
//! | `fault_signals` | signals of the faults' kind that the program blocks |
//! | `counts` | running totals or per-block counters, their log |
//! | `requests`, `texts`, `native_call`, `collect` | what programs say to Valgrind, print there, have it call; which part of a run is counted |
//! | `call_tree`, `call_routines`, `functions` | the calling-context tree, if wanted; where functions begin |
//! | `references`, `known`, `recent`, `allocations`, `elf_file` | the rings of noted memory references, if wanted, what need not be noted, what changes nothing in the model, and in them the program's heap; symbols of its files |
//! | `clock` | clocks of our own, if wanted |
//! | `schedule`, `turns` | one thread of the run at a time, if wanted |
//! | `machine`, `asked`, `placed` | the machine that is shown, if wanted: calls and files, instructions, the map of addresses |
//! | `pids` | numbers of threads and processes, where they are held constant |
//! | `outside` | what comes into the run from outside |
//! | `selector` | loads of the GS selector |
//! | `report` | the end after a failed internal check |
#![no_std]
#![no_main]
#![allow(dead_code, missing_docs)]

#[path = "../src/calls.rs"]
mod calls;
#[path = "../src/heap.rs"]
mod heap;
#[path = "../src/inputs.rs"]
mod inputs;
#[path = "../src/layout.rs"]
mod layout;
#[path = "../src/limits.rs"]
mod limits;
#[path = "../src/log.rs"]
mod log;
#[path = "../src/option.rs"]
pub mod option;
#[path = "../src/pmu/mod.rs"]
mod pmu;
#[path = "../src/regions.rs"]
mod regions;
#[path = "../src/schedule/mod.rs"]
mod schedule_state;
#[path = "../src/shown.rs"]
mod shown;
#[path = "../src/snapshot.rs"]
mod snapshot;
#[path = "../src/syscall_table/mod.rs"]
mod syscall_table;
#[path = "../src/xlate/mod.rs"]
mod xlate;

mod action;
mod allocations;
mod altstack;
mod asked;
mod block;
mod blocks_of_heap;
mod cache;
mod cache_file;
mod call_routines;
mod call_tree;
mod child;
mod clock;
mod code_writes;
mod collect;
mod confine;
mod counts;
mod dispatch;
mod elf_file;
mod ended;
mod engine;
mod entry;
mod far;
mod fault_signals;
mod filtered;
mod frames;
mod functions;
mod give_way;
mod hooks;
mod images;
mod interrupt;
mod keys;
mod known;
mod known_blocks;
mod lines;
mod locate;
mod lock;
mod machine;
mod made_files;
mod masked;
mod memory_calls;
mod memory_limits;
mod memory_locks;
mod native_call;
mod open_pages;
mod operand_address;
mod outside;
mod own_memory;
mod pages;
mod perf;
mod pids;
mod placed;
mod predictor;
mod proc_maps;
mod program_memory;
mod recent;
mod references;
mod report;
mod requests;
mod ring;
mod rseq;
mod schedule;
mod selector;
mod shadow;
mod signal_calls;
mod signals;
mod slots;
mod stacks;
mod sys;
mod syscalls;
mod table;
mod texts;
mod thread_context;
mod threads;
mod totals;
mod turns;
mod unfinished;
mod unfollowed;
mod write_execute;

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    report::panicked(info)
}
