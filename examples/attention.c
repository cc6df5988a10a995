/* Attention from C11: loads a shipped algorithm, compiles it for the CPU, launches it on tensors that DLPack describes,
 * and checks a result by hand. */
#include <astatide/astatide_c.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { kHeads = 2, kRows = 50, kKeys = 70, kWidth = 16 };

static float q[kHeads][kRows][kWidth], o[kHeads][kRows][kWidth], l[kHeads][kRows];
/* Keys and values in one array, as caches have them: their rows are strided. */
static float kv[kKeys][2][kHeads][kWidth];

/* Nothing is left to do but to say why. */
static int fail(AstatideError* error) {
  const AstatideStatus status = astatide_error_status(error);
  fprintf(stderr, "%s\n", astatide_error_text(error));
  astatide_error_destroy(error);
  return (int)status;
}

static DLTensor f32(void* data, int32_t ndim, int64_t* shape, int64_t* strides) {
  const DLTensor tensor = {data, {kDLCPU, 0}, ndim, {kDLFloat, 32, 1}, shape, strides, 0};
  return tensor;
}

int main(void) {
  AstatideError* error = NULL;
  AstatideEngine* engine = NULL;
  AstatideAlgorithm* algorithm = NULL;
  AstatideExecutable* run = NULL;
  const AstatideSize sizes[] = {{"Sq", kRows}, {"Sk", kKeys}, {"D", kWidth}, {"Dv", kWidth}};
  const AstatideBuildOptions options = {sizeof options, {kDLCPU, 0}, {kDLFloat, 32, 1}, sizes, 4};
  if (astatide_engine_create(NULL, &engine, &error) != ASTATIDE_STATUS_OK ||
      astatide_algorithm_load("attention", &algorithm, &error) != ASTATIDE_STATUS_OK ||
      astatide_engine_build(engine, algorithm, NULL, &options, &run, &error) != ASTATIDE_STATUS_OK)
    return fail(error);

  /* All scores are equal, so every row of O is the mean of V's rows, and L the logarithm of their number. */
  for (int j = 0; j < kKeys; ++j)
    for (int h = 0; h < kHeads; ++h)
      for (int d = 0; d < kWidth; ++d) kv[j][1][h][d] = (float)j;
  int64_t rows[] = {1, kHeads, kRows, kWidth}, keys[] = {1, kHeads, kKeys, kWidth};
  int64_t strides[] = {0, kWidth, 2 * kHeads * kWidth, 1};
  DLTensor tq = f32(q, 4, rows, NULL), tk = f32(kv, 4, keys, strides), tv = tk, to = f32(o, 4, rows, NULL),
           tl = f32(l, 3, rows, NULL);
  tv.byte_offset = sizeof kv[0][0];
  const AstatideTensor tensors[] = {
      {"Q", &tq, NULL}, {"K", &tk, NULL}, {"V", &tv, NULL}, {"O", &to, NULL}, {"L", &tl, NULL}};
  AstatideLaunch launch;
  memset(&launch, 0, sizeof launch);
  launch.struct_size = sizeof launch;
  launch.tensors = tensors;
  launch.tensor_count = 5;
  if (astatide_executable_launch(run, &launch, &error) != ASTATIDE_STATUS_OK) return fail(error);

  float worst = 0;
  for (int h = 0; h < kHeads; ++h)
    for (int i = 0; i < kRows; ++i) {
      worst = fmaxf(worst, fabsf(l[h][i] - logf(kKeys)));
      for (int d = 0; d < kWidth; ++d) worst = fmaxf(worst, fabsf(o[h][i][d] - (kKeys - 1) / 2.0f));
    }
  printf("every row of O is the mean of V's, within %.1e\n", worst);

  /* What is wrong is said, and nothing is written. */
  tv.dtype.bits = 16;
  if (astatide_executable_launch(run, &launch, &error) == ASTATIDE_STATUS_OK) return 1;
  printf("refused: %s\n", astatide_error_text(error));
  astatide_error_destroy(error);
  astatide_executable_destroy(run);
  astatide_algorithm_destroy(algorithm);
  astatide_engine_destroy(engine);
  return worst < 1e-4f ? 0 : 1;
}
