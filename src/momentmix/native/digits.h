/* Exact sums in digits of 32 bits: see summary/digits.py. */

PyDoc_STRVAR(subtract_multiples_doc,
"subtract_multiples(digits, n_digits, to, of, factor, shift)\n--\n\n"
"digits[to] −= factor·2^(32·shift)·digits[of], row by row, with carries; |factor| ≤ 2^31.");

static PyObject *subtract_multiples(PyObject *module, PyObject *args)
{
    PyObject *digits, *to, *of, *result = NULL;
    isize n_digits, shift;
    long long factor;
    held h = {.n = 0};
    Py_buffer *x, *t, *f;
    if (!PyArg_ParseTuple(args, "OnOOLn", &digits, &n_digits, &to, &of, &factor, &shift))
        return NULL;
    if (!(x = hold(&h, digits, WRITE, 0, "digits")) || !(t = hold(&h, to, READ, 0, "to"))
        || !(f = hold(&h, of, READ, t->len / 8, "of")))
        goto done;
    const int64_t *rows = t->buf, *others = f->buf, half = (int64_t)1 << 31;
    isize n = t->len / 8, n_rows = n_digits > 0 ? x->len / 8 / n_digits : 0;
    int is_valid = n_rows > 0 && shift >= 0 && shift < n_digits && factor >= -half && factor <= half;
    for (isize i = 0; i < n; i++)
        is_valid &= rows[i] >= 0 && rows[i] < n_rows && others[i] >= 0 && others[i] < n_rows;
    if (!is_valid) {
        PyErr_SetString(PyExc_ValueError, "rows, factor or shift do not fit the digits");
        goto done;
    }
    Py_BEGIN_ALLOW_THREADS
    for (isize i = 0; i < n; i++) {
        int64_t *value = (int64_t *)x->buf + rows[i] * n_digits, carry = 0;
        const int64_t *other = (int64_t *)x->buf + others[i] * n_digits;
        for (isize k = shift; k < n_digits; k++) {
            uint64_t total = (uint64_t)value[k] - (uint64_t)factor * (uint64_t)other[k - shift] + (uint64_t)carry;
            carry = (int64_t)(total + (uint64_t)half) >> 32;
            value[k] = (int64_t)(total - ((uint64_t)carry << 32));
        }
    }
    Py_END_ALLOW_THREADS
    result = Py_NewRef(Py_None);
done:
    release(&h);
    return result;
}
