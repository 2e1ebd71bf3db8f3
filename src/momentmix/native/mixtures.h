/* EM runs of mixtures on rows in memory, and the functions that Python calls for mixtures. */
#include "m_step.h"

/* A table of numbers of 8 bytes with any strides; 0 and an error otherwise. */
static int table_buffer(PyObject *object, Py_buffer *view)
{
    if (PyObject_GetBuffer(object, view, PyBUF_RECORDS_RO))
        return 0;
    if (view->ndim == 2 && has_numbers(view))
        return 1;
    PyBuffer_Release(view);
    PyErr_SetString(PyExc_ValueError, "rows or features must be a table of float64 numbers");
    return 0;
}

static int pairs_are_valid(const row_source *rows)
{
    isize least = rows->units ? 0 : -1; /* −1: no product, and given as features are */
    for (isize p = 0; p < 2 * rows->n_pairs; p++)
        if (rows->pairs[p] < least || rows->pairs[p] >= rows->d || (rows->pairs[p] < 0) != (rows->pairs[p ^ 1] < 0))
            return 0;
    return 1;
}

/* Rows of a table (n, columns), or, without units, features (size, n), each statistic contiguous. */
static int source_of(const Py_buffer *table, const Py_buffer *columns, const Py_buffer *units,
                     row_source *rows)
{
    isize by_first = table->strides[0] / 8, by_second = table->strides[1] / 8;
    rows->values = table->buf;
    if (!units) {
        rows->n = table->shape[1], rows->d = (table->shape[0] - rows->n_pairs) / 2;
        rows->row_stride = 1, rows->column_stride = by_first;
        if ((by_second == 1 || rows->n < 2) && rows->d > 0 && pairs_are_valid(rows))
            return 1;
        PyErr_SetString(PyExc_ValueError, "each statistic must be contiguous, and pairs are features");
        return 0;
    }
    rows->n = table->shape[0], rows->d = columns->len / 8;
    rows->row_stride = by_first, rows->column_stride = by_second;
    rows->columns = columns->buf, rows->units = units->buf;
    int valid = rows->d > 0 && units->len >= 16 * rows->d && pairs_are_valid(rows);
    rows->is_whole = by_second == 1;
    for (isize j = 0; valid && j < rows->d; j++) {
        valid = rows->columns[j] >= 0 && rows->columns[j] < table->shape[1];
        rows->is_whole &= rows->columns[j] == rows->columns[0] + j;
    }
    if (!valid)
        PyErr_SetString(PyExc_ValueError, "columns, units or pairs do not fit the rows");
    return valid;
}

static Py_buffer *hold_table(held *h, PyObject *object)
{
    return table_buffer(object, &h->views[h->n]) ? &h->views[h->n++] : NULL;
}

/* Rows or features of the arguments; `columns` and `units` are None for features, and `pairs` where
 * no products of features are statistics. */
static int hold_rows(held *h, PyObject *table, PyObject *columns, PyObject *units, PyObject *pairs,
                     row_source *rows)
{
    Py_buffer *t = hold_table(h, table), *c = NULL, *u = NULL, *p = NULL;
    *rows = (row_source){.n_pairs = 0};
    if (!t)
        return 0;
    if (pairs != Py_None) {
        if (!(p = hold(h, pairs, 0, 0, "pairs")))
            return 0;
        rows->pairs = p->buf, rows->n_pairs = p->len / 16;
    }
    if (units != Py_None && (!(c = hold(h, columns, 0, 0, "columns")) || !(u = hold(h, units, 0, 0, "units"))))
        return 0;
    return source_of(t, c, u, rows);
}

static isize row_space(isize k, isize r, isize size)
{
    return plus(times(plus(size, r), ROW), times(times(2, k), times(r, size)));
}

/* Features whose squares have a part in some of n densities, into `squares`, where not all of them have. */
static void find_squares(row_source *rows, const double *coefficients, isize n, int64_t *squares)
{
    isize size = n_statistics(rows);
    rows->n_squares = 0;
    for (isize j = 0; j < rows->d; j++)
        for (isize c = 0; c < n; c++)
            if (coefficients[c * size + rows->d + j] != 0.0) {
                squares[rows->n_squares++] = j;
                break;
            }
    rows->squares = rows->n_squares < rows->d ? squares : NULL;
}

/* Memory for densities of k mixtures, and at its end a place for each feature. */
static double *space_for(isize k, isize r, const row_source *rows)
{
    return allocate(plus(row_space(k, r, n_statistics(rows)), rows->d));
}

