/* Memory of an engine: taken once, freed together. */
#ifndef PACBAYES_SPACE_H
#define PACBAYES_SPACE_H

#include "first.h"

static int padded(int d) { return (d + PAD - 1) / PAD * PAD; }

static float *floats(engine *e, size_t count) {
    size_t size = (count * sizeof(float) + 63) / 64 * 64;
    void *p = e->failed ? NULL : aligned_alloc(64, size);
    if (!p) {
        e->failed = 1;
        return NULL;
    }
    e->owned[e->owned_count++] = p;
    return memset(p, 0, size);
}

/* Inputs of a chunk: 64 rows or more, few enough for the cache, that fill vectors best. */
static int chunk_inputs(int samples) {
    int least = samples >= 64 ? 1 : (64 + samples - 1) / samples, best = least;
    for (int i = least; (int64_t)i * samples <= 256; i++) {
        int64_t rows = (int64_t)i * samples, wasted = -rows & (LANES - 1);
        int64_t before = (int64_t)best * samples, had = -before & (LANES - 1);
        if (wasted * before < had * rows) best = i;
    }
    return best;
}

static void allocate_layer(engine *e, int l) {
    layer *y = &e->layers[l];
    y->sb = floats(e, y->op);
    if (l == 0) {
        y->wt = floats(e, (size_t)y->in * y->op);
        if (e->learned) y->st = floats(e, (size_t)y->in * y->op);
        return;
    }
    if (e->learned) y->s = floats(e, (size_t)y->out * y->in + LANES);
    if (e->activation != SIGN) return;
    y->inverse = floats(e, y->op);
    y->tables = floats(e, (size_t)y->out * groups_of(y->in) * ENTRIES);
}

static void allocate_trace(engine *e, trace *h, int l, size_t rows) {
    layer *y = &e->layers[l];
    size_t block = rows * y->op;
    if (e->activation == SIGN) {
        h->rows = (uint16_t *)floats(e, block);
        h->index = (vi *)floats(e, (size_t)groups_of(y->out) * rows);
        if (l == 0) return;
        h->slope = floats(e, block);
        if (spreads(e)) h->u = floats(e, block);
        if (e->estimator == TREE) h->value = floats(e, block), h->score = floats(e, block);
        return;
    }
    h->a = floats(e, block), h->at = floats(e, block), h->noise = floats(e, block + 2 * LANES);
    if (l > 0) h->dev = floats(e, e->learned ? block : rows);
}

static void allocate_group(engine *e, group *p, size_t rows, int widest) {
    p->hidden = calloc(e->depth, sizeof(trace));
    p->gw = calloc(4 * (e->depth + 1), sizeof(float *));
    if (!p->hidden || !p->gw) e->failed = 1;
    if (e->failed) return;
    p->gs = p->gw + e->depth + 1, p->gb = p->gs + e->depth + 1, p->gsb = p->gb + e->depth + 1;
    for (int l = 1; l <= e->depth; l++) {
        layer *y = &e->layers[l];
        p->gw[l] = floats(e, (size_t)y->out * y->ip), p->gb[l] = floats(e, y->op);
        p->gs[l] = floats(e, (size_t)y->out * y->ip), p->gsb[l] = floats(e, y->op);
    }
    for (int l = 0; l < e->depth; l++) allocate_trace(e, &p->hidden[l], l, rows);
    size_t block = rows * widest, first = (size_t)e->inputs * e->layers[0].op;
    p->mean = floats(e, first), p->dev = floats(e, first);
    p->dm = floats(e, block), p->dv = floats(e, block);
    p->da = floats(e, block), p->spare = floats(e, block);
    p->ranges = (e->layers[0].in + RANGE - 1) / RANGE;
    p->at = (int *)floats(e, (size_t)e->inputs * (e->layers[0].ip + LANES));
    p->ends = (int *)floats(e, (size_t)e->inputs * p->ranges);
    p->weight = floats(e, rows), p->output = floats(e, rows), p->total = floats(e, rows);
    p->head_u = floats(e, rows), p->head_inverse = floats(e, rows);
    if (outputs(e) > 1) {
        size_t scores = rows * e->layers[e->depth].op;
        p->score = floats(e, scores), p->score_inverse = floats(e, scores);
        p->label = floats(e, rows);
        p->of_classes = (vf *)floats(e, (size_t)3 * outputs(e) * LANES);
    }
    if (e->activation != SIGN) return;
    p->plus = floats(e, first), p->minus = floats(e, first);
    p->units = (uint16_t *)floats(e, (size_t)e->layers[0].op / LANES * rows);
    p->gradient_index = (vi *)floats(e, (size_t)groups_of(rows) * widest);
}

#endif
