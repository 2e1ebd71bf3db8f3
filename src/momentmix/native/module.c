/* Compiled code of momentmix: what is done for every row. The Python code that calls it is its
 * specification; every function runs without the interpreter lock.
 *
 * Buffers are contiguous float64 or int64 memory; lengths are checked here, so that no caller can
 * make it write elsewhere: sizes are computed by `times` and `plus`, and compared with what there is
 * in `buffer` and `allocate`, and indices are checked before they are used. Compiled for the instruction sets below, one of which is taken when the
 * module is loaded; without any of them the module does not load.
 */
#define PY_SSIZE_T_CLEAN
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030B0000
#endif
#include <Python.h>
#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LANES 8
#define CHUNK 256          /* rows whose monomials are in the table: it fits the second cache */
#define ROW (CHUNK + 8)    /* numbers from one row of the table to the next: not a power of two */
#define MOST_THREADS 256
#define STRIP 4            /* left monomials that are multiplied at a time */
enum { LOG_DENSITIES, SHARES, LABELS }; /* what is asked of each row */
#define SLAB 128           /* rows whose densities are made at a time: they fit the first cache */
#define PART 2048          /* rows that a thread sums at a time in an EM step */
#define LEAST_IN_SUMS -200.0 /* where logarithms are cut off: see mixture/density.py */
#define LEAST -700.0
#define NOTHING 1e-303
#define FEWEST_ROWS 1e-10 /* see mixture/prior.py */
#define MOST_STEPS (1 << 16) /* of EM in a call, which cannot be interrupted */

typedef ptrdiff_t isize;

/* How the moments of a layout are summed: see summary/kernels/plan.py. */
typedef struct {
    isize n_features, n_left, n_right, n_strips, n_sums, n_entries;
    const int64_t *left, *right; /* two right monomials whose product each one is, (n, 2) */
    const int64_t *strips;       /* left from … to, right from … to, first cell, (n_strips, 5) */
    const int64_t *positions;    /* of each moment among the cells */
} plan;

/* Rows (n, columns) and units (shift, 1 / scale), or features (size, n) without units. */
typedef struct {
    const double *values, *units;
    isize n, d, n_pairs, n_squares, row_stride, column_stride;
    const int64_t *columns, *pairs; /* pairs of features whose products are statistics too */
    const int64_t *squares; /* features whose squares have a part in the densities; NULL: all */
    const double *counts; /* how many rows each row counts as; NULL: one */
    int is_whole; /* the columns are neighbors in memory */
} row_source;

/* Length of T(z) = (z, z², products of pairs, 1). */
static isize n_statistics(const row_source *rows)
{
    return 2 * rows->d + rows->n_pairs + 1;
}

/* The same without squares that have no part. */
static isize n_summed(const row_source *rows)
{
    return rows->squares ? rows->d + rows->n_squares + rows->n_pairs + 1 : n_statistics(rows);
}

/* Place in T(z) of a statistic that is summed. */
static isize place_in_all(const row_source *rows, isize s)
{
    isize d = rows->d, n = rows->n_squares;
    if (!rows->squares || s < d)
        return s;
    return s < d + n ? d + rows->squares[s - d] : s + d - n;
}

#define INLINE static inline __attribute__((always_inline))
#define UNROLLED _Pragma("GCC unroll 32")
#define NOINLINE __attribute__((noinline))
#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)

/* -- one copy of the code for each instruction set ------------------------------------------- */

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f,avx512dq,avx512vl,avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx512vl,avx2,fma,prefer-vector-width=512")
#endif
#define MM_AVX512
#define NAME(x) JOIN(x, avx512)
#include "set.h"
#undef MM_AVX512
#ifdef __clang__
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
#define MM_AVX2
#define NAME(x) JOIN(x, avx2)
#include "set.h"
#undef MM_AVX2
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#elif defined(__aarch64__) && defined(__GNUC__)
#include <arm_neon.h>
#define MM_NEON
#define NAME(x) JOIN(x, neon)
#include "set.h"
#undef MM_NEON

#else
#error "no code for this processor or compiler: momentmix takes NumPy"
#endif

