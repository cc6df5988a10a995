/* Launches attention that `astatide export` compiled: C11, the CUDA driver, and nothing of Astatide but the exported files.
 *
 *     astatide export causal_gqa --schedule sm90/flash3 --dtype bf16 --shape D=128,Dv=128 --output exported
 *     cc -std=c11 -Iexported main.c exported/[a-z]*.c -ldl -lm -o attention
 *     ./attention FOLDER B Hq Hkv Sq Sk D Dv [DEVICE]
 *
 * DEVICE is the number of a GPU, 0 without it. FOLDER has Q.bin, K.bin and V.bin, elements in C order; O.bin and L.bin are written there. */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "causal_gqa.h"

#ifndef ELEMENT_BYTES
#define ELEMENT_BYTES 2
#endif

/* The driver's functions; a program with a CUDA toolkit includes cuda.h in their place. */
static void* driver;
static void need(const char* act, int result) {
  if (result == 0) return;
  fprintf(stderr, "%s: the driver says %d\n", act, result);
  exit(3);
}
#define CALL(name, types, values)                      \
  do {                                                 \
    int(*function) types = NULL;                       \
    void* const symbol = dlsym(driver, name);          \
    memcpy(&function, &symbol, sizeof function);       \
    need(name, function == NULL ? -1 : function values); \
  } while (0)

static uint64_t allocate(int64_t bytes) {
  unsigned long long address = 0;
  CALL("cuMemAlloc_v2", (unsigned long long*, size_t), (&address, bytes > 0 ? (size_t)bytes : 1));
  return address;
}

static void* host_memory(int64_t bytes) {
  void* const memory = calloc(1, bytes > 0 ? (size_t)bytes : 1);
  if (memory == NULL) need("calloc", -1);
  return memory;
}

static FILE* open_file(const char* folder, const char* name, const char* mode) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s.bin", folder, name);
  FILE* const file = fopen(path, mode);
  if (file == NULL) need(path, -1);
  return file;
}

static uint64_t read_input(const char* folder, const char* name, int64_t bytes) {
  const uint64_t address = allocate(bytes);
  void* const memory = host_memory(bytes);
  FILE* const file = open_file(folder, name, "rb");
  if (fread(memory, 1, (size_t)bytes, file) != (size_t)bytes) need(name, -1);
  fclose(file);
  CALL("cuMemcpyHtoDAsync_v2", (unsigned long long, const void*, size_t, void*), (address, memory, (size_t)bytes, NULL));
  CALL("cuCtxSynchronize", (void), ());
  free(memory);
  return address;
}

static void write_output(const char* folder, const char* name, uint64_t address, int64_t bytes) {
  void* const memory = host_memory(bytes);
  CALL("cuMemcpyDtoHAsync_v2", (void*, unsigned long long, size_t, void*), (memory, address, (size_t)bytes, NULL));
  CALL("cuCtxSynchronize", (void), ());
  FILE* const file = open_file(folder, name, "wb");
  if (fwrite(memory, 1, (size_t)bytes, file) != (size_t)bytes || fclose(file) != 0) need(name, -1);
  free(memory);
}

static int failed(const char* act, const astatide_error* error) {
  fprintf(stderr, "%s: status %d: %s\n", act, error->status, error->text);
  return 1;
}

int main(int argc, char** argv) {
  if (argc != 9 && argc != 10) return fprintf(stderr, "usage: %s FOLDER B Hq Hkv Sq Sk D Dv [DEVICE]\n", argv[0]), 2;
  const char* const folder = argv[1];
  causal_gqa_arguments a = {0};
  int64_t* const lengths[] = {&a.B, &a.Hq, &a.Hkv, &a.Sq, &a.Sk, &a.D, &a.Dv};
  for (int n = 0; n < 7; ++n) *lengths[n] = strtoll(argv[n + 2], NULL, 10);
  const int64_t d = a.D, dv = a.Dv;

  astatide_error error = {0};
  astatide_code* code = NULL;
  int64_t bytes = 0;
  driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == NULL) {
    /* It says the same. */
    return causal_gqa_open(&code, &error), failed("open", &error);
  }
  void* context = NULL;
  CALL("cuInit", (unsigned), (0));
  CALL("cuDevicePrimaryCtxRetain", (void**, int), (&context, argc == 10 ? atoi(argv[9]) : 0));
  CALL("cuCtxPushCurrent_v2", (void*), (context));

  if (causal_gqa_open(&code, &error) != ASTATIDE_OK) return failed("open", &error);
  if (causal_gqa_defaults(&a, &error) != ASTATIDE_OK) return failed("defaults", &error);
  a.D = d, a.Dv = dv;
  const int64_t rows = a.B * a.Hq * a.Sq, keys = a.B * a.Hkv * a.Sk;
  a.Q.data = (const void*)(uintptr_t)read_input(folder, "Q", rows * d * ELEMENT_BYTES);
  a.K.data = (const void*)(uintptr_t)read_input(folder, "K", keys * d * ELEMENT_BYTES);
  a.V.data = (const void*)(uintptr_t)read_input(folder, "V", keys * dv * ELEMENT_BYTES);
  a.O.data = (void*)(uintptr_t)allocate(rows * dv * ELEMENT_BYTES);
  a.L.data = (void*)(uintptr_t)allocate(rows * 4);
  if (causal_gqa_workspace_bytes(code, &a, &bytes, &error) != ASTATIDE_OK) return failed("workspace", &error);
  void* const workspace = bytes > 0 ? (void*)(uintptr_t)allocate(bytes) : NULL;
  /* Twice: a launch leaves nothing behind that the next one would trip over. */
  for (int n = 0; n < 2; ++n)
    if (causal_gqa_launch(code, &a, workspace, bytes, NULL, &error) != ASTATIDE_OK) return failed("launch", &error);
  CALL("cuCtxSynchronize", (void), ());
  write_output(folder, "O", (uint64_t)(uintptr_t)a.O.data, rows * dv * ELEMENT_BYTES);
  write_output(folder, "L", (uint64_t)(uintptr_t)a.L.data, rows * 4);
  printf("code for %s, workspace at %" PRIuPTR " of %" PRId64 " bytes\n", astatide_chosen_target(code), (uintptr_t)workspace,
         bytes);
  astatide_close(code);
  return 0;
}
