/* EM runs of mixtures on rows in memory, and the functions that Python calls for mixtures. */
#include "m_step.h"

/* Rows of a table (n, columns), or statistics in memory (size, n), each contiguous, where there are no
 * units. 0 where they do not fit. */
static int rows_of(const array *table, const array *columns, const array *units, const array *products,
                   row_source *rows)
{
    isize by_first = table->strides[0] / 8, by_second = table->strides[1] / 8, n_columns = table->shape[1];
    *rows = (row_source){.values = table->data, .units = units->data, .columns = columns->data,
                         .products = products->data, .n_products = products->n / 2};
    if (units->data) {
        rows->n = table->shape[0], rows->d = columns->n;
        rows->row_stride = by_first, rows->column_stride = by_second;
    } else {
        rows->n = n_columns, rows->d = table->shape[0] - 1 - rows->n_products;
        rows->row_stride = 1, rows->column_stride = by_first;
    }
    int is_valid = rows->d > 0 && (units->data ? units->n >= 2 * rows->d : by_second == 1 || rows->n < 2);
    for (isize j = 0; is_valid && units->data && j < rows->d; j++)
        is_valid = rows->columns[j] >= 0 && rows->columns[j] < n_columns;
    for (const int64_t *p = rows->products; is_valid && p < rows->products + 2 * rows->n_products; p += 2)
        if (p[0] >= 0)
            is_valid = p[0] < rows->d && p[1] >= 0 && p[1] < rows->d;
        else
            is_valid = !units->data && p[1] >= 0 && p[1] < table->shape[0];
    return is_valid;
}

/* Numbers that densities of k mixtures are made in. */
static isize row_space(isize k, isize r, isize size)
{
    return plus(times(plus(size, r), ROW), times(k, times(r, size)));
}

/* Sums of an EM step of k mixtures: see mixture.density. Without units the table holds statistics;
 * where statistics is None, only the sums of the log-densities are made. Each row counts as often as
 * counts says, once where they are None. */
static PyObject *em_sums(PyObject *module, PyObject *args)
{
    array coefficients, table, columns, units, products, counts, statistics, totals;
    isize k, r;
    row_source rows;
    held h;
    if (!take(&h, args, "rnntooroWw", &coefficients, &k, &r, &table, &columns, &units, &products, &counts,
              &statistics, &totals)
        || k < 1 || r < 1 || !rows_of(&table, &columns, &units, &products, &rows))
        return done(&h, NULL);
    isize size = n_statistics(&rows), each = times(times(k, r), size);
    rows.counts = counts.data;
    if (coefficients.n < each || totals.n < k || (counts.data && counts.n < rows.n)
        || (statistics.data && statistics.n < each))
        return done(&h, NULL);
    double *space = allocate(row_space(k, r, size));
    if (!space)
        return done(&h, NULL);
    Py_BEGIN_ALLOW_THREADS
    code->em_sums(&rows, coefficients.data, k, r, space, statistics.data, totals.data);
    Py_END_ALLOW_THREADS
    PyMem_Free(space);
    return done(&h, Py_NewRef(Py_None));
}

/* -- EM steps ------------------------------------------------------------------------------------ */

/* The blocks of a batch from records of whole numbers: kind, width, missing cells, at random, number of
 * statistics t, head, features; and from their numbers. 0 where they do not fit. */
