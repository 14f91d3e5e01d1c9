/* LANES floats at a time: the few functions the engine needs, to float precision.
 *
 * The compiler's vector types do the arithmetic, so one source serves AVX2, AVX-512 and NEON, and
 * builds with gcc and clang. Intrinsics stand only where instruction sets or compilers differ. On
 * NEON a vector is two registers, so that it draws the same numbers as AVX2. */
#ifndef PACBAYES_VECTOR_H
#define PACBAYES_VECTOR_H

#ifdef __aarch64__
#include <arm_neon.h>
#else
#include <immintrin.h>
#endif
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __AVX512F__
#define LANES 16
#define LANE_BITS 4
#else
#define LANES 8
#define LANE_BITS 3
#endif

#define INLINE static inline __attribute__((always_inline))

/* Counts and positions are signed, so that an int converts to one without changing its value. */
typedef ptrdiff_t offset;
#define CLEAR(to, count) memset(to, 0, (size_t)(count) * sizeof *(to))
#define COPY(to, from, count) memcpy(to, from, (size_t)(count) * sizeof *(to))
static inline int least(int a, int b) { return a < b ? a : b; }
static inline int most(int a, int b) { return a > b ? a : b; }

typedef float vf __attribute__((vector_size(4 * LANES)));
typedef int32_t vi __attribute__((vector_size(4 * LANES)));
typedef uint32_t vu __attribute__((vector_size(4 * LANES)));
/* The same in memory, where nothing is known about alignment. */
typedef float vf_anywhere __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef uint16_t vh_anywhere __attribute__((vector_size(2 * LANES), aligned(2), may_alias));

static inline vf load(const float *from) { return *(const vf_anywhere *)from; }
static inline void store(float *to, vf x) { *(vf_anywhere *)to = x; }
static inline vi load_words(const uint16_t *from) {
    return __builtin_convertvector(*(const vh_anywhere *)from, vi);
}
/* The first `count` floats; other lanes are zero, and are not touched when stored. */
static inline vf load_some(const float *from, offset count) {
    if (count >= LANES) return load(from);
#ifdef __AVX512F__
    return (vf)_mm512_maskz_loadu_ps((__mmask16)((1u << count) - 1), from);
#else
    vf x = {0};
    memcpy(&x, from, (size_t)count * sizeof(float));
    return x;
#endif
}
static inline void store_some(float *to, offset count, vf x) {
    if (count >= LANES) store(to, x);
    else memcpy(to, &x, (size_t)count * sizeof(float));
}
static inline vf splat(float x) { return x - (vf){0}; }
static inline vi splat_int(int32_t x) { return x - (vi){0}; }

/* A mask says in which lanes a comparison holds: bits on AVX-512, a vector on AVX2. */
#ifdef __AVX512F__
typedef __mmask16 mask;
static inline mask less(vf a, vf b) { return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_LT_OQ); }
static inline mask less_int(vi a, vi b) { return _mm512_cmplt_epi32_mask((__m512i)a, (__m512i)b); }
static inline mask equal(vf a, vf b) {
    return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_EQ_OQ);
}
static inline mask differ(mask a, mask b) { return (mask)(a ^ b); }
static inline uint16_t bits_of(mask m) { return m; }
static inline mask mask_of(uint16_t bits) { return bits; }
static inline vf choose(mask m, vf yes, vf no) {
    return (vf)_mm512_mask_mov_ps((__m512)no, m, (__m512)yes);
}
static inline vi keep(mask m, int32_t x) { return (vi)_mm512_maskz_set1_epi32(m, x); }
static inline vf smaller(vf a, vf b) { return (vf)_mm512_min_ps((__m512)a, (__m512)b); }
static inline vf larger(vf a, vf b) { return (vf)_mm512_max_ps((__m512)a, (__m512)b); }
static inline vi truncated(vf x) { return (vi)_mm512_cvttps_epi32((__m512)x); }
static inline vf guess_inverse(vf x) { return (vf)_mm512_rcp14_ps((__m512)x); }
static inline vf guess_inverse_root(vf x) { return (vf)_mm512_rsqrt14_ps((__m512)x); }
static inline vf root(vf x) { return (vf)_mm512_sqrt_ps((__m512)x); }
static inline float sum(vf x) { return _mm512_reduce_add_ps((__m512)x); }
#else
typedef vi mask;
static inline mask less(vf a, vf b) { return a < b; }
static inline mask less_int(vi a, vi b) { return a < b; }
static inline mask equal(vf a, vf b) { return a == b; }
static inline mask differ(mask a, mask b) { return a ^ b; }
static inline vi keep(mask m, int32_t x) { return m & x; }
static inline mask mask_of(uint16_t bits) {
    const vi each = {1, 2, 4, 8, 16, 32, 64, 128};
    return (splat_int(bits) & each) == each;
}
static inline float sum(vf x) {
    return ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]));
}
#endif

