/* A step's parameters laid out for its products. */
#ifndef PACBAYES_WEIGHTS_H
#define PACBAYES_WEIGHTS_H

#include <math.h>

#include "first.h"

static void variances(const float *logs, float *out, size_t count) {
    size_t i = 0;
    for (; i + LANES <= count; i += LANES) store(out + i, exponential(2.0f * load(logs + i)));
    for (; i < count; i++) out[i] = expf(2 * logs[i]);
}

/* LANES units of the first layer, transposed. */
static void load_first(engine *e, int j) {
    layer *y = &e->layers[0];
    int rows = y->out - j < LANES ? y->out - j : LANES;
    float block[LANES * LANES] = {0}, turned[LANES * LANES];
    for (int learned = 0; learned <= e->learned; learned++)
        for (int k = 0; k < y->in; k += LANES) {
            const float *from = (learned ? y->log_w : y->w) + (size_t)j * y->in;
            float *to = (learned ? y->st : y->wt) + (size_t)k * y->op + j;
            int columns = y->in - k < LANES ? y->in - k : LANES;
            for (int r = 0; r < rows; r++) {
                vf v = entries(from + (size_t)r * y->in, k, y->in);
                store(block + r * LANES, learned ? exponential(2.0f * v) : v);
            }
            transpose_block(block, LANES, turned, LANES);
            for (int c = 0; c < columns; c++) store(to + (size_t)c * y->op, load(turned + c * LANES));
        }
}

/* Another layer: variances, and tables where signs are below. */
static void load_layer(engine *e, int l) {
    layer *y = &e->layers[l];
    if (e->learned) variances(y->log_w, y->s, (size_t)y->out * y->in);
    if (e->activation != SIGN) return;
    int groups = groups_of(y->in);
    for (int j = 0; j < y->out; j++) {
        float variance = y->unit * y->in;
        if (e->learned) {
            variance = 0;
            for (int k = 0; k < y->in; k++) variance += y->s[(size_t)j * y->in + k];
        }
        y->inverse[j] = 1.0f / sqrtf(variance + y->sb[j]);
        build_tables(y->in, y->w + (size_t)j * y->in, y->inverse[j],
                     y->tables + (size_t)j * groups * ENTRIES);
    }
}

static int first_tasks(const engine *e) { return e->layers[0].op / LANES; }

static void load_task(void *argument, int n) {
    engine *e = ((job *)argument)->e;
    if (n >= first_tasks(e)) load_layer(e, n - first_tasks(e) + 1);
    else if (n * LANES < e->layers[0].out) load_first(e, n * LANES);
}

static void take_parameters(engine *e, const float *const *parameters) {
    for (int l = 0; l <= e->depth; l++, parameters += 4) {
        layer *y = &e->layers[l];
        y->w = parameters[0], y->b = parameters[1], y->log_w = parameters[2];
        y->log_b = parameters[3];
        y->unit = expf(2 * y->log_w[0]);
        for (int o = 0; o < y->op; o++) /* a padding unit must not divide by zero */
            y->sb[o] = o >= y->out ? 1.0f : e->learned ? expf(2 * y->log_b[o])
                     : e->estimator == TREE ? 0.0f : y->unit; /* PBGNet leaves biases out */
    }
}

#endif
