// What is stored into inputs before anything reads them: a kernel for each update. A tile is one place of all axes but
// one, along which its elements lie; so what says whether elements are stored is the same for all of a tile.

#include <algorithm>
#include <numeric>

#include "compiler/support/contains.h"
#include "compiler/support/diagnostic.h"
#include "compiler/tile/bounds.h"
#include "compiler/tile/lower_elements.h"

namespace astatide::tile {
namespace {

/// A warp: each thread has neighbouring columns, up to a vector of 16 bytes.
constexpr int kThreadsOfUpdate = 32, kLeastColumns = 32, kMostColumns = 256, kColumnsOfUnknown = 128;

/// Elements of a tile: whole warps of them, as many as divide the axis where its length is known.
int columns_of(const Expr& extent, const std::map<std::string, std::int64_t>& known) {
  for (const std::string& name : free_variables(extent))
    if (!known.contains(name)) return kColumnsOfUnknown;
  const std::int64_t length = evaluate_integer(extent, known);
  if (length % kLeastColumns == 0 && length > 0) return static_cast<int>(std::gcd<std::int64_t>(length, kMostColumns));
  int columns = kLeastColumns;
  while (columns < length && columns < kColumnsOfUnknown) columns *= 2;
  return columns;
}

class UpdateLowering {
 public:
  UpdateLowering(Program& program, const Algorithm& algorithm, const LowerOptions& options)
      : program_(program), inputs_(algorithm), options_(options), kernels_(names_of_kernels(program)) {
    inputs_.define.clear();
    inputs_.outputs.clear();
    inputs_.output_dims.clear();
    schedule_.target = options.target.name;
    Diagnostics problems;  // a checked algorithm has none
    axis_extents_ = infer_axis_extents(algorithm, problems);
    problems.throw_if_any();
  }

  Kernel lower(const Func& update) {
    const std::string found = columns_axis(update);
    const bool is_single = found.empty();
    const std::string columns = is_single ? name_of_column(update) : found;
    const Expr extent = is_single ? Expr(1) : axis_extents_.at(columns);
    std::map<std::string, Expr> extents = axis_extents_;
    extents.insert_or_assign(columns, extent);
    const std::vector<std::string> rows = rows_of(update, columns);
    Lowering lowering(inputs_, schedule_, options_, columns, rows, std::move(extents), {});
    lowering.program.known = program_.known;
    for (const Tensor& tensor : program_.tensors)
      if (tensor.role != Tensor::Role::input) lowering.names.fresh(tensor.name);
    const Placement placement = placement_of(update, columns, is_single ? 1 : columns_of(extent, options_.known), rows);
    KernelBuilder builder(lowering, placement, kernels_.fresh(program_.name + "_update_" + update.name));
    return builder.finish(body_of(update, builder));
  }

 private:
  static FreshNames names_of_kernels(const Program& program) {
    std::set<std::string> names;
    for (const Kernel& kernel : program.kernels) names.insert(kernel.name);
    return FreshNames(std::move(names));
  }

  std::string name_of_column(const Func& update) const {
    std::set<std::string> taken = names_of(inputs_);
    taken.insert(update.indices.begin(), update.indices.end());
    return FreshNames(std::move(taken)).fresh("column");
  }

  bool is_ragged(const std::string& axis) const { return inputs_.lengths.contains(axis); }

  /// Whether what a tile stores is told by one place of the axis: a condition reads it, or a length.
  bool is_one_at_a_time(const Func& update, const std::string& axis) const {
    if (is_ragged(axis) || gives_lengths(update, axis)) return true;
    return update.where_predicate && free_variables(*update.where_predicate).contains(axis);
  }

  bool gives_lengths(const Func& update, const std::string& axis) const {
    return std::any_of(update.indices.begin(), update.indices.end(), [&](const std::string& other) {
      return is_ragged(other) && free_variables(inputs_.lengths.at(other)).contains(axis);
    });
  }

