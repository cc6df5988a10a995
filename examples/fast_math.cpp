// Capped scores whose tanh may be approximated: the line of CUDA that changes with `fast_math`, and what it costs.
#include <astatide/astatide.h>

#include <cmath>
#include <cstdio>

#include "compiler/cuda/emit.h"
#include "compiler/explain.h"

using namespace astatide;

/// The first line of the emitted source with a tanh in it.
static std::string line_of(const Algorithm& algorithm, const Schedule& schedule, const CompileOptions& options) {
  const std::string source = cuda::emit(compile(algorithm, schedule, options)).text;
  const std::size_t at = source.find("tanh"), begin = source.rfind('\n', at) + 1;
  return at == std::string::npos ? "" : source.substr(begin, source.find('\n', at) - begin);
}

int main() try {
  const Algorithm algorithm = load_algorithm("softcap_alibi");
  const Schedule exact = load_schedule("simt/flash2");
  Schedule fast = exact;
  fast.fast_math = true;  // in a file: `fast_math: true`; with the builder: ScheduleBuilder("sm_80").fast_math()
  const CompileOptions options{*find_target(fast.target), algorithm.sizes, ScalarType::f32};
  const std::string before = line_of(algorithm, exact, options), after = line_of(algorithm, fast, options);
  std::printf("%s\n%s\n", before.c_str(), after.c_str());
  const std::vector<ApproximationUse> uses = explain(algorithm, fast, options).approximations;
  for (const ApproximationUse& use : uses)
    std::printf("%s: off by up to %.1e of each result\n", std::string(use.approximation.instruction).c_str(),
                std::ldexp(1.0, -use.approximation.error_bits));
  return !uses.empty() && before != after ? 0 : 1;
} catch (const UserError& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
