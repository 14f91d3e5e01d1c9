/* Matrix products of the sizes a layer has, and the first layer's sparse ones. */
#ifndef PACBAYES_PRODUCTS_H
#define PACBAYES_PRODUCTS_H

#include "vector.h"

#define PAD 16 /* rows of every matrix are padded to a multiple of this */
#ifdef __AVX512F__
#define ROWS 12 /* of a tile: ROWS × 2 accumulators, two of B and one of A fit the registers */
#else
#define ROWS 6
#endif

/* C[r, tile] (+)= Σ_k A[r, k]·B[k, tile] for R rows and V vectors held in registers. */
#define TILE(R, V)                                                                         \
    static void tile_##R##_##V(int K, const float *A, long ars, long acs, const float *B,  \
                               long ldb, float *C, long ldc, int add) {                    \
        vf c[R][V];                                                                        \
        _Pragma("GCC unroll 16") for (int r = 0; r < R; r++)                               \
            _Pragma("GCC unroll 2") for (int v = 0; v < V; v++)                            \
                c[r][v] = add ? load(C + r * ldc + v * LANES) : all(0.0f);                 \
        for (int k = 0; k < K; k++, A += acs, B += ldb) {                                  \
            vf b[V];                                                                       \
            _Pragma("GCC unroll 2") for (int v = 0; v < V; v++) b[v] = load(B + v * LANES); \
            _Pragma("GCC unroll 16") for (int r = 0; r < R; r++)                           \
                _Pragma("GCC unroll 2") for (int v = 0; v < V; v++)                        \
                    c[r][v] += A[r * ars] * b[v];                                          \
        }                                                                                  \
        _Pragma("GCC unroll 16") for (int r = 0; r < R; r++)                               \
            _Pragma("GCC unroll 2") for (int v = 0; v < V; v++)                            \
                store(C + r * ldc + v * LANES, c[r][v]);                                   \
    }
#define TILES(R) TILE(R, 1) TILE(R, 2)
TILES(1)
TILES(2)
TILES(4)
TILES(6)
#ifdef __AVX512F__
TILES(12)
#endif

#define RUN(R)                                                                             \
    for (; m + R <= M; m += R)                                                             \
        (wide ? tile_##R##_2 : tile_##R##_1)(K, A + m * ars, ars, acs, B + n, ldb,         \
                                             C + m * ldc + n, ldc, add);

/* C (M×N, N a multiple of PAD) (+)= A·B, with A[m, k] at m·ars + k·acs and B, C by rows. */
static void product(int M, int N, int K, const float *A, long ars, long acs, const float *B,
                    long ldb, float *C, long ldc, int add) {
    for (int n = 0, wide; n < N; n += wide ? 2 * LANES : LANES) {
        wide = n + 2 * LANES <= N;
        int m = 0;
#ifdef __AVX512F__
        RUN(12)
#endif
        RUN(6)
        RUN(4)
        RUN(2)
        RUN(1)
    }
}

/* The entries of x that are not zero: most pixels are. */
static int nonzeros(const float *x, int d, int *index, float *value) {
    int count = 0;
    for (int k = 0; k < d; k++) {
        index[count] = k;
        value[count] = x[k];
        count += x[k] != 0.0f;
    }
    return count;
}

#define STRIP (4 * LANES)

/* out[0:N] = start[0:N] + Σ_j value_j·B[index_j, 0:N]. */
static void sparse_forward(int N, int count, const int *index, const float *value, const float *B,
                           const float *start, float *out) {
    int n = 0;
    for (; n + STRIP <= N; n += STRIP) {
        vf c[4];
        for (int i = 0; i < 4; i++) c[i] = load(start + n + LANES * i);
        for (int j = 0; j < count; j++) {
            const float *row = B + (long)index[j] * N + n;
            for (int i = 0; i < 4; i++) c[i] += value[j] * load(row + LANES * i);
        }
        for (int i = 0; i < 4; i++) store(out + n + LANES * i, c[i]);
    }
    for (; n < N; n += LANES) {
        vf c = load(start + n);
        for (int j = 0; j < count; j++) c += value[j] * load(B + (long)index[j] * N + n);
        store(out + n, c);
    }
}

/* G[index_j, 0:N] += value_j·d[0:N]: the gradient of the above in B. */
static void sparse_backward(int N, int count, const int *index, const float *value, const float *d,
                            float *G) {
    for (int j = 0; j < count; j++) {
        float *row = G + (long)index[j] * N;
        for (int n = 0; n < N; n += LANES) store(row + n, load(row + n) + value[j] * load(d + n));
    }
}

#endif