#ifdef __aarch64__
typedef struct {
    float32x4_t low, high;
} halves;
static inline halves split(vf x) {
    halves h;
    memcpy(&h, &x, sizeof h);
    return h;
}
static inline vf joined(float32x4_t low, float32x4_t high) {
    halves h = {low, high};
    vf x;
    memcpy(&x, &h, sizeof x);
    return x;
}
static inline uint16_t bits_of(mask m) {
    const vi each = {1, 2, 4, 8, 16, 32, 64, 128};
    vi bits = m & each;
    uint32x4_t low, high;
    memcpy(&low, &bits, sizeof low);
    memcpy(&high, (const char *)&bits + sizeof low, sizeof high);
    return (uint16_t)vaddvq_u32(vorrq_u32(low, high));
}
static inline vf choose(mask m, vf yes, vf no) { return (vf)((m & (vi)yes) | (~m & (vi)no)); }
static inline vf smaller(vf a, vf b) { return choose(a < b, a, b); }
static inline vf larger(vf a, vf b) { return choose(a > b, a, b); }
static inline vi truncated(vf x) { return __builtin_convertvector(x, vi); }
static inline vf guess_inverse(vf x) { return 1.0f / x; }
static inline vf root(vf x) { return joined(vsqrtq_f32(split(x).low), vsqrtq_f32(split(x).high)); }
static inline vf guess_inverse_root(vf x) { return 1.0f / root(x); }
#elif !defined(__AVX512F__)
static inline uint16_t bits_of(mask m) { return (uint16_t)_mm256_movemask_ps((__m256)m); }
static inline vf choose(mask m, vf yes, vf no) {
    return (vf)_mm256_blendv_ps((__m256)no, (__m256)yes, (__m256)m);
}
static inline vf smaller(vf a, vf b) { return (vf)_mm256_min_ps((__m256)a, (__m256)b); }
static inline vf larger(vf a, vf b) { return (vf)_mm256_max_ps((__m256)a, (__m256)b); }
static inline vi truncated(vf x) { return (vi)_mm256_cvttps_epi32((__m256)x); }
static inline vf guess_inverse(vf x) { return (vf)_mm256_rcp_ps((__m256)x); }
static inline vf guess_inverse_root(vf x) { return (vf)_mm256_rsqrt_ps((__m256)x); }
static inline vf root(vf x) { return (vf)_mm256_sqrt_ps((__m256)x); }
#endif

/* Lane i of the result is lane from[i] of a followed by b. Every `from` here is a constant, which
 * lets the compiler choose the cheapest instruction. */
#if !defined(__clang__)
INLINE vf shuffled(vf a, vf b, vi from) { return __builtin_shuffle(a, b, from); }
#elif defined(__aarch64__)
INLINE vf shuffled(vf a, vf b, vi from) {
    vf out;
    for (int i = 0; i < LANES; i++) out[i] = from[i] < LANES ? a[from[i]] : b[from[i] - LANES];
    return out;
}
#elif defined(__AVX512F__)
INLINE vf shuffled(vf a, vf b, vi from) {
    return (vf)_mm512_permutex2var_ps((__m512)a, (__m512i)from, (__m512)b);
}
#else
INLINE vf shuffled(vf a, vf b, vi from) {
    vf of_a = (vf)_mm256_permutevar8x32_ps((__m256)a, (__m256i)from);
    vf of_b = (vf)_mm256_permutevar8x32_ps((__m256)b, (__m256i)from);
    return choose(less_int(from, splat_int(LANES)), of_a, of_b);
}
#endif

static inline vf magnitude(vf x) { return (vf)((vi)x & 0x7fffffff); }
static inline vf negated(mask m, vf x) { return (vf)((vi)x ^ keep(m, INT32_MIN)); }

/* 1/x and 1/√x for x in the middle of the range: the processor's guess and one Newton step. */
static inline vf inverse(vf x) {
    vf guess = guess_inverse(x);
    return guess + guess * (1.0f - x * guess);
}
static inline vf inverse_root(vf x) {
    vf guess = guess_inverse_root(x);
    return guess + guess * (0.5f - 0.5f * x * guess * guess);
}

