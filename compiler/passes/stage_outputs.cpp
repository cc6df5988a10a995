#include "compiler/passes/stage_outputs.h"

#include <fmt/format.h>

#include "compiler/passes/names_in_kernel.h"
#include "compiler/support/diagnostic.h"
#include "compiler/tile/parameters.h"

namespace astatide {
namespace {

using tile::Kernel;
using tile::Mem;
using tile::Stmt;
using tile::View;

/// TMA leaves out what lies beyond the tensor: limits have to be its ends.
void check_limits(const tile::Tensor& tensor, const View& view, const tile::TiledView& form, const Mem& tile) {
  for (const tile::Coordinate& coordinate : view.at) {
    const Expr end = coordinate.axis == tile.dims[0].axis ? form.end_of_rows(tensor)
                                                          : tensor.dims[static_cast<std::size_t>(form.column_dim)];
    if (!coordinate.limit || *coordinate.limit == end) continue;
    throw UserError(
        fmt::format("copy of {}: tma stores up to the end of {}, {} = {}, and its tiles end at {}", tensor.name,
                    tensor.name, coordinate.axis, to_string(end), to_string(*coordinate.limit)),
        {"leave it out"});
  }
}

/// The tile in shared memory between a tile in registers and the tensor that it is stored to.
std::string declare(const tile::Program& program, Kernel& kernel, const Mem& from, const View& to) {
  const tile::Tensor& tensor = *program.find_tensor(to.tensor);
  const auto form = tile::tiled_view(to, from);
  if (!form || form->paged)
    throw UserError(fmt::format("copy of {0}: tma stores tiles whose rows are elements of {0} one after the other, or "
                                "in runs of one length, and its indices are {1}",
                                tensor.name, to_string(read(to.tensor, to.indices))),
                    {"leave it out"});
  if (!form->first_row.is_constant(0) || size_in_bytes(tensor.type) != 2)
    throw InternalError("stage_outputs: a tile of " + tensor.name + " has no form that TMA stores");
  check_limits(tensor, to, *form, from);
  Mem mem;
  mem.name = names_in_kernel(program, kernel).fresh(tensor.name + "_s");
  mem.type = tensor.type;
  mem.dims = from.dims;
  mem.space = Space::shared;
  kernel.mems.push_back(mem);
  return mem.name;
}

}  // namespace

tile::Program stage_outputs(const tile::Program& program, const Target&) {
  tile::Program out = program;
  for (Kernel& kernel : out.kernels)
    kernel.body = tile::transform_blocks(kernel.body, [&](const tile::Block& block) {
      tile::Block body;
      for (const Stmt& stmt : block) {
        const View* view = tile::view_stored_by_tma(stmt);
        if (!view) {
          body.push_back(stmt);
          continue;
        }
        const tile::Copy& copy = std::get<tile::Copy>(stmt.node);
        const Mem from = *kernel.find(std::get<tile::TileName>(copy.src));
        const std::string between = declare(program, kernel, from, *view);
        body.push_back({tile::Reserve{between}});
        body.push_back({tile::Copy{between, from.name, tile::Via::unset, {}, 0}});
        body.push_back({tile::Acquire{between}});
        body.push_back({tile::Copy{*view, between, tile::Via::tma, {}, 0}});
        body.push_back({tile::Release{between}});
      }
      return body;
    });
  return out;
}

}  // namespace astatide
