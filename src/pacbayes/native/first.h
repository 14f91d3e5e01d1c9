/* The first layer: moments once per input, from the pixels that are not zero, and its gradient. */
#ifndef PACBAYES_FIRST_H
#define PACBAYES_FIRST_H

#include "engine.h"

#define RANGE 64     /* inputs whose weights stay in cache while a chunk's examples pass */
#define SEGMENT 256  /* examples whose pixels are gathered at a time for the gradient */
#define FIRST_ROWS (2 * TILE_ROWS)

/* LANES entries of a row of d from k on; beyond its end there are zeros. */
static inline vf entries(const float *row, int k, int d) {
    if (k + LANES <= d) return load(row + k);
    float rest[LANES] = {0};
    memcpy(rest, row + k, (d - k) * sizeof(float));
    return load(rest);
}

static inline uint32_t nonzero(vf x) { return bits(below(all(0.0f), magnitude(x))); }

/* out[0:V] += Σ_k x_k·B[k], or x_k²·B[k], over the entries from `from` to `to` that are not zero. */
INLINE void sparse_tile(const int V, const float *x, int squared, int from, int to, int d,
                        const float *B, long ldb, float *out) {
    vf c[MOST];
#pragma GCC unroll 8
    for (int v = 0; v < V; v++) c[v] = load(out + v * LANES);
    for (int k = from; k < to; k += LANES)
        for (uint32_t left = nonzero(entries(x, k, d)); left; left &= left - 1) {
            int at = k + __builtin_ctz(left);
            float value = squared ? x[at] * x[at] : x[at];
            const float *row = B + at * ldb;
#pragma GCC unroll 8
            for (int v = 0; v < V; v++) c[v] += value * load(row + v * LANES);
        }
#pragma GCC unroll 8
    for (int v = 0; v < V; v++) store(out + v * LANES, c[v]);
}

/* out[i] = start + Σ_k x_ik·B[k] for the chunk's inputs. */
static void sparse_product(const layer *y, const float *x, const int64_t *index, int inputs,
                           int squared, const float *B, const float *start, int length, float *out) {
    for (int i = 0; i < inputs; i++) {
        memset(out + (size_t)i * y->op, 0, y->op * sizeof(float));
        memcpy(out + (size_t)i * y->op, start, length * sizeof(float));
    }
    for (int from = 0; from < y->in; from += RANGE) {
        int to = from + RANGE < y->in ? from + RANGE : y->in;
        for (int i = 0; i < inputs; i++)
            for (int v = 0, V; v < y->op / LANES; v += V) {
                V = part_of(y->op / LANES, v);
                float *row = out + (size_t)i * y->op + v * LANES;
#define CALL(N)                                                                              \
    sparse_tile(N, x + index[i] * y->in, squared, from, to, y->in, B + v * LANES, y->op, row)
                WITH_CONSTANT(V, CALL)
#undef CALL
            }
    }
}

static void first_moments(engine *e, group *p, const float *x, const int64_t *index, int inputs) {
    layer *y = &e->layers[0];
    sparse_product(y, x, index, inputs, 0, y->wt, y->b, y->out, p->mean);
    if (e->learned) sparse_product(y, x, index, inputs, 1, y->st, y->sb, y->op, p->dev);
    for (int i = 0; i < inputs; i++) {
        const float *row = x + index[i] * y->in;
        float *dev = p->dev + (size_t)i * y->op;
        vf square = all(0.0f);
        if (!e->learned)
            for (int k = 0; k < y->in; k += LANES) {
                vf v = entries(row, k, y->in);
                square += v * v;
            }
        vf unit = all(y->unit * (sum(square) + 1.0f));
        for (int o = 0; o < y->op; o += LANES) {
            vf variance = e->learned ? load(dev + o) : unit;
            store(dev + o, variance * inverse_root(variance));
        }
    }
}

/* G[0:R] += Σ_n d[position_n, 0:R]·pixels_n. */
INLINE void first_tile(const int R, int count, const vf *pixels, const int *position, const float *d,
                       long ldd, vf *G) {
    vf c[FIRST_ROWS];
#pragma GCC unroll 24
    for (int r = 0; r < R; r++) c[r] = G[r];
    for (int n = 0; n < count; n++) {
        const float *row = d + position[n] * ldd;
#pragma GCC unroll 24
        for (int r = 0; r < R; r++) c[r] += row[r] * pixels[n];
    }
#pragma GCC unroll 24
    for (int r = 0; r < R; r++) G[r] = c[r];
}

/* G[j] = Σ_i d[i, j]·x_i[k : k + LANES], or of x², over the examples where one of those pixels is
 * not zero; in segments, in their order, whatever the number of threads. */
static void pixel_gradient(const layer *y, const float *x, const int64_t *index, int count, int k,
                           int squared, const float *d, vf *G) {
    vf pixels[SEGMENT];
    int position[SEGMENT];
    for (int j = 0; j < y->out; j++) G[j] = all(0.0f);
    for (int start = 0; start < count; start += SEGMENT) {
        int found = 0, end = start + SEGMENT < count ? start + SEGMENT : count;
        for (int i = start; i < end; i++) {
            vf v = entries(x + index[i] * y->in, k, y->in);
            pixels[found] = squared ? v * v : v;
            position[found] = i - start;
            found += nonzero(v) != 0;
        }
        const float *from = d + (size_t)start * y->op;
        int j = 0;
        for (; j + FIRST_ROWS <= y->out; j += FIRST_ROWS)
            first_tile(FIRST_ROWS, found, pixels, position, from + j, y->op, G + j);
        for (; j + 4 <= y->out; j += 4)
            first_tile(4, found, pixels, position, from + j, y->op, G + j);
        for (; j < y->out; j++) first_tile(1, found, pixels, position, from + j, y->op, G + j);
    }
}

#endif
