/* Second moments of conditions whose features are joined in blocks: products over the blocks.
 *
 * See fitting/moments/covariance.py. E_i[m_a m_b] has one factor for each block that
 * condition a or b holds: those that b holds are looked up by its factors, in a table made for a,
 * and the product of those that a holds alone by the set of blocks that it shares with b.
 */
typedef struct {
    isize n, r, width, n_blocks, n_factors;
    const int64_t *slots;      /* (n, width): factors of each condition, one for each block, then 0 */
    const int64_t *sizes;      /* factors of each block, the constant first */
    const double *tables;      /* E_i[u v], (size, size, r), block by block */
    const double *weights;
    isize lanes;               /* r rounded up to fours: components side by side */
    int64_t *firsts, *blocks;  /* first factor of each block, and the block of each factor */
    const double **of_block;   /* its part of `tables` */
    double *factors;           /* (n_factors, lanes): E_i[u_a u], or E_i[u] of blocks that a lacks */
    double *alone;             /* (2^width, lanes): ω_i E_i[u_a] over the blocks that b lacks */
    int64_t *shared;           /* of each factor, the bit of its block among those of a */
} condition_blocks;

enum { MOST_SLOTS = 16 };

static void set_factors(const condition_blocks *c, isize k, isize row, int64_t bit)
{
    for (isize v = 1; v < c->sizes[k]; v++) {
        const double *from = c->of_block[k] + (row * c->sizes[k] + v) * c->r;
        memcpy(c->factors + (c->firsts[k] + v) * c->lanes, from, c->r * sizeof(double));
        c->shared[c->firsts[k] + v] = bit;
    }
}

static void prepare_tables(condition_blocks *c)
{
    const double *table = c->tables;
    isize first = 0;
    memset(c->factors, 0, c->n_factors * c->lanes * sizeof(double));
    memset(c->alone, 0, ((isize)1 << c->width) * c->lanes * sizeof(double));
    memset(c->shared, 0, c->n_factors * sizeof(int64_t));
    for (isize k = 0; k < c->n_blocks; k++) {
        isize size = c->sizes[k];
        c->firsts[k] = first, c->of_block[k] = table;
        for (isize v = 0; v < size; v++)
            c->blocks[first + v] = k;
        set_factors(c, k, 0, 0);
        first += size, table += size * size * c->r;
    }
    for (isize i = 0; i < c->r; i++)
        c->factors[i] = 1.0;
}

/* Add four components of Σ_i ω_i E_i[m_a m_b] to row a of the table, b ≥ a. */
static void add_components(const condition_blocks *c, isize a, isize first, double *out)
{
    const double *factors = c->factors + first, *alone = c->alone + first;
    for (isize b = a; b < c->n; b++) {
        const int64_t *own = c->slots + b * c->width;
        int64_t shared = 0;
        double product[4] = {1.0, 1.0, 1.0, 1.0};
        for (isize t = 0; t < c->width; t++) {
            shared |= c->shared[own[t]];
            for (int i = 0; i < 4; i++)
                product[i] *= factors[own[t] * c->lanes + i];
        }
        for (int i = 0; i < 4; i++)
            product[i] *= alone[shared * c->lanes + i];
        out[b] += (product[0] + product[2]) + (product[1] + product[3]);
    }
}

static void add_row(const condition_blocks *c, isize a, double *out)
{
    const int64_t *own = c->slots + a * c->width;
    const double *means[MOST_SLOTS];
    int64_t n_held = 0;
    for (isize t = 0; t < c->width; t++)
        if (own[t]) {
            isize k = c->blocks[own[t]], row = own[t] - c->firsts[k];
            means[n_held] = c->of_block[k] + row * c->sizes[k] * c->r;
            set_factors(c, k, row, (int64_t)1 << n_held++);
        }
    int64_t all = ((int64_t)1 << n_held) - 1;
    memcpy(c->alone + all * c->lanes, c->weights, c->r * sizeof(double));
    for (int64_t set = all; set-- > 0;) {
        int64_t lowest = 0;
        while (set >> lowest & 1)
            lowest++;
        const double *more = c->alone + (set | (int64_t)1 << lowest) * c->lanes;
        for (isize i = 0; i < c->r; i++)
            c->alone[set * c->lanes + i] = more[i] * means[lowest][i];
    }
    for (isize first = 0; first < c->lanes; first += 4)
        add_components(c, a, first, out);
    for (isize t = 0; t < c->width; t++)
        if (own[t])
            set_factors(c, c->blocks[own[t]], 0, 0);
}

static int conditions_are_valid(condition_blocks *c, isize n_numbers)
{
    isize needed = 0;
    for (isize k = 0; k < c->n_blocks; k++) {
        if (c->sizes[k] < 1 || c->sizes[k] > n_numbers)
            return 0;
        needed = plus(needed, times(c->r, times(c->sizes[k], c->sizes[k])));
        c->n_factors = plus(c->n_factors, c->sizes[k]);
    }
    for (isize place = 0; place < c->n * c->width; place++)
        if (c->slots[place] < 0 || c->slots[place] >= c->n_factors)
            return 0;
    return c->r > 0 && needed <= n_numbers;
}

/* Add the second moments of n conditions to the upper half of a table (n, n): see
 * fitting.moments.covariance. */
static PyObject *add_second_moments(PyObject *module, PyObject *args)
{
    condition_blocks c = {.n = 0};
    array slots, sizes, tables, weights, out;
    held h;
    if (!take(&h, args, "nrrrrw", &c.n, &slots, &sizes, &tables, &weights, &out) || c.n < 1
        || out.n < times(c.n, c.n) || !slots.n)
        return done(&h, NULL);
    c.width = slots.n / c.n, c.n_blocks = sizes.n, c.r = weights.n;
    c.slots = slots.data, c.sizes = sizes.data, c.tables = tables.data, c.weights = weights.data;
    if (c.width < 1 || c.width > MOST_SLOTS || !conditions_are_valid(&c, tables.n))
        return done(&h, NULL);
    c.lanes = (c.r + 3) / 4 * 4;
    isize subsets = (isize)1 << c.width, doubles = times(plus(c.n_factors, subsets), c.lanes);
    double *space = allocate(plus(doubles, plus(times(2, c.n_factors), times(2, c.n_blocks))));
    if (!space)
        return done(&h, NULL);
    c.factors = space, c.alone = space + c.n_factors * c.lanes;
    c.shared = (int64_t *)(space + doubles), c.blocks = c.shared + c.n_factors;
    c.firsts = c.blocks + c.n_factors, c.of_block = (const double **)(c.firsts + c.n_blocks);
    Py_BEGIN_ALLOW_THREADS
    prepare_tables(&c);
    for (isize a = 0; a < c.n; a++)
        add_row(&c, a, (double *)out.data + a * c.n);
    Py_END_ALLOW_THREADS
    PyMem_Free(space);
    return done(&h, Py_NewRef(Py_None));
}