static int read_blocks(batch *b, const array *records, const array *numbers)
{
    const int64_t *at = records->data, *end = at + records->n;
    isize left = numbers->n, pair = b->d;
    b->n_blocks = b->n_own = 0, b->widest = 1;
    for (const double *x = numbers->data; at < end; b->n_blocks++) {
        isize w = end - at > 6 ? at[1] : 0, n_own, n_numbers;
        if (w < 1 || w > end - at - 6 || w > b->d || at[0] < 0 || at[0] >= N_KINDS || at[4] < 0
            || at[4] > b->n_pairs - b->n_own || at[5] < 0 || at[5] > at[4]
            || (at[0] > LEVELS && at[0] < JOINED && w != 1 + (at[2] != 0))
            || (at[0] == SIZED_COUNT ? at[4] > 0 && at[5] == 0 : at[4] > 0))
            return 0;
        for (isize j = 0; j < w; j++)
            if (at[6 + j] < 0 || at[6 + j] >= b->d)
                return 0;
        n_own = at[4];
        isize n_nodes = n_own > at[5] ? n_own - at[5] + 1 : 0; /* below the head each count has its own */
        n_numbers = at[0] == SINGLE ? 0 : at[0] == JOINED ? 2 * w * w + 1 : 3 * w + 3 + n_own + n_nodes;
        if (n_numbers > left)
            return 0;
        b->blocks[b->n_blocks] = (block){at[0], w, w - (at[2] != 0), at[2] != 0, at[3] != 0, b->n_own, n_own,
                                         at[5], n_nodes, at + 6, x, pair};
        pair += at[0] == JOINED ? w * (w - 1) / 2 : 0;
        b->n_own += n_own, x += n_numbers, left -= n_numbers, at += 6 + w;
        b->widest = at[-w - 6] == SINGLE || w < b->widest ? b->widest : w;
    }
    b->n_pairs -= b->n_own; /* they came together */
    return pair - b->d == b->n_pairs;
}

/* Products that the M-step of a batch needs, of all of T(z), into `list`: of some laws no squares. */
static void choose_products(batch *b, row_source *rows, int64_t *list)
{
    for (isize j = 0; j < b->d; j++)
        b->squares[j] = -1;
    for (const block *p = b->blocks; p < b->blocks + b->n_blocks; p++)
        for (isize j = 0; j < p->width; j++)
            if (p->kind >= JOINED || (p->kind >= NUMBER && !j))
                b->squares[p->features[j]] = 0;
    b->n_squares = 0;
    for (isize i = 0, n = rows->n_products, kept = 0; i < n; i++) {
        if (i < b->d && b->squares[i] < 0) {
            rows->n_products--;
            continue;
        }
        if (i < b->d)
            b->squares[i] = b->d + b->n_squares++;
        memcpy(list + 2 * kept++, rows->products + 2 * i, 2 * sizeof(int64_t));
    }
    rows->products = list;
}

/* EM steps of a batch: each thread takes some of the mixtures. */
typedef struct {
    task task;
    batch batch;
    row_source rows;
    isize n_steps, space_size, failed;
    double *space, *values; /* memory of each thread; objectives before the last two steps, (2, k) */
} em_run;

static void do_mixtures(task *work, isize group, isize thread)
{
    em_run *run = (em_run *)work;
    batch b = run->batch;
    isize k = b.k, first = k * group / work->n_items, size = n_sums(&b), each = b.r * size;
    b.k = k * (group + 1) / work->n_items - first;
    b.weights += first * b.r, b.means += first * b.r * b.d, b.spread += first * b.r * n_spread(&b);
    double *space = run->space + thread * run->space_size, *table = space + block_space(&b);
    double *sums = table + b.k * each, *totals = sums + b.k * each, *rest = totals + b.k;
    for (isize step = run->n_steps; step--;) {
        for (isize m = 0; m < b.k; m++)
            if (!coefficients_of(&b, m, space, table + m * each)) {
                __atomic_store_n(&run->failed, 1, __ATOMIC_RELAXED);
                return;
            }
        code->em_sums(&run->rows, table, b.k, b.r, rest, sums, totals);
        for (isize m = 0; m < b.k; m++) {
            if (step < 2)
                run->values[(1 - step) * k + first + m] = (totals[m] + log_prior(&b, m, space)) / run->rows.n;
            m_step(&b, m, sums + m * each, space);
        }
    }
}

/* EM steps of a batch of mixtures, in place, and the objectives before the last two, (2, k); False
 * where a covariance is not positive definite. The first three after n_threads are those of the
 * prior; blocks and their numbers are from Structure.layout. See fitting.em.em.run_batch. */
