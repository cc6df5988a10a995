#include "compiler/passes/stage_tiles.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "compiler/support/diagnostic.h"

namespace astatide {
namespace {

using tile::Block;
using tile::Dim;
using tile::For;
using tile::If;
using tile::Kernel;
using tile::Mem;
using tile::Mma;
using tile::Staging;
using tile::Stmt;
using tile::View;

class Stager {
 public:
  Stager(const tile::Program& program, Kernel& kernel) : program_(program), kernel_(kernel) {}

  void run() {
    for (const Staging& staging : kernel_.stagings) {
      staged_ = false;
      if (is_loop(staging.at))
        kernel_.body = in_loops(kernel_.body, staging);
      else
        kernel_.body = stage_block(kernel_.body, staging);
      if (!staged_)
        throw UserError(fmt::format("{}: stage_at: no product of kernel {} reads a tile of {} at that loop",
                                    staging.tensor, kernel_.name, staging.tensor),
                        {"leave the directive out, or name the loop of the product that reads it"});
    }
    kernel_.stagings.clear();
  }

 private:
  bool is_loop(const std::string& var) const {
    bool found = false;
    tile::walk(kernel_.body, [&](const Stmt& stmt) {
      if (const auto* loop = std::get_if<For>(&stmt.node)) found = found || loop->var == var;
    });
    return found;
  }

  Block in_loops(const Block& block, const Staging& staging) {
    Block out;
    for (const Stmt& stmt : block) {
      if (const auto* loop = std::get_if<For>(&stmt.node)) {
        For copy = *loop;
        if (loop->var != staging.at)
          copy.body = in_loops(loop->body, staging);
        else if (staging.ring > 1 && loop->kind != For::Kind::once)
          stage_ahead(copy, staging, out);
        else
          copy.body = stage_block(loop->body, staging);
        out.push_back({copy});
      } else if (const auto* branch = std::get_if<If>(&stmt.node)) {
        If copy = *branch;
        copy.body = in_loops(branch->body, staging);
        out.push_back({copy});
      } else {
        out.push_back(stmt);
      }
    }
    return out;
  }

  /// Views of the tensor that products in the block read, with the tile that each is staged in.
  struct Staged {
    View view;
    std::string tile;
  };

  /// Replaces operands; gives what was staged, in order of first use.
  std::vector<Staged> replace_operands(Block& block, const Staging& staging, int ring) {
    std::vector<Staged> found;
    block = tile::transform_blocks(block, [&](Block inner) {
      for (Stmt& stmt : inner) {
        auto* mma = std::get_if<Mma>(&stmt.node);
        if (!mma) continue;
        for (tile::Operand* operand : {&mma->lhs, &mma->rhs}) {
          const auto* view = std::get_if<View>(operand);
          if (!view || view->tensor != staging.tensor) continue;
          auto same = std::find_if(found.begin(), found.end(), [&](const Staged& s) { return s.view == *view; });
          if (same == found.end())
            same = found.insert(found.end(), {*view, declare(*view, *mma, staging, ring, found.size())});
          *operand = same->tile;
        }
      }
      return inner;
    });
    staged_ = staged_ || !found.empty();
    return found;
  }

  Block stage_block(const Block& block, const Staging& staging) {
    Block body = block;
    const std::vector<Staged> staged = replace_operands(body, staging, 1);
    Block out;
    std::set<std::string> copied;
    for (Stmt& stmt : body) {
      for (const Staged& s : staged)
        if (!copied.contains(s.tile) && reads(stmt, s.tile)) {
          out.push_back(copy_of(s, staging));
          copied.insert(s.tile);
        }
      out.push_back(std::move(stmt));
    }
    return out;
  }

  void stage_ahead(For& loop, const Staging& staging, Block& out) {
    const std::vector<Staged> staged = replace_operands(loop.body, staging, staging.ring);
    const Expr var = variable(loop.var);
    const int distance = staging.ring - 1;
    const auto at = [&](const Staged& s, const Expr& index) {
      Stmt copy = copy_of(s, staging);
      return tile::substitute(Block{copy}, {{loop.var, index}}).front();
    };
    const auto within = [&](const Expr& index) {
      return loop.descending ? less_equal(loop.begin, index) : less(index, loop.end);
    };
    const auto guarded = [&](const Staged& s, const Expr& index) {
      If branch;
      branch.condition = within(index);
      branch.body = {at(s, index)};
      return Stmt{branch};
    };
    for (int n = 0; n < distance; ++n)
      for (const Staged& s : staged) out.push_back(guarded(s, loop.descending ? loop.end - 1 - n : loop.begin + n));
    Block body;
    for (const Staged& s : staged) {
      body.push_back({tile::Acquire{s.tile}});
      body.push_back(guarded(s, loop.descending ? var - distance : var + distance));
    }
    for (Stmt& stmt : loop.body) body.push_back(std::move(stmt));
    for (const Staged& s : staged) body.push_back({tile::Release{s.tile}});
    loop.body = std::move(body);
  }

  Stmt copy_of(const Staged& staged, const Staging& staging) const {
    tile::Copy copy;
    copy.dst = staged.tile;
    copy.src = staged.view;
    copy.via = tile::Via::vector;
    copy.vector = staging.vector;
    return {copy};
  }

  static bool reads(const Stmt& stmt, const std::string& name) {
    const std::vector<std::string> names = tile::effects_of(stmt).reads;
    return std::find(names.begin(), names.end(), name) != names.end();
  }

  /// The tile that a view fills. Loops over the same axis that follow each other share it.
  std::string declare(const View& view, const Mma& mma, const Staging& staging, int ring, std::size_t number) {
    const std::string name = fmt::format("{}_{}{}", staging.tensor, staging.space == Space::shared ? "s" : "r",
                                         number == 0 ? "" : std::to_string(number + 1));
    Mem mem;
    mem.name = name;
    mem.type = ScalarType::f32;
    for (const tile::Coordinate& coordinate : view.at)
      mem.dims.push_back({coordinate.axis, extent_of(coordinate, mma)});
    mem.space = staging.space;
    mem.ring = ring;
    mem.align = staging.align;
    if (const Mem* existing = kernel_.find(name)) {
      if (existing->dims != mem.dims) throw InternalError("stage_tiles: the name " + name + " is taken");
      return name;
    }
    kernel_.mems.push_back(std::move(mem));
    return name;
  }

  /// From the other tiles of the product, or, for the contracted axis, from what is known of its length.
  int extent_of(const tile::Coordinate& coordinate, const Mma& mma) const {
    const auto from = [&](const tile::TileName& name) {
      const Mem* mem = kernel_.find(name);
      return mem && mem->has_axis(coordinate.axis) ? mem->extent_of(coordinate.axis) : 0;
    };
    int extent = from(mma.dst);
    for (const tile::Operand* operand : {&mma.lhs, &mma.rhs})
      if (const auto* name = std::get_if<tile::TileName>(operand); name && extent == 0) extent = from(*name);
    if (extent > 0) return extent;
    if (!coordinate.limit) throw InternalError("stage_tiles: nothing says how long " + coordinate.axis + " is");
    return static_cast<int>(evaluate_integer(*coordinate.limit, program_.known));
  }

  const tile::Program& program_;
  Kernel& kernel_;
  bool staged_ = false;
};

}  // namespace

tile::Program stage_tiles(const tile::Program& program, const Target&) {
  tile::Program out = program;
  for (Kernel& kernel : out.kernels) Stager(program, kernel).run();
  return out;
}

}  // namespace astatide