/* e^x for |x| ≤ 87: x = n·ln 2 + r, a polynomial p of degree 6 in r (Cephes), and n added to the
 * exponent. Adding 1.5·2²³ rounds to an integer and leaves it in the low bits. */
static inline vf exponential_within(vf x) {
    vf shifted = x * 1.44269504f + 12582912.0f;
    vf n = shifted - 12582912.0f;
    vf r = x - n * 0.693145751953125f;
    r = r - n * 1.42860677e-6f;
    vf p = 1.9875691500e-4f * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + (r + 1.0f);
    return (vf)((vi)p + ((vi)shifted << 23));
}

/* e^x, constant beyond the range of floats. */
static inline vf exponential(vf x) {
    return exponential_within(smaller(splat(88.0f), larger(splat(-87.0f), x)));
}

/* 2^x for |x| ≤ 120 by a polynomial of degree 5. */
static inline vf power_of_two(vf x) {
    vf shifted = x + 12582912.0f, r = x - (shifted - 12582912.0f);
    vf p = 1.327647129e-3f * r + 9.675540961e-3f;
    p = p * r + 5.550713092e-2f;
    p = p * r + 2.402212024e-1f;
    p = p * r + 6.931469440e-1f;
    p = p * r + 1.000000119f;
    return (vf)((vi)p + ((vi)shifted << 23));
}

/* −2·ln x for normal x > 0, to a relative 2·10⁻⁷: x = 2ⁿ·(1 + r), r in [−1/4, 1/2). */
static inline vf minus_two_log(vf x) {
    vi raw = (vi)x - 0x3f400000; /* subtract the bits of 3/4 */
    vf n = __builtin_convertvector(raw >> 23, vf);
    vf r = (vf)((raw & 0x007fffff) + 0x3f400000) - 1.0f;
    vf p = 0.1329209208f * r - 0.2826370597f;
    p = p * r + 0.3474444151f;
    p = p * r - 0.4021607041f;
    p = p * r + 0.4995358288f;
    p = p * r - 0.6665952802f;
    p = p * r + 1.0000042915f;
    p = p * r - 2.0000002384f;
    return n * -1.3862943611f + p * r;
}

typedef struct {
    vf density; /* φ(u) */
    vf tail;    /* Φ(−|u|) */
} normal;

/* The standard normal at u, its tail to a relative 4·10⁻⁷; constant beyond 7, where the tail is
 * below half of 2⁻³². The tail is φ(t)·m(t), where m(t), the Mills ratio, is s·p(s) at
 * s = 1/(1 + 0.29t); p has degree 7 and the smallest relative error on [0, 7]. */
static inline normal normal_at(vf u) {
    vf t = smaller(splat(7.0f), magnitude(u)), s = inverse(t * 0.29f + 1.0f);
    vf p = 0.09727503f * s - 0.47594798f;
    p = p * s + 0.74929106f;
    p = p * s - 0.35442436f;
    p = p * s + 0.44499695f;
    p = p * s + 0.20322898f;
    p = p * s + 0.29951760f;
    p = p * s + 0.28937683f;
    vf density = 0.39894228f * power_of_two(t * t * -0.72134752f);
    return (normal){density, density * (p * s)};
}

/* erf(u/√2) = 2Φ(u) − 1. */
static inline vf error_function(vf u) {
    return negated(less(u, splat(0.0f)), 1.0f - 2.0f * normal_at(u).tail);
}

/* One of the log₂ LANES stages of a transposition: exchange off-diagonal squares of `side`. */
INLINE void exchange(vf *v, const int side) {
    vi lane = {0};
    for (int i = 0; i < LANES; i++) lane[i] = i;
    const vi low = lane + (((lane & side) != 0) & (LANES - side)), high = low + side;
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++)
        if (!(i & side)) {
            vf a = v[i], b = v[i + side];
            v[i] = shuffled(a, b, low);
            v[i + side] = shuffled(a, b, high);
        }
}

/* Transpose a square of LANES × LANES in registers. */
static inline void transpose_square(const float *in, offset in_stride, float *out,
                                    offset out_stride) {
    vf v[LANES];
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++) v[i] = load(in + i * in_stride);
    if (LANES == 16) exchange(v, 8);
    exchange(v, 4);
    exchange(v, 2);
    exchange(v, 1);
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++) store(out + i * out_stride, v[i]);
}

#endif