PyDoc_STRVAR(em_sums_doc,
"em_sums(coefficients, k, r, table, columns, units, pairs, counts, statistics, totals)\n--\n\n"
"Sums of an EM step of k mixtures: see `mixture.density`. Without units the table holds features;\n"
"where statistics is None, only the sums of the log-densities are made. Each row counts as often as\n"
"`counts` says, once where they are None.");

static PyObject *em_sums(PyObject *module, PyObject *args)
{
    PyObject *table, *columns, *units, *pairs, *counts, *coefficients, *statistics, *totals, *result = NULL;
    isize k, r;
    row_source rows;
    held h = {.n = 0};
    Py_buffer *c, *n, *s = NULL, *t;
    if (!PyArg_ParseTuple(args, "OnnOOOOOOO", &coefficients, &k, &r, &table, &columns, &units, &pairs,
                          &counts, &statistics, &totals))
        return NULL;
    if (k < 1 || r < 1) {
        PyErr_SetString(PyExc_ValueError, "sizes must be positive");
        return NULL;
    }
    if (!hold_rows(&h, table, columns, units, pairs, &rows))
        goto done;
    if (counts != Py_None) {
        if (!(n = hold(&h, counts, 0, rows.n, "counts")))
            goto done;
        rows.counts = n->buf;
    }
    isize size = times(times(k, r), n_statistics(&rows));
    if (!(c = hold(&h, coefficients, 0, size, "coefficients")) || !(t = hold(&h, totals, 1, k, "totals")))
        goto done;
    if (statistics != Py_None && !(s = hold(&h, statistics, 1, size, "statistics")))
        goto done;
    double *space = space_for(k, r, &rows);
    if (!space)
        goto done;
    Py_BEGIN_ALLOW_THREADS
    if (!s)
        find_squares(&rows, c->buf, k * r, (int64_t *)(space + row_space(k, r, n_statistics(&rows))));
    code->em_sums(&rows, c->buf, k, r, space, s ? s->buf : NULL, t->buf);
    Py_END_ALLOW_THREADS
    PyMem_Free(space);
    result = Py_NewRef(Py_None);
done:
    release(&h);
    return result;
}

/* EM steps of a batch. Rows are summed in parts of a fixed length, and the sums added in their order,
 * so that the bits do not depend on the number of threads. */
typedef struct {
    task task;
    batch *b;
    row_source rows;
    isize n_parts;
    isize steps_left;
    int failed;
    double *space, *matrices;         /* of each thread */
    double *table, *sums, *totals;    /* coefficients; sums and log-densities, part by part */
    double *values; /* objectives before the last two steps, (2, k) */
    isize n_values;
} em_run;

static void do_part(task *work, isize part, isize thread)
{
    em_run *run = (em_run *)work;
    const batch *b = run->b;
    isize size = n_statistics(&run->rows), left = run->rows.n - part * PART;
    row_source rows = run->rows;
    rows.values += part * PART;
    rows.n = left < PART ? left : PART;
    code->em_sums(&rows, run->table, b->k, b->r, run->space + thread * row_space(b->k, b->r, size),
                  run->sums + part * b->k * b->r * size, run->totals + part * b->k);
}

static void do_coefficients(task *work, isize m, isize thread)
{
    em_run *run = (em_run *)work;
    batch *b = run->b;
    double *space = run->matrices + thread * matrix_space(b);
    if (!coefficients_of(b, m, space, run->table + m * b->r * n_statistics(&run->rows)))
        __atomic_store_n(&run->failed, 1, __ATOMIC_RELAXED);
}

static void do_m_step(task *work, isize m, isize thread)
{
    em_run *run = (em_run *)work;
    batch *b = run->b;
    isize each = b->r * n_statistics(&run->rows);
    double *space = run->matrices + thread * matrix_space(b), *sums = run->sums + m * each;
    for (isize part = 1; part < run->n_parts; part++)
        for (isize i = 0; i < each; i++)
            sums[i] += sums[part * b->k * each + i];
    if (run->steps_left < 2) {
        double total = 0.0;
        for (isize part = 0; part < run->n_parts; part++)
            total += run->totals[part * b->k + m];
        run->values[(1 - run->steps_left) * run->n_values + m] = (total + log_prior(b, m, space)) / run->rows.n;
    }
    m_step(b, m, sums, space);
    if (run->steps_left)
        do_coefficients(work, m, thread);
}

static void in_parallel(em_run *run, isize n_items, void (*work)(task *, isize, isize), isize n_threads)
{
    run->task = (task){n_items, 0, work};
    on_threads(&run->task, n_threads);
}

