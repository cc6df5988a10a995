#include "compiler/passes/stage_tiles.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "compiler/passes/loop_chains.h"
#include "compiler/passes/tma_boxes.h"
#include "compiler/support/contains.h"
#include "compiler/support/diagnostic.h"
#include "compiler/tile/cluster.h"
#include "compiler/tile/parameters.h"
#include "compiler/tile/synchronization.h"

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

constexpr int kStep = 16;  // elements of the contracted axis that one instruction of 16-bit tensor cores sums

/// Stages at one loop that start their copies equally far ahead.
using Group = std::vector<const Staging*>;

/// Loops over one variable that follow each other, as splitting leaves them: each begins where the one before it ends.
struct Chain {
  Expr begin, end;
  bool first = true, last = true;
  std::vector<View> views;  // that its products read
};

class Stager {
 public:
  Stager(const tile::Program& program, Kernel& kernel) : program_(program), kernel_(kernel) {}

  void run() {
    if (kernel_.cluster) find_shared_tensors();
    // Rings first: what is staged around their loop is then under way together with their first slots.
    std::vector<Group> groups;
    for (const bool rings : {true, false})
      for (const Staging& staging : kernel_.stagings) {
        if (is_ahead(staging) != rings) continue;
        const auto together = std::find_if(groups.begin(), groups.end(), [&](const Group& group) {
          return rings && group.front()->at == staging.at && group.front()->ring == staging.ring;
        });
        if (together != groups.end())
          together->push_back(&staging);
        else
          groups.push_back({&staging});
      }
    for (const Group& group : groups) {
      staged_.clear();
      if (is_loop(group.front()->at))
        kernel_.body = in_loops(kernel_.body, group);
      else
        for (const Staging* staging : group) kernel_.body = stage_block(kernel_.body, *staging);
      for (const Staging* staging : group)
        if (!staged_.contains(staging->tensor))
          throw UserError(fmt::format("{}: stage_at: no product of kernel {} reads a tile of {} at that loop",
                                      staging->tensor, kernel_.name, staging->tensor),
                          {"leave the directive out, or name the loop of the product that reads it"});
    }
    kernel_.stagings.clear();
  }

 private:
  /// Those of which all blocks of a cluster read the same tiles.
  void find_shared_tensors() {
    const tile::AlikeInCluster alike(kernel_);
    std::set<std::string> others;
    tile::walk(kernel_.body, [&](const Stmt& stmt) {
      const auto* mma = std::get_if<Mma>(&stmt.node);
      if (!mma) return;
      for (const tile::Operand* operand : {&mma->lhs, &mma->rhs})
        if (const auto* view = std::get_if<View>(operand))
          (alike.holds(*view) ? shared_by_blocks_ : others).insert(view->tensor);
    });
    for (const std::string& tensor : others) shared_by_blocks_.erase(tensor);
  }

  void check_shares(const std::string& tensor, const Mem& tile) const {
    // After so many rows the swizzle of panels begins anew.
    const int least = 8 * kernel_.cluster->blocks;
    const Dim& rows = tile.dims[0];
    if (rows.extent % least == 0) return;
    throw UserError(kernel_.cluster->where,
                    fmt::format("cluster: a tile of {} has {} rows along {}, shares of {} blocks need a multiple of {}",
                                tensor, rows.extent, rows.axis, kernel_.cluster->blocks, least),
                    {fmt::format("tiles of {} along {} would do", (rows.extent / least + 1) * least, rows.axis)});
  }

  /// By warps of its own, which run ahead as far as slots are free.
  static bool is_produced(const Staging& staging) { return staging.via == tile::Via::tma; }
  bool is_ahead(const Staging& staging) const { return staging.ring > 1 && is_loop(staging.at); }

  bool refills_at_once() const { return kernel_.threads() == tile::kWarp; }

  bool is_loop(const std::string& var) const {
    bool found = false;
    tile::walk(kernel_.body, [&](const Stmt& stmt) {
      if (const auto* loop = std::get_if<For>(&stmt.node)) found = found || loop->var == var;
    });
    return found;
  }

  static bool follows(const For& before, const For& after) {
    return adjoin(before, after) && before.kind != For::Kind::unrolled && after.kind != For::Kind::unrolled;
  }

  static std::vector<View> views_of(const For& loop, const std::string& tensor) {
    std::vector<View> out;
    tile::walk(loop.body, [&](const Stmt& stmt) {
      if (const auto* mma = std::get_if<Mma>(&stmt.node))
        for (const tile::Operand* operand : {&mma->lhs, &mma->rhs})
          if (const auto* view = std::get_if<View>(operand); view && view->tensor == tensor) out.push_back(*view);
    });
    return out;
  }

