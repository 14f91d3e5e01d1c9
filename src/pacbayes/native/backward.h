/* A chunk backward: from dL/dF of every row to the partial gradients of its group. */
#ifndef PACBAYES_BACKWARD_H
#define PACBAYES_BACKWARD_H

/* Slope of the output in each unit of the last hidden layer, ½a_i[F − F(a_i flipped)]. */
static void flipped_row(const layer *y, const float *a, float u, float dev, float output,
                        float weight, float *da) {
    for (int k = 0; k < y->ip; k += LANES) {
        vf s = load(a + k);
        vf flipped = 2.0f * normal_at(u - 2.0f / dev * s * load(y->w + k)).upper - 1.0f;
        store(da + k, 0.5f * weight * s * (output - flipped));
    }
}

/* The head: its own gradient, and dL/da of the last hidden layer where there is a path. */
static void head_backward(engine *e, group *p, int rows) {
    layer *y = &e->layers[e->depth];
    const float *a = p->hidden[e->depth - 1].a;
    float *gw = p->gw[e->depth], *gs = p->gs[e->depth], *da = p->da;
    int local = e->activation == SIGN && e->estimator == LOCAL_EXPECTATION;
    for (int r = 0; r < rows; r++, a += y->ip, da += y->ip) {
        float u = p->ou[r], dev = p->odev[r], weight = p->weight[r];
        float du = weight * 0.79788456f * expf(-0.5f * u * u);
        float dm = du / dev, dv = -0.5f * dm * u / dev;
        p->gb[e->depth][0] += dm;
        p->gsb[e->depth][0] += dv;
        for (int k = 0; k < y->ip; k += LANES) {
            vf x = load(a + k);
            store(gw + k, load(gw + k) + dm * x);
            store(gs + k, load(gs + k) + dv * x * x);
            store(da + k, dm * load(y->w + k) + 2.0f * dv * x * load(y->s + k));
        }
        if (local) flipped_row(y, a, u, dev, p->output[r], weight, da);
    }
}

/* Weights of the scores: dL/dF times F less its baseline, the other samples of the input. */
static void score_weights(engine *e, group *p, int inputs) {
    int T = e->samples;
    for (int i = 0; i < inputs; i++) {
        const float *output = p->output + (size_t)i * T;
        float *weight = p->weight + (size_t)i * T, total = 0;
        for (int t = 0; t < T; t++) total += output[t];
        for (int t = 0; t < T; t++)
            weight[t] *= output[t] - (e->estimator == MARGINAL ? 0 : (total - output[t]) / (T - 1));
    }
}

/* dL/dmean and dL/dvariance of one row of sign units, u = mean/dev. */
static void sign_row_backward(int op, const float *u, const float *dev, const float *slope,
                              const float *da, const float *weight, float *dm, float *dv) {
    for (int o = 0; o < op; o += LANES) {
        vf s = load(dev + o), m = load(slope + o) * (weight ? all(*weight) : load(da + o)) / s;
        store(dm + o, m);
        store(dv + o, -0.5f * m * load(u + o) / s);
    }
}

/* The same of relu or sigmoid units, z = mean + dev·ε. */
static void pathwise_row_backward(int activation, int op, const float *a, const float *noise,
                                  const float *dev, const float *da, float *dm, float *dv) {
    for (int o = 0; o < op; o += LANES) {
        vf f = load(a + o), g = load(da + o);
        vf dz = activation == RELU ? choose(f > 0.0f, g, all(0.0f)) : g * f * (1.0f - f);
        store(dm + o, dz);
        store(dv + o, 0.5f * dz * load(noise + o) / load(dev + o));
    }
}

static void add_rows(const float *rows, int count, int op, float *out) {
    for (int r = 0; r < count; r++)
        for (int o = 0; o < op; o += LANES)
            store(out + o, load(out + o) + load(rows + (size_t)r * op + o));
}

/* Gradients of layer l > 0, and dL/da of the layer below where the path goes on. */
static void layer_backward(engine *e, group *p, int l, int rows) {
    layer *y = &e->layers[l];
    const float *below = p->hidden[l - 1].a;
    product(y->out, y->ip, rows, p->dm, 1, y->op, below, y->ip, p->gw[l], y->ip, 1);
    add_rows(p->dm, rows, y->op, p->gb[l]);
    add_rows(p->dv, rows, y->op, p->gsb[l]);
    if (e->learned && e->activation != SIGN) { /* for signs see store_gradients */
        squares(below, p->a2, (size_t)rows * y->ip);
        product(y->out, y->ip, rows, p->dv, 1, y->op, p->a2, y->ip, p->gs[l], y->ip, 1);
    }
    if (e->activation == SIGN && e->estimator != STRAIGHT_THROUGH) return;
    product(rows, y->ip, y->out, p->dm, y->op, 1, y->w, y->ip, p->da, y->ip, 0);
    if (e->learned) product(rows, y->ip, y->out, p->dv, y->op, 1, y->s, y->ip, p->a2, y->ip, 0);
    for (int r = 0; r < rows; r++) {
        float total = 0;
        if (!e->learned)
            for (int o = 0; o < y->out; o++) total += y->unit * p->dv[(size_t)r * y->op + o];
        for (int k = 0; k < y->ip; k += LANES) {
            size_t at = (size_t)r * y->ip + k;
            vf spread = e->learned ? load(p->a2 + at) : all(total);
            store(p->da + at, load(p->da + at) + 2.0f * load(below + at) * spread);
        }
    }
}

/* The first layer: its samples share an input, so they are summed before the sparse products. */
static void first_backward(engine *e, group *p, int inputs) {
    layer *y = &e->layers[0];
    int T = e->samples;
    for (int i = 0; i < inputs; i++) {
        float *dm = p->dm + (size_t)i * T * y->op, *dv = p->dv + (size_t)i * T * y->op;
        add_rows(dm + y->op, T - 1, y->op, dm);
        add_rows(dv + y->op, T - 1, y->op, dv);
        add_rows(dm, 1, y->op, p->gb[0]);
        add_rows(dv, 1, y->op, p->gsb[0]);
        size_t row = (size_t)i * (y->in + 1);
        sparse_backward(y->op, p->counts[i], p->index + row, p->value + row, dm, p->gw[0]);
        if (e->learned)
            sparse_backward(y->op, p->counts[i], p->index + row, p->square + row, dv, p->gs[0]);
    }
}

static void backward(engine *e, group *p, int inputs) {
    int T = e->samples, rows = inputs * T;
    head_backward(e, p, rows);
    if (scored(e, 0)) score_weights(e, p, inputs);
    for (int l = e->depth - 1; l >= 0; l--) {
        layer *y = &e->layers[l];
        trace *h = &p->hidden[l];
        for (int r = 0; r < rows; r++) {
            size_t at = (size_t)r * y->op;
            const float *dev = l > 0 ? h->dev + at : p->dev + (size_t)(r / T) * y->op;
            if (e->activation == SIGN)
                sign_row_backward(y->op, h->aux + at, dev, h->slope + at, p->da + at,
                                  scored(e, l) ? p->weight + r : NULL, p->dm + at, p->dv + at);
            else
                pathwise_row_backward(e->activation, y->op, h->a + at, h->aux + at, dev, p->da + at,
                                      p->dm + at, p->dv + at);
        }
        if (l > 0) layer_backward(e, p, l, rows);
        else first_backward(e, p, inputs);
    }
}

#endif
