/* A chunk backward: from dL/dF of every row to the partial gradients of its group. */
#ifndef PACBAYES_BACKWARD_H
#define PACBAYES_BACKWARD_H

#include "forward.h"

/* Activation of a sign unit in a block of rows. */
static inline vf sign_of(const trace *h, int op, int block, int unit) {
    return choose(from_bits(h->rows[(size_t)block * op + unit]), all(1.0f), all(-1.0f));
}

/* Gradients of layer l's means and variances, of relu or sigmoid units below. */
static void weight_gradient(engine *e, group *p, int l) {
    layer *y = &e->layers[l];
    const float *at = p->hidden[l - 1].at;
    int R = p->rows;
    product(y->out, y->ip, R, p->dm, R, 1, at, y->ip, p->gw[l], y->ip, 1);
    if (!e->learned) return;
    squares(at, p->spare, (size_t)R * y->ip);
    product(y->out, y->ip, R, p->dv, R, 1, p->spare, y->ip, p->gs[l], y->ip, 1);
}

/* The head's gradient in its moments, into rows 0 of dm and dv. */
static void head_moments_backward(engine *e, group *p) {
    vf gb = all(0.0f), gsb = all(0.0f);
    for (int r = 0; r < p->rows; r += LANES) {
        vf u = load(p->head_u + r), inverse = load(p->head_inverse + r);
        vf dm = load(p->weight + r) * 0.79788456f * exponential(-0.5f * u * u) * inverse;
        vf dv = -0.5f * dm * u * inverse;
        store(p->dm + r, dm);
        store(p->dv + r, dv);
        gb += dm, gsb += dv;
    }
    p->gb[e->depth][0] += sum(gb);
    p->gsb[e->depth][0] += sum(gsb);
}

/* The head: its own gradient, and dL/da of the last hidden layer where there is a path. */
static void head_backward(engine *e, group *p) {
    layer *y = &e->layers[e->depth];
    trace *h = &p->hidden[e->depth - 1];
    int R = p->rows, signs = e->activation == SIGN, local = e->estimator == LOCAL_EXPECTATION;
    head_moments_backward(e, p);
    if (signs) {
        gradient_index(R / LANES, y->ip, h->rows, p->gradient_index);
        signed_gradient(1, R, y->ip, p->dm, p->gradient_index, p->gw[e->depth]);
        if (scored(e, e->depth - 1)) return;
    }
    for (int k = 0; k < y->in; k++) {
        vf gw = all(0.0f), gs = all(0.0f);
        float w = y->w[k], s = e->learned ? y->s[k] : y->unit;
        for (int r = 0; r < R; r += LANES) {
            size_t at = (size_t)k * R + r;
            vf a = signs ? sign_of(h, y->ip, r / LANES, k) : load(h->a + at);
            vf dm = load(p->dm + r), dv = load(p->dv + r), da = dm * w + 2.0f * dv * s * a;
            if (signs && local) { /* ½a[F − F(a flipped)] */
                vf moved = load(p->head_u + r) - 2.0f * w * a * load(p->head_inverse + r);
                vf change = load(p->output + r) - error_function(moved);
                da = 0.5f * load(p->weight + r) * a * change;
            }
            store(p->da + at, da);
            gw += dm * a, gs += dv * a * a;
        }
        if (signs) continue;
        p->gw[e->depth][k] += sum(gw);
        p->gs[e->depth][k] += sum(gs);
    }
}

static void path_below(engine *e, group *p, int l);

/* p->total = 2·Σ_j dL/dvariance_j of every row. */
static void sum_spreads(group *p, int units) {
    for (int r = 0; r < p->rows; r += LANES) {
        vf total = all(0.0f);
        for (int j = 0; j < units; j++) total += 2.0f * load(p->dv + (size_t)j * p->rows + r);
        store(p->total + r, total);
    }
}

