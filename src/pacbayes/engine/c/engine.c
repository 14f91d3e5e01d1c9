/* One training step of a dense signed-output network: T samples of each input go forward and
 * backward chunk by chunk. Plain C behind a plain interface; see library.py for its meaning. */
#include "vector.h"

#include "pool.inc"
#include "random.inc"
#include "products.inc"
#include "signs.inc"

#include "engine.h"

#include "first.inc"
#include "space.inc"
#include "weights.inc"
#include "classes.inc"
#include "tree.inc"
#include "forward.inc"
#include "backward.inc"
#include "gradients.inc"
#include "reinforce.inc"
#include "adam.inc"

static void free_room(engine *e) {
    free(e->d1), free(e->dv1), free(e->masks);
    e->d1 = e->dv1 = NULL, e->masks = NULL, e->room = 0;
}

void pb_close(engine *e) {
    if (!e) return;
    close_pool(&e->threads);
    for (int i = 0; i < e->owned_count; i++) free(e->owned[i]);
    for (int g = 0; g < GROUPS; g++) {
        free(e->groups[g].hidden);
        free(e->groups[g].gw);
    }
    free_room(e);
    free(e->owned);
    free(e->layers);
    free(e);
}

engine *pb_open(int depth, const int32_t *widths, int activation, int estimator, int learned,
                int samples) {
    engine *e = calloc(1, sizeof *e);
    if (!e) return NULL;
    open_pool(&e->threads);
    e->depth = depth, e->activation = activation, e->estimator = estimator;
    e->learned = learned, e->draws = samples, e->samples = estimator == REINFORCE ? 1 : samples;
    e->inputs = estimator == REINFORCE ? BATCH : chunk_inputs(samples);
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
    size_t rows = ((size_t)e->inputs * e->samples + LANES - 1) / LANES * LANES;
    for (int g = 0; g < GROUPS && !e->failed; g++) allocate_group(e, &e->groups[g], rows, widest);
    if (estimator == REINFORCE && !e->failed) allocate_draws(e);
    if (!e->failed) return e;
    pb_close(e);
    return NULL;
}

static void chunk(job *j, group *p, int c) {
    engine *e = j->e;
    int T = e->samples, start = c * e->inputs;
    int inputs = j->count - start < e->inputs ? j->count - start : e->inputs;
    stream random = open_stream(j->seed, j->step, c);
    int many = outputs(e) > 1; /* classes: the output is P(label), not F */
    for (int r = 0; many && r < inputs * T; r++) p->label[r] = j->y[j->index[start + r / T]];
    forward(e, p, j->x, j->index, start, inputs, &random);
    float scale = (many ? -1.0f : -0.5f) / ((float)j->count * T);
    memset(p->weight, 0, p->rows * sizeof(float)); /* rows that only fill a vector count nothing */
    for (int i = 0; i < inputs; i++) {
        float label = many ? 1.0f : j->y[j->index[start + i]], sum = 0;
        for (int t = 0; t < T; t++) sum += p->output[i * T + t];
        double loss = (many ? 1.0 : 0.5) * (1.0 - (double)label * sum / T), right = 1 - loss;
        float weight = scale * label / (j->log_loss ? (float)(right > 1e-6 ? right : 1e-6) : 1.0f);
        for (int t = 0; t < T; t++) p->weight[i * T + t] = weight;
        p->loss += loss;
    }
    if (j->gradients) backward(e, p, start, inputs);
}

static void group_task(void *argument, int n) {
    job *j = argument;
    engine *e = j->e;
    group *p = &e->groups[n];
    p->loss = 0, p->training = j->gradients != NULL;
    for (int l = 1; l <= e->depth && j->gradients; l++) {
        layer *y = &e->layers[l];
        memset(p->gw[l], 0, (size_t)y->out * y->ip * sizeof(float));
        if (e->learned || l == e->depth) memset(p->gs[l], 0, (size_t)y->out * y->ip * sizeof(float));
        memset(p->gb[l], 0, y->op * sizeof(float));
        memset(p->gsb[l], 0, y->op * sizeof(float));
    }
    int chunks = (j->count + e->inputs - 1) / e->inputs;
    int last = (int)((int64_t)chunks * (n + 1) / GROUPS);
    for (int c = (int)((int64_t)chunks * n / GROUPS); c < last; c++) chunk(j, p, c);
}

/* Room for a step's gradient in the first layer, none for an evaluation. */
static int make_room(engine *e, int64_t count) {
    int64_t room = (count + SEGMENT - 1) / SEGMENT * SEGMENT;
    size_t blocks = (e->layers[0].in + LANES - 1) / LANES;
    if (room != e->room) {
        size_t size = (size_t)room * e->layers[0].op * sizeof(float);
        free_room(e);
        e->d1 = malloc(size), e->dv1 = malloc(e->learned ? size : 1);
        e->masks = malloc(blocks * room * sizeof(uint16_t));
        e->room = room;
    }
    if (!e->d1 || !e->dv1 || !e->masks) {
        free_room(e);
        return 0;
    }
    for (size_t b = 0; b < blocks; b++) /* beyond the last example there is nothing */
        memset(e->masks + b * room + count, 0, (room - count) * sizeof(uint16_t));
    return 1;
}

/* The sum of the linear losses of the examples index[0:count] of n, into *loss; where gradients is
 * not NULL also the gradient of their mean, or of the mean of −ln(1 − loss). Returns 0, or 1 where
 * memory ran out, or 2 for an index that is none. Parameters and gradients: four arrays a layer, means of weights and of biases,
 * log-scales of weights and of biases (one number each where scales are not learned). */
int pb_run(engine *e, const float *const *parameters, float *const *gradients, const float *x,
           const float *y, int64_t n, const int64_t *index, int count, uint64_t seed,
           uint64_t step, int log_loss, int threads, double *loss) {
    for (int i = 0; i < count; i++)
        if (index[i] < 0 || index[i] >= n) return 2;
    int drawing = gradients && e->estimator == REINFORCE;
    if (!gradients || drawing) free_room(e);
    else if (!make_room(e, count)) return 1;
    job j = {e, gradients, x, y, index, count, seed, step, log_loss};
    take_parameters(e, parameters);
    run_tasks(&e->threads, threads, first_tasks(e) + e->depth, load_task, &j);
    if (drawing) reinforce(&j, threads);
    else run_tasks(&e->threads, threads, GROUPS, group_task, &j);
    if (gradients && !drawing) {
        int blocks = (e->layers[0].in + LANES - 1) / LANES;
        run_tasks(&e->threads, threads, blocks + 1 + e->depth, gradient_task, &j);
    }
    *loss = 0;
    for (int g = 0; g < GROUPS; g++) *loss += e->groups[g].loss;
    int failed = e->failed;
    e->failed = 0; /* the next step may find what this one lacked */
    return failed;
}

/* A step of Adam on the risk, whose gradient is in the tensors, plus coefficient·KL; `steps` counts
 * this one. */
void pb_adam(engine *e, const tensor *tensors, int count, float coefficient, double rate,
             double beta1, double beta2, double epsilon, int64_t steps, int threads) {
    update a = {tensors,   coefficient, 1 - beta1, beta2,
                1 - beta2, rate / (1 - pow(beta1, steps)), 1 / sqrt(1 - pow(beta2, steps)), epsilon};
    int tasks = 0;
    for (int i = 0; i < count; i++) tasks += (tensors[i].count + BLOCK - 1) / BLOCK;
    run_tasks(&e->threads, threads, tasks, adam_task, &a);
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
