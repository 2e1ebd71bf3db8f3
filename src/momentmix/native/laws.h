/* Blocks of features that are not Gaussian: the maps of families, one function each for a kind.
 *
 * A law's log-density is a linear function of (z, z², 1): `law_coefficients` puts the factors of z and
 * z² in their places of `out`, and returns the constant. Numbers of a law, in this order:
 * finite: whether the first outcome is a cell missing at random, points (k + 1, k),
 * inverse (k + 1, k + 1), overall probabilities (k + 1);
 * count: shift, scale; seen: u_0, s_0, s_1, whether cells are missing at random, overall q, mean and variance of the value, then the
 * unit and the least variance of a number, or shift and scale of a count.
 */
enum { FINITE, COUNT, SEEN_NUMBER, SEEN_COUNT, N_LAWS };
#define LEAST_PROBABILITY 1e-9 /* see families/finite.py */
#define LEAST_MEAN 1e-6        /* see families/count.py */
#define FEWEST_SEEN 1e-6
#define PSEUDO_ROWS 1.0        /* see families/law.py */

struct law_block {
    isize kind, width;
    const int64_t *features;
    const double *numbers;
};

static isize n_law_numbers(isize kind, isize k)
{
    return kind == FINITE ? k * (k + 1) + (k + 1) * (k + 1) + k + 2 : kind == COUNT ? 2 : 9;
}

static double at_least(double x, double least) { return x > least ? x : least; }

static double between(double x, double low, double high) { return x < low ? low : x > high ? high : x; }

/* -- finitely many outcomes ---------------------------------------------------------------------- */

static int is_at_random(const law_block *law) { return law->numbers[0] != 0.0; }

static const double *inverse_of(const law_block *law) { return law->numbers + 1 + law->width * (law->width + 1); }

static const double *overall_of(const law_block *law)
{
    return inverse_of(law) + (law->width + 1) * (law->width + 1);
}

/* n·P of the outcomes where the features sum to `sums` over n rows. */
static void outcomes(const law_block *law, double n, const double *sums, double *out)
{
    isize k = law->width;
    const double *inverse = inverse_of(law);
    for (isize o = 0; o <= k; o++) {
        out[o] = n * inverse[k * (k + 1) + o];
        for (isize j = 0; j < k; j++)
            out[o] += sums[law->features[j]] * inverse[j * (k + 1) + o];
    }
}

/* Probabilities of the outcomes in place, `first` that of a cell missing at random. */
static void allow_outcomes(const law_block *law, double first, double *space)
{
    double total = 0.0, sum = 1.0;
    isize start = is_at_random(law);
    for (isize o = 0; o <= law->width; o++) {
        space[o] = at_least(space[o], LEAST_PROBABILITY);
        total += o < start ? 0.0 : space[o];
    }
    if (start)
        space[0] = first, sum = first < 1.0 ? 1.0 - first : 1.0;
    for (isize o = start; o <= law->width; o++)
        space[o] = space[o] / total * sum;
}

static double finite_coefficients(const law_block *law, isize d, const double *mean, double *space, double *out)
{
    isize k = law->width;
    const double *inverse = inverse_of(law);
    outcomes(law, 1.0, mean, space);
    if (is_at_random(law))
        allow_outcomes(law, 1.0, space); /* the density of seen cells alone */
    for (isize o = 0; o <= k; o++)
        space[o] = log(at_least(space[o], LEAST_PROBABILITY));
    double factor = 0.0;
    for (isize j = 0; j <= k; j++) {
        factor = 0.0;
        for (isize o = 0; o <= k; o++)
            factor += space[o] * inverse[j * (k + 1) + o];
        if (j < k)
            out[law->features[j]] = factor, out[d + law->features[j]] = 0.0;
    }
    return factor;
}

