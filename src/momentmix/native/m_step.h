/* Parameters of mixtures: log-densities as coefficients, the M-step, and the log-density of the prior.
 *
 * The maps are those of mixture/gaussian.py and mixture/prior.py. They go block by block: a kind of
 * block has its own functions, one for each map (those of families are in families.h). A spread holds the variances of a component, then the
 * covariances of its pairs; sums of an EM step are (z, z², z_j z_k, t of families, 1).
 */
typedef struct {
    isize width, first_pair; /* features of the block; where its pairs begin in a spread */
    const int64_t *features;
    const double *root, *inverse; /* R and R⁻¹, lower triangles */
    double least;                 /* least relative eigenvalue */
} joined_block;

typedef struct law_block law_block;

typedef struct {
    isize k, r, d, n_pairs, n_single, n_blocks, widest, n_laws, widest_law, n_own;
    double scale, added_squares;
    const double *floor;
    const int64_t *single; /* features that are blocks of their own */
    joined_block *blocks;
    law_block *laws; /* features that are not Gaussian */
    double *weights, *means, *spread;
} batch;

static isize n_spread(const batch *b) { return b->d + b->n_pairs; }

/* Where statistics of families beside z and z² begin. */
static isize first_own(const batch *b) { return b->d + n_spread(b); }

/* Where the covariance of features i < j of a block is in a spread; the variance for i = j. */
static isize place_of(const joined_block *block, isize i, isize j)
{
    if (i == j)
        return block->features[i];
    return block->first_pair + i * (2 * block->width - i - 1) / 2 + j - i - 1;
}

/* Numbers that the functions of joined blocks and laws work on. */
static isize matrix_space(const batch *b) { return 3 * b->widest * b->widest + b->widest + b->widest_law + b->n_own + 1; }

/* -- small matrices, row by row ------------------------------------------------------------------ */

/* The covariance matrix of a block, both halves. */
static void gather(const joined_block *block, const double *spread, double *out)
{
    isize k = block->width;
    for (isize i = 0; i < k; i++)
        for (isize j = i; j < k; j++)
            out[i * k + j] = out[j * k + i] = spread[place_of(block, i, j)];
}

/* R⁻¹ A R⁻ᵀ in place; `half` is memory of the same size. */
static void make_relative(const joined_block *block, double *a, double *half)
{
    isize k = block->width;
    for (isize i = 0; i < k; i++)
        for (isize j = 0; j < k; j++) {
            double sum = 0.0;
            for (isize m = 0; m <= i; m++)
                sum += block->inverse[i * k + m] * a[m * k + j];
            half[i * k + j] = sum;
        }
    for (isize i = 0; i < k; i++)
        for (isize j = i; j < k; j++) {
            double sum = 0.0;
            for (isize m = 0; m <= j; m++)
                sum += half[i * k + m] * block->inverse[j * k + m];
            a[i * k + j] = a[j * k + i] = sum;
        }
}

/* Eigenvalues of a symmetric matrix onto its diagonal, by Jacobi's rotations; with `vectors`, the
 * eigenvectors too, one in each row. */
static void eigen(isize k, double *a, double *vectors)
{
    for (isize i = 0; vectors && i < k * k; i++)
        vectors[i] = i % (k + 1) == 0;
    for (int sweep = 0; sweep < 40; sweep++) {
        double off = 0.0, own = 0.0;
        for (isize i = 0; i < k; i++) {
            own += a[i * k + i] * a[i * k + i];
            for (isize j = i + 1; j < k; j++)
                off += a[i * k + j] * a[i * k + j];
        }
        /* Rotations square what is left: below this it is below the last digit. */
        if (!(off > 1e-34 * own))
            return;
        for (isize p = 0; p < k; p++)
            for (isize q = p + 1; q < k; q++) {
                double x = a[p * k + q];
                if (x == 0.0)
                    continue;
                double gap = a[q * k + q] - a[p * k + p], twice = 2.0 * x;
                double root = sqrt(gap * gap + twice * twice);
                double t = (gap < 0.0 ? -twice : twice) / (fabs(gap) + root); /* the smaller angle */
                double c = 1.0 / sqrt(1.0 + t * t), s = t * c;
                a[p * k + p] -= t * x, a[q * k + q] += t * x;
                a[p * k + q] = a[q * k + p] = 0.0;
                for (isize i = 0; i < k; i++) {
                    if (i == p || i == q)
                        continue;
                    double u = a[p * k + i], w = a[q * k + i];
                    a[p * k + i] = a[i * k + p] = c * u - s * w;
                    a[q * k + i] = a[i * k + q] = s * u + c * w;
                }
                for (isize i = 0; vectors && i < k; i++) {
                    double u = vectors[p * k + i], w = vectors[q * k + i];
                    vectors[p * k + i] = c * u - s * w;
                    vectors[q * k + i] = s * u + c * w;
                }
            }
    }
}

