/* Blocks of features that are not Gaussian: the maps of families, one function each for a kind.
 *
 * A law's log-density is a linear function of (z, z², t, 1): `law_coefficients` puts the factors of z,
 * z² and t in their places of `out`, and returns the constant. Numbers of a law, in this order:
 * finite: whether the first outcome is a cell missing at random, points (k + 1, k),
 * inverse (k + 1, k + 1), overall probabilities (k + 1);
 * count: shift, scale; of one with a size, too, the head, the number of nodes, the nodes in MOST_NODES
 * places, and the means of t over all rows in MOST_OWN; seen: u_0, s_0, s_1, whether cells are missing
 * at random, overall q, mean and variance of the value, then the unit and the least variance of a
 * number, or the numbers of a count, whose means of t are those of the seen ones.
 */
enum { FINITE, COUNT, SEEN_NUMBER, SEEN_COUNT, SIZED, NO_LAW, SEEN_SIZED, N_LAWS };
#define MOST_NODES 48 /* see families/negative_binomial.py, as all that follows */
#define MOST_OWN 64
#define LEAST_SIZE 1e-3
#define LEAST_EXCESS 1e-4
#define SIZE_STEPS 40
#define SIZE_CLOSE 1e-9
#define LEAST_PROBABILITY 1e-9 /* see families/finite.py */
#define LEAST_MEAN 1e-6        /* see families/count.py */
#define FEWEST_SEEN 1e-6
#define PSEUDO_ROWS 1.0        /* see families/law.py */

struct law_block {
    isize kind, width, own, n_own; /* where statistics t begin among all of them, and their number */
    const int64_t *features;
    const double *numbers;
};

