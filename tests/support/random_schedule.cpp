#include "tests/support/random_schedule.h"

#include <algorithm>
#include <vector>

#include "compiler/rewrite/cascade.h"
#include "compiler/support/diagnostic.h"

namespace astatide::testing {
namespace {

class Draw {
 public:
  Draw(const Algorithm& algorithm, const std::map<std::string, std::int64_t>& sizes, std::mt19937& random, int largest)
      : algorithm_(algorithm), cascade_(find_cascade(algorithm)), sizes_(sizes), random_(random), largest_(largest) {}

  /// Rows to spread over blocks, and an output with loops of its own.
  bool has_loops() const { return !cascade_.rows.empty() && !row_outputs().empty(); }

  Schedule schedule() {
    cuda_ = chance(2);
    online_ = chance(2);
    ScheduleBuilder builder(cuda_ ? "sm_80" : "cpu");
    builder.rewrite(online_ ? RewriteMode::online : RewriteMode::none);
    choose_rows();
    const Expr& extent = cascade_.axis_extents.at(cascade_.axis);
    if (const auto* name = extent.as<Variable>(); name && (!online_ || chance(5)))
      builder.bound(name->name, std::max<std::int64_t>(1, sizes_.at(name->name)));

    PlacementBuilder main = nest(main_output(), true);
    if (!split_.empty()) main.split({{split_, {"outer", "inner"}}});
    if (!fused_.empty()) main.fuse({{"fused", fused_}});
    for (const Func& func : algorithm_.define)
      if (has_place(func.name) && !chance(8)) placed_.insert(func.name);
    for (const Func& func : algorithm_.define)
      if (placed_.contains(func.name)) builder.place(inner(func.name));
    builder.place(main);
    for (const Input& input : algorithm_.inputs)
      if (is_operand(input.name)) builder.place(staged(input.name));
    return builder.build();
  }

 private:
  /// Those of the algorithm, or two of them in one, perhaps after one was split.
  void choose_rows() {
    rows_ = cascade_.rows;
    split_.clear();
    fused_.clear();
    if (rows_.size() < 2 || !chance(4)) return;
    std::shuffle(rows_.begin(), rows_.end(), random_);
    if (chance(2)) {
      split_ = rows_.front();
      rows_.front() = "outer";
      rows_.push_back("inner");
    }
    fused_.assign(rows_.end() - 2, rows_.end());
    rows_.resize(rows_.size() - 2);
    rows_.push_back("fused");
  }

  bool chance(int in) { return std::uniform_int_distribution<int>(0, in - 1)(random_) == 0; }
  template <class T>
  T pick(const std::vector<T>& from) {
    return from[std::uniform_int_distribution<std::size_t>(0, from.size() - 1)(random_)];
  }
  int tile() {
    std::vector<int> sizes;
    for (const int size : {1, 2, 3, 4, 8, 12, 16, 24, 32, 64})
      if (size <= largest_) sizes.push_back(size);
    return pick(sizes);
  }

  /// Values along the axis that hold a product or read reductions; others are computed where they are read.
  bool has_place(const std::string& name) const {
    for (const Element& element : cascade_.elements)
      if (element.name == name) return element.product.has_value() || name == "P";
    for (const RowValue& value : cascade_.values)
      if (value.name == name)
        return std::find(value.indices.begin(), value.indices.end(), cascade_.axis) != value.indices.end();
    return false;
  }

  std::vector<std::string> row_outputs() const {
    std::vector<std::string> rows;
    for (const std::string& output : algorithm_.outputs) {
      const auto& indices = algorithm_.find_func(output)->indices;
      if (std::find(indices.begin(), indices.end(), cascade_.axis) == indices.end()) rows.push_back(output);
    }
    return rows;
  }
  std::string main_output() { return pick(row_outputs()); }

  bool is_operand(const std::string& input) const {
    bool found = false;
    for (const Element& element : cascade_.elements)
      if (element.product)
        found = found || tensors_read(element.product->lhs).contains(input) ||
                tensors_read(element.product->rhs).contains(input);
    for (const Stage& stage : cascade_.stages)
      visit(stage.term, [&](const Expr& e) {
        const auto* read = e.as<Read>();
        if (!read || read->tensor != input || stage.extra.empty()) return;
        found = found || free_variables(e).contains(stage.extra.front());
      });
    return found;
  }

