/* Astatide from C11, and from whatever calls C: declare, schedule, compile, launch. C++ has astatide.h as well, of
 * which this is the part that needs no C++.
 *
 *   AstatideError* error = NULL;
 *   AstatideEngine* engine = NULL;
 *   if (astatide_engine_create(NULL, &engine, &error) != ASTATIDE_STATUS_OK) fputs(astatide_error_text(error), stderr);
 *
 * Every function that can fail gives an AstatideStatus and takes an AstatideError** last, which may be NULL: a call
 * that fails stores an error of the caller's there, one that succeeds stores NULL. What else it would have stored is
 * left as it is then. No exception leaves a call, none ends the program, none prints.
 *
 * Threads: any number may call at once, with the same handles, too. A handle is destroyed once, and by no thread while
 * another still uses it. Handles do not need each other: an executable outlives its engine.
 *
 * Strings that are passed are read during the call; those that are given belong to the handle that gave them.
 * Structures begin with their own size, from which the library sees that the caller's header is of its version; all
 * other members may be 0. Tensors are borrowed: nothing here calls a deleter. */
#ifndef ASTATIDE_C_H
#define ASTATIDE_C_H

#include <stddef.h>
#include <stdint.h>

#include "dlpack.h"

#if defined(__GNUC__)
#define ASTATIDE_C_API __attribute__((visibility("default")))
#else
#define ASTATIDE_C_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the library, "0.1.0"; that of the header is ASTATIDE_VERSION. */
ASTATIDE_C_API const char* astatide_version(void);

/* ---- errors ---- */

/* Numbers as the program's exit codes. */
typedef enum AstatideStatus {
  ASTATIDE_STATUS_OK = 0,
  ASTATIDE_STATUS_USER = 2,    /* what was asked for is wrong */
  ASTATIDE_STATUS_MACHINE = 3, /* the machine lacks something: a GPU, its driver, NVRTC, memory */
  ASTATIDE_STATUS_INTERNAL = 4 /* a fault of the library's */
} AstatideStatus;

typedef struct AstatideError AstatideError;

/* One of the problems of an error. */
typedef struct AstatideProblem {
  size_t struct_size;
  const char* file;     /* or the name of an argument; "" where there is none */
  int32_t line, column; /* from 1; 0 where unknown */
  const char* message;  /* what, with the number and the limit */
  const char* notes;    /* what to try, one a line */
} AstatideProblem;

/* Each also takes NULL, as an error without problems. */
ASTATIDE_C_API AstatideStatus astatide_error_status(const AstatideError* error);
/* All problems as the program prints them, with lines of files and carets. */
ASTATIDE_C_API const char* astatide_error_text(const AstatideError* error);
ASTATIDE_C_API size_t astatide_error_problem_count(const AstatideError* error);
/* ASTATIDE_STATUS_USER where there is no such problem, or the structure has another size. */
ASTATIDE_C_API AstatideStatus astatide_error_problem(const AstatideError* error, size_t n, AstatideProblem* problem);
ASTATIDE_C_API void astatide_error_destroy(AstatideError* error);

/* ---- what to compute, and how ---- */

typedef struct AstatideAlgorithm AstatideAlgorithm;
typedef struct AstatideSchedule AstatideSchedule;

/* A file, or the name of a shipped one: "attention", "simt/flash2". */
ASTATIDE_C_API AstatideStatus astatide_algorithm_load(const char* path_or_name, AstatideAlgorithm** algorithm,
                                                      AstatideError** error);
ASTATIDE_C_API AstatideStatus astatide_schedule_load(const char* path_or_name, AstatideSchedule** schedule,
                                                     AstatideError** error);
/* From YAML text; `file` names it in messages. */
ASTATIDE_C_API AstatideStatus astatide_algorithm_parse(const char* text, const char* file,
                                                       AstatideAlgorithm** algorithm, AstatideError** error);
ASTATIDE_C_API AstatideStatus astatide_schedule_parse(const char* text, const char* file, AstatideSchedule** schedule,
                                                      AstatideError** error);
