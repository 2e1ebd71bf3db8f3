/* Rows → sums of products of their monomials, for one instruction set. See kernels/half_split.py.
 *
 * The table holds one monomial in each of its rows, and CHUNK rows of data side by side. A product
 * of two monomials is summed in LANES partial sums, row k of a chunk in number k mod LANES, which
 * are then added; the sums of the chunks are added in their order.
 */

enum { NAME(tile_rows) = TILE_ROWS, NAME(tile_columns) = TILE_COLUMNS };

/* Add Σ_k a_i[k]·b_j[k] to out[i·J + j] for I rows a_i and J rows b_j. */
INLINE void NAME(tile)(const int I, const int J, const double *a, const double *b, isize steps,
                       double *out)
{
    V sums[TILE_ROWS * TILE_COLUMNS][VECTORS], right[TILE_COLUMNS];
    for (int v = 0; v < VECTORS; v++) { /* the first products begin the sums */
        for (int j = 0; j < J; j++)
            right[j] = LOAD(b + j * ROW + v * WIDTH);
        for (int i = 0; i < I; i++)
            for (int j = 0; j < J; j++)
                sums[i * J + j][v] = MUL(LOAD(a + i * ROW + v * WIDTH), right[j]);
    }
    for (isize k = LANES; k < steps * LANES; k += LANES)
        for (int v = 0; v < VECTORS; v++) {
            for (int j = 0; j < J; j++) {
                right[j] = LOAD(b + j * ROW + k + v * WIDTH);
                HELD(right[j]);
            }
            for (int i = 0; i < I; i++) {
                V left = LOAD(a + i * ROW + k + v * WIDTH);
                for (int j = 0; j < J; j++)
                    sums[i * J + j][v] = FMA(left, right[j], sums[i * J + j][v]);
            }
        }
    NAME(add_totals)(I * J, sums, out);
}

#define TILE(I, J)                                                                                 \
    case (I) * 8 + (J):                                                                            \
        NAME(tile)(I, J, a, b, steps, out);                                                        \
        break;

static NOINLINE void NAME(any_tile)(int n_rows, int n_columns, const double *a, const double *b,
                                    isize steps, double *out)
{
    switch (n_rows * 8 + n_columns) {
        TILE(1, 1) TILE(1, 2) TILE(1, 3) TILE(2, 1) TILE(2, 2) TILE(2, 3)
#if TILE_COLUMNS == 5
        TILE(1, 4) TILE(1, 5) TILE(2, 4) TILE(2, 5)
        TILE(3, 1) TILE(3, 2) TILE(3, 3) TILE(3, 4) TILE(3, 5)
        TILE(4, 1) TILE(4, 2) TILE(4, 3) TILE(4, 4) TILE(4, 5)
#endif
    }
}

#undef TILE

/* Where n numbers are cut into parts of nearly equal size: part p ends at n·(p + 1) / parts. Without
 * a division for each: those of 64 bits take as long as many products. */
typedef struct {
    int part, rest, parts, error;
} NAME(cuts);

INLINE NAME(cuts) NAME(cuts_of)(isize n, int most)
{
    int size = (int)n, parts = (size + most - 1) / most; /* none where there are none */
    return (NAME(cuts)){parts ? size / parts : 0, parts ? size % parts : 0, parts, 0};
}

/* Size of the next part. */
INLINE int NAME(next_part)(NAME(cuts) * c)
{
    c->error += c->rest;
    int more = c->error >= c->parts;
    c->error -= more ? c->parts : 0;
    return c->part + more;
}

/* All rows of a times all rows of b, in tiles of nearly equal size.
 *
 * The entries of a tile stand side by side; `native_sums.tile_order` says where each one is.
 */
static void NAME(product)(const double *a, isize n_rows, const double *b, isize n_columns,
                          isize steps, double *out)
{
    NAME(cuts) down = NAME(cuts_of)(n_rows, TILE_ROWS);
    for (int p = 0; p < down.parts; p++) {
        NAME(cuts) across = NAME(cuts_of)(n_columns, TILE_COLUMNS);
        int height = NAME(next_part)(&down);
        const double *right = b;
        for (int q = 0; q < across.parts; q++) {
            int width = NAME(next_part)(&across);
            NAME(any_tile)(height, width, a, right, steps, out);
            right += width * ROW, out += height * width;
        }
        a += height * ROW;
    }
}

/* Eight rows of data at a time into the table, in units; the constant stands between the halves. */
static void NAME(points)(const program *p, const double *rows, const double *units, isize n,
                         double *table)
{
    isize d = p->n_features, padded = (n + LANES - 1) / LANES * LANES;
    const double *scale = units, *shift = units + d;
    for (isize k = 0; k < n; k += LANES) {
        isize m = n - k < LANES ? n - k : LANES;
        for (isize j = 0; j < d; j++) {
            double *out = table + (p->first + j + (j >= p->half)) * ROW + k;
            const double *in = rows + k * d + j;
            if (m == LANES)
                for (int i = 0; i < LANES; i++)
                    out[i] = in[i * d] * scale[j] - shift[j];
            else
                for (int i = 0; i < LANES; i++)
                    out[i] = i < m ? in[i * d] * scale[j] - shift[j] : 0.0;
        }
    }
    double *constant = table + (p->first + p->half) * ROW;
    for (isize k = 0; k < padded; k++)
        constant[k] = k < n ? 1.0 : 0.0;
}

