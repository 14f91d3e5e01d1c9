/* A chunk of inputs forward: T samples of every activation, and the aggregated output. */
#ifndef PACBAYES_FORWARD_H
#define PACBAYES_FORWARD_H

#include "classes.h"
#include "tree.h"

static inline vf activated(int activation, vf z) {
    return activation == RELU ? most(all(0.0f), z) : inverse(1.0f + exponential(-z));
}

/* First layer of relu or sigmoid units: a = f(mean + dev·ε). */
static void first_pathwise(engine *e, group *p, int inputs, stream *random) {
    layer *y = &e->layers[0];
    trace *h = &p->hidden[0];
    int activation = e->activation, T = e->samples, op = y->op;
    fill_normals(random, h->noise, (size_t)p->rows * y->op);
    for (int r = 0; r < inputs * T; r++) {
        size_t from = (size_t)(r / T) * op, to = (size_t)r * op;
        for (int o = 0; o < op; o += LANES) {
            vf z = load(p->mean + from + o) + load(p->dev + from + o) * load(h->noise + to + o);
            store(h->at + to + o, activated(activation, z));
        }
        memset(h->at + to + y->out, 0, (op - y->out) * sizeof(float));
    }
    size_t used = (size_t)inputs * T; /* rows that only fill a vector must be finite */
    memset(h->at + used * op, 0, (p->rows - used) * op * sizeof(float));
    transpose(p->rows, y->op, h->at, y->op, h->a, p->rows);
}

/* First layer of sign units: probabilities and slopes once per input, then T draws. */
static void first_signs(engine *e, group *p, int inputs, stream *random) {
    layer *y = &e->layers[0];
    stream r = *random;
    int T = e->samples;
    for (int i = 0; i < inputs; i++)
        for (int o = 0; o < y->op; o += LANES) {
            size_t at = (size_t)i * y->op + o;
            vf u = load(p->mean + at) * inverse(load(p->dev + at));
            normal n = normal_at(u);
            where positive = below(all(0.0f), u);
            vf usual = n.density * inverse(1.0f - n.tail), rare = n.density * inverse(n.tail);
            if (p->training && scored(e, 0)) {
                store(p->plus + at, choose(positive, usual, rare));
                store(p->minus + at, -choose(positive, rare, usual));
            } else if (p->training) store(p->plus + at, 2.0f * n.density);
            vi threshold = rare_threshold(n.tail);
            uint16_t *units = p->units + (size_t)(o / LANES) * p->rows + i * T;
            for (int t = 0; t < T; t++)
                units[t] = bits(either(less((vi)next_words(&r), threshold), positive));
        }
    *random = r;
}

/* The first layer's bits turned, from those of units to those of rows. */
static void turn_bits(engine *e, group *p) {
    layer *y = &e->layers[0];
    trace *h = &p->hidden[0];
    int blocks = p->rows / LANES;
    memset(h->index, 0, (size_t)groups_of(y->out) * blocks * sizeof(vi));
    for (int b = 0; b < blocks; b++)
        for (int j = 0; j < y->out; j++) {
            const uint16_t *units = p->units + (size_t)(j / LANES) * p->rows + b * LANES;
            vi row = __builtin_convertvector(*(const half *)units, vi);
            where up = less((vi){0}, row & (1 << j % LANES));
            if (p->training) h->rows[(size_t)b * y->op + j] = bits(up);
            h->index[(size_t)(j / BITS) * blocks + b] |= keep(up, 1 << j % BITS);
        }
}

/* Σ_k a_k² of every row, into p->total. */
static void square_norms(group *p, const float *a, int units, int rows) {
    for (int r = 0; r < rows; r += LANES) {
        vf total = all(0.0f);
        for (int k = 0; k < units; k++) {
            vf x = load(a + (size_t)k * rows + r);
            total += x * x;
        }
        store(p->total + r, total);
    }
}

static void squares(const float *a, float *out, size_t count) {
    for (size_t i = 0; i < count; i += LANES) store(out + i, load(a + i) * load(a + i));
}

