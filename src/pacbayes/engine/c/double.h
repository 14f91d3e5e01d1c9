/* WIDE doubles at a time, for evaluations: the same ideas as vector.h, to double precision.
 *
 * Every function works lane by lane and in the same order on every instruction set. */
#ifndef PACBAYES_DOUBLE_H
#define PACBAYES_DOUBLE_H

#include <float.h>

#include "vector.h"

#include "tail.inc" /* coefficients of Φ */

#define WIDE (LANES / 2)

typedef double vd __attribute__((vector_size(8 * WIDE)));
typedef int64_t vl __attribute__((vector_size(8 * WIDE)));
typedef uint64_t vw __attribute__((vector_size(8 * WIDE)));
typedef double vd_anywhere __attribute__((vector_size(8 * WIDE), aligned(8), may_alias));

static inline vd get(const double *from) { return *(const vd_anywhere *)from; }
static inline void set(double *to, vd x) { *(vd_anywhere *)to = x; }
static inline vd all(double x) { return x - (vd){0}; }

/* Comparisons give lanes of zeros or ones, which choose. */
static inline vd either(vl where, vd yes, vd no) {
    return (vd)(((vl)yes & where) | ((vl)no & ~where));
}
#ifdef __aarch64__
static inline vd square_root(vd x) {
    float64x2_t h[2];
    memcpy(h, &x, sizeof h);
    h[0] = vsqrtq_f64(h[0]), h[1] = vsqrtq_f64(h[1]);
    memcpy(&x, h, sizeof h);
    return x;
}
static inline vd at_most(vd a, vd b) { return either(a < b, a, b); }
static inline vd at_least(vd a, vd b) { return either(a > b, a, b); }
static inline vw times_low(vw a, vw b) { return (a & UINT32_MAX) * (b & UINT32_MAX); }
static inline vd entry(const double *table, vl index) {
    vd found;
    for (int lane = 0; lane < WIDE; lane++) found[lane] = table[index[lane] & 15];
    return found;
}
static inline int any(vl where) { return (where[0] | where[1] | where[2] | where[3]) != 0; }
static inline int any_nonzero(vd a, vd b) { return any((a != 0.0) | (b != 0.0)); }
static inline int any_less(vd a, vd b) { return any(a < b); }
#elif defined(__AVX512F__)
static inline vd square_root(vd x) { return (vd)_mm512_sqrt_pd((__m512d)x); }
static inline vd at_most(vd a, vd b) { return (vd)_mm512_min_pd((__m512d)a, (__m512d)b); }
static inline vd at_least(vd a, vd b) { return (vd)_mm512_max_pd((__m512d)a, (__m512d)b); }
static inline vw times_low(vw a, vw b) { return (vw)_mm512_mul_epu32((__m512i)a, (__m512i)b); }
/* table[index], where 16 entries are two registers and only the low four bits count. */
static inline vd entry(const double *table, vl index) {
    return (vd)_mm512_permutex2var_pd(_mm512_load_pd(table), (__m512i)index,
                                      _mm512_load_pd(table + 8));
}
static inline int any_less(vd a, vd b) {
    return _mm512_cmp_pd_mask((__m512d)a, (__m512d)b, _CMP_LT_OQ) != 0;
}
static inline int any_nonzero(vd a, vd b) {
    return (_mm512_cmp_pd_mask((__m512d)a, _mm512_setzero_pd(), _CMP_NEQ_UQ) |
            _mm512_cmp_pd_mask((__m512d)b, _mm512_setzero_pd(), _CMP_NEQ_UQ)) != 0;
}
#else
static inline vd square_root(vd x) { return (vd)_mm256_sqrt_pd((__m256d)x); }
static inline vd at_most(vd a, vd b) { return (vd)_mm256_min_pd((__m256d)a, (__m256d)b); }
static inline vd at_least(vd a, vd b) { return (vd)_mm256_max_pd((__m256d)a, (__m256d)b); }
static inline vw times_low(vw a, vw b) { return (vw)_mm256_mul_epu32((__m256i)a, (__m256i)b); }
static inline vd entry(const double *table, vl index) {
    return (vd)_mm256_i64gather_pd(table, (__m256i)(index & 15), 8);
}
static inline int any_nonzero(vd a, vd b) {
    return _mm256_movemask_pd((__m256d)((a != 0.0) | (b != 0.0))) != 0;
}
static inline int any_less(vd a, vd b) { return _mm256_movemask_pd((__m256d)(a < b)) != 0; }
#endif

