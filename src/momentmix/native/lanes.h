/* Eight numbers side by side, whatever the width of the processor's vectors.
 *
 * Included once for each instruction set, inside a region that is compiled for it, with one of
 * MM_AVX512, MM_AVX2, MM_NEON defined. All sets do the same operations on each number in the same
 * order, with the same roundings, so that results have the same bits on every processor.
 */
#if defined(MM_AVX512)
#define VECTORS 1
#define TILE_ROWS 4
#define TILE_COLUMNS 6
typedef __m512d NAME(vector);
#define LOAD(p) _mm512_loadu_pd(p)
#define ZERO _mm512_setzero_pd()
#define FMA(a, b, c) _mm512_fmadd_pd(a, b, c)
#elif defined(MM_AVX2)
#define VECTORS 2
#define TILE_ROWS 2
#define TILE_COLUMNS 3
typedef __m256d NAME(vector);
#define LOAD(p) _mm256_loadu_pd(p)
#define ZERO _mm256_setzero_pd()
#define FMA(a, b, c) _mm256_fmadd_pd(a, b, c)
#elif defined(MM_NEON)
#define VECTORS 4
#define TILE_ROWS 2
#define TILE_COLUMNS 3
typedef float64x2_t NAME(vector);
#define LOAD(p) vld1q_f64(p)
#define ZERO vdupq_n_f64(0.0)
#define FMA(a, b, c) vfmaq_f64(c, a, b)
#endif
/* Keep x in a register: compilers read it again for each product otherwise. */
#if defined(MM_NEON)
#define HELD(x) __asm__("" : "+w"(x))
#else
#define HELD(x) __asm__("" : "+v"(x))
#endif
#define V NAME(vector)
#define WIDTH (LANES / VECTORS)

#if defined(MM_AVX512)
/* Sums of neighbors, of a and b in turns: pairs 0 … 3 of a and b. */
INLINE V NAME(pairs)(V a, V b) { return _mm512_add_pd(_mm512_unpacklo_pd(a, b), _mm512_unpackhi_pd(a, b)); }

/* Sums of neighboring quarters of a and of b. */
INLINE V NAME(quarters)(V a, V b)
{
    return _mm512_add_pd(_mm512_shuffle_f64x2(a, b, 0x88), _mm512_shuffle_f64x2(a, b, 0xdd));
}
#endif

/* Add to out[i], i < n, the sum of the eight numbers in x[i], which is (p0 + p1) + (p2 + p3), where
 * p_i = lane 2i + lane 2i + 1. */
INLINE void NAME(add_totals)(const int n, V x[][VECTORS], double *out)
{
#if defined(MM_AVX512)
    for (int i = 0; i < n; i += LANES) {
#define X(k) (i + k < n ? x[i + k < n ? i + k : 0][0] : ZERO)
        V abcd = NAME(quarters)(NAME(pairs)(X(0), X(1)), NAME(pairs)(X(2), X(3)));
        V efgh = NAME(quarters)(NAME(pairs)(X(4), X(5)), NAME(pairs)(X(6), X(7)));
#undef X
        V totals = NAME(quarters)(abcd, efgh);
        const __mmask8 mask = n - i < LANES ? (1 << (n - i)) - 1 : 0xff;
        _mm512_mask_storeu_pd(out + i, mask,
                              _mm512_add_pd(totals, _mm512_maskz_loadu_pd(mask, out + i)));
    }
#else
    for (int i = 0; i < n; i++) {
#if defined(MM_AVX2)
        __m256d pairs = _mm256_hadd_pd(x[i][0], x[i][1]); /* p0, p2, p1, p3 */
        __m128d s = _mm_add_pd(_mm256_castpd256_pd128(pairs), _mm256_extractf128_pd(pairs, 1));
        out[i] += _mm_cvtsd_f64(_mm_add_sd(s, _mm_unpackhi_pd(s, s)));
#else
        V s = vpaddq_f64(vpaddq_f64(x[i][0], x[i][1]), vpaddq_f64(x[i][2], x[i][3]));
        out[i] += vgetq_lane_f64(s, 0) + vgetq_lane_f64(s, 1);
#endif
    }
#endif
}
