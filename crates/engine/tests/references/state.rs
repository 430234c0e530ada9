//! What `xsave` and its kin write is what they wrote when the program ran without the engine; what `xrstor` reads of it.

use super::support::run;
use super::{built, noted};
use std::collections::BTreeSet;
use std::process::Command;
use truecount_engine::virt::Options;

/// Saves the state by `save` and writes the whole area out; the area was full of `fill`. First it reads the area's
/// first byte, so that the address is known.
fn program(name: &str, save: &str, fill: u8) -> Option<std::path::PathBuf> {
    let source = format!(
        ".intel_syntax noprefix\n.globl _start\n_start:\nlea rbx, [rip+area]\nmov al, [rbx]\n\
         fninit\nfld1\n{save}\nmov eax, 1\nmov edi, 1\nlea rsi, [rip+area]\nmov edx, 16384\nsyscall\n\
         mov eax, 60\nxor edi, edi\nsyscall\n.data\n.balign 4096\narea: .fill 16384, 1, {fill}\n"
    );
    built(
        &format!("{name}_{fill}.s"),
        &source,
        &["-nostdlib", "-static"],
    )
}

/// Bytes of the area that are written where no engine is.
fn written(name: &str, save: &str) -> Option<BTreeSet<u64>> {
    let area = |fill| {
        let output = Command::new(program(name, save, fill)?).output().ok()?;
        assert!(output.status.success(), "{name}: {}", output.status);
        assert_eq!(output.stdout.len(), 16384);
        Some(output.stdout)
    };
    let (one, other) = (area(0x55)?, area(0xaa)?);
    let differs = |at: &usize| one.get(*at) != Some(&0x55) || other.get(*at) != Some(&0xaa);
    Some((0..16384).filter(differs).map(|at| at as u64).collect())
}

/// Where references are in the area, and their bytes.
type Places = Vec<(u64, u32)>;

/// The same, as references; and what is read, but for the first byte.
fn referenced(name: &str, save: &str) -> Option<(BTreeSet<u64>, Places)> {
    let (all, outcome) = noted(&program(name, save, 0x55)?, &[])?;
    assert!(outcome.status.success(), "{name}: {}", outcome.status);
    assert!(all.unknown.is_empty(), "{:?}", all.unknown);
    let all = all.references.into_values().next().unwrap();
    let base = all[0].1;
    let (mut written, mut read) = (BTreeSet::new(), Vec::new());
    for &(_, address, size, kind) in &all[1..] {
        if !(base..base + 16384).contains(&address) {
            continue;
        }
        let at = address - base;
        if kind != 'r' {
            for byte in at..at + u64::from(size) {
                assert!(written.insert(byte), "{name}: byte {byte} is written once");
            }
        }
        if kind != 'w' {
            read.push((at, size));
        }
    }
    Some((written, read))
}

#[test]
fn saved_state_is_what_was_written() {
    if !is_x86_feature_detected!("xsavec") || !is_x86_feature_detected!("avx") {
        truecount_testing::skip("x86-64", "this CPU has no xsavec, or no AVX");
        return;
    }
    let used = "vpcmpeqd xmm0, xmm0, xmm0\nvinsertf128 ymm1, ymm1, xmm0, 1";
    let upper = match is_x86_feature_detected!("avx512bw") {
        true => "vpternlogd zmm20, zmm20, zmm20, 255\nkxnorw k1, k1, k1",
        false => "",
    };
    // (What was never touched may be in use or not, as the kernel and the CPU had it.)
    let upper = format!("{used}\n{upper}");
    for (name, setup) in [("used", used), ("upper", &upper)] {
        for mask in [0u32, 1, 2, 3, 4, 6, 7, 0xe5, 0xe7, 0x2e6] {
            for save in ["xsave", "xsavec", "xsavec64"] {
                let code = format!("{setup}\nmov eax, {mask}\nxor edx, edx\n{save} [rbx]");
                let name = format!("{save}_{name}_{mask}");
                let (Some(mut written), Some((found, read))) =
                    (written(&name, &code), referenced(&name, &code))
                else {
                    return;
                };
                if save == "xsave" {
                    // Bits that are no component's are written as they were.
                    written.extend(512..520);
                    assert_eq!(read, [(512, 8)], "{name}");
                } else {
                    assert_eq!(read, [], "{name}");
                }
                assert_eq!(found, written, "{name}");
            }
        }
    }
}

