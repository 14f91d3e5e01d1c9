/* Steps of every kind on odd shapes, for the sanitizers to watch. */
#include "engine.c"

#include <stdio.h>

int main(void) {
    int32_t shapes[][5] = {{3, 1, 1, 0, 0}, {7, 5, 1, 0, 0}, {20, 17, 33, 1, 0}, {4, 16, 1, 40, 1},
                           {5, 6, 3, 0, 0}, {4, 3, 9, 37, 0}};
    int depths[] = {1, 1, 2, 3, 1, 2}, samples[] = {1, 2, 10, 97, 300};
    for (int s = 0; s < 6; s++)
        for (int act = 0; act < 3; act++)
            for (int est = 0; est <= TREE; est++)
                for (int learned = 0; learned < 2; learned++)
                    for (int t = act == SIGN && est != TREE; t < 5; t++) {
                        int many_classes = s >= 4;
                        int baseline = est >= REINFORCE, signs = est && est != REINFORCE;
                        if ((baseline && (learned || many_classes)) || (signs && act != SIGN)) continue;
                        int depth = depths[s], d = shapes[s][0], n = 5;
                        float *parameters[16], *gradients[16], *x = calloc(n * d, 4), y[5];
                        for (int l = 0; l <= depth; l++) {
                            size_t in = shapes[s][l], out = shapes[s][l + 1];
                            size_t sizes[] = {in * out, out, learned ? in * out : 1, learned ? out : 1};
                            for (int k = 0; k < 4; k++) {
                                parameters[4 * l + k] = calloc(sizes[k], 4);
                                gradients[4 * l + k] = calloc(sizes[k], 4);
                                for (size_t i = 0; i < sizes[k]; i++)
                                    parameters[4 * l + k][i] = 0.1f * (float)(i % 7) - 0.3f;
                            }
                        }
                        for (int i = 0; i < n * d; i++) x[i] = (float)(i % 3);
                        for (int i = 0; i < n; i++) y[i] = many_classes ? (float)(i % 3) : i % 2 ? 1.0f : -1.0f;
                        int64_t index[] = {4, 0, 2, 2, 1}, many[150] = {0};
                        engine *e = pb_open(depth, shapes[s], act, est, learned, samples[t]);
                        for (int count = 1; count <= n; count += 4) {
                            const float *const *from = (const float *const *)parameters;
                            double loss = -1;
                            int threads = 1 + t % 3;
                            if (pb_run(e, from, gradients, x, y, n, index, count, 1, 2, t % 2, threads, &loss) ||
                                !(loss >= -1e-5 && loss <= count))
                                return 1;
                            if (pb_run(e, from, NULL, x, y, n, many, 150, 1, 2, 0, 2, &loss)) return 1;
                            if (pb_run(e, from, gradients, x, y, 4, index, count, 1, 2, 0, 2, &loss) != 2)
                                return 2;
                        }
                        size_t width = shapes[s][1];
                        float *m = calloc(width, 4), *v = calloc(width, 4), scale = 0;
                        for (int mean = 0; mean < 2; mean++) {
                            tensor tensors[] = {{parameters[1], gradients[1], m, v,
                                                 mean ? parameters[1] : NULL, &scale, (int64_t)width}};
                            pb_adam(e, tensors, 1, 0.1f, 1e-3, 0.9, 0.999, 1e-8, 1 + mean, 1 + t % 3);
                        }
                        free(m), free(v);
                        pb_close(e);
                        for (int k = 0; k < 4 * (depth + 1); k++) free(parameters[k]), free(gradients[k]);
                        free(x);
                    }
    puts("ok");
    return 0;
}