/* The head of more than two classes: the slopes that class_head left, times dL/dP. */
static void class_head_backward(engine *e, group *p) {
    layer *y = &e->layers[e->depth];
    trace *h = &p->hidden[e->depth - 1];
    int R = p->rows;
    for (int j = 0; j < y->out; j++) {
        vf gb = all(0.0f), gsb = all(0.0f);
        for (int r = 0; r < R; r += LANES) {
            size_t at = (size_t)j * R + r;
            vf weight = load(p->weight + r), dm = load(p->dm + at) * weight, dv = load(p->dv + at) * weight;
            store(p->dm + at, dm);
            store(p->dv + at, dv);
            gb += dm, gsb += dv;
        }
        p->gb[e->depth][j] += sum(gb);
        p->gsb[e->depth][j] += sum(gsb);
    }
    if (e->activation == SIGN) {
        gradient_index(R / LANES, y->ip, h->rows, p->gradient_index);
        signed_gradient(y->out, R, y->ip, p->dm, p->gradient_index, p->gw[e->depth]);
        if (scored(e, e->depth - 1)) return;
    } else weight_gradient(e, p, e->depth);
    if (!e->learned) sum_spreads(p, y->out);
    path_below(e, p, e->depth);
}

/* Weights of the scores: dL/dF times F less its baseline, the other samples of the input. */
static void score_weights(engine *e, group *p, int inputs) {
    int T = e->samples, baseline = e->estimator == LEAVE_ONE_OUT || e->estimator == LOCAL_EXPECTATION;
    for (int i = 0; i < inputs; i++) {
        const float *output = p->output + (size_t)i * T;
        float *weight = p->weight + (size_t)i * T, total = 0;
        for (int t = 0; t < T; t++) total += output[t];
        for (int t = 0; t < T; t++)
            weight[t] *= output[t] - (baseline ? (total - output[t]) / (T - 1) : 0);
    }
}

/* dL/dmean and dL/dvariance of sign units above the first layer, u = mean/deviation. */
static void sign_moments_backward(engine *e, group *p, int l) {
    layer *y = &e->layers[l];
    trace *h = &p->hidden[l];
    int R = p->rows, score = scored(e, l);
    for (int j = 0; j < y->out; j++) {
        float inverse = y->inverse[j];
        vf gb = all(0.0f), gsb = all(0.0f);
        for (int r = 0; r < R; r += LANES) {
            size_t at = (size_t)j * R + r;
            vf m = load(h->slope + at) * load(score ? p->weight + r : p->da + at) * inverse;
            store(p->dm + at, m);
            gb += m;
            if (!h->u) continue;
            vf v = -0.5f * inverse * m * load(h->u + at);
            store(p->dv + at, v);
            gsb += v;
        }
        p->gb[l][j] += sum(gb);
        p->gsb[l][j] += sum(gsb);
    }
}

static inline vf slope_of(int activation, vf a, vf da) {
    return activation == RELU ? choose(below(all(0.0f), a), da, all(0.0f)) : da * a * (1.0f - a);
}

/* The same of relu or sigmoid units, z = mean + dev·ε; at unit scales p->total has Σ_j dz_j·ε_j. */
static void pathwise_moments_backward(engine *e, group *p, int l) {
    layer *y = &e->layers[l];
    trace *h = &p->hidden[l];
    int R = p->rows, learned = e->learned, activation = e->activation;
    memset(p->total, 0, R * sizeof(float));
    for (int j = 0; j < y->out; j++) {
        vf gb = all(0.0f), gsb = all(0.0f);
        for (int r = 0; r < R; r += LANES) {
            size_t at = (size_t)j * R + r;
            vf dz = slope_of(activation, load(h->a + at), load(p->da + at));
            vf moved = dz * load(h->noise + at);
            store(p->dm + at, dz);
            gb += dz;
            if (!learned) {
                store(p->total + r, load(p->total + r) + moved);
                continue;
            }
            vf v = 0.5f * moved * inverse(load(h->dev + at));
            store(p->dv + at, v);
            gsb += v;
        }
        p->gb[l][j] += sum(gb);
        p->gsb[l][j] += sum(gsb);
    }
    for (int r = 0; r < R && !learned; r += LANES)
        store(p->total + r, load(p->total + r) * inverse(load(h->dev + r)));
}

/* dL/da of the layer below l: through the means, and through the variances, Σ_k σ²a_k². Where all
 * variances are equal p->total has their slopes, twice their sum. */