typedef struct {
    const char *name;
    void (*block)(const plan *, const double *, const double *, const double *, isize, double *,
                  double *);
    void (*extremes)(const double *, isize, isize, double *, double *);
    int (*in_range)(const double *, isize, double);
    void (*split)(double *, isize, const double *, isize, double *);
    void (*em_sums)(const row_source *, const double *, isize, isize, double *, double *, double *);
    isize (*map_rows)(const row_source *, int, const double *, isize, double *, double *);
} instruction_set;

#define CODE(set)                                                                                  \
    {                                                                                              \
        #set, block_##set, extremes_##set, in_range_##set, split_##set,                              \
            em_sums_##set, map_rows_##set                                             \
    }
static const instruction_set SETS[] = {
#if defined(__x86_64__)
    CODE(avx512), CODE(avx2)
#else
    CODE(neon)
#endif
};
static const instruction_set *code = NULL;

static int usable(const instruction_set *set)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (set == &SETS[0])
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")
               && __builtin_cpu_supports("avx512vl");
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    (void)set;
    return 1;
#endif
}

/* -- arguments --------------------------------------------------------------------------------- */

/* Product and sum of sizes; more than any buffer has where it overflows or a size is negative. */
static isize times(isize a, isize b)
{
    isize n;
    return a < 0 || b < 0 || __builtin_mul_overflow(a, b, &n) ? PTRDIFF_MAX : n;
}

static isize plus(isize a, isize b)
{
    isize n;
    return a < 0 || b < 0 || __builtin_add_overflow(a, b, &n) ? PTRDIFF_MAX : n;
}

/* Memory for n numbers of 8 bytes; NULL and an error where there is none. */
static void *allocate(isize n)
{
    void *memory = n >= 0 && n <= PTRDIFF_MAX / 8 ? PyMem_Malloc(n * 8) : NULL;
    if (!memory)
        PyErr_NoMemory();
    return memory;
}

/* Whether a buffer has float64 or int64 numbers of this machine, all at multiples of 8 bytes. */
static int has_numbers(const Py_buffer *view)
{
    int is_aligned = (uintptr_t)view->buf % 8 == 0;
    for (int i = 0; view->strides && i < view->ndim; i++)
        is_aligned &= view->strides[i] % 8 == 0 || view->shape[i] < 2;
    const char *format = view->format ? view->format : "B";
    return is_aligned && view->itemsize == 8 && *format && strchr("dlqLQ", *format) && !format[1];
}

enum { READ, WRITE, BYTES }; /* what a buffer is for; BYTES: read, whatever it holds */

/* A buffer of at least n numbers of 8 bytes; 0 and an error otherwise. */
static int buffer(PyObject *object, Py_buffer *view, int access, isize n, const char *name)
{
    int flags = access == BYTES ? PyBUF_SIMPLE : PyBUF_ND | PyBUF_FORMAT;
    if (PyObject_GetBuffer(object, view, access == WRITE ? flags | PyBUF_WRITABLE : flags))
        return 0;
    if (access != BYTES && !has_numbers(view))
        PyErr_Format(PyExc_ValueError, "%s must be aligned float64 or int64 numbers", name);
    else if (n < 0 || n > view->len / 8)
        PyErr_Format(PyExc_ValueError, "%s needs %zd bytes, it has %zd", name, times(n, 8), view->len);
    else
        return 1;
    PyBuffer_Release(view);
    return 0;
}

#define MOST_VIEWS 14

/* Buffers of the arguments of a call, until it is done with them. */
typedef struct {
    Py_buffer views[MOST_VIEWS];
    int n;
} held;

static void release(held *h)
{
    while (h->n)
        PyBuffer_Release(&h->views[--h->n]);
}

static Py_buffer *hold(held *h, PyObject *object, int access, isize n, const char *name)
{
    return buffer(object, &h->views[h->n], access, n, name) ? &h->views[h->n++] : NULL;
}

/* Numbers that a thread works on, from a cache line on: table, left monomials and cells. */
static isize space_size(const plan *p)
{
    return plus(plus(times(plus(p->n_right, STRIP), ROW), p->n_sums), LANES) / LANES * LANES;
}

