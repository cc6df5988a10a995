#include "compiler/passes/split_masked_loops.h"

#include <algorithm>
#include <set>

#include "compiler/passes/mask_ranges.h"
#include "compiler/passes/names_in_kernel.h"
#include "compiler/support/contains.h"
#include "compiler/tile/bounds.h"

namespace astatide {
namespace {

using tile::Block;
using tile::Copy;
using tile::For;
using tile::Kernel;
using tile::Map;
using tile::Stmt;
using tile::Strip;
using tile::View;

/// What the masked maps of a loop's body say together.
struct LoopRange {
  std::optional<Expr> any_begin, any_end;    // of the iterations that some map sees an element in
  std::optional<Expr> full_begin, full_end;  // of those in which every map sees all
  bool masked = false;

  friend bool operator==(const LoopRange&, const LoopRange&) = default;
};

class Splitter {
 public:
  Splitter(const tile::Program& program, Kernel& kernel)
      : program_(program), kernel_(kernel), names_(names_in_kernel(program, kernel)) {}

  void run() {
    tile::walk(kernel_.body, [this](const Stmt& stmt) {
      const auto* loop = std::get_if<For>(&stmt.node);
      if (loop && is_innermost(*loop) && !can_skip(*loop)) whole_strips_.merge(strips(*loop, false));
    });
    kernel_.body = tile::transform_blocks(kernel_.body, [this](Block block) {
      Block out;
      for (Stmt& stmt : block) {
        const auto* loop = std::get_if<For>(&stmt.node);
        if (loop && loop->kind == For::Kind::serial && is_innermost(*loop))
          split(*loop, out);
        else
          out.push_back(std::move(stmt));
      }
      return out;
    });
  }

 private:
  static bool is_innermost(const For& loop) {
    bool nested = false;
    tile::walk(loop.body, [&](const Stmt& stmt) { nested = nested || std::get_if<For>(&stmt.node); });
    return !nested;
  }

  /// With `warpgroup` that of its rows.
  LoopRange range_of(const For& loop, const std::optional<Expr>& warpgroup = {}) const {
    LoopRange out;
    std::vector<Expr> full_begins, full_ends, any_begins, any_ends;
    bool begins_everywhere = false, ends_everywhere = false;
    tile::walk(loop.body, [&](const Stmt& stmt) {
      const auto* map = std::get_if<Map>(&stmt.node);
      if (!map || !map->absent) return;
      const MaskRange range =
          warpgroup ? mask_range_of_warpgroup(*map, loop, program_, kernel_, *warpgroup, kernel_.warpgroups())
                    : mask_range(*map, loop, program_, kernel_);
      out.masked = true;
      full_begins.insert(full_begins.end(), range.full_begin.begin(), range.full_begin.end());
      full_ends.insert(full_ends.end(), range.full_end.begin(), range.full_end.end());
      const auto begin = tile::extreme(range.any_begin, Op::max), end = tile::extreme(range.any_end, Op::min);
      if (begin) any_begins.push_back(*begin);
      if (end) any_ends.push_back(*end);
      begins_everywhere = begins_everywhere || !begin;
      ends_everywhere = ends_everywhere || !end;
    });
    // Several maps: an iteration is empty only if all are.
    if (!begins_everywhere) out.any_begin = tile::extreme(any_begins, Op::min);
    if (!ends_everywhere) out.any_end = tile::extreme(any_ends, Op::max);
    out.full_begin = tile::extreme(full_begins, Op::max);
    out.full_end = tile::extreme(full_ends, Op::min);
    return out;
  }

  /// Leaving out an iteration without elements changes nothing: what the body carries from one to the next are
  /// reductions, and a view that it stores it has loaded (state in memory). Strips are allowed, their readers follow
  /// the range.
  static bool can_skip(const For& loop) {
    std::vector<View> loaded;
    bool skip = true;
    tile::walk(loop.body, [&](const Stmt& stmt) {
      const auto* copy = std::get_if<Copy>(&stmt.node);
      if (!copy) return;
      if (const auto* from = std::get_if<View>(&copy->src)) loaded.push_back(*from);
      if (const auto* to = std::get_if<View>(&copy->dst))
        skip = skip && std::any_of(loaded.begin(), loaded.end(), [&](const View& view) {
                 return view.tensor == to->tensor && view.indices == to->indices;
               });
    });
    return skip;
  }

  static std::set<std::string> strips(const For& loop, bool written) {
    std::set<std::string> out;
    tile::walk(loop.body, [&](const Stmt& stmt) {
      const auto* copy = std::get_if<Copy>(&stmt.node);
      if (!copy) return;
      if (const auto* strip = std::get_if<Strip>(written ? &copy->dst : &copy->src)) out.insert(strip->tile);
    });
    return out;
  }

  Expr let(Block& out, const std::string& base, const Expr& value) {
    if (value.as<Variable>() || value.as<Integer>()) return value;
    const std::string name = names_.fresh(base);
    out.push_back({tile::Let{name, value}});
    return variable(name);
  }

