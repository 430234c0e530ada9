// SSE, AVX2, AVX-512 (where the CPU has them) and x87, kept across system calls and signals.
#include <immintrin.h>
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

static volatile sig_atomic_t ticks;
__attribute__((target("avx2"))) static void dirty(int sig) {
    (void)sig;
    __m256i v = _mm256_set1_epi8(0x5a);
    __asm__ volatile("vmovdqa %0, %%ymm3\n\tvmovdqa %0, %%ymm12" ::"m"(v) : "xmm3", "xmm12");
    ticks++;
}

__attribute__((target("avx2"))) static uint64_t avx2(void) {
    __m256i a = _mm256_set_epi64x(1, 2, 3, 4), s = _mm256_setzero_si256();
    for (int i = 0; i < 3000000; i++) {
        s = _mm256_add_epi64(s, _mm256_mullo_epi32(a, _mm256_set1_epi32(i)));
        s = _mm256_xor_si256(s, _mm256_srli_epi64(s, 7));
        if (i % 500000 == 0) getppid();
    }
    uint64_t out[4];
    _mm256_storeu_si256((__m256i *)out, s);
    return out[0] ^ out[1] ^ out[2] ^ out[3];
}

__attribute__((target("avx512f,avx512bw,avx512vl"))) static uint64_t avx512(void) {
    __m512i s = _mm512_set1_epi64(0x123456789abcdef), t = _mm512_set_epi64(1, 2, 3, 4, 5, 6, 7, 8);
    __mmask8 k = 0x55;
    for (int i = 0; i < 2000000; i++) {
        s = _mm512_mask_add_epi64(s, k, s, t);
        t = _mm512_ternarylogic_epi64(s, t, _mm512_rolv_epi64(s, t), 0x96);
        k = (__mmask8)(k ^ _mm512_cmplt_epu64_mask(s, t));
        if (i % 500000 == 0) getppid();
    }
    uint64_t out[8], x = k;
    _mm512_storeu_si512(out, s);
    for (int i = 0; i < 8; i++) x ^= out[i];
    return x;
}

static double x87(void) {
    long double s = 0;
    for (int i = 1; i < 200000; i++) {
        s += 1.0L / ((long double)i * i);
        if (i % 50000 == 0) getppid();
    }
    return (double)s;
}

int main(void) {
    signal(SIGALRM, dirty);
    struct itimerval every = {.it_interval = {0, 1000}, .it_value = {0, 1000}};
    if (!__builtin_cpu_supports("avx2")) signal(SIGALRM, SIG_IGN);
    setitimer(ITIMER_REAL, &every, NULL);
    for (int round = 0; round < 5; round++) {
        if (__builtin_cpu_supports("avx2")) printf("avx2 %llx\n", (unsigned long long)avx2());
        if (__builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw")) printf("avx512 %llx\n", (unsigned long long)avx512());
        printf("x87 %.17g sse %.17g\n", x87(), sqrt(2.0 + round));
    }
    return 0;
}
