//! Routines that note a call, a return or a jump in the tree of calls (`call_tree`), where the path is one that was
//! found lately. Else the runtime does it (`call_tree::note`) and goes on at the same place.
//!
//! Translated code comes with RCX in `spill[0]` (or of no use), the branch's target in `target`, and where it goes on
//! in `resume`. Every register and flag stays as it is. A signal that finds a thread here is stepped on to the end of
//! the branch, as in the middle of any translated instruction (`own_memory::in_code`).

use crate::calls::{Frame, Node, kind};
use crate::layout::{Context, RING};
use crate::xlate::references::{MARK, NODE};
use core::arch::global_asm;
use core::mem::{offset_of, size_of};
use core::ops::Range;

/// Assembly with the offsets of what it works on.
macro_rules! routines {
    ($($line:expr),* $(,)?) => {
        global_asm!(
            $($line,)*
            spill = const offset_of!(Context, calls.spill),
            node = const offset_of!(Context, calls.node),
            flat = const offset_of!(Context, calls.flat),
            top = const offset_of!(Context, calls.top),
            end = const offset_of!(Context, calls.end),
            cache = const offset_of!(Context, calls.cache),
            resume = const offset_of!(Context, calls.resume),
            target = const offset_of!(Context, target),
            count = const offset_of!(Context, count),
            kind = const offset_of!(Context, exit_kind),
            parent = const offset_of!(Node, parent),
            function = const offset_of!(Node, function),
            start = const offset_of!(Node, start),
            len = const offset_of!(Node, len),
            own = const offset_of!(Node, own),
            calls = const offset_of!(Node, calls),
            site = const offset_of!(Node, site),
            node_kind = const offset_of!(Node, kind),
            stub = const kind::STUB,
            events = const offset_of!(Context, calls.events),
            ring = const RING,
            mark = const (MARK | NODE) >> 32,
            mark_bit = const MARK.trailing_zeros() - 32,
            position = const offset_of!(Context, noted.position),
            marked = const offset_of!(Context, noted.marked),
            marks = const offset_of!(Context, noted.marks),
            wide = const size_of::<Node>(),
            frame = const size_of::<Frame>(),
            frame_sp = const size_of::<Frame>() - offset_of!(Frame, sp),
            frame_node = const size_of::<Frame>() - offset_of!(Frame, node),
            frame_back = const size_of::<Frame>() - offset_of!(Frame, back),
        );
    };
}

