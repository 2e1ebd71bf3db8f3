/* EM runs of mixtures on rows in memory, and the functions that Python calls for mixtures.
 *
 * The M-step and the coefficients are those of mixture/gaussian.py.
 */
typedef struct {
    isize k, r, d;
    double scale, added_squares;
    const double *floor;
    double *weights, *means, *variances;
} batch;

/* Log-densities, weights included, as linear functions of T(z). */
static void coefficients_of(const batch *b, double *out)
{
    isize d = b->d;
    for (isize c = 0; c < b->k * b->r; c++, out += 2 * d + 1) {
        const double *mean = b->means + c * d, *variance = b->variances + c * d;
        double spread = 0.0;
        for (isize j = 0; j < d; j++) {
            double precision = 1.0 / variance[j];
            out[j] = mean[j] * precision;
            out[d + j] = -0.5 * precision;
            spread += log(6.283185307179586 * variance[j]) + mean[j] * mean[j] * precision;
        }
        out[2 * d] = log(b->weights[c] > 1e-300 ? b->weights[c] : 1e-300) - 0.5 * spread;
    }
}

/* Parameters from the sums of an EM step. */
static void m_step(batch *b, const double *statistics)
{
    isize d = b->d, size = 2 * d + 1;
    double s = b->scale;
    for (isize m = 0; m < b->k; m++) {
        double all = 0.0;
        for (isize i = 0; i < b->r; i++)
            all += statistics[(m * b->r + i) * size + 2 * d];
        for (isize i = 0; i < b->r; i++) {
            isize c = m * b->r + i;
            const double *sums = statistics + c * size;
            double count = sums[2 * d], n = count > 1e-12 ? count : 1e-12;
            b->weights[c] = count / all;
            for (isize j = 0; j < d; j++) {
                double mean = sums[j] / n, w = sums[d + j] - n * mean * mean, v;
                w = w > 0.0 ? w : 0.0;
                if (s == 0.0)
                    v = w / n;
                else {
                    w += b->added_squares;
                    double half = 0.5 * ((n - 4.0) * s - w), product = s * w;
                    double root = fabs(half) + sqrt(half * half + (n + 2.0) * product);
                    v = half > 0 ? product / root : root / (n + 2.0);
                }
                v = v > b->floor[j] ? v : b->floor[j];
                b->means[c * d + j] = mean;
                b->variances[c * d + j] = count > FEWEST_ROWS ? v : 1.0;
            }
        }
    }
}

/* A table of numbers of 8 bytes with any strides; 0 and an error otherwise. */
static int table_buffer(PyObject *object, Py_buffer *view)
{
    if (PyObject_GetBuffer(object, view, PyBUF_STRIDED_RO))
        return 0;
    if (view->ndim == 2 && view->itemsize == 8 && view->strides[0] % 8 == 0 && view->strides[1] % 8 == 0)
        return 1;
    PyBuffer_Release(view);
    PyErr_SetString(PyExc_ValueError, "rows or features must be a table of float64 numbers");
    return 0;
}

static int pairs_are_valid(const row_source *rows)
{
    for (isize p = 0; p < 2 * rows->n_pairs; p++)
        if (rows->pairs[p] < 0 || rows->pairs[p] >= rows->d)
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

static double *space_for(isize k, isize r, isize size)
{
    double *space = PyMem_Malloc(((size + r) * ROW + k * r * size) * sizeof(double));
    if (!space)
        PyErr_NoMemory();
    return space;
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
    isize size = k * r * n_statistics(&rows);
    if (!(c = hold(&h, coefficients, 0, size, "coefficients")) || !(t = hold(&h, totals, 1, k, "totals")))
        goto done;
    if (statistics != Py_None && !(s = hold(&h, statistics, 1, size, "statistics")))
        goto done;
    double *space = space_for(k, r, n_statistics(&rows));
    if (!space)
        goto done;
    Py_BEGIN_ALLOW_THREADS
    code->em_sums(&rows, c->buf, k, r, space, s ? s->buf : NULL, t->buf);
    Py_END_ALLOW_THREADS
    PyMem_Free(space);
    result = Py_NewRef(Py_None);
done:
    release(&h);
    return result;
}

PyDoc_STRVAR(em_steps_doc,
"em_steps(features, n_steps, r, scale, added_squares, floor, weights, means, variances)\n--\n\n"
"EM steps of a batch of mixtures, in place: see `fitting.em.em.run_batch`.");

static PyObject *em_steps(PyObject *module, PyObject *args)
{
    PyObject *features, *floor, *weights, *means, *variances, *result = NULL;
    isize n_steps;
    batch b;
    row_source rows;
    held h = {.n = 0};
    Py_buffer *f, *w, *m, *v;
    if (!PyArg_ParseTuple(args, "OnnddOOOO", &features, &n_steps, &b.r, &b.scale, &b.added_squares, &floor,
                          &weights, &means, &variances))
        return NULL;
    if (!hold_rows(&h, features, Py_None, Py_None, Py_None, &rows) || !(w = hold(&h, weights, 1, 0, "weights")))
        goto done;
    if (b.r < 1 || w->len < 8 * b.r) {
        PyErr_SetString(PyExc_ValueError, "sizes must be positive");
        goto done;
    }
    b.k = w->len / 8 / b.r, b.d = rows.d;
    isize n_parameters = b.k * b.r * b.d, size = b.k * b.r * (2 * b.d + 1);
    if (!(f = hold(&h, floor, 0, b.d, "floor")) || !(m = hold(&h, means, 1, n_parameters, "means"))
        || !(v = hold(&h, variances, 1, n_parameters, "variances")))
        goto done;
    b.floor = f->buf, b.weights = w->buf, b.means = m->buf, b.variances = v->buf;
    double *space = space_for(b.k, b.r, n_statistics(&rows)), *sums = PyMem_Malloc((2 * size + b.k) * sizeof(double));
    if (space && sums) {
        Py_BEGIN_ALLOW_THREADS
        for (isize i = 0; i < n_steps; i++) {
            coefficients_of(&b, sums);
            code->em_sums(&rows, sums, b.k, b.r, space, sums + size, sums + 2 * size);
            m_step(&b, sums + size);
        }
        Py_END_ALLOW_THREADS
        result = Py_NewRef(Py_None);
    } else if (space)
        PyErr_NoMemory();
    PyMem_Free(sums);
    PyMem_Free(space);
done:
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
    if (!(c = hold(&h, coefficients, 0, r * n_statistics(&rows), "coefficients"))
        || !(o = hold(&h, out, 1, kind == SHARES ? rows.n * r : rows.n, "out")))
        goto done;
    double *space = space_for(0, r, n_statistics(&rows));
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
