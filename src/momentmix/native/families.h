/* Features of columns that are not plain numbers: maps of their families (families/ in Python).
 *
 * A column's value y is known in its own units; z = (x − shift) / scale are the features, where
 * x = (y s, s), and s is 0 where a cell is missing. `law_coefficients` puts the factors of z and z² in
 * their places of `out`, and returns the constant.
 */
#define LEAST_PROBABILITY 1e-9 /* see families/family.py, as all that follows */
#define PSEUDO_ROWS 1.0
#define LEAST_RATE 1e-6      /* see families/counts.py */
#define FEWEST_OBSERVED 1e-6 /* see families/gaussian.py */
#define LEAST_SIZE 1e-3      /* see families/dispersed_counts.py, as what follows */
#define LEAST_EXCESS 1e-4
#define SIZE_STEPS 40
#define SIZE_CLOSE 1e-6

/* The numbers of a block: shift and scale of each feature; over all rows, the share of observed cells,
 * the variance of y, the least one beside it, and the means of y (width); points y_j beyond the head,
 * below which each count has a statistic of its own; and means of the statistics t over all rows. */
static double shift_of(const block *p, isize j) { return p->numbers[j]; }
static double scale_of(const block *p, isize j) { return p->numbers[p->width + j]; }
static double overall_share(const block *p) { return p->numbers[2 * p->width]; }
static double overall_variance(const block *p) { return p->numbers[2 * p->width + 1]; }
static double least_variance(const block *p) { return p->numbers[2 * p->width + 2]; }
static const double *overall_means(const block *p) { return p->numbers + 2 * p->width + 3; }
static const double *nodes_of(const block *p) { return p->numbers + 3 * p->width + 3; }
static const double *overall_own(const block *p) { return nodes_of(p) + p->n_nodes; }

static double at_least(double x, double least) { return x > least ? x : least; }

static double between(double x, double low, double high) { return x < low ? low : x > high ? high : x; }

/* Means of y into `mean`, and the variance of a number; the probability q of being observed. */
static double value_of(const block *p, const double *means, const double *spread, double *mean,
                       double *variance)
{
    double q = 1.0;
    for (isize j = 0; j < p->width; j++) {
        isize f = p->features[j];
        double x = shift_of(p, j) + scale_of(p, j) * means[f];
        if (j < p->k)
            mean[j] = x;
        else
            q = between(x, LEAST_PROBABILITY, 1.0 - LEAST_PROBABILITY);
    }
    double first = p->k ? mean[0] : 0.0;
    for (isize j = 0; j < p->k; j++)
        mean[j] /= q;
    *variance = scale_of(p, 0) * scale_of(p, 0) * spread[p->features[0]];
    if (p->has_missing && p->k)
        *variance = (*variance + first * first) / q - mean[0] * mean[0];
    return q;
}

/* Features from q, means of y and the variance of a number or count. */
static void features_of(const block *p, double q, const double *y, double variance, double *means,
                        double *spread)
{
    for (isize j = 0; j < p->width; j++) {
        double x = q, v = q * (1.0 - q);
        if (j < p->k) {
            x = q * y[j];
            v = q * (p->kind == LEVELS ? y[j] * (1.0 - y[j]) : variance) + v * y[j] * y[j];
        }
        means[p->features[j]] = (x - shift_of(p, j)) / scale_of(p, j);
        spread[p->features[j]] = v / (scale_of(p, j) * scale_of(p, j));
    }
}

/* The probability of the first level, from those of the others. */
static double first_level(const block *p, const double *y)
{
    double rest = 1.0;
    for (isize j = 0; j < p->k; j++)
        rest -= y[j];
    return at_least(rest, LEAST_PROBABILITY);
}

/* -- counts with a size of their own --------------------------------------------------------------- */