ASTATIDE_C_API void astatide_algorithm_destroy(AstatideAlgorithm* algorithm);
ASTATIDE_C_API void astatide_schedule_destroy(AstatideSchedule* schedule);

typedef enum AstatideNames {
  ASTATIDE_NAMES_INPUTS = 0,
  ASTATIDE_NAMES_OUTPUTS = 1,
  ASTATIDE_NAMES_EXTENTS = 2,
  ASTATIDE_NAMES_SCALARS = 3
} AstatideNames;
/* The names that an algorithm has, in its order (`which`: AstatideNames); NULL behind the last. */
ASTATIDE_C_API const char* astatide_algorithm_name(const AstatideAlgorithm* algorithm, int which, size_t n);

/* ---- engines ---- */

typedef struct AstatideEngine AstatideEngine;

typedef struct AstatideEngineOptions {
  size_t struct_size;
  const char* cache_directory; /* NULL or "": ASTATIDE_CACHE_DIR, XDG_CACHE_HOME/astatide or ~/.cache/astatide */
  int32_t without_disk_cache;  /* 1: kernels are kept in memory only */
  int32_t threads;             /* of the CPU backend; 0: ASTATIDE_THREADS, or all cores */
} AstatideEngineOptions;

typedef struct AstatideCounters {
  size_t struct_size;
  uint64_t compiles, disk_hits, memory_hits, launches;
} AstatideCounters;

/* Keeps what it compiles, in memory and on disk. Options may be NULL. */
ASTATIDE_C_API AstatideStatus astatide_engine_create(const AstatideEngineOptions* options, AstatideEngine** engine,
                                                     AstatideError** error);
ASTATIDE_C_API void astatide_engine_destroy(AstatideEngine* engine);
/* What all builds and launches of the engine did. */
ASTATIDE_C_API AstatideStatus astatide_engine_counters(const AstatideEngine* engine, AstatideCounters* counters,
                                                       AstatideError** error);
/* Calls `each` with every warning since the last call, once: a cache directory that can't be used. */
ASTATIDE_C_API AstatideStatus astatide_engine_take_warnings(AstatideEngine* engine,
                                                            void (*each)(void* user, const char* warning), void* user,
                                                            AstatideError** error);

/* ---- builds ---- */

typedef struct AstatideExecutable AstatideExecutable;

/* An extent. */
typedef struct AstatideSize {
  const char* name;
  int64_t value;
} AstatideSize;

typedef struct AstatideBuildOptions {
  size_t struct_size;
  DLDevice device;  /* kDLCPU, or kDLCUDA and the device's number */
  DLDataType dtype; /* of the tensors for which the algorithm names none: f32, f16 or bf16 */
  /* Extents that the schedule's tiles cover whole (D, Dv); without a schedule all that schedules give ranges of, for
   * the choice alone. Others are run-time values. */
  const AstatideSize* sizes;
  size_t size_count;
} AstatideBuildOptions;

/* Compiles, or takes what an equal request has compiled. Without a schedule (NULL) the shipped one that serves the
 * device, the type and the sizes. */
ASTATIDE_C_API AstatideStatus astatide_engine_build(AstatideEngine* engine, const AstatideAlgorithm* algorithm,
                                                    const AstatideSchedule* schedule,
                                                    const AstatideBuildOptions* options,
                                                    AstatideExecutable** executable, AstatideError** error);
/* Compiles what joins outputs of `algorithm` for parts of its axis (chunks of keys, a shared prefix) into those of the
 * whole; `dtype` of the options is that of the results, that of the parts is the same, or another. */
ASTATIDE_C_API AstatideStatus astatide_engine_build_merge(AstatideEngine* engine, const AstatideAlgorithm* algorithm,
                                                          const AstatideBuildOptions* options,
                                                          const DLDataType* parts_dtype,
                                                          AstatideExecutable** executable, AstatideError** error);
ASTATIDE_C_API void astatide_executable_destroy(AstatideExecutable* executable);

