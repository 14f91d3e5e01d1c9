/* What the engine's files share: a network's weights laid out for products, and scratch space.
 *
 * The rows of a chunk are (input, sample), T of them for each input; above the first layer they
 * are the lanes of vectors, in `blocks` of LANES, and matrices are (units, rows). The first layer
 * computes its moments once per input, so there matrices are (rows, units). */
#ifndef PACBAYES_ENGINE_H
#define PACBAYES_ENGINE_H

#include <stdint.h>
#include <stdlib.h>

#define GROUPS 4 /* fixed partial sums: bit-identical results for any number of threads */
#define BATCH 256 /* inputs of a chunk of REINFORCE, whose draws each go through all chunks */
#define PAD 16   /* ip and op are in and out rounded up to a multiple of this */

enum activation { RELU, SIGMOID, SIGN };
enum estimator { MARGINAL, LEAVE_ONE_OUT, LOCAL_EXPECTATION, STRAIGHT_THROUGH, REINFORCE, TREE };

/* One layer's weights in one step. */
typedef struct {
    int in, out, ip, op;
    const float *w, *b, *log_w, *log_b; /* the caller's: means and log-scales, (out, in), (out) */
    float unit;     /* variance of every weight where scales are not learned */
    float *wt, *st; /* first layer: means and variances transposed, (in, op) */
    float *s;       /* other layers, learned scales: variances, (out, in) */
    float *sb;      /* bias variances, (op) */
    float *inverse; /* signs below: 1/deviation of the pre-activation, a constant, (op) */
    float *tables;  /* signs below: signed sums of means over deviation, (out, groups, ENTRIES) */
} layer;

/* One hidden layer in a chunk. */
typedef struct {
    float *a, *at;  /* pathwise: activations (op, rows) and (rows, op) */
    float *noise;   /* pathwise: (op, rows); of the first layer (rows, op) */
    float *dev;     /* pathwise above the first layer: (op, rows), or (rows) at unit scales */
    float *u;       /* sign above the first layer: mean/deviation (op, rows) */
    float *slope;   /* the same: the score, or the derivative of the expectation */
    float *value;   /* of a tree above the first layer: erf(u/√2), (op, rows) */
    float *score;   /* the same: a/2P(a) of what was drawn, (op, rows) */
    uint16_t *rows; /* sign: bits of the rows of a block, (blocks, op) */
    vi *index;      /* sign: bits of BITS units, (groups, blocks) */
} trace;

/* Scratch and partial gradients of one group of chunks. */
typedef struct {
    trace *hidden;
    float *mean, *dev;                   /* first layer, (inputs, op) */
    float *plus, *minus;                 /* first layer of signs: slopes of a = ±1, (inputs, op) */
    uint16_t *units;                     /* the same: bits of LANES units, (op / LANES, rows) */
    float *dm, *dv, *da, *spare;         /* (widest, rows) */
    float *weight, *output, *head_u, *head_inverse, *total; /* (rows) */
    float *score, *score_inverse, *label; /* more than two classes: (op, rows) twice, and (rows) */
    vf *of_classes;                       /* the same: scratch, (3, classes) */
    vi *gradient_index;
    int *at, *ends, ranges; /* the first layer's entries that are not zero */
    float **gw, **gs, **gb, **gsb; /* by layer */
    float *noise, *drawn, *sum;    /* REINFORCE: a draw of all weights, and the gradient */
    int found; /* the same: the chunk whose entries are at hand; one chunk's serve every draw */
    int rows;     /* of the chunk at hand, a multiple of LANES */
    int training; /* whether a gradient will be wanted */
    double loss;
} group;

typedef struct {
    int depth, activation, estimator, learned, samples, inputs; /* inputs in a chunk */
    int draws;     /* REINFORCE: T, of all weights; samples is then one */
    float *centre; /* the same: the means, laid out like a draw */
    layer *layers;                                              /* depth + 1 */
    group groups[GROUPS];
    float *d1, *dv1; /* gradient in the first layer's moments, (examples, op) */
    uint16_t *masks; /* which of LANES pixels are not zero, (in / LANES, examples) */
    int64_t room;    /* examples there is room for in these three, a multiple of SEGMENT */
    pool threads;
    void **owned;
    int owned_count, failed; /* failed: memory ran out */
} engine;

/* What one step is given. */
typedef struct {
    engine *e;
    float *const *gradients;
    const float *x, *y;
    const int64_t *index;
    int count;
    uint64_t seed, step;
    int log_loss; /* the gradient is of −ln P(label), of the mean over samples */
} job;

/* Outputs of the last layer: a score for each of more than two classes, or one. */
static inline int outputs(const engine *e) { return e->layers[e->depth].out; }

/* Whether layer l's gradient is a score times a weight, rather than a path. */
static inline int scored(const engine *e, int l) {
    return e->activation == SIGN && e->estimator != STRAIGHT_THROUGH &&
           !(e->estimator == LOCAL_EXPECTATION && l == e->depth - 1);
}

/* Whether gradients in the variance of sign units above the first layer are wanted. */
static inline int spreads(const engine *e) {
    return e->learned || e->estimator == STRAIGHT_THROUGH;
}

#endif
