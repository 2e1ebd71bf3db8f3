/* The typical deviation of each column of a block: see summary/shard/units.py. */

#define BUCKETS 256
#define FEW 32          /* numbers that are sorted by insertion */
#define MOST_ROUNDS 16  /* of sorting into buckets, before all that is left is sorted */
#define EXPONENTS 2048  /* of float64 */
#define LEAST_EXPONENT -1000

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void sort_few(double *x, isize n)
{
    for (isize i = 1; i < n; i++) {
        double value = x[i];
        isize at = i;
        for (; at > 0 && x[at - 1] > value; at--)
            x[at] = x[at - 1];
        x[at] = value;
    }
}

/* The number at place k of n numbers in order; they are overwritten. */
static double in_place(double *x, isize n, isize k)
{
    for (int round = 0; round < MOST_ROUNDS && n > FEW; round++) {
        double low = x[0], high = x[0];
        for (isize i = 1; i < n; i++) {
            low = x[i] < low ? x[i] : low;
            high = x[i] > high ? x[i] : high;
        }
        double scale = (BUCKETS - 1) / (high - low);
        if (low == high)
            return low;
        if (!(scale <= DBL_MAX))
            break;
        uint32_t counts[BUCKETS] = {0};
        for (isize i = 0; i < n; i++)
            counts[(int)((x[i] - low) * scale)]++; /* does not fall where x grows */
        int bucket = 0;
        for (; k >= (isize)counts[bucket]; bucket++)
            k -= counts[bucket];
        isize kept = 0;
        for (isize i = 0; i < n; i++) {
            double value = x[i];
            x[kept] = value;
            kept += (int)((value - low) * scale) == bucket;
        }
        n = kept;
    }
    if (n > FEW)
        qsort(x, n, sizeof *x, ascending);
    else
        sort_few(x, n);
    return x[k];
}

/* Median of a column, and exponent of the median of its deviations other than 0; how many are 0. */
static void typical_of(const double *rows, isize n, isize d, double *space, double *median,
                       int64_t *exponent, int64_t *n_zeros)
{
    uint32_t counts[EXPONENTS] = {0};
    for (isize i = 0; i < n; i++)
        space[i] = rows[i * d];
    double middle = *median = in_place(space, n, (n - 1) / 2);
    isize zeros = 0;
    for (isize i = 0; i < n; i++) {
        double deviation = rows[i * d] - middle;
        uint64_t bits;
        memcpy(&bits, &deviation, sizeof bits);
        zeros += deviation == 0.0;
        counts[deviation == 0.0 ? EXPONENTS - 1 : bits >> 52 & (EXPONENTS - 1)]++;
    }
    *n_zeros = zeros, *exponent = LEAST_EXPONENT;
    isize k = (n - zeros - 1) / 2, at = 0;
    if (zeros == n)
        return;
    for (; k >= (isize)counts[at]; at++)
        k -= counts[at];
    if (at - 1022 > LEAST_EXPONENT)
        *exponent = at - 1022;
}

PyDoc_STRVAR(typical_doc,
"typical(rows, n, n_features, exponents, medians, n_zeros)\n--\n\n"
"The typical deviation of each column, as an exponent: see `summary.shard.units`.");

static PyObject *typical(PyObject *module, PyObject *args)
{
    PyObject *rows, *exponents, *medians, *n_zeros, *result = NULL;
    isize n, d;
    double *space = NULL;
    held h = {.n = 0};
    Py_buffer *x, *e, *m, *z;
    if (!PyArg_ParseTuple(args, "OnnOOO", &rows, &n, &d, &exponents, &medians, &n_zeros))
        return NULL;
    if (n < 1 || n > UINT32_MAX || d < 0) {
        PyErr_SetString(PyExc_ValueError, "sizes must be positive");
        return NULL;
    }
    if (!(x = hold(&h, rows, 0, n * d, "rows")) || !(e = hold(&h, exponents, 1, d, "exponents"))
        || !(m = hold(&h, medians, 1, d, "medians")) || !(z = hold(&h, n_zeros, 1, d, "n_zeros")))
        goto done;
    if (!(space = PyMem_Malloc(n * sizeof *space))) {
        PyErr_NoMemory();
        goto done;
    }
    Py_BEGIN_ALLOW_THREADS
    for (isize j = 0; j < d; j++)
        typical_of((double *)x->buf + j, n, d, space, (double *)m->buf + j, (int64_t *)e->buf + j,
                   (int64_t *)z->buf + j);
    Py_END_ALLOW_THREADS
    result = Py_NewRef(Py_None);
done:
    PyMem_Free(space);
    release(&h);
    return result;
}
