//! Client requests, as `valgrind.h` 3.19 and the headers of its tools number them: RAX points at six words (the request
//! and five arguments), RDX is the answer, and keeps its default for what is not answered here.

use crate::layout::Context;
use crate::regions::mark;
use crate::xlate::block::Request;
use crate::{call_tree, collect, native_call, program_memory, texts};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The bases of the tools' own requests: two letters in the upper half.
const CALLGRIND: u64 = 0x4354_0000;
const CACHEGRIND: u64 = 0x4347_0000;

const RUNNING_ON_VALGRIND: u64 = 0x1001;
const DISCARD_TRANSLATIONS: u64 = 0x1002;
const CLIENT_CALL0: u64 = 0x1101;
const CLIENT_CALL3: u64 = 0x1104;
const COUNT_ERRORS: u64 = 0x1201;
const MONITOR_COMMAND: u64 = 0x1202;
const CLO_CHANGE: u64 = 0x1203;
/// With a `va_list`; those without one are refused by Valgrind, too.
const PRINTF: u64 = 0x1403;
const PRINTF_BACKTRACE: u64 = 0x1404;
const STACK_REGISTER: u64 = 0x1501;
const STACK_DEREGISTER: u64 = 0x1502;
const STACK_CHANGE: u64 = 0x1503;
const MAP_IP_TO_SRCLOC: u64 = 0x1701;
const CHANGE_ERR_DISABLEMENT: u64 = 0x1801;
const INNER_THREADS: u64 = 0x1902;
const DUMP_STATS: u64 = CALLGRIND;
const ZERO_STATS: u64 = CALLGRIND + 1;
const TOGGLE_COLLECT: u64 = CALLGRIND + 2;
const DUMP_STATS_AT: u64 = CALLGRIND + 3;
const START_INSTRUMENTATION: u64 = CALLGRIND + 4;
const STOP_INSTRUMENTATION: u64 = CALLGRIND + 5;
const CACHEGRIND_START: u64 = CACHEGRIND;
const CACHEGRIND_STOP: u64 = CACHEGRIND + 1;

/// Stacks that the process has registered: the next one's number.
static STACKS: AtomicU32 = AtomicU32::new(0);

/// Answers the request of the program, which goes on at `Context::pc`.
pub fn answer(context: &mut Context, request: Request) {
    if native_call::is_inside(context) {
        return;
    }
    if request == Request::Original {
        // Nothing is redirected. (Valgrind says so where nothing was yet.)
        context.regs[0] = 0;
        return;
    }
    let mut bytes = [0u8; 40];
    if !program_memory::read_bytes(&mut bytes, context.regs[0]) {
        return;
    }
    let word = |at: usize| {
        let mut word = [0u8; 8];
        word.copy_from_slice(bytes.get(at..at + 8).unwrap_or(&[0; 8]));
        u64::from_le_bytes(word)
    };
    let (request, argument) = (word(0), word(8));
    let result = match request {
        RUNNING_ON_VALGRIND => 1,
        // Code that changes is found out anyway; and there are no errors.
        DISCARD_TRANSLATIONS
        | COUNT_ERRORS
        | CLO_CHANGE
        | CHANGE_ERR_DISABLEMENT
        | INNER_THREADS
        | STACK_DEREGISTER
        | STACK_CHANGE => 0,
        // No command is known.
        MONITOR_COMMAND => 1,
        STACK_REGISTER => u64::from(STACKS.fetch_add(1, Relaxed)) + 1,
        PRINTF => texts::print(context, argument, word(16)),
        PRINTF_BACKTRACE => {
            let printed = texts::print(context, argument, word(16));
            texts::trace(context, context.pc, call_tree::returns(context));
            printed
        }
        // No lines are known here, as in Valgrind of a program without debug information.
        MAP_IP_TO_SRCLOC => {
            program_memory::write(word(16), &0u8);
            0
        }
        CLIENT_CALL0..=CLIENT_CALL3 => {
            if !native_call::begin(context, argument, [word(16), word(24), word(32)]) {
                context.regs[2] = 0;
            }
            return;
        }
        _ if request & 0xffff_0000 == CALLGRIND && collect::is_callgrind() => {
            if !callgrind(context, request, argument) {
                return;
            }
            0
        }
        CACHEGRIND_START | CACHEGRIND_STOP if collect::is_cachegrind() => {
            collect::count(request == CACHEGRIND_START);
            0
        }
        _ => return,
    };
    context.regs[2] = result;
}

/// Callgrind's own; false: not known.
fn callgrind(context: &mut Context, request: u64, argument: u64) -> bool {
    match request {
        DUMP_STATS => collect::mark(context, mark::DUMP, b"Client Request"),
        DUMP_STATS_AT => {
            const HEAD: &[u8] = b"Client Request: ";
            let mut name = [0u8; mark::MAX_NAME];
            let (head, text) = name.split_at_mut(HEAD.len());
            head.copy_from_slice(HEAD);
            let read = text.iter_mut().enumerate().map_while(|(at, to)| {
                *to = program_memory::read::<u8>(argument.wrapping_add(at as u64))
                    .filter(|&byte| byte != 0)?;
                Some(())
            });
            let length = HEAD.len() + read.count();
            collect::mark(context, mark::DUMP, name.get(..length).unwrap_or(&[]));
        }
        ZERO_STATS => collect::mark(context, mark::ZERO, b""),
        TOGGLE_COLLECT => collect::toggle(context),
        START_INSTRUMENTATION => collect::count(true),
        STOP_INSTRUMENTATION => collect::count(false),
        _ => return false,
    }
    true
}
