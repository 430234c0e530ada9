//! Addresses and sizes worked out by hand: what a mask, a vector of addresses or an implied operand makes of them.

use super::{assemble, noted};

/// What a body references of `data`: offset, bytes, what for; its first instructions put `data` into RBX.
fn of_data(name: &str, body: &str) -> Option<Vec<(i64, u32, char)>> {
    let body = format!("lea rbx, [rip+data]\nmov al, [rbx]\n{body}");
    let (all, outcome) = noted(&assemble(name, &body)?, &[])?;
    assert!(outcome.status.success(), "{}", outcome.status);
    assert_eq!(all.instructions, outcome.totals.instructions());
    assert!(all.unknown.is_empty(), "{:?}", all.unknown);
    let all = all.references.into_values().next().unwrap();
    let base = all[0].1;
    let of_data = all[1..]
        .iter()
        .filter(|(_, address, ..)| (base..base + 8192).contains(address));
    Some(
        of_data
            .map(|&(_, address, size, kind)| ((address - base) as i64, size, kind))
            .collect(),
    )
}

/// A body, piece by piece, each with what it references.
type Pieces<'a> = &'a [(&'a str, &'a [(i64, u32, char)])];

fn are(name: &str, tables: &str, pieces: Pieces<'_>) {
    let code: String = pieces.iter().map(|(code, _)| format!("{code}\n")).collect();
    let body = format!(".pushsection .rodata\n.balign 64\n{tables}\n.popsection\n{code}");
    let Some(found) = of_data(name, &body) else {
        return;
    };
    let mut rest = found.as_slice();
    for (code, expected) in pieces {
        let (own, behind) = rest.split_at(expected.len().min(rest.len()));
        assert_eq!(own, *expected, "{code}");
        rest = behind;
    }
    assert_eq!(rest, []);
}

fn has(what: &str, is: bool) -> bool {
    if !is {
        truecount_testing::skip("x86-64", format!("this CPU has no {what}"));
    }
    is
}

#[test]
fn gathers_and_masks_of_avx() {
    if !has("AVX2", is_x86_feature_detected!("avx2")) {
        return;
    }
    let tables = "
four: .long -1, 3, 1000, 7
fourmask: .long 0x80000000, -1, 0x7fffffff, 0x80000001
quads: .quad 0, 5, 2, 9
spread: .long 10, 20, 30, 40
middle: .quad 0, -1, 0x8000000000000000, 0x7fffffffffffffff
low: .quad 1, 2, 3, 4
ends: .long -1, 0, 0, -1
eight: .long -1, -1, 0, 0, 0, 0x80000000, 0x7fffffff, 0
upper: .quad 1, -1
bytes: .byte 0x80, 0x7f, 0, 0xff, 0x81, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80
";
    are(
        "avx_by_hand",
        tables,
        &[
            (
                "vmovdqu xmm1, [rip+four]\nvmovdqu xmm0, [rip+fourmask]\n\
                 vpgatherdd xmm2, [rbx+xmm1*4+8], xmm0",
                &[(4, 4, 'r'), (20, 4, 'r'), (36, 4, 'r')],
            ),
            (
                "vmovdqu ymm9, [rip+quads]\nvpcmpeqd ymm10, ymm10, ymm10\nmov r8, rbx\n\
                 vgatherqpd ymm2, [r8+ymm9*8], ymm10",
                &[(0, 8, 'r'), (16, 8, 'r'), (40, 8, 'r'), (72, 8, 'r')],
            ),
            // What was gathered left the mask empty.
            ("vgatherqpd ymm2, [r8+ymm9*8], ymm10", &[]),
            (
                "vmovdqu xmm1, [rip+spread]\nvmovdqu ymm0, [rip+middle]\n\
                 vgatherdpd ymm2, [rbx+xmm1*2+100], ymm0",
                &[(140, 8, 'r'), (160, 8, 'r')],
            ),
            (
                "vmovdqu ymm1, [rip+low]\nvmovdqu xmm0, [rip+ends]\n\
                 vgatherqps xmm2, [rbx+ymm1], xmm0",
                &[(1, 4, 'r'), (4, 4, 'r')],
            ),
            // Two addresses of eight bytes, whatever the mask has above.
            (
                "vpcmpeqd xmm0, xmm0, xmm0\nvpgatherqd xmm2, [rbx+xmm1*4], xmm0",
                &[(4, 4, 'r'), (8, 4, 'r')],
            ),
            // No base, 32-bit addresses.
            (
                "vpcmpeqd xmm0, xmm0, xmm0\nvmovdqu xmm1, [rip+spread]\n\
                 vpgatherdd xmm2, [xmm1*8+data], xmm0",
                &[(80, 4, 'r'), (160, 4, 'r'), (240, 4, 'r'), (320, 4, 'r')],
            ),
            (
                "vmovdqu ymm0, [rip+eight]\nvmaskmovps ymm2, ymm0, [rbx+12]",
                &[(12, 4, 'r'), (16, 4, 'r'), (32, 4, 'r')],
            ),
            (
                "vmovdqu xmm12, [rip+upper]\nvpmaskmovq [rbx+64], xmm12, xmm2",
                &[(72, 8, 'w')],
            ),
            (
                "lea rdi, [rbx+200]\nmovdqu xmm9, [rip+bytes]\nmaskmovdqu xmm2, xmm9",
                &[(200, 1, 'w'), (203, 1, 'w'), (204, 1, 'w'), (215, 1, 'w')],
            ),
            (
                "vmaskmovdqu xmm2, xmm9",
                &[(200, 1, 'w'), (203, 1, 'w'), (204, 1, 'w'), (215, 1, 'w')],
            ),
            (
                "movq mm1, [rip+bytes]\nmaskmovq mm2, mm1\nemms",
                &[(200, 1, 'w'), (203, 1, 'w'), (204, 1, 'w')],
            ),
            ("mov rax, [rbx+8]", &[(8, 8, 'r')]),
        ],
    );
}

