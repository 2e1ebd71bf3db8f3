/* Parameters of mixtures: log-densities as coefficients, the M-step, and the log-density of the prior.
 *
 * The maps are those of mixture/gaussian.py and mixture/prior.py. They go block by block: a kind of
 * block has its own functions, one for each map (those of families are in families.h). A spread holds
 * the variances of a component, then the covariances of its pairs. Sums of an EM step are those of
 * T(z) = (z, z_j² that some block needs, z_j z_k, t of families, 1).
 */
enum { LEVELS, COUNT, NUMBER, SIZED_COUNT, JOINED, SINGLE, N_KINDS };

typedef struct {
    isize kind, width, k; /* k: features of the value; the last may say whether a cell is observed */
    int has_missing, at_random;
    isize own, n_own, head, n_nodes; /* statistics t: the first among all, how many, see families.h */
    const int64_t *features;
    const double *numbers;
    isize first_pair; /* where pairs of a joined block begin in a spread */
} block;

typedef struct {
    isize k, r, d, n_pairs, n_squares, n_own, n_blocks, widest;
    double scale, added_squares;
    const double *floor;
    block *blocks;
    int64_t *squares; /* of each feature, where z² is among the sums; −1: not needed */
    double *weights, *means, *spread;
} batch;

static isize n_spread(const batch *b) { return b->d + b->n_pairs; }

/* Where statistics of families beside z and z² begin, and the constant. */
static isize first_own(const batch *b) { return b->d + b->n_squares + b->n_pairs; }
static isize n_sums(const batch *b) { return first_own(b) + b->n_own + 1; }

/* Where the covariance of features i < j of a block is in a spread; the variance for i = j. */
static isize place_of(const block *p, isize i, isize j)
{
    if (i == j)
        return p->features[i];
    return p->first_pair + i * (2 * p->width - i - 1) / 2 + j - i - 1;
}

/* The same among the sums. */
static isize sum_of(const batch *b, const block *p, isize i, isize j)
{
    return i == j ? b->squares[p->features[i]] : place_of(p, i, j) + b->n_squares;
}

/* Numbers that the functions of blocks work on. */
static isize block_space(const batch *b) { return 3 * b->widest * b->widest + b->widest + b->n_own + 1; }

/* R, R⁻¹ and the least relative eigenvalue of a joined block. */
static const double *root(const block *p) { return p->numbers; }
static const double *inverse(const block *p) { return p->numbers + p->width * p->width; }
static double least(const block *p) { return p->numbers[2 * p->width * p->width]; }

/* -- small matrices, row by row ------------------------------------------------------------------ */

/* The covariance matrix of a block, both halves. */
static void gather(const block *p, const double *spread, double *out)
{
    isize k = p->width;
    for (isize i = 0; i < k; i++)
        for (isize j = i; j < k; j++)
            out[i * k + j] = out[j * k + i] = spread[place_of(p, i, j)];
}

