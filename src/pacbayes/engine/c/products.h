/* Matrix products of the sizes a layer has. */
#ifndef PACBAYES_PRODUCTS_H
#define PACBAYES_PRODUCTS_H

#include "vector.h"

#define INLINE static inline __attribute__((always_inline))
#ifdef __AVX512F__
#define TILE_ROWS 12 /* × 2 accumulators; two of B and one of A fit the registers beside them */
#else
#define TILE_ROWS 6
#endif

/* C[r, tile] (+)= Σ_k A[r, k]·B[k, tile] for R rows and V vectors held in registers. */
INLINE void tile(const int R, const int V, int K, const float *A, long ars, long acs,
                 const float *B, long ldb, float *C, long ldc, int add) {
    vf c[TILE_ROWS][2];
#pragma GCC unroll 12
    for (int r = 0; r < R; r++)
#pragma GCC unroll 2
        for (int v = 0; v < V; v++) c[r][v] = add ? load(C + r * ldc + v * LANES) : all(0.0f);
    for (int k = 0; k < K; k++, A += acs, B += ldb) {
        vf b[2];
#pragma GCC unroll 2
        for (int v = 0; v < V; v++) b[v] = load(B + v * LANES);
#pragma GCC unroll 12
        for (int r = 0; r < R; r++)
#pragma GCC unroll 2
            for (int v = 0; v < V; v++) c[r][v] += A[r * ars] * b[v];
    }
#pragma GCC unroll 12
    for (int r = 0; r < R; r++)
#pragma GCC unroll 2
        for (int v = 0; v < V; v++) store(C + r * ldc + v * LANES, c[r][v]);
}

INLINE void tiles(const int V, int M, int K, const float *A, long ars, long acs, const float *B,
                  long ldb, float *C, long ldc, int add) {
    int m = 0;
    for (; m + TILE_ROWS <= M; m += TILE_ROWS)
        tile(TILE_ROWS, V, K, A + m * ars, ars, acs, B, ldb, C + m * ldc, ldc, add);
    for (; m + 4 <= M; m += 4) tile(4, V, K, A + m * ars, ars, acs, B, ldb, C + m * ldc, ldc, add);
    for (; m < M; m++) tile(1, V, K, A + m * ars, ars, acs, B, ldb, C + m * ldc, ldc, add);
}

/* C (M×N, N a multiple of LANES) (+)= A·B, with A[m, k] at m·ars + k·acs and B, C by rows. */
static void product(int M, int N, int K, const float *A, long ars, long acs, const float *B,
                    long ldb, float *C, long ldc, int add) {
    int n = 0;
    for (; n + 2 * LANES <= N; n += 2 * LANES)
        tiles(2, M, K, A, ars, acs, B + n, ldb, C + n, ldc, add);
    if (n < N) tiles(1, M, K, A, ars, acs, B + n, ldb, C + n, ldc, add);
}

#endif
