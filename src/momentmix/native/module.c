/* Compiled code of momentmix: what is done for every row. The Python code that calls it is its
 * specification; every function runs without the interpreter lock.
 *
 * Buffers are contiguous float64 or int64 memory; lengths are checked here, so that no caller can
 * make it write elsewhere: sizes are computed by `times` and `plus`, and compared with what there is
 * in `take` and `allocate`, and indices are checked before they are used.
 * Compiled for the instruction sets below, one of which is taken when the module is loaded; without any
 * of them the module does not load.
 */
#define PY_SSIZE_T_CLEAN
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030B0000
#endif
#include <Python.h>
#include <float.h>
#include <math.h>
#include <stdarg.h>
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
#define LEAST_IN_SUMS -200.0 /* where logarithms are cut off: see mixture/density.py */
#define LEAST -700.0
#define NOTHING 1e-303
#define FEWEST_ROWS 1e-10 /* see mixture/prior.py */
#define MOST_STEPS (1 << 16) /* of EM in a call, which cannot be interrupted */

typedef ptrdiff_t isize;

/* How the moments of a layout are summed: see summary/kernel.py. */
typedef struct {
    isize n_features, n_left, n_right, n_strips, n_sums, n_entries;
    const int64_t *left, *right; /* two right monomials whose product each one is, (n, 2) */
    const int64_t *strips;       /* left from … to, right from … to, first cell, (n_strips, 5) */
    const int64_t *positions;    /* of each moment among the cells */
} plan;

/* Rows (n, columns) and units (shift, 1 / scale), or without units statistics in memory (size, n). */
typedef struct {
    const double *values, *units, *counts; /* how many rows each row counts as; NULL: one */
    isize n, d, n_products, row_stride, column_stride;
    const int64_t *columns;
    const int64_t *products; /* two features, or −1 and the statistic in memory that it is */
} row_source;

/* Length of T(z) = (z, products, 1). */
static isize n_statistics(const row_source *rows) { return rows->d + rows->n_products + 1; }

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
    void (*split)(double *, isize, const double *, isize, double *);
    void (*em_sums)(const row_source *, const double *, isize, isize, double *, double *, double *);
    isize (*map_rows)(const row_source *, int, const double *, isize, double *, double *);
} instruction_set;

