/* One training step of a dense signed-output network: T samples of each input go forward and
 * backward chunk by chunk. Plain C behind a plain interface; see engine.py for its meaning. */
#include "engine.h"

#include <math.h>

#include "backward.h"

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

void pb_close(engine *e) {
    if (!e) return;
    close_pool(&e->threads);
    for (int i = 0; i < e->owned_count; i++) free(e->owned[i]);
    for (int g = 0; g < GROUPS; g++) {
        free(e->groups[g].hidden);
        free(e->groups[g].gw);
    }
    free(e->d1);
    free(e->dv1);
    free(e->owned);
    free(e->layers);
    free(e);
}

/* Inputs of a chunk: 64 rows or more, few enough for the cache, that fill vectors best. */
static int chunk_inputs(int samples) {
    int least = samples >= 64 ? 1 : (64 + samples - 1) / samples, best = least;
    for (int i = least; (int64_t)i * samples <= 512; i++) {
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
    y->tables = floats(e, (size_t)y->out * unit_groups(y->in) * ENTRIES);
}

static void allocate_trace(engine *e, trace *h, int l, size_t rows) {
    layer *y = &e->layers[l];
    size_t block = rows * y->op;
    if (e->activation == SIGN) {
        h->rows = (uint16_t *)floats(e, block);
        h->index = (vi *)floats(e, (size_t)unit_groups(y->out) * rows);
        if (l == 0) return;
        h->slope = floats(e, block);
        if (spreads(e)) h->u = floats(e, block);
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
    p->weight = floats(e, rows), p->output = floats(e, rows), p->total = floats(e, rows);
    p->head_u = floats(e, rows), p->head_inverse = floats(e, rows);
    if (e->activation != SIGN) return;
    p->plus = floats(e, first), p->minus = floats(e, first);
    p->units = (uint16_t *)floats(e, (size_t)e->layers[0].op / LANES * rows);
    p->gradient_index = (vi *)floats(e, (size_t)SLICES * rows / LANES * widest);
}

engine *pb_open(int depth, const int32_t *widths, int activation, int estimator, int learned,
                int samples) {
    engine *e = calloc(1, sizeof *e);
    if (!e) return NULL;
    open_pool(&e->threads);
    e->depth = depth, e->activation = activation, e->estimator = estimator;
    e->learned = learned, e->samples = samples, e->inputs = chunk_inputs(samples);
    e->layers = calloc(depth + 1, sizeof(layer));
    e->owned = calloc((size_t)(depth + 2) * 16 * (GROUPS + 1), sizeof(void *));
    if (!e->layers || !e->owned) e->failed = 1;
    int widest = PAD;
    for (int l = 0; l <= depth && !e->failed; l++) {
        layer *y = &e->layers[l];
        y->in = widths[l], y->out = widths[l + 1];
        y->ip = padded(y->in), y->op = padded(y->out);
        if (y->op > widest) widest = y->op;
        allocate_layer(e, l);
    }
    size_t rows = ((size_t)e->inputs * samples + LANES - 1) / LANES * LANES;
    for (int g = 0; g < GROUPS && !e->failed; g++) allocate_group(e, &e->groups[g], rows, widest);
    if (!e->failed) return e;
    pb_close(e);
    return NULL;
}

typedef struct {
    engine *e;
    float *const *gradients;
    const float *x, *y;
    const int64_t *index;
    int count;
    uint64_t seed, step;
} job;

static void variances(const float *logs, float *out, size_t count) {
    size_t i = 0;
    for (; i + LANES <= count; i += LANES) store(out + i, exponential(2.0f * load(logs + i)));
    for (; i < count; i++) out[i] = expf(2 * logs[i]);
}

/* LANES units of the first layer, transposed. */
static void load_first(engine *e, int j0) {
    layer *y = &e->layers[0];
    int rows = y->out - j0 < LANES ? y->out - j0 : LANES;
    for (int k = 0; k < y->in; k += LANES) {
        float block[LANES * LANES] = {0}, turned[LANES * LANES];
        int columns = y->in - k < LANES ? y->in - k : LANES;
        for (int learned = 0; learned <= e->learned; learned++) {
            const float *from = (learned ? y->log_w : y->w) + (size_t)j0 * y->in + k;
            for (int r = 0; r < rows; r++)
                memcpy(block + r * LANES, from + (size_t)r * y->in, columns * sizeof(float));
            for (int r = 0; learned && r < rows; r++)
                store(block + r * LANES, exponential(2.0f * load(block + r * LANES)));
            transpose_block(block, LANES, turned, LANES);
            float *to = (learned ? y->st : y->wt) + (size_t)k * y->op + j0;
            for (int c = 0; c < columns; c++) store(to + (size_t)c * y->op, load(turned + c * LANES));
        }
    }
}

/* Another layer: variances, and tables where signs are below. */
static void load_layer(engine *e, int l) {
    layer *y = &e->layers[l];
    if (e->learned) variances(y->log_w, y->s, (size_t)y->out * y->in);
    if (e->activation != SIGN) return;
    int groups = unit_groups(y->in);
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
    job *j = argument;
    if (n < first_tasks(j->e)) {
        if (n * LANES < j->e->layers[0].out) load_first(j->e, n * LANES);
    } else load_layer(j->e, n - first_tasks(j->e) + 1);
}

static void take_parameters(engine *e, const float *const *parameters) {
    for (int l = 0; l <= e->depth; l++, parameters += 4) {
        layer *y = &e->layers[l];
        y->w = parameters[0], y->b = parameters[1], y->log_w = parameters[2];
        y->log_b = parameters[3];
        y->unit = expf(2 * y->log_w[0]);
        for (int o = 0; o < y->op; o++) /* a padding unit must not divide by zero */
            y->sb[o] = o >= y->out ? 1.0f : e->learned ? expf(2 * y->log_b[o]) : y->unit;
    }
}

static void chunk(job *j, group *p, int c) {
    engine *e = j->e;
    int T = e->samples, start = c * e->inputs;
    int inputs = j->count - start < e->inputs ? j->count - start : e->inputs;
    stream random = open_stream(j->seed, j->step, c);
    forward(e, p, j->x, j->index + start, inputs, &random);
    float scale = -0.5f / ((float)j->count * T);
    memset(p->weight, 0, p->rows * sizeof(float)); /* rows that only fill a vector count nothing */
    for (int i = 0; i < inputs; i++) {
        float label = j->y[j->index[start + i]], sum = 0;
        for (int t = 0; t < T; t++) {
            sum += p->output[i * T + t];
            p->weight[i * T + t] = scale * label;
        }
        p->loss += 0.5 * (1.0 - (double)label * sum / T);
    }
    if (j->gradients) backward(e, p, start, inputs);
}

static void group_task(void *argument, int n) {
    job *j = argument;
    engine *e = j->e;
    group *p = &e->groups[n];
    p->loss = 0;
    for (int l = 1; l <= e->depth && j->gradients; l++) {
        layer *y = &e->layers[l];
        memset(p->gw[l], 0, (size_t)y->out * y->ip * sizeof(float));
        memset(p->gs[l], 0, (size_t)y->out * y->ip * sizeof(float));
        memset(p->gb[l], 0, y->op * sizeof(float));
        memset(p->gsb[l], 0, y->op * sizeof(float));
    }
    int chunks = (j->count + e->inputs - 1) / e->inputs;
    int last = (int)((int64_t)chunks * (n + 1) / GROUPS);
    for (int c = (int)((int64_t)chunks * n / GROUPS); c < last; c++) chunk(j, p, c);
}

/* Gradient of LANES columns of the first layer's weights, into the caller's arrays. A variance is
 * e^{2ρ} in the log-scale ρ, so its gradient gets a factor 2σ². */
static void first_columns(job *j, int k, vf *G) {
    engine *e = j->e;
    layer *y = &e->layers[0];
    size_t columns = y->in - k < LANES ? y->in - k : LANES;
    for (int learned = 0; learned <= e->learned; learned++) {
        pixel_gradient(y, j->x, j->index, j->count, k, learned, learned ? e->dv1 : e->d1, G);
        float *to = j->gradients[learned ? 2 : 0] + k;
        for (int o = 0; o < y->out; o++) {
            vf g = G[o];
            if (learned)
                g = 2.0f * g * exponential(2.0f * entries(y->log_w + (size_t)o * y->in, k, y->in));
            memcpy(to + (size_t)o * y->in, &g, columns * sizeof(float));
        }
    }
}

/* Gradient of the first layer's biases. */
static void first_biases(job *j) {
    engine *e = j->e;
    layer *y = &e->layers[0];
    float *gb = j->gradients[1], *glb = j->gradients[3];
    for (int learned = 0; learned <= e->learned; learned++)
        for (int o = 0; o < y->out; o++) {
            const float *d = (learned ? e->dv1 : e->d1) + o;
            float total = 0;
            for (int i = 0; i < j->count; i++) total += d[(size_t)i * y->op];
            if (learned) glb[o] = 2 * y->sb[o] * total;
            else gb[o] = total;
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
        for (int k = 0; k < y->in; k++) {
            size_t from = (size_t)o * y->ip + k, at = (size_t)o * y->in + k;
            float gw = 0, gs = 0;
            for (int g = 0; g < GROUPS; g++) gw += e->groups[g].gw[l][from];
            to[0][at] = gw;
            if (!e->learned) continue;
            for (int g = 0; g < GROUPS; g++) gs += e->groups[g].gs[l][from];
            to[2][at] = 2 * y->s[at] * (e->activation == SIGN ? gsb : gs); /* a² = 1 for signs */
        }
    }
}

static void gradient_task(void *argument, int n) {
    job *j = argument;
    int blocks = (j->e->layers[0].in + LANES - 1) / LANES;
    if (n < blocks) {
        vf *G = aligned_alloc(64, (size_t)j->e->layers[0].op * sizeof(vf));
        if (G) first_columns(j, n * LANES, G);
        else j->e->failed = 1;
        free(G);
    } else if (n == blocks) first_biases(j);
    else sum_layer(j, n - blocks);
}

static int make_room(engine *e, int64_t count) {
    if (count <= e->room) return 1;
    size_t size = (size_t)count * e->layers[0].op * sizeof(float);
    free(e->d1);
    free(e->dv1);
    e->d1 = malloc(size), e->dv1 = malloc(e->learned ? size : 1);
    e->room = e->d1 && e->dv1 ? count : 0;
    return e->room > 0;
}

/* Sum of the linear losses of the examples index[0:count], negative where memory ran out; where
 * gradients is not NULL also the gradient of their mean. Parameters and gradients: four arrays a
 * layer, means of weights and of biases, log-scales of weights and of biases (one number each
 * where scales are not learned). */
double pb_run(engine *e, const float *const *parameters, float *const *gradients, const float *x,
              const float *y, const int64_t *index, int count, uint64_t seed, uint64_t step,
              int threads) {
    if (gradients && !make_room(e, count)) return -1;
    job j = {e, gradients, x, y, index, count, seed, step};
    take_parameters(e, parameters);
    run_tasks(&e->threads, threads, first_tasks(e) + e->depth, load_task, &j);
    run_tasks(&e->threads, threads, GROUPS, group_task, &j);
    if (gradients) {
        int blocks = (e->layers[0].in + LANES - 1) / LANES;
        run_tasks(&e->threads, threads, blocks + 1 + e->depth, gradient_task, &j);
    }
    double loss = 0;
    for (int g = 0; g < GROUPS; g++) loss += e->groups[g].loss;
    return e->failed ? -1 : loss;
}

/* Add coefficient·∇KL(Q|P) to a Gaussian's gradients: (μ − μ₀)/σ₀² for the means and, where
 * scales are learned, σ²/σ₀² − 1 for the log-scales. */
void pb_add_kl_grad(const float *mean, const float *log_scale, const float *prior_mean,
                    const float *prior_log_scale, int64_t count, float coefficient,
                    float *grad_mean, float *grad_log_scale) {
    float s0 = *prior_log_scale, factor = coefficient * expf(-2 * s0);
    for (int64_t i = 0; i < count; i++) grad_mean[i] += factor * (mean[i] - prior_mean[i]);
    if (!grad_log_scale) return;
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        vf excess = exponential(2.0f * (load(log_scale + i) - s0)) - 1.0f;
        store(grad_log_scale + i, load(grad_log_scale + i) + coefficient * excess);
    }
    for (; i < count; i++) grad_log_scale[i] += coefficient * expm1f(2 * (log_scale[i] - s0));
}

/* For tests: fill with standard normals, or with uniform words, of one stream. */
void pb_normals(uint64_t seed, uint64_t step, uint64_t chunk, float *out, int64_t count) {
    stream r = open_stream(seed, step, chunk);
    for (int64_t i = 0; i + 2 * LANES <= count; i += 2 * LANES) {
        vf a, b;
        next_normals(&r, &a, &b);
        store(out + i, a);
        store(out + i + LANES, b);
    }
}

void pb_words(uint64_t seed, uint64_t step, uint64_t chunk, uint32_t *out, int64_t count) {
    stream r = open_stream(seed, step, chunk);
    for (int64_t i = 0; i + LANES <= count; i += LANES) {
        vu words = next_words(&r);
        memcpy(out + i, &words, sizeof words);
    }
}
