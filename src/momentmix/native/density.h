/* Rows → log-densities of mixtures and sums of an EM step, for one instruction set.
 *
 * The table holds T(z) = (z, products, 1), one statistic in each of its rows and SLAB rows of data
 * side by side; `joint` holds log ω_i p_i(z) in the same way, then the shares of the components. See
 * mixture/density.py, whose functions do the same with NumPy.
 */
#if defined(MM_AVX512)
#define MAX(a, b) _mm512_max_pd(a, b)
#define SPLAT(x) _mm512_set1_pd(x)
#define STORE(p, x) _mm512_storeu_pd(p, x)
#define GROUP 4 /* vectors of rows that share the loads of the coefficients */
#elif defined(MM_AVX2)
#define MAX(a, b) _mm256_max_pd(a, b)
#define SPLAT(x) _mm256_set1_pd(x)
#define STORE(p, x) _mm256_storeu_pd(p, x)
#define GROUP 2
#else
#define MAX(a, b) vmaxq_f64(a, b)
#define SPLAT(x) vdupq_n_f64(x)
#define STORE(p, x) vst1q_f64(p, x)
#define GROUP 4
#endif
typedef long long NAME(whole) __attribute__((vector_size(sizeof(V))));

/* e^x for −708 < x < 709 to within a unit in the last place: 2^n times a polynomial of degree 11 of
 * |x − n log 2| ≤ ½ log 2, which interpolates at Chebyshev nodes. */
INLINE V NAME(exponential)(V x)
{
    /* The sum with 1.5·2^52 has n in its last bits; shifted, they are an exponent. */
    V shifted = FMA(x, SPLAT(0x1.71547652b82fep+0), SPLAT(0x1.8p52));
    V n = shifted - SPLAT(0x1.8p52);
    V t = FMA(n, SPLAT(-0x1.62e42fefa3800p-1), x);
    t = FMA(n, SPLAT(-0x1.ef35793c76730p-45), t);
    V y = SPLAT(0x1.af632a0f7e2cfp-26);
    y = FMA(y, t, SPLAT(0x1.28b4101c77212p-22));
    y = FMA(y, t, SPLAT(0x1.71ddf56d8deb5p-19));
    y = FMA(y, t, SPLAT(0x1.a01991a10d9aep-16));
    y = FMA(y, t, SPLAT(0x1.a01a01b1461c5p-13));
    y = FMA(y, t, SPLAT(0x1.6c16c1880029fp-10));
    y = FMA(y, t, SPLAT(0x1.111111110f21ep-7));
    y = FMA(y, t, SPLAT(0x1.555555554f0bap-5));
    y = FMA(y, t, SPLAT(0x1.555555555555ap-3));
    y = FMA(y, t, SPLAT(0x1.0000000000011p-1));
    y = FMA(y, t, SPLAT(1.0));
    y = FMA(y, t, SPLAT(1.0));
    return (V)(((NAME(whole))shifted << 52) + (NAME(whole))y);
}

/* Log-densities of I components and GROUP vectors of rows. */
INLINE void NAME(joint_tile)(const int I, const double *coefficients, isize size, const double *table,
                             double *joint)
{
    V sums[4][GROUP];
    for (int i = 0; i < I; i++)
        for (int g = 0; g < GROUP; g++)
            sums[i][g] = SPLAT(coefficients[i * size + size - 1]);
    for (isize s = 0; s + 1 < size; s++) {
        V values[GROUP];
        for (int g = 0; g < GROUP; g++)
            values[g] = LOAD(table + s * ROW + g * WIDTH);
        for (int i = 0; i < I; i++) {
            V factor = SPLAT(coefficients[i * size + s]);
            for (int g = 0; g < GROUP; g++)
                sums[i][g] = FMA(factor, values[g], sums[i][g]);
        }
    }
    for (int i = 0; i < I; i++)
        for (int g = 0; g < GROUP; g++)
            STORE(joint + i * ROW + g * WIDTH, sums[i][g]);
}

/* Log-densities of all components. */
static void NAME(joint)(const double *coefficients, isize r, isize size, const double *table,
                        double *joint)
{
    for (isize k = 0; k < SLAB; k += GROUP * WIDTH) {
        isize i = 0;
        for (; i + 3 < r; i += 4)
            NAME(joint_tile)(4, coefficients + i * size, size, table + k, joint + i * ROW + k);
        for (; i + 1 < r; i += 2)
            NAME(joint_tile)(2, coefficients + i * size, size, table + k, joint + i * ROW + k);
        if (i < r)
            NAME(joint_tile)(1, coefficients + i * size, size, table + k, joint + i * ROW + k);
    }
}

