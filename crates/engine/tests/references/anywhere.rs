//! References at random places: not aligned, of elements that random masks choose, across lines and pages, of the program's
//! and of the shadow, and where they fault.

use super::filtered::{same, same_and};

const ANYWHERE: &str = r#"
#define _GNU_SOURCE
#include <immintrin.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#define SIZE (1ul << 20)
static sigjmp_buf back;
static char *memory;
static volatile unsigned long sum;
static unsigned long seed = 88172645463325252ul;
static unsigned long any(unsigned long below) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed % below;
}
static void faulted(int signal) {
    (void)signal;
    siglongjmp(back, 1);
}
static char *place(void) {
    unsigned long at = any(SIZE - 64);
    switch (any(8)) {
    case 0: at = (at | 32767) - any(80); break;
    case 1: at &= ~63ul; break;
    case 2: at = any(64) * 64 + any(8); break;
    case 3: at = SIZE - any(80); break;
    case 4: at = SIZE / 2 - any(70); break;
    }
    if (any(64) == 0)
        return (char *)(any(2) ? 0x7fffffffffd0ul : 0xffffffffffffffd0ul);
    return memory + at;
}
#ifdef MASKS
__attribute__((target("avx512bw,avx512vl"), noinline)) static void refer(char *at) {
    unsigned long mask = seed, length = any(65);
    switch (any(6)) {
    case 0: break;
    case 1: mask = 0; break;
    default: mask = (length == 64 ? ~0ul : (1ul << length) - 1) << any(64);
    }
    switch (any(10)) {
    case 0: sum += _mm512_reduce_add_epi64(_mm512_maskz_loadu_epi8(mask, at)); break;
    case 1: sum += _mm512_reduce_add_epi64(_mm512_maskz_loadu_epi16(mask, at)); break;
    case 2: sum += _mm512_reduce_add_epi64(_mm512_maskz_loadu_epi32(mask, at)); break;
    case 3: sum += _mm512_reduce_add_epi64(_mm512_maskz_loadu_epi64(mask, at)); break;
    case 4: _mm512_mask_storeu_epi8(at, mask, _mm512_set1_epi8(3)); break;
    case 5: _mm512_mask_storeu_epi16(at, mask, _mm512_set1_epi8(3)); break;
    case 6: _mm512_mask_storeu_epi32(at, mask, _mm512_set1_epi8(3)); break;
    case 7: _mm512_mask_storeu_epi64(at, mask, _mm512_set1_epi8(3)); break;
    case 8: sum += _mm256_extract_epi64(_mm256_maskz_loadu_epi8(mask, at), 1); break;
    case 9: _mm_mask_storeu_epi8(at, mask, _mm_set1_epi8(1)); break;
    }
}
#else

typedef long four __attribute__((vector_size(16), aligned(1)));
__attribute__((noinline)) static void refer(char *at) {
    switch (any(10)) {
    case 0: sum += *(volatile long *)at; break;
    case 1: sum += *(volatile int *)at; break;
    case 2: sum += *(volatile short *)at; break;
    case 3: *(volatile long *)at = 1; break;
    case 4: *(volatile int *)at = 1; break;
    case 5: *(volatile short *)at += 1; break;
    case 6: *(volatile long *)at += 1; break;
    case 7: sum += (*(volatile four *)at)[1]; break;
    case 8: *(volatile four *)at = (four){1, 2}; break;
    case 9: sum += (*(volatile long *)at) + (*(volatile long *)(at + 8)) + *(at + 16); break;
    }
}
#endif
int main(void) {
    struct sigaction action = {.sa_handler = faulted, .sa_flags = SA_NODEFER};
#ifdef MASKS
    if (!__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512vl"))
        return 0;
#endif
    sigaction(SIGSEGV, &action, 0);
    memory = mmap((void *)0x10000000, SIZE + 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    mprotect(memory + SIZE, 4096, 0);
    mprotect(memory + SIZE / 2, 4096, 1);
    for (volatile int time = 0; time < 30000; time++)
        if (sigsetjmp(back, 0) == 0)
            refer(place());
    return 0;
}
"#;

#[test]
fn references() {
    same("anywhere.c", ANYWHERE, &["-O1"], true);
}

#[test]
fn elements() {
    let arguments = ["-O2", "-DMASKS"];
    let counted = same_and("anywhere_masks.c", ANYWHERE, &arguments, true);
    if is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vl") {
        assert!(
            counted.is_none_or(|counted| counted > 10_000),
            "{counted:?}"
        );
    }
}