  /// The axis whose elements are neighbours in memory, or else any; empty where each element is a tile.
  std::string columns_axis(const Func& update) const {
    if (!update.stored.empty())
      for (const std::string& axis : update.indices)
        if (is_step_of(update.stored.back(), axis) && !is_one_at_a_time(update, axis)) return axis;
    for (auto place = update.stored.rbegin(); place != update.stored.rend(); ++place)
      if (const auto* axis = place->as<Variable>();
          axis && contains(update.indices, axis->name) && !is_one_at_a_time(update, axis->name))
        return axis->name;
    for (auto axis = update.indices.rbegin(); axis != update.indices.rend(); ++axis)
      if (!is_one_at_a_time(update, *axis)) return *axis;
    return "";
  }

  /// Whether neighbours along the axis have places beside each other.
  static bool is_step_of(const Expr& place, const std::string& axis) {
    if (!free_variables(place).contains(axis)) return false;
    return !free_variables(collect_terms(place - variable(axis))).contains(axis) ||
           !free_variables(collect_terms(place + variable(axis))).contains(axis);
  }

  /// Outermost first. Lengths are read at places of loops around.
  std::vector<std::string> rows_of(const Func& update, const std::string& columns) const {
    std::vector<std::string> rows;
    for (const std::string& axis : update.indices)
      if (axis != columns) rows.push_back(axis);
    std::stable_partition(rows.begin(), rows.end(), [&](const auto& axis) { return gives_lengths(update, axis); });
    return rows;
  }

  static Placement placement_of(const Func& update, const std::string& columns, int count,
                                const std::vector<std::string>& rows) {
    PlacementBuilder out(update.name);
    std::vector<LoopName> order = rows;
    order.push_back(columns + ".o");
    out.tile({{columns, count}}).reorder(order).threads(1, kThreadsOfUpdate);
    std::reverse(order.begin(), order.end());
    out.gpu_blocks(order);
    Placement placement = out.placement();
    placement.where = update.where;
    return placement;
  }

  static Block body_of(const Func& update, KernelBuilder& builder) {
    const std::vector<std::string> axes{builder.nest.row, builder.nest.column};
    const TileName tile = builder.declare(update.name + "_new", axes);
    Block body;
    if (const auto* read = update.value.as<Read>()) {
      body.push_back({Copy{tile, builder.view(*read, axes), Via::load, {}, 0}});
    } else {
      check_size(update.value, update.where);
      body.push_back({builder.map(tile, update.value)});
    }
    body.push_back({Copy{builder.view(Read{update.name, update.stored}, axes), tile, Via::store, {}, 0}});
    if (update.where_predicate) body = {where(*update.where_predicate, builder, std::move(body))};
    if (const auto present = within_lengths(builder.lowering.algorithm, update.indices))
      body = {where(*present, builder, std::move(body))};
    return body;
  }

  /// Places of what is not stored are not looked at: they may lead nowhere.
  static Stmt where(const Expr& condition, const KernelBuilder& builder, Block body) {
    std::map<std::string, Expr> at;
    if (const NestLoop* loop = builder.nest.over(builder.nest.row)) at.emplace(loop->axis, variable(loop->var));
    return {If{substitute(condition, at), If::Uniform::block, false, std::move(body)}};
  }

  const Program& program_;
  Algorithm inputs_;
  const LowerOptions& options_;
  FreshNames kernels_;
  Schedule schedule_;
  std::map<std::string, Expr> axis_extents_;
};

}  // namespace

void add_updates(Program& program, const Algorithm& algorithm, const LowerOptions& options) {
  std::vector<Kernel> kernels;
  UpdateLowering lowering(program, algorithm, options);
  for (const Func& update : algorithm.updates) kernels.push_back(lowering.lower(update));
  program.kernels.insert(program.kernels.begin(), std::make_move_iterator(kernels.begin()),
                         std::make_move_iterator(kernels.end()));
}

}  // namespace astatide::tile