  /// Tiles, loops, blocks and threads.
  PlacementBuilder nest(const std::string& name, bool reduces) {
    PlacementBuilder out(name);
    AxisNumbers tiles;
    std::vector<LoopName> order;
    for (std::size_t n = 0; n < rows_.size(); ++n) {
      const bool tiled = n + 1 == rows_.size();
      if (tiled) tiles.emplace_back(rows_[n], tile());
      order.push_back(rows_[n] + (tiled ? ".o" : ""));
    }
    tiles.emplace_back(cascade_.axis, tile());
    out.tile(tiles);
    const LoopName column = cascade_.axis + ".o";
    const bool last = !online_ || chance(2);
    std::size_t at = order.size();
    if (reduces && !last) at = std::uniform_int_distribution<std::size_t>(0, order.size())(random_);
    std::vector<LoopName> outer(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(at));
    if (!reduces && chance(2)) {
      outer.push_back(column);
      at = order.size();
    }
    if (outer.empty()) {
      outer.push_back(order.front());
      at = std::max<std::size_t>(at, 1);
    }
    std::size_t blocks = std::uniform_int_distribution<std::size_t>(1, outer.size())(random_);
    order.insert(order.begin() + static_cast<std::ptrdiff_t>(at), column);
    if (reduces && online_ && at >= blocks && chance(3)) {
      const LoopName parts = cascade_.axis + ".s";
      const auto place = static_cast<std::ptrdiff_t>(std::uniform_int_distribution<std::size_t>(0, blocks)(random_));
      order.insert(order.begin() + place, parts);
      const std::int64_t tile = out.placement().tile_of(cascade_.axis).value_or(1);
      out.rfactor(pick<AxisParts>({{cascade_.axis, parts, std::uniform_int_distribution<int>(2, 9)(random_)},
                                   {cascade_.axis, parts, 0, tile * std::uniform_int_distribution<int>(1, 3)(random_)},
                                   {cascade_.axis, parts}}));
      if (chance(2)) out.merge(MergeBy::last_block);
      ++blocks;
      ++at;
    }
    out.reorder(order);
    if (at >= blocks && chance(3)) out.descending({column});
    loops_ = order;
    first_place_ = blocks - 1;
    std::vector<LoopName> grid(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(blocks));
    std::reverse(grid.begin(), grid.end());
    if (cuda_) {
      out.gpu_blocks(grid);
      const auto threads = pick<std::pair<int, int>>({{16, 16}, {8, 8}, {32, 4}, {2, 32}, {4, 8}, {64, 1}});
      out.threads(threads.first, threads.second);
    } else {
      out.parallel(grid);
    }
    return out;
  }

  PlacementBuilder inner(const std::string& name) {
    if (!online_ && chance(2)) {
      const std::vector<LoopName> main_loops = loops_;
      const std::size_t first_place = first_place_;
      PlacementBuilder out = nest(name, name_reduces(name));
      loops_ = main_loops;
      first_place_ = first_place;
      return out.compute_root();
    }
    PlacementBuilder out(name);
    const LoopName innermost = loops_.back();
    const LoopName around = loops_.size() > 1 ? loops_[loops_.size() - 2] : innermost;
    const bool strip = !online_ && chance(2);
    out.compute_at(strip ? around : innermost);
    out.store_in(strip || name == "P" || chance(2) ? Space::shared : Space::register_file);
    // Where the scores are the weights themselves, the next tile's would overwrite what the delayed product reads.
    if (online_ && name == "S" && placed_.contains("P") && chance(3)) {
      const int whole = pick<int>({1, 2, 4});
      out.overlap(std::uniform_int_distribution<int>(0, whole)(random_), whole);
    }
    return out;
  }

  bool name_reduces(const std::string& name) const {
    return std::none_of(cascade_.elements.begin(), cascade_.elements.end(),
                        [&](const Element& element) { return element.name == name; });
  }

  PlacementBuilder staged(const std::string& name) {
    PlacementBuilder out(name);
    // At the innermost loop every tile is chosen; further out only some are.
    const std::size_t place =
        chance(2) ? loops_.size() - 1
                  : std::uniform_int_distribution<std::size_t>(first_place_, loops_.size() - 1)(random_);
    out.stage_at(loops_[place]).store_in(Space::shared);
    if (!cuda_) return out;
    if (chance(4)) out.ring_buffer(std::uniform_int_distribution<int>(2, 3)(random_));
    if (chance(4)) out.vectorize(pick<int>({1, 2, 4}));
    return out;
  }

  const Algorithm& algorithm_;
  const Cascade cascade_;
  const std::map<std::string, std::int64_t>& sizes_;
  std::mt19937& random_;
  std::set<std::string> placed_;
  std::vector<std::string> rows_, fused_;  // of the schedule under construction
  std::string split_;
  const int largest_;
  bool cuda_ = false, online_ = true;
  std::vector<LoopName> loops_;  // of the main output
  std::size_t first_place_ = 0;  // of those, the innermost that is spread over blocks
};

}  // namespace

std::optional<Schedule> random_schedule(const Algorithm& algorithm, const std::map<std::string, std::int64_t>& sizes,
                                        std::mt19937& random, int largest_tile) {
  Draw draw(algorithm, sizes, random, largest_tile);
  if (!draw.has_loops()) return std::nullopt;
  for (int n = 0; n < 2000; ++n) {
    Schedule schedule = draw.schedule();
    try {
      check_legal(schedule, algorithm, *find_target(schedule.target), sizes);
      return schedule;
    } catch (const UserError&) {
      // Illegal: drawn again.
    }
  }
  return std::nullopt;
}

}  // namespace astatide::testing
