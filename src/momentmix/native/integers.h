/* Exact sums: whole numbers of several 64-bit words in two's complement, the lowest word first, all
 * modulo 2^(64·n). What overflows on the way does no harm where the result fits. */

typedef unsigned __int128 wide_word;

#define MOST_WORDS 64
#define LARGEST_DEGREE 6
#define MOST_DIGIT 0x1p62 /* sums of digits stay below 2^53 */
static const uint64_t BINOMIALS[LARGEST_DEGREE + 1][LARGEST_DEGREE + 1] = {
    {1}, {1, 1}, {1, 2, 1}, {1, 3, 3, 1}, {1, 4, 6, 4, 1}, {1, 5, 10, 10, 5, 1}, {1, 6, 15, 20, 15, 6, 1},
};

/* total = factor·x − delta·total, or + where `plus`. */
static void next_term(uint64_t *total, const uint64_t *x, isize n, uint64_t factor, uint64_t delta,
                      int plus)
{
    uint64_t high_x = 0, high_t = 0, carry = 0;
    for (isize k = 0; k < n; k++) {
        wide_word a = (wide_word)x[k] * factor + high_x, b = (wide_word)total[k] * delta + high_t;
        high_x = (uint64_t)(a >> 64), high_t = (uint64_t)(b >> 64);
        if (plus) {
            wide_word c = (wide_word)(uint64_t)a + (uint64_t)b + carry;
            total[k] = (uint64_t)c, carry = (uint64_t)(c >> 64);
        } else {
            wide_word c = (wide_word)(uint64_t)a - (uint64_t)b - carry;
            total[k] = (uint64_t)c, carry = (uint64_t)(c >> 64) & 1;
        }
    }
}

/* x = source·2^bits, with the sign in all further words. */
static void widen(uint64_t *x, isize n, const uint64_t *source, isize n_source, isize bits)
{
    uint64_t sign = source[n_source - 1] >> 63 ? ~(uint64_t)0 : 0;
    isize words = bits / 64, rest = bits % 64;
    for (isize k = n - 1; k >= 0; k--) {
        isize from = k - words;
        uint64_t here = from < 0 ? 0 : from < n_source ? source[from] : sign;
        uint64_t below = from < 1 ? 0 : from - 1 < n_source ? source[from - 1] : sign;
        x[k] = rest ? here << rest | below >> (64 - rest) : here;
    }
}

static void add_to(uint64_t *out, const uint64_t *x, isize n, int negative)
{
    uint64_t carry = negative, flip = negative ? ~(uint64_t)0 : 0;
    for (isize k = 0; k < n; k++) {
        wide_word c = (wide_word)out[k] + (x[k] ^ flip) + carry;
        out[k] = (uint64_t)c, carry = (uint64_t)(c >> 64);
    }
}

/* Move the origin of one feature: lines of (p, rows of z^0 … z^p times the rest), highest p first. */
static int move_feature(uint64_t *sums, isize n_sums, isize n_words, const int64_t *line,
                        const int64_t *end, int64_t delta)
{
    uint64_t total[MOST_WORDS], size = delta < 0 ? -(uint64_t)delta : (uint64_t)delta;
    while (line < end) {
        int64_t p = *line++;
        if (p < 1 || p > LARGEST_DEGREE || end - line <= p)
            return 0;
        for (int64_t i = 0; i <= p; i++)
            if (line[i] < 0 || line[i] >= n_sums)
                return 0;
        memcpy(total, sums + line[0] * n_words, n_words * sizeof *total);
        for (int64_t i = 1; i <= p; i++)
            next_term(total, sums + line[i] * n_words, n_words, BINOMIALS[p][i], size, delta < 0);
        memcpy(sums + line[p] * n_words, total, n_words * sizeof *total);
        line += p + 1;
    }
    return 1;
}

