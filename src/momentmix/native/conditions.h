/* Second moments of conditions whose features are joined in blocks: products over the blocks.
 *
 * See fitting/conditions/monomial_covariance.py.
 */
typedef struct {
    isize n, r, n_blocks;
    const int64_t *order;      /* conditions, those that hold the same blocks one after the other */
    const int64_t *own;        /* (n_blocks, n): number of each condition's factor, 0 for the constant */
    const int64_t *sizes;      /* factors of each block */
    const double *tables;      /* E_i[u v], (r, size, size), block by block */
    const double *weights;
    double *others, *products; /* (r, n) and (n) */
} condition_blocks;

static int hold_the_same(const condition_blocks *c, isize a, isize b)
{
    for (isize k = 0; k < c->n_blocks; k++)
        if (!c->own[k * c->n + a] != !c->own[k * c->n + b])
            return 0;
    return 1;
}

/* ω_i times the moments of each condition's factors in the blocks that condition a does not hold. */
static void multiply_others(const condition_blocks *c, isize a)
{
    for (isize i = 0; i < c->r; i++) {
        double *others = c->others + i * c->n;
        const double *table = c->tables;
        for (isize b = 0; b < c->n; b++)
            others[b] = c->weights[i];
        for (isize k = 0; k < c->n_blocks; k++) {
            const int64_t *own = c->own + k * c->n;
            isize size = c->sizes[k];
            if (!own[a])
                for (isize b = 0; b < c->n; b++)
                    others[b] *= table[i * size * size + own[b]];
            table += c->r * size * size;
        }
    }
}

/* Add Σ_i ω_i E_i[m_a m_b] to row a of the table, b ≥ a. */
static void add_row(const condition_blocks *c, isize a, double *out)
{
    for (isize i = 0; i < c->r; i++) {
        const double *table = c->tables;
        memcpy(c->products + a, c->others + i * c->n + a, (c->n - a) * sizeof(double));
        for (isize k = 0; k < c->n_blocks; k++) {
            const int64_t *own = c->own + k * c->n;
            isize size = c->sizes[k];
            const double *row = table + (i * size + own[a]) * size;
            if (own[a])
                for (isize b = a; b < c->n; b++)
                    c->products[b] *= row[own[b]];
            table += c->r * size * size;
        }
        for (isize b = a; b < c->n; b++)
            out[b] += c->products[b];
    }
}

static int conditions_are_valid(const condition_blocks *c, isize n_numbers)
{
    isize needed = 0;
    for (isize k = 0; k < c->n_blocks; k++) {
        if (c->sizes[k] < 1 || c->sizes[k] > n_numbers)
            return 0;
        needed = plus(needed, times(c->r, times(c->sizes[k], c->sizes[k])));
        for (isize a = 0; a < c->n; a++)
            if (c->own[k * c->n + a] < 0 || c->own[k * c->n + a] >= c->sizes[k])
                return 0;
    }
    for (isize a = 0; a < c->n; a++)
        if (c->order[a] < 0 || c->order[a] >= c->n)
            return 0;
    return needed <= n_numbers;
}

PyDoc_STRVAR(add_second_moments_doc,
"add_second_moments(order, own, sizes, tables, weights, out)\n--\n\n"
"Add the second moments of conditions to the upper half of a table (n, n): see\n"
"`fitting.conditions.monomial_covariance`.");

static PyObject *add_second_moments(PyObject *module, PyObject *args)
{
    PyObject *order, *own, *sizes, *tables, *weights, *out, *result = NULL;
    condition_blocks c = {.n = 0};
    held h = {.n = 0};
    Py_buffer *o, *w, *s, *t, *u, *x;
    if (!PyArg_ParseTuple(args, "OOOOOO", &order, &own, &sizes, &tables, &weights, &out))
        return NULL;
    if (!(o = hold(&h, order, 0, 1, "order")) || !(s = hold(&h, sizes, 0, 1, "sizes"))
        || !(u = hold(&h, weights, 0, 1, "weights")))
        goto done;
    c.n = o->len / 8, c.n_blocks = s->len / 8, c.r = u->len / 8;
    if (!(w = hold(&h, own, READ, times(c.n, c.n_blocks), "own")) || !(t = hold(&h, tables, 0, 1, "tables"))
        || !(x = hold(&h, out, WRITE, times(c.n, c.n), "out")))
        goto done;
    c.order = o->buf, c.own = w->buf, c.sizes = s->buf, c.tables = t->buf, c.weights = u->buf;
    if (!conditions_are_valid(&c, t->len / 8)) {
        PyErr_SetString(PyExc_ValueError, "factors of conditions do not fit the tables");
        goto done;
    }
    if (!(c.others = allocate(times(c.r + 1, c.n))))
        goto done;
    c.products = c.others + c.r * c.n;
    Py_BEGIN_ALLOW_THREADS
    for (isize place = 0; place < c.n; place++) {
        isize a = c.order[place];
        if (!place || !hold_the_same(&c, a, c.order[place - 1]))
            multiply_others(&c, a);
        add_row(&c, a, (double *)x->buf + a * c.n);
    }
    Py_END_ALLOW_THREADS
    PyMem_Free(c.others);
    result = Py_NewRef(Py_None);
done:
    release(&h);
    return result;
}