  /// Whether warpgroups that compute the tile together see ranges that differ by an iteration or more.
  bool differ_between_warpgroups(const For& loop) const {
    if (kernel_.producers == 0 || kernel_.alternate || !tile::on_tensor_cores(loop.body)) return false;
    bool differ = false;
    tile::walk(loop.body, [&](const Stmt& stmt) {
      const auto* map = std::get_if<Map>(&stmt.node);
      if (!map || !map->absent) return;
      const int rows = kernel_.find(map->dst)->dims.front().extent / kernel_.warpgroups();
      for (const tile::Coordinate& coordinate : map->at)
        if (const auto origin = tile::linear_in(coordinate.origin, loop.var); origin && origin->factor > 0)
          differ = differ || rows * (kernel_.warpgroups() - 1) >= origin->factor;
    });
    return differ;
  }

  /// Of the parts of a loop's range, the end of each.
  struct Parts {
    Expr begin, end, full_begin, full_end;
  };

  /// The same for the rows of a warpgroup alone, inside the range of all. While there is any iteration it has one,
  /// which the first one that is peeled may be.
  void add_own_parts(const For& loop, const LoopRange& range_of_all, const Parts& all, Block& out) {
    const std::string warpgroup = kernel_.warpgroup.empty() ? names_.fresh("warpgroup") : kernel_.warpgroup;
    const LoopRange range = range_of(loop, variable(warpgroup));
    if (range == range_of_all) return;
    const auto own = [&](const Expr& of_all, const Expr& value) {
      const auto* name = of_all.as<Variable>();
      if (!name || value == of_all) return of_all;
      const std::string fresh = names_.fresh(name->name + "_own");
      out.push_back({tile::Let{fresh, of_all, value}});
      return variable(fresh);
    };
    kernel_.warpgroup = warpgroup;
    Expr end = all.end, begin = all.begin;
    if (range.any_end) end = own(all.end, max(all.begin, min(all.end, *range.any_end)));
    if (range.any_begin) begin = own(all.begin, min(max(all.begin, *range.any_begin), max(all.begin, end - 1)));
    Expr full_begin = begin;
    if (range.full_begin) full_begin = own(all.full_begin, min(max(begin, *range.full_begin), end));
    if (range.full_end) own(all.full_end, max(full_begin, min(end, *range.full_end)));
  }

  void split(const For& loop, Block& out) {
    LoopRange range = range_of(loop);
    const std::set<std::string> written = strips(loop, true);
    const bool skip = can_skip(loop) && std::none_of(written.begin(), written.end(), [&](const std::string& strip) {
                        return whole_strips_.contains(strip);
                      });
    Expr begin = loop.begin, end = loop.end;
    if (range.masked && skip) {
      if (range.any_end) end = let(out, loop.var + "_end", max(loop.begin, min(loop.end, *range.any_end)));
      if (range.any_begin) begin = let(out, loop.var + "_begin", min(max(loop.begin, *range.any_begin), end));
    }
    if (!range.masked && skip) follow_strips(loop, begin, end);
    for (const std::string& strip : written) written_[strip] = {loop.end, begin, end};

    if (!range.full_begin && !range.full_end) return add_part(out, loop, begin, end, loop.body, loop.note);
    Expr full_begin = begin, full_end = end;
    if (range.full_begin) full_begin = let(out, loop.var + "_full", min(max(begin, *range.full_begin), end));
    if (range.full_end) full_end = let(out, loop.var + "_full_end", max(full_begin, min(end, *range.full_end)));
    if (range.masked && skip && differ_between_warpgroups(loop))
      add_own_parts(loop, range, {begin, end, full_begin, full_end}, out);
    Block parts;
    if (range.full_begin) add_part(parts, loop, begin, full_begin, loop.body, "partial");
    add_part(parts, loop, full_begin, full_end, full_body(loop), "full");
    if (range.full_end) add_part(parts, loop, full_end, end, loop.body, "partial");
    if (loop.descending) std::reverse(parts.begin(), parts.end());
    for (Stmt& part : parts) out.push_back(std::move(part));
  }

  /// Outside the range of the loop that wrote a strip its elements are absent: readers leave them out too.
  void follow_strips(const For& loop, Expr& begin, Expr& end) const {
    for (const std::string& strip : strips(loop, false)) {
      const auto found = written_.find(strip);
      if (found == written_.end() || !(found->second.loop_end == loop.end)) continue;
      begin = found->second.begin;
      end = found->second.end;
    }
  }

  static void add_part(Block& out, const For& loop, const Expr& begin, const Expr& end, Block body,
                       const std::string& note) {
    For part = loop;
    part.begin = begin;
    part.end = end;
    part.body = std::move(body);
    part.note = note;
    out.push_back({std::move(part)});
  }

