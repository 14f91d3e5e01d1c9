/* The aggregated head for more than two classes: P(the score of the label's class is the largest),
 *   ∫ φ((z − μ_y)/s_y)/s_y · Π_{k≠y} Φ((z − μ_k)/s_k) dz,
 * by the trapezoidal rule of quadrature.py, with its gradient in every mean and deviation. */
#ifndef PACBAYES_CLASSES_H
#define PACBAYES_CLASSES_H

#include "products.h"
#include "random.h"

#define STEP 0.4f        /* in units of the least deviation */
#define REACH 5.5f       /* in units of the greatest; beyond is less than a float resolves */
#define MOST_POINTS 4096 /* on either side */

/* Scores of one row of lanes: `count` classes, `R` apart. */
typedef struct {
    int count;
    size_t R;
    const float *mean, *inverse; /* μ and 1/s */
    vf label;
    vf *below, *at, *density; /* scratch, one for each class: Φ(v), v, and φ(v) */
} scores;

/* Φ and φ of every class at z; returns the integrand times h. */
static inline vf integrand(const scores *s, vf z, vf h) {
    vf w = h;
    for (int c = 0; c < s->count; c++) {
        vf inv = load(s->inverse + c * s->R), v = (z - load(s->mean + c * s->R)) * inv;
        normal n = normal_at(v);
        vf below_z = choose(below(all(0.0f), v), 1.0f - n.tail, n.tail);
        s->at[c] = v, s->density[c] = n.density, s->below[c] = below_z;
        w *= choose(equal(s->label, all((float)c)), n.density * inv, below_z);
    }
    return w;
}

/* How many points on either side reach far enough in every lane. */
static inline int points(const scores *s, vf *center, vf *h) {
    vf first = load(s->inverse), most_inv = first, least_inv = first;
    *center = load(s->mean);
    for (int c = 1; c < s->count; c++) {
        vf inv = load(s->inverse + c * s->R);
        most_inv = most(most_inv, inv), least_inv = least(least_inv, inv);
        *center = most(*center, load(s->mean + c * s->R));
    }
    *h = STEP * inverse(most_inv);
    vf ratio = most_inv * inverse(least_inv) * (REACH / STEP);
    float wanted = 0;
    for (int i = 0; i < LANES; i++) wanted = ratio[i] > wanted ? ratio[i] : wanted;
    return wanted < MOST_POINTS ? (int)wanted + 1 : MOST_POINTS;
}

/* P(label wins); where dm is not NULL also its slopes in means and variances, R apart. */
static vf win_probability(const scores *s, float *dm, float *dv) {
    vf center, h, total = all(0.0f);
    int half = points(s, &center, &h);
    for (int c = 0; dm && c < s->count; c++) {
        store(dm + c * s->R, all(0.0f));
        store(dv + c * s->R, all(0.0f));
    }
    for (int j = -half; j <= half; j++) {
        vf w = integrand(s, center + (float)j * h, h);
        total += w;
        for (int c = 0; dm && c < s->count; c++) {
            where own = equal(s->label, all((float)c));
            vf g = w * choose(own, s->at[c], -s->density[c] * inverse(s->below[c]));
            store(dm + c * s->R, load(dm + c * s->R) + g);
            store(dv + c * s->R, load(dv + c * s->R) + g * s->at[c]);
        }
    }
    for (int c = 0; dm && c < s->count; c++) {
        where own = equal(s->label, all((float)c));
        vf inv = load(s->inverse + c * s->R);
        vf spread = load(dv + c * s->R) - choose(own, total, all(0.0f));
        store(dm + c * s->R, load(dm + c * s->R) * inv);
        store(dv + c * s->R, 0.5f * spread * inv * inv);
    }
    return total;
}

#endif