static double size_of(double rate, double variance)
{
    return between(rate / at_least(variance / rate - 1.0, LEAST_EXCESS), LEAST_SIZE, rate / LEAST_EXCESS);
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
static double sum_of_logs(const block *p, double s, isize j)
{
    isize n_cells = p->n_own - p->n_nodes;
    if (j < n_cells)
        return log1p((j + 1.0) / s);
    double node = nodes_of(p)[j - n_cells], gap = node - p->head, low = s + p->head, high = s + node;
    double change = stirling(1.0 / high) - stirling(1.0 / low);
    return ((high - 0.5) * log1p(gap / low) + change) / gap - 1.0 + log1p(p->head / s);
}

/* The first two derivatives of Σ_j t_j c_j(s) by log s. */
static void slopes_of_logs(const block *p, double s, const double *t, double *first, double *second)
{
    isize n_cells = p->n_own - p->n_nodes;
    double low = s + p->head, digamma = stirling_first(1.0 / low), trigamma = stirling_second(1.0 / low);
    *first = *second = 0.0;
    for (isize j = 0; j < n_cells; j++) {
        double cell = (j + 1.0) / (s + j + 1.0);
        *first -= t[j] * cell, *second += t[j] * cell * s / (s + j + 1.0);
    }
    for (isize m = 0; m < p->n_nodes; m++) {
        double gap = nodes_of(p)[m] - p->head, high = 1.0 / (s + nodes_of(p)[m]), own = t[n_cells + m];
        double slope = s * (log1p(gap / low) + stirling_first(high) - digamma) / gap;
        *first += own * (slope - 1.0);
        *second += own * (slope + s * s * (stirling_second(high) - trigamma) / gap);
    }
}

/* The size of the largest likelihood of n rows with a mean and sums t: Newton's steps for log s. */
static double best_size(const block *p, double n, double rate, const double *t, double start)
{
    double least = log(LEAST_SIZE), most = log(rate / LEAST_EXCESS), x = log(start), low = least, high = most;
    for (int step = 0; step < SIZE_STEPS; step++) {
        double s = exp(x), logs = s * log1p(rate / s), slope, curvature, moved;
        slopes_of_logs(p, s, t, &slope, &curvature);
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

/* -- all families ------------------------------------------------------------------------------------ */

static double law_coefficients(const batch *b, const block *p, const double *means, const double *spread,
                               double *y, double *out)
{
    double variance, constant = 0.0, square = 0.0, rest = 0.0, q = value_of(p, means, spread, y, &variance);
    if (p->kind == LEVELS) {
        constant = log(first_level(p, y));
        for (isize j = 0; j < p->k; j++)
            y[j] = log(at_least(y[j], LEAST_PROBABILITY)) - constant;
    } else if (p->kind == COUNT) {
        double rate = at_least(y[0], LEAST_RATE);
        y[0] = log(rate), constant = -rate;
    } else if (p->kind == SIZED_COUNT) {
        double rate = at_least(y[0], LEAST_RATE), s = size_of(rate, variance), ratio = log1p(rate / s);
        y[0] = log(rate) - ratio, constant = -s * ratio;
        for (isize j = 0; j < p->n_own; j++)
            out[first_own(b) + p->own + j] = sum_of_logs(p, s, j);
    } else {
        double v = at_least(variance, 1e-12 * y[0] * y[0] + 1e-300);
        constant = -0.5 * (y[0] * y[0] / v + log(6.283185307179586 * v));
        y[0] /= v, square = -0.5 / v;
    }
    if (p->has_missing) {
        rest = p->at_random ? 0.0 : log1p(-q);
        y[p->k] = constant + (p->at_random ? 0.0 : log(q) - rest);
        constant = rest;
    }
    for (isize j = 0; j < p->width; j++) {
        double own = j ? 0.0 : square, shift = shift_of(p, j), scale = scale_of(p, j);
        out[p->features[j]] = scale * (y[j] + 2.0 * shift * own);
        if (b->squares[p->features[j]] >= 0)
            out[b->squares[p->features[j]]] = scale * scale * own;
        constant += shift * (y[j] + shift * own);
    }
    return constant;
}

/* Sums of y² of value features over n rows, from those of z and z². */
static double sum_of_squares(const batch *b, const block *p, double n, const double *sums)
{
    double shift = shift_of(p, 0), scale = scale_of(p, 0);
    return shift * shift * n + 2.0 * shift * scale * sums[p->features[0]]
           + scale * scale * sums[b->squares[p->features[0]]];
}

static void law_m_step(const batch *b, const block *p, double n, const double *sums, double *y,
                       double *means, double *spread)
{
    double observed = n, variance = 0.0, q = 1.0;
    for (isize j = 0; j < p->width; j++)
        y[j] = shift_of(p, j) * n + scale_of(p, j) * sums[p->features[j]];
    if (p->has_missing) {
        observed = between(y[p->k], 0.0, n);
        q = between((observed + PSEUDO_ROWS * overall_share(p)) / (n + PSEUDO_ROWS), LEAST_PROBABILITY, 1.0 - LEAST_PROBABILITY);
        q = p->at_random ? overall_share(p) : q;
    }
    if (p->kind == LEVELS) {
        double first = observed + PSEUDO_ROWS, total;
        for (isize j = 0; j < p->k; j++) {
            first -= y[j] + PSEUDO_ROWS * overall_means(p)[j];
            y[j] = at_least(y[j] + PSEUDO_ROWS * overall_means(p)[j], LEAST_PROBABILITY);
        }
        total = at_least(first, LEAST_PROBABILITY);
        for (isize j = 0; j < p->k; j++)
            total += y[j];
        for (isize j = 0; j < p->k; j++)
            y[j] /= total;
    } else if (p->kind == COUNT)
        variance = y[0] = at_least((y[0] + PSEUDO_ROWS * overall_means(p)[0]) / (observed + PSEUDO_ROWS), LEAST_RATE);
    else if (p->kind == SIZED_COUNT) {
        double rows = observed + PSEUDO_ROWS, whole = overall_variance(p) + overall_means(p)[0] * overall_means(p)[0];
        double mean = (y[0] + PSEUDO_ROWS * overall_means(p)[0]) / rows, rate = at_least(mean, LEAST_RATE), s;
        double squares = (sum_of_squares(b, p, n, sums) + PSEUDO_ROWS * whole) / rows, *t = y + p->width;
        for (isize j = 0; j < p->n_own; j++)
            t[j] = sums[first_own(b) + p->own + j] + PSEUDO_ROWS * overall_own(p)[j];
        s = best_size(p, rows, rate, t, size_of(rate, squares - mean * mean));
        y[0] = rate, variance = rate * (1.0 + rate / s);
    } else {
        double center = overall_means(p)[0], squares = sum_of_squares(b, p, n, sums);
        double rows = at_least(observed, FEWEST_OBSERVED), away = (y[0] - rows * center) / rows;
        squares += rows * (center * center - away * away) - 2.0 * center * y[0];
        variance = most_probable(b, rows, squares / overall_variance(p), least_variance(p), 1) * overall_variance(p);
        y[0] = center + away;
    }
    features_of(p, q, y, variance, means, spread);
}

static double law_log_prior(const batch *b, const block *p, const double *means, const double *spread,
                            double *y)
{
    double variance, sum = 0.0, q = value_of(p, means, spread, y, &variance);
    if (p->has_missing)
        sum = PSEUDO_ROWS * (overall_share(p) * log(q) + (1.0 - overall_share(p)) * log1p(-q));
    if (p->kind == LEVELS) {
        double first = 1.0;
        for (isize j = 0; j < p->k; j++) {
            sum += PSEUDO_ROWS * overall_means(p)[j] * log(at_least(y[j], LEAST_PROBABILITY));
            first -= overall_means(p)[j];
        }
        return sum + PSEUDO_ROWS * first * log(first_level(p, y));
    }
    if (p->kind == COUNT) {
        double rate = at_least(y[0], LEAST_RATE);
        return sum + PSEUDO_ROWS * (overall_means(p)[0] * log(rate) - rate);
    }
    if (p->kind == SIZED_COUNT) {
        double rate = at_least(y[0], LEAST_RATE), s = size_of(rate, variance), ratio = log1p(rate / s);
        sum += PSEUDO_ROWS * (overall_means(p)[0] * (log(rate) - ratio) - s * ratio);
        for (isize j = 0; j < p->n_own; j++)
            sum += PSEUDO_ROWS * overall_own(p)[j] * sum_of_logs(p, s, j);
        return sum;
    }
    return sum + log_prior_of(b, at_least(variance, 1e-300) / overall_variance(p), 1);
}