/* R⁻¹ A R⁻ᵀ in place; `half` is memory of the same size. */
static void make_relative(const block *p, double *a, double *half)
{
    isize k = p->width;
    for (isize i = 0; i < k; i++)
        for (isize j = 0; j < k; j++) {
            double sum = 0.0;
            for (isize m = 0; m <= i; m++)
                sum += inverse(p)[i * k + m] * a[m * k + j];
            half[i * k + j] = sum;
        }
    for (isize i = 0; i < k; i++)
        for (isize j = i; j < k; j++) {
            double sum = 0.0;
            for (isize m = 0; m <= j; m++)
                sum += half[i * k + m] * inverse(p)[j * k + m];
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

/* -- features of their own ----------------------------------------------------------------------- */

static double single_coefficients(const batch *b, const block *p, const double *mean, const double *spread,
                                  double *out)
{
    double total = 0.0;
    for (isize i = 0; i < p->width; i++) {
        isize j = p->features[i];
        double precision = 1.0 / spread[j];
        out[j] = mean[j] * precision;
        out[b->squares[j]] = -0.5 * precision;
        total += log(6.283185307179586 * spread[j]) + mean[j] * mean[j] * precision;
    }
    return total;
}

static void single_m_step(const batch *b, const block *p, double n, const double *sums, const double *mean,
                          double *spread)
{
    for (isize i = 0; i < p->width; i++) {
        isize j = p->features[i];
        spread[j] = most_probable(b, n, sums[b->squares[j]] - n * (mean[j] * mean[j]), b->floor[j], 1);
    }
}

/* -- features of a joined block ------------------------------------------------------------------ */

/* Log-determinant and mean·Σ⁻¹·mean in one number, NaN where Σ has no root. */
static double joined_coefficients(const batch *b, const block *p, const double *mean,
                                  const double *spread, double *space, double *out)
{
    isize k = p->width;
    double *lower = space, *upside = space + k * k, total = 0.0;
    gather(p, spread, lower);
    if (!cholesky(k, lower))
        return NAN;
    invert_triangle(k, lower, upside);
    for (isize i = 0; i < k; i++) {
        total += 2.0 * log(lower[i * k + i]) + log(6.283185307179586);
        out[p->features[i]] = 0.0;
    }
    for (isize i = 0; i < k; i++)
        for (isize j = i; j < k; j++) {
            isize first = p->features[i], second = p->features[j];
            double precision = 0.0;
            for (isize m = j; m < k; m++)
                precision += upside[m * k + i] * upside[m * k + j];
            /* A product of two features stands for both of its places in the matrix. */
            out[sum_of(b, p, i, j)] = i == j ? -0.5 * precision : -precision;
            out[first] += precision * mean[second];
            if (i < j)
                out[second] += precision * mean[first];
        }
    for (isize i = 0; i < k; i++)
        total += out[p->features[i]] * mean[p->features[i]];
    return total;
}

static void joined_m_step(const batch *b, const block *p, double n, const double *sums,
                          const double *mean, double *space, double *spread)
{
    isize k = p->width;
    double *a = space, *vectors = a + k * k, *half = vectors + k * k;
    for (isize i = 0; i < k; i++)
        for (isize j = i; j < k; j++) {
            double product = mean[p->features[i]] * mean[p->features[j]];
            a[i * k + j] = a[j * k + i] = sums[sum_of(b, p, i, j)] - n * product;
        }
    make_relative(p, a, half);
    eigen(k, a, vectors);
    /* Σ = H Hᵀ with H = R V √λ; the rows of `vectors` are the columns of V. */
    for (isize m = 0; m < k; m++) {
        double deviation = sqrt(most_probable(b, n, a[m * k + m], least(p), k));
        for (isize i = 0; i < k; i++) {
            double sum = 0.0;
            for (isize j = 0; j <= i; j++)
                sum += root(p)[i * k + j] * vectors[m * k + j];
            half[i * k + m] = sum * deviation;
        }
    }
    for (isize i = 0; i < k; i++)
        for (isize j = i; j < k; j++) {
            double sum = 0.0;
            for (isize m = 0; m < k; m++)
                sum += half[i * k + m] * half[j * k + m];
            spread[place_of(p, i, j)] = sum;
        }
}

static double joined_log_prior(const batch *b, const block *p, const double *spread, double *space)
{
    isize k = p->width;
    double sum = 0.0;
    gather(p, spread, space);
    make_relative(p, space, space + k * k);
    eigen(k, space, NULL);
    for (isize i = 0; i < k; i++)
        sum += log_prior_of(b, space[i * (k + 1)], k);
    return sum;
}

/* -- mixtures ------------------------------------------------------------------------------------ */

/* Log-densities of mixture m, weights included, as linear functions of T(z); 0 where there are none. */
static int coefficients_of(const batch *b, isize m, double *space, double *out)
{
    isize size = n_sums(b);
    for (isize c = m * b->r; c < (m + 1) * b->r; c++, out += size) {
        const double *mean = b->means + c * b->d, *spread = b->spread + c * n_spread(b);
        double constant = log(b->weights[c] > 1e-300 ? b->weights[c] : 1e-300);
        for (const block *p = b->blocks; p < b->blocks + b->n_blocks; p++)
            if (p->kind == SINGLE)
                constant -= 0.5 * single_coefficients(b, p, mean, spread, out);
            else if (p->kind == JOINED)
                constant -= 0.5 * joined_coefficients(b, p, mean, spread, space, out);
            else
                constant += law_coefficients(b, p, mean, spread, space, out);
        if (constant != constant)
            return 0;
        out[size - 1] = constant;
    }
    return 1;
}

/* Parameters of mixture m from its sums of an EM step, (r, size). */
static void m_step(batch *b, isize m, const double *sums, double *space)
{
    isize d = b->d, size = n_sums(b);
    double all = 0.0;
    for (isize i = 0; i < b->r; i++)
        all += sums[i * size + size - 1];
    for (isize c = m * b->r; c < (m + 1) * b->r; c++, sums += size) {
        double *mean = b->means + c * d, *spread = b->spread + c * n_spread(b);
        double count = sums[size - 1], n = count > 1e-12 ? count : 1e-12;
        int is_empty = !(count > FEWEST_ROWS);
        b->weights[c] = count / all;
        for (isize j = 0; j < d; j++)
            mean[j] = sums[j] / n;
        for (isize j = 0; is_empty && j < n_spread(b); j++)
            spread[j] = j < d;
        for (const block *p = b->blocks; p < b->blocks + b->n_blocks; p++)
            if (p->kind < JOINED)
                law_m_step(b, p, count, sums, space, mean, spread);
            else if (!is_empty && p->kind == JOINED)
                joined_m_step(b, p, n, sums, mean, space, spread);
            else if (!is_empty)
                single_m_step(b, p, n, sums, mean, spread);
    }
}

/* Logarithm of the prior's density of mixture m. */
static double log_prior(const batch *b, isize m, double *space)
{
    double sum = 0.0;
    for (isize c = m * b->r; b->scale != 0.0 && c < (m + 1) * b->r; c++) {
        const double *mean = b->means + c * b->d, *spread = b->spread + c * n_spread(b);
        for (const block *p = b->blocks; p < b->blocks + b->n_blocks; p++)
            if (p->kind < JOINED)
                sum += law_log_prior(b, p, mean, spread, space);
            else if (p->kind == JOINED)
                sum += joined_log_prior(b, p, spread, space);
            else
                for (isize i = 0; i < p->width; i++)
                    sum += log_prior_of(b, spread[p->features[i]], 1);
    }
    return sum;
}
