// Whatever the text is, it is refused as the user's error or it is an algorithm that prints as itself.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "compiler/algorithm/algorithm.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  astatide::Algorithm algorithm;
  try {
    algorithm = astatide::parse_algorithm(text, "fuzzed.yaml");
  } catch (const astatide::UserError&) {
    return 0;
  }
  const std::string printed = astatide::print_algorithm(algorithm);
  if (!equal(astatide::parse_algorithm(printed, "printed.yaml"), algorithm)) std::abort();
  astatide::print_mathematics(algorithm);
  return 0;
}
