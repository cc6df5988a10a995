#include "compiler/tune/rank.h"

#include <algorithm>
#include <cmath>

#include "compiler/dispatch.h"
#include "compiler/explain.h"
#include "compiler/support/diagnostic.h"
#include "compiler/tile/statistics.h"

namespace astatide {
namespace {

/// Of a core with vectors, where nobody says which: only ratios are used.
constexpr Peak kCore{"a core", 5e10, 1e10, 2e9};
/// Products of 16 bits on tensor cores against f32 without them, on the GPUs that have data sheets here.
constexpr double kTensorCores = 14;
constexpr double kNarrowTypes = 2;  // bytes of an element that tensor cores take

bool on_tensor_cores(const tile::Program& program, const Target& target) {
  if (!target.is_cuda()) return false;
  return std::any_of(program.tensors.begin(), program.tensors.end(), [](const tile::Tensor& tensor) {
    return tensor.role == tile::Tensor::Role::input && size_in_bytes(tensor.type) == kNarrowTypes;
  });
}

}  // namespace

double roofline_seconds(const tile::Program& program, const Target& target,
                        const std::map<std::string, std::int64_t>& extents) {
  const Peak peak = target.is_cuda() ? peak_of(target).value_or(kCore) : kCore;
  const double products = peak.flops * (on_tensor_cores(program, target) ? kTensorCores : 1);
  double seconds = 0;
  for (const tile::KernelStatistics& kernel : tile::statistics_of(program, extents).kernels) {
    const double places = target.is_cuda() ? std::max(target.multiprocessors, 1) : 1;
    const double blocks = std::max(kernel.tiles, 1.0);
    const double waves = std::ceil(blocks / places) * places / blocks;
    const double shared = (kernel.shared.read + kernel.shared.written) / (8 * peak.bytes);
    const double arithmetic = kernel.product_flops / products + kernel.element_flops / peak.flops;
    seconds += waves * std::max({arithmetic, kernel.transcendentals / peak.transcendentals,
                                 kernel.global_bytes() / (4 * peak.bytes), shared});
  }
  return seconds;
}

SearchAnswer ask_schedule(const Algorithm& algorithm, const Schedule& schedule, const CompileOptions& options,
                          const PredictSeconds& predict) {
  try {
    const tile::Program program = compile(algorithm, schedule, options);
    if (std::string refusal = refusal_at_launch(program, options.sizes); !refusal.empty()) return {refusal, 0};
    return {"", predict(program, options.target, options.sizes)};
  } catch (const MachineError&) {
    throw;
  } catch (const UserError& error) {
    return {error.diagnostics().front().message, 0};
  }
}

}  // namespace astatide