/* The lower triangle L of A = L Lᵀ in place; 0 where there is none. */
static int cholesky(isize k, double *a)
{
    for (isize j = 0; j < k; j++) {
        for (isize i = j; i < k; i++) {
            double sum = a[i * k + j];
            for (isize m = 0; m < j; m++)
                sum -= a[i * k + m] * a[j * k + m];
            if (i > j)
                a[i * k + j] = sum / a[j * k + j];
            else if (sum > 0.0)
                a[j * k + j] = sqrt(sum);
            else
                return 0;
        }
    }
    return 1;
}

/* L⁻¹ of a lower triangle into `out`; its upper half is left as it is. */
static void invert_triangle(isize k, const double *lower, double *out)
{
    for (isize j = 0; j < k; j++) {
        out[j * k + j] = 1.0 / lower[j * k + j];
        for (isize i = j + 1; i < k; i++) {
            double sum = 0.0;
            for (isize m = j; m < i; m++)
                sum -= lower[i * k + m] * out[m * k + j];
            out[i * k + j] = sum / lower[i * k + i];
        }
    }
}

/* -- the prior ----------------------------------------------------------------------------------- */

/* Most probable variance, or relative eigenvalue of a block, of n rows with the sum of squares w. */
static double most_probable(const batch *b, double n, double w, double least, isize width)
{
    double s = b->scale, v;
    w = w > 0.0 ? w : 0.0;
    if (s == 0.0)
        v = w / n;
    else {
        w += b->added_squares;
        double half = 0.5 * ((n - (width + 3.0)) * s - w), product = s * w;
        double root = fabs(half) + sqrt(half * half + (n + 2.0) * product);
        v = half > 0 ? product / root : root / (n + 2.0);
    }
    return v > least ? v : least;
}

/* Logarithm of the prior's density of log v, up to a constant. */
static double log_prior_of(const batch *b, double v, isize width)
{
    v = v > 1e-300 ? v : 1e-300;
    double ratio = v / b->scale, half = 0.5 * (width + 3.0);
    return half * log(ratio) - (half + 1.0) * log1p(ratio) - 0.5 * b->added_squares / v;
}

#include "families.h"

/* -- a feature of its own ------------------------------------------------------------------------ */

static double single_coefficients(const batch *b, isize j, const double *mean, const double *spread,
                                  double *out)
{
    double precision = 1.0 / spread[j];
    out[j] = mean[j] * precision;
    out[b->d + j] = -0.5 * precision;
    return log(6.283185307179586 * spread[j]) + mean[j] * mean[j] * precision;
}

static void single_m_step(const batch *b, isize j, double n, const double *sums, const double *mean,
                          double *spread)
{
    double squares = sums[b->d + j] - n * (mean[j] * mean[j]);
    spread[j] = most_probable(b, n, squares, b->floor[j], 1);
}

/* -- features of a joined block ------------------------------------------------------------------ */

/* Log-determinant and mean·Σ⁻¹·mean in one number, NaN where Σ has no root. */
static double joined_coefficients(const batch *b, const joined_block *block, const double *mean,
                                  const double *spread, double *space, double *out)
{
    isize k = block->width, d = b->d;
    double *lower = space, *inverse = space + k * k, total = 0.0;
    gather(block, spread, lower);
    if (!cholesky(k, lower))
        return NAN;
    invert_triangle(k, lower, inverse);
    for (isize i = 0; i < k; i++) {
        total += 2.0 * log(lower[i * k + i]) + log(6.283185307179586);
        out[block->features[i]] = 0.0;
    }
    for (isize i = 0; i < k; i++)
        for (isize j = i; j < k; j++) {
            isize first = block->features[i], second = block->features[j];
            double precision = 0.0;
            for (isize m = j; m < k; m++)
                precision += inverse[m * k + i] * inverse[m * k + j];
            /* A product of two features stands for both of its places in the matrix. */
            out[d + place_of(block, i, j)] = i == j ? -0.5 * precision : -precision;
            out[first] += precision * mean[second];
            if (i < j)
                out[second] += precision * mean[first];
        }
    for (isize i = 0; i < k; i++)
        total += out[block->features[i]] * mean[block->features[i]];
    return total;
}

