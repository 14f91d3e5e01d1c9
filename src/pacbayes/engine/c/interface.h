/* The functions that library.py calls and the structures that it fills in.
 *
 * library.py repeats every structure as a ctypes.Structure and every enumeration as an IntEnum.
 * Change both sides together and increase PB_ABI: library.py refuses a library with another number,
 * because the two would then read each other's memory wrongly. */
#ifndef PACBAYES_INTERFACE_H
#define PACBAYES_INTERFACE_H

#include <stdint.h>

#define PB_ABI 4

enum activation { RELU, SIGMOID, SIGN };
enum estimator { MARGINAL, LEAVE_ONE_OUT, LOCAL_EXPECTATION, STRAIGHT_THROUGH, REINFORCE, TREE };
enum status { DONE, OUT_OF_MEMORY, BAD_INDEX, BAD_SCORES };

typedef struct engine engine;

/* One training step or, without gradients, one evaluation. */
typedef struct {
    const float *const *parameters; /* four arrays per layer: means of weights (out, in) and biases
                                     * (out), then their log-scales, which have the same shapes, or
                                     * one number each where scales are not learned */
    float *const *gradients;        /* arrays of the same shapes, or NULL for an evaluation */
    const float *features;          /* (examples, inputs) */
    const float *labels;            /* (examples): −1 and 1, or class numbers from 0 */
    const int64_t *index;           /* (count): the examples that this step uses */
    int64_t examples;
    uint64_t seed, number; /* with the number of a chunk, the key of its random numbers */
    int32_t count;
    int32_t log_loss; /* 1: the gradient is that of −ln(1 − loss) instead of the loss */
    int32_t threads;
    double loss; /* the result: the sum of the linear losses of these examples */
} pb_step;

/* One tensor that Adam updates. A tensor of means has prior means; one of log-scales has none. */
typedef struct {
    float *value;
    const float *gradient; /* of the risk */
    float *moment1, *moment2;
    const float *prior_mean;      /* NULL for log-scales */
    const float *prior_log_scale; /* one number */
    int64_t count;
} pb_tensor;

/* One step of Adam on risk + coefficient·KL. */
typedef struct {
    const pb_tensor *tensors;
    int64_t steps; /* including this one */
    double coefficient, rate, beta1, beta2, epsilon;
    int32_t count; /* of tensors */
    int32_t threads;
} pb_update;

/* Training steps one after the other, each followed by Adam. */
typedef struct {
    pb_step first;                      /* its index lists the examples of all steps in turn */
    pb_update adam;                     /* after the first step */
    const int32_t *counts;              /* (steps): examples of each, instead of first.count */
    const double *rates, *coefficients; /* (steps): instead of those of adam */
    double *losses;                     /* (steps): the result */
    int32_t steps, done;                /* done: how many succeeded, a result */
} pb_training;

/* Draws of a network's output in double precision. */
typedef struct {
    const double *const *parameters; /* four arrays per layer: means of weights (out, in) and biases
                                      * (out), then their variances, in the same shapes */
    const double *units;    /* (depth + 1): the variance of all weights of a layer, or −1 if each
                             * has its own; otherwise the array of variances is not read */
    const int32_t *widths;  /* (depth + 2): of the inputs, the hidden layers and the output */
    const double *features; /* (examples, inputs) */
    const int32_t *labels;  /* (examples): class numbers, or NULL for outputs of all classes */
    const uint64_t *places; /* (examples): where the numbers of an example are, or NULL */
    double *out; /* (examples, draws): P(error) given the label, (examples, draws, outputs) without
                  * labels: F in [−1, 1] of two classes, P(class wins) of more */
    int64_t examples, first_draw, draws;
    uint64_t key;
    double step; /* of the quadrature over more than two classes, in smallest deviations */
    int32_t depth, activation, threads;
} pb_evaluation;

int pb_abi(void);

/* widths: of the inputs, `depth` hidden layers and the output. Returns NULL if memory runs out. */
engine *pb_open(int depth, const int32_t *widths, int activation, int estimator, int learned,
                int samples);
void pb_close(engine *e);

int pb_run(engine *e, pb_step *step); /* returns a status */
void pb_adam(engine *e, const pb_update *update);
int pb_train(engine *e, pb_training *job); /* returns the last step's status */

int pb_evaluate(const pb_evaluation *job); /* returns a status */

/* For tests: the pair of normals, or of uniforms, of each place; Φ(u); Φ at four
 * points from u on that are `step` apart; e^x. */
void pb_keyed(uint64_t key, uint64_t pair, const uint64_t *draws, const uint64_t *places,
              double *normals, double *uniforms, int64_t count);
void pb_cumulative(const double *u, double *out, int64_t count);
void pb_near_cumulative(const double *u, double step, double *out, int64_t count);
void pb_exponential(const double *x, double *out, int64_t count);

/* For tests: fill `out` with standard normals, or with uniform words, of one stream. */
void pb_normals(uint64_t seed, uint64_t step, uint64_t chunk, float *out, int64_t count);
void pb_words(uint64_t seed, uint64_t step, uint64_t chunk, uint32_t *out, int64_t count);

#endif