static void run_steps(em_run *run, isize n_steps, isize n_threads)
{
    in_parallel(run, run->b->k, do_coefficients, n_threads);
    for (run->steps_left = n_steps - 1; run->steps_left >= 0 && !run->failed; run->steps_left--) {
        in_parallel(run, run->n_parts, do_part, n_threads);
        in_parallel(run, run->b->k, do_m_step, n_threads);
    }
}

/* Threads that share few rows would wait for each other: each takes some of the mixtures instead. */
typedef struct {
    task task;
    const em_run *whole;
    isize n_steps, n_groups;
    int failed;
} group_task;

static void do_group(task *work, isize group, isize thread)
{
    group_task *t = (group_task *)work;
    const em_run *whole = t->whole;
    batch b = *whole->b;
    isize first = b.k * group / t->n_groups, size = n_statistics(&whole->rows), each = b.r * size;
    em_run run = *whole;
    run.b = &b;
    b.k = b.k * (group + 1) / t->n_groups - first;
    b.weights += first * b.r, b.means += first * b.r * b.d, b.spread += first * b.r * n_spread(&b);
    run.space += thread * row_space(whole->b->k, b.r, size);
    run.matrices += thread * matrix_space(&b);
    run.table += first * each, run.sums += first * run.n_parts * each;
    run.totals += first * run.n_parts, run.values += first;
    run_steps(&run, t->n_steps, 1);
    if (run.failed)
        __atomic_store_n(&t->failed, 1, __ATOMIC_RELAXED);
}

/* 0 where a covariance has no root. */
static int em_run_all(em_run *run, isize n_steps, isize n_threads)
{
    if (n_threads == 1 || run->n_parts >= 2 * n_threads) {
        run_steps(run, n_steps, n_threads);
        return !run->failed;
    }
    isize n_groups = n_threads < run->b->k ? n_threads : run->b->k;
    group_task t = {.task = {n_groups, 0, do_group}, .whole = run, .n_steps = n_steps, .n_groups = n_groups};
    on_threads(&t.task, n_threads);
    return !t.failed;
}

/* The laws of a batch: family, width, whether cells may be missing, and at random, number of statistics t,
 * head, and features of each in one array, and their numbers in another. Returns how many features they have, −1 and an error where
 * they do not fit. */
static isize hold_laws(held *h, PyObject *objects[2], batch *b)
{
    Py_buffer *kinds = hold(h, objects[0], 0, 0, "laws"), *numbers;
    if (!kinds)
        return -1;
    const int64_t *at = kinds->buf, *end = at + kinds->len / 8;
    isize n_features = 0, n_numbers = 0;
    int valid = 1;
    for (b->n_laws = b->widest_law = b->n_own = 0; valid && at < end; b->n_laws++) {
        valid = end - at > 6 && at[0] >= 0 && at[0] < N_FAMILIES && at[1] > 0 && at[1] <= end - at - 6
                && at[1] <= b->d - n_features && (at[0] == LEVELS || at[1] == 1 + (at[2] != 0))
                && at[4] >= 0 && at[4] <= b->n_pairs - b->n_own && at[5] <= at[4]
                && (at[4] ? at[0] == SIZED_COUNT && at[5] > 0 : at[5] == 0);
        if (!valid)
            break;
        for (isize j = 0; j < at[1]; j++)
            valid &= at[6 + j] >= 0 && at[6 + j] < b->d;
        n_features += at[1], n_numbers += n_law_numbers(at[1], at[4], at[5]), b->n_own += at[4];
        b->widest_law = at[1] > b->widest_law ? at[1] : b->widest_law;
        at += 6 + at[1];
    }
    if (!valid) {
        PyErr_SetString(PyExc_ValueError, "laws do not fit the features");
        return -1;
    }
    if (!(numbers = hold(h, objects[1], 0, n_numbers, "numbers of laws")))
        return -1;
    if (!(b->laws = PyMem_Malloc((b->n_laws + 1) * sizeof(law_block)))) {
        PyErr_NoMemory();
        return -1;
    }
    const double *x = numbers->buf;
    at = kinds->buf;
    for (isize i = 0, own = 0; i < b->n_laws; i++) {
        isize w = at[1], n_own = at[4], head = at[5], n_nodes = n_nodes_of(n_own, head);
        b->laws[i] = (law_block){at[0], w, w - (at[2] != 0), at[2] != 0, at[3] != 0, at + 6,
                                 x, x + w, x[2 * w], x[2 * w + 1], x[2 * w + 2], x + 2 * w + 3,
                                 own, n_own, head, n_nodes, x + 3 * w + 3, x + 3 * w + 3 + n_nodes};
        at += 6 + w, x += n_law_numbers(w, n_own, head), own += n_own;
    }
    b->n_pairs -= b->n_own; /* they came with the pairs */
    return n_features;
}