routines!(
    ".pushsection .text",
    ".macro rt_tree_begin",
    "mov gs:[{spill}+8], rax",
    "mov gs:[{spill}+16], rdx",
    "lahf",
    "seto al",
    "mov gs:[{spill}+24], rax",
    ".endm",
    ".macro rt_tree_end",
    "mov rax, gs:[{spill}+24]",
    "add al, 127",
    "sahf",
    "mov rax, gs:[{spill}+8]",
    "mov rdx, gs:[{spill}+16]",
    "mov rcx, gs:[{spill}]",
    ".endm",
    // The node RDX of node RCX and target RAX at the place of the cache that EDX, a mixture, leads to.
    ".macro rt_tree_known missed",
    "imul edx, edx, 0x9e3779b1",
    "shr edx, 16",
    "shl edx, 3",
    "add rdx, gs:[{cache}]",
    "mov rdx, [rdx]",
    "test rdx, rdx",
    "jz \\missed",
    "cmp [rdx+{parent}], rcx",
    "jne \\missed",
    "cmp [rdx+{function}], rax",
    "jne \\missed",
    ".endm",
    // The node RDX for node RCX and target RAX, where the cache has it.
    ".macro rt_tree_find missed=9f",
    "mov edx, ecx",
    "shr edx, 2",
    "xor edx, eax",
    "rt_tree_known \\missed",
    ".endm",
    // The same for the site RDX and the context's target.
    ".macro rt_tree_find_site missed=9f",
    "lea eax, [rdx+rdx*4]",
    "mov edx, ecx",
    "shr edx, 2",
    "xor edx, eax",
    "mov rax, gs:[{target}]",
    "xor edx, eax",
    "rt_tree_known \\missed",
    ".endm",
    ".macro rt_tree_slow number",
    "9: rt_tree_end",
    "mov dword ptr gs:[{kind}], \\number",
    "jmp rt_save",
    ".endm",
    // A wide node has events beside instructions: a few, or as many as there can be. RCX's node is left …
    ".macro rt_tree_leave_events by, is_wide",
    "mov \\by, gs:[{events}]",
    "add [rcx+{wide}], \\by",
    "mov \\by, gs:[{events}+8]",
    "add [rcx+{wide}+8], \\by",
    "mov \\by, gs:[{events}+16]",
    "add [rcx+{wide}+16], \\by",
    "mov \\by, gs:[{events}+24]",
    "add [rcx+{wide}+24], \\by",
    ".if \\is_wide == 2",
    "mov \\by, gs:[{events}+32]",
    "add [rcx+{wide}+32], \\by",
    "mov \\by, gs:[{events}+40]",
    "add [rcx+{wide}+40], \\by",
    "mov \\by, gs:[{events}+48]",
    "add [rcx+{wide}+48], \\by",
    "mov \\by, gs:[{events}+56]",
    "add [rcx+{wide}+56], \\by",
    ".endif",
    ".endm",
    // … and this one entered.
    ".macro rt_tree_enter_events node, by, is_wide",
    "mov \\by, gs:[{events}]",
    "sub [\\node+{wide}], \\by",
    "mov \\by, gs:[{events}+8]",
    "sub [\\node+{wide}+8], \\by",
    "mov \\by, gs:[{events}+16]",
    "sub [\\node+{wide}+16], \\by",
    "mov \\by, gs:[{events}+24]",
    "sub [\\node+{wide}+24], \\by",
    ".if \\is_wide == 2",
    "mov \\by, gs:[{events}+32]",
    "sub [\\node+{wide}+32], \\by",
    "mov \\by, gs:[{events}+40]",
    "sub [\\node+{wide}+40], \\by",
    "mov \\by, gs:[{events}+48]",
    "sub [\\node+{wide}+48], \\by",
    "mov \\by, gs:[{events}+56]",
    "sub [\\node+{wide}+56], \\by",
    ".endif",
    ".endm",
    // From node RCX to node RDX, which is called. (The order is that of `call_tree::go_to`.)
    ".macro rt_tree_move is_wide",
    ".if \\is_wide",
    "rt_tree_leave_events rax, \\is_wide",
    ".endif",
    "mov rax, gs:[{count}]",
    "add [rcx+{own}], rax",
    "mov gs:[{node}], rdx",
    "sub [rdx+{own}], rax",
    ".if \\is_wide",
    "rt_tree_enter_events rdx, rax, \\is_wide",
    ".endif",
    "add qword ptr [rdx+{calls}], 1",
    ".endm",
    // With a ring of references the node is marked there, behind the block that came here (`references::mark`): no
    // block begins where there is no room for one mark more. Behind another node's mark it takes that one's place.
    // Takes RAX, RCX and RDX.
    ".macro rt_tree_mark is_noted",
    ".if \\is_noted",
    "mov ecx, gs:[{position}]",
    "xor eax, eax",
    "cmp gs:[{marked}], ecx",
    "jne 5f",
    "mov edx, gs:[rcx*8+{ring}-4]",
    "shr edx, {mark_bit}",
    "cmp edx, {mark} >> {mark_bit}",
    "mov eax, gs:[{marks}]",
    "jne 5f",
    "sub ecx, 1",
    "sub eax, 1",
    "5: add eax, 1",
    "mov rdx, gs:[{node}]",
    "mov gs:[rcx*8+{ring}], rdx",
    "or dword ptr gs:[rcx*8+{ring}+4], {mark}",
    "mov gs:[{marks}], eax",
    "add ecx, 1",
    "mov gs:[{position}], ecx",
    "mov gs:[{marked}], ecx",
    ".endif",
    ".endm",
    // A frame for the call, with the node RDX found below RCX, and the rest of the routine.
    ".macro rt_tree_into is_wide, is_noted",
    "mov rax, gs:[{top}]",
    "cmp rax, gs:[{end}]",
    "jae 9f",
    "cmp rsp, [rax-{frame_sp}]",
    "jae 9f",
    "mov [rax+{frame}-{frame_sp}], rsp",
    "mov [rax+{frame}-{frame_node}], rcx",
    "add rax, {frame}",
    "mov gs:[{top}], rax",
    "rt_tree_move \\is_wide",
    "mov rcx, [rsp]",
    "mov rax, gs:[{top}]",
    "mov [rax-{frame_back}], rcx",
    "rt_tree_mark \\is_noted",
    "rt_tree_end",
    "jmp qword ptr gs:[{resume}]",
    "rt_tree_slow 32",
    ".endm",
    //
    // Jumps: whether one stays in its function, and if not, whether it leaves the stack as its function found it.
    ".macro rt_tree_leaves",
    "rt_tree_begin",
    "mov rcx, gs:[{node}]",
    "mov rax, gs:[{target}]",
    "mov rdx, rax",
    "sub rdx, [rcx+{start}]",
    "cmp rdx, [rcx+{len}]",
    "jb 8f",
    "mov rdx, gs:[{top}]",
    "cmp rsp, [rdx-{frame_sp}]",
    "jne 9f",
    "mov rcx, [rdx-{frame_node}]",
    ".endm",
    // The node RDX in the place of the one that is left, and the rest of the routine.
    ".macro rt_tree_replaces is_wide, is_noted",
    "mov rcx, gs:[{node}]",
    "rt_tree_move \\is_wide",
    "rt_tree_mark \\is_noted",
    "8: rt_tree_end",
    "jmp qword ptr gs:[{resume}]",
    "rt_tree_slow 34",
    ".endm",
    //
    ".macro rt_tree_set suffix, is_wide, is_noted",
    ".globl rt_tree_called\\suffix",
    "rt_tree_called\\suffix:",
    "rt_tree_begin",
    "mov rcx, gs:[{node}]",
    "mov rax, gs:[{target}]",
    "rt_tree_find",
    "rt_tree_into \\is_wide, \\is_noted",
    //
    // The same with a node for each call site.
    ".globl rt_tree_called_site\\suffix",
    "rt_tree_called_site\\suffix:",
    "rt_tree_begin",
    "mov rcx, gs:[{node}]",
    "mov rdx, [rsp]",
    "rt_tree_find_site",
    "mov rax, [rsp]",
    "cmp [rdx+{site}], rax",
    "jne 9f",
    "rt_tree_into \\is_wide, \\is_noted",
    //
    // What is not collected has one node, whatever is called.
    ".globl rt_tree_called_off\\suffix",
    "rt_tree_called_off\\suffix:",
    "rt_tree_begin",
    "mov rcx, gs:[{node}]",
    "mov rdx, gs:[{flat}]",
    "rt_tree_into \\is_wide, \\is_noted",
    //
    ".globl rt_tree_returns\\suffix",
    "rt_tree_returns\\suffix:",
    "rt_tree_begin",
    "mov rax, gs:[{top}]",
    "cmp rsp, [rax-{frame_sp}]",
    "jne 9f",
    "mov rdx, gs:[{target}]",
    "cmp rdx, [rax-{frame_back}]",
    "jne 9f",
    "mov rcx, gs:[{node}]",
    ".if \\is_wide",
    "rt_tree_leave_events rdx, \\is_wide",
    ".endif",
    "mov rdx, gs:[{count}]",
    "add [rcx+{own}], rdx",
    "mov rcx, [rax-{frame_node}]",
    "mov gs:[{node}], rcx",
    "sub [rcx+{own}], rdx",
    ".if \\is_wide",
    "rt_tree_enter_events rcx, rdx, \\is_wide",
    ".endif",
    "sub rax, {frame}",
    "mov gs:[{top}], rax",
    "rt_tree_mark \\is_noted",
    "rt_tree_end",
    "jmp qword ptr gs:[{resume}]",
    "rt_tree_slow 33",
    //
    ".globl rt_tree_jumps\\suffix",
    "rt_tree_jumps\\suffix:",
    "rt_tree_leaves",
    "rt_tree_find 7f",
    // An entry of a linkage table takes nobody's place; this one is there because the caller called it, too.
    "cmp dword ptr [rdx+{node_kind}], {stub}",
    "je 7f",
    "cmp qword ptr [rdx+{site}], 0",
    "jne 9f",
    "6: rt_tree_replaces \\is_wide, \\is_noted",
    "7: mov rcx, gs:[{node}]",
    "rt_tree_find",
    "cmp dword ptr [rdx+{node_kind}], {stub}",
    "je 6b",
    "rt_tree_slow 34",
    //
    // The same with a node for each call site: that of the call in whose place it is.
    ".globl rt_tree_jumps_site\\suffix",
    "rt_tree_jumps_site\\suffix:",
    "rt_tree_leaves",
    "mov rdx, [rdx-{frame_back}]",
    "rt_tree_find_site 7f",
    "cmp dword ptr [rdx+{node_kind}], {stub}",
    "je 7f",
    "mov rax, gs:[{top}]",
    "mov rax, [rax-{frame_back}]",
    "cmp [rdx+{site}], rax",
    "jne 9f",
    "6: rt_tree_replaces \\is_wide, \\is_noted",
    "7: mov rcx, gs:[{node}]",
    "mov rdx, gs:[{top}]",
    "mov rdx, [rdx-{frame_back}]",
    "rt_tree_find_site",
    "cmp dword ptr [rdx+{node_kind}], {stub}",
    "jne 9f",
    "mov rax, gs:[{top}]",
    "mov rax, [rax-{frame_back}]",
    "cmp [rdx+{site}], rax",
    "je 6b",
    "rt_tree_slow 34",
    ".endm",
    //
    ".globl rt_tree_routines",
    "rt_tree_routines:",
    "rt_tree_set , 0, 0",
    "rt_tree_set _wide, 1, 0",
    "rt_tree_set _noted, 0, 1",
    "rt_tree_set _noted_wide, 1, 1",
    "rt_tree_set _widest, 2, 0",
    "rt_tree_set _noted_widest, 2, 1",
    ".globl rt_tree_routines_end",
    "rt_tree_routines_end:",
    ".popsection",
);

