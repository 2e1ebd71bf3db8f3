/* The typical deviation of each column of a block: see summary/exact/units.py. */

#define BUCKETS 256
#define FEW 32          /* numbers that are sorted by insertion */
#define MOST_ROUNDS 16  /* of sorting into buckets, before all that is left is sorted */
#define EXPONENTS 2048  /* of float64 */
#define NEAR 6          /* exponents from the largest on that are tried first */
#define LEAST_EXPONENT -1000

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y) + (x != x) - (y != y); /* an order with NaN as well */
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

/* The number at place k of n numbers from low to high in order; they are overwritten. */
static double in_place(double *x, uint8_t *buckets, isize n, isize k, double low, double high)
{
    for (int round = 0; round < MOST_ROUNDS && n > FEW; round++) {
        double scale = (BUCKETS - 1) / (high - low);
        if (low == high)
            return low;
        if (!(scale <= DBL_MAX))
            break;
        uint32_t counts[BUCKETS] = {0};
        for (isize i = 0; i < n; i++) {
            buckets[i] = (uint8_t)(int)((x[i] - low) * scale); /* does not fall where x grows */
            counts[buckets[i]]++;
        }
        int bucket = 0;
        for (; k >= (isize)counts[bucket]; bucket++)
            k -= counts[bucket];
        isize kept = 0;
        for (isize i = 0; i < n; i++)
            if (buckets[i] == bucket)
                x[kept++] = x[i];
        n = kept, low = high = x[0];
        for (isize i = 1; i < n; i++) {
            low = x[i] < low ? x[i] : low;
            high = x[i] > high ? x[i] : high;
        }
    }
    if (n > FEW)
        qsort(x, n, sizeof *x, ascending);
    else
        sort_few(x, n);
    return x[k];
}

static isize exponent_field(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits >> 52 & (EXPONENTS - 1);
}

/* Field of the exponent of the number at place k of the sizes of n numbers but 0, from the largest. */
static isize field_of(const double *x, isize n, isize k, isize largest)
{
    for (isize at = largest; at > 0 && at > largest - NEAR; at--) { /* mostly found soon */
        double least = ldexp(1.0, (int)at - 1023);
        int64_t count = 0;
        for (isize i = 0; i < n; i++)
            count += fabs(x[i]) >= least;
        if (k < count)
            return at;
    }
    uint32_t counts[EXPONENTS] = {0};
    for (isize i = 0; i < n; i++)
        counts[exponent_field(x[i])] += x[i] != 0.0;
    isize at = largest;
    for (; at > 0 && k >= (isize)counts[at]; at--)
        k -= counts[at];
    return at;
}

/* Median of a column (which becomes its deviations), and exponent of the median of its deviations
 * other than 0; how many are 0. */
static void typical_of(double *deviations, isize n, double *space, double *median,
                       int64_t *exponent, int64_t *n_zeros)
{
    double low = deviations[0], high = low;
    for (isize i = 0; i < n; i++) {
        low = deviations[i] < low ? deviations[i] : low;
        high = deviations[i] > high ? deviations[i] : high;
    }
    memcpy(space, deviations, n * sizeof *space);
    double middle = *median = in_place(space, (uint8_t *)(space + n), n, (n - 1) / 2, low, high);
    isize zeros = 0;
    for (isize i = 0; i < n; i++) {
        deviations[i] -= middle;
        zeros += deviations[i] == 0.0;
    }
    *n_zeros = zeros, *exponent = LEAST_EXPONENT;
    if (zeros == n)
        return;
    double farthest = high - middle > middle - low ? high - middle : middle - low;
    isize k = (n - zeros) - 1 - (n - zeros - 1) / 2; /* from the largest */
    isize field = field_of(deviations, n, k, exponent_field(farthest));
    if (field - 1022 > LEAST_EXPONENT)
        *exponent = field - 1022;
}

PyDoc_STRVAR(typical_doc,
"typical(rows, n, n_features, exponents, medians, n_zeros)\n--\n\n"
"The typical deviation of each column, as an exponent: see `summary.exact.units`.");

static PyObject *typical(PyObject *module, PyObject *args)
{
    PyObject *rows, *exponents, *medians, *n_zeros, *result = NULL;
    isize n, d;
    double *space = NULL;
    held h = {.n = 0};
    Py_buffer *x, *e, *m, *z;
    if (!PyArg_ParseTuple(args, "OnnOOO", &rows, &n, &d, &exponents, &medians, &n_zeros))
        return NULL;
    if (n < 1 || n > UINT32_MAX || d < 1) {
        PyErr_SetString(PyExc_ValueError, "sizes must be positive");
        return NULL;
    }
    if (!(x = hold(&h, rows, READ, times(n, d), "rows")) || !(e = hold(&h, exponents, 1, d, "exponents"))
        || !(m = hold(&h, medians, 1, d, "medians")) || !(z = hold(&h, n_zeros, 1, d, "n_zeros")))
        goto done;
    if (!(space = allocate(2 * n + n / 8 + 1)))
        goto done;
    Py_BEGIN_ALLOW_THREADS
    for (isize j = 0; j < d; j++) {
        for (isize i = 0; i < n; i++)
            space[i] = ((double *)x->buf)[i * d + j];
        typical_of(space, n, space + n, (double *)m->buf + j, (int64_t *)e->buf + j,
                   (int64_t *)z->buf + j);
    }
    Py_END_ALLOW_THREADS
    result = Py_NewRef(Py_None);
done:
    PyMem_Free(space);
    release(&h);
    return result;
}
