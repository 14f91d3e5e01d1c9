/* PBGNet: every layer's signs are drawn anew from the average of its activations over the T rows
 * of an input, F = mean erf(u/√2), P(a = 1) = ½ + ½F; the first layer and the head are those of a
 * network of signs. */
#ifndef PACBAYES_TREE_H
#define PACBAYES_TREE_H

#include "first.h"
#include "random.h"

/* Replace the T rows of every input by their sum. */
static void sum_samples(const engine *e, int inputs, float *x) {
    int T = e->samples;
    for (int i = 0; i < inputs; i++, x += T) {
        vf lanes = all(0.0f);
        for (int t = 0; t < T; t += LANES) lanes += some(x + t, T - t);
        float total = sum(lanes);
        for (int t = 0; t < T; t++) x[t] = total;
    }
}

/* Draw unit j in every row, given the sum of erf(u/√2) over the rows of its input. */
static void draw_from_average(engine *e, group *p, int l, int j, const float *sums,
                              stream *random) {
    trace *h = &p->hidden[l];
    int R = p->rows, blocks = R / LANES, op = e->layers[l].op;
    float share = 1.0f / e->samples;
    vi *index = h->index + (size_t)(j / BITS) * blocks;
    stream r = *random;
    for (int b = 0; b < blocks; b++) {
        vf F = share * load(sums + b * LANES), tail = most(all(0.0f), 0.5f - 0.5f * magnitude(F));
        where positive = below(all(0.0f), F);
        where rare = less((vi)next_words(&r), rare_threshold(tail)), drawn = either(rare, positive);
        index[b] |= keep(drawn, 1 << j % BITS);
        if (!p->training) continue;
        vf score = 0.5f * inverse(choose(rare, tail, 1.0f - tail));
        h->rows[(size_t)b * op + j] = bits(drawn);
        store(h->score + (size_t)j * R + b * LANES, choose(drawn, score, -score));
    }
    *random = r;
}

/* Layer l > 0 below the head. */
static void tree_layer(engine *e, group *p, int l, int inputs, stream *random) {
    layer *y = &e->layers[l];
    trace *h = &p->hidden[l];
    int R = p->rows, blocks = R / LANES, groups = groups_of(y->in);
    vf *u = (vf *)p->spare;
    float *sums = p->dm;
    memset(h->index, 0, (size_t)groups_of(y->out) * blocks * sizeof(vi));
    for (int j = 0; j < y->out; j++) {
        all_signed_sums(groups, y->tables + (size_t)j * groups * ENTRIES, p->hidden[l - 1].index,
                        blocks, y->b[j] * y->inverse[j], u);
        for (int b = 0; b < blocks; b++) {
            normal n = normal_at(u[b]);
            vf value = negated(below(u[b], all(0.0f)), 1.0f - 2.0f * n.tail);
            size_t at = (size_t)j * R + b * LANES;
            store(sums + b * LANES, value);
            store(h->slope + at, 2.0f * n.density);
            store(h->value + at, value);
        }
        sum_samples(e, inputs, sums);
        draw_from_average(e, p, l, j, sums, random);
    }
}

/* Layer l > 0 below the head: p->weight has Σ_k dL/dF_k·erf(u_k/√2)/T of the units above in every
 * row, and then of its own. dL/dF of a unit is the sum over its rows of weight·a/2P(a). */
static void tree_backward(engine *e, group *p, int l, int inputs) {
    layer *y = &e->layers[l];
    trace *h = &p->hidden[l];
    int R = p->rows;
    float share = 1.0f / e->samples, *slope = p->spare;
    memset(p->total, 0, R * sizeof(float));
    for (int j = 0; j < y->out; j++) {
        size_t row = (size_t)j * R;
        for (int r = 0; r < R; r += LANES)
            store(slope + r, share * load(p->weight + r) * load(h->score + row + r));
        sum_samples(e, inputs, slope);
        vf gb = all(0.0f);
        for (int r = 0; r < R; r += LANES) {
            vf dF = load(slope + r), dm = dF * load(h->slope + row + r) * y->inverse[j];
            store(p->dm + row + r, dm);
            store(p->total + r, load(p->total + r) + dF * load(h->value + row + r));
            gb += dm;
        }
        p->gb[l][j] += sum(gb);
    }
    gradient_index(R / LANES, y->ip, p->hidden[l - 1].rows, p->gradient_index);
    signed_gradient(y->out, R, y->ip, p->dm, p->gradient_index, p->gw[l]);
    memcpy(p->weight, p->total, R * sizeof(float));
}

#endif