/* The blocks of a batch: widths of the joined ones, all Gaussian features (those of joined blocks first),
 * R and R⁻¹ of each, least relative eigenvalues, and laws. 0 and an error where they do not fit. */
static int hold_blocks(held *h, PyObject *objects[6], batch *b)
{
    isize n_joined = 0, n_pairs = 0, n_numbers = 0, n_by_law = hold_laws(h, objects + 4, b);
    isize n_gaussian = b->d - n_by_law;
    if (n_by_law < 0)
        return 0;
    Py_buffer *widths = hold(h, objects[0], 0, 0, "widths"), *members, *matrices, *least;
    if (!widths || !(members = hold(h, objects[1], 0, n_gaussian, "members")))
        return 0;
    const int64_t *width = widths->buf, *features = members->buf;
    b->n_blocks = widths->len / 8, b->widest = 0;
    int valid = b->n_blocks <= n_gaussian;
    for (isize i = 0; valid && i < b->n_blocks; i++) {
        valid = width[i] > 1 && width[i] <= n_gaussian - n_joined;
        if (!valid)
            break;
        n_joined += width[i], n_pairs += width[i] * (width[i] - 1) / 2, n_numbers += 2 * width[i] * width[i];
        b->widest = width[i] > b->widest ? width[i] : b->widest;
    }
    for (isize j = 0; valid && j < n_gaussian; j++)
        valid = features[j] >= 0 && features[j] < b->d;
    if (!valid || n_pairs != b->n_pairs) {
        PyErr_SetString(PyExc_ValueError, "blocks do not fit the features and pairs");
        return 0;
    }
    if (!(matrices = hold(h, objects[2], 0, n_numbers, "matrices"))
        || !(least = hold(h, objects[3], 0, b->n_blocks, "least")))
        return 0;
    if (!(b->blocks = PyMem_Malloc((b->n_blocks + 1) * sizeof(joined_block)))) {
        PyErr_NoMemory();
        return 0;
    }
    const double *matrix = matrices->buf;
    isize pair = b->d;
    for (isize i = 0; i < b->n_blocks; i++) {
        isize k = width[i];
        b->blocks[i] = (joined_block){k, pair, features, matrix, matrix + k * k, ((double *)least->buf)[i]};
        features += k, matrix += 2 * k * k, pair += k * (k - 1) / 2;
    }
    b->single = features, b->n_single = n_gaussian - n_joined;
    return 1;
}

/* Features whose squares the M-step of a batch needs, into `squares`: those of all but some laws. */
static void needed_squares(const batch *b, row_source *rows, int64_t *squares)
{
    for (isize j = 0; j < b->d; j++)
        squares[j] = 1;
    for (isize i = 0; i < b->n_laws; i++)
        for (isize j = b->laws[i].family >= NUMBER; j < b->laws[i].width; j++)
            squares[b->laws[i].features[j]] = 0;
    rows->n_squares = 0;
    for (isize j = 0; j < b->d; j++)
        if (squares[j])
            squares[rows->n_squares++] = j;
    rows->squares = rows->n_squares < b->d ? squares : NULL;
}

PyDoc_STRVAR(em_steps_doc,
"em_steps(features, n_steps, r, n_threads, prior, pairs, blocks, weights, means, spread, values)\n--\n\n"
"EM steps of a batch of mixtures, in place, and the objectives before the last two, (2, k); False where\n"
"a covariance is not positive definite. prior: (scale, added_squares, floor); blocks: (widths, members,\n"
"matrices, least, laws, numbers of laws). See `fitting.em.em.run_batch`.");