/// Declares routines: [for calls, for calls where sites are told apart, for returns, for jumps, for jumps where …, for
/// calls that are not collected].
macro_rules! declared {
    ($($set:ident: $call:ident $call_site:ident $return:ident $jump:ident $jump_site:ident $off:ident;)*) => {
        unsafe extern "C" {
            fn rt_tree_routines();
            fn rt_tree_routines_end();
            $(fn $call(); fn $call_site(); fn $return(); fn $jump(); fn $jump_site(); fn $off();)*
        }
        $(const $set: [unsafe extern "C" fn(); 6] = [$call, $call_site, $return, $jump, $jump_site, $off];)*
    };
}

declared! {
    PLAIN: rt_tree_called rt_tree_called_site rt_tree_returns rt_tree_jumps rt_tree_jumps_site
        rt_tree_called_off;
    WIDE: rt_tree_called_wide rt_tree_called_site_wide rt_tree_returns_wide rt_tree_jumps_wide
        rt_tree_jumps_site_wide rt_tree_called_off_wide;
    NOTED: rt_tree_called_noted rt_tree_called_site_noted rt_tree_returns_noted rt_tree_jumps_noted
        rt_tree_jumps_site_noted rt_tree_called_off_noted;
    NOTED_WIDE: rt_tree_called_noted_wide rt_tree_called_site_noted_wide rt_tree_returns_noted_wide
        rt_tree_jumps_noted_wide rt_tree_jumps_site_noted_wide
        rt_tree_called_off_noted_wide;
    WIDEST: rt_tree_called_widest rt_tree_called_site_widest rt_tree_returns_widest rt_tree_jumps_widest
        rt_tree_jumps_site_widest rt_tree_called_off_widest;
    NOTED_WIDEST: rt_tree_called_noted_widest rt_tree_called_site_noted_widest rt_tree_returns_noted_widest
        rt_tree_jumps_noted_widest rt_tree_jumps_site_noted_widest
        rt_tree_called_off_noted_widest;
}

