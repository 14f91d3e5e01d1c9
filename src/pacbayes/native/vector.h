/* LANES floats at a time: the few functions the engine needs, to float precision.
 * GCC's vector types keep it free of intrinsics, so that one source serves AVX2 and AVX-512. */
#ifndef PACBAYES_VECTOR_H
#define PACBAYES_VECTOR_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#ifdef __AVX512F__
#define LANES 16
#else
#define LANES 8
#endif

typedef float vf __attribute__((vector_size(4 * LANES)));
typedef int32_t vi __attribute__((vector_size(4 * LANES)));
typedef uint32_t vu __attribute__((vector_size(4 * LANES)));
typedef float vf_anywhere __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

static inline vf load(const float *p) { return *(const vf_anywhere *)p; }
static inline void store(float *p, vf x) { *(vf_anywhere *)p = x; }
static inline vf all(float x) { return x - (vf){0}; }
static inline vf choose(vi mask, vf yes, vf no) { return (vf)((mask & (vi)yes) | (~mask & (vi)no)); }
static inline vf least(vf a, vf b) { return choose(a < b, a, b); }
static inline vf most(vf a, vf b) { return choose(a > b, a, b); }
static inline vf magnitude(vf x) { return (vf)((vi)x & 0x7fffffff); }
static inline vf root(vf x) {
#ifdef __AVX512F__
    return (vf)_mm512_sqrt_ps((__m512)x);
#else
    return (vf)_mm256_sqrt_ps((__m256)x);
#endif
}
static inline float sum(vf x) {
    float total = 0;
    for (int i = 0; i < LANES; i++) total += x[i];
    return total;
}

/* e^x, Cephes: range reduction by ln 2 in two parts, a polynomial of degree 6. */
static inline vf exponential(vf x) {
    x = least(most(x, all(-87.3f)), all(88.3f));
    vf n = (x * 1.44269504f + 12582912.0f) - 12582912.0f; /* to the nearest integer */
    x = x - n * 0.693359375f;
    x = x + n * 2.12194440e-4f;
    vf p = 1.9875691500e-4f * x + 1.3981999507e-3f;
    p = p * x + 8.3334519073e-3f;
    p = p * x + 4.1665795894e-2f;
    p = p * x + 1.6666665459e-1f;
    p = p * x + 5.0000001201e-1f;
    p = p * (x * x) + (x + 1.0f);
    return p * (vf)((__builtin_convertvector(n, vi) + 127) << 23);
}

/* ln x for normal x > 0, Cephes. */
static inline vf logarithm(vf x) {
    vi bits = (vi)x;
    vf e = __builtin_convertvector((bits >> 23) - 126, vf);
    vf m = (vf)((bits & 0x007fffff) | 0x3f000000);
    vi small = m < 0.707106781f;
    e = e - choose(small, all(1.0f), all(0.0f));
    m = m + choose(small, m, all(0.0f)) - 1.0f;
    vf p = 7.0376836292e-2f * m - 1.1514610310e-1f;
    p = p * m + 1.1676998740e-1f;
    p = p * m - 1.2420140846e-1f;
    p = p * m + 1.4249322787e-1f;
    p = p * m - 1.6668057665e-1f;
    p = p * m + 2.0000714765e-1f;
    p = p * m - 2.4999993993e-1f;
    p = p * m + 3.3333331174e-1f;
    vf z = m * m, y = p * m * z;
    y = y - e * 2.12194440e-4f;
    y = y - z * 0.5f;
    return e * 0.693359375f + (m + y);
}

/* Mills ratio Φ(−t)/φ(t) for t ≥ 0, relative error below 3·10⁻⁷ however large t is
 * (the Chebyshev form of erfc in Numerical Recipes, without its factor e^{−x²}). */
static inline vf mills(vf t) {
    vf s = 1.0f / (t * 0.35355339f + 1.0f);
    vf p = 0.17087277f * s - 0.82215223f;
    p = p * s + 1.48851587f;
    p = p * s - 1.13520398f;
    p = p * s + 0.27886807f;
    p = p * s - 0.18628806f;
    p = p * s + 0.09678418f;
    p = p * s + 0.37409196f;
    p = p * s + 1.00002368f;
    p = p * s - 1.26551223f;
    return 1.25331414f * s * exponential(p); /* √(π/2)·erfcx(t/√2) */
}

typedef struct {
    vf density; /* φ(u) */
    vf upper;   /* Φ(u) */
    vf plus;    /* score of a = +1: φ(u)/Φ(u) */
    vf minus;   /* score of a = −1: −φ(u)/Φ(−u) */
} normal;

/* Everything about a standard normal at u, without cancellation in either tail. */
static inline normal normal_at(vf u) {
    vf t = magnitude(u), m = mills(t);
    vf density = 0.39894228f * exponential(-0.5f * t * t);
    vf tail = density * m, body = 1.0f - tail;
    vf rare = 1.0f / m, usual = density / body;
    vi positive = u >= 0.0f;
    return (normal){density, choose(positive, body, tail), choose(positive, usual, rare),
                    -choose(positive, rare, usual)};
}

#endif
