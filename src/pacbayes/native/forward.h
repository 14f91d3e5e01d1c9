/* A chunk of inputs forward: T samples of every activation, and the aggregated output. */
#ifndef PACBAYES_FORWARD_H
#define PACBAYES_FORWARD_H

/* First layer: moments once per input, from the entries of x that are not zero. */
static void first_moments(engine *e, group *p, const float *x, const int64_t *index, int inputs) {
    layer *y = &e->layers[0];
    for (int i = 0; i < inputs; i++) {
        size_t row = (size_t)i * (y->in + 1);
        int *at = p->index + row, count;
        float *value = p->value + row, *square = p->square + row;
        count = p->counts[i] = nonzeros(x + index[i] * y->in, y->in, at, value);
        float *mean = p->mean + (size_t)i * y->op, *dev = p->dev + (size_t)i * y->op, norm = 1;
        for (int j = 0; j < count; j++) norm += square[j] = value[j] * value[j];
        sparse_forward(y->op, count, at, value, y->wt, y->b, mean);
        if (e->learned) sparse_forward(y->op, count, at, square, y->st, y->sb, dev);
        for (int o = 0; o < y->op; o += LANES)
            store(dev + o, root(e->learned ? load(dev + o) : all(y->unit * norm)));
    }
}

/* One row of relu or sigmoid units: a = f(mean + dev·ε). */
static void pathwise_row(int activation, int op, const float *mean, const float *dev,
                         stream *random, float *a, float *noise) {
    vf eps[2];
    for (int o = 0, odd = 0; o < op; o += LANES, odd ^= 1) {
        if (!odd) next_normals(random, &eps[0], &eps[1]);
        vf z = load(mean + o) + load(dev + o) * eps[odd];
        store(noise + o, eps[odd]);
        store(a + o, activation == RELU ? most(z, all(0.0f)) : 1.0f / (1.0f + exponential(-z)));
    }
}

/* One row of sign units: a = ±1 with P(1) = Φ(u); full 32-bit compares. */
static void sign_row(int straight, int op, const float *mean, const float *dev, stream *random,
                     float *a, float *us, float *slope) {
    for (int o = 0; o < op; o += LANES) {
        vf u = load(mean + o) / load(dev + o);
        normal n = normal_at(u);
        /* Φ·2³² as a word: through a signed one, since that is what converts. */
        vf centred = least(n.upper * 4294967296.0f - 2147483648.0f, all(2147483520.0f));
        vu threshold = (vu)__builtin_convertvector(centred, vi) + 0x80000000u;
        vi up = next_words(random) < threshold;
        store(us + o, u);
        store(a + o, choose(up, all(1.0f), all(-1.0f)));
        store(slope + o, straight ? 2.0f * n.density : choose(up, n.plus, n.minus));
    }
}

static void squares(const float *a, float *out, size_t count) {
    for (size_t i = 0; i < count; i += LANES) store(out + i, load(a + i) * load(a + i));
}

/* Mean and deviation of layer l's pre-activations, all rows, into p->dm and the trace. */
static void moments(engine *e, group *p, int l, int rows) {
    layer *y = &e->layers[l];
    float *mean = p->dm, *dev = p->hidden[l].dev;
    const float *below = p->hidden[l - 1].a;
    int constant = e->activation == SIGN; /* squares of signs are one */
    product(rows, y->op, y->in, below, y->ip, 1, y->wt, y->op, mean, y->op, 0);
    if (!constant && e->learned) {
        squares(below, p->a2, (size_t)rows * y->ip);
        product(rows, y->op, y->in, p->a2, y->ip, 1, y->st, y->op, dev, y->op, 0);
    }
    for (int r = 0; r < rows; r++) {
        float *m = mean + (size_t)r * y->op, *s = dev + (size_t)r * y->op;
        vf norm = all(0.0f);
        if (!constant && !e->learned)
            for (int k = 0; k < y->ip; k += LANES) {
                vf a = load(below + (size_t)r * y->ip + k);
                norm += a * a;
            }
        vf unit = all(y->unit * (sum(norm) + 1));
        for (int o = 0; o < y->op; o += LANES) {
            vf variance = constant ? load(y->vs + o)
                          : e->learned ? load(s + o) + load(y->sb + o) : unit;
            store(s + o, root(variance));
            store(m + o, load(m + o) + load(y->b + o));
        }
    }
}

/* The aggregated head: output = erf(mean/√2·dev) for every row. */
static void head(engine *e, group *p, int rows) {
    layer *y = &e->layers[e->depth];
    const float *a = p->hidden[e->depth - 1].a;
    for (int r = 0; r < rows; r++, a += y->ip) {
        vf mean = all(0.0f), variance = all(0.0f);
        for (int k = 0; k < y->ip; k += LANES) {
            vf x = load(a + k);
            mean += x * load(y->w + k);
            variance += x * x * load(y->s + k);
        }
        float dev = sqrtf(sum(variance) + y->sb[0]), u = (sum(mean) + y->b[0]) / dev;
        p->odev[r] = dev;
        p->ou[r] = u;
        p->output[r] = erff(u * 0.70710678f);
    }
}

static void forward(engine *e, group *p, const float *x, const int64_t *index, int inputs,
                    stream *random) {
    int T = e->samples, rows = inputs * T;
    first_moments(e, p, x, index, inputs);
    for (int l = 0; l < e->depth; l++) {
        layer *y = &e->layers[l];
        trace *h = &p->hidden[l];
        if (l > 0) moments(e, p, l, rows);
        for (int r = 0; r < rows; r++) {
            size_t at = (size_t)r * y->op, from = l > 0 ? at : (size_t)(r / T) * y->op;
            const float *mean = (l > 0 ? p->dm : p->mean) + from;
            const float *dev = (l > 0 ? h->dev : p->dev) + from;
            if (e->activation == SIGN)
                sign_row(!scored(e, l), y->op, mean, dev, random, h->a + at, h->aux + at,
                         h->slope + at);
            else
                pathwise_row(e->activation, y->op, mean, dev, random, h->a + at, h->aux + at);
            memset(h->a + at + y->out, 0, (y->op - y->out) * sizeof(float));
        }
    }
    head(e, p, rows);
}

#endif