/* Log-densities → shares of the components; their largest, and the sum of all relative to it. */
static void NAME(shares)(double *joint, isize r, double least, double *top, double *total)
{
    for (isize k = 0; k < SLAB; k += WIDTH) {
        V largest = LOAD(joint + k), sum = ZERO;
        for (isize i = 1; i < r; i++)
            largest = MAX(largest, LOAD(joint + i * ROW + k));
        V base = MAX(largest, SPLAT(-DBL_MAX)); /* −∞ − (−∞) is NaN */
        for (isize i = 0; i < r; i++) {
            V x = NAME(exponential)(MAX(LOAD(joint + i * ROW + k) - base, SPLAT(least)));
            STORE(joint + i * ROW + k, x);
            sum += x;
        }
        V factor = SPLAT(1.0) / sum;
        for (isize i = 0; i < r; i++)
            STORE(joint + i * ROW + k, LOAD(joint + i * ROW + k) * factor);
        STORE(top + k, largest);
        STORE(total + k, sum);
    }
}

/* Products, the constant, and zeros for rows that are not there; z of n rows, and what is given, is in
 * the table. */
static void NAME(complete)(double *table, const row_source *rows, isize n)
{
    isize d = rows->d;
    double *out = table + d * ROW;
    for (isize j = 0; j < d; j++)
        for (isize k = n; k < SLAB; k++)
            table[j * ROW + k] = 0.0;
    for (const int64_t *p = rows->products; p < rows->products + 2 * rows->n_products; p += 2, out += ROW)
        if (p[0] >= 0)
            NAME(multiply)(table + p[0] * ROW, table + p[1] * ROW, SLAB, out);
        else
            for (isize k = n; k < SLAB; k++)
                out[k] = 0.0;
    for (isize k = 0; k < SLAB; k++)
        out[k] = k < n ? 1.0 : 0.0;
}

/* n ≤ SLAB rows into the table. */
static void NAME(fill)(const row_source *rows, isize start, isize n, double *table)
{
    isize d = rows->d, by_row = rows->row_stride, by_column = rows->column_stride;
    const double *first = rows->values + start * by_row;
    for (isize j = 0; !rows->units && j < d; j++)
        memcpy(table + j * ROW, first + j * by_column, n * sizeof(double));
    for (isize p = 0; p < rows->n_products; p++)
        if (rows->products[2 * p] < 0)
            memcpy(table + (d + p) * ROW, first + rows->products[2 * p + 1] * by_column, n * sizeof(double));
    for (isize k = 0, m; rows->units && k < n; k += m) {
        m = n - k < LANES ? n - k : LANES;
        for (isize j = 0; j < d; j++) {
            const double *in = first + k * by_row + rows->columns[j] * by_column;
            double *out = table + j * ROW + k, shift = rows->units[j], factor = rows->units[d + j];
            if (m == LANES)
                for (isize i = 0; i < LANES; i++)
                    out[i] = (in[i * by_row] - shift) * factor;
            else
                for (isize i = 0; i < m; i++)
                    out[i] = (in[i * by_row] - shift) * factor;
        }
    }
    NAME(complete)(table, rows, n);
}

/* Σ log f(z) of n rows: one logarithm for a product of some sums, each from 1 to r. */
static double NAME(sum_of_logs)(double *top, double *total, isize n)
{
    V sums[VECTORS], products[VECTORS];
    for (isize i = n; i < SLAB; i++)
        top[i] = 0.0, total[i] = 1.0;
    for (int v = 0; v < VECTORS; v++)
        sums[v] = ZERO, products[v] = SPLAT(1.0);
    for (isize i = 0; i < SLAB; i += LANES)
        for (int v = 0; v < VECTORS; v++) {
            sums[v] += LOAD(top + i + v * WIDTH);
            products[v] *= LOAD(total + i + v * WIDTH);
        }
    double lanes[LANES], result = 0.0;
    for (int v = 0; v < VECTORS; v++) {
        STORE(lanes + v * WIDTH, sums[v]);
        STORE(total + v * WIDTH, products[v]);
    }
    /* Two lanes, each of SLAB / LANES sums, are multiplied too: fewer logarithms. */
    for (int i = 0; i < LANES; i += 2)
        result += lanes[i] + lanes[i + 1] + log(total[i] * total[i + 1]);
    return result;
}

/* Shares of n rows, each as often as the row counts; returns Σ log f(z), counted in the same way. */
static double NAME(count_rows)(const double *counts, isize n, isize r, double *joint, const double *top,
                               const double *total)
{
    double factors[SLAB] = {0.0}, result = 0.0;
    for (isize i = 0; i < n; i++) {
        factors[i] = counts[i];
        result += counts[i] * (top[i] + log(total[i]));
    }
    for (isize c = 0; c < r; c++)
        NAME(multiply)(joint + c * ROW, factors, SLAB, joint + c * ROW);
    return result;
}