PyDoc_STRVAR(add_moved_sums_doc,
"add_moved_sums(sums, shifts, lines, ends, deltas, negative, space, out)\n--\n\n"
"Add sums in finer units about a moved origin, or take them away: see `summary.exact.exact_sums`.");

static PyObject *add_moved_sums(PyObject *module, PyObject *args)
{
    PyObject *objects[7], *result = NULL;
    int negative, is_valid = 1;
    held h = {.n = 0};
    if (!PyArg_ParseTuple(args, "OOOOOpOO", &objects[0], &objects[1], &objects[2], &objects[3],
                          &objects[4], &negative, &objects[5], &objects[6]))
        return NULL;
    Py_buffer *s, *b, *l, *e, *m, *w, *o;
    if (!(s = hold(&h, objects[0], 0, 0, "sums")) || !(b = hold(&h, objects[1], 0, 1, "shifts"))
        || !(l = hold(&h, objects[2], 0, 0, "lines")) || !(e = hold(&h, objects[3], 0, 1, "ends")))
        goto done;
    isize n_sums = b->len / 8, d = e->len / 8, n_source = s->len / 8 / n_sums, n_lines = l->len / 8;
    if (!(m = hold(&h, objects[4], 0, d, "deltas")) || !(o = hold(&h, objects[6], 1, n_sums, "out")))
        goto done;
    isize n_words = o->len / 8 / n_sums;
    if (!(w = hold(&h, objects[5], WRITE, times(n_sums, n_words), "space")))
        goto done;
    const int64_t *shifts = b->buf, *lines = l->buf, *ends = e->buf, *deltas = m->buf;
    for (isize j = 0; j < d; j++)
        is_valid &= ends[j] >= (j ? ends[j - 1] : 0) && ends[j] <= n_lines;
    for (isize i = 0; i < n_sums; i++)
        is_valid &= shifts[i] >= 0 && shifts[i] < 64 * MOST_WORDS;
    if (!is_valid || n_source < 1 || n_words < n_source || n_words > MOST_WORDS) {
        PyErr_SetString(PyExc_ValueError, "sums, shifts or ends do not fit the sizes");
        goto done;
    }
    Py_BEGIN_ALLOW_THREADS
    uint64_t *space = w->buf;
    for (isize i = 0; i < n_sums; i++)
        widen(space + i * n_words, n_words, (uint64_t *)s->buf + i * n_source, n_source, shifts[i]);
    for (isize j = 0; j < d && is_valid; j++)
        if (deltas[j])
            is_valid = move_feature(space, n_sums, n_words, lines + (j ? ends[j - 1] : 0),
                                    lines + ends[j], deltas[j]);
    for (isize i = 0; i < n_sums && is_valid; i++)
        add_to((uint64_t *)o->buf + i * n_words, space + i * n_words, n_words, negative);
    Py_END_ALLOW_THREADS
    if (is_valid)
        result = Py_NewRef(Py_None);
    else
        PyErr_SetString(PyExc_ValueError, "lines do not fit the sizes");
done:
    release(&h);
    return result;
}

PyDoc_STRVAR(join_digits_doc,
"join_digits(digits, places, out)\n--\n\n"
"Sums of digits of 32 bits as whole numbers: see `summary.exact.digit_sums`.");

static PyObject *join_digits(PyObject *module, PyObject *args)
{
    PyObject *digits, *places, *out, *result = NULL;
    held h = {.n = 0};
    Py_buffer *x, *p, *y;
    if (!PyArg_ParseTuple(args, "OOO", &digits, &places, &out))
        return NULL;
    if (!(x = hold(&h, digits, 0, 0, "digits")) || !(p = hold(&h, places, 0, 1, "places")))
        goto done;
    isize n_digits = p->len / 8, n = x->len / 8 / n_digits, n_words = n_digits / 2 + 1;
    if (!(y = hold(&h, out, WRITE, times(n, n_words), "out")))
        goto done;
    const double *values = x->buf, *factors = p->buf;
    uint64_t *words = y->buf;
    for (isize i = 0; i < n; i++) {
        int64_t carry = 0;
        for (isize k = 0; k < 2 * n_words; k++) {
            double digit = k < n_digits ? values[k * n + i] * factors[k] : 0.0;
            int64_t total = carry + (fabs(digit) < MOST_DIGIT ? (int64_t)digit : 0);
            uint64_t half = (uint64_t)total & 0xffffffffu;
            if (k % 2)
                words[i * n_words + k / 2] |= half << 32;
            else
                words[i * n_words + k / 2] = half;
            carry = total >> 32;
        }
    }
    result = Py_NewRef(Py_None);
done:
    release(&h);
    return result;
}

