/* Exact sums: whole numbers of several 64-bit words in two's complement, the lowest word first, all
 * modulo 2^(64·n). What overflows on the way does no harm where the result fits. */

typedef unsigned __int128 wide_word;

#define MOST_WORDS 64
#define LARGEST_DEGREE 6
#define MOST_DIGIT 0x1p62 /* sums of digits stay below 2^53 */
static const uint64_t BINOMIALS[LARGEST_DEGREE + 1][LARGEST_DEGREE + 1] = {
    {1}, {1, 1}, {1, 2, 1}, {1, 3, 3, 1}, {1, 4, 6, 4, 1}, {1, 5, 10, 10, 5, 1}, {1, 6, 15, 20, 15, 6, 1},
};

/* total = factor·x − delta·total, or + where `flip` is 0: a − b = ~(~a + b). */
INLINE void next_term(uint64_t *total, const uint64_t *x, const isize n, uint64_t factor,
                      uint64_t delta, uint64_t flip)
{
    uint64_t high_x = 0, high_t = 0;
    for (isize k = 0; k < n; k++) {
        wide_word a = (wide_word)x[k] * factor + high_x;
        wide_word b = (wide_word)total[k] * delta + ((uint64_t)a ^ flip) + high_t;
        high_x = (uint64_t)(a >> 64), high_t = (uint64_t)(b >> 64);
        total[k] = (uint64_t)b ^ flip;
    }
}

/* x = source·2^bits, with the sign in all further words. */
static void widen(uint64_t *x, isize n, const uint64_t *source, isize n_source, isize bits)
{
    uint64_t sign = source[n_source - 1] >> 63 ? ~(uint64_t)0 : 0, below = 0;
    isize k = 0, words = bits / 64 < n ? bits / 64 : n, rest = bits % 64;
    while (k < words)
        x[k++] = 0;
    for (isize i = 0; i <= n_source && k < n; i++, k++) {
        uint64_t here = i < n_source ? source[i] : sign;
        x[k] = here << rest | below >> 1 >> (63 - rest), below = here;
    }
    while (k < n)
        x[k++] = sign;
}

/* out ± x, with the sign of x in all further words. */
static void add_to(uint64_t *out, isize n_out, const uint64_t *x, isize n, int negative)
{
    uint64_t carry = negative, flip = negative ? ~(uint64_t)0 : 0;
    uint64_t sign = x[n - 1] >> 63 ? ~(uint64_t)0 : 0;
    for (isize k = 0; k < n_out; k++) {
        wide_word c = (wide_word)out[k] + ((k < n ? x[k] : sign) ^ flip) + carry;
        out[k] = (uint64_t)c, carry = (uint64_t)(c >> 64);
    }
}

/* Each line is (p, rows of z^0 … z^p times the rest), highest p first. */
static int lines_are_valid(const int64_t *line, const int64_t *end, isize n_sums)
{
    while (line < end) {
        int64_t p = *line++;
        if (p < 1 || p > LARGEST_DEGREE || end - line <= p)
            return 0;
        for (int64_t i = 0; i <= p; i++)
            if (line[i] < 0 || line[i] >= n_sums)
                return 0;
        line += p + 1;
    }
    return 1;
}

/* Move the origin of one feature. */
INLINE void move_lines(uint64_t *sums, const isize n_words, const int64_t *line, const int64_t *end,
                       uint64_t size, uint64_t flip)
{
    uint64_t total[MOST_WORDS];
    for (int64_t p; line < end; line += p + 1) {
        p = *line++;
        const uint64_t *first = sums + line[0] * n_words;
        uint64_t *last = sums + line[p] * n_words, high = 0;
        if (p == 1) { /* most lines: `next_term` with factor 1 and without a copy */
            for (isize k = 0; k < n_words; k++) {
                wide_word sum = (wide_word)first[k] * size + (last[k] ^ flip) + high;
                last[k] = (uint64_t)sum ^ flip, high = (uint64_t)(sum >> 64);
            }
            continue;
        }
        memcpy(total, first, n_words * sizeof *total);
        for (int64_t i = 1; i <= p; i++)
            next_term(total, sums + line[i] * n_words, n_words, BINOMIALS[p][i], size, flip);
        memcpy(last, total, n_words * sizeof *total);
    }
}

