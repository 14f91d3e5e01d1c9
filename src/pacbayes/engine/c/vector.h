/* LANES floats at a time: the few functions the engine needs, to float precision.
 * GCC's vector types do the arithmetic, so that one source serves AVX2 and AVX-512; intrinsics
 * stand only here, where the two differ. */
#ifndef PACBAYES_VECTOR_H
#define PACBAYES_VECTOR_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#ifdef __AVX512F__
#define LANES 16
#define LANE_BITS 4
#else
#define LANES 8
#define LANE_BITS 3
#endif

typedef float vf __attribute__((vector_size(4 * LANES)));
typedef int32_t vi __attribute__((vector_size(4 * LANES)));
typedef uint32_t vu __attribute__((vector_size(4 * LANES)));
typedef float vf_anywhere __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

static inline vf load(const float *p) { return *(const vf_anywhere *)p; }
static inline void store(float *p, vf x) { *(vf_anywhere *)p = x; }
/* The first n ≤ LANES floats; the other lanes are zero, and left alone when stored. */
static inline vf some(const float *p, size_t n) {
    if (n >= LANES) return load(p);
#ifdef __AVX512F__
    return (vf)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
#else
    vf x = {0};
    memcpy(&x, p, n * sizeof(float));
    return x;
#endif
}
static inline void store_some(float *p, size_t n, vf x) {
    if (n >= LANES) store(p, x);
    else memcpy(p, &x, n * sizeof(float));
}
static inline vf all(float x) { return x - (vf){0}; }

/* Where a comparison held: a register of bits on AVX-512, a vector on AVX2. */
#ifdef __AVX512F__
typedef __mmask16 where;
static inline where below(vf a, vf b) { return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_LT_OQ); }
static inline where less(vi a, vi b) { return _mm512_cmplt_epi32_mask((__m512i)a, (__m512i)b); }
static inline where equal(vf a, vf b) { return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_EQ_OQ); }
static inline where either(where a, where b) { return (where)(a ^ b); }
static inline uint32_t bits(where m) { return m; }
static inline where from_bits(uint32_t b) { return (where)b; }
static inline vf choose(where m, vf yes, vf no) {
    return (vf)_mm512_mask_mov_ps((__m512)no, m, (__m512)yes);
}
static inline vi keep(where m, int32_t x) { return (vi)_mm512_maskz_set1_epi32(m, x); }
static inline vf least(vf a, vf b) { return (vf)_mm512_min_ps((__m512)a, (__m512)b); }
static inline vf most(vf a, vf b) { return (vf)_mm512_max_ps((__m512)a, (__m512)b); }
static inline vi integers(vf x) { return (vi)_mm512_cvttps_epi32((__m512)x); }
static inline vf guess_inverse(vf x) { return (vf)_mm512_rcp14_ps((__m512)x); }
static inline vf guess_inverse_root(vf x) { return (vf)_mm512_rsqrt14_ps((__m512)x); }
static inline vf root(vf x) { return (vf)_mm512_sqrt_ps((__m512)x); }
static inline float sum(vf x) { return _mm512_reduce_add_ps((__m512)x); }
#else
typedef vi where;
static inline where below(vf a, vf b) { return a < b; }
static inline where less(vi a, vi b) { return a < b; }
static inline where equal(vf a, vf b) { return a == b; }
static inline where either(where a, where b) { return a ^ b; }
static inline uint32_t bits(where m) { return (uint32_t)_mm256_movemask_ps((__m256)m); }
static inline where from_bits(uint32_t b) {
    const vi bit = {1, 2, 4, 8, 16, 32, 64, 128};
    return (((vi){0} + (int32_t)b) & bit) == bit;
}
static inline vf choose(where m, vf yes, vf no) {
    return (vf)_mm256_blendv_ps((__m256)no, (__m256)yes, (__m256)m);
}
static inline vi keep(where m, int32_t x) { return m & x; }
static inline vf least(vf a, vf b) { return (vf)_mm256_min_ps((__m256)a, (__m256)b); }
static inline vf most(vf a, vf b) { return (vf)_mm256_max_ps((__m256)a, (__m256)b); }
static inline vi integers(vf x) { return (vi)_mm256_cvttps_epi32((__m256)x); }
static inline vf guess_inverse(vf x) { return (vf)_mm256_rcp_ps((__m256)x); }
static inline vf guess_inverse_root(vf x) { return (vf)_mm256_rsqrt_ps((__m256)x); }
static inline vf root(vf x) { return (vf)_mm256_sqrt_ps((__m256)x); }
static inline float sum(vf x) {
    return ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]));
}
#endif

static inline vf magnitude(vf x) { return (vf)((vi)x & 0x7fffffff); }
static inline vf negated(where m, vf x) { return (vf)((vi)x ^ keep(m, INT32_MIN)); }