  /// Of the loop's axis, in full iterations: places that no element of any row reaches. What masked maps say for all
  /// rows of a tile they say for its first, which is a row of the tensor.
  std::map<std::string, std::vector<Expr>> full_ends(const For& loop) const {
    std::map<std::string, tile::Bounds> rows;
    tile::walk(loop.body, [&](const Stmt& stmt) {
      const auto* mma = std::get_if<tile::Mma>(&stmt.node);
      const auto* view = mma ? std::get_if<View>(&mma->lhs) : nullptr;
      if (!view) return;
      for (const tile::Coordinate& coordinate : view->at) {
        if (!coordinate.limit) continue;
        Expr length = *coordinate.limit;  // the first of those that it is the least of
        while (length.is_call(Op::min)) length = Expr(length.as<Call>()->args[0]);
        rows.insert_or_assign(coordinate.axis, tile::Bounds{Expr(0), length - 1});
      }
    });
    std::map<std::string, std::vector<Expr>> out;
    tile::walk(loop.body, [&](const Stmt& stmt) {
      const auto* map = std::get_if<Map>(&stmt.node);
      if (!map || !map->absent) return;
      const MaskRange range = mask_range(*map, loop, program_, kernel_);
      for (const std::string& axis : range.whole_axes)
        for (const Expr& inequality : range.hold)
          if (const auto end = tile::end_along(axis, inequality, rows)) out[axis].push_back(*end);
    });
    return out;
  }

  /// Whether elements before each of `ends` are before the limit, which may be the least of several.
  static bool lies_within(const Expr& limit, const std::vector<Expr>& ends) {
    if (contains(ends, tile::collect_terms(limit))) return true;
    if (limit.is_call(Op::min))
      return lies_within(limit.as<Call>()->args[0], ends) && lies_within(limit.as<Call>()->args[1], ends);
    return false;
  }

  /// The body where every element is visible.
  Block full_body(const For& loop) const {
    const std::map<std::string, std::vector<Expr>> ends = full_ends(loop);
    const auto unlimited = [&](View view) {
      for (tile::Coordinate& coordinate : view.at)
        if (const auto reached = ends.find(coordinate.axis); reached != ends.end() && coordinate.limit)
          if (lies_within(*coordinate.limit, reached->second)) coordinate.limit.reset();
      return view;
    };
    return tile::transform_blocks(loop.body, [&](Block block) {
      Block out;
      for (Stmt& stmt : block) {
        if (auto* map = std::get_if<Map>(&stmt.node); map && map->absent) {
          const MaskRange range = mask_range(*map, loop, program_, kernel_);
          simplify(*map, range);
          // What is left of a map that only masked its own tile.
          if (!map->absent && map->value == variable(map->dst)) continue;
        } else if (auto* copy = std::get_if<Copy>(&stmt.node)) {
          if (const auto* view = std::get_if<View>(&copy->src)) copy->src = unlimited(*view);
        } else if (auto* mma = std::get_if<tile::Mma>(&stmt.node)) {
          for (tile::Operand* operand : {&mma->lhs, &mma->rhs})
            if (const auto* view = std::get_if<View>(operand)) *operand = unlimited(*view);
        }
        out.push_back(std::move(stmt));
      }
      return out;
    });
  }

  /// Whether what holds in full iterations keeps a coordinate of another axis than theirs inside its limit.
  static bool is_implied(const tile::Coordinate& coordinate, const Map& map, const MaskRange& range) {
    std::map<std::string, tile::Bounds> ranges;
    for (const tile::Coordinate& other : map.at)
      if (other.limit && contains(range.whole_axes, other.axis))
        ranges.insert_or_assign(other.axis, tile::Bounds{Expr(0), *other.limit - 1});
    return std::any_of(range.hold.begin(), range.hold.end(), [&](const Expr& inequality) {
      const auto end = tile::end_along(coordinate.axis, inequality, ranges);
      return end && *end == tile::collect_terms(*coordinate.limit);
    });
  }

  void simplify(Map& map, const MaskRange& range) const {
    map.where_predicates = range.residual;
    // Limits of rows are there for what is read; columns beyond theirs are absent.
    const bool reads = !map.where_predicates.empty() || !tensors_read(map.value).empty();
    const std::string& column = kernel_.find(map.dst)->dims.back().axis;
    bool limited = false;
    const Map before = map;
    for (tile::Coordinate& coordinate : map.at) {
      const bool is_row = !reads && !range.whole_axes.empty() && coordinate.axis != column;
      if (contains(range.whole_axes, coordinate.axis) || is_row ||
          (!reads && coordinate.limit && is_implied(coordinate, before, range)))
        coordinate.limit.reset();
      limited = limited || coordinate.limit;
    }
    if (map.where_predicates.empty() && !limited) map.absent.reset();
    std::set<std::string> used = free_variables(map.value);
    for (const Expr& predicate : map.where_predicates) used.merge(free_variables(predicate));
    std::erase_if(map.at, [&](const tile::Coordinate& c) { return !c.limit && !used.contains(c.axis); });
  }

  struct Written {
    Expr loop_end, begin, end;
  };

  const tile::Program& program_;
  Kernel& kernel_;
  FreshNames names_;
  std::map<std::string, Written> written_;
  std::set<std::string> whole_strips_;  // that a loop reads which runs for every tile
};

}  // namespace

tile::Program split_masked_loops(const tile::Program& program, const Target&) {
  tile::Program out = program;
  for (Kernel& kernel : out.kernels) Splitter(program, kernel).run();
  return out;
}

}  // namespace astatide