/* A few units of layer l > 0, relu or sigmoid, while their rows are in cache. */
static void pathwise_units(engine *e, group *p, int l, int from, int units, stream *random) {
    layer *y = &e->layers[l];
    trace *h = &p->hidden[l];
    int R = p->rows, learned = e->learned, activation = e->activation;
    size_t first = (size_t)from * R;
    product(units, R, y->in, y->w + (size_t)from * y->in, y->in, 1, p->hidden[l - 1].a, R,
            h->a + first, R, 0);
    if (learned)
        product(units, R, y->in, y->s + (size_t)from * y->in, y->in, 1, p->spare, R,
                h->dev + first, R, 0);
    fill_normals(random, h->noise + first, (size_t)units * R);
    for (int j = from; j < from + units; j++) {
        float bias = y->b[j], spread = y->sb[j];
        for (int r = 0; r < R; r += LANES) {
            size_t at = (size_t)j * R + r;
            vf dev = load(h->dev + (learned ? at : (size_t)r));
            if (learned) {
                vf variance = dev + spread;
                store(h->dev + at, dev = variance * inverse_root(variance));
            }
            vf z = load(h->a + at) + bias + dev * load(h->noise + at);
            store(h->a + at, activated(activation, z));
        }
    }
}

/* Layer l > 0 of relu or sigmoid units. */
static void pathwise_layer(engine *e, group *p, int l, stream *random) {
    layer *y = &e->layers[l];
    trace *h = &p->hidden[l];
    const float *below = p->hidden[l - 1].a;
    int R = p->rows;
    if (e->learned) squares(below, p->spare, (size_t)y->in * R);
    else {
        square_norms(p, below, y->in, R);
        for (int r = 0; r < R; r += LANES) {
            vf variance = y->unit * (load(p->total + r) + 1.0f);
            store(h->dev + r, variance * inverse_root(variance));
        }
    }
    for (int j = 0; j < y->out; j += TILE_ROWS)
        pathwise_units(e, p, l, j, y->out - j < TILE_ROWS ? y->out - j : TILE_ROWS, random);
    if (p->training) transpose(y->op, R, h->a, R, h->at, y->op);
}

/* Draw unit j of layer l > 0 in every row, given u; what only a gradient needs is kept only then. */
INLINE void draw_unit(const int training, engine *e, group *p, int l, int j, const vf *u,
                      stream *random) {
    trace *h = &p->hidden[l];
    int R = p->rows, blocks = R / LANES, op = e->layers[l].op, score = scored(e, l);
    vi *index = h->index + (size_t)(j / BITS) * blocks;
    stream r = *random;
    for (int b = 0; b < blocks; b++) {
        sign_draw d = draw_sign(u[b], &r);
        index[b] |= keep(d.up, 1 << j % BITS);
        if (!training) continue;
        size_t at = (size_t)j * R + b * LANES;
        h->rows[(size_t)b * op + j] = bits(d.up);
        store(h->slope + at, score ? d.score : 2.0f * d.density);
        if (h->u) store(h->u + at, u[b]);
    }
    *random = r;
}

/* Layer l > 0 of sign units. */
static void sign_layer(engine *e, group *p, int l, stream *random) {
    layer *y = &e->layers[l];
    int blocks = p->rows / LANES, groups = groups_of(y->in);
    vf *u = (vf *)p->spare;
    memset(p->hidden[l].index, 0, (size_t)groups_of(y->out) * blocks * sizeof(vi));
    for (int j = 0; j < y->out; j++) {
        all_signed_sums(groups, y->tables + (size_t)j * groups * ENTRIES, p->hidden[l - 1].index,
                        blocks, y->b[j] * y->inverse[j], u);
        if (p->training) draw_unit(1, e, p, l, j, u, random);
        else draw_unit(0, e, p, l, j, u, random);
    }
}

/* The aggregated head on relu or sigmoid units, R blocks of rows: u = mean/deviation. */
INLINE void head_tile(const int R, engine *e, group *p, int from) {
    layer *y = &e->layers[e->depth];
    const float *a = p->hidden[e->depth - 1].a + from;
    vf mean[MOST], variance[MOST];
#pragma GCC unroll 8
    for (int b = 0; b < R; b++) mean[b] = all(y->b[0]), variance[b] = all(0.0f);
    for (int k = 0; k < y->in; k++, a += p->rows)
#pragma GCC unroll 8
        for (int b = 0; b < R; b++) {
            vf x = load(a + b * LANES);
            mean[b] += y->w[k] * x;
            variance[b] += (e->learned ? y->s[k] : y->unit) * x * x;
        }
#pragma GCC unroll 8
    for (int b = 0; b < R; b++) {
        vf inverse = inverse_root(variance[b] + y->sb[0]);
        store(p->head_inverse + from + b * LANES, inverse);
        store(p->head_u + from + b * LANES, mean[b] * inverse);
    }
}

