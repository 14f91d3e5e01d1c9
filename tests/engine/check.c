/* Run steps of every kind on odd shapes, and let every allocation fail once, for the sanitizers to
 * watch. With an argument, print what was computed, to compare builds. */
#ifdef __aarch64__
#include <arm_neon.h>
#else
#include <immintrin.h>
#endif
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static atomic_int before_failure = INT_MAX; /* allocations that succeed before one fails */
static int refused(void) { return atomic_fetch_sub(&before_failure, 1) == 0; }
#define malloc(size) (refused() ? NULL : malloc(size))
#define calloc(count, size) (refused() ? NULL : calloc(count, size))
#define realloc(memory, size) (refused() ? NULL : realloc(memory, size))
#define aligned_alloc(alignment, size) (refused() ? NULL : aligned_alloc(alignment, size))
#include "engine.c"

#define REQUIRE(condition)                                                                         \
    if (!(condition)) {                                                                            \
        fprintf(stderr, "line %d: not %s\n", __LINE__, #condition);                                \
        exit(1);                                                                                   \
    }

static int showing;
static void show_floats(const float *x, size_t count) {
    double total = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        total += (double)(1 + i % 5) * x[i];
        size += (double)(1 + i % 5) * (x[i] < 0 ? -x[i] : x[i]);
    }
    if (showing) printf("gradient %.9g %.9g\n", total, size);
}

enum { EXAMPLES = 5, DEEPEST = 9, ARRAYS = 4 * (DEEPEST + 1) };

typedef struct {
    int depth, classes, fail; /* fail: let allocations fail */
    int32_t widths[DEEPEST + 2];
} shape;

static const shape SHAPES[] = {
    {0, 2, 0, {3, 1}},
    {0, 37, 0, {21, 37}},
    {1, 2, 0, {3, 1, 1}},
    {1, 2, 0, {7, 5, 1}},
    {2, 2, 1, {20, 17, 33, 1}},
    {3, 2, 0, {4, 16, 1, 40, 1}},
    {9, 2, 0, {4, 3, 3, 3, 3, 3, 3, 3, 3, 3, 1}},
    {1, 3, 0, {5, 6, 3}},
    {2, 37, 1, {4, 3, 9, 37}},
};

typedef struct {
    const shape *shape;
    int activation, estimator, learned, samples, threads;
    float *parameters[ARRAYS], *gradients[ARRAYS], *features, labels[EXAMPLES];
} setting;

static float *numbers(size_t count, size_t period, float scale, float least_value) {
    float *out = calloc(count, sizeof(float));
    for (size_t i = 0; i < count; i++) out[i] = scale * (float)(i % period) + least_value;
    return out;
}

static void fill(setting *s) {
    const int32_t *widths = s->shape->widths;
    for (int l = 0; l <= s->shape->depth; l++) {
        size_t in = (size_t)widths[l], out = (size_t)widths[l + 1];
        size_t sizes[] = {in * out, out, s->learned ? in * out : 1, s->learned ? out : 1};
        for (int k = 0; k < 4; k++) {
            s->parameters[4 * l + k] = numbers(sizes[k], 7, 0.1f, -0.3f);
            s->gradients[4 * l + k] = numbers(sizes[k], 1, 0, 0);
        }
    }
    s->features = numbers((size_t)(EXAMPLES * widths[0]), 3, 1, 0);
    for (int i = 0; i < EXAMPLES; i++)
        s->labels[i] = s->shape->classes > 2 ? (float)(i % 3) : i % 2 ? 1.0f : -1.0f;
}

static void empty(setting *s) {
    for (int array = 0; array < 4 * (s->shape->depth + 1); array++)
        free(s->parameters[array]), free(s->gradients[array]);
    free(s->features);
}

static engine *open_engine(const setting *s) {
    return pb_open(s->shape->depth, s->shape->widths, s->activation, s->estimator, s->learned,
                   s->samples);
}

static pb_step step_of(setting *s, const int64_t *index, int count) {
    return (pb_step){.parameters = (const float *const *)s->parameters,
                     .gradients = s->gradients,
                     .features = s->features,
                     .labels = s->labels,
                     .index = index,
                     .examples = EXAMPLES,
                     .seed = 1,
                     .number = 2,
                     .count = count,
                     .log_loss = s->samples % 2,
                     .threads = s->threads};
}