typedef struct AstatideReport {
  size_t struct_size;
  const char* target; /* "sm_90a", "cpu" */
  const char* cache;  /* "none", "disk" or "memory": where the code came from */
  const char* source; /* CUDA source; empty on the CPU */
  const char* log;    /* of the compilers, for a GPU */
  double lower_ms;    /* algorithm and schedule to source */
  double compile_ms;  /* source to code */
} AstatideReport;
ASTATIDE_C_API AstatideStatus astatide_executable_report(const AstatideExecutable* executable, AstatideReport* report,
                                                         AstatideError** error);

/* ---- launches ---- */

#define ASTATIDE_MOST_DIMENSIONS 32
/* Of a workspace's address, in bytes. */
#define ASTATIDE_WORKSPACE_ALIGNMENT 256

typedef struct AstatideShape {
  size_t struct_size;
  DLDataType dtype;
  int32_t ndim;
  int64_t shape[ASTATIDE_MOST_DIMENSIONS];
} AstatideShape;
/* Type and shape that an input or output has for these extents. */
ASTATIDE_C_API AstatideStatus astatide_executable_shape(const AstatideExecutable* executable, const char* tensor,
                                                        const AstatideSize* extents, size_t extent_count,
                                                        AstatideShape* shape, AstatideError** error);
/* Bytes of memory that a launch with these extents uses for what is neither input nor output. */
ASTATIDE_C_API AstatideStatus astatide_executable_workspace_bytes(const AstatideExecutable* executable,
                                                                  const AstatideSize* extents, size_t extent_count,
                                                                  int64_t* bytes, AstatideError** error);

/* An input or output by its name: one of the two, the other is NULL. Inputs may have any strides, outputs and inputs
 * that the algorithm updates any without
 * 0. Elements are floats of 16, 32 and 64 bits, bfloat16, int32, int64, uint8 and bool, as the algorithm has them. */
typedef struct AstatideTensor {
  const char* name;
  const DLTensor* tensor;                  /* also of a DLManagedTensor: &managed->dl_tensor */
  const DLManagedTensorVersioned* managed; /* says more: what is read-only and written is refused */
} AstatideTensor;

typedef struct AstatideScalar {
  const char* name;
  double value;
} AstatideScalar;

typedef struct AstatideLaunch {
  size_t struct_size;
  /* Every input and every output. On the CPU kDLCPU or kDLCUDAHost, on a GPU kDLCUDA of the executable's device. */
  const AstatideTensor* tensors;
  size_t tensor_count;
  /* Those that differ from their defaults. */
  const AstatideScalar* scalars;
  size_t scalar_count;
  /* Those that no shape shows. Others may be given and must agree. */
  const AstatideSize* extents;
  size_t extent_count;
  /* CUstream, or cudaStream_t, NULL for the default stream of the current context; unused on the CPU. */
  void* stream;
  /* Memory of the executable's device that no other launch uses until this one is done; NULL: the library keeps its
   * own, one for each stream. */
  void* workspace;
  int64_t workspace_bytes;
  /* 1: looks at every place that integers in tensors name before anything is launched; on a GPU that waits for the
   * stream. */
  int32_t check_indices;
} AstatideLaunch;

/* Puts the work into the stream and returns, or computes (CPU). Arguments that are refused leave the outputs as they
 * are. Memory of the tensors stays until the work is done; the structures are read during the call. */
ASTATIDE_C_API AstatideStatus astatide_executable_launch(const AstatideExecutable* executable,
                                                         const AstatideLaunch* launch, AstatideError** error);

/* The outputs that one part of the axis gave, by the algorithm's names. */
typedef struct AstatidePart {
  const AstatideTensor* tensors;
  size_t tensor_count;
} AstatidePart;
/* Launches a merge: `tensors` of the launch are the outputs of the whole, and inputs that are read beside the parts.
 * Tensors of the parts have one shape and equal strides, and lie at equal distances, as slices of one tensor do, or any
 * two. */
ASTATIDE_C_API AstatideStatus astatide_executable_launch_merge(const AstatideExecutable* merge,
                                                               const AstatidePart* parts, size_t part_count,
                                                               const AstatideLaunch* launch, AstatideError** error);

#ifdef __cplusplus
}
#endif

#endif
