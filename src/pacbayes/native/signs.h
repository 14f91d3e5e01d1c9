/* Products with activations that are ±1, by table look-up: a few of them index a table of all
 * their signed sums, which one permutation of a register reads for LANES rows at once. */
#ifndef PACBAYES_SIGNS_H
#define PACBAYES_SIGNS_H

#include "products.h"

#ifdef __AVX512F__
#define UNITS 5 /* units below index a table going forward: 32 sums in two registers */
#define SIDE 4  /* rows index a table of the gradient: 16 sums in one register */
static inline vf look_up(vf table, vi index) {
    return (vf)_mm512_permutexvar_ps((__m512i)index, (__m512)table);
}
static inline vf look_up_units(const float *table, vi index) {
    return (vf)_mm512_permutex2var_ps(_mm512_loadu_ps(table), (__m512i)index,
                                      _mm512_loadu_ps(table + LANES));
}
#else
#define UNITS 3
#define SIDE 3
static inline vf look_up(vf table, vi index) {
    return (vf)_mm256_permutevar8x32_ps((__m256)table, (__m256i)index);
}
static inline vf look_up_units(const float *table, vi index) { return look_up(load(table), index); }
#endif

#define ENTRIES (1 << UNITS)
#define SLICES ((LANES + SIDE - 1) / SIDE) /* tables for LANES rows of the gradient */
#define MOST 8                             /* accumulators of a tile */

static inline int unit_groups(int units) { return (units + UNITS - 1) / UNITS; }

/* ±1 by bit i of the numbers from `first` on. */
static inline vf bit_signs(int first, int i) {
    vf s;
    for (int lane = 0; lane < LANES; lane++) s[lane] = (first + lane) >> i & 1 ? 1.0f : -1.0f;
    return s;
}

/* Tables of factor·w for one unit above: (groups, ENTRIES). */
static void build_tables(int in, const float *w, float factor, float *table) {
    for (int k = 0; k < in; k += UNITS, table += ENTRIES)
#pragma GCC unroll 2
        for (int v = 0; v < ENTRIES; v += LANES) {
            vf t = all(0.0f);
#pragma GCC unroll 5
            for (int i = 0; i < UNITS; i++)
                t += bit_signs(v, i) * (k + i < in ? factor * w[k + i] : 0.0f);
            store(table + v, t);
        }
}

/* sums[b] = start + Σ over groups of table[index], for R blocks of rows. */
INLINE void signed_sums(const int R, int groups, const float *table, const vi *index, int blocks,
                        float start, vf *sums) {
    vf c[MOST];
#pragma GCC unroll 8
    for (int b = 0; b < R; b++) c[b] = all(start);
    for (int g = 0; g < groups; g++, table += ENTRIES, index += blocks)
#pragma GCC unroll 8
        for (int b = 0; b < R; b++) c[b] += look_up_units(table, index[b]);
#pragma GCC unroll 8
    for (int b = 0; b < R; b++) sums[b] = c[b];
}

/* Call a function of a constant number of accumulators, 1 to MOST. */
#define WITH_CONSTANT(R, CALL)                                                               \
    switch (R) {                                                                             \
    case 1: CALL(1); break;                                                                  \
    case 2: CALL(2); break;                                                                  \
    case 3: CALL(3); break;                                                                  \
    case 4: CALL(4); break;                                                                  \
    case 5: CALL(5); break;                                                                  \
    case 6: CALL(6); break;                                                                  \
    case 7: CALL(7); break;                                                                  \
    default: CALL(8); break;                                                                 \
    }

/* The next of the nearly equal parts, none above MOST, into which `total` is cut. */
static inline int part_of(int total, int done) {
    int parts = (total + MOST - 1) / MOST, size = (total + parts - 1) / parts;
    return total - done < size ? total - done : size;
}

/* Sums of one unit above for all blocks of rows. */
static void all_signed_sums(int groups, const float *table, const vi *index, int blocks,
                            float start, vf *sums) {
    for (int b = 0, R; b < blocks; b += R) {
        R = part_of(blocks, b);
#define CALL(N) signed_sums(N, groups, table, index + b, blocks, start, sums + b)
        WITH_CONSTANT(R, CALL)
#undef CALL
    }
}

typedef uint16_t half __attribute__((vector_size(2 * LANES), aligned(2), may_alias));

/* For the gradient the rows index and the units are lanes: (blocks, SLICES, vectors of units),
 * from the bits of `rows` (blocks, units padded). Bits above the index do no harm. */
static void gradient_index(int blocks, int units, const uint16_t *rows, vi *index) {
    for (int b = 0; b < blocks; b++)
        for (int s = 0; s < SLICES; s++)
            for (int k = 0; k < units; k += LANES, index++) {
                half raw = *(const half *)(rows + (size_t)b * units + k);
                *index = __builtin_convertvector(raw, vi) >> (SIDE * s);
            }
}

INLINE void signed_gradient_tile(const int V, int blocks, int vectors, const float *d,
                                 const vi *index, float *G) {
    vf c[MOST];
#pragma GCC unroll 8
    for (int v = 0; v < V; v++) c[v] = load(G + v * LANES);
    for (int b = 0; b < blocks; b++, d += LANES)
#pragma GCC unroll 4
        for (int s = 0; s < SLICES; s++, index += vectors) {
            vf t = all(0.0f);
#pragma GCC unroll 4
            for (int i = 0; i < SIDE; i++)
                if (SIDE * s + i < LANES) t += bit_signs(0, i) * d[SIDE * s + i];
#pragma GCC unroll 8
            for (int v = 0; v < V; v++) c[v] += look_up(t, index[v]);
        }
#pragma GCC unroll 8
    for (int v = 0; v < V; v++) store(G + v * LANES, c[v]);
}

/* G[j, 0:units] += Σ_rows d[j, row]·a[unit, row], for every unit j above. */
static void signed_gradient(int out, int blocks, int units, const float *d, const vi *index,
                            float *G) {
    int vectors = units / LANES;
    for (int v = 0, V; v < vectors; v += V) {
        V = part_of(vectors, v);
        for (int j = 0; j < out; j++) {
            const float *dj = d + (size_t)j * blocks * LANES;
            float *Gj = G + (size_t)j * units + v * LANES;
#define CALL(N) signed_gradient_tile(N, blocks, vectors, dj, index + v, Gj)
            WITH_CONSTANT(V, CALL)
#undef CALL
        }
    }
}

#endif