static void finite_m_step(const law_block *law, double n, const double *sums, double *space, double *mean,
                          double *spread)
{
    isize k = law->width;
    const double *points = law->numbers + 1, *overall = overall_of(law);
    outcomes(law, n, sums, space);
    for (isize o = 0; o <= k; o++)
        space[o] += PSEUDO_ROWS * overall[o];
    allow_outcomes(law, overall[0], space);
    for (isize j = 0; j < k; j++) {
        double m = 0.0, v = 0.0;
        for (isize o = 0; o <= k; o++)
            m += space[o] * points[o * k + j];
        for (isize o = 0; o <= k; o++)
            v += space[o] * (points[o * k + j] - m) * (points[o * k + j] - m);
        mean[law->features[j]] = m, spread[law->features[j]] = v;
    }
}

static double finite_log_prior(const law_block *law, const double *mean, double *space)
{
    const double *overall = overall_of(law);
    double sum = 0.0;
    outcomes(law, 1.0, mean, space);
    for (isize o = 0; o <= law->width; o++)
        sum += overall[o] * log(at_least(space[o], LEAST_PROBABILITY));
    return PSEUDO_ROWS * sum;
}

/* -- a count, shift + scale·z -------------------------------------------------------------------- */

typedef struct {
    double shift, scale;
} count_units;

/* A number's mean and variance; factors of (z, z², 1) in `linear`, `square` and `constant`. */
typedef struct {
    double mean, variance;
} moments_of_value;

typedef struct {
    double linear, square, constant;
} function_of_value;

static double rate_of(count_units u, double mean) { return at_least(u.shift + u.scale * mean, LEAST_MEAN); }

static function_of_value count_coefficients(count_units u, double mean)
{
    double rate = rate_of(u, mean), logarithm = log(rate);
    return (function_of_value){u.scale * logarithm, 0.0, u.shift * logarithm - rate};
}

static moments_of_value count_m_step(count_units u, double n, double sum)
{
    double rate = rate_of(u, sum / (n + PSEUDO_ROWS));
    return (moments_of_value){(rate - u.shift) / u.scale, rate / (u.scale * u.scale)};
}

static double count_log_prior(count_units u, double mean)
{
    double rate = rate_of(u, mean);
    return PSEUDO_ROWS * (u.shift * log(rate) - rate);
}

static count_units units_of_count(const law_block *law) { return (count_units){law->numbers[0], law->numbers[1]}; }

/* -- a value that may be missing ----------------------------------------------------------------- */

typedef struct {
    double u0, s0, s1;
    int at_random;
    double q, mean, variance; /* over all rows */
    const double *value;
} seen_units;

static seen_units seen_of(const law_block *law)
{
    const double *x = law->numbers;
    return (seen_units){x[0], x[1], x[2], x[3] != 0.0, x[4], x[5], x[6], x + 7};
}

/* The count's units where values are those of all rows with mean 0 and variance 1. */
static count_units standard_count(const seen_units *u)
{
    return (count_units){u->value[0] + u->value[1] * u->mean, u->value[1] * sqrt(u->variance)};
}

/* Probability of being seen, and the value's mean and variance, from those of the two features. */
static double seen_value(const seen_units *u, const law_block *law, const double *mean, const double *spread,
                         moments_of_value *value)
{
    double m = mean[law->features[0]], v = spread[law->features[0]];
    double q = (mean[law->features[1]] - u->s0) / (u->s1 - u->s0);
    q = between(q, LEAST_PROBABILITY, 1.0 - LEAST_PROBABILITY);
    value->mean = (m - (1.0 - q) * u->u0) / q;
    value->variance = (v + m * m - (1.0 - q) * (u->u0 * u->u0)) / q - value->mean * value->mean;
    return q;
}

static double seen_coefficients(const law_block *law, isize d, const double *mean, const double *spread,
                                double *out)
{
    seen_units u = seen_of(law);
    moments_of_value value;
    function_of_value f;
    double q = seen_value(&u, law, mean, spread, &value), rest = u.at_random ? 0.0 : log1p(-q);
    if (law->kind == SEEN_COUNT)
        f = count_coefficients((count_units){u.value[0], u.value[1]}, value.mean);
    else {
        double m = value.mean, v = at_least(value.variance, 1e-300);
        f = (function_of_value){m / v, -0.5 / v, -0.5 * (m * m / v + log(6.283185307179586 * v)) - log(u.value[0])};
    }
    double at_missing = f.linear * u.u0 + f.square * (u.u0 * u.u0);
    double by_seen = f.constant + (u.at_random ? 0.0 : log(q) - rest) + at_missing;
    out[law->features[0]] = f.linear, out[d + law->features[0]] = f.square;
    out[law->features[1]] = by_seen / (u.s1 - u.s0), out[d + law->features[1]] = 0.0;
    return -at_missing - by_seen * u.s0 / (u.s1 - u.s0) + rest;
}

