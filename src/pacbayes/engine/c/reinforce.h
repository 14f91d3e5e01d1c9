/* REINFORCE on weights: T draws of all of them, each shared by the batch.
 *
 * A draw is one vector θ = μ + σε, layer by layer: weights, (in, op) of the first layer and (out, in)
 * of the others, rounded up to whole vectors, and biases, (op). */
#ifndef PACBAYES_REINFORCE_H
#define PACBAYES_REINFORCE_H

#include "forward.h"
#include "gradients.h"
#include "space.h"

static size_t weights_of(const engine *e, int l) {
    const layer *y = &e->layers[l];
    size_t count = l ? (size_t)y->out * y->in : (size_t)y->in * y->op;
    return (count + PAD - 1) / PAD * PAD;
}

/* Where layer l begins; of depth + 1, how long the vector is. */
static size_t place_of(const engine *e, int l) {
    size_t place = 0;
    for (int below = 0; below < l; below++) place += weights_of(e, below) + e->layers[below].op;
    return place;
}

static void allocate_draws(engine *e) {
    size_t count = place_of(e, e->depth + 1) + 2 * LANES;
    e->centre = floats(e, count);
    for (int g = 0; g < GROUPS; g++) {
        group *p = &e->groups[g];
        p->noise = floats(e, count), p->drawn = floats(e, count), p->sum = floats(e, count);
    }
}

/* The means, laid out like a draw. */
static void lay_out(engine *e) {
    for (int l = 0; l <= e->depth; l++) {
        layer *y = &e->layers[l];
        float *to = e->centre + place_of(e, l);
        size_t count = l ? (size_t)y->out * y->in : (size_t)y->in * y->op;
        memcpy(to, l ? y->w : y->wt, count * sizeof(float));
        memcpy(to + weights_of(e, l), y->b, y->out * sizeof(float));
    }
}

static void draw_weights(engine *e, group *p, stream *random) {
    fill_normals(random, p->noise, place_of(e, e->depth + 1));
    for (int l = 0; l <= e->depth; l++) {
        float sigma = sqrtf(e->layers[l].unit);
        for (size_t i = place_of(e, l); i < place_of(e, l + 1); i += LANES)
            store(p->drawn + i, load(e->centre + i) + sigma * load(p->noise + i));
    }
}

static inline vf unit_of(int activation, vf z) {
    if (activation == SIGN) return choose(below(z, all(0.0f)), all(-1.0f), all(1.0f));
    return activated(activation, z);
}

/* Activations of the first layer, (op, rows), into p->da. */
static void drawn_first(engine *e, group *p, const float *x, const int64_t *index, int start,
                        int inputs) {
    layer *y = &e->layers[0];
    const float *b = p->drawn + weights_of(e, 0);
    if (p->found != start) find_entries(e, p, x, index + start, start, inputs);
    p->found = start;
    sparse_product(y, p, x, index + start, inputs, 0, p->drawn, b, y->op, p->mean);
    memset(p->dm, 0, (size_t)p->rows * y->op * sizeof(float));
    for (size_t i = 0; i < (size_t)inputs * y->op; i += LANES)
        store(p->dm + i, unit_of(e->activation, load(p->mean + i)));
    transpose(p->rows, y->op, p->dm, y->op, p->da, p->rows);
}

/* How many of a chunk's examples the drawn network gets wrong. */
static int drawn_errors(job *j, group *p, int start, int inputs) {
    engine *e = j->e;
    int R = p->rows = (inputs + LANES - 1) / LANES * LANES, wrong = 0;
    float *from = p->da, *to = p->dv;
    drawn_first(e, p, j->x, j->index, start, inputs);
    for (int l = 1; l <= e->depth; l++) {
        layer *y = &e->layers[l];
        const float *w = p->drawn + place_of(e, l), *b = w + weights_of(e, l);
        product(y->out, R, y->in, w, y->in, 1, from, R, to, R, 0);
        for (int o = 0; o < y->out; o++)
            for (int r = 0; r < R; r += LANES) {
                float *at = to + (size_t)o * R + r;
                vf z = load(at) + b[o];
                store(at, l < e->depth ? unit_of(e->activation, z) : z);
            }
        float *other = from;
        from = to, to = other;
    }
    for (int i = 0; i < inputs; i++)
        wrong += (from[i] >= 0) != (j->y[j->index[start + i]] > 0);
    return wrong;
}

/* The draws of one group: Σ_t loss_t·ε_t/(σTB), the gradient in the means. */
static void reinforce_task(void *argument, int n) {
    job *j = argument;
    engine *e = j->e;
    group *p = &e->groups[n];
    size_t count = place_of(e, e->depth + 1);
    memset(p->sum, 0, count * sizeof(float));
    p->loss = 0, p->found = -1;
    int last = (int)((int64_t)e->draws * (n + 1) / GROUPS);
    for (int t = (int)((int64_t)e->draws * n / GROUPS); t < last; t++) {
        stream random = open_stream(j->seed, j->step, t);
        draw_weights(e, p, &random);
        int wrong = 0;
        for (int start = 0; start < j->count; start += e->inputs)
            wrong += drawn_errors(
                j, p, start, j->count - start < e->inputs ? j->count - start : e->inputs);
        p->loss += (double)wrong / e->draws;
        for (int l = 0; l <= e->depth; l++) {
            float c = wrong / ((float)j->count * e->draws * sqrtf(e->layers[l].unit));
            for (size_t i = place_of(e, l); i < place_of(e, l + 1); i += LANES)
                store(p->sum + i, load(p->sum + i) + c * load(p->noise + i));
        }
    }
}

static inline vf summed(const engine *e, size_t i) {
    vf total = all(0.0f);
    for (int g = 0; g < GROUPS; g++) total += load(e->groups[g].sum + i);
    return total;
}

/* Layer l: the groups' sums, in the caller's arrays. */
static void reinforce_gradient_task(void *argument, int l) {
    job *j = argument;
    engine *e = j->e;
    layer *y = &e->layers[l];
    float *const *to = j->gradients + 4 * l;
    size_t place = place_of(e, l), biases = place + weights_of(e, l);
    for (int o = 0; o < y->out; o += LANES) put(to[1], o, y->out, summed(e, biases + o));
    if (l) {
        int count = y->out * y->in;
        for (int i = 0; i < count; i += LANES) put(to[0], i, count, summed(e, place + i));
        return;
    }
    for (int k = 0; k < y->in; k += LANES)
        for (int o = 0; o < y->out; o += LANES) {
            float block[LANES * LANES] = {0}, turned[LANES * LANES];
            for (int c = 0; c < LANES && k + c < y->in; c++)
                store(block + c * LANES, summed(e, place + (size_t)(k + c) * y->op + o));
            transpose_block(block, LANES, turned, LANES);
            for (int r = 0; r < LANES && o + r < y->out; r++)
                put(to[0] + (size_t)(o + r) * y->in, k, y->in, load(turned + r * LANES));
        }
}

static void reinforce(job *j, int threads) {
    engine *e = j->e;
    lay_out(e);
    run_tasks(&e->threads, threads, GROUPS, reinforce_task, j);
    run_tasks(&e->threads, threads, e->depth + 1, reinforce_gradient_task, j);
}

#endif