/* Σ_z γ_i(z) T_s(z), added to sums: STRIP components at a time, statistic by statistic. */
static void NAME(add_products)(const double *joint, isize r, const double *table, isize size, double *sums)
{
    for (isize i = 0; i < r; i += STRIP)
        NAME(strip)(joint + i * ROW, r - i < STRIP ? r - i : STRIP, table, size, SLAB, sums + i * size);
}

/* The same component by component, (r, size). */
static void NAME(in_rows)(const double *sums, isize r, isize size, double *out)
{
    for (isize i = 0; i < r; i++) {
        isize first = i / STRIP * STRIP, n = r - first < STRIP ? r - first : STRIP;
        for (isize s = 0; s < size; s++)
            out[i * size + s] = sums[first * size + s * n + i - first];
    }
}

/* For each of k mixtures: Σ_z γ_i(z) T(z), (r, size), unless it is NULL, and Σ_z log f(z); rows with
 * counts count so many times. */
static void NAME(em_sums)(const row_source *rows, const double *coefficients, isize k, isize r,
                          double *space, double *statistics, double *totals)
{
    isize size = n_statistics(rows), each = r * size;
    double *joint = space + size * ROW, *sums = joint + r * ROW, top[SLAB], total[SLAB];
    memset(totals, 0, k * sizeof(double));
    memset(sums, 0, k * each * sizeof(double));
    for (isize start = 0; start < rows->n; start += SLAB) {
        isize n = rows->n - start < SLAB ? rows->n - start : SLAB;
        NAME(fill)(rows, start, n, space);
        for (isize m = 0; m < k; m++) {
            NAME(joint)(coefficients + m * each, r, size, space, joint);
            NAME(shares)(joint, r, statistics ? LEAST_IN_SUMS : LEAST, top, total);
            if (rows->counts)
                totals[m] += NAME(count_rows)(rows->counts + start, n, r, joint, top, total);
            if (statistics)
                NAME(add_products)(joint, r, space, size, sums + m * each);
            if (!rows->counts)
                totals[m] += NAME(sum_of_logs)(top, total, n);
        }
    }
    for (isize m = 0; statistics && m < k; m++)
        NAME(in_rows)(sums + m * each, r, size, statistics + m * each);
}

/* Of each row the log-density, the shares of the components (n, r), or the number of the largest.
 * Returns how many rows have none of these, since a density is NaN or all are 0; they get NaN or −1. */
static isize NAME(map_rows)(const row_source *rows, int kind, const double *coefficients, isize r,
                            double *space, double *out)
{
    isize size = n_statistics(rows), n_bad = 0;
    double *joint = space + size * ROW, top[SLAB], total[SLAB];
    for (isize start = 0; start < rows->n; start += SLAB) {
        isize n = rows->n - start < SLAB ? rows->n - start : SLAB;
        NAME(fill)(rows, start, n, space);
        NAME(joint)(coefficients, r, size, space, joint);
        double bad[SLAB];
        for (isize i = 0; i < SLAB; i++)
            bad[i] = 0.0, top[i] = -HUGE_VAL;
        for (isize c = 0; c < r; c++)
            for (isize i = 0; i < SLAB; i++) {
                double x = joint[c * ROW + i];
                bad[i] += x != x;
                top[i] = x > top[i] ? x : top[i];
            }
        for (isize i = 0; i < n; i++) {
            bad[i] = bad[i] > 0 || !(fabs(top[i]) <= DBL_MAX);
            n_bad += bad[i] > 0;
        }
        if (kind == LABELS) {
            int64_t *labels = (int64_t *)out + start;
            for (isize i = 0; i < n; i++) {
                isize c = 0;
                while (c + 1 < r && joint[c * ROW + i] != top[i])
                    c++;
                labels[i] = bad[i] > 0 ? -1 : c;
            }
            continue;
        }
        NAME(shares)(joint, r, LEAST, top, total);
        for (isize i = 0; i < n; i++) {
            if (kind == LOG_DENSITIES)
                out[start + i] = bad[i] > 0 ? NAN : log(total[i]) + top[i];
            else
                for (isize c = 0; c < r; c++) {
                    double share = joint[c * ROW + i];
                    out[(start + i) * r + c] = bad[i] > 0 ? NAN : share > NOTHING ? share : 0.0;
                }
        }
    }
    return n_bad;
}

#undef MAX
#undef SPLAT
#undef STORE
#undef GROUP
