/* One training step of a dense signed-output network: T samples of each input go forward and
 * backward chunk by chunk. Plain C behind a plain interface; see engine.py for its meaning. */
#include "engine.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "products.h"
#include "random.h"

#include "forward.h"

#include "backward.h"

static int padded(int d) { return (d + PAD - 1) / PAD * PAD; }

static size_t gradient_size(const layer *y, int l) {
    return l == 0 ? (size_t)y->in * y->op : (size_t)y->out * y->ip;
}

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
    for (int i = 0; i < e->owned_count; i++) free(e->owned[i]);
    for (int g = 0; g < GROUPS; g++) {
        free(e->groups[g].hidden);
        free(e->groups[g].gw);
    }
    free(e->owned);
    free(e->layers);
    free(e);
}

engine *pb_open(int depth, const int32_t *widths, int activation, int estimator, int learned,
                int samples) {
    engine *e = calloc(1, sizeof *e);
    if (!e) return NULL;
    e->depth = depth, e->activation = activation, e->estimator = estimator;
    e->learned = learned, e->samples = samples;
    e->inputs = samples >= CHUNK_ROWS ? 1 : CHUNK_ROWS / samples;
    e->layers = calloc(depth + 1, sizeof(layer));
    e->owned = calloc(64 + 16 * (depth + 2) * (GROUPS + 1), sizeof(void *));
    if (!e->layers || !e->owned) {
        pb_close(e);
        return NULL;
    }
    int rows = e->inputs * samples, widest = padded(1);
    for (int l = 0; l <= depth; l++) {
        layer *y = &e->layers[l];
        y->in = widths[l], y->out = widths[l + 1];
        y->ip = padded(y->in), y->op = padded(y->out);
        if (l > 0 && y->ip > widest) widest = y->ip;
        if (l < depth && y->op > widest) widest = y->op;
        y->wt = floats(e, (size_t)y->in * y->op), y->st = floats(e, (size_t)y->in * y->op);
        y->w = floats(e, (size_t)y->out * y->ip), y->s = floats(e, (size_t)y->out * y->ip);
        y->b = floats(e, y->op), y->sb = floats(e, y->op), y->vs = floats(e, y->op);
    }
    for (int g = 0; g < GROUPS; g++) {
        group *p = &e->groups[g];
        p->hidden = calloc(depth + 1, sizeof(trace));
        p->gw = calloc(4 * (depth + 1), sizeof(float *));
        if (!p->hidden || !p->gw) e->failed = 1;
        if (e->failed) break;
        p->gs = p->gw + depth + 1, p->gb = p->gs + depth + 1, p->gsb = p->gb + depth + 1;
        for (int l = 0; l <= depth; l++) {
            layer *y = &e->layers[l];
            size_t size = gradient_size(y, l);
            p->gw[l] = floats(e, size), p->gs[l] = floats(e, size);
            p->gb[l] = floats(e, y->op), p->gsb[l] = floats(e, y->op);
            if (l == depth) break;
            size_t block = (size_t)rows * y->op;
            p->hidden[l] = (trace){floats(e, block), floats(e, block), floats(e, block),
                                   activation == SIGN ? floats(e, block) : NULL};
        }
        size_t block = (size_t)rows * widest, first = (size_t)e->inputs * e->layers[0].op;
        p->mean = floats(e, first), p->dev = floats(e, first);
        p->dm = floats(e, block), p->dv = floats(e, block);
        p->da = floats(e, block), p->a2 = floats(e, block);
        p->weight = floats(e, rows), p->output = floats(e, rows);
        p->odev = floats(e, rows), p->ou = floats(e, rows);
        size_t entries = (size_t)e->inputs * (widths[0] + 1);
        p->index = (int *)floats(e, entries);
        p->value = floats(e, entries), p->square = floats(e, entries);
        p->counts = (int *)floats(e, e->inputs);
    }
    if (!e->failed) return e;
    pb_close(e);
    return NULL;
}

/* out (rows, to) = in (columns, from) transposed, in blocks that stay in cache. */
static void transpose(int rows, int columns, const float *restrict in, long from,
                      float *restrict out, long to) {
    for (int r0 = 0; r0 < rows; r0 += 16)
        for (int c = 0; c < columns; c++)
            for (int r = r0; r < r0 + 16 && r < rows; r++) out[r * to + c] = in[c * from + r];
}

/* Lay the step's weights out: transposed for going forward, by rows for going back. */
static void load_weights(engine *e, const float *const *parameters) {
    for (int l = 0; l <= e->depth; l++) {
        layer *y = &e->layers[l];
        const float *W = parameters[4 * l], *b = parameters[4 * l + 1];
        const float *lw = parameters[4 * l + 2], *lb = parameters[4 * l + 3];
        y->unit = expf(2 * lw[0]);
        for (int o = 0; o < y->out; o++) {
            y->b[o] = b[o];
            y->sb[o] = e->learned ? expf(2 * lb[o]) : y->unit;
            float *row = y->w + (size_t)o * y->ip, *srow = y->s + (size_t)o * y->ip;
            memcpy(row, W + (size_t)o * y->in, y->in * sizeof(float));
            if (!e->learned) {
                for (int k = 0; k < y->in; k++) srow[k] = y->unit;
                continue;
            }
            const float *logs = lw + (size_t)o * y->in;
            int k = 0;
            for (; k + LANES <= y->in; k += LANES) store(srow + k, exponential(2.0f * load(logs + k)));
            for (; k < y->in; k++) srow[k] = expf(2 * logs[k]);
        }
        transpose(y->in, y->out, y->w, y->ip, y->wt, y->op);
        transpose(y->in, y->out, y->s, y->ip, y->st, y->op);
        for (int o = 0; o < y->out; o++) {
            vf total = all(0.0f);
            for (int k = 0; k < y->ip; k += LANES) total += load(y->s + (size_t)o * y->ip + k);
            y->vs[o] = y->sb[o] + sum(total);
        }
        for (int o = y->out; o < y->op; o++) y->sb[o] = y->vs[o] = 1.0f; /* no division by zero */
    }
}

