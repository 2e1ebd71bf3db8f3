/* Features of columns that are not plain numbers: maps of their families (families/ in Python).
 *
 * A column's value y is known in its own units; z = (x − shift) / scale are the features, where
 * x = (y s, s), and s is 0 where a cell is missing. `law_coefficients` puts the factors of z and z² in
 * their places of `out`, and returns the constant.
 */
enum { LEVELS, COUNT, NUMBER, N_FAMILIES };
#define LEAST_PROBABILITY 1e-9 /* see families/family.py, as all that follows */
#define PSEUDO_ROWS 1.0
#define LEAST_RATE 1e-6      /* see families/counts.py */
#define FEWEST_OBSERVED 1e-6 /* see families/gaussian.py */

struct law_block {
    isize family, width, k; /* k: features of the value */
    int has_missing, at_random;
    const int64_t *features;
    const double *shift, *scale;
    double q, variance, least; /* over all rows: the share of observed cells; of y; least beside it */
    const double *mean;
};

static isize n_law_numbers(isize width) { return 3 * width + 3; }

static double at_least(double x, double least) { return x > least ? x : least; }

static double between(double x, double low, double high) { return x < low ? low : x > high ? high : x; }

/* Means of y into `mean`, and the variance of a number; the probability q of being observed. */
static double value_of(const law_block *law, const double *means, const double *spread, double *mean,
                       double *variance)
{
    double q = 1.0;
    for (isize j = 0; j < law->width; j++) {
        isize f = law->features[j];
        double x = law->shift[j] + law->scale[j] * means[f];
        if (j < law->k)
            mean[j] = x;
        else
            q = between(x, LEAST_PROBABILITY, 1.0 - LEAST_PROBABILITY);
    }
    double first = law->k ? mean[0] : 0.0;
    for (isize j = 0; j < law->k; j++)
        mean[j] /= q;
    *variance = law->scale[0] * law->scale[0] * spread[law->features[0]];
    if (law->has_missing && law->k)
        *variance = (*variance + first * first) / q - mean[0] * mean[0];
    return q;
}

/* Features from q, means of y and the variance of a number or count. */
static void features_of(const law_block *law, double q, const double *y, double variance, double *means,
                        double *spread)
{
    for (isize j = 0; j < law->width; j++) {
        double x = q, v = q * (1.0 - q);
        if (j < law->k) {
            x = q * y[j];
            v = q * (law->family == LEVELS ? y[j] * (1.0 - y[j]) : variance) + v * y[j] * y[j];
        }
        means[law->features[j]] = (x - law->shift[j]) / law->scale[j];
        spread[law->features[j]] = v / (law->scale[j] * law->scale[j]);
    }
}

/* The probability of the first level, from those of the others. */
static double first_level(const law_block *law, const double *p)
{
    double rest = 1.0;
    for (isize j = 0; j < law->k; j++)
        rest -= p[j];
    return at_least(rest, LEAST_PROBABILITY);
}

static double law_coefficients(const batch *b, const law_block *law, const double *means, const double *spread,
                               double *y, double *out)
{
    double variance, constant = 0.0, square = 0.0, rest = 0.0, q = value_of(law, means, spread, y, &variance);
    if (law->family == LEVELS) {
        constant = log(first_level(law, y));
        for (isize j = 0; j < law->k; j++)
            y[j] = log(at_least(y[j], LEAST_PROBABILITY)) - constant;
    } else if (law->family == COUNT) {
        double rate = at_least(y[0], LEAST_RATE);
        y[0] = log(rate), constant = -rate;
    } else {
        double v = at_least(variance, 1e-12 * y[0] * y[0] + 1e-300);
        constant = -0.5 * (y[0] * y[0] / v + log(6.283185307179586 * v));
        y[0] /= v, square = -0.5 / v;
    }
    if (law->has_missing) {
        rest = law->at_random ? 0.0 : log1p(-q);
        y[law->k] = constant + (law->at_random ? 0.0 : log(q) - rest);
        constant = rest;
    }
    for (isize j = 0; j < law->width; j++) {
        double own = j ? 0.0 : square, shift = law->shift[j], scale = law->scale[j];
        out[law->features[j]] = scale * (y[j] + 2.0 * shift * own);
        out[b->d + law->features[j]] = scale * scale * own;
        constant += shift * (y[j] + shift * own);
    }
    return constant;
}

static void law_m_step(const batch *b, const law_block *law, double n, const double *sums, double *y,
                       double *means, double *spread)
{
    double observed = n, variance = 0.0, q = 1.0;
    for (isize j = 0; j < law->width; j++)
        y[j] = law->shift[j] * n + law->scale[j] * sums[law->features[j]];
    if (law->has_missing) {
        observed = between(y[law->k], 0.0, n);
        q = between((observed + PSEUDO_ROWS * law->q) / (n + PSEUDO_ROWS), LEAST_PROBABILITY, 1.0 - LEAST_PROBABILITY);
        q = law->at_random ? law->q : q;
    }
    if (law->family == LEVELS) {
        double first = observed + PSEUDO_ROWS, total;
        for (isize j = 0; j < law->k; j++) {
            first -= y[j] + PSEUDO_ROWS * law->mean[j];
            y[j] = at_least(y[j] + PSEUDO_ROWS * law->mean[j], LEAST_PROBABILITY);
        }
        total = at_least(first, LEAST_PROBABILITY);
        for (isize j = 0; j < law->k; j++)
            total += y[j];
        for (isize j = 0; j < law->k; j++)
            y[j] /= total;
    } else if (law->family == COUNT)
        variance = y[0] = at_least((y[0] + PSEUDO_ROWS * law->mean[0]) / (observed + PSEUDO_ROWS), LEAST_RATE);
    else {
        double shift = law->shift[0], scale = law->scale[0], center = law->mean[0];
        double rows = at_least(observed, FEWEST_OBSERVED), away = (y[0] - rows * center) / rows;
        double squares = shift * shift * n + 2.0 * shift * scale * sums[law->features[0]]
                         + scale * scale * sums[b->d + law->features[0]];
        squares += rows * (center * center - away * away) - 2.0 * center * y[0];
        variance = most_probable(b, rows, squares / law->variance, law->least, 1) * law->variance;
        y[0] = center + away;
    }
    features_of(law, q, y, variance, means, spread);
}

static double law_log_prior(const batch *b, const law_block *law, const double *means, const double *spread,
                            double *y)
{
    double variance, sum = 0.0, q = value_of(law, means, spread, y, &variance);
    if (law->has_missing)
        sum = PSEUDO_ROWS * (law->q * log(q) + (1.0 - law->q) * log1p(-q));
    if (law->family == LEVELS) {
        double first = 1.0;
        for (isize j = 0; j < law->k; j++) {
            sum += PSEUDO_ROWS * law->mean[j] * log(at_least(y[j], LEAST_PROBABILITY));
            first -= law->mean[j];
        }
        return sum + PSEUDO_ROWS * first * log(first_level(law, y));
    }
    if (law->family == COUNT) {
        double rate = at_least(y[0], LEAST_RATE);
        return sum + PSEUDO_ROWS * (law->mean[0] * log(rate) - rate);
    }
    return sum + log_prior_of(b, at_least(variance, 1e-300) / law->variance, 1);
}