  /// Of the chain that the loop at `position` belongs to, the loops around it that read tiles of the tensor. What
  /// stands between its loops is of no matter.
  static Chain chain_at(const Block& block, std::size_t position, const std::string& tensor) {
    const For& loop = std::get<For>(block[position].node);
    Chain chain{loop.begin, loop.end, true, true, views_of(loop, tensor)};
    const auto joins = [&](const For& of) {
      const std::vector<View> views = views_of(of, tensor);
      chain.views.insert(chain.views.end(), views.begin(), views.end());
      return !views.empty();
    };
    const For* last = &loop;
    for (std::size_t n = position + 1; n < block.size(); ++n)
      if (const auto* next = std::get_if<For>(&block[n].node); next && follows(*last, *next) && joins(*next))
        last = next;
    const For* first = &loop;
    for (std::size_t n = position; n-- > 0;)
      if (const auto* before = std::get_if<For>(&block[n].node); before && follows(*before, *first) && joins(*before))
        first = before;
    chain.first = first == &loop;
    chain.last = last == &loop;
    (loop.descending ? chain.begin : chain.end) = loop.descending ? last->begin : last->end;
    (loop.descending ? chain.end : chain.begin) = loop.descending ? first->end : first->begin;
    return chain;
  }

  /// Whether the loop may have a next iteration, of its own or of one that follows it, to start copies for.
  static bool runs_on(const Block& block, std::size_t position, const Group& group) {
    if (std::get<For>(block[position].node).kind != For::Kind::once) return true;
    return std::any_of(group.begin(), group.end(), [&](const Staging* staging) {
      const Chain chain = chain_at(block, position, staging->tensor);
      return !(chain.first && chain.last);
    });
  }

