#include "compiler/cuda/emit.h"

#include <fmt/format.h>

#include "compiler/cuda/kernel_emitter.h"
#include "compiler/support/diagnostic.h"

namespace astatide::cuda {

Source emit(const tile::Program& program) {
  Source source;
  source.text = "#include \"memory.cuh\"\n#include \"numeric.cuh\"\n#include \"reduce.cuh\"\n";
  for (const tile::Kernel& kernel : program.kernels) {
    if (kernel.threads() <= 0) throw InternalError("kernel " + kernel.name + " has no threads");
    source.text += "\n" + KernelEmitter(program, kernel).emit();
    source.kernels.push_back({function_name(kernel), kernel.threads(), std::max<std::int64_t>(kernel.shared_bytes, 0),
                              tile::parameters_of(program, kernel)});
  }
  return source;
}

}  // namespace astatide::cuda
