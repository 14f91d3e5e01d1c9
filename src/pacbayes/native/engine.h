/* What the engine's files share: a network's weights laid out for products, and scratch space. */
#ifndef PACBAYES_ENGINE_H
#define PACBAYES_ENGINE_H

#include <stdint.h>
#include <stdlib.h>

#define GROUPS 4      /* fixed partial sums: bit-identical results for any number of threads */
#define CHUNK_ROWS 96 /* (input, sample) rows that go forward and backward while in cache */

enum activation { RELU, SIGMOID, SIGN };
enum estimator { MARGINAL, LEAVE_ONE_OUT, LOCAL_EXPECTATION, STRAIGHT_THROUGH };

/* Weights of one layer for one step. Rows are padded to multiples of 16: ip for in, op for out. */
typedef struct {
    int in, out, ip, op;
    float *wt, *st; /* means and variances transposed, (in, op) */
    float *w, *s;   /* the same by rows, (out, ip); not for the first of several layers */
    float *b, *sb;  /* bias means and variances, (op) */
    float *vs;      /* sign units below: the constant variance of the pre-activation, (op) */
    float unit;     /* variance of every weight where scales are not learned */
} layer;

/* One hidden layer's activations in a chunk, (rows, op) each. */
typedef struct {
    float *a;     /* activations */
    float *aux;   /* pathwise: the noise; sign: u = mean/deviation */
    float *dev;   /* deviation */
    float *slope; /* sign: the score, or the derivative of the expectation */
} trace;

/* Scratch and partial gradients of one group of chunks. */
typedef struct {
    trace *hidden;
    float *mean, *dev;                  /* (inputs, op) of the first layer */
    float *dm, *dv, *da, *a2;           /* (rows, widest) */
    float *weight, *output, *odev, *ou; /* (rows) of the head */
    float **gw, **gs, **gb, **gsb;
    int *index, *counts; /* where an input is not zero, and how often */
    float *value, *square;
    double loss;
} group;

typedef struct {
    int depth, activation, estimator, learned, samples, inputs; /* inputs in a chunk */
    layer *layers;                                              /* depth + 1 */
    group groups[GROUPS];
    void **owned;
    int owned_count, failed; /* failed: memory ran out */
} engine;

/* Whether layer l's gradient is a score times a weight, rather than a path. */
static inline int scored(const engine *e, int l) {
    return e->activation == SIGN && e->estimator != STRAIGHT_THROUGH &&
           !(e->estimator == LOCAL_EXPECTATION && l == e->depth - 1);
}

#endif