static void check_steps(setting *s, engine *e) {
    static const int64_t index[EXAMPLES] = {4, 0, 2, 2, 1}, many[150] = {0};
    for (int count = 1; count <= EXAMPLES; count += 4) {
        pb_step step = step_of(s, index, count), bad = step;
        pb_step evaluation = step_of(s, many, s->samples < 50 ? 150 : 9); /* several chunks */
        REQUIRE(pb_run(e, &step) == DONE);
        REQUIRE(step.loss >= -1e-5 && step.loss <= count);
        if (showing) printf("loss %.9g %d\n", step.loss, count);
        for (int l = 0; l <= s->shape->depth; l++) {
            size_t in = (size_t)s->shape->widths[l], out = (size_t)s->shape->widths[l + 1];
            show_floats(s->gradients[4 * l], in * out);
            show_floats(s->gradients[4 * l + 1], out);
        }
        evaluation.gradients = NULL;
        REQUIRE(pb_run(e, &evaluation) == DONE);
        bad.examples = 4;
        REQUIRE(pb_run(e, &bad) == BAD_INDEX);
    }
}

static void check_adam(setting *s, engine *e) {
    size_t width = (size_t)s->shape->widths[1];
    float *moment1 = numbers(width, 1, 0, 0), *moment2 = numbers(width, 1, 0, 0), log_scale = 0;
    for (int is_mean = 0; is_mean < 2; is_mean++) {
        pb_tensor tensor = {
            s->parameters[1], s->gradients[1], moment1, moment2, is_mean ? s->parameters[1] : NULL,
            &log_scale,       (int64_t)width};
        pb_update update = {&tensor, 1 + is_mean, 0.1, 1e-3, 0.9, 0.999, 1e-8, 1, s->threads};
        pb_adam(e, &update);
    }
    free(moment1), free(moment2);
}

/* Two steps in one call, of which a bad one is not counted. */
static void check_training(setting *s, engine *e) {
    static const int64_t index[EXAMPLES] = {4, 0, 2, 2, 1}, bad[EXAMPLES] = {4, 0, 2, EXAMPLES, 1};
    static const int32_t counts[] = {3, 2};
    static const double rates[] = {0.1, 0.2}, coefficients[] = {0, 0.5};
    size_t width = (size_t)s->shape->widths[1];
    float *moment1 = numbers(width, 1, 0, 0), *moment2 = numbers(width, 1, 0, 0), log_scale = 0;
    pb_tensor tensor = {s->parameters[1], s->gradients[1],  moment1,       moment2,
                        s->parameters[1], &log_scale,       (int64_t)width};
    double losses[2] = {-1, -1};
    pb_training job = {.first = step_of(s, index, 0),
                       .adam = {&tensor, 1, 0, 0, 0.9, 0.999, 1e-8, 1, s->threads},
                       .counts = counts,
                       .rates = rates,
                       .coefficients = coefficients,
                       .losses = losses,
                       .steps = 2};
    REQUIRE(pb_train(e, &job) == DONE && job.done == 2 && losses[1] > -1);
    job.first.index = bad;
    REQUIRE(pb_train(e, &job) == BAD_INDEX && job.done == 1);
    free(moment1), free(moment2);
}

/* Whatever allocation fails, the engine says so, and the same engine works afterwards. */
static void check_failures(setting *s) {
    static const int64_t index[EXAMPLES] = {4, 0, 2, 2, 1};
    engine *e = NULL;
    int failures = -1;
    for (int first = 0; !e; first++, failures++) {
        before_failure = first;
        e = open_engine(s);
        before_failure = INT_MAX;
    }
    REQUIRE(failures > 64); /* so that the list of memory has grown */
    pb_step step = step_of(s, index, EXAMPLES);
    for (int first = 0, status = OUT_OF_MEMORY; status != DONE; first++) {
        before_failure = first;
        status = pb_run(e, &step);
        before_failure = INT_MAX;
        REQUIRE(status == DONE || status == OUT_OF_MEMORY);
    }
    pb_close(e);
}