/* A vector of LANES floats has the rows of two of doubles. */
#ifdef __AVX512F__
static inline mask both(vl one, vl two) {
    unsigned high = _mm512_movepi64_mask((__m512i)two);
    return (mask)(_mm512_movepi64_mask((__m512i)one) | high << 8);
}
#else
static inline mask both(vl one, vl two) {
    return (mask)shuffled((vf)one, (vf)two, (vi){0, 2, 4, 6, 8, 10, 12, 14});
}
#endif
/* The upper half of every word. */
INLINE vi top_halves(vw one, vw two) {
    vi from = {0};
    for (int lane = 0; lane < LANES; lane++) from[lane] = 2 * lane + 1;
    return (vi)shuffled((vf)one, (vf)two, from);
}
typedef int32_t half __attribute__((vector_size(4 * WIDE)));
static inline vl low_half(vi x) {
    half h;
    memcpy(&h, &x, sizeof h);
    return __builtin_convertvector(h, vl);
}
static inline vl high_half(vi x) {
    half h;
    memcpy(&h, (const char *)&x + sizeof h, sizeof h);
    return __builtin_convertvector(h, vl);
}

/* Of two numbers of which the second is not a number, at_most and at_least return the second: what
 * is not a number must show in the output. */
static inline vd absolute(vd x) { return (vd)((vl)x & INT64_MAX); }

#define ROUNDING 6755399441055744.0 /* 1.5·2⁵²: adding it leaves an integer in the low bits */

/* Φ(u) for V vectors, to an absolute 2·10⁻¹⁶. Coefficients are looked up by interval. */
INLINE void cumulatives(const int V, const vd *u, vd *out) {
    vl index[V];
    vd s[V], tail[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; v++) {
        vd t = at_most(all(15.49 * TAIL_WIDTH), absolute(u[v])) * (1 / TAIL_WIDTH);
        vd shifted = t + ROUNDING;
        index[v] = (vl)shifted;
        s[v] = t - (shifted - ROUNDING);
        tail[v] = entry(TAIL[0], index[v]);
    }
#pragma GCC unroll 13
    for (int term = 1; term < TAIL_TERMS; term++)
#pragma GCC unroll 8
        for (int v = 0; v < V; v++) tail[v] = tail[v] * s[v] + entry(TAIL[term], index[v]);
#pragma GCC unroll 8
    for (int v = 0; v < V; v++) out[v] = either(u[v] > 0, 1.0 - tail[v], tail[v]);
}

#define NEAR 4             /* points that share a look-up */
#define NEAR_STEP_MOST 0.2 /* apart: 1.5 steps and half an interval are within BROAD intervals */

/* Φ(u + v·step) for v < NEAR and steps in [0, NEAR_STEP_MOST], to an absolute 7·10⁻¹⁶: with the
 * sign of the centre taken into the last term, c₀ + s·q(s) or (1 − c₀) − s·q(s). */
INLINE void near_cumulatives(vd u, vd step, vd *out) {
    vd centre = u + (0.5 * (NEAR - 1)) * step, s[NEAR], q[NEAR];
    vd t = at_most(all(15.49 * TAIL_WIDTH), absolute(centre)) * (1 / TAIL_WIDTH);
    vd shifted = t + ROUNDING, rest = t - (shifted - ROUNDING);
    vl index = (vl)shifted, minus = (vl)centre & INT64_MIN, plus = minus ^ INT64_MIN;
    vd down = step * (-1 / TAIL_WIDTH), away = (vd)((vl)down ^ plus);
    vd first = entry(BROAD_TAIL[0], index), second = entry(BROAD_TAIL[1], index);
#pragma GCC unroll 4
    for (int v = 0; v < NEAR; v++) {
        s[v] = rest + (v - 0.5 * (NEAR - 1)) * away;
        q[v] = first * s[v] + second;
    }
#pragma GCC unroll 16
    for (int term = 2; term < BROAD_TERMS - 1; term++) {
        vd coefficient = entry(BROAD_TAIL[term], index);
#pragma GCC unroll 4
        for (int v = 0; v < NEAR; v++) q[v] = q[v] * s[v] + coefficient;
    }
    vd constant = entry(BROAD_TAIL[BROAD_TERMS - 1], index);
    constant = either(centre > 0, 1.0 - constant, constant);
    rest = (vd)((vl)rest ^ plus);
#pragma GCC unroll 4
    for (int v = 0; v < NEAR; v++)
        out[v] = q[v] * (rest + (v - 0.5 * (NEAR - 1)) * down) + constant;
}