static void move_feature(uint64_t *sums, isize n_words, const int64_t *line, const int64_t *end,
                         int64_t delta)
{
    uint64_t size = delta < 0 ? -(uint64_t)delta : (uint64_t)delta;
    uint64_t flip = delta < 0 ? 0 : ~(uint64_t)0;
    switch (n_words) { /* loops over few words are unrolled */
#define WORDS(n)                                                                                   \
    case n:                                                                                        \
        move_lines(sums, n, line, end, size, flip);                                                \
        break;
        WORDS(2) WORDS(3) WORDS(4) WORDS(5) WORDS(6) WORDS(7) WORDS(8) WORDS(9) WORDS(10)
#undef WORDS
    default:
        move_lines(sums, n_words, line, end, size, flip);
    }
}

PyDoc_STRVAR(add_moved_sums_doc,
"add_moved_sums(n_sums, sums, bits, lines, ends, deltas, words, negative, space, out)\n--\n\n"
"Add a stack of sums in finer units about moved origins, so many words of each, or take them away: "
"see `summary.exact.exact_sums`.");

static PyObject *add_moved_sums(PyObject *module, PyObject *args)
{
    PyObject *objects[8], *result = NULL;
    isize n_sums;
    int negative, is_valid = 1;
    held h = {.n = 0};
    if (!PyArg_ParseTuple(args, "nOOOOOOpOO", &n_sums, &objects[0], &objects[1], &objects[2], &objects[3],
                          &objects[4], &objects[5], &negative, &objects[6], &objects[7]))
        return NULL;
    Py_buffer *s, *b, *l, *e, *m, *c, *w, *o;
    if (!(s = hold(&h, objects[0], 0, 0, "sums")) || !(l = hold(&h, objects[2], 0, 0, "lines"))
        || !(e = hold(&h, objects[3], 0, 1, "ends")) || !(c = hold(&h, objects[5], 0, 1, "words"))
        || !(o = hold(&h, objects[7], WRITE, 1, "out")))
        goto done;
    if (n_sums < 1) {
        PyErr_SetString(PyExc_ValueError, "sizes must be positive");
        goto done;
    }
    isize d = e->len / 8, n = c->len / 8, n_lines = l->len / 8, n_out = o->len / 8 / n_sums;
    isize n_source = s->len / 8 / n_sums / n;
    if (!(b = hold(&h, objects[1], 0, times(n, d), "bits"))
        || !(m = hold(&h, objects[4], 0, times(n, d), "deltas"))
        || !(w = hold(&h, objects[6], WRITE, plus(o->len / 8, n_sums), "space")))
        goto done;
    const int64_t *bits = b->buf, *lines = l->buf, *ends = e->buf, *deltas = m->buf, *words = c->buf;
    for (isize j = 0; j < d; j++)
        is_valid &= ends[j] >= (j ? ends[j - 1] : 0) && ends[j] <= n_lines;
    for (isize j = 0; j < d && is_valid; j++)
        is_valid &= lines_are_valid(lines + (j ? ends[j - 1] : 0), lines + ends[j], n_sums);
    for (isize i = 0; i < n * d; i++)
        is_valid &= bits[i] >= 0 && bits[i] < 64 * MOST_WORDS;
    for (isize i = 0; i < n; i++)
        is_valid &= words[i] >= n_source && words[i] <= n_out;
    if (!is_valid || n_source < 1 || n_out > MOST_WORDS) {
        PyErr_SetString(PyExc_ValueError, "bits, lines, ends or words do not fit the sizes");
        goto done;
    }
    Py_BEGIN_ALLOW_THREADS
    uint64_t *space = w->buf, *out = o->buf;
    const uint64_t *source = s->buf;
    int64_t *shifts = (int64_t *)space + n_sums * n_out;
    for (isize g = 0; g < n; g++, source += n_sums * n_source, bits += d, deltas += d) {
        memset(shifts, 0, n_sums * sizeof *shifts);
        for (isize j = 0; j < d; j++)
            if (bits[j])
                for (const int64_t *line = lines + (j ? ends[j - 1] : 0); line < lines + ends[j];
                     line += *line + 2)
                    shifts[line[*line + 1]] += *line * bits[j];
        for (isize i = 0; i < n_sums; i++)
            widen(space + i * words[g], words[g], source + i * n_source, n_source, shifts[i]);
        for (isize j = 0; j < d; j++)
            if (deltas[j])
                move_feature(space, words[g], lines + (j ? ends[j - 1] : 0), lines + ends[j], deltas[j]);
        for (isize i = 0; i < n_sums; i++)
            add_to(out + i * n_out, n_out, space + i * words[g], words[g], negative);
    }
    Py_END_ALLOW_THREADS
    result = Py_NewRef(Py_None);
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