typedef struct {
    engine *e;
    const float *x, *y;
    const int64_t *index;
    int count, backward;
    uint64_t seed, step;
    atomic_int next;
} job;

static void run_group(job *j, int which) {
    engine *e = j->e;
    group *p = &e->groups[which];
    p->loss = 0;
    if (j->backward)
        for (int l = 0; l <= e->depth; l++) {
            layer *y = &e->layers[l];
            size_t size = gradient_size(y, l);
            memset(p->gw[l], 0, size * sizeof(float));
            memset(p->gs[l], 0, size * sizeof(float));
            memset(p->gb[l], 0, y->op * sizeof(float));
            memset(p->gsb[l], 0, y->op * sizeof(float));
        }
    int chunks = (j->count + e->inputs - 1) / e->inputs;
    int first = (int)((int64_t)chunks * which / GROUPS);
    int last = (int)((int64_t)chunks * (which + 1) / GROUPS);
    for (int c = first; c < last; c++) {
        int start = c * e->inputs;
        int inputs = j->count - start < e->inputs ? j->count - start : e->inputs;
        stream random = open_stream(j->seed, j->step, c);
        forward(e, p, j->x, j->index + start, inputs, &random);
        float scale = -0.5f / ((float)j->count * e->samples);
        for (int i = 0; i < inputs; i++) {
            float label = j->y[j->index[start + i]], sum = 0;
            for (int t = 0; t < e->samples; t++) {
                sum += p->output[i * e->samples + t];
                p->weight[i * e->samples + t] = scale * label;
            }
            p->loss += 0.5 * (1.0 - (double)label * sum / e->samples);
        }
        if (j->backward) backward(e, p, inputs);
    }
}

static void *work(void *argument) {
    job *j = argument;
    for (int which; (which = atomic_fetch_add(&j->next, 1)) < GROUPS;) run_group(j, which);
    return NULL;
}

static void add_into(float *restrict to, const float *restrict from, size_t count) {
    for (size_t i = 0; i < count; i++) to[i] += from[i];
}

/* Sum the groups' partial gradients in their fixed order, into the caller's layout. A variance
 * is e^{2ρ} in the log-scale ρ, so its gradient gets a factor 2σ². */
static void store_gradients(engine *e, float *const *gradients) {
    for (int l = 0; l <= e->depth; l++) {
        layer *y = &e->layers[l];
        group *p = &e->groups[0];
        float *gw = gradients[4 * l], *gb = gradients[4 * l + 1];
        float *glw = gradients[4 * l + 2], *glb = gradients[4 * l + 3];
        size_t size = gradient_size(y, l);
        for (int g = 1; g < GROUPS; g++) {
            group *q = &e->groups[g];
            add_into(p->gw[l], q->gw[l], size);
            if (e->learned) add_into(p->gs[l], q->gs[l], size);
            add_into(p->gb[l], q->gb[l], y->out);
            add_into(p->gsb[l], q->gsb[l], y->out);
        }
        memcpy(gb, p->gb[l], y->out * sizeof(float));
        if (l == 0) transpose(y->out, y->in, p->gw[0], y->op, gw, y->in);
        else
            for (int o = 0; o < y->out; o++)
                memcpy(gw + (size_t)o * y->in, p->gw[l] + (size_t)o * y->ip, y->in * sizeof(float));
        if (!e->learned) continue;
        for (int o = 0; o < y->out; o++) glb[o] = 2 * y->sb[o] * p->gsb[l][o];
        if (l == 0) transpose(y->out, y->in, p->gs[0], y->op, glw, y->in);
        int constant = e->activation == SIGN && l > 0; /* the square of a sign is one */
        for (int o = 0; o < y->out; o++) {
            float *to = glw + (size_t)o * y->in;
            const float *restrict s = y->s + (size_t)o * y->ip;
            const float *from = l == 0 ? to : p->gs[l] + (size_t)o * y->ip;
            float same = p->gsb[l][o];
            for (int k = 0; k < y->in; k++) to[k] = 2 * s[k] * (constant ? same : from[k]);
        }
    }
}

/* Sum of the linear losses of the examples index[0:count]; where gradients is not NULL also the
 * gradient of their mean. Parameters and gradients: four arrays a layer, means of weights and of
 * biases, log-scales of weights and of biases (one number each where scales are not learned). */
double pb_run(engine *e, const float *const *parameters, float *const *gradients, const float *x,
              const float *y, const int64_t *index, int count, uint64_t seed, uint64_t step,
              int threads) {
    load_weights(e, parameters);
    job j = {e, x, y, index, count, gradients != NULL, seed, step, 0};
    pthread_t others[GROUPS];
    int started = 0;
    for (; started < threads - 1 && started < GROUPS - 1; started++)
        if (pthread_create(&others[started], NULL, work, &j)) break;
    work(&j);
    for (int i = 0; i < started; i++) pthread_join(others[i], NULL);
    if (gradients) store_gradients(e, gradients);
    double loss = 0;
    for (int g = 0; g < GROUPS; g++) loss += e->groups[g].loss;
    return loss;
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