static void joined_m_step(const batch *b, const joined_block *block, double n, const double *sums,
                          const double *mean, double *space, double *spread)
{
    isize k = block->width;
    double *a = space, *vectors = a + k * k, *half = vectors + k * k;
    for (isize i = 0; i < k; i++)
        for (isize j = i; j < k; j++) {
            double product = mean[block->features[i]] * mean[block->features[j]];
            a[i * k + j] = a[j * k + i] = sums[b->d + place_of(block, i, j)] - n * product;
        }
    make_relative(block, a, half);
    eigen(k, a, vectors);
    /* Σ = H Hᵀ with H = R V √λ; the rows of `vectors` are the columns of V. */
    for (isize m = 0; m < k; m++) {
        double deviation = sqrt(most_probable(b, n, a[m * k + m], block->least, k));
        for (isize i = 0; i < k; i++) {
            double sum = 0.0;
            for (isize j = 0; j <= i; j++)
                sum += block->root[i * k + j] * vectors[m * k + j];
            half[i * k + m] = sum * deviation;
        }
    }
    for (isize i = 0; i < k; i++)
        for (isize j = i; j < k; j++) {
            double sum = 0.0;
            for (isize m = 0; m < k; m++)
                sum += half[i * k + m] * half[j * k + m];
            spread[place_of(block, i, j)] = sum;
        }
}

static double joined_log_prior(const batch *b, const joined_block *block, const double *spread, double *space)
{
    isize k = block->width;
    double sum = 0.0;
    gather(block, spread, space);
    make_relative(block, space, space + k * k);
    eigen(k, space, NULL);
    for (isize i = 0; i < k; i++)
        sum += log_prior_of(b, space[i * (k + 1)], k);
    return sum;
}

/* -- mixtures ------------------------------------------------------------------------------------ */

/* Log-densities of mixture m, weights included, as linear functions of T(z); 0 where there are none. */
static int coefficients_of(const batch *b, isize m, double *space, double *out)
{
    isize d = b->d, size = first_own(b) + b->n_own + 1;
    for (isize c = m * b->r; c < (m + 1) * b->r; c++, out += size) {
        const double *mean = b->means + c * d, *spread = b->spread + c * n_spread(b);
        double total = 0.0, constant = log(b->weights[c] > 1e-300 ? b->weights[c] : 1e-300);
        for (isize i = 0; i < b->n_single; i++)
            total += single_coefficients(b, b->single[i], mean, spread, out);
        for (isize i = 0; i < b->n_blocks; i++)
            total += joined_coefficients(b, &b->blocks[i], mean, spread, space, out);
        if (total != total)
            return 0;
        for (isize i = 0; i < b->n_laws; i++)
            constant += law_coefficients(b, &b->laws[i], mean, spread, space, out);
        out[size - 1] = constant - 0.5 * total;
    }
    return 1;
}

/* Parameters of mixture m from its sums of an EM step, (r, size). */
static void m_step(batch *b, isize m, const double *sums, double *space)
{
    isize d = b->d, size = first_own(b) + b->n_own + 1;
    double all = 0.0;
    for (isize i = 0; i < b->r; i++)
        all += sums[i * size + size - 1];
    for (isize c = m * b->r; c < (m + 1) * b->r; c++, sums += size) {
        double *mean = b->means + c * d, *spread = b->spread + c * n_spread(b);
        double count = sums[size - 1], n = count > 1e-12 ? count : 1e-12;
        b->weights[c] = count / all;
        for (isize j = 0; j < d; j++)
            mean[j] = sums[j] / n;
        int is_empty = !(count > FEWEST_ROWS);
        for (isize j = 0; is_empty && j < n_spread(b); j++)
            spread[j] = j < d;
        for (isize i = 0; !is_empty && i < b->n_single; i++)
            single_m_step(b, b->single[i], n, sums, mean, spread);
        for (isize i = 0; !is_empty && i < b->n_blocks; i++)
            joined_m_step(b, &b->blocks[i], n, sums, mean, space, spread);
        for (isize i = 0; i < b->n_laws; i++)
            law_m_step(b, &b->laws[i], count, sums, space, mean, spread);
    }
}

/* Logarithm of the prior's density of mixture m. */
static double log_prior(const batch *b, isize m, double *space)
{
    double sum = 0.0;
    for (isize c = m * b->r; b->scale != 0.0 && c < (m + 1) * b->r; c++) {
        const double *spread = b->spread + c * n_spread(b);
        for (isize i = 0; i < b->n_single; i++)
            sum += log_prior_of(b, spread[b->single[i]], 1);
        for (isize i = 0; i < b->n_blocks; i++)
            sum += joined_log_prior(b, &b->blocks[i], spread, space);
        for (isize i = 0; i < b->n_laws; i++)
            sum += law_log_prior(b, &b->laws[i], b->means + c * b->d, spread, space);
    }
    return sum;
}
