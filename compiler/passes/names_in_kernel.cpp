#include "compiler/passes/names_in_kernel.h"

namespace astatide {

FreshNames names_in_kernel(const tile::Program& program, const tile::Kernel& kernel) {
  std::set<std::string> names(program.extents.begin(), program.extents.end());
  names.insert(program.scalars.begin(), program.scalars.end());
  for (const tile::Tensor& tensor : program.tensors) names.insert(tensor.name);
  for (const tile::TileAxis& axis : kernel.tiles) names.insert(axis.var);
  for (const tile::Mem& mem : kernel.mems) {
    names.insert(mem.name);
    for (const tile::Dim& dim : mem.dims) names.insert(dim.axis);
  }
  tile::walk(kernel.body, [&](const tile::Stmt& stmt) {
    if (const auto* loop = std::get_if<tile::For>(&stmt.node)) names.insert(loop->var);
    if (const auto* let = std::get_if<tile::Let>(&stmt.node)) names.insert(let->name);
    if (const std::string* flag = tile::flag_of(stmt)) names.insert(*flag);
  });
  return FreshNames(std::move(names));
}

}  // namespace astatide