static void seen_m_step(const batch *b, const law_block *law, double n, const double *sums, double *mean,
                        double *spread)
{
    seen_units u = seen_of(law);
    isize first = law->features[0], second = law->features[1];
    double n_seen = between((sums[second] - n * u.s0) / (u.s1 - u.s0), 0.0, n), unit = sqrt(u.variance);
    double sum = sums[first] - (n - n_seen) * u.u0;
    moments_of_value value;
    if (law->kind == SEEN_COUNT)
        value = count_m_step(standard_count(&u), n_seen, (sum - n_seen * u.mean) / unit);
    else {
        double squares = sums[b->d + first] - (n - n_seen) * (u.u0 * u.u0);
        squares += n_seen * (u.mean * u.mean) - 2.0 * u.mean * sum;
        double divisor = at_least(n_seen, FEWEST_SEEN), m = (sum - n_seen * u.mean) / unit / divisor;
        squares = squares / (unit * unit) - divisor * (m * m);
        value = (moments_of_value){m, most_probable(b, divisor, squares, u.value[1], 1)};
    }
    double m = value.mean * unit + u.mean, q = (n_seen + PSEUDO_ROWS * u.q) / (n + PSEUDO_ROWS);
    q = u.at_random ? u.q : between(q, LEAST_PROBABILITY, 1.0 - LEAST_PROBABILITY);
    mean[first] = (1.0 - q) * u.u0 + q * m;
    spread[first] = q * (value.variance * (unit * unit)) + q * (1.0 - q) * ((m - u.u0) * (m - u.u0));
    mean[second] = u.s0 + q * (u.s1 - u.s0);
    spread[second] = q * (1.0 - q) * ((u.s1 - u.s0) * (u.s1 - u.s0));
}

static double seen_log_prior(const batch *b, const law_block *law, const double *mean, const double *spread)
{
    seen_units u = seen_of(law);
    moments_of_value value;
    double q = seen_value(&u, law, mean, spread, &value);
    double own = PSEUDO_ROWS * (u.q * log(q) + (1.0 - u.q) * log1p(-q));
    if (law->kind == SEEN_COUNT)
        return own + count_log_prior(standard_count(&u), (value.mean - u.mean) / sqrt(u.variance));
    return own + log_prior_of(b, at_least(value.variance, 1e-300) / u.variance, 1);
}

/* -- any of them --------------------------------------------------------------------------------- */

static double law_coefficients(const batch *b, const law_block *law, const double *mean, const double *spread,
                               double *space, double *out)
{
    if (law->kind == FINITE)
        return finite_coefficients(law, b->d, mean, space, out);
    if (law->kind != COUNT)
        return seen_coefficients(law, b->d, mean, spread, out);
    function_of_value f = count_coefficients(units_of_count(law), mean[law->features[0]]);
    out[law->features[0]] = f.linear, out[b->d + law->features[0]] = 0.0;
    return f.constant;
}

static void law_m_step(const batch *b, const law_block *law, double n, const double *sums, double *space,
                       double *mean, double *spread)
{
    if (law->kind == FINITE)
        finite_m_step(law, n, sums, space, mean, spread);
    else if (law->kind != COUNT)
        seen_m_step(b, law, n, sums, mean, spread);
    else {
        moments_of_value value = count_m_step(units_of_count(law), n, sums[law->features[0]]);
        mean[law->features[0]] = value.mean, spread[law->features[0]] = value.variance;
    }
}

static double law_log_prior(const batch *b, const law_block *law, const double *mean, const double *spread,
                            double *space)
{
    if (law->kind == FINITE)
        return finite_log_prior(law, mean, space);
    if (law->kind == COUNT)
        return count_log_prior(units_of_count(law), mean[law->features[0]]);
    return seen_log_prior(b, law, mean, spread);
}
