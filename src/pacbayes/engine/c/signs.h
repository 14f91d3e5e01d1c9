/* Products with activations that are ±1, by table look-up: a few of them index a table of all
 * their signed sums, which one permutation of a register reads for LANES rows at once. */
#ifndef PACBAYES_SIGNS_H
#define PACBAYES_SIGNS_H

#include "products.h"

/* A table of the 2^BITS signed sums of BITS numbers, in one register or two. */
typedef struct {
    vf low, high;
} table;

#ifdef __AVX512F__
#define BITS 5
static inline vf look_up(table t, vi index) {
    return (vf)_mm512_permutex2var_ps((__m512)t.low, (__m512i)index, (__m512)t.high);
}
#else
#define BITS 3
static inline vf look_up(table t, vi index) {
    return (vf)_mm256_permutevar8x32_ps((__m256)t.low, (__m256i)index);
}
#endif

#define ENTRIES (1 << BITS)
#define MOST 8 /* accumulators of a tile */

static inline int groups_of(int count) { return (count + BITS - 1) / BITS; }

/* ±1 by bit i of a lane's number. */
static const float BIT_SIGNS[4][16] = {
    {-1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1},
    {-1, -1, 1, 1, -1, -1, 1, 1, -1, -1, 1, 1, -1, -1, 1, 1},
    {-1, -1, -1, -1, 1, 1, 1, 1, -1, -1, -1, -1, 1, 1, 1, 1},
    {-1, -1, -1, -1, -1, -1, -1, -1, 1, 1, 1, 1, 1, 1, 1, 1},
};

/* Bit i of an entry's number gives the sign of x[i]. */
static inline table signed_sums_of(const float *x) {
    vf t = all(0.0f);
#pragma GCC unroll 4
    for (int i = 0; i < LANE_BITS; i++) t += load(BIT_SIGNS[i]) * x[i];
    return ENTRIES == LANES ? (table){t, t} : (table){t - x[BITS - 1], t + x[BITS - 1]};
}

/* Tables of factor·w for one unit above: (groups, ENTRIES). */
static void build_tables(int in, const float *w, float factor, float *out) {
    for (int k = 0; k < in; k += BITS, out += ENTRIES) {
        float x[BITS] = {0};
        for (int i = 0; i < BITS && k + i < in; i++) x[i] = factor * w[k + i];
        table t = signed_sums_of(x);
        store(out, t.low);
        if (ENTRIES > LANES) store(out + LANES, t.high);
    }
}

/* sums[b] = start + Σ over groups of tables[index], for R blocks of rows. */
INLINE void signed_sums(const int R, int groups, const float *tables, const vi *index, int blocks,
                        float start, vf *sums) {
    vf c[MOST];
#pragma GCC unroll 8
    for (int b = 0; b < R; b++) c[b] = all(start);
    for (int g = 0; g < groups; g++, tables += ENTRIES, index += blocks) {
        table t = {load(tables), ENTRIES > LANES ? load(tables + LANES) : all(0.0f)};
#pragma GCC unroll 8
        for (int b = 0; b < R; b++) c[b] += look_up(t, index[b]);
    }
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
static void all_signed_sums(int groups, const float *tables, const vi *index, int blocks,
                            float start, vf *sums) {
    for (int b = 0, R; b < blocks; b += R) {
        R = part_of(blocks, b);
#define CALL(N) signed_sums(N, groups, tables, index + b, blocks, start, sums + b)
        WITH_CONSTANT(R, CALL)
#undef CALL
    }
}

typedef uint16_t half __attribute__((vector_size(2 * LANES), aligned(2), may_alias));

/* For the gradient BITS rows index and the units are lanes: (groups, vectors of units), from the
 * bits of `rows` (blocks, units padded). Bits above the index do no harm. */
static void gradient_index(int blocks, int units, const uint16_t *rows, vi *index) {
    for (int g = 0; g < groups_of(blocks * LANES); g++) {
        int b = g * BITS / LANES, shift = g * BITS % LANES;
        int next = shift + BITS > LANES && b + 1 < blocks;
        for (int k = 0; k < units; k += LANES, index++) {
            const uint16_t *at = rows + (size_t)b * units + k;
            *index = __builtin_convertvector(*(const half *)at, vi) >> shift;
            if (next) *index |= __builtin_convertvector(*(const half *)(at + units), vi) << (LANES - shift);
        }
    }
}

INLINE void signed_gradient_tile(const int V, int rows, int vectors, const float *d,
                                 const vi *index, float *G) {
    vf c[MOST];
#pragma GCC unroll 8
    for (int v = 0; v < V; v++) c[v] = load(G + v * LANES);
    int r = 0;
    for (; r + BITS <= rows; r += BITS, index += vectors) {
        table t = signed_sums_of(d + r);
#pragma GCC unroll 8
        for (int v = 0; v < V; v++) c[v] += look_up(t, index[v]);
    }
    if (r < rows) { /* fewer rows are left than index a table */
        float rest[BITS] = {0};
        memcpy(rest, d + r, (rows - r) * sizeof(float));
        table t = signed_sums_of(rest);
#pragma GCC unroll 8
        for (int v = 0; v < V; v++) c[v] += look_up(t, index[v]);
    }
#pragma GCC unroll 8
    for (int v = 0; v < V; v++) store(G + v * LANES, c[v]);
}

/* G[j, 0:units] += Σ_rows d[j, row]·a[unit, row], for every unit j above. */
static void signed_gradient(int out, int rows, int units, const float *d, const vi *index,
                            float *G) {
    int vectors = units / LANES;
    for (int v = 0, V; v < vectors; v += V) {
        V = part_of(vectors, v);
        for (int j = 0; j < out; j++) {
            const float *dj = d + (size_t)j * rows;
            float *Gj = G + (size_t)j * units + v * LANES;
#define CALL(N) signed_gradient_tile(N, rows, vectors, dj, index + v, Gj)
            WITH_CONSTANT(V, CALL)
#undef CALL
        }
    }
}

#endif