/* Means and inverse deviations of every class's score. */
static void class_scores(engine *e, group *p) {
    layer *y = &e->layers[e->depth];
    trace *h = &p->hidden[e->depth - 1];
    int R = p->rows, blocks = R / LANES, groups = groups_of(y->in);
    if (e->activation == SIGN) {
        for (int j = 0; j < y->out; j++) {
            vf *u = (vf *)(p->score + (size_t)j * R);
            all_signed_sums(groups, y->tables + (size_t)j * groups * ENTRIES, h->index, blocks,
                            y->b[j] * y->inverse[j], u);
            for (int b = 0; b < blocks; b++) {
                u[b] *= 1.0f / y->inverse[j];
                store(p->score_inverse + (size_t)j * R + b * LANES, all(y->inverse[j]));
            }
        }
        return;
    }
    product(y->out, R, y->in, y->w, y->in, 1, h->a, R, p->score, R, 0);
    if (e->learned) {
        squares(h->a, p->spare, (size_t)y->in * R);
        product(y->out, R, y->in, y->s, y->in, 1, p->spare, R, p->score_inverse, R, 0);
    } else square_norms(p, h->a, y->in, R);
    for (int j = 0; j < y->out; j++)
        for (int r = 0; r < R; r += LANES) {
            size_t at = (size_t)j * R + r;
            vf variance = e->learned ? load(p->score_inverse + at) : y->unit * load(p->total + r);
            store(p->score_inverse + at, inverse_root(variance + y->sb[j]));
            store(p->score + at, load(p->score + at) + y->b[j]);
        }
}

/* More than two classes: output = P(label) for every row, and its slopes where they are wanted. */
static void class_head(engine *e, group *p) {
    int k = outputs(e);
    class_scores(e, p);
    for (int r = 0; r < p->rows; r += LANES) {
        vf *scratch = p->of_classes;
        scores s = {k, p->rows, p->score + r, p->score_inverse + r, load(p->label + r),
                    scratch, scratch + k, scratch + 2 * k};
        float *dm = p->training ? p->dm + r : NULL;
        store(p->output + r, win_probability(&s, dm, p->dv + r));
    }
}

/* The aggregated head, output = erf(u/√2) for every row. */
static void head(engine *e, group *p) {
    layer *y = &e->layers[e->depth];
    int blocks = p->rows / LANES;
    if (e->activation == SIGN) {
        all_signed_sums(groups_of(y->in), y->tables, p->hidden[e->depth - 1].index, blocks,
                        y->b[0] * y->inverse[0], (vf *)p->head_u);
        for (int r = 0; r < p->rows; r += LANES) store(p->head_inverse + r, all(y->inverse[0]));
    } else
        for (int b = 0, R; b < blocks; b += R) {
            R = part_of(blocks, b);
#define CALL(N) head_tile(N, e, p, b * LANES)
            WITH_CONSTANT(R, CALL)
#undef CALL
        }
    for (int r = 0; r < p->rows; r += LANES)
        store(p->output + r, error_function(load(p->head_u + r)));
}

static void forward(engine *e, group *p, const float *x, const int64_t *index, int start,
                    int inputs, stream *random) {
    p->rows = (inputs * e->samples + LANES - 1) / LANES * LANES;
    first_moments(e, p, x, index, start, inputs);
    if (e->activation == SIGN) {
        first_signs(e, p, inputs, random);
        turn_bits(e, p);
        for (int l = 1; l < e->depth; l++)
            if (e->estimator == TREE) tree_layer(e, p, l, inputs, random);
            else sign_layer(e, p, l, random);
    } else {
        first_pathwise(e, p, inputs, random);
        for (int l = 1; l < e->depth; l++) pathwise_layer(e, p, l, random);
    }
    (outputs(e) > 1 ? class_head : head)(e, p);
}

#endif