/* e^x: x = n·ln 2 + r and Taylor's polynomial of degree 13; constant beyond ±700. */
static inline vd power_of_e(vd x) {
    x = at_most(all(700.0), at_least(all(-700.0), x));
    vd shifted = x * 1.4426950408889634 + ROUNDING, n = shifted - ROUNDING;
    vd r = x - n * 6.93147180369123816490e-01;
    r = r - n * 1.90821492927058770002e-10;
    vd p = all(1 / 6227020800.0);
    static const double inverse_factorials[] = {1 / 479001600.0,
                                                1 / 39916800.0,
                                                1 / 3628800.0,
                                                1 / 362880.0,
                                                1 / 40320.0,
                                                1 / 5040.0,
                                                1 / 720.0,
                                                1 / 120.0,
                                                1 / 24.0,
                                                1 / 6.0,
                                                0.5,
                                                1.0,
                                                1.0};
#pragma GCC unroll 13
    for (int k = 0; k < 13; k++) p = p * r + inverse_factorials[k];
    return (vd)((vl)p + ((vl)shifted << 52));
}

/* −2·ln x for normal x > 0, and for x in [2⁻⁵³, 1) to a relative 2⁻⁵²: x = 2ⁿ·(1 + f) with 1 + f in
 * [√½, √2), and ln(1 + f) as in fdlibm, from s = f/(2 + f). */
static inline vd minus_twice_log(vd x) {
    vl raw = (vl)x - 0x3fe6a09e667f3bcd; /* subtract the bits of √½ */
    vl exponent = raw >> 52;
    vd n = (vd)(exponent + (vl)all(ROUNDING)) - ROUNDING;
    vd f = (vd)((raw & 0x000fffffffffffff) + 0x3fe6a09e667f3bcd) - 1.0;
    vd s = f / (2.0 + f), z = s * s, half = 0.5 * f * f;
    vd p = 1.479819860511658591e-01 * z + 1.531383769920937332e-01;
    p = p * z + 1.818357216161805012e-01;
    p = p * z + 2.222219843214978396e-01;
    p = p * z + 2.857142874366239149e-01;
    p = p * z + 3.999999999940941908e-01;
    p = p * z + 6.666666666666735130e-01;
    vd low = s * (half + p * z) + n * 1.90821492927058770002e-10;
    return -2.0 * (n * 6.93147180369123816490e-01 - ((half - low) - f));
}

/* cos and sin of 2πv for v in [0, 1): whole quarters are exact, the rest is within ±π/4. */
static inline void turn(vd v, vd *cosine, vd *sine) {
    vd shifted = 4.0 * v + ROUNDING;
    vd x = (4.0 * v - (shifted - ROUNDING)) * 1.5707963267948966, z = x * x;
    vd s = 1.58969099521155010221e-10 * z - 2.50507602534068634195e-08;
    s = s * z + 2.75573137070700676789e-06;
    s = s * z - 1.98412698298579493134e-04;
    s = s * z + 8.33333333332248946124e-03;
    s = s * z - 1.66666666666666324348e-01;
    s = s * z * x + x;
    vd c = -1.13596475577881948265e-11 * z + 2.08757232129817482790e-09;
    c = c * z - 2.75573143513906633035e-07;
    c = c * z + 2.48015872894767294178e-05;
    c = c * z - 1.38888888888741095749e-03;
    c = c * z + 4.16666666666666019037e-02;
    c = c * z * z + (1.0 - 0.5 * z);
    vl quarter = (vl)shifted, swap = -(quarter & 1);
    vl minus_cosine = ((quarter + 1) & 2) << 62, minus_sine = (quarter & 2) << 62;
    *cosine = (vd)((vl)either(swap, s, c) ^ minus_cosine);
    *sine = (vd)((vl)either(swap, c, s) ^ minus_sine);
}

#endif
