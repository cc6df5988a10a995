#include "compiler/cuda/emit.h"

#include <fmt/format.h>

#include "compiler/cuda/kernel_emitter.h"
#include "compiler/support/diagnostic.h"
#include "compiler/tile/parameters.h"
#include "compiler/tile/synchronization.h"

namespace astatide::cuda {

Source emit(const tile::Program& program) {
  Source source;
  bool tensor_cores = false, polynomials = false, clusters = false, arrivals = false, teams = false, dependent = false;
  for (const tile::Kernel& kernel : program.kernels) {
    clusters = clusters || kernel.cluster;
    dependent = dependent || kernel.dependent;
    teams = teams || (kernel.teams > 1 && kernel.threads() > tile::kWarp);
    tile::walk(kernel.body, [&](const tile::Stmt& stmt) {
      const auto* mma = std::get_if<tile::Mma>(&stmt.node);
      const auto* copy = std::get_if<tile::Copy>(&stmt.node);
      tensor_cores =
          tensor_cores || (mma && mma->by != tile::Family::fma) || (copy && copy->via == tile::Via::cp_async);
      const auto* map = std::get_if<tile::Map>(&stmt.node);
      arrivals = arrivals || std::holds_alternative<tile::Arrive>(stmt.node);
      polynomials = polynomials || (map && map->polynomial);
    });
  }
  source.text = "#include \"memory.cuh\"\n#include \"numeric.cuh\"\n#include \"reduce.cuh\"\n";
  if (polynomials) source.text += "#include \"exp2.cuh\"\n";
  if (teams) source.text += "#include \"team.cuh\"\n";
  if (dependent) source.text += "#include \"dependent.cuh\"\n";
  if (arrivals) source.text += "#include \"arrive.cuh\"\n";
  if (tensor_cores) source.text += "#include \"mma_sync.cuh\"\n";
  std::string kernels;
  std::map<std::string, std::string> functions;
  for (const tile::Kernel& kernel : program.kernels) {
    if (kernel.threads() <= 0) throw InternalError("kernel " + kernel.name + " has no threads");
    KernelEmitter emitter(program, kernel);
    kernels += "\n" + emitter.emit();
    functions.insert(emitter.functions().begin(), emitter.functions().end());
    source.kernels.push_back({function_name(kernel), kernel.block_threads(),
                              std::max<std::int64_t>(kernel.shared_bytes, 0), kernel.cluster_blocks(), kernel.dependent,
                              tile::parameters_of(program, kernel)});
  }
  if (!functions.empty()) source.text += "#include \"wgmma.cuh\"\n";
  if (clusters) source.text += "#include \"cluster.cuh\"\n";
  for (const auto& [name, text] : functions) source.text += "\n" + text;
  source.text += kernels;
  return source;
}

}  // namespace astatide::cuda
