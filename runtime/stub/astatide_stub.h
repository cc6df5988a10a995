/* What kernels that `astatide export` wrote need to be launched: C11, libc and libm, and the CUDA driver, which is
 * opened when it is first needed. The same file for every export of one version. */
#ifndef ASTATIDE_STUB_H
#define ASTATIDE_STUB_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of these files; those that export generates want the same one. */
#define ASTATIDE_STUB_VERSION 2

typedef enum astatide_status {
  ASTATIDE_OK = 0,
  ASTATIDE_NO_DRIVER = 1,  /* libcuda.so.1 can't be opened, or is too old for what the kernels need */
  ASTATIDE_NO_CONTEXT = 2, /* no CUDA context is current in this thread */
  ASTATIDE_NO_CODE = 3,    /* of the exported targets none runs on the context's device, or it gives a block too little
                              shared memory */
  ASTATIDE_DRIVER_FAULT = 4,  /* a call of the driver failed: driver_result has its CUresult */
  ASTATIDE_BAD_EXTENT = 5,    /* lengths that the kernels can't have, or that don't go together */
  ASTATIDE_BAD_TENSOR = 6,    /* no memory, memory of another device, a wrong alignment or wrong strides */
  ASTATIDE_BAD_SCALAR = 7,    /* a scalar that no f32 holds */
  ASTATIDE_BAD_WORKSPACE = 8, /* none, too small, misaligned, or memory of another device */
  ASTATIDE_TOO_LARGE = 9,     /* a grid or a size that leaves its limit */
  ASTATIDE_NO_MEMORY = 10,    /* the host has none left */
  ASTATIDE_WRONG_CODE = 11    /* the code is that of other kernels */
} astatide_status;

/* Why a call failed. Calls that succeed leave it as it is; every function takes NULL for it. */
typedef struct astatide_error {
  astatide_status status;
  int driver_result; /* CUresult of ASTATIDE_DRIVER_FAULT, else 0 */
  char text[256];    /* what, the number and the limit, for people */
} astatide_error;

/* Code loaded into one context. Any number of threads may launch from it at once. */
typedef struct astatide_code astatide_code;

/* Unloads the code; its context has to be current, and its launches done. NULL is nothing. */
void astatide_close(astatide_code* code);
/* The target whose code was chosen, such as "sm_90a". */
const char* astatide_chosen_target(const astatide_code* code);

#ifndef __cplusplus
/* ---- for generated files ---- */
#include "astatide_launch_rules.h"

typedef struct astatide_kernel {
  const char* name;
  int threads;          /* of a block */
  int64_t shared_bytes; /* dynamic */
  int cluster;          /* blocks, of which grids are a multiple */
  int persistent;       /* blocks stay, and a counter deals out tiles */
  int asks_resident;    /* a launch depends on how many blocks the device holds at once */
  int dependent;        /* may start before the kernels in front in the stream have ended, and waits for them */
} astatide_kernel;

typedef struct astatide_target {
  const char* name;
  int major, minor;
  int exact; /* runs on no other minor capability */
  const unsigned char* code;
  const astatide_kernel* kernels;
  int kernel_count;
  int needs_maps; /* tensors are copied by TMA */
} astatide_target;

typedef struct astatide_map {
  _Alignas(64) unsigned char bytes[128];
} astatide_map;

int astatide_open(const astatide_target* targets, int count, astatide_code** code, astatide_error* error);
/* The index of the target, or -1 where the code is not of these. */
int astatide_target_index(const astatide_code* code, const astatide_target* targets);
/* Blocks of a kernel that the device holds at once, at least 1. */
int64_t astatide_resident_blocks(const astatide_code* code, int kernel);

#define ASTATIDE_TRY(call)                    \
  do {                                        \
    const int status = (call);                \
    if (status != ASTATIDE_OK) return status; \
  } while (0)

/* Fills in the error, if there is one, and gives the status. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
int astatide_fail(astatide_error* error, astatide_status status, const char* format, ...);

/* Arithmetic on 64 bits; *fault becomes 1 where a value leaves them or is divided by 0. Divisions round down. */
int64_t astatide_add(int64_t a, int64_t b, int* fault);
int64_t astatide_sub(int64_t a, int64_t b, int* fault);
int64_t astatide_mul(int64_t a, int64_t b, int* fault);
int64_t astatide_div(int64_t a, int64_t b, int* fault);
int64_t astatide_mod(int64_t a, int64_t b, int* fault);
int64_t astatide_abs(int64_t a, int* fault);
int64_t astatide_min(int64_t a, int64_t b);
int64_t astatide_max(int64_t a, int64_t b);

/* Operations on reals that C's library has not. */
double astatide_real_mod(double a, double b);
double astatide_real_min(double a, double b);
double astatide_real_max(double a, double b);
double astatide_sigmoid(double a);
double astatide_safe(double a);
double astatide_absorb(double a, double b);

int astatide_check_extent(const char* name, int64_t value, int64_t most, astatide_error* error);
int astatide_check_known(const char* name, int64_t value, int64_t known, astatide_error* error);
int astatide_check_groups(const char* index, int64_t from, int64_t onto, astatide_error* error);
int astatide_check_multiple(const char* value_text, int64_t value, const char* of_text, int64_t of,
                            astatide_error* error);
/* What arithmetic left behind. */
int astatide_check_fault(int fault, astatide_error* error);
/* A tensor of the caller: memory of the context's device, aligned, and strides that stay in 63 bits. */
int astatide_check_tensor(const astatide_code* code, const char* name, const void* data, int rank, const int64_t* shape,
                          const int64_t* strides, int64_t element_bytes, int output, astatide_error* error);
/* An index that has to stay inside of a dimension. */
int astatide_check_index(const char* index, const char* tensor, int dimension, astatide_range range, int64_t length,
                         astatide_error* error);
int astatide_check_scalar(const char* name, double value, astatide_error* error);
/* The product of counts, 0 where one is; ASTATIDE_TOO_LARGE above `most`. */
int astatide_count_blocks(const char* kernel, const int64_t* counts, int axes, int64_t most, int64_t* blocks,
                          astatide_error* error);
/* Describes a tensor for TMA; of an empty one a zero at this address. */
int astatide_make_map(const astatide_code* code, const char* name, astatide_tiled_tensor tensor, uint64_t zero,
                      astatide_map* map, astatide_error* error);
int astatide_check_workspace(const astatide_code* code, const void* workspace, int64_t bytes, int64_t needed,
                             astatide_error* error);
int astatide_clear(const astatide_code* code, uint64_t address, int64_t bytes, void* stream, astatide_error* error);
int astatide_launch(const astatide_code* code, int kernel, int64_t blocks, void** parameters, void* stream,
                    astatide_error* error);
#endif

#ifdef __cplusplus
}
#endif

#endif
