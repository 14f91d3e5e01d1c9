/* Adam (Kingma & Ba 2015) on risk + c·KL(Q|P): the gradient of the KL joins where it is used. */
#ifndef PACBAYES_ADAM_H
#define PACBAYES_ADAM_H

#include <math.h>

#include "vector.h"

#define BLOCK 8192 /* entries of a task */

/* One tensor: its values and moments, the risk's gradient, the prior's mean and log-scale. Means
 * have a prior mean; log-scales have none, and NULL says so. */
typedef struct {
    float *value;
    const float *gradient;
    float *m, *v;
    const float *prior_mean, *prior_log_scale;
    int64_t count;
} tensor;

typedef struct {
    const tensor *tensors;
    float coefficient, complement1, beta2, complement2; /* 1 − β₁, β₂, 1 − β₂ */
    float rate, correction, epsilon;                    /* rate/(1 − β₁ᵗ), 1/√(1 − β₂ᵗ) */
} update;

/* LANES entries: ∇KL is c(μ − μ₀)/σ₀² for a mean, c(σ²/σ₀² − 1) for a log-scale. */
static inline void adam_lanes(const update *a, vf risk, vf prior, float s0, int mean, vf *value,
                              vf *m, vf *v) {
    vf slope = mean ? a->coefficient * expf(-2 * s0) * (*value - prior)
                    : a->coefficient * (exponential(2.0f * (*value - s0)) - 1.0f);
    vf g = risk + slope;
    *m += a->complement1 * (g - *m);
    *v = a->beta2 * *v + a->complement2 * g * g;
    vf root = *v * inverse_root(most(*v, all(1e-35f)));
    *value -= a->rate * *m * inverse(root * a->correction + a->epsilon);
}

static void adam_block(const update *a, const tensor *t, int64_t from, int64_t to) {
    float s0 = *t->prior_log_scale;
    int mean = t->prior_mean != NULL;
    for (int64_t i = from; i < to; i += LANES) {
        size_t n = to - i < LANES ? to - i : LANES;
        vf g = some(t->gradient + i, n), value = some(t->value + i, n), m = some(t->m + i, n);
        vf v = some(t->v + i, n), prior = mean ? some(t->prior_mean + i, n) : all(0.0f);
        adam_lanes(a, g, prior, s0, mean, &value, &m, &v);
        store_some(t->value + i, n, value);
        store_some(t->m + i, n, m);
        store_some(t->v + i, n, v);
    }
}

static void adam_task(void *argument, int n) {
    const update *a = argument;
    const tensor *t = a->tensors;
    int64_t block = n;
    for (; block >= (t->count + BLOCK - 1) / BLOCK; t++) block -= (t->count + BLOCK - 1) / BLOCK;
    int64_t from = block * BLOCK;
    adam_block(a, t, from, from + BLOCK < t->count ? from + BLOCK : t->count);
}

#endif
