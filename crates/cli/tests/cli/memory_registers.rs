//! `run --memory` and `--model`: registers that look-ups of references borrow are the program's wherever it can see them.

use crate::support::{program, truecount};

/// With an address: loads from there (with another argument elements that a mask chooses, where the CPU has AVX-512BW; or with
/// other flags), and prints the registers and flags that the fault's handler sees. Without: loops with the same registers, and
/// a timer whose handler looks at them there.
const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

extern char loop_begins[], loop_ends[], masks_begin[], masks_end[], flags_begin[], flags_set[], flags_used[], flags_end[];
static long cells[16];
static volatile int seen, wrong;

#define SET \
    "mov $0x11, %%eax\n mov $0x22, %%ecx\n mov $0x33, %%edx\n mov $0x55, %%esi\n mov $0x66, %%edi\n" \
    "mov $0x77, %%r8d\n mov $0x88, %%r9d\n mov $0x99, %%r10d\n mov $0xaa, %%r11d\n" \
    "mov $0xdd, %%r14d\n mov $0xee, %%r15d\n"
#define SPOILED "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "cc", "memory"

static const int names[] = {REG_RAX, REG_RCX, REG_RDX, REG_RSI, REG_RDI, REG_R8, REG_R9, REG_R10, REG_R11, REG_R14, REG_R15};
static const long values[] = {0x11, 0x22, 0x33, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xdd, 0xee};

static void fault(int signal, siginfo_t *info, void *frame) {
    long long *registers = ((ucontext_t *)frame)->uc_mcontext.gregs;
    for (int at = 0; at < 11; at++) printf("%llx ", registers[names[at]]);
    printf("%llx %lld\n", registers[REG_EFL] & 0x8d5, registers[REG_RIP] - (long)loop_ends);
    fflush(stdout);
    _exit(0);
}

static void tick(int signal, siginfo_t *info, void *frame) {
    long long *registers = ((ucontext_t *)frame)->uc_mcontext.gregs;
    int in_loop = registers[REG_RIP] >= (long)loop_begins && registers[REG_RIP] < (long)loop_ends;
    int in_masks = registers[REG_RIP] >= (long)masks_begin && registers[REG_RIP] < (long)masks_end;
    int in_flags = registers[REG_RIP] >= (long)flags_begin && registers[REG_RIP] < (long)flags_end;
    if (!in_loop && !in_masks && !in_flags) return;
    seen++;
    for (int at = 0; at < 11; at++) wrong += registers[names[at]] != values[at];
    wrong += registers[REG_RBX] != (long)cells;
    if (registers[REG_RIP] >= (long)flags_set && registers[REG_RIP] <= (long)flags_used)
        wrong += (registers[REG_EFL] & 0x8d5) != 0x814;
}