static isize n_law_numbers(isize kind, isize k)
{
    if (kind == FINITE)
        return k * (k + 1) + (k + 1) * (k + 1) + k + 2;
    isize value = kind == SIZED || kind == SEEN_SIZED ? 4 + MOST_NODES + MOST_OWN : 2;
    return kind == COUNT || kind == SIZED ? value : 7 + value;
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

/* -- a count with a size of its own ---------------------------------------------------------------- */

typedef struct {
    count_units units;
    isize head, n_nodes;
    const double *nodes, *overall;
} sized_count;

static sized_count sized_of(const double *x)
{
    return (sized_count){{x[0], x[1]}, (isize)x[2], (isize)x[3], x + 4, x + 4 + MOST_NODES};
}

/* Number of statistics t, from the numbers of the value; −1 where they do not fit. */
static isize n_own_of(const double *x)
{
    int valid = x[2] >= 1.0 && x[2] <= MOST_OWN && x[3] >= 1.0 && x[3] <= MOST_NODES && x[2] + x[3] - 1.0 <= MOST_OWN;
    return valid ? (isize)x[2] + (isize)x[3] - 1 : -1;
}

static double size_of(double rate, double variance)
{
    double excess = variance / rate - 1.0;
    return between(rate / at_least(excess, LEAST_EXCESS), LEAST_SIZE, rate / LEAST_EXCESS);
}

/* Of log Γ(1/x) beside (1/x − 1/2) log(1/x) − 1/x; its derivatives less log(1/x). */
static double stirling(double x)
{
    double q = x * x;
    return x * (1.0 / 12 - q * (1.0 / 360 - q * (1.0 / 1260 - q / 1680)));
}

static double stirling_first(double x)
{
    double q = x * x;
    return -x * (0.5 + x * (1.0 / 12 - q * (1.0 / 120 - q * (1.0 / 252 - q / 240))));
}

static double stirling_second(double x)
{
    double q = x * x;
    return x * (1.0 + x * (0.5 + x * (1.0 / 6 - q * (1.0 / 30 - q * (1.0 / 42 - q / 30)))));
}

/* c(s) of statistic j, such that Σ_{k<y} log(1 + k/s) = c(s)·t(y). */
static double sum_of_logs(const sized_count *c, double s, isize j)
{
    if (j < c->head - (c->n_nodes > 1))
        return log1p((j + 1.0) / s);
    double node = c->nodes[j - c->head + 1], gap = node - c->head, low = s + c->head, high = s + node;
    double change = stirling(1.0 / high) - stirling(1.0 / low);
    return ((high - 0.5) * log1p(gap / low) + change) / gap - 1.0 + log1p(c->head / s);
}

/* The first two derivatives of Σ_j t_j c_j(s) by log s. */
static void slopes_of_logs(const sized_count *c, double s, const double *t, double *first, double *second)
{
    isize n_cells = c->head - (c->n_nodes > 1);
    double cell, low = s + c->head, digamma = stirling_first(1.0 / low), trigamma = stirling_second(1.0 / low);
    *first = *second = 0.0;
    for (isize j = 0; j < n_cells; j++) {
        cell = (j + 1.0) / (s + j + 1.0);
        *first -= t[j] * cell, *second += t[j] * cell * s / (s + j + 1.0);
    }
    for (isize m = 0; c->n_nodes > 1 && m < c->n_nodes; m++) {
        double gap = c->nodes[m] - c->head, high = 1.0 / (s + c->nodes[m]), own = t[n_cells + m];
        double slope = s * (log1p(gap / low) + stirling_first(high) - digamma) / gap;
        *first += own * (slope - 1.0);
        *second += own * (slope + s * s * (stirling_second(high) - trigamma) / gap);
    }
}

/* The size of the largest likelihood of n rows with a mean and sums t: Newton's steps for log s. */
static double best_size(const sized_count *c, double n, double rate, const double *t, double start)
{
    double least = log(LEAST_SIZE), most = log(rate / LEAST_EXCESS), x = log(start), low = least, high = most;
    for (int step = 0; step < SIZE_STEPS; step++) {
        double s = exp(x), logs = s * log1p(rate / s), slope, curvature, moved;
        slopes_of_logs(c, s, t, &slope, &curvature);
        slope += n * (rate - logs), curvature -= n * (logs - rate * s / (s + rate));
        if (slope > 0.0)
            low = x;
        else
            high = x;
        moved = curvature < 0.0 ? x - slope / curvature : 0.5 * (low + high);
        /* An end that is not tried yet is; else the middle of the interval. */
        if (moved <= low)
            moved = low == least ? low : 0.5 * (low + high);
        else if (moved >= high)
            moved = high == most ? high : 0.5 * (low + high);
        if (!(fabs(moved - x) > SIZE_CLOSE))
            return exp(moved);
        x = moved;
    }
    return exp(x);
}

static function_of_value sized_coefficients(const sized_count *c, moments_of_value value, isize n_own, double *own)
{
    count_units u = c->units;
    double rate = rate_of(u, value.mean), s = size_of(rate, u.scale * u.scale * value.variance);
    double ratio = log1p(rate / s), by_count = log(rate) - ratio;
    for (isize j = 0; j < n_own; j++)
        own[j] = sum_of_logs(c, s, j);
    return (function_of_value){u.scale * by_count, 0.0, u.shift * by_count - s * ratio};
}

/* `u` are the units of values with mean 0 and variance 1 over all rows, which the sums are of. */
static moments_of_value sized_m_step(const sized_count *c, count_units u, double n, double sum, double squares,
                                     isize n_own, const double *own, double *space)
{
    n += PSEUDO_ROWS;
    double mean = sum / n, rate = rate_of(u, mean), unit = u.scale * u.scale;
    double s = size_of(rate, unit * ((squares + PSEUDO_ROWS) / n - mean * mean));
    for (isize j = 0; j < n_own; j++)
        space[j] = own[j] + PSEUDO_ROWS * c->overall[j];
    s = best_size(c, n, rate, space, s);
    return (moments_of_value){(rate - u.shift) / u.scale, rate * (1.0 + rate / s) / unit};
}

/* `shift` is the mean of all rows. */
static double sized_log_prior(const sized_count *c, double shift, moments_of_value value, isize n_own)
{
    count_units u = c->units;
    double rate = rate_of(u, value.mean), s = size_of(rate, u.scale * u.scale * value.variance);
    double ratio = log1p(rate / s), sum = shift * (log(rate) - ratio) - s * ratio;
    for (isize j = 0; j < n_own; j++)
        sum += c->overall[j] * sum_of_logs(c, s, j);
    return PSEUDO_ROWS * sum;
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

static double seen_coefficients(const batch *b, const law_block *law, const double *mean, const double *spread,
                                double *out)
{
    isize d = b->d;
    seen_units u = seen_of(law);
    moments_of_value value;
    function_of_value f;
    double q = seen_value(&u, law, mean, spread, &value), rest = u.at_random ? 0.0 : log1p(-q);
    if (law->kind == SEEN_COUNT)
        f = count_coefficients((count_units){u.value[0], u.value[1]}, value.mean);
    else if (law->kind == SEEN_SIZED) {
        sized_count c = sized_of(u.value);
        f = sized_coefficients(&c, value, law->n_own, out + first_own(b) + law->own);
    } else {
        double m = value.mean, v = at_least(value.variance, 1e-300);
        f = (function_of_value){m / v, -0.5 / v, -0.5 * (m * m / v + log(6.283185307179586 * v)) - log(u.value[0])};
    }
    double at_missing = f.linear * u.u0 + f.square * (u.u0 * u.u0);
    double by_seen = f.constant + (u.at_random ? 0.0 : log(q) - rest) + at_missing;
    out[law->features[0]] = f.linear, out[d + law->features[0]] = f.square;
    out[law->features[1]] = by_seen / (u.s1 - u.s0), out[d + law->features[1]] = 0.0;
    return -at_missing - by_seen * u.s0 / (u.s1 - u.s0) + rest;
}

static void seen_m_step(const batch *b, const law_block *law, double n, const double *sums, double *space,
                        double *mean, double *spread)
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
        squares = (squares + n_seen * (u.mean * u.mean) - 2.0 * u.mean * sum) / (unit * unit);
        sum = (sum - n_seen * u.mean) / unit;
        if (law->kind == SEEN_SIZED) {
            sized_count c = sized_of(u.value);
            value = sized_m_step(&c, standard_count(&u), n_seen, sum, squares, law->n_own,
                                 sums + first_own(b) + law->own, space);
        } else {
            double divisor = at_least(n_seen, FEWEST_SEEN), m = sum / divisor;
            value = (moments_of_value){m, most_probable(b, divisor, squares - divisor * (m * m), u.value[1], 1)};
        }
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
    if (law->kind == SEEN_SIZED) {
        sized_count c = sized_of(u.value);
        return own + sized_log_prior(&c, standard_count(&u).shift, value, law->n_own);
    }
    return own + log_prior_of(b, at_least(value.variance, 1e-300) / u.variance, 1);
}

/* -- any of them --------------------------------------------------------------------------------- */

static double law_coefficients(const batch *b, const law_block *law, const double *mean, const double *spread,
                               double *space, double *out)
{
    if (law->kind == FINITE)
        return finite_coefficients(law, b->d, mean, space, out);
    if (law->kind != COUNT && law->kind != SIZED)
        return seen_coefficients(b, law, mean, spread, out);
    moments_of_value value = {mean[law->features[0]], spread[law->features[0]]};
    sized_count c = law->kind == SIZED ? sized_of(law->numbers) : (sized_count){.head = 0};
    function_of_value f = law->kind == COUNT ? count_coefficients(units_of_count(law), value.mean)
                          : sized_coefficients(&c, value, law->n_own, out + first_own(b) + law->own);
    out[law->features[0]] = f.linear, out[b->d + law->features[0]] = 0.0;
    return f.constant;
}

static void law_m_step(const batch *b, const law_block *law, double n, const double *sums, double *space,
                       double *mean, double *spread)
{
    if (law->kind == FINITE)
        finite_m_step(law, n, sums, space, mean, spread);
    else if (law->kind != COUNT && law->kind != SIZED)
        seen_m_step(b, law, n, sums, space, mean, spread);
    else {
        isize j = law->features[0];
        sized_count c = law->kind == SIZED ? sized_of(law->numbers) : (sized_count){.head = 0};
        moments_of_value value = law->kind == COUNT ? count_m_step(units_of_count(law), n, sums[j])
                                 : sized_m_step(&c, c.units, n, sums[j], sums[b->d + j], law->n_own,
                                                sums + first_own(b) + law->own, space);
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
    if (law->kind == SIZED) {
        sized_count c = sized_of(law->numbers);
        moments_of_value value = {mean[law->features[0]], spread[law->features[0]]};
        return sized_log_prior(&c, c.units.shift, value, law->n_own);
    }
    return seen_log_prior(b, law, mean, spread);
}