#[test]
fn restored_state_is_what_was_saved() {
    if !is_x86_feature_detected!("xsavec") || !is_x86_feature_detected!("avx") {
        truecount_testing::skip("x86-64", "this CPU has no xsavec, or no AVX");
        return;
    }
    let clear = "lea rdi, [rbx+512]\nmov ecx, 64\nxor eax, eax\nrep stosb";
    let used = "vpcmpeqd xmm0, xmm0, xmm0\nvinsertf128 ymm1, ymm1, xmm0, 1";
    let units = |from: u64, bytes: u64| (0..bytes / 8).map(move |at| (from + 8 * at, 8u32));
    let code = |save: &str| {
        format!("{clear}\n{used}\nmov eax, 7\nxor edx, edx\n{save} [rbx]\nxrstor [rbx]")
    };
    let Some(read) = read_of("compacted", &code("xsavec")) else {
        return;
    };
    let mut expected: Vec<(u64, u32)> = units(512, 64).chain([(24, 4)]).collect();
    expected.extend(units(0, 24).chain(units(32, 128)));
    expected.extend(units(160, 256).chain(units(576, 256)));
    expected.sort_unstable();
    assert_eq!(read, expected);
    let Some(read) = read_of("standard", &code("xsave")) else {
        return;
    };
    let mut expected: Vec<(u64, u32)> = units(512, 24).chain([(24, 4), (512, 8)]).collect();
    expected.extend(units(0, 24).chain(units(32, 128)));
    expected.extend(units(160, 256).chain(units(576, 256)));
    expected.sort_unstable();
    assert_eq!(read, expected);
}

/// What a program reads of its area.
fn read_of(name: &str, code: &str) -> Option<Places> {
    let (all, outcome) = noted(&program(name, code, 0)?, &[])?;
    assert!(outcome.status.success(), "{name}: {}", outcome.status);
    assert!(all.unknown.is_empty(), "{:?}", all.unknown);
    let all = all.references.into_values().next().unwrap();
    let base = all[0].1;
    let read = all[1..]
        .iter()
        .filter(|(_, address, _, kind)| *kind != 'w' && (base..base + 16384).contains(address));
    let mut read: Vec<(u64, u32)> = read.map(|&(_, at, size, _)| (at - base, size)).collect();
    read.sort_unstable();
    Some(read)
}

/// Prints whether vectors are in use, as the state says that is saved: in new code, behind calls of the system, in a handler,
/// in a child; with vectors as in a new program, and with some that are used. (Natively often not, and not the same in each run.)
const IN_USE: &str = r#"
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
static char area[16384] __attribute__((aligned(64)));
static char seen[512];
static int count;
static void look(void) {
    for (int at = 0; at < 64; at++) ((volatile char *)area)[512 + at] = 0;
    __asm__ volatile("xsavec (%0)" :: "r"(area), "a"(2), "d"(0) : "memory");
    seen[count++] = '0' + (area[512] >> 1 & 1);
}
#define CLEAR __asm__ volatile("vzeroall" ::: "memory")
#define USE __asm__ volatile("pcmpeqd %%xmm7, %%xmm7" ::: "memory")
#define CALL(number, a, b, c) ({ long result; __asm__ volatile("syscall" : "=a"(result) \
    : "a"((long)(number)), "D"((long)(a)), "S"((long)(b)), "d"((long)(c)) : "rcx", "r11", "memory"); result; })
static void handler(int signal, siginfo_t *info, void *context) {
    look();
    CALL(10, (uintptr_t)info->si_addr & -4096, 4096, PROT_READ | PROT_WRITE);
    look();
}
static long (*volatile one)(void), (*volatile other)(void);
static long first(void) { look(); return 1; }
static long second(void) { look(); return 2; }
int main(void) {
    struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO };
    sigaction(SIGSEGV, &action, 0);
    char *pages = mmap(0, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    one = first;
    other = second;
    for (int round = 0; round < 100; round++) {
        if (round % 3) CLEAR; else USE;
        look();
        if (round & 1) one(); else other();
        CALL(39, 0, 0, 0);
        look();
        if (round == 10 || round == 12) *(volatile char *)(pages + 4096 * (round == 12)) = 1;
        if (round == 20) {
            long child = CALL(57, 0, 0, 0);
            look();
            if (!child) {
                CALL(1, 1, seen, count);
                CALL(60, 0, 0, 0);
            }
            CALL(61, child, 0, 0);
        }
        look();
    }
    CALL(1, 1, seen, count);
    return 0;
}
"#;

#[test]
fn vectors_are_in_use_in_what_is_saved() {
    if !is_x86_feature_detected!("xsavec") || !is_x86_feature_detected!("avx") {
        truecount_testing::skip("x86-64", "this CPU has no xsavec, or no AVX");
        return;
    }
    // (Without what the compiler would use vectors for.)
    let Some(program) = built("in_use.c", IN_USE, &["-O1", "-fno-tree-vectorize"]) else {
        return;
    };
    for _ in 0..2 {
        let Some((status, output, _)) = run(Command::new(&program), &Options::default()) else {
            return;
        };
        assert!(status.success());
        assert!(output.len() > 400);
        assert_eq!(output.replace('1', ""), "");
    }
}