  Block in_loops(const Block& block, const Group& group) {
    Block out;
    for (std::size_t n = 0; n < block.size(); ++n) {
      const Stmt& stmt = block[n];
      if (const auto* loop = std::get_if<For>(&stmt.node)) {
        For copy = *loop;
        if (loop->var != group.front()->at)
          copy.body = in_loops(loop->body, group);
        else if (!is_produced(*group.front()) && is_ahead(*group.front()) && runs_on(block, n, group))
          stage_ahead(copy, block, n, group, out);
        else
          for (const Staging* staging : group) copy.body = stage_block(copy.body, *staging);
        out.push_back({copy});
      } else if (const auto* branch = std::get_if<If>(&stmt.node)) {
        If copy = *branch;
        copy.body = in_loops(branch->body, group);
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
    bool summed = false;  // along the tile's rows
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
            same = found.insert(found.end(), {*view, declare(*view, *mma, staging, ring, found.size()),
                                              !kernel_.find(mma->dst)->has_axis(view->at.front().axis)});
          *operand = same->tile;
        }
      }
      return inner;
    });
    if (!found.empty()) staged_.insert(staging.tensor);
    return found;
  }

  /// Each tile is copied in front of its first reader, and waited for there.
  Block stage_block(const Block& block, const Staging& staging) {
    Block body = block;
    const std::vector<Staged> staged = replace_operands(body, staging, is_produced(staging) ? staging.ring : 1);
    Block out;
    std::set<std::string> copied;
    std::map<std::string, std::vector<std::string>> read_until;  // tiles, by the token of what reads them last
    for (std::size_t n = 0; n < body.size(); ++n) {
      Stmt& stmt = body[n];
      for (const Staged& s : staged)
        if (!copied.contains(s.tile) && reads(stmt, s.tile)) {
          if (is_produced(staging)) {
            stage_by_tma(s, staging, out);
            copied.insert(s.tile);
            continue;
          }
          Stmt copy = copy_of(s, staging);
          copied.insert(s.tile);
          if (staging.via == tile::Via::vector) {
            out.push_back(std::move(copy));
            continue;
          }
          const std::string token = std::get<tile::Copy>(copy.node).token = s.tile + "_copied";
          out.insert(refills_at_once() ? behind_first_slot(out) : out.end(), std::move(copy));
          out.push_back({tile::Await{token}});
        }
      std::vector<std::string> done;
      for (const Staged& s : staged)
        if (is_produced(staging) && reads(stmt, s.tile) &&
            std::none_of(body.begin() + static_cast<std::ptrdiff_t>(n) + 1, body.end(),
                         [&](const Stmt& later) { return reads(later, s.tile); }))
          done.push_back(s.tile);
      out.push_back(std::move(stmt));
      if (const auto* mma = std::get_if<Mma>(&out.back().node); mma && !mma->token.empty())
        read_until[mma->token] = std::exchange(done, {});
      if (const auto* await = std::get_if<tile::Await>(&out.back().node)) done = read_until[await->token];
      for (const std::string& name : done) out.push_back({tile::Release{name}});
    }
    return out;
  }

  /// Behind the first of the copies that fill a ring's slots at the end of a block: what is read in front of the ring
  /// then need not wait for all of them, and the ring's first tile not for its addresses.
  static Block::iterator behind_first_slot(Block& block) {
    const auto fills = [](const Stmt& stmt) {
      const auto* branch = std::get_if<If>(&stmt.node);
      return branch && tile::commits_copies(branch->body);
    };
    const auto first = std::find_if_not(block.rbegin(), block.rend(), fills).base();
    return first == block.end() ? first : first + 1;
  }

  /// TMA stops at the end of a tensor, not where a limit in front of that is. Of elements beyond that limit a sum takes
  /// none, so they become 0 in front of one; other products give what is masked behind them.
  void stage_by_tma(Staged staged, const Staging& staging, Block& out) const {
    const auto form = tile::tiled_view(staged.view, *kernel_.find(staged.tile));
    const Dim& tile_rows = kernel_.find(staged.tile)->dims[0];
    if (!form) throw_no_boxes(staged.view, tile_rows, staging);
    if (form->paged) {
      check_boxes(staged.view, tile_rows, form->paged->length, staging);
      if (shared_by_blocks_.contains(staged.view.tensor))
        throw UserError(
            kernel_.cluster->where,
            fmt::format("cluster: tma copies for several blocks what is one box, and {} lies in pages of {} rows",
                        staged.view.tensor, form->paged->length),
            {"leave cluster out"});
    }
    tile::Acquire acquire{staged.tile};
    tile::Coordinate& rows = staged.view.at.front();
    // Of a page that has a row in front of the limit all rows come.
    const Expr end = !form->paged ? form->end_of_rows(*program_.find_tensor(staged.view.tensor))
                     : rows.limit ? ceil_div(*rows.limit, Expr(form->paged->length)) * Expr(form->paged->length)
                                  : Expr(0);
    if (rows.limit && !(*rows.limit == end)) {
      if (staged.summed) acquire.at.push_back(rows);
      rows.limit = end;
    }
    out.push_back({tile::Reserve{staged.tile}});
    out.push_back(copy_of(staged, staging));
    out.push_back({std::move(acquire)});
  }

  /// A copy ahead may be of a tile that another loop of the chain reads: it keeps the limits that any of them has.
  static View limited(View view, const Chain& chain) {
    for (const View& other : chain.views) {
      if (other.tensor != view.tensor || other.indices != view.indices || other.at.size() != view.at.size()) continue;
      for (std::size_t n = 0; n < view.at.size(); ++n)
        if (view.at[n].axis == other.at[n].axis && view.at[n].origin == other.at[n].origin && !view.at[n].limit)
          view.at[n].limit = other.at[n].limit;
    }
    return view;
  }

  /// Of each slot that is read: acquire it, start a copy ahead, read it, release it. The first loop of a chain starts
  /// the first copies; its last has nothing to start towards its end.
  ///
  /// Where a warp meets by itself, which costs next to nothing, a slot is filled again as soon as it is released: all
  /// of a ring's slots are under way while threads wait for the next. Else the slot that was read last is filled in the
  /// next iteration, behind the meeting that stands there anyway, and one slot less is under way.
  void stage_ahead(For& loop, const Block& block, std::size_t position, const Group& group, Block& out) {
    // Tensors that the same loops of the chain read are copied under one condition.
    struct Together {
      Chain chain;
      std::vector<std::pair<Staged, const Staging*>> staged;
    };
    std::vector<Together> parts;
    for (const Staging* staging : group) {
      const std::vector<Staged> staged = replace_operands(loop.body, *staging, staging->ring);
      if (staged.empty()) continue;
      const Chain chain = chain_at(block, position, staging->tensor);
      auto part = std::find_if(parts.begin(), parts.end(), [&](const Together& other) {
        return other.chain.begin == chain.begin && other.chain.end == chain.end;
      });
      if (part == parts.end()) part = parts.insert(parts.end(), {chain, {}});
      part->chain.views.insert(part->chain.views.end(), chain.views.begin(), chain.views.end());
      for (const Staged& s : staged) part->staged.emplace_back(s, staging);
    }
    const Expr var = variable(loop.var);
    const int distance = group.front()->ring - (refills_at_once() ? 0 : 1);
    const auto copies_at = [&](const Together& part, const Expr& index) {
      If branch;
      branch.condition = loop.descending ? less_equal(part.chain.begin, index) : less(index, part.chain.end);
      for (const auto& [s, staging] : part.staged)
        branch.body.push_back(copy_of({limited(s.view, part.chain), s.tile}, *staging));
      branch.body = tile::substitute(branch.body, {{loop.var, index}});
      return Stmt{branch};
    };
    for (const Together& part : parts)
      for (int n = 0; part.chain.first && n < distance; ++n)
        out.push_back(copies_at(part, loop.descending ? part.chain.end - 1 - n : part.chain.begin + n));
    Block body;
    for (const Together& part : parts)
      for (const auto& [s, staging] : part.staged)
        body.push_back({tile::Acquire{.tile = s.tile, .open = distance - 1}});
    const auto start_copies = [&] {
      for (const Together& part : parts)
        if (!(part.chain.last && loop.kind == For::Kind::once))
          body.push_back(copies_at(part, loop.descending ? var - distance : var + distance));
    };
    // Tensor cores work on while threads start copies, so they get their first product before.
    const auto product = std::find_if(loop.body.begin(), loop.body.end(), [](const Stmt& stmt) {
      const auto* mma = std::get_if<Mma>(&stmt.node);
      return mma && tile::on_tensor_cores(*mma);
    });
    const auto behind = product == loop.body.end() ? loop.body.begin() : product + 1;
    std::move(loop.body.begin(), behind, std::back_inserter(body));
    if (!refills_at_once()) start_copies();
    std::move(behind, loop.body.end(), std::back_inserter(body));
    for (const Together& part : parts)
      for (const auto& [s, staging] : part.staged) body.push_back({tile::Release{s.tile}});
    if (refills_at_once()) start_copies();
    loop.body = std::move(body);
  }

  Stmt copy_of(const Staged& staged, const Staging& staging) const {
    tile::Copy copy;
    copy.dst = staged.tile;
    copy.src = staged.view;
    copy.via = staging.via;
    copy.vector = staging.vector;
    copy.multicast = shared_by_blocks_.contains(staging.tensor);
    if (copy.multicast) check_shares(staging.tensor, *kernel_.find(staged.tile));
    if (is_produced(staging)) {
      const Mem& tile = *kernel_.find(staged.tile);
      copy.boxes = tile.dims[0].extent / tile::tiled_view(staged.view, tile)->rows_of_box(tile.dims[0].extent);
    }
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
    mem.type = type_of(view, mma, staging);
    for (const tile::Coordinate& coordinate : view.at)
      mem.dims.push_back({coordinate.axis, extent_of(coordinate, mma)});
    mem.space = staging.space;
    mem.ring = ring;
    mem.align = staging.align;
    if (staging.held && !contains(kernel_.holds, name)) kernel_.holds.push_back(name);
    if (const Mem* existing = kernel_.find(name)) {
      if (existing->dims != mem.dims) throw InternalError("stage_tiles: the name " + name + " is taken");
      return name;
    }
    kernel_.mems.push_back(std::move(mem));
    return name;
  }

  /// Multiply-adds read f32; tensor cores read what is in memory.
  ScalarType type_of(const View& view, const Mma& mma, const Staging& staging) const {
    const ScalarType type = program_.find_tensor(view.tensor)->type;
    if (!tile::on_tensor_cores(mma)) {
      if (staging.via != tile::Via::vector && type != ScalarType::f32)
        throw UserError(
            fmt::format("copy of {}: an asynchronous copy moves bytes as they are, and fma reads f32 while {} is {}",
                        view.tensor, view.tensor, name_of(type)),
            {"copy: vector, or mma: mma_sync"});
      return ScalarType::f32;
    }
    const bool taken = type == ScalarType::f16 || type == ScalarType::bf16 || (type == ScalarType::f32 && mma.tf32);
    if (!taken)
      throw UserError(fmt::format("mma: {} is {}, {} reads f16 or bf16", view.tensor, name_of(type), name_of(mma.by)),
                      {"--dtype bf16, or mma: fma"});
    return type;
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
    const int length = static_cast<int>(evaluate_integer(*coordinate.limit, program_.known));
    // What lies beyond the limit is absent, so zero.
    return tile::on_tensor_cores(mma) ? (length + kStep - 1) / kStep * kStep : length;
  }

  const tile::Program& program_;
  Kernel& kernel_;
  std::set<std::string> staged_;            // tensors
  std::set<std::string> shared_by_blocks_;  // tensors
};

}  // namespace

tile::Program stage_tiles(const tile::Program& program, const Target&) {
  tile::Program out = program;
  for (Kernel& kernel : out.kernels) Stager(program, kernel).run();
  return out;
}

}  // namespace astatide
