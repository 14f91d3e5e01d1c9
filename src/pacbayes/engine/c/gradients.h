/* Gradients of a step put together, in the caller's arrays. */
#ifndef PACBAYES_GRADIENTS_H
#define PACBAYES_GRADIENTS_H

#include "first.h"

/* Gradient of LANES columns of the first layer's weights, into the caller's arrays. A variance is
 * e^{2ρ} in the log-scale ρ, so its gradient gets a factor 2σ². */
static void first_columns(job *j, int k, float *G) {
    engine *e = j->e;
    layer *y = &e->layers[0];
    for (int learned = 0; learned <= e->learned; learned++) {
        pixel_gradient(e, j->x, j->index, j->count, k, learned, G);
        for (int o = 0; o < y->out; o += LANES) {
            float turned[LANES * LANES];
            transpose_block(G + o, y->op, turned, LANES);
            for (int r = 0; r < LANES && o + r < y->out; r++) {
                vf g = load(turned + r * LANES);
                size_t row = (size_t)(o + r) * y->in;
                if (learned) g *= 2.0f * exponential(2.0f * entries(y->log_w + row, k, y->in));
                put(j->gradients[learned ? 2 : 0] + row, k, y->in, g);
            }
        }
    }
}

/* Gradient of the first layer's biases. */
static void first_biases(job *j) {
    engine *e = j->e;
    layer *y = &e->layers[0];
    for (int learned = 0; learned <= e->learned; learned++)
        for (int o = 0; o < y->out; o += LANES) {
            const float *d = (learned ? e->dv1 : e->d1) + o;
            vf total = all(0.0f);
            for (int i = 0; i < j->count; i++) total += load(d + (size_t)i * y->op);
            if (learned) total *= 2.0f * load(y->sb + o);
            put(j->gradients[learned ? 3 : 1], o, y->out, total);
        }
}

/* Another layer: the groups' partial gradients summed in their fixed order. */
static void sum_layer(job *j, int l) {
    engine *e = j->e;
    layer *y = &e->layers[l];
    float *const *to = j->gradients + 4 * l;
    for (int o = 0; o < y->out; o++) {
        float gb = 0, gsb = 0;
        for (int g = 0; g < GROUPS; g++) gb += e->groups[g].gb[l][o], gsb += e->groups[g].gsb[l][o];
        to[1][o] = gb;
        if (e->learned) to[3][o] = 2 * y->sb[o] * gsb;
        for (int k = 0; k < y->in; k += LANES) {
            size_t from = (size_t)o * y->ip + k, row = (size_t)o * y->in;
            vf gw = all(0.0f), gs = all(0.0f);
            for (int g = 0; g < GROUPS; g++) gw += load(e->groups[g].gw[l] + from);
            put(to[0] + row, k, y->in, gw);
            if (!e->learned) continue;
            for (int g = 0; g < GROUPS; g++) gs += load(e->groups[g].gs[l] + from);
            if (e->activation == SIGN) gs = all(gsb); /* the square of a sign is one */
            put(to[2] + row, k, y->in, 2.0f * gs * entries(y->s + row, k, y->in));
        }
    }
}

static void gradient_task(void *argument, int n) {
    job *j = argument;
    int blocks = (j->e->layers[0].in + LANES - 1) / LANES;
    if (n < blocks) {
        float *G = aligned_alloc(64, (size_t)LANES * j->e->layers[0].op * sizeof(float));
        if (G) first_columns(j, n * LANES, G);
        else j->e->failed = 1;
        free(G);
    } else if (n == blocks) first_biases(j);
    else sum_layer(j, n - blocks);
}

#endif
