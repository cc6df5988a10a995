#include <set>

#include "compiler/tile/ir.h"

namespace astatide::tile {

std::vector<Parameter> parameters_of(const Program& program, const Kernel& kernel) {
  std::set<std::string> touched;
  walk(kernel.body, [&](const Stmt& stmt) {
    const Effects effects = effects_of(stmt);
    touched.insert(effects.reads.begin(), effects.reads.end());
    touched.insert(effects.writes.begin(), effects.writes.end());
  });
  for (const TileAxis& axis : kernel.tiles)
    for (const std::string& tensor : tensors_read(axis.count)) touched.insert(tensor);
  // A request that no statement stands for yet.
  for (const Staging& staging : kernel.stagings) touched.insert(staging.tensor);

  std::vector<Parameter> out;
  for (const Tensor& tensor : program.tensors) {
    if (!touched.contains(tensor.name)) continue;
    out.push_back({Parameter::Kind::pointer, tensor.name});
    for (std::size_t dim = 0; dim < tensor.dims.size(); ++dim)
      out.push_back({Parameter::Kind::stride, tensor.name, static_cast<int>(dim)});
  }
  for (const std::string& extent : program.extents) out.push_back({Parameter::Kind::extent, extent});
  for (const std::string& scalar : program.scalars) out.push_back({Parameter::Kind::scalar, scalar});
  return out;
}

}  // namespace astatide::tile
