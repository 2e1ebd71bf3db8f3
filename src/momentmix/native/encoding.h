/* Cells → features: one column of numbers, or of codes of levels, into a table of features. */

/* What a column becomes; the same in schema/encoding.py. */
enum { HAS_SEEN = 1, HAS_LEVELS = 2 };
/* What was found in it. */
enum { IS_MISSING = 1, NO_LEVEL = 2 };

static int fill_numbers(const char *x, isize step, isize n, int has_seen, double center, char *out,
                        isize row)
{
    for (isize i = 0; i < n; i++, x += step, out += row) {
        double value = *(const double *)x, *to = (double *)out;
        int seen = value == value;
        to[0] = seen || !has_seen ? value - center : 0.0;
        if (has_seen)
            to[1] = seen;
    }
    return 0; /* NaN stays in the features, where it is looked for */
}

static int fill_levels(const char *x, isize step, isize n, int has_seen, isize n_levels, char *out,
                       isize row)
{
    int found = 0;
    for (isize i = 0; i < n; i++, x += step, out += row) {
        double value = *(const double *)x, *to = (double *)out;
        for (isize k = 0; k < n_levels - 1 + has_seen; k++)
            to[k] = 0.0;
        if (!(value >= 0 && value < (double)n_levels)) {
            found |= value == value ? NO_LEVEL : has_seen ? 0 : IS_MISSING;
            continue;
        }
        isize level = (isize)value;
        if ((double)level != value)
            found |= NO_LEVEL;
        if (level)
            to[level - 1] = 1.0;
        if (has_seen)
            to[n_levels - 1] = 1.0;
    }
    return found;
}

PyDoc_STRVAR(fill_column_doc,
"fill_column(source, target, kind, n_levels, center)\n--\n\n"
"Write the features of a column into a table of shape (n_rows, n_features): see `schema.encoding`.");

static PyObject *fill_column(PyObject *module, PyObject *args)
{
    PyObject *source, *target;
    int kind, found = 0;
    isize n_levels;
    double center;
    Py_buffer x, y;
    if (!PyArg_ParseTuple(args, "OOind", &source, &target, &kind, &n_levels, &center)
        || PyObject_GetBuffer(source, &x, PyBUF_RECORDS_RO))
        return NULL;
    if (PyObject_GetBuffer(target, &y, PyBUF_RECORDS)) {
        PyBuffer_Release(&x);
        return NULL;
    }
    int has_seen = kind & HAS_SEEN, has_levels = kind & HAS_LEVELS;
    isize width = (has_levels ? n_levels - (n_levels > 0) : 1) + has_seen;
    int is_valid = !(kind & ~(HAS_SEEN | HAS_LEVELS)) && has_numbers(&x) && has_numbers(&y)
                   && x.ndim == 1 && y.ndim == 2 && x.shape[0] == y.shape[0] && y.shape[1] == width
                   && width > 0 && (!has_levels || n_levels > 0) && (y.strides[1] == 8 || width == 1);
    if (is_valid) {
        Py_BEGIN_ALLOW_THREADS
        if (has_levels)
            found = fill_levels(x.buf, x.strides[0], x.shape[0], has_seen, n_levels, y.buf, y.strides[0]);
        else
            found = fill_numbers(x.buf, x.strides[0], x.shape[0], has_seen, center, y.buf, y.strides[0]);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&y);
    PyBuffer_Release(&x);
    if (!is_valid) {
        PyErr_SetString(PyExc_ValueError, "source and target have other shapes than the column");
        return NULL;
    }
    return PyLong_FromLong(found);
}