INLINE void NAME(multiply)(const double *left, const double *right, isize n, double *out)
{
    for (isize k = 0; k < n; k++)
        out[k] = left[k] * right[k];
}

/* One chunk of rows. */
static void NAME(chunk)(const program *p, const double *rows, const double *weights,
                        const double *units, isize n, double *table, double *head, double *sums)
{
    isize steps = (n + LANES - 1) / LANES, padded = steps * LANES;
    double w[CHUNK];
    NAME(points)(p, rows, units, n, table);
    if (weights)
        for (isize k = 0; k < padded; k++)
            w[k] = k < n ? weights[k] : 0.0;
    for (isize at = 0; at < p->n_steps; at++) {
        if (at == p->n_fills && weights)
            for (isize i = 0; i < p->n_weighted; i++)
                NAME(multiply)(table + i * ROW, w, padded, head + i * ROW);
        const int64_t *s = p->steps + 6 * at;
        const double *left = table + s[1] * ROW, *right = table + s[3] * ROW;
        if (s[0] == PRODUCT) {
            if (weights)
                right = head + s[3] * ROW;
            NAME(product)(left, s[2] - s[1], right, s[4] - s[3], steps, sums + s[5]);
            continue;
        }
        double *out = table + s[5] * ROW;
        for (isize i = 0; i < s[2] - s[1]; i++) {
            if (s[0] == EACH) {
                NAME(multiply)(left + i * ROW, right + (s[4] - s[3] == 1 ? 0 : i * ROW), padded,
                               out + i * ROW);
                continue;
            }
            for (isize j = 0; j < s[4] - s[3]; j++, out += ROW)
                NAME(multiply)(left + i * ROW, right + j * ROW, padded, out);
        }
    }
}

/* One block of n rows → the moments of the layout. */
static void NAME(block)(const program *p, const double *rows, const double *weights,
                        const double *units, isize n, double *space, double *out)
{
    double *table = space, *head = table + p->n_monomials * ROW;
    double *sums = head + p->n_weighted * ROW;
    int all_one = 1;
    for (isize k = 0; weights && k < n; k++)
        all_one &= weights[k] == 1.0;
    if (all_one)
        weights = NULL;
    memset(sums, 0, p->n_sums * sizeof(double));
    for (isize k = 0; k < n; k += CHUNK)
        NAME(chunk)(p, rows + k * p->n_features, weights ? weights + k : NULL, units,
                    n - k < CHUNK ? n - k : CHUNK, table, head, sums);
    for (isize e = 0; e < p->n_entries; e++)
        out[e] = sums[p->positions[e]];
}

/* Minimum and maximum of each column of n rows: low[0 … d), high[0 … d). Eight rows at a time. */
static void NAME(extremes)(const double *rows, isize n, isize d, double *wide, double *low)
{
    double *wide_high = wide + LANES * d, *high = low + d;
    isize whole = n / LANES;
    for (isize j = 0; j < d; j++)
        low[j] = high[j] = rows[j];
    if (whole) {
        memcpy(wide, rows, LANES * d * sizeof(double));
        memcpy(wide_high, rows, LANES * d * sizeof(double));
        for (isize k = 1; k < whole; k++) {
            const double *x = rows + k * LANES * d;
            for (isize i = 0; i < LANES * d; i++) {
                wide[i] = x[i] < wide[i] ? x[i] : wide[i];
                wide_high[i] = x[i] > wide_high[i] ? x[i] : wide_high[i];
            }
        }
        for (isize i = 0; i < LANES * d; i++) {
            isize j = i % d;
            low[j] = wide[i] < low[j] ? wide[i] : low[j];
            high[j] = wide_high[i] > high[j] ? wide_high[i] : high[j];
        }
    }
    for (isize i = whole * LANES * d; i < n * d; i++) {
        isize j = i % d;
        low[j] = rows[i] < low[j] ? rows[i] : low[j];
        high[j] = rows[i] > high[j] ? rows[i] : high[j];
    }
}

/* Whether every number is at most `largest` in size; not so for NaN. */
static int NAME(in_range)(const double *x, isize n, double largest)
{
    for (isize start = 0; start < n; start += 4096) {
        isize stop = n < start + 4096 ? n : start + 4096, bad = 0;
        for (isize i = start; i < stop; i++)
            bad += !(fabs(x[i]) <= largest);
        if (bad)
            return 0;
    }
    return 1;
}

/* Split a vector into digits at the places of `rounders`, and add these; see summary/blocks.py. */
static void NAME(split)(double *values, isize n, const double *rounders, isize n_digits,
                        double *digits)
{
    for (isize start = 0; start < n; start += CHUNK) {
        isize m = n - start < CHUNK ? n - start : CHUNK;
        double *rest = values + start;
        for (isize k = n_digits - 1; k >= 0; k--) {
            double r = rounders[k], *sum = digits + k * n + start;
            for (isize i = 0; i < m; i++) {
                double digit = (rest[i] + r) - r;
                rest[i] -= digit;
                sum[i] += digit;
            }
        }
    }
}