/* 1/x and 1/√x for x in the middle of the range: the processor's guess and a step of Newton's. */
static inline vf inverse(vf x) {
    vf r = guess_inverse(x);
    return r + r * (1.0f - x * r);
}
static inline vf inverse_root(vf x) {
    vf r = guess_inverse_root(x);
    return r + r * (0.5f - 0.5f * x * r * r);
}

/* e^x for |x| ≤ 87: x = n·ln 2 + r, a polynomial of degree 6 in r (Cephes), n into the exponent. */
static inline vf exponential_within(vf x) {
    vf shifted = x * 1.44269504f + 12582912.0f; /* its low bits are n, rounded to nearest */
    vf n = shifted - 12582912.0f;
    x = x - n * 0.693145751953125f;
    x = x - n * 1.42860677e-6f;
    vf p = 1.9875691500e-4f * x + 1.3981999507e-3f;
    p = p * x + 8.3334519073e-3f;
    p = p * x + 4.1665795894e-2f;
    p = p * x + 1.6666665459e-1f;
    p = p * x + 5.0000001201e-1f;
    p = p * (x * x) + (x + 1.0f);
    return (vf)((vi)p + ((vi)shifted << 23));
}

/* e^x, flat beyond the range of floats. */
static inline vf exponential(vf x) {
    return exponential_within(least(all(88.0f), most(all(-87.0f), x)));
}

/* 2^y for |y| ≤ 120, y rounded to a float as it is: a polynomial of degree 5. */
static inline vf power_of_two(vf y) {
    vf shifted = y + 12582912.0f, r = y - (shifted - 12582912.0f);
    vf p = 1.327647129e-3f * r + 9.675540961e-3f;
    p = p * r + 5.550713092e-2f;
    p = p * r + 2.402212024e-1f;
    p = p * r + 6.931469440e-1f;
    p = p * r + 1.000000119f;
    return (vf)((vi)p + ((vi)shifted << 23));
}

/* −2·ln x for normal x > 0, to a relative 2·10⁻⁷: x = 2ⁿ·(1 + f), f in [−1/4, 1/2). */
static inline vf minus_two_log(vf x) {
    vi raw = (vi)x - 0x3f400000; /* less the bits of 3/4 */
    vf n = __builtin_convertvector(raw >> 23, vf);
    vf f = (vf)((raw & 0x007fffff) + 0x3f400000) - 1.0f;
    vf p = 0.1329209208f * f - 0.2826370597f;
    p = p * f + 0.3474444151f;
    p = p * f - 0.4021607041f;
    p = p * f + 0.4995358288f;
    p = p * f - 0.6665952802f;
    p = p * f + 1.0000042915f;
    p = p * f - 2.0000002384f;
    return n * -1.3862943611f + p * f;
}

typedef struct {
    vf density; /* φ(u) */
    vf tail;    /* Φ(−|u|) */
} normal;

/* The standard normal at u, its tail to a relative 4·10⁻⁷; flat beyond 7, where the tail is below
 * half of 2⁻³². The tail is φ·m: m(t), Mills' ratio, is s·P(s) at s = 1/(1 + 0.29t), P of degree 7
 * fitted to the least relative error on [0, 7]. */
static inline normal normal_at(vf u) {
    vf t = least(all(7.0f), magnitude(u)), s = inverse(t * 0.29f + 1.0f);
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
    return negated(below(u, all(0.0f)), 1.0f - 2.0f * normal_at(u).tail);
}

/* One of the log₂ LANES stages of a transposition: exchange off-diagonal blocks of side H. */
static inline __attribute__((always_inline)) void exchange(vf *v, const int H) {
    vi lane = {0};
    for (int i = 0; i < LANES; i++) lane[i] = i;
    const vi low = lane + (((lane & H) != 0) & (LANES - H)), high = low + H;
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++)
        if (!(i & H)) {
            vf a = v[i], b = v[i + H];
            v[i] = __builtin_shuffle(a, b, low);
            v[i + H] = __builtin_shuffle(a, b, high);
        }
}

/* A block of LANES×LANES, transposed in registers. */
static inline void transpose_block(const float *in, long from, float *out, long to) {
    vf v[LANES];
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++) v[i] = load(in + i * from);
    if (LANES == 16) exchange(v, 8);
    exchange(v, 4);
    exchange(v, 2);
    exchange(v, 1);
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++) store(out + i * to, v[i]);
}

/* out (columns, rows) = in (rows, columns) transposed; both are multiples of LANES. */
static void transpose(int rows, int columns, const float *in, long from, float *out, long to) {
    for (int r = 0; r < rows; r += LANES)
        for (int c = 0; c < columns; c += LANES)
            transpose_block(in + r * from + c, from, out + c * to + r, to);
}

#endif
