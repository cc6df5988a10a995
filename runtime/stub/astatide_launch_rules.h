/* What a launch decides about numbers, in the common part of C11 and C++: the library and exported stubs use it alike.
 */
#ifndef ASTATIDE_LAUNCH_RULES_H
#define ASTATIDE_LAUNCH_RULES_H

#include <math.h>
#include <stdint.h>

/* The largest extent of a launch: the beginning of the tile after it still fits 32 bits. */
#define ASTATIDE_LARGEST_EXTENT ((INT64_C(1) << 31) - (INT64_C(1) << 16))
/* Of scratch memory and of each tensor in it, in bytes. */
#define ASTATIDE_SCRATCH_ALIGNMENT INT64_C(256)
/* Words of a launch that the blocks of a persistent kernel draw tiles from, a sector of the L2 cache. */
#define ASTATIDE_DEALING_WORDS 8
/* Dynamic shared memory that every kernel may use without asking for it. */
#define ASTATIDE_SHARED_BYTES_WITHOUT_ASKING (48 * 1024)
/* CUDA Driver API, cuTensorMapEncodeTiled. */
#define ASTATIDE_MAP_BYTES 128
#define ASTATIDE_MAP_MOST_DIMENSIONS 5

/* Blocks of a persistent kernel: no more clusters than the device holds at once, at least one. */
static inline int64_t astatide_persistent_blocks(int64_t blocks, int64_t resident, int64_t cluster) {
  const int64_t clusters = resident / cluster < 1 ? 1 : resident / cluster;
  return blocks < clusters * cluster ? blocks : clusters * cluster;
}

/* Gives a tensor of a launch its own place behind *end, which moves on by whole alignments: dense strides, and how many
 * elements it has. An empty one takes no place. 0 where the end leaves 63 bits. */
static inline int astatide_place_tensor(int rank, const int64_t* shape, int64_t element_bytes, int64_t* strides,
                                        int64_t* count, int64_t* end) {
  int64_t step = 1, bytes = 0;
  int empty = 0;
  for (int n = 0; n < rank; ++n) empty = empty || shape[n] == 0;
  for (int n = rank; n-- > 0;) {
    strides[n] = step;
    if (!__builtin_mul_overflow(step, shape[n] == 0 ? 1 : shape[n], &step)) continue;
    /* Of an empty tensor no element is reached. */
    if (!empty) return 0;
    step = 1;
  }
  *count = empty ? 0 : step;
  if (__builtin_mul_overflow(*count, element_bytes, &bytes)) return 0;
  if (__builtin_add_overflow(bytes, ASTATIDE_SCRATCH_ALIGNMENT - 1, &bytes)) return 0;
  return !__builtin_add_overflow(*end, bytes / ASTATIDE_SCRATCH_ALIGNMENT * ASTATIDE_SCRATCH_ALIGNMENT, end);
}

/* Adds to *reach, in bytes, how far a dimension reaches. 0 where that leaves 63 bits. */
static inline int astatide_add_reach(int64_t stride, int64_t element_bytes, int64_t extent, int64_t* reach) {
  int64_t bytes = 0, step = 0;
  /* 2^63 bytes backwards have no positive counterpart. */
  if (stride == INT64_MIN || __builtin_mul_overflow(stride, element_bytes, &bytes)) return 0;
  if (__builtin_mul_overflow(bytes < 0 ? -bytes : bytes, extent - 1, &step)) return 0;
  return !__builtin_add_overflow(*reach, step, reach);
}

/* Whether an axis is mapped onto a shorter or longer one in groups of one size. */
static inline int astatide_groups_are_even(int64_t from, int64_t onto) {
  return from <= 0 || (onto > 0 && (from % onto == 0 || onto % from == 0));
}
/* Of no elements there are no groups. */
static inline int astatide_is_multiple(int64_t value, int64_t of) { return value == 0 || (of > 0 && value % of == 0); }

/* ---- tensors that TMA copies boxes of ---- */

/* Elements of 16 bits. Dimensions innermost first, strides in elements. */
typedef struct astatide_tiled_tensor {
  uint64_t address;
  int bfloat; /* else f16 */
  int rank;   /* 2 to 5 */
  uint64_t extents[ASTATIDE_MAP_MOST_DIMENSIONS];
  int64_t strides[ASTATIDE_MAP_MOST_DIMENSIONS];
  uint32_t box[ASTATIDE_MAP_MOST_DIMENSIONS]; /* the innermost one is 64 elements, 128 bytes */
} astatide_tiled_tensor;

/* The box of one copy of so many rows, of which `run` lie along the faster of two dimensions (0: one dimension). 0
 * where no box has them. */
static inline int astatide_box_of_rows(int64_t rows, int packed, int64_t run, uint32_t* box) {
  box[0] = 64;
  box[1] = (uint32_t)rows;
  if (!packed) return 1;
  if (run < 1 || rows % run != 0) return 0;
  box[1] = (uint32_t)run;
  box[2] = (uint32_t)(rows / run);
  return 1;
}

/* A map has no empty tensors, and a kernel may copy a tile of one, all of whose elements are absent: one zero, and
 * zeros outside. */
static inline int astatide_is_empty(const astatide_tiled_tensor* tensor) {
  for (int n = 0; n < tensor->rank; ++n)
    if (tensor->extents[n] == 0) return 1;
  return 0;
}
static inline void astatide_make_one_zero(astatide_tiled_tensor* tensor, uint64_t address_of_zero) {
  tensor->address = address_of_zero;
  for (int n = 0; n < tensor->rank; ++n) tensor->extents[n] = 1, tensor->strides[n] = 1;
}

