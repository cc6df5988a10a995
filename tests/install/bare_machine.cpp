// Asks for a GPU on a machine that has none. Exits with 0 where the library says what is missing.
#include <astatide/astatide.h>

#include <cstdio>

using namespace astatide;

int main() try {
  std::printf("version %s\n", ASTATIDE_VERSION);
  const Algorithm algorithm = load_algorithm("attention");
  Engine engine;
  engine.build(algorithm, load_schedule("simt/flash2"), {Device::cuda(0), ScalarType::f32, algorithm.sizes, {}});
  std::printf("it was built\n");
  return 1;
} catch (const MachineError& error) {
  std::printf("missing: %s\n", error.what());
  return 0;
}