/* Whether all numbers of a plan fit its sizes; sets the others. */
static int is_valid(plan *p)
{
    isize n_points = p->n_features + 1;
    for (isize i = 0; i < 2 * p->n_left; i++)
        if (p->left[i] < 0 || p->left[i] >= p->n_right)
            return 0;
    for (isize i = 2 * n_points; i < 2 * p->n_right; i++)
        if (p->right[i] < 0 || p->right[i] >= i / 2) /* they are made in their order */
            return 0;
    for (const int64_t *s = p->strips; s < p->strips + 5 * p->n_strips; s += 5) {
        if (s[0] < 0 || s[1] <= s[0] || s[1] > s[0] + STRIP || s[1] > p->n_left || s[2] < 0
            || s[3] <= s[2] || s[3] > p->n_right || s[4] != p->n_sums)
            return 0;
        p->n_sums = plus(p->n_sums, (s[1] - s[0]) * (s[3] - s[2]));
    }
    for (isize e = 0; e < p->n_entries; e++)
        if (p->positions[e] < 0 || p->positions[e] >= p->n_sums)
            return 0;
    return n_points <= p->n_right;
}

/* -- threads ----------------------------------------------------------------------------------- */

/* Items 0 … n_items − 1 of some work, each done by whichever thread is free. */
typedef struct task {
    isize n_items, next;
    void (*work)(struct task *, isize item, isize thread);
} task;

typedef struct {
    task *task;
    isize number;
} thread;

static void *take_items(void *argument)
{
    thread *self = argument;
    isize item;
    while ((item = __atomic_fetch_add(&self->task->next, 1, __ATOMIC_RELAXED)) < self->task->n_items)
        self->task->work(self->task, item, self->number);
    return NULL;
}

/* Do all items on so many threads, the caller's among them; on fewer where none can be started. */
static void on_threads(task *work, isize n_threads)
{
    pthread_t ids[MOST_THREADS];
    thread threads[MOST_THREADS];
    isize n_started = 0;
    n_threads = n_threads < work->n_items ? n_threads : work->n_items;
    n_threads = n_threads < MOST_THREADS ? n_threads : MOST_THREADS;
    for (isize i = 1; i < n_threads; i++) {
        threads[i] = (thread){work, i};
        if (pthread_create(&ids[i], NULL, take_items, &threads[i]))
            break;
        n_started = i;
    }
    threads[0] = (thread){work, 0};
    take_items(&threads[0]);
    for (isize i = 1; i <= n_started; i++)
        pthread_join(ids[i], NULL);
}

/* -- functions --------------------------------------------------------------------------------- */

typedef struct {
    task task;
    plan plan;
    isize n, space_size;
    const double *rows, *weights, *units;
    double *space, *out;
} block_task;

static void do_block(task *work, isize block, isize thread)
{
    block_task *t = (block_task *)work;
    const plan *p = &t->plan;
    code->block(p, t->rows + block * t->n * p->n_features, t->weights ? t->weights + block * t->n : NULL,
                t->units, t->n, t->space + thread * t->space_size, t->out + block * p->n_entries);
}

PyDoc_STRVAR(sum_blocks_doc,
"sum_blocks(left, right, strips, positions, rows, weights, units, n, out, n_threads)\n--\n\n"
"The moments of blocks of n rows each: see `summary.kernels.plan`.");

static PyObject *sum_blocks(PyObject *module, PyObject *args)
{
    block_task t = {.space = NULL};
    plan *p = &t.plan;
    isize n_threads;
    PyObject *left, *right, *strips, *positions, *rows, *weights, *units, *out, *result = NULL;
    held h = {.n = 0};
    Py_buffer *l, *r, *s, *e, *u, *x, *y, *w = NULL;
    if (!PyArg_ParseTuple(args, "OOOOOOOnOn", &left, &right, &strips, &positions, &rows, &weights, &units,
                          &t.n, &out, &n_threads))
        return NULL;
    if (!(l = hold(&h, left, READ, 0, "left")) || !(r = hold(&h, right, READ, 0, "right"))
        || !(s = hold(&h, strips, READ, 0, "strips")) || !(e = hold(&h, positions, READ, 1, "positions"))
        || !(u = hold(&h, units, READ, 2, "units")) || !(x = hold(&h, rows, READ, 0, "rows")))
        goto done;
    *p = (plan){.n_features = u->len / 16, .n_left = l->len / 16, .n_right = r->len / 16,
                .n_strips = s->len / 40, .n_entries = e->len / 8, .left = l->buf, .right = r->buf,
                .strips = s->buf, .positions = e->buf};
    if (t.n < 1 || n_threads < 1 || !is_valid(p)) {
        PyErr_SetString(PyExc_ValueError, "the numbers of the plan do not fit its sizes");
        goto done;
    }
    isize n_blocks = x->len / 8 / p->n_features / t.n;
    if (!(y = hold(&h, out, WRITE, times(n_blocks, p->n_entries), "out"))
        || (weights != Py_None && !(w = hold(&h, weights, READ, n_blocks * t.n, "weights"))))
        goto done;
    n_threads = n_threads < n_blocks ? n_threads : n_blocks;
    n_threads = n_threads < MOST_THREADS ? n_threads : MOST_THREADS;
    t.space_size = space_size(p);
    double *space = allocate(plus(times(n_threads, t.space_size), LANES));
    if (!space)
        goto done;
    t.task = (task){n_blocks, 0, do_block};
    t.rows = x->buf, t.weights = w ? w->buf : NULL, t.units = u->buf, t.out = y->buf;
    t.space = space + (64 - (uintptr_t)space % 64) / 8;
    Py_BEGIN_ALLOW_THREADS
    on_threads(&t.task, n_threads);
    Py_END_ALLOW_THREADS
    PyMem_Free(space);
    result = Py_NewRef(Py_None);
done:
    release(&h);
    return result;
}

