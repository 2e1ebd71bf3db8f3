/* Rows → sums of products of monomials, for one instruction set: see summary/kernel.py.
 *
 * The table holds a monomial in each of its rows, and up to CHUNK rows of data side by side. A product
 * of two monomials is summed in LANES partial sums, row k of a chunk in number k mod LANES, which
 * are then added; the sums of the chunks are added in their order.
 */

/* Add Σ_k a_i[k]·b_j[k] to out[j·step + i], for I rows a_i and J rows b_j. */
INLINE void NAME(tile)(const int I, const int J, const double *a, const double *b, isize padded,
                       isize step, double *out)
{
    V sums[TILE_ROWS * TILE_COLUMNS][VECTORS], left[TILE_ROWS];
    UNROLLED for (int t = 0; t < I * J; t++) /* not by memset, which takes as long as the products */
        for (int v = 0; v < VECTORS; v++)
            sums[t][v] = ZERO;
    for (isize k = 0; k < padded; k += LANES)
        for (int v = 0; v < VECTORS; v++) {
            for (int i = 0; i < I; i++) {
                left[i] = LOAD(a + i * ROW + k + v * WIDTH);
                HELD(left[i]);
            }
            for (int j = 0; j < J; j++) {
                V right = LOAD(b + j * ROW + k + v * WIDTH);
                for (int i = 0; i < I; i++)
                    sums[j * I + i][v] = FMA(left[i], right, sums[j * I + i][v]);
            }
        }
    if (I == step)
        NAME(add_totals)(I * J, sums, out);
    else
        for (int j = 0; j < J; j++)
            NAME(add_totals)(I, sums + j * I, out + j * step);
}

#define TILE(I, J)                                                                                 \
    case (I) * 8 + (J):                                                                            \
        NAME(tile)(I, J, a, b, padded, step, out);                                                 \
        break;

static NOINLINE void NAME(any_tile)(int n_rows, int n_columns, const double *a, const double *b,
                                    isize padded, isize step, double *out)
{
    switch (n_rows * 8 + n_columns) {
        TILE(1, 1) TILE(1, 2) TILE(1, 3) TILE(2, 1) TILE(2, 2) TILE(2, 3)
#if TILE_COLUMNS == 6
        TILE(1, 4) TILE(1, 5) TILE(1, 6) TILE(2, 4) TILE(2, 5) TILE(2, 6)
        TILE(3, 1) TILE(3, 2) TILE(3, 3) TILE(3, 4) TILE(3, 5) TILE(3, 6)
        TILE(4, 1) TILE(4, 2) TILE(4, 3) TILE(4, 4) TILE(4, 5) TILE(4, 6)
#endif
    }
}

#undef TILE

/* Add the products of at most STRIP rows of a and n rows of b to out[j·n_rows + i]. */
static void NAME(strip)(const double *a, int n_rows, const double *b, int n, isize padded, double *out)
{
    int n_parts = (n + TILE_COLUMNS - 1) / TILE_COLUMNS;
    for (int part = 0, j = 0, width; part < n_parts; part++, j += width) {
        width = n / n_parts + (part < n % n_parts); /* of nearly equal size: narrow tiles are slow */
        for (int i = 0; i < n_rows; i += TILE_ROWS)
            NAME(any_tile)(n_rows - i < TILE_ROWS ? n_rows - i : TILE_ROWS, width, a + i * ROW,
                           b + j * ROW, padded, n_rows, out + j * n_rows + i);
    }
}

INLINE void NAME(multiply)(const double *left, const double *right, isize n, double *out)
{
    for (isize k = 0; k < n; k++)
        out[k] = left[k] * right[k];
}

/* Monomials, each the product of two that stand in the table. */
static void NAME(monomials)(const int64_t *factors, isize n, const double *table, isize padded, double *out)
{
    for (isize i = 0; i < n; i++)
        NAME(multiply)(table + factors[2 * i] * ROW, table + factors[2 * i + 1] * ROW, padded, out + i * ROW);
}

/* The constant and the points of n rows in units, eight rows at a time, zeros beyond. */
static void NAME(points)(isize d, const double *rows, const double *units, isize n, double *table)
{
    const double *scale = units, *shift = units + d;
    for (isize k = 0; k < n; k += LANES) {
        isize m = n - k < LANES ? n - k : LANES;
        for (int i = 0; i < LANES; i++)
            table[k + i] = i < m ? 1.0 : 0.0;
        for (isize j = 0; j < d; j++) {
            double *out = table + (1 + j) * ROW + k;
            const double *in = rows + k * d + j;
            if (m == LANES)
                for (int i = 0; i < LANES; i++)
                    out[i] = in[i * d] * scale[j] - shift[j];
            else
                for (int i = 0; i < LANES; i++)
                    out[i] = i < m ? in[i * d] * scale[j] - shift[j] : 0.0;
        }
    }
}

/* One block of n rows → the moments of the layout. */
static void NAME(block)(const plan *p, const double *rows, const double *weights,
                        const double *units, isize n, double *table, double *out)
{
    double *left = table + p->n_right * ROW, *sums = left + STRIP * ROW, w[CHUNK] = {0.0};
    isize n_points = p->n_features + 1;
    memset(sums, 0, p->n_sums * sizeof(double));
    for (isize start = 0; start < n; start += CHUNK) {
        isize m = n - start < CHUNK ? n - start : CHUNK, padded = (m + LANES - 1) / LANES * LANES;
        for (isize k = 0; weights && k < padded; k++)
            w[k] = k < m ? weights[start + k] : 0.0;
        NAME(points)(p->n_features, rows + start * p->n_features, units, m, table);
        NAME(monomials)(p->right + 2 * n_points, p->n_right - n_points, table, padded,
                        table + n_points * ROW);
        isize top = -1;
        for (const int64_t *s = p->strips; s < p->strips + 5 * p->n_strips; s += 5) {
            isize height = s[1] - s[0];
            if (s[0] != top) {
                NAME(monomials)(p->left + 2 * s[0], height, table, padded, left);
                for (isize i = 0; weights && i < height; i++)
                    NAME(multiply)(left + i * ROW, w, padded, left + i * ROW);
            }
            top = s[0];
            NAME(strip)(left, (int)height, table + s[2] * ROW, (int)(s[3] - s[2]), padded, sums + s[4]);
        }
    }
    for (isize e = 0; e < p->n_entries; e++)
        out[e] = sums[p->positions[e]];
}

/* Minimum and maximum of each column of n rows: low[0 … d), high[0 … d); low[0] is NaN where one is. */
static void NAME(extremes)(const double *rows, isize n, isize d, double *restrict low, double *restrict high)
{
    isize n_bad = 0;
    memcpy(low, rows, d * sizeof(double));
    memcpy(high, rows, d * sizeof(double));
    for (isize k = 0; k < n; k++)
        for (isize j = 0; j < d; j++) {
            double x = rows[k * d + j];
            low[j] = x < low[j] ? x : low[j];
            high[j] = x > high[j] ? x : high[j];
            n_bad += x != x;
        }
    if (n_bad)
        low[0] = NAN;
}

/* Split a vector into digits at the places of `rounders`, and add these; see summary/kernel.py. */
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