int main(int count, char **arguments) {
    __builtin_cpu_init();
    int masks = __builtin_cpu_supports("avx512bw");
    struct sigaction action = {.sa_sigaction = fault, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, 0);
    char *page = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(page + 4096, 4096);
    action.sa_sigaction = tick;
    sigaction(SIGALRM, &action, 0);
    if (count > 1) {
        unsigned long address = strtoul(arguments[1], 0, 0);
        if (address < 64) address = (unsigned long)page + 4096 - address;
        if (count > 2 && *arguments[2] == 'o')
            __asm__ volatile(SET "mov $0x80000000, %%r12d\n sub $1, %%r12d\n"
                "mov (%%rbx), %%rcx\n mov 8(%%rbx), %%rdx\n mov 16(%%rbx), %%r12\n mov 24(%%rbx), %%edi\n jo 1f\n nop\n1: ud2"
                :: "b"(address) : SPOILED);
        if (count > 2 && masks)
            __asm__ volatile(SET "kmovq %%rax, %%k1\n cmp $0x12, %%eax\n"
                "vmovdqu8 (%%rbx), %%zmm16%{%%k1%}\n vmovdqu8 %%zmm16, 64(%%rbx)%{%%k1%}\n"
                "vpcmpub $4, 64(%%rbx), %%zmm16, %%k2%{%%k1%}\n jc 1f\n nop\n1: ud2"
                :: "b"(address) : SPOILED);
        __asm__ volatile(SET "cmp $0x12, %%eax\n"
            "mov (%%rbx), %%rcx\n mov 8(%%rbx), %%rdx\n mov 16(%%rbx), %%esi\n mov 24(%%rbx), %%edi\n jc 1f\n nop\n1: ud2"
            :: "b"(address) : SPOILED);
    }
    struct itimerval every = {{0, 1000}, {0, 1000}};
    setitimer(ITIMER_REAL, &every, 0);
    for (int again = 0; again < 2000 && seen < 200; again++)
        __asm__ volatile(SET "mov $100000, %%r12d\n loop_begins:\n"
            "addq $1, (%%rbx)\n mov 8(%%rbx), %%r13\n mov %%r13, 16(%%rbx)\n movq $7, 24(%%rbx)\n"
            "cmp %%r9, %%r8\n mov 64(%%rbx), %%r13\n adc %%r13, 32(%%rbx)\n mov (%%rbx,%%r13), %%r13\n"
            "push %%r13\n pop 40(%%rbx)\n dec %%r12d\n jnz loop_begins\n loop_ends:\n"
            :: "b"(cells) : SPOILED);
    int first = seen;
    for (int again = 0; masks && again < 2000 && seen < first + 100; again++)
        __asm__ volatile(SET "kmovq %%rax, %%k1\n mov $100000, %%r12d\n masks_begin:\n"
            "cmp %%r9, %%r8\n vmovdqu8 (%%rbx), %%zmm16%{%%k1%}\n adc $0, %%r13\n vmovdqu8 %%zmm16, 64(%%rbx)%{%%k1%}\n"
            "mov 8(%%rbx), %%r13\n dec %%r12d\n jnz masks_begin\n masks_end:\n"
            :: "b"(cells) : SPOILED);
    int behind = seen;
    for (int again = 0; again < 2000 && seen < behind + 100; again++)
        __asm__ volatile(SET "mov $100000, %%r12d\n flags_begin:\n mov $0x80000000, %%r13d\n sub $1, %%r13d\n flags_set:\n"
            "mov (%%rbx), %%r13\n mov %%r13, 8(%%rbx)\n push %%r13\n pop %%r13\n movzwl 17(%%rbx), %%r13d\n"
            "movdqu (%%rbx), %%xmm0\n mov 16(%%rbx), %%r13\n flags_used:\n"
            "seto 32(%%rbx)\n dec %%r12d\n jnz flags_begin\n flags_end:\n"
            :: "b"(cells) : SPOILED, "xmm0");
    struct itimerval never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &never, 0);
    printf("%d %d\n", seen > 20 && (!masks || behind > first + 10) && seen > behind + 10, wrong);
}
"#;

fn prints(command: &mut std::process::Command) -> String {
    let output = command.output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_handler_sees_the_programs_registers() {
    let Some((_directory, program)) = program(PROGRAM) else {
        return;
    };
    // Nowhere, the kernel's, nothing there; the first load faults, the second, the third, the fourth; none does.
    let addresses = [
        "0xdead000000000000",
        "0xffffffff80000000",
        "0x800000000000",
        "0x7ffffffffff0",
        "64",
        "0",
        "8",
        "16",
        "24",
    ];
    let options: [&[&str]; 4] = [
        &["--memory"],
        &["--model=cachegrind"],
        &["--model", "--predictor=tage"],
        &["--locality"],
    ];
    // (All in one run: each process begins anew.)
    let each = r#"for address in $2; do echo $address; "$0" $address $1; done"#;
    for masks in ["", "masks", "overflow"] {
        let arguments = |command: &mut std::process::Command| {
            let words = [masks, &addresses.join(" ")];
            command.args(["-c", each]).arg(&program).args(words);
        };
        let mut command = std::process::Command::new("sh");
        arguments(&mut command);
        let natively = prints(&mut command);
        let lines: Vec<&str> = natively.lines().collect();
        assert_eq!(lines.len(), 2 * addresses.len(), "{natively}");
        for (address, line) in addresses.iter().zip(lines.chunks(2)) {
            assert_eq!(line.first(), Some(address), "{natively}");
            assert_eq!(line.last().unwrap().split(' ').count(), 13, "{natively}");
        }
        let many = if masks.is_empty() { 4 } else { 2 };
        for options in &options[..many] {
            let mut command = truecount(&["run", "--output", "/dev/null"]);
            command.args(*options).args(["--", "sh"]);
            arguments(&mut command);
            assert_eq!(prints(&mut command), natively, "{options:?} {masks}");
        }
    }
}

#[test]
fn a_timers_handler_sees_the_programs_registers() {
    let Some((_directory, program)) = program(PROGRAM) else {
        return;
    };
    for options in [&["--memory"][..], &["--model=cachegrind"], &["--locality"]] {
        let mut command = truecount(&["run", "--output", "/dev/null"]);
        command.args(options).arg("--").arg(&program);
        assert_eq!(prints(&mut command), "1 0\n", "{options:?}");
    }
}