typedef struct {
    task task;
    isize n, d;
    const double *rows;
    double *out;
} extremes_task;

static void do_extremes(task *work, isize block, isize thread)
{
    extremes_task *t = (extremes_task *)work;
    double *low = t->out + block * 2 * t->d;
    (void)thread;
    code->extremes(t->rows + block * t->n * t->d, t->n, t->d, low, low + t->d);
}

PyDoc_STRVAR(extremes_doc,
"extremes(rows, n_blocks, n, n_features, out, n_threads)\n--\n\n"
"Minimum and maximum of each column of each block of n rows, (n_blocks, 2, n_features).");

static PyObject *extremes(PyObject *module, PyObject *args)
{
    extremes_task t;
    isize n_blocks, n_threads;
    PyObject *rows, *out, *result = NULL;
    held h = {.n = 0};
    Py_buffer *x, *y;
    if (!PyArg_ParseTuple(args, "OnnnOn", &rows, &n_blocks, &t.n, &t.d, &out, &n_threads))
        return NULL;
    if (t.n < 1 || t.d < 1 || n_blocks < 0 || n_threads < 1) {
        PyErr_SetString(PyExc_ValueError, "sizes must be positive");
        return NULL;
    }
    if (!(x = hold(&h, rows, READ, times(times(n_blocks, t.n), t.d), "rows"))
        || !(y = hold(&h, out, WRITE, times(times(n_blocks, 2), t.d), "out")))
        goto done;
    t.task = (task){n_blocks, 0, do_extremes}, t.rows = x->buf, t.out = y->buf;
    Py_BEGIN_ALLOW_THREADS
    on_threads(&t.task, n_threads);
    Py_END_ALLOW_THREADS
    result = Py_NewRef(Py_None);
done:
    release(&h);
    return result;
}

typedef struct {
    task task;
    isize n;
    const double *values;
    double largest;
    int all;
} range_task;

#define RANGE_PART (1 << 16) /* numbers that a thread checks at a time */

static void do_range(task *work, isize part, isize thread)
{
    range_task *t = (range_task *)work;
    isize start = part * RANGE_PART, n = t->n - start < RANGE_PART ? t->n - start : RANGE_PART;
    (void)thread;
    if (__atomic_load_n(&t->all, __ATOMIC_RELAXED) && !code->in_range(t->values + start, n, t->largest))
        __atomic_store_n(&t->all, 0, __ATOMIC_RELAXED);
}

PyDoc_STRVAR(in_range_doc,
"in_range(values, largest, n_threads)\n--\n\n"
"Whether every number is at most `largest` in size, and none is NaN.");

static PyObject *in_range(PyObject *module, PyObject *args)
{
    PyObject *values;
    range_task t = {.all = 1};
    isize n_threads;
    Py_buffer x;
    if (!PyArg_ParseTuple(args, "Odn", &values, &t.largest, &n_threads)
        || !buffer(values, &x, 0, 0, "values"))
        return NULL;
    t.n = x.len / 8, t.values = x.buf;
    t.task = (task){(t.n + RANGE_PART - 1) / RANGE_PART, 0, do_range};
    Py_BEGIN_ALLOW_THREADS
    on_threads(&t.task, n_threads);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&x);
    return PyBool_FromLong(t.all);
}