#[test]
fn gathers_and_masks_of_avx_512() {
    let is = is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vl");
    if !has("AVX-512", is) {
        return;
    }
    let tables = "
threes: .long 0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 33, 36, 39, 42, 45
quads: .quad 0, 1, 2, 3, 4, 5, 6, 7
bits: .quad 0x80000000000000ff
";
    const THREE: u32 = 4;
    let bytes: Vec<(i64, u32, char)> = (1..9).chain([64]).map(|at| (at, 1, 'r')).collect();
    let compared: Vec<(i64, u32, char)> = (0..8).chain([63]).map(|at| (at, 1, 'r')).collect();
    are(
        "avx512_by_hand",
        tables,
        &[
            (
                "mov eax, 0x8005\nkmovw k1, eax\nmov eax, 0x82\nkmovw k2, eax\nkmovq k3, [rip+bits]\n\
                 kxorq k5, k5, k5\nmov eax, 0x100\nkmovw k6, eax\nmov rax, [rbx+8]",
                &[(8, 8, 'r')],
            ),
            (
                "vmovdqu64 zmm17, [rip+threes]\nvpgatherdd zmm16{k1}, [rbx+zmm17*4]",
                &[(0, 4, 'r'), (24, 4, 'r'), (180, 4, 'r')],
            ),
            // The mask is empty now.
            (
                "vpgatherdd zmm16{k1}, [rbx+zmm17*4]\nmov eax, 0x8005\nkmovw k1, eax",
                &[],
            ),
            (
                "vmovdqu64 zmm25, [rip+quads]\nkmovw k4, k2\nvpscatterqq [rbx+zmm25*8+8]{k4}, zmm1",
                &[(16, 8, 'w'), (64, 8, 'w')],
            ),
            // Eight addresses: what the mask has above them is nothing.
            (
                "kmovw k4, k1\nvpgatherdq zmm2{k4}, [rbx+ymm17*1]",
                &[(0, 8, 'r'), (6, 8, 'r')],
            ),
            (
                "kmovw k4, k2\nvscatterqps [rbx+zmm25*4]{k4}, ymm1",
                &[(4, 4, 'w'), (28, 4, 'w')],
            ),
            (
                "kmovw k4, k1\nvgatherdps xmm20{k4}, [rbx+xmm17*8]",
                &[(0, 4, 'r'), (48, 4, 'r')],
            ),
            ("vmovdqu8 zmm1{k3}{z}, [rbx+1]", &bytes),
            (
                "vmovdqu32 [rbx+300]{k1}, zmm1",
                &[(300, THREE, 'w'), (308, THREE, 'w'), (360, THREE, 'w')],
            ),
            ("vmovups ymm1{k1}, [rbx]", &[(0, 4, 'r'), (8, 4, 'r')]),
            ("vmovapd [rbx+64]{k1}, zmm1", &[(64, 8, 'w'), (80, 8, 'w')]),
            ("vpcmpub k4{k3}, zmm1, [rbx], 0", &compared),
            (
                "vpexpandd zmm1{k1}, [rbx+20]",
                &[(20, 4, 'r'), (24, 4, 'r'), (28, 4, 'r')],
            ),
            (
                "vpcompressd [rbx+40]{k1}, zmm1",
                &[(40, 4, 'w'), (44, 4, 'w'), (48, 4, 'w')],
            ),
            ("vcompresspd [rbx+40]{k5}, zmm1", &[]),
            ("vbroadcastss zmm1{k1}, [rbx+52]", &[(52, 4, 'r')]),
            ("vbroadcastss zmm1{k5}{z}, [rbx+52]", &[]),
            ("vpbroadcastq ymm1{k6}, [rbx+52]", &[]),
            ("vpaddd zmm1{k1}, zmm1, [rbx+56]{1to16}", &[(56, 4, 'r')]),
            ("vpaddd xmm1{k6}, xmm1, [rbx+56]{1to4}", &[]),
            ("vmovss xmm1{k1}, [rbx+60]", &[(60, 4, 'r')]),
            ("vmovsd xmm1{k2}, [rbx+60]", &[]),
            ("vaddss xmm1{k1}, xmm1, [rbx+60]", &[(60, 4, 'r')]),
            (
                "vpmovzxbd zmm1{k1}, [rbx+70]",
                &[(70, 1, 'r'), (72, 1, 'r'), (85, 1, 'r')],
            ),
            ("vpmovqb [rbx+90]{k2}, zmm1", &[(91, 1, 'w'), (97, 1, 'w')]),
            (
                "vcvtps2pd zmm1{k2}, [rbx+32]",
                &[(36, 4, 'r'), (60, 4, 'r')],
            ),
            // Without a mask, with compressed displacements.
            ("vmovdqu64 zmm20, [rbx+128]", &[(128, 64, 'r')]),
            ("vmovdqu64 [rbx+65], ymm20", &[(65, 32, 'w')]),
            ("vpaddq zmm1, zmm1, [rbx+8]{1to8}", &[(8, 8, 'r')]),
            (
                "kmovq [rbx+4], k3\nkmovw k4, [rbx+9]",
                &[(4, 8, 'w'), (9, 2, 'r')],
            ),
        ],
    );
}

