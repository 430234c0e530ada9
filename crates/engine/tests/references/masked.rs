//! Which elements of an operand a mask keeps from being referenced: as this CPU says, which does not fault for them.
//!
//! The operand's first elements are in the last bytes of a page, the others in one that nobody may touch. What is
//! counted by element must fault for an element there that the mask has, and for no other.

use super::built;
use std::fmt::Write as _;
use std::process::Command;

/// Instructions with a mask on `[rax]`: bytes of an element, how many. One of each sort that is counted by element.
const BY_ELEMENT: &[(&str, u32, u32)] = &[
    ("vmovdqu8 zmm0{k1}, [rax]", 1, 64),
    ("vmovdqu8 [rax]{k1}, ymm0", 1, 32),
    ("vmovdqu16 zmm0{k1}{z}, [rax]", 2, 32),
    ("vmovdqu64 [rax]{k1}, zmm0", 8, 8),
    ("vmovupd xmm0{k1}, [rax]", 8, 2),
    ("vmovss xmm0{k1}, [rax]", 4, 1),
    ("vmovsd [rax]{k1}, xmm0", 8, 1),
    ("vpcmpeqb k2{k1}, zmm0, [rax]", 1, 64),
    ("vpcmpud k2{k1}, ymm0, [rax], 1", 4, 8),
    ("vcmppd k2{k1}, zmm0, [rax], 1", 8, 8),
    ("vcmpss k2{k1}, xmm0, [rax], 1", 4, 1),
    ("vptestmw k2{k1}, zmm0, [rax]", 2, 32),
    ("vptestnmb k2{k1}, zmm0, [rax]", 1, 64),
    ("vfpclassps k2{k1}, zmmword ptr [rax], 1", 4, 16),
    ("vpblendmb zmm0{k1}{z}, zmm1, [rax]", 1, 64),
    ("vpandq zmm0{k1}, zmm1, [rax]", 8, 8),
    ("vandnps zmm0{k1}, zmm1, [rax]", 4, 16),
    ("vpternlogd zmm0{k1}, zmm1, [rax], 7", 4, 16),
    ("vpaddb zmm0{k1}, zmm1, [rax]", 1, 64),
    ("vpsubusw zmm0{k1}, zmm1, [rax]", 2, 32),
    ("vpmullq zmm0{k1}, zmm1, [rax]", 8, 8),
    ("vpmulhrsw zmm0{k1}, zmm1, [rax]", 2, 32),
    ("vpminub ymm0{k1}, ymm1, [rax]", 1, 32),
    ("vpmaxsq zmm0{k1}, zmm1, [rax]", 8, 8),
    ("vpabsb zmm0{k1}, [rax]", 1, 64),
    ("vpavgw zmm0{k1}, zmm1, [rax]", 2, 32),
    ("vpsllvw zmm0{k1}, zmm1, [rax]", 2, 32),
    ("vpsravq zmm0{k1}, zmm1, [rax]", 8, 8),
    ("vprold zmm0{k1}, [rax], 3", 4, 16),
    ("vprorvq zmm0{k1}, zmm1, [rax]", 8, 8),
    ("vplzcntd zmm0{k1}, [rax]", 4, 16),
    ("vblendmps zmm0{k1}{z}, zmm1, [rax]", 4, 16),
    ("vgetmantpd zmm0{k1}, [rax], 1", 8, 8),
    ("vpmovzxbd zmm0{k1}, [rax]", 1, 16),
    ("vpmovsxwq ymm0{k1}, [rax]", 2, 4),
    ("vpmovqb [rax]{k1}, zmm0", 1, 8),
    ("vpmovusdw [rax]{k1}, ymm0", 2, 8),
    ("vpmovswb [rax]{k1}, zmm0", 1, 32),
    ("vaddpd zmm0{k1}, zmm1, [rax]", 8, 8),
    ("vmulss xmm0{k1}, xmm1, [rax]", 4, 1),
    ("vdivps xmm0{k1}, xmm1, [rax]", 4, 4),
    ("vsqrtpd zmm0{k1}, [rax]", 8, 8),
    ("vrsqrt14ps zmm0{k1}, [rax]", 4, 16),
    ("vfmadd231ps zmm0{k1}, zmm1, [rax]", 4, 16),
    ("vfnmsub132sd xmm0{k1}, xmm1, [rax]", 8, 1),
    ("vfmaddsub213pd ymm0{k1}, ymm1, [rax]", 8, 4),
    ("vgetexpps zmm0{k1}, [rax]", 4, 16),
    ("vrndscalepd zmm0{k1}, [rax], 1", 8, 8),
    ("vscalefps zmm0{k1}, zmm1, [rax]", 4, 16),
    ("vrangepd zmm0{k1}, zmm1, [rax], 1", 8, 8),
    ("vreduceps zmm0{k1}, [rax], 1", 4, 16),
    ("vfixupimmpd zmm0{k1}, zmm1, [rax], 1", 8, 8),
    ("vcvtps2pd zmm0{k1}, [rax]", 4, 8),
    ("vcvtpd2ps ymm0{k1}, zmmword ptr [rax]", 8, 8),
    ("vcvttps2dq zmm0{k1}, [rax]", 4, 16),
    ("vcvtuqq2pd zmm0{k1}, [rax]", 8, 8),
    ("vcvtsd2ss xmm0{k1}, xmm1, [rax]", 8, 1),
];