/* The rules of TMA. */
typedef enum astatide_map_rule {
  ASTATIDE_MAP_GOOD,
  ASTATIDE_MAP_BASE,      /* the address is no multiple of 16 bytes */
  ASTATIDE_MAP_INNERMOST, /* elements of a row are no neighbours */
  ASTATIDE_MAP_STRIDE     /* a stride is negative or no multiple of 16 bytes */
} astatide_map_rule;

/* Parameters of cuTensorMapEncodeTiled; numbers are those of cuda.h. */
typedef struct astatide_map_encoding {
  int type;
  uint64_t strides[ASTATIDE_MAP_MOST_DIMENSIONS]; /* in bytes, of all dimensions but the innermost */
  uint32_t steps[ASTATIDE_MAP_MOST_DIMENSIONS];
  int interleave, swizzle, promotion, fill;
} astatide_map_encoding;

/* *dimension: the one that breaks ASTATIDE_MAP_STRIDE. */
static inline astatide_map_rule astatide_encode_map(const astatide_tiled_tensor* tensor,
                                                    astatide_map_encoding* encoding, int* dimension) {
  const int64_t alignment = 16, element_bytes = 2;
  *dimension = 0;
  if (tensor->address % (uint64_t)alignment != 0) return ASTATIDE_MAP_BASE;
  if (tensor->strides[0] != 1) return ASTATIDE_MAP_INNERMOST;
  encoding->type = tensor->bfloat ? 9 : 6;
  encoding->interleave = 0;
  encoding->swizzle = 3;   /* 128 bytes */
  encoding->promotion = 2; /* to 128 bytes in L2, a row of a panel; with 256 long keys come 4 to 7 % slower */
  encoding->fill = 0;      /* zeros */
  for (int n = 0; n < tensor->rank; ++n) {
    encoding->steps[n] = 1;
    if (n == 0) continue;
    /* Of one element any multiple will do; none may be 0. */
    const int64_t bytes = tensor->extents[n] > 1 ? tensor->strides[n] * element_bytes : alignment;
    if (bytes % alignment != 0 || bytes < 0) {
      *dimension = n;
      return ASTATIDE_MAP_STRIDE;
    }
    encoding->strides[n - 1] = (uint64_t)bytes;
  }
  return ASTATIDE_MAP_GOOD;
}

/* ---- which values an index has ---- */

/* Doubles: exact for every index that a tensor can have; beyond 2^53 only the verdict matters. Infinite: not known. */
typedef struct astatide_range {
  double least, most;
} astatide_range;

static inline astatide_range astatide_of(double least, double most) {
  astatide_range range;
  range.least = least;
  range.most = most;
  return range;
}
static inline astatide_range astatide_unknown(void) { return astatide_of(-HUGE_VAL, HUGE_VAL); }
static inline int astatide_is_known(astatide_range a) {
  return a.least > -HUGE_VAL && a.least < HUGE_VAL && a.most > -HUGE_VAL && a.most < HUGE_VAL;
}
static inline astatide_range astatide_over_corners(double a, double b, double c, double d) {
  return astatide_of(fmin(fmin(a, b), fmin(c, d)), fmax(fmax(a, b), fmax(c, d)));
}
static inline astatide_range astatide_range_either(astatide_range a, astatide_range b) {
  return astatide_of(fmin(a.least, b.least), fmax(a.most, b.most));
}
/* A bound on one side is enough to clamp the other. */
static inline astatide_range astatide_range_min(astatide_range a, astatide_range b) {
  return astatide_of(fmin(a.least, b.least), fmin(a.most, b.most));
}
static inline astatide_range astatide_range_max(astatide_range a, astatide_range b) {
  return astatide_of(fmax(a.least, b.least), fmax(a.most, b.most));
}
static inline astatide_range astatide_range_mod(astatide_range a, astatide_range b) {
  if (!astatide_is_known(b) || b.least <= 0) return astatide_unknown();
  if (astatide_is_known(a) && a.least == a.most && b.least == b.most) {
    const double rest = a.least - floor(a.least / b.least) * b.least;
    return astatide_of(rest, rest);
  }
  return astatide_of(0, b.most - 1);
}
static inline astatide_range astatide_range_neg(astatide_range a) {
  return astatide_is_known(a) ? astatide_of(-a.most, -a.least) : astatide_unknown();
}
static inline astatide_range astatide_range_abs(astatide_range a) {
  if (!astatide_is_known(a)) return astatide_unknown();
  const double low = fabs(a.least), high = fabs(a.most);
  return astatide_of(a.least <= 0 && a.most >= 0 ? 0 : fmin(low, high), fmax(low, high));
}
static inline astatide_range astatide_range_add(astatide_range a, astatide_range b) {
  if (!astatide_is_known(a) || !astatide_is_known(b)) return astatide_unknown();
  return astatide_of(a.least + b.least, a.most + b.most);
}
static inline astatide_range astatide_range_sub(astatide_range a, astatide_range b) {
  if (!astatide_is_known(a) || !astatide_is_known(b)) return astatide_unknown();
  return astatide_of(a.least - b.most, a.most - b.least);
}
static inline astatide_range astatide_range_mul(astatide_range a, astatide_range b) {
  if (!astatide_is_known(a) || !astatide_is_known(b)) return astatide_unknown();
  return astatide_over_corners(a.least * b.least, a.most * b.most, a.least * b.most, a.most * b.least);
}
static inline astatide_range astatide_range_floor_div(astatide_range a, astatide_range b) {
  if (!astatide_is_known(a) || !astatide_is_known(b) || b.least <= 0) return astatide_unknown();
  return astatide_over_corners(floor(a.least / b.least), floor(a.least / b.most), floor(a.most / b.least),
                               floor(a.most / b.most));
}

#endif