PyDoc_STRVAR(spread_words_doc,
"spread_words(data, counts, widths, out)\n--\n\n"
"Numbers of some bytes, section by section, as words: see `summary.file`. On little-endian machines.");

static PyObject *spread_words(PyObject *module, PyObject *args)
{
    PyObject *data, *counts, *widths, *out, *result = NULL;
    held h = {.n = 0};
    Py_buffer *x, *c, *w, *y;
    if (!PyArg_ParseTuple(args, "OOOO", &data, &counts, &widths, &out))
        return NULL;
    if (!(x = hold(&h, data, BYTES, 0, "data")) || !(c = hold(&h, counts, 0, 0, "counts"))
        || !(w = hold(&h, widths, 0, c->len / 8, "widths")))
        goto done;
    const int64_t *n = c->buf, *width = w->buf;
    isize n_sections = c->len / 8, n_numbers = 0, n_bytes = 0, widest = 1;
    for (isize s = 0; s < n_sections; s++) {
        if (n[s] < 0 || n[s] > x->len || width[s] < 1 || width[s] > x->len) {
            n_bytes = x->len + 1;
            break;
        }
        n_numbers += n[s], n_bytes = plus(n_bytes, times(n[s], width[s]));
        widest = width[s] > widest ? width[s] : widest;
        if (n_bytes > x->len)
            break;
    }
    isize row = (widest + 7) / 8 * 8;
    if (n_bytes > x->len) {
        PyErr_SetString(PyExc_ValueError, "data is shorter than counts and widths say");
        goto done;
    }
    if (!(y = hold(&h, out, WRITE, times(n_numbers, row / 8), "out")))
        goto done;
    const unsigned char *from = x->buf;
    unsigned char *to = y->buf;
    for (isize s = 0; s < n_sections; s++)
        for (int64_t i = 0; i < n[s]; i++, from += width[s], to += row) {
            memcpy(to, from, width[s]);
            memset(to + width[s], from[width[s] - 1] > 127 ? 255 : 0, row - width[s]);
        }
    result = Py_NewRef(Py_None);
done:
    release(&h);
    return result;
}

PyDoc_STRVAR(word_widths_doc,
"word_widths(words, counts, out)\n--\n\n"
"Bytes that hold all numbers of each section: see `summary.exact.exact_sums`.");