/// The same, of CPUs with VBMI2, BITALG, VPOPCNTDQ and FP16.
const NEWER: &[(&str, u32, u32)] = &[
    ("vpshldw zmm0{k1}, zmm1, [rax], 3", 2, 32),
    ("vpshrdvq zmm0{k1}, zmm1, [rax]", 8, 8),
    ("vpopcntb zmm0{k1}, [rax]", 1, 64),
    ("vpopcntq zmm0{k1}, [rax]", 8, 8),
    ("vmovsh xmm0{k1}, [rax]", 2, 1),
    ("vaddph zmm0{k1}, zmm1, [rax]", 2, 32),
    ("vfmadd213ph zmm0{k1}, zmm1, [rax]", 2, 32),
    ("vcmpph k2{k1}, zmm0, [rax], 1", 2, 32),
    ("vreduceph zmm0{k1}, [rax], 1", 2, 32),
    ("vsqrtsh xmm0{k1}, xmm1, [rax]", 2, 1),
];

/// The same where as many elements as the mask has bits lie behind each other.
const PACKED: &[(&str, u32, u32)] = &[
    ("vpexpandd zmm0{k1}, [rax]", 4, 16),
    ("vexpandpd zmm0{k1}{z}, [rax]", 8, 8),
    ("vpcompressq [rax]{k1}, zmm0", 8, 8),
    ("vcompressps [rax]{k1}, ymm0", 4, 8),
];

/// One element for all bits of the mask: how many.
const ONE: &[(&str, u32, u32)] = &[
    ("vbroadcastss zmm0{k1}, [rax]", 4, 16),
    ("vpbroadcastb zmm0{k1}, [rax]", 1, 64),
    ("vpaddd zmm0{k1}, zmm1, [rax]{1to16}", 4, 16),
    ("vcmppd k2{k1}, ymm0, [rax]{1to4}, 1", 8, 4),
    ("vpternlogq xmm0{k1}, xmm1, [rax]{1to2}, 1", 8, 2),
];

/// The same, of CPUs with VNNI and IFMA.
const SUMS: &[(&str, u32, u32)] = &[
    ("vpdpbusd zmm0{k1}, zmm1, [rax]", 4, 16),
    ("vpdpwssds ymm0{k1}, ymm1, [rax]", 4, 8),
    ("vpmadd52luq zmm0{k1}, zmm1, [rax]", 8, 8),
];

/// Operands that are read as a whole, whatever the mask: their bytes.
const WHOLE: &[(&str, u32)] = &[
    ("vpshufb zmm0{k1}, zmm1, [rax]", 64),
    ("vpshufd ymm0{k1}, [rax], 1", 32),
    ("vpshufhw zmm0{k1}, [rax], 1", 64),
    ("vpshuflw zmm0{k1}, [rax], 1", 64),
    ("vpconflictd zmm0{k1}, [rax]", 64),
    ("vpconflictq zmm0{k1}, [rax]{1to8}", 8),
    ("vpunpcklbw zmm0{k1}, zmm1, [rax]", 64),
    ("vpunpckhqdq zmm0{k1}, zmm1, [rax]", 64),
    ("vunpcklps zmm0{k1}, zmm1, [rax]", 64),
    ("vpermd zmm0{k1}, zmm1, [rax]", 64),
    ("vpermd zmm0{k1}, zmm1, [rax]{1to16}", 4),
    ("vpermw zmm0{k1}, zmm1, [rax]", 64),
    ("vpermpd zmm0{k1}, [rax], 1", 64),
    ("vpermilps zmm0{k1}, zmm1, [rax]", 64),
    ("vpermi2d zmm0{k1}, zmm1, [rax]", 64),
    ("vpermt2pd zmm0{k1}, zmm1, [rax]", 64),
    ("vshufps zmm0{k1}, zmm1, [rax], 1", 64),
    ("vshufi64x2 zmm0{k1}, zmm1, [rax], 1", 64),
    ("vpackssdw zmm0{k1}, zmm1, [rax]", 64),
    ("vpackuswb ymm0{k1}, ymm1, [rax]", 32),
    ("vpalignr zmm0{k1}, zmm1, [rax], 3", 64),
    ("valignq zmm0{k1}, zmm1, [rax], 3", 64),
    ("vdbpsadbw zmm0{k1}, zmm1, [rax], 3", 64),
    ("vpmaddwd zmm0{k1}, zmm1, [rax]", 64),
    ("vpmaddubsw zmm0{k1}, zmm1, [rax]", 64),
];