/// How many events nodes have beside instructions.
#[derive(Clone, Copy)]
pub enum Wide {
    None,
    /// At most `calls::FEW`.
    Few,
    /// As many as there can be.
    All,
}

/// Which routines.
#[derive(Clone, Copy)]
pub struct Routines {
    /// Sites are told apart.
    pub sites: bool,
    /// Events of nodes beside instructions.
    pub wide: Wide,
    /// Nodes are marked in the ring of references.
    pub noted: bool,
    /// What is executed is not collected.
    pub off: bool,
}

/// Their addresses: for calls, for returns, for jumps.
pub fn vectors(wanted: Routines) -> [u64; 3] {
    let set = match (wanted.wide, wanted.noted) {
        (Wide::None, false) => PLAIN,
        (Wide::Few, false) => WIDE,
        (Wide::All, false) => WIDEST,
        (Wide::None, true) => NOTED,
        (Wide::Few, true) => NOTED_WIDE,
        (Wide::All, true) => NOTED_WIDEST,
    };
    let [call, call_site, returns, jump, jump_site, off] = set;
    match (wanted.off, wanted.sites) {
        (true, false) => [off, returns, jump],
        (true, true) => [off, returns, jump_site],
        (false, false) => [call, returns, jump],
        (false, true) => [call_site, returns, jump_site],
    }
    .map(address)
}

fn address(label: unsafe extern "C" fn()) -> u64 {
    label as *const () as usize as u64
}

/// Where they are.
pub fn range() -> Range<u64> {
    address(rt_tree_routines)..address(rt_tree_routines_end)
}

/// Where in the cache a node is looked for.
pub fn place(parent: u64, function: u64, site: u64) -> usize {
    let mixture = (parent as u32) >> 2 ^ function as u32 ^ (site as u32).wrapping_mul(5);
    (mixture.wrapping_mul(0x9e37_79b1) >> 16) as usize
}