#define CODE(set)                                                                                  \
    {                                                                                              \
        #set, block_##set, extremes_##set, split_##set, em_sums_##set, map_rows_##set              \
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

/* Numbers of a caller, contiguous but in a table; no data where it gave None. */
typedef struct {
    void *data;
    isize n;               /* how many */
    const Py_ssize_t *shape, *strides; /* of a table */
} array;

#define MOST_VIEWS 10 /* of the arguments of a call */

/* Buffers of the arguments of a call, until it is done with them. */
typedef struct {
    Py_buffer views[MOST_VIEWS];
    int n;
} held;

/* The end of a call: the result, or an error where there is none. */
static PyObject *done(held *h, PyObject *result)
{
    while (h->n)
        PyBuffer_Release(&h->views[--h->n]);
    if (!result && !PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "arguments that do not fit each other");
    return result;
}

static int hold(held *h, PyObject *object, char kind, array *out)
{
    Py_buffer *view = &h->views[h->n];
    int flags = kind == 't' ? PyBUF_RECORDS_RO : PyBUF_ND | PyBUF_FORMAT | (kind == 'w' || kind == 'W' ? PyBUF_WRITABLE : 0);
    *out = (array){NULL, 0, NULL, NULL};
    if (object == Py_None && (kind == 'o' || kind == 'W'))
        return 1;
    if (PyObject_GetBuffer(object, view, flags))
        return 0;
    h->n++;
    *out = (array){view->buf, view->len / 8, view->shape, view->strides};
    if (has_numbers(view) && (kind != 't' || view->ndim == 2))
        return 1;
    PyErr_SetString(PyExc_ValueError, "aligned float64 or int64 numbers are needed");
    return 0;
}

/* The arguments of a call by a letter each: n, a size; d, a number; r, numbers that are read; o, such
 * numbers or None; w, numbers that are written; W, such
 * numbers or None; t, a table with any strides. 0 and an error otherwise. */
static int take(held *h, PyObject *args, const char *kinds, ...)
{
    va_list targets;
    int is_taken = PyTuple_Size(args) == (Py_ssize_t)strlen(kinds);
    h->n = 0;
    if (!is_taken)
        PyErr_Format(PyExc_TypeError, "%zd arguments are needed", (Py_ssize_t)strlen(kinds));
    va_start(targets, kinds);
    for (isize i = 0; is_taken && kinds[i]; i++) {
        PyObject *object = PyTuple_GetItem(args, i);
        if (kinds[i] == 'n')
            *va_arg(targets, isize *) = PyNumber_AsSsize_t(object, PyExc_OverflowError);
        else if (kinds[i] == 'd')
            *va_arg(targets, double *) = PyFloat_AsDouble(object);
        else
            is_taken = hold(h, object, kinds[i], va_arg(targets, array *));
        is_taken = is_taken && !PyErr_Occurred();
    }
    va_end(targets);
    return is_taken;
}

/* Numbers that a thread works on, from a cache line on: table, left monomials, cells and moments. */
static isize space_size(const plan *p)
{
    isize n_sums = plus(p->n_sums, p->n_entries);
    return plus(plus(times(plus(p->n_right, STRIP), ROW), n_sums), LANES) / LANES * LANES;
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
    isize n, space_size, n_digits, n_parts;
    const double *rows, *weights, *units, *rounders;
    double *space, *digits;
} block_task;

static void do_block(task *work, isize block, isize thread)
{
    block_task *t = (block_task *)work;
    const plan *p = &t->plan;
    double *space = t->space + thread * t->space_size, *sums = space + t->space_size - p->n_entries;
    isize part = t->n_parts == work->n_items ? block : thread;
    code->block(p, t->rows + block * t->n * p->n_features, t->weights ? t->weights + block * t->n : NULL,
                t->units, t->n, space, sums);
    code->split(sums, p->n_entries, t->rounders, t->n_digits, t->digits + part * t->n_digits * p->n_entries);
}

/* Add the moments of blocks of n rows each, in digits, to parts (n_parts, n_digits, n_moments): one
 * for each block, or one for each thread. See summary.kernel. */
static PyObject *add_blocks(PyObject *module, PyObject *args)
{
    block_task t = {.space = NULL};
    plan *p = &t.plan;
    isize n_threads;
    array left, right, strips, positions, rows, weights, units, rounders, digits;
    held h;
    if (!take(&h, args, "rrrrrornrwn", &left, &right, &strips, &positions, &rows, &weights, &units, &t.n,
              &rounders, &digits, &n_threads))
        return done(&h, NULL);
    *p = (plan){.n_features = units.n / 2, .n_left = left.n / 2, .n_right = right.n / 2,
                .n_strips = strips.n / 5, .n_entries = positions.n, .left = left.data,
                .right = right.data, .strips = strips.data, .positions = positions.data};
    if (t.n < 1 || n_threads < 1 || p->n_features < 1 || !p->n_entries || !rounders.n || !is_valid(p))
        return done(&h, NULL);
    isize n_blocks = rows.n / p->n_features / t.n;
    t.n_digits = rounders.n, t.n_parts = digits.n / p->n_entries / t.n_digits;
    n_threads = n_threads < n_blocks ? n_threads : n_blocks;
    n_threads = n_threads < MOST_THREADS ? n_threads : MOST_THREADS;
    if ((weights.data && weights.n < n_blocks * t.n) || t.n_parts < n_threads)
        return done(&h, NULL);
    t.space_size = space_size(p);
    double *space = allocate(plus(times(n_threads, t.space_size), LANES));
    if (!space)
        return done(&h, NULL);
    t.task = (task){n_blocks, 0, do_block};
    t.rows = rows.data, t.weights = weights.data, t.units = units.data, t.rounders = rounders.data;
    t.digits = digits.data, t.space = space + (64 - (uintptr_t)space % 64) / 8;
    Py_BEGIN_ALLOW_THREADS
    on_threads(&t.task, n_threads);
    Py_END_ALLOW_THREADS
    PyMem_Free(space);
    return done(&h, Py_NewRef(Py_None));
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

/* Minimum and maximum of each column of each block of n rows, (n_blocks, 2, n_features); some are
 * NaN where a block holds one. */
static PyObject *extremes(PyObject *module, PyObject *args)
{
    extremes_task t;
    isize n_blocks, n_threads;
    array rows, out;
    held h;
    if (!take(&h, args, "rnnnwn", &rows, &n_blocks, &t.n, &t.d, &out, &n_threads) || t.n < 1 || t.d < 1
        || n_blocks < 0 || n_threads < 1 || rows.n < times(times(n_blocks, t.n), t.d)
        || out.n < times(times(n_blocks, 2), t.d))
        return done(&h, NULL);
    t.task = (task){n_blocks, 0, do_extremes}, t.rows = rows.data, t.out = out.data;
    Py_BEGIN_ALLOW_THREADS
    on_threads(&t.task, n_threads);
    Py_END_ALLOW_THREADS
    return done(&h, Py_NewRef(Py_None));
}

/* digits[to] −= factor·2^(32·shift)·digits[of], row by row, with carries; |factor| ≤ 2^31. See
 * summary.digits. */
static PyObject *subtract_multiples(PyObject *module, PyObject *args)
{
    isize n_digits, factor, shift;
    array digits, to, of;
    held h;
    if (!take(&h, args, "wnrrnn", &digits, &n_digits, &to, &of, &factor, &shift))
        return done(&h, NULL);
    const int64_t *rows = to.data, *others = of.data, half = (int64_t)1 << 31;
    isize n_rows = n_digits > 0 ? digits.n / n_digits : 0;
    int is_valid = of.n >= to.n && shift >= 0 && shift < n_digits && factor >= -half && factor <= half;
    for (isize i = 0; is_valid && i < to.n; i++)
        is_valid = rows[i] >= 0 && rows[i] < n_rows && others[i] >= 0 && others[i] < n_rows;
    if (!is_valid)
        return done(&h, NULL);
    Py_BEGIN_ALLOW_THREADS
    for (isize i = 0; i < to.n; i++) {
        int64_t *value = (int64_t *)digits.data + rows[i] * n_digits, carry = 0;
        const int64_t *other = (int64_t *)digits.data + others[i] * n_digits;
        for (isize k = shift; k < n_digits; k++) {
            uint64_t total = (uint64_t)value[k] - (uint64_t)factor * (uint64_t)other[k - shift] + (uint64_t)carry;
            carry = (int64_t)(total + (uint64_t)half) >> 32;
            value[k] = (int64_t)(total - ((uint64_t)carry << 32));
        }
    }
    Py_END_ALLOW_THREADS
    return done(&h, Py_NewRef(Py_None));
}

#include "mixtures.h"
#include "conditions.h"

/* Take the code for an instruction set; returns the names of all usable ones. */
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
    {"add_blocks", add_blocks, METH_VARARGS, NULL},
    {"extremes", extremes, METH_VARARGS, NULL},
    {"em_sums", em_sums, METH_VARARGS, NULL},
    {"em_steps", em_steps, METH_VARARGS, NULL},
    {"map_rows", map_rows, METH_VARARGS, NULL},
    {"add_second_moments", add_second_moments, METH_VARARGS, NULL},
    {"subtract_multiples", subtract_multiples, METH_VARARGS, NULL},
    {"use", use, METH_VARARGS, NULL},
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
