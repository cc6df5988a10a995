/* Asks for a GPU on a machine that has none, from C. Exits with 0 where the library says what is missing. */
#include <astatide/astatide.h>
#include <stdio.h>
#include <string.h>

int main(void) {
  AstatideError* error = NULL;
  AstatideEngine* engine = NULL;
  AstatideAlgorithm* algorithm = NULL;
  AstatideExecutable* executable = NULL;
  const AstatideSize sizes[] = {{"Sq", 64}, {"Sk", 64}, {"D", 64}, {"Dv", 64}};
  const AstatideBuildOptions options = {sizeof options, {kDLCUDA, 0}, {kDLFloat, 16, 1}, sizes, 4};
  AstatideStatus status;
  printf("version %s\n", astatide_version());
  if (strcmp(astatide_version(), ASTATIDE_VERSION) != 0) return 1;
  if (astatide_engine_create(NULL, &engine, &error) != ASTATIDE_STATUS_OK ||
      astatide_algorithm_load("attention", &algorithm, &error) != ASTATIDE_STATUS_OK)
    return 1;
  status = astatide_engine_build(engine, algorithm, NULL, &options, &executable, &error);
  printf("missing: %s\n", astatide_error_text(error));
  astatide_error_destroy(error);
  astatide_executable_destroy(executable);
  astatide_algorithm_destroy(algorithm);
  astatide_engine_destroy(engine);
  return status == ASTATIDE_STATUS_MACHINE ? 0 : 1;
}