/* Evaluations of odd shapes, with labels and without, and the failure of their allocations. */
static void check_evaluation(setting *s) {
    double *arrays[ARRAYS], units[DEEPEST + 1], features[EXAMPLES * 21], out[EXAMPLES * 97 * 37];
    const int32_t *widths = s->shape->widths, labels[EXAMPLES] = {0, 1, 1, 0, 1};
    const uint64_t places[EXAMPLES] = {5, 1, 1, 7, UINT64_MAX};
    for (int i = 0; i < EXAMPLES * widths[0]; i++) features[i] = i % 3;
    for (int l = 0; l <= s->shape->depth; l++) {
        units[l] = s->learned ? -1 : 0.5;
        for (int k = 0; k < 4; k++) {
            int count = k % 2 ? widths[l + 1] : widths[l] * widths[l + 1];
            arrays[4 * l + k] = calloc((size_t)count, sizeof(double));
            for (int i = 0; i < count; i++) arrays[4 * l + k][i] = 0.1 * (i % 7) + (k < 2 ? -0.3 : 0.2);
        }
    }
    pb_evaluation job = {.parameters = (const double *const *)arrays,
                         .units = units,
                         .widths = widths,
                         .features = features,
                         .places = places,
                         .out = out,
                         .examples = EXAMPLES,
                         .first_draw = 3,
                         .draws = s->samples,
                         .key = 77,
                         .step = 0.3,
                         .depth = s->shape->depth,
                         .activation = s->activation,
                         .threads = s->threads};
    for (int with = 0; with < 2; with++) {
        job.labels = with ? labels : NULL;
        int64_t count = EXAMPLES * job.draws * (with || s->shape->classes == 2 ? 1 : widths[job.depth + 1]);
        for (int first = 0, status = OUT_OF_MEMORY; status != DONE; first++) {
            before_failure = s->samples == 2 ? first : INT_MAX;
            status = pb_evaluate(&job);
            before_failure = INT_MAX;
            REQUIRE(status == DONE || (status == OUT_OF_MEMORY && s->samples == 2));
        }
        double total = 0;
        for (int64_t i = 0; i < count; i++) total += (double)(1 + i % 5) * out[i];
        if (showing) printf("evaluation %.15g %lld\n", total, (long long)(3 * count));
        for (int64_t i = 0; i < count; i++) REQUIRE(out[i] > -1 - 1e-9 && out[i] < 1 + 1e-6);
    }
    for (int n = 0; n < 4 * (s->shape->depth + 1); n++) free(arrays[n]);
}

static int fits(const setting *s) {
    int drawn_or_tree = s->estimator == REINFORCE || s->estimator == TREE;
    int any_activation = s->estimator == MARGINAL || s->estimator == REINFORCE;
    int no_baseline = s->activation != SIGN || s->estimator == TREE;
    return !(drawn_or_tree && (s->learned || s->shape->classes > 2 || !s->shape->depth)) &&
           (any_activation || s->activation == SIGN) && (no_baseline || s->samples > 1);
}

static void check(setting *s) {
    if (!fits(s)) return;
    fill(s);
    engine *e = open_engine(s);
    REQUIRE(e);
    check_steps(s, e);
    check_adam(s, e);
    check_training(s, e);
    pb_close(e);
    if (s->samples == 2 && s->shape->fail) check_failures(s);
    if (s->estimator == MARGINAL && s->samples < 100) check_evaluation(s);
    empty(s);
}

/* A product in blocks has the bits of the product in cache, whatever remains of a block. */
static void check_product(int M, int N, int K, int turned, int add) {
    float *A = numbers((size_t)(M * K), 101, 0.013f, -0.6f), *B = numbers((size_t)(K * N), 97, 0.1f, -5);
    float *C = numbers((size_t)(M * N), 7, 0.3f, -1), *D = numbers((size_t)(M * N), 7, 0.3f, -1);
    float *room = numbers(COPIES, 1, 0, 0);
    offset a_row = turned ? 1 : K, a_column = turned ? M : 1;
    product(M, N, K, A, a_row, a_column, B, N, C, N, add, NULL);
    product(M, N, K, A, a_row, a_column, B, N, D, N, add, room);
    REQUIRE(!memcmp(C, D, (size_t)(M * N) * sizeof(float)));
    free(A), free(B), free(C), free(D), free(room);
}

static void check_products(void) {
    static const int rows[] = {1, 17, BLOCK_ROWS + TILE_ROWS + 5}, terms[] = {1, BLOCK_TERMS + 37};
    static const int columns[] = {LANES, BLOCK_COLUMNS + 3 * LANES};
    for (int n = 0; n < 48; n++)
        check_product(rows[n % 3], columns[n / 3 % 2], terms[n / 6 % 2], n / 12 % 2, n / 24);
}

int main(int arguments, char **argument) {
    (void)argument;
    showing = arguments > 1;
    static const int samples[] = {1, 2, 10, 97, 300};
    const int32_t widths[] = {3, 2, 1};
    REQUIRE(pb_abi() == PB_ABI);
    REQUIRE(!pb_open(1, widths, RELU, MARGINAL, 0, 0));
    REQUIRE(!pb_open(1, widths, RELU, MARGINAL, 0, INT_MAX));
    check_products();
    for (size_t n = 0; n < sizeof SHAPES / sizeof *SHAPES; n++)
        for (int activation = RELU; activation <= SIGN; activation++)
            for (int estimator = MARGINAL; estimator <= TREE; estimator++)
                for (int learned = 0; learned < 2; learned++)
                    for (int t = 0; t < (showing ? 2 : 5); t++) {
                        setting s = {.shape = &SHAPES[n],
                                     .activation = activation,
                                     .estimator = estimator,
                                     .learned = learned,
                                     .samples = samples[t],
                                     .threads = 1 + t % 3};
                        check(&s);
                    }
    puts("ok");
    return 0;
}