/// The same, of CPUs with VBMI.
const WHOLE_BYTES: &[(&str, u32)] = &[
    ("vpermb zmm0{k1}, zmm1, [rax]", 64),
    ("vpermi2b zmm0{k1}, zmm1, [rax]", 64),
    ("vpmultishiftqb zmm0{k1}, zmm1, [rax]", 64),
];

/// Braces are the compiler's, else.
fn escaped(text: &str) -> String {
    text.replace('{', "%{").replace('}', "%}")
}

fn source() -> String {
    let mut source = String::from(
        r#"
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
static sigjmp_buf back;
static char *end;
static int wrong;
static void fault(int signal) { siglongjmp(back, signal); }
#define FAULTS(text, there, mask) \
    (sigsetjmp(back, 1) != 0 || ({ __asm__ volatile( \
        ".intel_syntax noprefix\nkmovq k1, rcx\n" text "\n.att_syntax prefix\n" \
        : : "a"(there), "c"(mask) : "memory", "xmm0", "xmm1"); 0; }))
static void expect(const char *text, const char *what, int at, int is, int should) {
    if (is != should) { printf("%s: %s, element %d: %d\n", text, what, at, is); wrong++; }
}
static unsigned long low(int bits) { return bits > 63 ? -1ul : (1ul << bits) - 1; }
int main(void) {
    char *pages = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(pages + 4096, 4096, PROT_NONE);
    end = pages + 4096;
    signal(SIGSEGV, fault);
"#,
    );
    // VBMI2, BITALG, VPOPCNTDQ; FP16
    let features = std::arch::x86_64::__cpuid_count(7, 0);
    let newer = [6, 12, 14].iter().all(|bit| features.ecx >> bit & 1 != 0);
    let newer = newer && features.edx >> 23 & 1 != 0;
    let newer = if newer { NEWER } else { &[] };
    let sums = is_x86_feature_detected!("avx512vnni") && is_x86_feature_detected!("avx512ifma");
    let sums = if sums { SUMS } else { &[] };
    let bytes = is_x86_feature_detected!("avx512vbmi");
    let bytes = if bytes { WHOLE_BYTES } else { &[] };
    for (text, size, count) in BY_ELEMENT.iter().chain(newer).chain(sums) {
        let code = escaped(text);
        let _ = writeln!(
            source,
            "for (volatile int at = 0; at < {count}; at++) {{\n\
             expect(\"{text}\", \"others\", at, FAULTS(\"{code}\", end - at * {size}, low(at)), 0);\n\
             expect(\"{text}\", \"itself\", at, FAULTS(\"{code}\", end - at * {size}, 1ul << at), 1);\n\
             if (at) expect(\"{text}\", \"before\", at, FAULTS(\"{code}\", end - at * {size}, 1ul << (at - 1)), 0);\n}}"
        );
        let _ = writeln!(
            source,
            "if ({count} < 64) expect(\"{text}\", \"above\", {count}, FAULTS(\"{code}\", end, ~low({count})), 0);"
        );
    }
    for (text, size, count) in PACKED {
        let code = escaped(text);
        let _ = writeln!(
            source,
            "for (volatile int at = 0; at < {count}; at++) {{\n\
             unsigned long upper = low({count}) & ~low({count} - at);\n\
             expect(\"{text}\", \"fits\", at, FAULTS(\"{code}\", end - at * {size}, upper), 0);\n\
             expect(\"{text}\", \"one more\", at, FAULTS(\"{code}\", end - at * {size}, upper | 1), 1);\n}}"
        );
    }
    for (text, _, count) in ONE {
        let code = escaped(text);
        let _ = writeln!(
            source,
            "for (volatile int at = 0; at < {count}; at++)\n\
             expect(\"{text}\", \"any\", at, FAULTS(\"{code}\", end, 1ul << at), 1);\n\
             if ({count} < 64) expect(\"{text}\", \"above\", {count}, FAULTS(\"{code}\", end, ~low({count})), 0);"
        );
    }
    for (text, size) in WHOLE.iter().chain(bytes) {
        let code = escaped(text);
        let _ = writeln!(
            source,
            "expect(\"{text}\", \"none\", 0, FAULTS(\"{code}\", end - {size} + 1, 0ul), 1);\n\
             expect(\"{text}\", \"first\", 0, FAULTS(\"{code}\", end - {size} + 1, 1ul), 1);\n\
             expect(\"{text}\", \"all\", 0, FAULTS(\"{code}\", end - {size}, -1ul), 0);"
        );
    }
    source.push_str("    puts(wrong ? \"\" : \"as counted\");\n    return wrong != 0;\n}\n");
    source
}

#[test]
fn elements_are_those_that_the_cpu_needs() {
    let has = is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512cd")
        && is_x86_feature_detected!("avx512vl");
    if !has {
        truecount_testing::skip("x86-64", "this CPU has no AVX-512");
        return;
    }
    let Some(program) = built("masked.c", &source(), &["-O1"]) else {
        return;
    };
    let output = Command::new(program).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said == "as counted\n", "{said}");
}
