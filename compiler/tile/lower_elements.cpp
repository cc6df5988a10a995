#include "compiler/tile/lower_elements.h"

#include <algorithm>

#include "compiler/support/contains.h"
#include "compiler/support/diagnostic.h"

namespace astatide::tile {
namespace {

void append_new(std::vector<Expr>& out, const std::vector<Expr>& more) {
  for (const Expr& e : more)
    if (std::find(out.begin(), out.end(), e) == out.end()) out.push_back(e);
}

For loop_over(const NestLoop& loop, Block body) {
  return {loop.var, Expr(0), loop.count, For::Kind::serial, loop.descending, std::move(body), {}};
}

/// Whether the schedule wants both alike, or says nothing of one.
bool are_placed_alike(const Placement* a, const Placement* b) {
  if (a == nullptr || b == nullptr) return true;
  return !a->compute_root() && !b->compute_root() && a->compute_at() == b->compute_at() &&
         a->store_in() == b->store_in() && a->overlap() == b->overlap();
}

/// The reader's value with its product in place of its sum with `own`; none where it reads either otherwise.
std::optional<Expr> with_one_sum(const TiledElement& own, const TiledElement& reader) {
  if (!own.product || !reader.product || !own.where_predicates.empty() || !(own.value == variable(own.product_name)) ||
      !are_placed_alike(own.placement, reader.placement))
    return std::nullopt;
  const Expr first = variable(reader.product_name), second = variable(own.names.back());
  const Expr sum = variable("the sum");  // no name of an algorithm
  const Expr value = transform(reader.value, [&](const Expr& e) {
    const auto* add = e.is_call(Op::add) ? e.as<Call>() : nullptr;
    const bool is_sum =
        add && ((add->args[0] == first && add->args[1] == second) || (add->args[0] == second && add->args[1] == first));
    return is_sum ? sum : e;
  });
  const std::set<std::string> names = free_variables(value);
  if (names.contains(reader.product_name) || names.contains(own.names.back())) return std::nullopt;
  return substitute(value, {{"the sum", first}});
}

}  // namespace

bool TiledElement::holds(const std::string& name) const { return contains(names, name); }

void check_size(const Expr& e, const Location& where) {
  constexpr std::uint32_t kMost = 4096;
  if (e.tree_size() > kMost)
    throw UserError(where, "the expression has more than " + std::to_string(kMost) + " operations when it is inlined",
                    {"give the schedule a place for one of the definitions that it reads"});
}

std::vector<TiledElement> merge_elements(const std::vector<Element>& elements, const std::vector<Expr>& reads,
                                         const Schedule& schedule) {
  std::vector<TiledElement> out;
  for (const Element& e : elements)
    out.push_back({{e.name},
                   e.name,
                   e.product,
                   {},
                   e.name,
                   e.value,
                   e.where_predicates,
                   e.absent,
                   schedule.find(e.name),
                   e.where});
  for (std::size_t n = 0; n < out.size();) {
    const std::string name = out[n].names.back();
    const auto mentions = [&](const Expr& e) { return free_variables(e).contains(name); };
    std::vector<TiledElement*> readers;
    for (std::size_t m = n + 1; m < out.size(); ++m)
      if (mentions(out[m].value) ||
          std::any_of(out[m].where_predicates.begin(), out[m].where_predicates.end(), mentions))
        readers.push_back(&out[m]);
    const bool read_elsewhere = std::any_of(reads.begin(), reads.end(), mentions);
    TiledElement* reader = readers.size() == 1 && !read_elsewhere ? readers[0] : nullptr;
    const TiledElement& own = out[n];
    const bool in_condition =
        reader && std::any_of(reader->where_predicates.begin(), reader->where_predicates.end(), mentions);
    if (const auto sum = reader && !in_condition ? with_one_sum(own, *reader) : std::nullopt) {
      reader->value = *sum;
      reader->added.emplace_back(*own.product, own.placement);
      reader->names.insert(reader->names.begin(), own.names.begin(), own.names.end());
      out.erase(out.begin() + static_cast<std::ptrdiff_t>(n));
      continue;
    }
    const bool merges =
        reader && !(own.placement && reader->placement) && !(own.product && reader->product) && !in_condition;
    if (!merges) {
      ++n;
      continue;
    }
    // Where the earlier element is absent the later one is, too: its predicates contain the earlier one's.
    append_new(reader->where_predicates, own.where_predicates);
    reader->value = substitute(reader->value, {{name, own.value}});
    reader->names.insert(reader->names.begin(), own.names.begin(), own.names.end());
    check_size(reader->value, reader->where);
    if (own.product) {
      reader->product = own.product;
      reader->added = own.added;
      reader->product_name = own.product_name;
    }
    if (!reader->placement) {
      reader->placement = own.placement;
      reader->tile_name = own.tile_name;
    }
    out.erase(out.begin() + static_cast<std::ptrdiff_t>(n));
  }
  return out;
}

std::vector<Expr> predicates_of(const Expr& e, const std::vector<TiledElement>& elements) {
  std::vector<Expr> out;
  const std::set<std::string> read = free_variables(e);
  for (const TiledElement& element : elements)
    if (std::any_of(element.names.begin(), element.names.end(), [&](const auto& n) { return read.contains(n); }))
      append_new(out, element.where_predicates);
  return out;
}

KernelBuilder::KernelBuilder(Lowering& lowering_, const Placement& placement, std::string kernel_name)
    : KernelBuilder(lowering_, placement, std::move(kernel_name), lowering_.names) {}

KernelBuilder::KernelBuilder(KernelBuilder& within, const Placement& placement)
    : KernelBuilder(within.lowering, placement, within.kernel.name, within.names) {}

KernelBuilder::KernelBuilder(Lowering& lowering_, const Placement& placement, std::string kernel_name, FreshNames taken)
    : lowering(lowering_),
      names(std::move(taken)),
      nest(make_nest(lowering_, placement, names)),
      placement_(placement) {
  family_ = family();
  tf32_ = tf32();
  kernel.name = std::move(kernel_name);
  for (const LoopName& block : placement.blocks())
    if (const NestLoop* loop = nest.named(block)) kernel.tiles.push_back({loop->var, loop->count});
  // On the CPU a worker computes whole tiles, whatever threads a schedule of GPUs has.
  if (lowering.is_cuda()) {
    if (const auto threads = lowering.schedule.threads_of(placement)) {
      kernel.thread_rows = threads->first;
      kernel.thread_columns = threads->second;
    }
    // Roles take the place of threads that are written.
    if (!placement.threads()) {
      kernel.producers = lowering.schedule.warpgroups_of("producer");
      kernel.alternate = lowering.schedule.alternate;
    }
    kernel.persistent = placement.persistent();
    if (const Directive* cluster = placement.find(DirectiveKind::cluster))
      kernel.cluster = Cluster{kernel.tiles.front().var, placement.cluster(), cluster->where};
  }
  kernel.vector_lanes = placement.vectorize().value_or(0);
  if (const Directive* map = placement.find(DirectiveKind::mask_map)) kernel.mask_map = map->where;
}

Family KernelBuilder::family() const {
  if (placement_.mma() != Family::unset) return placement_.mma();
  for (const Placement& inner : lowering.schedule.placements)
    if (inner.compute_at() && inner.mma() != Family::unset) return inner.mma();
  return Family::unset;
}

bool KernelBuilder::tf32() const {
  const std::vector<Placement>& all = lowering.schedule.placements;
  return placement_.tf32() ||
         std::any_of(all.begin(), all.end(), [](const Placement& inner) { return inner.compute_at() && inner.tf32(); });
}

void KernelBuilder::choose_instructions(Mma& mma) const {
  if (!lowering.is_cuda()) return;
  mma.by = family_;
  mma.tf32 = tf32_ && lowering.program.find_tensor(std::get<View>(mma.rhs).tensor)->type == ScalarType::f32;
}

int KernelBuilder::extent_of(const std::string& axis) {
  if (axis == nest.row || axis == nest.column || nest.cut.contains(axis)) return nest.step_of(axis);
  return lowering.known_extent(axis);
}

TileName KernelBuilder::declare(const std::string& base, const std::vector<std::string>& axes, Space space) {
  Mem mem;
  mem.name = names.fresh(base);
  mem.space = space;
  for (const std::string& axis : axes) mem.dims.push_back({axis, extent_of(axis)});
  kernel.mems.push_back(mem);
  return mem.name;
}

TileName KernelBuilder::declare_once(const std::string& base, const std::vector<std::string>& axes, Space space) {
  const auto found = declared_.find(base);
  if (found != declared_.end()) return found->second;
  return declared_.emplace(base, declare(base, axes, space)).first->second;
}

bool KernelBuilder::covers_exactly(const std::string& axis) const {
  const Expr& extent = lowering.extent_of(axis);
  if (lowering.is_ragged(axis)) return false;
  for (const std::string& name : free_variables(extent))
    if (!lowering.program.known.contains(name)) return false;
  const std::int64_t length = evaluate_integer(extent, lowering.program.known);
  return nest.cut.contains(axis) ? length % nest.step_of(axis) == 0 : length == nest.columns;
}

Map KernelBuilder::map(const TileName& dst, const Expr& value, const std::vector<Expr>& predicates, double absent,
                       bool bounded) {
  Map out{dst, std::nullopt, renamed(value), {}, std::nullopt, {}};
  std::set<std::string> used = free_variables(out.value);
  for (const Expr& predicate : predicates) {
    out.where_predicates.push_back(renamed(predicate));
    used.merge(free_variables(out.where_predicates.back()));
  }
  for (const Dim& dim : kernel.find(dst)->dims) {
    const bool is_bound = bounded && dim.axis == nest.column;
    if (!used.contains(dim.axis) && !is_bound) continue;
    Coordinate c = coordinate(dim.axis);
    const auto read_along = [&](const Expr& e) { return reads_at(e, dim.axis); };
    // Beside the columns, elements beyond the last one are computed: nothing stores them.
    if (!is_bound && !read_along(out.value) &&
        std::none_of(out.where_predicates.begin(), out.where_predicates.end(), read_along))
      c.limit.reset();
    if (is_bound && !c.limit && !used.contains(dim.axis)) continue;
    if (is_bound && c.limit) {
      out.absent = absent;
      if (end_of_part) c.limit = end_of_part;
    }
    out.at.push_back(std::move(c));
  }
  if (!predicates.empty()) out.absent = absent;
  return out;
}

Map KernelBuilder::map_over_tiles(const TileName& dst, const Expr& value) {
  Map out{dst, std::nullopt, value, {}, std::nullopt, {}};
  const std::set<std::string> used = free_variables(value);
  for (const Dim& dim : kernel.find(dst)->dims) {
    if (!used.contains(dim.axis)) continue;
    out.at.push_back(coordinate(dim.axis));
    if (!reads_at(value, dim.axis)) out.at.back().limit.reset();
  }
  return out;
}

Expr KernelBuilder::without_coordinates(const Expr& e, Block& constants) {
  const std::set<std::string> used = free_variables(e);
  if (!used.contains(nest.row)) return e;
  const bool reads_tiles = std::any_of(kernel.mems.begin(), kernel.mems.end(), [&](const Mem& mem) {
    return used.contains(mem.name) || used.contains(new_value_name(mem.name));
  });
  if (reads_tiles) {
    std::vector<Expr> operands = children(e);
    for (Expr& operand : operands) operand = without_coordinates(operand, constants);
    return with_children(e, std::move(operands));
  }
  const auto [found, added] = row_constants_.try_emplace(e);
  if (added) {
    found->second = declare(e.as<Read>() ? e.as<Read>()->tensor + "_row" : "constant_row", {nest.row});
    constants.push_back({map_over_tiles(found->second, e)});
  }
  return variable(found->second);
}

void KernelBuilder::add_product(Block& block, const TileName& dst, const Product& product, const Placement* placement,
                                const Location& where, const std::vector<Expr>& predicates) {
  Mma mma;
  mma.dst = dst;
  mma.lhs = visible_operand(product.lhs, nest.row, product.axis, dst, where, predicates);
  mma.rhs = visible_operand(product.rhs, nest.column, product.axis, dst, where, predicates);
  lowering.known_extent(product.axis);
  choose_instructions(mma);
  if (placement) mma.unroll = placement->unroll_of(product.axis).value_or(0);
  if (const Directive* overlap = placement ? placement->find(DirectiveKind::overlap) : nullptr)
    kernel.overlap = Overlap{dst, *placement->overlap(), overlap->where};
  block.push_back({mma});
}

void KernelBuilder::add_element(Block& block, const TiledElement& element, bool kept_elsewhere) {
  const Placement* placement = kept_elsewhere ? nullptr : element.placement;
  const Space space = placement && !placement->compute_root() && placement->store_in() == Space::shared
                          ? Space::shared
                          : Space::register_file;
  const TileName tile = declare_once(element.tile_name, {nest.row, nest.column}, space);
  // A later definition in the same tile has no space that the schedule names.
  if (placement && placement->store_in() == Space::register_file && placement->name == element.names.back())
    fixed_.insert(tile);
  if (placement) set_alignment(tile, *placement);
  TileName result = tile;
  if (element.product) {
    // Multiply-adds of a GPU accumulate in registers, wherever the result goes.
    if (lowering.is_cuda() && space == Space::shared)
      result = declare_once(element.tile_name + "_acc", {nest.row, nest.column}, Space::register_file);
    add_product(block, result, *element.product, element.placement, element.where, element.where_predicates);
    for (const auto& [product, placement] : element.added) {
      add_product(block, result, product, placement, element.where, element.where_predicates);
      std::get<Mma>(block.back().node).accumulate = true;
    }
  }
  const auto before = values;
  if (element.product) values.insert_or_assign(element.product_name, variable(result));
  Map value = map(tile, element.value, element.where_predicates, element.absent, true);
  values = before;
  set_polynomial(value, element.placement);
  const bool is_copy = value.value == variable(tile) && !value.absent;
  if (!is_copy) block.push_back({std::move(value)});
  for (const std::string& name : element.names) values.insert_or_assign(name, variable(tile));
}

TileName KernelBuilder::add_term(Block& block, const std::string& name, const Expr& term, bool masked, Reduction op,
                                 const std::vector<Expr>& predicates) {
  const Expr value = renamed(term);
  if (const auto* v = value.as<Variable>(); v && !masked)
    if (const Mem* mem = kernel.find(v->name); mem && mem->has_axis(nest.column)) return v->name;
  const std::pair<Expr, double> key{value, masked ? unit_of(op) : 0};
  if (!masked)
    if (const auto found = terms_.find(key); found != terms_.end()) return found->second;
  check_size(value, nest.where);
  const TileName tile = declare_once(name + "_term", {nest.row, nest.column});
  block.push_back({map(tile, term, masked ? predicates : std::vector<Expr>{}, unit_of(op), masked)});
  if (!masked) terms_.emplace(key, tile);
  return tile;
}

void KernelBuilder::add_weight(Block& block, const Weight& weight, bool only_operand) {
  const Placement* placement = lowering.schedule.find(weight.name);
  for (const std::string& name : weight.replaces)
    if (!placement) placement = lowering.schedule.find(name);
  Space space = Space::register_file;
  // Beside a product a reduction reads it: computed in registers, then copied for the product.
  if (placement && placement->store_in() == Space::shared && (only_operand || !lowering.is_cuda()))
    space = Space::shared;
  // What tensor cores read from registers a core of the CPU reads from its workspace.
  if (!lowering.is_cuda() && names_tensor_cores()) space = Space::shared;
  const TileName tile = declare_once(weight.name, {nest.row, nest.column}, space);
  if (placement && placement->store_in() == Space::register_file) fixed_.insert(tile);
  if (placement) set_alignment(tile, *placement);
  check_size(renamed(weight.value), weight.where);
  Map value = map(tile, weight.value);
  set_polynomial(value, placement);
  block.push_back({std::move(value)});
  values.insert_or_assign(weight.name, variable(tile));
}

TileName KernelBuilder::as_operand(Block& block, const TileName& tile, const std::string& tensor) {
  if (on_tensor_cores()) {
    const TileName narrow = declare_once(tile + "_h", {nest.row, nest.column}, Space::register_file);
    kernel.find(narrow)->type = lowering.program.find_tensor(tensor)->type;
    block.push_back({Copy{narrow, tile, Via::unset, {}, 0}});
    return narrow;
  }
  if (!lowering.is_cuda() || fixed_.contains(tile)) return tile;
  if (kernel.find(tile)->space != Space::register_file) return tile;
  if (const auto found = operand_copies_.find(tile); found != operand_copies_.end()) return found->second;
  const TileName copy = declare_once(tile + "_s", {nest.row, nest.column}, Space::shared);
  if (const Placement* placement = lowering.schedule.find(tile)) set_alignment(copy, *placement);
  block.push_back({map(copy, variable(tile))});
  operand_copies_.emplace(tile, copy);
  return copy;
}

void KernelBuilder::set_polynomial(Map& map, const Placement* placement) const {
  const Directive* directive = placement ? placement->find(DirectiveKind::exp2) : nullptr;
  if (!directive || !lowering.is_cuda()) return;
  if (!has_exponential(map.value))
    throw UserError(directive->where,
                    "exp2 of " + placement->name + ": its tile is " + to_string(map.value) +
                        ", which holds no exponential, so it would have no effect",
                    {"leave it out"});
  map.polynomial = placement->exp2();
}

void KernelBuilder::set_alignment(const TileName& tile, const Placement& placement) {
  Mem& mem = *kernel.find(tile);
  if (mem.space != Space::shared) return;
  mem.align.clear();
  for (const Dim& dim : mem.dims)
    if (const auto multiple = placement.align_storage_of(dim.axis)) mem.align.emplace_back(dim.axis, *multiple);
}

void KernelBuilder::add_product_of_term(Block& block, const TileName& acc, const TileName& lhs, const Expr& factor,
                                        const std::string& of, const Location& where,
                                        const std::vector<Expr>& predicates) {
  const Mem& mem = *kernel.find(acc);
  if (mem.dims.size() != 2) throw InternalError(acc + " is no tile of two axes");
  Mma mma;
  mma.dst = acc;
  mma.accumulate = true;
  const std::string extra = mem.dims[1].axis;
  mma.rhs = visible_operand(factor, nest.column, extra, of, where, predicates);
  mma.lhs = as_operand(block, lhs, std::get<View>(mma.rhs).tensor);
  choose_instructions(mma);
  if (const Placement* placement = lowering.schedule.find(of))
    mma.unroll = placement->unroll_of(nest.column).value_or(0);
  block.push_back({mma});
}

void KernelBuilder::add_output(Block& block, const RowValue& value) {
  const std::vector<std::string> axes = tile_axes(value.indices);
  if (axes.size() > 2)
    throw UserError(value.where,
                    value.name + " has the axes " + axes[1] + " and " + axes[2] + " beyond the rows, a tile has one");
  const Expr finished = renamed(value.value);
  check_size(finished, value.where);
  TileName tile;
  const auto* v = finished.as<Variable>();
  const Mem* held = v ? kernel.find(v->name) : nullptr;
  // As it is, unless the output repeats it along an axis of its own.
  const bool fits = held && held->dims.size() == axes.size() &&
                    std::equal(axes.begin(), axes.end(), held->dims.begin(),
                               [](const std::string& axis, const Dim& dim) { return axis == dim.axis; });
  if (fits && value.where_predicates.empty()) {
    tile = held->name;
  } else {
    tile = declare(value.name + "_tile", axes);
    block.push_back({map(tile, value.value, value.where_predicates, 0)});
  }
  const Placement* placement = lowering.schedule.find(value.name);
  const bool by_tma = placement && placement->copy() == CopyPath::tma && lowering.is_cuda();
  const bool ragged = std::any_of(axes.begin(), axes.end(), [&](const auto& axis) { return lowering.is_ragged(axis); });
  const Func* func = lowering.algorithm.find_func(value.name);
  if (by_tma && (ragged || (func && !func->stored.empty())))
    throw UserError(placement->find(DirectiveKind::copy)->where,
                    "copy of " + value.name +
                        ": tma stores whole tiles, and behind the last row of an item lie rows of " + value.name +
                        " that are not its own",
                    {"leave it out"});
  block.push_back({Copy{view(value), tile, by_tma ? Via::tma : Via::store, {}, 0}});
}

Block KernelBuilder::inside_loops(Block block, const std::vector<const NestLoop*>& loops) const {
  for (auto loop = loops.rbegin(); loop != loops.rend(); ++loop) block = {Stmt{loop_over(**loop, std::move(block))}};
  return block;
}

std::vector<const NestLoop*> KernelBuilder::loops_outside() const {
  std::vector<const NestLoop*> out;
  for (const NestLoop& loop : nest.loops) {
    if (loop.axis == nest.column) break;
    if (!loop.grid) out.push_back(&loop);
  }
  return out;
}

std::vector<const NestLoop*> KernelBuilder::loops_inside() const {
  std::vector<const NestLoop*> out;
  bool inside = false;
  for (const NestLoop& loop : nest.loops) {
    if (inside && !loop.grid) out.push_back(&loop);
    inside = inside || loop.axis == nest.column;
  }
  return out;
}

Stmt KernelBuilder::reduced_loop(Block body) const {
  const NestLoop* loop = nest.over(nest.column);
  For out = loop_over(*loop, std::move(body));
  const auto bound = lowering.bound_of(nest.column);
  if ((bound && *bound <= nest.columns) || covers_exactly(nest.column)) {
    // One tile holds every row: its iteration runs whatever the length is, also for none.
    out.end = Expr(1);
    out.kind = For::Kind::once;
  } else if (const auto present = tile_has_elements(); present && !loop->grid) {
    out.end = astatide::select(*present, out.end, Expr(0));
  }
  return {std::move(out)};
}

Kernel KernelBuilder::finish(Block body) {
  kernel.body = std::move(body);
  for (const Tensor& tensor : lowering.program.tensors) {
    if (!operands_.contains(tensor.name)) continue;
    const Placement* placement = lowering.schedule.find(tensor.name);
    Staging staging;
    staging.tensor = tensor.name;
    staging.at = nest.loops.back().var;
    if (placement && tensor.role == Tensor::Role::input) {
      if (const auto at = placement->stage_at()) {
        const NestLoop* loop = nest.named(*at);
        if (!loop)
          throw UserError(placement->find(DirectiveKind::stage_at)->where,
                          "stage_at of " + tensor.name + ": kernel " + kernel.name + " has no loop " + *at);
        staging.at = loop->var;
      }
      staging.space = placement->store_in().value_or(Space::shared);
      staging.ring = placement->ring_buffer();
      staging.vector = placement->vectorize().value_or(0);
      if (const Directive* copy = placement->find(DirectiveKind::copy)) staging.where = copy->where;
      if (lowering.is_cuda() && placement->copy() == CopyPath::cp_async) staging.via = Via::cp_async;
      if (lowering.is_cuda() && placement->copy() == CopyPath::tma) staging.via = Via::tma;
      staging.held = lowering.is_cuda() && placement->held_in_registers();
      if (const Directive* align = placement->find(DirectiveKind::align_storage))
        if (const auto* numbers = std::get_if<AxisNumbers>(&align->value)) staging.align = *numbers;
    }
    kernel.stagings.push_back(std::move(staging));
  }
  return std::move(kernel);
}

}  // namespace astatide::tile