static PyObject *word_widths(PyObject *module, PyObject *args)
{
    PyObject *words, *counts, *out, *result = NULL;
    held h = {.n = 0};
    Py_buffer *x, *c, *y;
    if (!PyArg_ParseTuple(args, "OOO", &words, &counts, &out))
        return NULL;
    if (!(x = hold(&h, words, 0, 0, "words")) || !(c = hold(&h, counts, 0, 0, "counts"))
        || !(y = hold(&h, out, 1, c->len / 8, "out")))
        goto done;
    const int64_t *n = c->buf;
    isize n_sections = c->len / 8, n_numbers = 0, all = x->len / 8;
    for (isize s = 0; s < n_sections && n_numbers <= all; s++)
        n_numbers = n[s] < 0 || n[s] > all ? all + 1 : n_numbers + n[s];
    if (n_numbers < 1 || n_numbers > all || all % n_numbers) {
        PyErr_SetString(PyExc_ValueError, "words do not fit the counts");
        goto done;
    }
    isize n_words = all / n_numbers;
    const uint64_t *number = x->buf;
    for (isize s = 0; s < n_sections; s++) {
        isize bits = 0;
        for (int64_t i = 0; i < n[s]; i++, number += n_words) {
            uint64_t sign = number[n_words - 1] >> 63 ? ~(uint64_t)0 : 0;
            isize k = n_words - 1;
            while (k > 0 && number[k] == sign && 64 * k > bits)
                k--;
            uint64_t top = number[k] ^ sign;
            isize found = 64 * k + (top ? 64 - __builtin_clzll(top) : 0);
            bits = found > bits ? found : bits;
        }
        ((int64_t *)y->buf)[s] = bits / 8 + 1;
    }
    result = Py_NewRef(Py_None);
done:
    release(&h);
    return result;
}

/* x / odd·2^−bits, rounded once, half to even; `space` is of n + 2 words. */
static double quotient(const uint64_t *x, isize n, uint64_t odd, isize bits, uint64_t *space)
{
    uint64_t sign = x[n - 1] >> 63 ? ~(uint64_t)0 : 0, carry = sign & 1, rest = 0;
    space[0] = space[1] = 0; /* below the number: the quotient has 64 bits or more */
    for (isize k = 0; k < n; k++) {
        space[k + 2] = (x[k] ^ sign) + carry;
        carry = carry && !space[k + 2];
    }
    for (isize k = n + 1; k >= 0; k--) {
        wide_word part = (wide_word)rest << 64 | space[k];
        uint64_t below = space[k];
        space[k] = (uint64_t)(part / odd), rest = below - space[k] * odd;
    }
    isize top = n + 1;
    while (top > 1 && !space[top])
        top--;
    if (!space[top])
        return 0.0;
    int shift = __builtin_clzll(space[top]);
    uint64_t high = space[top] << shift, low = space[top - 1];
    if (shift)
        high |= low >> (64 - shift), low <<= shift;
    uint64_t more = low | rest; /* what is below decides between halves only: one bit holds it */
    for (isize k = 0; k < top - 1; k++)
        more |= space[k];
    double found = ldexp((double)(high | (more != 0)), (int)(64 * (top - 2) - shift - bits));
    return sign ? -found : found;
}

PyDoc_STRVAR(quotients_doc,
"quotients(words, odd, bits, out)\n--\n\n"
"Numbers over odd·2^bits, each rounded once: see `summary.exact.exact_sums`.");

static PyObject *quotients(PyObject *module, PyObject *args)
{
    PyObject *words, *out, *result = NULL;
    unsigned long long odd;
    Py_ssize_t bits;
    held h = {.n = 0};
    Py_buffer *x, *y;
    if (!PyArg_ParseTuple(args, "OKnO", &words, &odd, &bits, &out))
        return NULL;
    if (!(x = hold(&h, words, 0, 0, "words")) || !(y = hold(&h, out, WRITE, 0, "out")))
        goto done;
    isize n = y->len / 8, n_words = n ? x->len / 8 / n : 0;
    if (!odd || bits < 0 || bits > 64 * MOST_WORDS || n_words < 1 || n_words * n != x->len / 8) {
        PyErr_SetString(PyExc_ValueError, "words do not fit the quotients");
        goto done;
    }
    uint64_t *space = malloc((n_words + 2) * sizeof *space);
    if (!space) {
        PyErr_NoMemory();
        goto done;
    }
    Py_BEGIN_ALLOW_THREADS
    for (isize i = 0; i < n; i++)
        ((double *)y->buf)[i] = quotient((uint64_t *)x->buf + i * n_words, n_words, odd, bits, space);
    Py_END_ALLOW_THREADS
    free(space);
    result = Py_NewRef(Py_None);
done:
    release(&h);
    return result;
}
