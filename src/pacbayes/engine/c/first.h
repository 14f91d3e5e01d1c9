/* The first layer: moments once per input, from the pixels that are not zero, and its gradient. */
#ifndef PACBAYES_FIRST_H
#define PACBAYES_FIRST_H

#include "engine.h"

#define RANGE 96   /* inputs whose weights stay in cache while a chunk's examples pass */
#define SEGMENT 96 /* examples whose part of the gradient stays in cache while pixels pass */

/* Write k + the positions of the bits of m; returns how many. Room for LANES is used. */
static inline int pack(uint32_t m, int k, int *out) {
#ifdef __AVX512F__
    vi lane;
    for (int i = 0; i < LANES; i++) lane[i] = i;
    _mm512_storeu_si512(out, _mm512_maskz_compress_epi32((__mmask16)m, (__m512i)(lane + k)));
#else
    for (int i = 0, n = 0; i < LANES; n += m >> i & 1, i++) out[n] = k + i;
#endif
    return __builtin_popcount(m);
}

/* LANES entries of a row of d from k on, read and written; beyond its end there are zeros. */
static inline vf entries(const float *row, int k, int d) { return some(row + k, d - k); }
static inline void put(float *row, int k, int d, vf x) { store_some(row + k, d - k, x); }

static inline uint32_t nonzero(vf x) { return bits(less((vi){0}, (vi)magnitude(x))); }

/* The entries of a chunk's inputs that are not zero, range by range of the weights that stay in
 * cache: `ends` has, for input i and range g, how many entries of i come up to the end of g. */
static void find_entries(engine *e, group *p, const float *x, const int64_t *index, int start,
                         int inputs) {
    const layer *y = &e->layers[0];
    for (int i = 0; i < inputs; i++) {
        const float *row = x + index[i] * y->in;
        const float *next = i + 1 < inputs ? x + index[i + 1] * y->in : row;
        int *at = p->at + (size_t)i * (y->ip + LANES), found = 0;
        for (int k = 0; k < y->in; k += LANES) {
            __builtin_prefetch(next + k); /* rows lie anywhere */
            uint32_t mask = nonzero(entries(row, k, y->in));
            if (e->masks) e->masks[(size_t)(k / LANES) * e->room + start + i] = mask;
            found += pack(mask, k, at + found);
            p->ends[i * p->ranges + k / RANGE] = found;
        }
    }
}

/* out[0:V] += Σ_n x_n·B[n], or x_n²·B[n], over `count` listed entries. */
INLINE void sparse_tile(const int V, const float *x, int squared, const int *at, int count,
                        const float *B, long ldb, float *out) {
    vf c[MOST];
#pragma GCC unroll 8
    for (int v = 0; v < V; v++) c[v] = load(out + v * LANES);
    for (int n = 0; n < count; n++) {
        float value = squared ? x[at[n]] * x[at[n]] : x[at[n]];
        const float *row = B + at[n] * ldb;
#pragma GCC unroll 8
        for (int v = 0; v < V; v++) c[v] += value * load(row + v * LANES);
    }
#pragma GCC unroll 8
    for (int v = 0; v < V; v++) store(out + v * LANES, c[v]);
}

/* out[i] = start + Σ_k x_ik·B[k] for the chunk's inputs. */
static void sparse_product(const layer *y, const group *p, const float *x, const int64_t *index,
                           int inputs, int squared, const float *B, const float *start, int length,
                           float *out) {
    for (int i = 0; i < inputs; i++) {
        memset(out + (size_t)i * y->op, 0, y->op * sizeof(float));
        memcpy(out + (size_t)i * y->op, start, length * sizeof(float));
    }
    for (int g = 0; g < p->ranges; g++)
        for (int i = 0; i < inputs; i++) {
            const int *ends = p->ends + i * p->ranges, from = g ? ends[g - 1] : 0;
            const int *at = p->at + (size_t)i * (y->ip + LANES) + from;
            for (int v = 0, V; v < y->op / LANES; v += V) {
                V = part_of(y->op / LANES, v);
                float *row = out + (size_t)i * y->op + v * LANES;
#define CALL(N)                                                                              \
    sparse_tile(N, x + index[i] * y->in, squared, at, ends[g] - from, B + v * LANES, y->op, row)
                WITH_CONSTANT(V, CALL)
#undef CALL
            }
        }
}

