/* The native engine: training steps of dense networks with a signed or a class output.
 *
 * T samples of each input go forward and backward, chunk by chunk. This is the only file to
 * compile. It includes the others, so that the compiler sees the whole step at once: `.h` files
 * have types and inline functions, `.inc` files have code and are included here once, in the order
 * of use. Each relies on those above it. interface.h has what library.py calls; docs/engine.md
 * explains why things are done as they are. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "interface.h" /* functions and structures shared with Python */
#include "vector.h"    /* 8 or 16 floats at a time: φ, Φ, e^x, masks, transposition */

#include "pool.inc"     /* threads that run numbered tasks */
#include "random.inc"   /* keyed streams of words, normals and signs */
#include "products.inc" /* matrix products */
#include "signs.inc"    /* matrix products with ±1, by table look-up */

#include "engine.h" /* layer, trace, part, engine; what each letter means */

#include "first.inc"     /* first layer: products that skip zeros, and their gradient */
#include "space.inc"     /* memory */
#include "weights.inc"   /* a step's parameters, laid out for products */
#include "classes.inc"   /* the probability that a class wins, by quadrature */
#include "tree.inc"      /* layers of PBGNet, forward and backward */
#include "forward.inc"   /* hidden layers forward */
#include "backward.inc"  /* hidden layers backward */
#include "heads.inc"     /* the output, forward and backward */
#include "linear.inc"    /* networks without hidden layers */
#include "step.inc"      /* one chunk after another, forward and backward */
#include "gradients.inc" /* partial gradients summed in their fixed order */
#include "reinforce.inc" /* another kind of step: draws of all weights, shared by the batch */
#include "adam.inc"      /* Adam on risk + c·KL */

#include "double.h"     /* 4 or 8 doubles at a time */
#include "keyed.inc"    /* random numbers, each at a place of its own */
#include "wins.inc"     /* the probability that a class wins, in double precision */
#include "evaluate.inc" /* layers in double precision */
#include "evaluate_signs.inc" /* the same of sign units */
#include "outputs.inc"  /* outputs, chunks and workers of an evaluation */

int pb_abi(void) { return PB_ABI; }

void pb_close(engine *e) {
    if (!e) return;
    if (e->threads) close_pool(e->threads);
    while (e->owned_count) free(e->owned[--e->owned_count]);
    free_room(e);
    free(e->owned);
    free(e);
}

engine *pb_open(int depth, const int32_t *widths, int activation, int estimator, int learned,
                int samples) {
    engine *e = samples < 1 || samples > MOST_SAMPLES ? NULL : calloc(1, sizeof *e);
    if (!e) return NULL;
    e->depth = depth, e->activation = activation, e->estimator = estimator;
    e->learned = learned, e->draws = samples;
    e->samples = estimator == REINFORCE || depth == 0 ? 1 : samples;
    e->layers = zeros(e, depth + 1, sizeof(layer)), e->threads = zeros(e, 1, sizeof(pool));
    if (e->threads) open_pool(e->threads);
    int widest = PAD, hidden = 0;
    for (int l = 1; l <= depth; l++) hidden = most(hidden, widths[l]);
    e->broad = hidden > BROAD_LAYER;
    e->inputs = estimator == REINFORCE ? BATCH : chunk_inputs(e->samples, e->broad);
    for (int l = 0; l <= depth && !e->failed; l++) {
        layer *L = &e->layers[l];
        L->in = widths[l], L->out = widths[l + 1];
        L->in_padded = padded(L->in), L->out_padded = padded(L->out);
        if (L->out_padded > widest) widest = L->out_padded;
        allocate_layer(e, l);
    }
    int R = vectors(e->inputs * e->samples) * LANES;
    for (int n = 0; n < PARTS && !e->failed; n++) allocate_part(e, &e->parts[n], R, widest);
    if (estimator == REINFORCE && !e->failed) allocate_draws(e);
    if (!e->failed) return e;
    pb_close(e);
    return NULL;
}

int pb_run(engine *e, pb_step *step) {
    for (int i = 0; i < step->count; i++)
        if (step->index[i] < 0 || step->index[i] >= step->examples) return BAD_INDEX;
    int training = step->gradients != NULL, drawing = training && e->estimator == REINFORCE;
    if (!training || drawing) free_room(e);
    else if (!make_room(e, step->count)) return OUT_OF_MEMORY;
    e->step = step;
    take_parameters(e);
    run_tasks(e->threads, step->threads, first_tasks(e) + e->depth, load_task, e);
    if (drawing) reinforce(e);
    else run_tasks(e->threads, step->threads, PARTS, part_task, e);
    if (training && !drawing)
        run_tasks(e->threads, step->threads, gradient_tasks(e), gradient_task, e);
    step->loss = 0;
    for (int n = 0; n < PARTS; n++) step->loss += e->parts[n].loss;
    e->step = NULL;
    int failed = e->failed;
    e->failed = 0; /* the next step may find the memory that this one lacked */
    return failed ? OUT_OF_MEMORY : DONE;
}

void pb_adam(engine *e, const pb_update *update) {
    double bias1 = 1 - pow(update->beta1, (double)update->steps);
    double bias2 = 1 - pow(update->beta2, (double)update->steps);
    adam_rule rule = {
        .tensors = update->tensors,
        .coefficient = (float)update->coefficient,
        .complement1 = (float)(1 - update->beta1),
        .beta2 = (float)update->beta2,
        .complement2 = (float)(1 - update->beta2),
        .rate = (float)(update->rate / bias1),
        .correction = (float)(1 / sqrt(bias2)),
        .epsilon = (float)update->epsilon,
    };
    int tasks = 0;
    for (int tensor = 0; tensor < update->count; tensor++)
        tasks += blocks_of(&update->tensors[tensor]);
    run_tasks(e->threads, update->threads, tasks, adam_task, &rule);
}

int pb_train(engine *e, pb_training *job) {
    pb_step step = job->first;
    pb_update update = job->adam;
    for (job->done = 0; job->done < job->steps; job->done++) {
        int n = job->done, status;
        step.count = job->counts[n];
        update.rate = job->rates[n], update.coefficient = job->coefficients[n];
        if ((status = pb_run(e, &step)) != DONE) return status;
        job->losses[n] = step.loss;
        pb_adam(e, &update);
        step.index += step.count, step.number++, update.steps++;
    }
    return DONE;
}

void pb_normals(uint64_t seed, uint64_t step, uint64_t chunk, float *out, int64_t count) {
    stream random = open_stream(seed, step, chunk);
    fill_normals(&random, out, count / (2 * LANES) * (2 * LANES));
}

void pb_words(uint64_t seed, uint64_t step, uint64_t chunk, uint32_t *out, int64_t count) {
    stream random = open_stream(seed, step, chunk);
    for (offset at = 0; at + LANES <= count; at += LANES) {
        vu words = next_words(&random);
        memcpy(out + at, &words, sizeof words);
    }
}