static PyObject *em_steps(PyObject *module, PyObject *args)
{
    array features, floor, products, records, numbers, weights, means, spread, values, none = {.data = NULL};
    isize n_threads, is_done;
    em_run run = {.space = NULL};
    batch *b = &run.batch;
    held h;
    if (!take(&h, args, "tnnnddrrrrwwww", &features, &run.n_steps, &b->r, &n_threads, &b->scale,
              &b->added_squares, &floor, &products, &records, &numbers, &weights, &means, &spread, &values)
        || !rows_of(&features, &none, &none, &products, &run.rows) || run.rows.n < 1 || b->r < 1
        || run.n_steps < 1 || run.n_steps > MOST_STEPS || n_threads < 1)
        return done(&h, NULL);
    b->d = run.rows.d, b->k = weights.n / b->r, b->n_pairs = run.rows.n_products - b->d;
    isize n = b->k * b->r, n_products = run.rows.n_products;
    for (isize i = 0; i < b->d; i++) /* the squares come first */
        if (b->n_pairs < 0 || run.rows.products[2 * i] != i || run.rows.products[2 * i + 1] != i)
            return done(&h, NULL);
    if (!b->k || floor.n < b->d || means.n < times(n, b->d) || values.n < 2 * b->k)
        return done(&h, NULL);
    isize size = n_statistics(&run.rows);
    n_threads = n_threads < MOST_THREADS ? n_threads : MOST_THREADS;
    n_threads = n_threads < b->k ? n_threads : b->k;
    isize in_group = (b->k + n_threads - 1) / n_threads;
    int64_t *lists = allocate(plus(b->d, times(2, n_products)));
    b->blocks = PyMem_Malloc((records.n / 7 + 1) * sizeof(block));
    if (lists && b->blocks && read_blocks(b, &records, &numbers) && spread.n >= times(n, n_spread(b))) {
        b->squares = lists;
        choose_products(b, &run.rows, lists + b->d);
        isize each = plus(times(2, times(b->r, size)), 1);
        run.space_size = plus(row_space(in_group, b->r, size), plus(block_space(b), times(in_group, each)));
        run.space = allocate(times(n_threads, run.space_size));
    }
    if (run.space) {
        run.task = (task){n_threads, 0, do_mixtures};
        b->floor = floor.data, b->weights = weights.data, b->means = means.data, b->spread = spread.data;
        run.values = values.data;
        Py_BEGIN_ALLOW_THREADS
        on_threads(&run.task, n_threads);
        Py_END_ALLOW_THREADS
    }
    is_done = run.space != NULL;
    PyMem_Free(run.space);
    PyMem_Free(b->blocks);
    PyMem_Free(lists);
    return done(&h, is_done ? PyBool_FromLong(!run.failed) : NULL);
}

/* Log-densities (kind 0), posterior probabilities (1) or most probable components (2) of rows;
 * returns how many rows have none: see mixture.density. */
static PyObject *map_rows(PyObject *module, PyObject *args)
{
    array coefficients, table, columns, units, products, out;
    isize kind, r, n_bad;
    row_source rows;
    held h;
    if (!take(&h, args, "nrntoorw", &kind, &coefficients, &r, &table, &columns, &units, &products, &out)
        || r < 1 || kind < LOG_DENSITIES || kind > LABELS
        || !rows_of(&table, &columns, &units, &products, &rows)
        || coefficients.n < times(r, n_statistics(&rows))
        || out.n < (kind == SHARES ? times(rows.n, r) : rows.n))
        return done(&h, NULL);
    double *space = allocate(row_space(0, r, n_statistics(&rows)));
    if (!space)
        return done(&h, NULL);
    Py_BEGIN_ALLOW_THREADS
    n_bad = code->map_rows(&rows, (int)kind, coefficients.data, r, space, out.data);
    Py_END_ALLOW_THREADS
    PyMem_Free(space);
    return done(&h, PyLong_FromSsize_t(n_bad));
}