static void first_moments(engine *e, group *p, const float *x, const int64_t *index, int start,
                          int inputs) {
    layer *y = &e->layers[0];
    index += start;
    find_entries(e, p, x, index, start, inputs);
    sparse_product(y, p, x, index, inputs, 0, y->wt, y->b, y->out, p->mean);
    if (e->learned) sparse_product(y, p, x, index, inputs, 1, y->st, y->sb, y->op, p->dev);
    for (int i = 0; i < inputs; i++) {
        const float *row = x + index[i] * y->in;
        float *dev = p->dev + (size_t)i * y->op;
        vf square = all(0.0f);
        if (!e->learned)
            for (int k = 0; k < y->in; k += LANES) {
                vf v = entries(row, k, y->in);
                square += v * v;
            }
        vf unit = most(all(y->unit * sum(square) + y->sb[0]), all(1e-24f));
        for (int o = 0; o < y->op; o += LANES) {
            vf variance = e->learned ? load(dev + o) : unit;
            store(dev + o, variance * inverse_root(variance));
        }
    }
}

/* Of SEGMENT examples from `start` on, those whose pixel c of LANES is not zero. */
static int examples_with(const uint16_t *masks, int start, int c, int *out) {
    int found = 0;
    for (int i = 0; i < SEGMENT; i += LANES) {
        vi mask = __builtin_convertvector(*(const half *)(masks + start + i), vi);
        found += pack(bits(less((vi){0}, mask & (1 << c))), start + i, out + found);
    }
    return found;
}

/* G[0:V] += Σ_n x_n·d[n, 0:V], or x_n²·d[n], x_n a pixel of example at[n]. */
INLINE void pixel_tile(const int V, const float *x, long d_in, const int64_t *index, int squared,
                       const int *at, int count, const float *d, long op, float *G) {
    vf c[MOST];
#pragma GCC unroll 8
    for (int v = 0; v < V; v++) c[v] = load(G + v * LANES);
    for (int n = 0; n < count; n++) {
        float value = x[index[at[n]] * d_in];
        const float *row = d + at[n] * op;
        if (squared) value *= value;
#pragma GCC unroll 8
        for (int v = 0; v < V; v++) c[v] += value * load(row + v * LANES);
    }
#pragma GCC unroll 8
    for (int v = 0; v < V; v++) store(G + v * LANES, c[v]);
}

/* G[c] = Σ_i d[i]·x_i[k + c] for LANES pixels, or of x², (LANES, op): segment by segment of the
 * examples, so that their d stay in cache, and in their order, whatever the number of threads. */
static void pixel_gradient(engine *e, const float *x, const int64_t *index, int count, int k,
                           int squared, float *G) {
    const layer *y = &e->layers[0];
    const float *d = squared ? e->dv1 : e->d1;
    const uint16_t *masks = e->masks + (size_t)(k / LANES) * e->room;
    memset(G, 0, (size_t)LANES * y->op * sizeof(float));
    for (int start = 0; start < count; start += SEGMENT)
        for (int c = 0; c < LANES && k + c < y->in; c++) {
            int at[SEGMENT + LANES], found = examples_with(masks, start, c, at);
            for (int v = 0, V; v < y->op / LANES; v += V) {
                V = part_of(y->op / LANES, v);
                float *row = G + (size_t)c * y->op + v * LANES;
#define CALL(N)                                                                              \
    pixel_tile(N, x + k + c, y->in, index, squared, at, found, d + v * LANES, y->op, row)
                WITH_CONSTANT(V, CALL)
#undef CALL
            }
        }
}

#endif
