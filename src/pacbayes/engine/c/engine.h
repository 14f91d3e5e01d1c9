/* The engine's own structures: the weights of a network laid out for products, and scratch space.
 *
 * The rows of a chunk are (input, sample): T rows for each input. Above the first layer rows are
 * the lanes of vectors, in blocks of LANES, and matrices are (units, rows). The first layer
 * computes its moments once per input, so its matrices are (inputs, units) or (rows, units).
 *
 * Letters mean the same here and in everything that is included after this file:
 *   e  the engine           p  a part of the step     l, L  a layer's number, and the layer
 *   h  a hidden layer's trace in a chunk              T  samples of an input
 *   R  rows of the chunk    V  vectors of a tile      v  one of them
 *   i  an input             t  a sample of it         r  a row        b  a block of rows
 *   j  a unit of a layer    k  a unit below it        n  the number of a task, a point, an entry
 *   x  a feature            a  an activation          z  its pre-activation
 *   u  mean/deviation of z  c  accumulators of a tile
 * and dm, dv, dz, da, dF, dP are the gradients of the risk in a mean, a variance, z, a, the output
 * F of two classes and the output P of more. */
#ifndef PACBAYES_ENGINE_H
#define PACBAYES_ENGINE_H

#include <stdatomic.h>

#include "interface.h"
#include "vector.h"

#define PARTS 4   /* fixed partial sums give the same bits for any number of threads */
#define BATCH 256 /* inputs in a chunk of REINFORCE, where each draw goes through all chunks */
#define BROAD_LAYER 384 /* units, above which products go in blocks and chunks are larger */
#define PAD 16    /* in_padded and out_padded are multiples of this */
#define MOST_SAMPLES (1 << 28) /* rows are counted in ints */

/* One layer's weights in one step. */
typedef struct {
    int in, out, in_padded, out_padded;
    const float *weight, *bias;         /* the caller's means, (out, in) and (out) */
    const float *log_weight, *log_bias; /* the caller's log-scales */
    float unit;           /* the variance of every weight where scales are not learned */
    float *weight_turned; /* first layer: means transposed, (in, out_padded) */
    float *variance;      /* learned scales: variances, transposed in the first layer */
    float *bias_variance; /* (out_padded) */
    float *inverse;       /* signs below: 1/deviation of z, a constant, (out_padded) */
    float *tables;        /* signs below: signed sums of mean·inverse, (out, tables, ENTRIES) */
} layer;

/* One hidden layer in a chunk. "Path" means relu or sigmoid units, "sign" sign units. */
typedef struct {
    float *a, *a_turned; /* path: activations, (units, rows) and (rows, units) */
    float *noise;        /* path: (units, rows); in the first layer (rows, units) */
    float *deviation;    /* path, above the first layer: (units, rows), or (rows) at unit scales */
    float *u;            /* sign, above the first layer: (units, rows) */
    float *slope;        /* the same: the score, or the derivative of the expectation */
    float *value;        /* tree, above the first layer: erf(u/√2), (units, rows) */
    float *score;        /* the same: a/2P(a) of the drawn a, (units, rows) */
    uint16_t *row_bits;  /* sign: one bit per row of a block, (blocks, units) */
    vi *index;           /* sign: BITS units of a row as the index of a table, (tables, blocks) */
} trace;

/* A fixed part of the step's chunks: their scratch space and partial gradients. */
typedef struct {
    trace *hidden;
    float *mean, *deviation;      /* first layer, (inputs, units) */
    float *plus, *minus;          /* first layer of signs: slopes of a = ±1, (inputs, units) */
    uint16_t *unit_bits;          /* the same: one bit per unit of a vector, (vectors, rows) */
    float *dm, *dv, *da, *spare;  /* (units of the widest layer, rows) */
    float *row_weight;            /* the gradient of the risk in the output, (rows) */
    float *output, *total;        /* (rows) */
    float *head_u, *head_inverse; /* (rows) */
    float *score, *score_inverse, *label; /* several classes: (classes, rows) twice, and (rows) */
    vf *class_scratch;                    /* the same: (3, classes) */
    vi *gradient_index;                   /* sign: BITS rows of a unit, (tables, units) */
    int *nonzero, *ends, ranges;          /* first layer: features that are not zero */
    float **g_weight, **g_variance, **g_bias, **g_bias_variance; /* by layer */
    float *copies; /* wide layers: of the operands of a product in blocks */
    float *noise, *drawn, *gradient; /* REINFORCE: one draw of all weights, and the gradient */
    int found;         /* the same: first input of the chunk whose nonzero features are listed */
    int start, inputs; /* the chunk: its first input and their number */
    int rows;          /* the same: inputs × samples, rounded up to a multiple of LANES */
    int training;      /* whether a gradient is wanted */
    int later;         /* whether earlier chunks are in the partial gradients of weights */
    double loss;
} part;

struct engine {
    int depth, activation, estimator, learned;
    int samples, inputs; /* of an input; of a chunk */
    int broad;           /* whether a hidden layer has more than BROAD_LAYER units */
    int draws;           /* REINFORCE: T draws of all weights; `samples` is then 1 */
    float *centre;       /* the same: the means, laid out like a draw */
    layer *layers;       /* depth + 1 */
    part parts[PARTS];
    const pb_step *step;        /* the step that is running */
    float *first_dm, *first_dv; /* gradient in the first layer's moments, (examples, units) */
    uint16_t *masks;            /* which of LANES features are not zero, (in / LANES, examples) */
    offset room; /* examples that fit into these three arrays, a multiple of SEGMENT */
    struct pool *threads;
    void **owned; /* memory to free at the end: owned[0:owned_count] of owned_room places */
    int owned_count, owned_room;
    atomic_int failed; /* memory ran out */
};

/* Outputs of the last layer: one score per class, or one for two classes. */
static inline int outputs(const engine *e) { return e->layers[e->depth].out; }

/* Vectors that hold `count` numbers. */
static inline int vectors(int count) { return (count + LANES - 1) / LANES; }

/* Make the inputs from `start` on the chunk at hand. */
static inline void begin_chunk(const engine *e, part *p, int start) {
    p->start = start, p->inputs = least(e->step->count - start, e->inputs);
    p->rows = vectors(p->inputs * e->samples) * LANES;
}

/* Whether layer l has the gradient of a score (score × weight) instead of one along a path. */
static inline int scored(const engine *e, int l) {
    return e->activation == SIGN && e->estimator != STRAIGHT_THROUGH &&
           !(e->estimator == LOCAL_EXPECTATION && l == e->depth - 1);
}

/* Whether gradients in the variances of sign units above the first layer are wanted. */
static inline int spreads(const engine *e) {
    return e->learned || e->estimator == STRAIGHT_THROUGH;
}

#endif
