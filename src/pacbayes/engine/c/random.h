/* Random numbers in streams keyed by (seed, step, chunk): the same whatever thread draws them. */
#ifndef PACBAYES_RANDOM_H
#define PACBAYES_RANDOM_H

#include "vector.h"

/* xoshiro128++ (Blackman & Vigna 2019), LANES generators side by side. */
typedef struct {
    vu s[4];
} stream;

static inline uint64_t splitmix(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static inline stream open_stream(uint64_t seed, uint64_t step, uint64_t chunk) {
    uint64_t key = seed;
    key = splitmix(&key) ^ step;
    key = splitmix(&key) ^ chunk;
    stream r;
    uint64_t words[sizeof r / 8];
    for (size_t i = 0; i < sizeof r / 8; i++) words[i] = splitmix(&key);
    memcpy(&r, words, sizeof r);
    return r;
}

static inline vu rotated(vu x, int k) { return (x << k) | (x >> (32 - k)); }

/* LANES uniform 32-bit words. */
static inline vu next_words(stream *r) {
    vu *s = r->s, word = rotated(s[0] + s[3], 7) + s[0], t = s[1] << 9;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotated(s[3], 11);
    return word;
}

/* Twice LANES standard normals by Box–Muller; the radius has 31 bits, so tails reach 6.6. */
static inline void next_normals(stream *r, vf *a, vf *b) {
    vu one = next_words(r), two = next_words(r);
    vf u = (__builtin_convertvector((vi)(one >> 1), vf) + 0.5f) * 4.656612873e-10f; /* (0, 1] */
    vf radius = root(most(minus_two_log(u), all(0.0f)));
    /* Two bits of the angle choose the quadrant, the rest an angle within ±π/4. */
    vf x = __builtin_convertvector((vi)(two << 2) >> 8, vf) * 9.3622396e-8f; /* 2⁻²³·π/4 */
    vf z = x * x;
    vf sine = -1.9515295891e-4f * z + 8.3321608736e-3f;
    sine = sine * z - 1.6666654611e-1f;
    sine = sine * z * x + x;
    vf cosine = 2.443315711809948e-5f * z - 1.388731625493765e-3f;
    cosine = cosine * z + 4.166664568298827e-2f;
    cosine = cosine * (z * z) + (1.0f - 0.5f * z);
    where swap = less((vi)two, (vi){0});
    vf signed_radius = (vf)((vi)radius ^ ((vi)(two << 1) & INT32_MIN));
    *a = signed_radius * choose(swap, sine, cosine);
    *b = signed_radius * choose(swap, cosine, sine);
}

/* Standard normals; count is a multiple of LANES and out has room for an even number of those. */
static void fill_normals(stream *random, float *out, size_t count) {
    stream r = *random;
    for (size_t i = 0; i < count; i += 2 * LANES) {
        vf a, b;
        next_normals(&r, &a, &b);
        store(out + i, a);
        store(out + i + LANES, b);
    }
    *random = r;
}

/* a = ±1 with P(a = 1) = Φ(u). The rarer side is drawn by comparing all 32 bits of a word with
 * its probability, so that a small one keeps its precision. */
typedef struct {
    where up;    /* a = 1 */
    vf density;  /* φ(u) */
    vf score;    /* d log P(a) / du = a·φ(u)/Φ(a·u) */
} sign_draw;

static inline vi rare_threshold(vf tail) { return integers(tail * 4294967296.0f) ^ INT32_MIN; }

static inline sign_draw draw_sign(vf u, stream *r) {
    normal n = normal_at(u);
    where rare = less((vi)next_words(r), rare_threshold(n.tail));
    where up = either(rare, below(all(0.0f), u));
    vf score = n.density / choose(rare, n.tail, 1.0f - n.tail);
    return (sign_draw){up, n.density, (vf)((vi)score ^ (INT32_MIN ^ keep(up, INT32_MIN)))};
}

#endif