#[test]
fn x87_stack_and_strings() {
    are(
        "others_by_hand",
        "",
        &[
            (
                "lea rsp, [rbx+4096]\nfld dword ptr [rbx]\nfld qword ptr [rbx+8]\nfld tbyte ptr [rbx+62]",
                &[(0, 4, 'r'), (8, 8, 'r'), (62, 10, 'r')],
            ),
            (
                "fstp tbyte ptr [rbx+16]\nfst dword ptr [rbx+4]\nfbstp [rbx+32]\nfbld [rbx+32]",
                &[(16, 10, 'w'), (4, 4, 'w'), (32, 10, 'w'), (32, 10, 'r')],
            ),
            (
                "fild word ptr [rbx]\nfiadd dword ptr [rbx+2]\nfistp qword ptr [rbx]\nfnstcw [rbx+1]\nfldcw [rbx+1]",
                &[
                    (0, 2, 'r'),
                    (2, 4, 'r'),
                    (0, 8, 'w'),
                    (1, 2, 'w'),
                    (1, 2, 'r'),
                ],
            ),
            (
                "fnstsw [rbx+3]\nfnstenv [rbx+128]\nfldenv [rbx+128]\nfnsave [rbx+256]\nfrstor [rbx+256]",
                &[
                    (3, 2, 'w'),
                    (128, 28, 'w'),
                    (128, 28, 'r'),
                    (256, 108, 'w'),
                    (256, 108, 'r'),
                ],
            ),
            (
                "fxsave [rbx+512]\nfxrstor [rbx+512]\nstmxcsr [rbx]\nldmxcsr [rbx]",
                &[(512, 512, 'w'), (512, 512, 'r'), (0, 4, 'w'), (0, 4, 'r')],
            ),
            (
                "push rax\npush ax\npop ax\npop rax\ncall 1f\njmp 2f\n1: ret\n2:",
                &[
                    (4088, 8, 'w'),
                    (4086, 2, 'w'),
                    (4086, 2, 'r'),
                    (4088, 8, 'r'),
                    (4088, 8, 'w'),
                    (4088, 8, 'r'),
                ],
            ),
            (
                "lea rbp, [rbx+2000]\nenter 16, 2\nleave",
                &[
                    (1992, 8, 'r'),
                    (4072, 8, 'w'),
                    (4080, 8, 'w'),
                    (4088, 8, 'w'),
                    (4088, 8, 'r'),
                ],
            ),
            (
                "lea rsi, [rbx+100]\nlea rdi, [rbx+200]\nmov ecx, 2\nrep movsd",
                &[(100, 4, 'r'), (104, 4, 'r'), (200, 4, 'w'), (204, 4, 'w')],
            ),
            (
                "std\nlea rdi, [rbx+300]\nmov ecx, 3\nrep stosw\ncld",
                &[(296, 2, 'w'), (298, 2, 'w'), (300, 2, 'w')],
            ),
        ],
    );
}

/// Rows of a tile: as many bytes of as many rows as the configuration has.
#[test]
fn tiles() {
    // AMX-TILE
    let is = std::arch::x86_64::__cpuid_count(7, 0).edx >> 24 & 1 != 0;
    if !has("AMX", is) {
        return;
    }
    let body = "
.pushsection .rodata
.balign 64
configuration: .byte 1
.skip 17
.word 32
.skip 29
.byte 3
.skip 14
.popsection
mov edi, 0x1023
mov esi, 18
mov eax, 158
syscall
test eax, eax
jnz 1f
mov al, [rbx+1]
ldtilecfg [rip+configuration]
mov ecx, 100
tileloadd tmm1, [rbx+rcx]
tilestored [rbx+rcx*2+8], tmm1
tilerelease
1:
";
    let Some(found) = of_data("tiles", body) else {
        return;
    };
    if found.is_empty() {
        truecount_testing::skip("x86-64", "the kernel lets nobody use tiles");
        return;
    }
    let expected = [
        (1, 1, 'r'),
        (0, 32, 'r'),
        (100, 32, 'r'),
        (200, 32, 'r'),
        (8, 32, 'w'),
        (208, 32, 'w'),
        (408, 32, 'w'),
    ];
    assert_eq!(found, expected);
}