PyDoc_STRVAR(add_digits_doc,
"add_digits(values, n_vectors, rounders, digits)\n--\n\n"
"Split vectors (overwritten) into digits and add these: see `summary.blocks`.");

static PyObject *add_digits(PyObject *module, PyObject *args)
{
    PyObject *values, *rounders, *digits, *result = NULL;
    isize n_vectors;
    held h = {.n = 0};
    Py_buffer *v, *r, *d;
    if (!PyArg_ParseTuple(args, "OnOO", &values, &n_vectors, &rounders, &digits))
        return NULL;
    if (!(v = hold(&h, values, 1, 0, "values")) || !(r = hold(&h, rounders, 0, 0, "rounders")))
        goto done;
    if (n_vectors < 0 || (n_vectors && v->len / 8 % n_vectors)) {
        PyErr_SetString(PyExc_ValueError, "values are no n_vectors vectors of equal length");
        goto done;
    }
    isize n = n_vectors ? v->len / 8 / n_vectors : 0, n_digits = r->len / 8;
    if (!(d = hold(&h, digits, WRITE, times(n, n_digits), "digits")))
        goto done;
    Py_BEGIN_ALLOW_THREADS
    for (isize i = 0; n && i < n_vectors; i++)
        code->split((double *)v->buf + i * n, n, r->buf, n_digits, d->buf);
    Py_END_ALLOW_THREADS
    result = Py_NewRef(Py_None);
done:
    release(&h);
    return result;
}

#include "mixtures.h"
#include "conditions.h"
#include "digits.h"

PyDoc_STRVAR(use_doc,
"use(name=None)\n--\n\nTake the code for an instruction set; returns the names of all usable ones.");

static PyObject *use(PyObject *module, PyObject *args)
{
    const char *name = NULL;
    if (!PyArg_ParseTuple(args, "|z", &name))
        return NULL;
    PyObject *names = PyList_New(0);
    int found = !name;
    for (size_t i = 0; names && i < sizeof SETS / sizeof *SETS; i++) {
        if (!usable(&SETS[i]))
            continue;
        if (name && !strcmp(name, SETS[i].name))
            code = &SETS[i], found = 1;
        PyObject *text = PyUnicode_FromString(SETS[i].name);
        if (!text || PyList_Append(names, text))
            Py_CLEAR(names);
        Py_XDECREF(text);
    }
    if (names && !found) {
        Py_CLEAR(names);
        PyErr_Format(PyExc_ValueError, "this processor has no code named %s", name);
    }
    return names;
}

static PyMethodDef METHODS[] = {
    {"sum_blocks", sum_blocks, METH_VARARGS, sum_blocks_doc},
    {"extremes", extremes, METH_VARARGS, extremes_doc},
    {"in_range", in_range, METH_VARARGS, in_range_doc},
    {"add_digits", add_digits, METH_VARARGS, add_digits_doc},
    {"em_sums", em_sums, METH_VARARGS, em_sums_doc},
    {"em_steps", em_steps, METH_VARARGS, em_steps_doc},
    {"map_rows", map_rows, METH_VARARGS, map_rows_doc},
    {"add_second_moments", add_second_moments, METH_VARARGS, add_second_moments_doc},
    {"subtract_multiples", subtract_multiples, METH_VARARGS, subtract_multiples_doc},
    {"use", use, METH_VARARGS, use_doc},
    {NULL, NULL, 0, NULL},
};

static int start(PyObject *module)
{
    for (size_t i = sizeof SETS / sizeof *SETS; i-- > 0;)
        if (usable(&SETS[i]))
            code = &SETS[i];
    if (!code) {
        PyErr_SetString(PyExc_ImportError, "this processor has none of the instructions needed");
        return -1;
    }
    return PyModule_AddIntConstant(module, "STRIP", STRIP);
}

static PyModuleDef_Slot SLOTS[] = {{Py_mod_exec, start}, {0, NULL}};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, .m_name = "momentmix.native.compiled",
    .m_doc = "Compiled code: what is done for every row.", .m_methods = METHODS, .m_slots = SLOTS,
};

PyMODINIT_FUNC PyInit_compiled(void) { return PyModuleDef_Init(&MODULE); }
