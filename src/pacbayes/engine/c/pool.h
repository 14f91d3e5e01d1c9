/* Threads that wait for work. Tasks are numbered and what a task computes depends on its number
 * alone, so it does not matter who does it. */
#ifndef PACBAYES_POOL_H
#define PACBAYES_POOL_H

#include <immintrin.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#define HELPERS 15
#define PATIENCE 2000 /* turns a helper spins before it sleeps: steps follow one another closely */

typedef void task(void *argument, int number);

typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    pthread_t helpers[HELPERS];
    int started, wanted, busy, closing;
    atomic_uint round;
    pid_t owner; /* helpers do not survive a fork: the child starts its own */
    task *run;
    void *argument;
    int tasks;
    atomic_int next;
} pool;

/* Numbers below 10⁻³⁸ count as zero meanwhile: they mean nothing here, and a processor takes a
 * hundred times as long over each. */
static void work_through(pool *p) {
    unsigned mode = _mm_getcsr();
    _mm_setcsr(mode | 0x8040);
    for (int n; (n = atomic_fetch_add(&p->next, 1)) < p->tasks;) p->run(p->argument, n);
    _mm_setcsr(mode);
}

static void *helper(void *argument) {
    pool *p = argument;
    unsigned seen = 0;
    for (;;) {
        for (int i = 0; i < PATIENCE && atomic_load(&p->round) == seen; i++) _mm_pause();
        pthread_mutex_lock(&p->lock);
        while (atomic_load(&p->round) == seen && !p->closing) pthread_cond_wait(&p->work, &p->lock);
        seen = atomic_load(&p->round);
        int closing = p->closing, mine = p->wanted > 0;
        if (mine) p->wanted--, p->busy++;
        pthread_mutex_unlock(&p->lock);
        if (closing) return NULL;
        if (!mine) continue;
        work_through(p);
        pthread_mutex_lock(&p->lock);
        if (--p->busy == 0) pthread_cond_signal(&p->done);
        pthread_mutex_unlock(&p->lock);
    }
}

static void open_pool(pool *p) {
    memset(p, 0, sizeof *p);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->work, NULL);
    pthread_cond_init(&p->done, NULL);
    p->owner = getpid();
}

static void close_pool(pool *p) {
    if (p->owner != getpid()) return;
    pthread_mutex_lock(&p->lock);
    p->closing = 1;
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < p->started; i++) pthread_join(p->helpers[i], NULL);
}

/* Do tasks 0 … tasks − 1, the caller and up to threads − 1 helpers; fewer where none can start. */
static void run_tasks(pool *p, int threads, int tasks, task *run, void *argument) {
    if (p->owner != getpid()) open_pool(p);
    int helpers = threads - 1 < tasks - 1 ? threads - 1 : tasks - 1;
    if (helpers > HELPERS) helpers = HELPERS;
    if (helpers > 0) pthread_mutex_lock(&p->lock);
    p->run = run, p->argument = argument, p->tasks = tasks;
    atomic_store(&p->next, 0);
    if (helpers > 0) {
        p->wanted = helpers;
        atomic_fetch_add(&p->round, 1);
        while (p->started < helpers &&
               !pthread_create(&p->helpers[p->started], NULL, helper, p))
            p->started++;
        pthread_cond_broadcast(&p->work);
        pthread_mutex_unlock(&p->lock);
    }
    work_through(p);
    if (helpers <= 0) return;
    pthread_mutex_lock(&p->lock);
    p->wanted = 0; /* whoever has not begun need not */
    while (p->busy) pthread_cond_wait(&p->done, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

#endif