static PyObject *em_steps(PyObject *module, PyObject *args)
{
    PyObject *features, *prior, *floor, *pairs, *layout, *blocks[6], *weights, *means, *spread, *values;
    PyObject *result = NULL;
    isize n_steps, n_threads;
    batch b = {.blocks = NULL, .laws = NULL};
    em_run run = {.b = &b};
    held h = {.n = 0};
    Py_buffer *f, *w, *m, *s, *v;
    /* Tuples hold their members; those of another sequence may be gone once it is parsed. */
    if (!PyArg_ParseTuple(args, "OnnnO!OO!OOOO", &features, &n_steps, &b.r, &n_threads, &PyTuple_Type, &prior,
                          &pairs, &PyTuple_Type, &layout, &weights, &means, &spread, &values)
        || !PyArg_ParseTuple(prior, "ddO", &b.scale, &b.added_squares, &floor)
        || !PyArg_ParseTuple(layout, "OOOOOO", &blocks[0], &blocks[1], &blocks[2], &blocks[3], &blocks[4],
                             &blocks[5]))
        return NULL;
    if (!hold_rows(&h, features, Py_None, Py_None, pairs, &run.rows) || !(w = hold(&h, weights, 1, 0, "weights")))
        goto done;
    if (run.rows.n < 1 || b.r < 1 || b.r > w->len / 8 || n_steps < 1 || n_steps > MOST_STEPS || n_threads < 1) {
        PyErr_SetString(PyExc_ValueError, "sizes must be positive, and the steps 65,536 at most");
        goto done;
    }
    b.k = w->len / 8 / b.r, b.d = run.rows.d, b.n_pairs = run.rows.n_pairs;
    isize size = n_statistics(&run.rows), n_all = b.k * b.r, each = times(n_all, size);
    if (!(f = hold(&h, floor, READ, b.d, "floor")) || !(m = hold(&h, means, WRITE, times(n_all, b.d), "means"))
        || !hold_blocks(&h, blocks, &b) || !(s = hold(&h, spread, WRITE, times(n_all, n_spread(&b)), "spread"))
        || !(v = hold(&h, values, 1, 2 * b.k, "values")))
        goto done;
    n_threads = n_threads < MOST_THREADS ? n_threads : MOST_THREADS;
    run.n_parts = (run.rows.n + PART - 1) / PART;
    b.floor = f->buf, b.weights = w->buf, b.means = m->buf, b.spread = s->buf, run.values = v->buf, run.n_values = b.k;
    isize per_thread = plus(row_space(b.k, b.r, size), matrix_space(&b));
    isize in_parts = times(run.n_parts, plus(each, b.k));
    run.space = allocate(plus(plus(times(n_threads, per_thread), plus(each, in_parts)), b.d));
    if (run.space) {
        run.matrices = run.space + n_threads * row_space(b.k, b.r, size);
        run.table = run.space + n_threads * per_thread;
        run.sums = run.table + each, run.totals = run.sums + run.n_parts * each;
        needed_squares(&b, &run.rows, (int64_t *)(run.totals + run.n_parts * b.k));
        int done;
        Py_BEGIN_ALLOW_THREADS
        done = em_run_all(&run, n_steps, n_threads);
        Py_END_ALLOW_THREADS
        result = PyBool_FromLong(done);
    }
    PyMem_Free(run.space);
done:
    PyMem_Free(b.blocks);
    PyMem_Free(b.laws);
    release(&h);
    return result;
}

PyDoc_STRVAR(map_rows_doc,
"map_rows(kind, coefficients, r, table, columns, units, pairs, out)\n--\n\n"
"Log-densities (kind 0), posterior probabilities (1) or most probable components (2) of rows;\n"
"returns how many rows have none: see `mixture.density`.");

static PyObject *map_rows(PyObject *module, PyObject *args)
{
    PyObject *table, *columns, *units, *pairs, *coefficients, *out, *result = NULL;
    isize r;
    int kind;
    row_source rows;
    held h = {.n = 0};
    Py_buffer *c, *o;
    if (!PyArg_ParseTuple(args, "iOnOOOOO", &kind, &coefficients, &r, &table, &columns, &units, &pairs,
                          &out))
        return NULL;
    if (r < 1 || kind < LOG_DENSITIES || kind > LABELS) {
        PyErr_SetString(PyExc_ValueError, "sizes must be positive, and the kind 0, 1 or 2");
        return NULL;
    }
    if (!hold_rows(&h, table, columns, units, pairs, &rows))
        goto done;
    if (!(c = hold(&h, coefficients, READ, times(r, n_statistics(&rows)), "coefficients"))
        || !(o = hold(&h, out, WRITE, kind == SHARES ? times(rows.n, r) : rows.n, "out")))
        goto done;
    double *space = space_for(0, r, &rows);
    if (!space)
        goto done;
    isize n_bad;
    Py_BEGIN_ALLOW_THREADS
    n_bad = code->map_rows(&rows, kind, c->buf, r, space, o->buf);
    Py_END_ALLOW_THREADS
    PyMem_Free(space);
    result = PyLong_FromSsize_t(n_bad);
done:
    release(&h);
    return result;
}