static void path_below(engine *e, group *p, int l) {
    layer *y = &e->layers[l];
    trace *from = &p->hidden[l - 1];
    int R = p->rows, signs = e->activation == SIGN, learned = e->learned;
    product(y->in, R, y->out, y->w, 1, y->in, p->dm, R, p->da, R, 0);
    if (learned) product(y->in, R, y->out, y->s, 1, y->in, p->dv, R, p->spare, R, 0);
    else
        for (int r = 0; r < R; r += LANES) store(p->total + r, y->unit * load(p->total + r));
    for (int k = 0; k < y->in; k++)
        for (int r = 0; r < R; r += LANES) {
            size_t at = (size_t)k * R + r;
            vf a = signs ? sign_of(from, y->ip, r / LANES, k) : load(from->a + at);
            vf spread = learned ? 2.0f * load(p->spare + at) : load(p->total + r);
            store(p->da + at, load(p->da + at) + a * spread);
        }
}

/* Layer l > 0: its gradients, and dL/da of the layer below where the path goes on. */
static void layer_backward(engine *e, group *p, int l) {
    layer *y = &e->layers[l];
    trace *from = &p->hidden[l - 1];
    int R = p->rows;
    if (e->activation == SIGN) {
        sign_moments_backward(e, p, l);
        gradient_index(R / LANES, y->ip, from->rows, p->gradient_index);
        signed_gradient(y->out, R, y->ip, p->dm, p->gradient_index, p->gw[l]);
        if (e->estimator != STRAIGHT_THROUGH) return;
        if (!e->learned) sum_spreads(p, y->out);
    } else {
        pathwise_moments_backward(e, p, l);
        weight_gradient(e, p, l);
    }
    path_below(e, p, l);
}

/* First layer of scored signs: a sample's slope is one of two, so the weights of each are summed. */
static void first_scores(engine *e, group *p, int i, float *d, float *dv) {
    layer *y = &e->layers[0];
    const float *weight = p->weight + (size_t)i * e->samples;
    float total = 0;
    for (int t = 0; t < e->samples; t++) total += weight[t];
    for (int o = 0; o < y->op; o += LANES) {
        size_t at = (size_t)i * y->op + o;
        const uint16_t *units = p->units + (size_t)(o / LANES) * p->rows + (size_t)i * e->samples;
        vf up = all(0.0f), inv = inverse(load(p->dev + at));
        for (int t = 0; t < e->samples; t++)
            up += choose(from_bits(units[t]), all(weight[t]), all(0.0f));
        vf m = (load(p->plus + at) * up + load(p->minus + at) * (total - up)) * inv;
        store(d + o, m);
        if (e->learned) store(dv + o, -0.5f * m * load(p->mean + at) * inv * inv);
    }
}

/* First layer of a path, of any unit: T rows of dL/da summed into dL/dmean and dL/dvariance. */
static void first_path(engine *e, group *p, int i, float *d, float *dv) {
    layer *y = &e->layers[0];
    trace *h = &p->hidden[0];
    int T = e->samples, activation = e->activation, op = y->op;
    for (int o = 0; o < op; o += LANES) {
        size_t at = (size_t)i * op + o;
        vf m = all(0.0f), moved = all(0.0f), inv = inverse(load(p->dev + at));
        for (int t = 0; t < T; t++) {
            size_t row = ((size_t)i * T + t) * op + o;
            vf da = load(p->spare + row);
            if (activation != SIGN) {
                da = slope_of(activation, load(h->at + row), da);
                moved += da * load(h->noise + row);
            }
            m += da;
        }
        if (activation == SIGN) {
            m = m * load(p->plus + at) * inv;
            moved = -m * load(p->mean + at) * inv;
        }
        store(d + o, m);
        if (e->learned) store(dv + o, 0.5f * moved * inv);
    }
}

static void backward(engine *e, group *p, int start, int inputs) {
    (outputs(e) > 1 ? class_head_backward : head_backward)(e, p);
    if (scored(e, 0)) score_weights(e, p, inputs);
    for (int l = e->depth - 1; l > 0; l--)
        if (e->estimator == TREE) tree_backward(e, p, l, inputs);
        else layer_backward(e, p, l);
    int op = e->layers[0].op;
    if (!scored(e, 0)) transpose(op, p->rows, p->da, p->rows, p->spare, op);
    for (int i = 0; i < inputs; i++) {
        size_t row = (size_t)(start + i) * op;
        (scored(e, 0) ? first_scores : first_path)(e, p, i, e->d1 + row, e->learned ? e->dv1 + row : NULL);
    }
}

#endif
