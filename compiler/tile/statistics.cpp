#include "compiler/tile/statistics.h"

#include <algorithm>
#include <functional>
#include <set>

#include "compiler/support/diagnostic.h"
#include "compiler/support/match.h"
#include "compiler/tile/bounds.h"

namespace astatide::tile {
namespace {

// Of a loop or a grid whose iterations differ, at most this many are looked at, evenly spaced.
constexpr std::int64_t kMostSamples = 4096;

using Environment = std::map<std::string, std::int64_t>;

bool is_transcendental(Op op) {
  switch (op) {
    case Op::exp:
    case Op::exp2:
    case Op::log:
    case Op::log2:
    case Op::tanh:
    case Op::sigmoid:
    case Op::sqrt:
    case Op::pow:
      return true;
    default:
      return false;
  }
}

void add_names(std::set<std::string>& names, const Expr& e) { names.merge(free_variables(e)); }

const std::vector<Coordinate>* coordinates_of(const Operand& operand) {
  const auto* view = std::get_if<View>(&operand);
  return view ? &view->at : nullptr;
}
const std::vector<Coordinate>* coordinates_of(const CopyOperand& operand) {
  const auto* view = std::get_if<View>(&operand);
  return view ? &view->at : nullptr;
}

class Counter {
 public:
  Counter(const Program& program, const Kernel& kernel, bool& exact)
      : program_(program), kernel_(kernel), exact_(exact) {}

  KernelStatistics run_tile(const Environment& environment) {
    KernelStatistics out = count(kernel_.body, environment);
    out.name = kernel_.name;
    out.tiles = 1;
    return out;
  }

  KernelStatistics run(Environment environment) {
    KernelStatistics out;
    const std::set<std::string> control = control_names(kernel_.body);
    double alike = 1;
    std::vector<std::pair<std::string, std::int64_t>> axes;
    std::int64_t different = 1;
    for (const TileAxis& axis : kernel_.tiles) {
      const std::int64_t count = std::max<std::int64_t>(0, evaluate_integer(axis.count, environment));
      environment[axis.var] = 0;
      if (control.contains(axis.var)) {
        axes.emplace_back(axis.var, count);
        if (__builtin_mul_overflow(different, count, &different))
          throw UserError("kernel " + kernel_.name + " has too many tiles to count");
      } else {
        alike *= static_cast<double>(count);
      }
    }
    out.tiles = alike * static_cast<double>(different);
    sum_over(out, different, alike, [&](std::int64_t index) {
      for (const auto& [var, count] : axes) {
        environment[var] = index % count;
        index /= count;
      }
      return count(kernel_.body, environment);
    });
    out.name = kernel_.name;
    return out;
  }

 private:
  /// The sum of f over 0 .. count-1, times `times`; sampled where that is long.
  void sum_over(KernelStatistics& out, std::int64_t count, double times,
                const std::function<KernelStatistics(std::int64_t)>& f) {
    if (count <= 0 || times == 0) return;
    const std::int64_t samples = std::min(count, kMostSamples);
    if (samples < count) exact_ = false;
    const double each = static_cast<double>(count) / static_cast<double>(samples);
    for (std::int64_t n = 0; n < samples; ++n) {
      // In the middle of the part that it stands for.
      const auto index = static_cast<std::int64_t>((static_cast<double>(n) + 0.5) * each);
      out.add(f(index), times * each);
    }
  }

  KernelStatistics count(const Block& block, Environment environment) {
    KernelStatistics out;
    for (const Stmt& stmt : block) {
      if (const auto* loop = std::get_if<For>(&stmt.node)) {
        count_loop(out, *loop, environment);
      } else if (const auto* branch = std::get_if<If>(&stmt.node)) {
        const std::optional<std::int64_t> holds = value_of(branch->condition, environment);
        if (const auto* flag = branch->condition.as<Variable>(); flag && last_of_.contains(flag->name)) {
          out.add(count(branch->body, environment), 1 / last_of_.at(flag->name));
          continue;
        }
        if (!holds && !branch->cold) exact_ = false;
        if (holds ? *holds != 0 : !branch->cold) out.add(count(branch->body, environment), 1);
      } else if (const auto* role = std::get_if<Role>(&stmt.node)) {
        // Its warpgroups share each tile out.
        out.add(count(role->body, environment), 1);
      } else if (const auto* let = std::get_if<Let>(&stmt.node)) {
        if (const auto value = value_of(let->value, environment)) environment[let->name] = *value;
      } else if (const auto* arrive = std::get_if<Arrive>(&stmt.node)) {
        last_of_[arrive->flag] =
            static_cast<double>(std::max<std::int64_t>(1, evaluate_integer(arrive->of, environment)));
      } else {
        count_instruction(out, stmt, environment);
      }
    }
    return out;
  }

  void count_loop(KernelStatistics& out, const For& loop, Environment environment) {
    const std::optional<std::int64_t> begin = value_of(loop.begin, environment);
    const std::optional<std::int64_t> end = value_of(loop.end, environment);
    if (!begin || !end) exact_ = false;
    const std::int64_t first = begin.value_or(0);
    std::int64_t trips = 1;
    if (loop.kind != For::Kind::once && begin && end) trips = std::max<std::int64_t>(0, *end - first);
    const auto body = [&](std::int64_t index) {
      environment[loop.var] = first + index;
      return count(loop.body, environment);
    };
    if (control_names(loop.body).contains(loop.var)) {
      sum_over(out, trips, 1, body);
    } else if (trips > 0) {
      out.add(body(0), static_cast<double>(trips));
    }
  }

  /// None where it depends on data: a flag, or a tensor of integers that no other bound stands beside.
  std::optional<std::int64_t> value_of(const Expr& e, const Environment& environment) const {
    if (!tensors_read(e).empty() && !(without_data(e) == e)) exact_ = false;
    return value_without_data(e, environment);
  }

  int size_of(const std::string& tensor) const { return size_in_bytes(program_.find_tensor(tensor)->type); }

  /// Elements of a tile that lie inside all limits, as if tiles covered each axis from 0 to its limit evenly: true for
  /// the loop as a whole, which is what is summed.
  double inside(const std::vector<Coordinate>& at, const std::map<std::string, int>& lengths,
                const Environment& environment) const {
    double out = 1;
    for (const auto& [axis, length] : lengths) {
      out *= length;
      for (const Coordinate& coordinate : at) {
        if (coordinate.axis != axis || !coordinate.limit) continue;
        const std::optional<std::int64_t> limit = value_of(*coordinate.limit, environment);
        if (!limit) continue;
        const std::int64_t covered = (std::max<std::int64_t>(*limit, 0) + length - 1) / length * length;
        out *= covered == 0 ? 0 : static_cast<double>(*limit) / static_cast<double>(covered);
      }
    }
    return out;
  }

  static std::map<std::string, int> lengths_of(const Mem& mem) {
    std::map<std::string, int> out;
    for (const Dim& dim : mem.dims) out[dim.axis] = dim.extent;
    return out;
  }

  void count_tile(double& bytes, const Mem& mem, double share = 1) const {
    if (mem.space == Space::shared) bytes += share * static_cast<double>(mem.element_count()) * size_in_bytes(mem.type);
  }

  void count_expression(KernelStatistics& out, const Expr& e, double elements, double inside_elements) const {
    visit(e, [&](const Expr& node) {
      if (const auto* c = node.as<Call>())
        (is_transcendental(c->op) ? out.transcendentals : out.element_flops) += elements;
      if (const auto* r = node.as<Read>()) out.global[r->tensor].read += inside_elements * size_of(r->tensor);
    });
    for (const std::string& name : free_variables(e))
      if (const Mem* mem = kernel_.find(name)) count_tile(out.shared.read, *mem);
  }

  void count_map(KernelStatistics& out, const Map& s, const Environment& environment) const {
    const Mem& dst = *kernel_.find(s.dst);
    double share = 1;
    if (s.columns && !dst.dims.empty())
      share = static_cast<double>(s.columns->end - s.columns->begin) / dst.dims.back().extent;
    const double elements = share * static_cast<double>(dst.element_count());
    count_expression(out, s.value, elements, share * inside(s.at, lengths_of(dst), environment));
    count_tile(out.shared.written, dst, share);
  }

  void count_mma(KernelStatistics& out, const Mma& s, const Environment& environment) const {
    const Mem& dst = *kernel_.find(s.dst);
    const Dim contracted = contraction_of(program_, kernel_, s);
    out.product_flops += 2.0 * static_cast<double>(dst.element_count()) * contracted.extent;
    for (const Operand* operand : {&s.lhs, &s.rhs}) {
      if (const auto* tile = std::get_if<TileName>(operand)) {
        count_tile(out.shared.read, *kernel_.find(*tile));
        continue;
      }
      const View& view = std::get<View>(*operand);
      std::map<std::string, int> lengths;
      for (const Coordinate& coordinate : view.at)
        lengths[coordinate.axis] =
            coordinate.axis == contracted.axis ? contracted.extent : dst.extent_of(coordinate.axis);
      out.global[view.tensor].read += inside(view.at, lengths, environment) * size_of(view.tensor);
    }
  }

  void count_copy(KernelStatistics& out, const Copy& s, const Environment& environment) const {
    const auto* dst_tile = std::get_if<TileName>(&s.dst);
    const Mem& tile = *kernel_.find(dst_tile ? *dst_tile : std::get<TileName>(s.src));
    const auto bytes_in = [&](const View& view) {
      return inside(view.at, lengths_of(tile), environment) * size_of(view.tensor);
    };
    const auto strip_bytes = [&](const Strip& strip) {
      const Mem& whole = *kernel_.find(strip.tile);
      if (whole.space != Space::shared) return 0.0;
      return inside(strip.at, lengths_of(tile), environment) * size_in_bytes(whole.type);
    };
    match(
        s.src, [&](const TileName& name) { count_tile(out.shared.read, *kernel_.find(name)); },
        [&](const View& view) {
          out.global[view.tensor].read += bytes_in(view) / (s.multicast ? kernel_.cluster_blocks() : 1);
        },
        [&](const Strip& strip) { out.shared.read += strip_bytes(strip); });
    match(
        s.dst, [&](const TileName& name) { count_tile(out.shared.written, *kernel_.find(name)); },
        [&](const View& view) { out.global[view.tensor].written += bytes_in(view); },
        [&](const Strip& strip) { out.shared.written += strip_bytes(strip); });
  }

  void count_instruction(KernelStatistics& out, const Stmt& stmt, const Environment& environment) const {
    if (const auto* s = std::get_if<Fill>(&stmt.node)) count_tile(out.shared.written, *kernel_.find(s->dst));
    if (const auto* s = std::get_if<Map>(&stmt.node)) count_map(out, *s, environment);
    if (const auto* s = std::get_if<Mma>(&stmt.node)) count_mma(out, *s, environment);
    if (const auto* s = std::get_if<Copy>(&stmt.node)) count_copy(out, *s, environment);
    if (const auto* s = std::get_if<RowReduce>(&stmt.node)) {
      const Mem& src = *kernel_.find(s->src);
      out.element_flops += static_cast<double>(src.element_count());
      count_tile(out.shared.read, src);
      count_tile(out.shared.written, *kernel_.find(s->dst));
    }
    if (const auto* s = std::get_if<Vote>(&stmt.node)) {
      double elements = 1;
      for (const std::string& name : free_variables(s->condition))
        if (const Mem* mem = kernel_.find(name))
          elements = std::max(elements, static_cast<double>(mem->element_count()));
      count_expression(out, s->condition, elements, elements);
    }
    if (const auto* s = std::get_if<Advance>(&stmt.node)) {
      for (const Advance::Update& update : s->updates)
        out.element_flops += static_cast<double>(kernel_.find(update.tile)->element_count());
      for (const Advance::Move& move : s->moving) {
        const auto elements = static_cast<double>(kernel_.find(move.tile)->element_count());
        count_expression(out, move.by, elements, elements);
      }
    }
  }

  const Program& program_;
  const Kernel& kernel_;
  bool& exact_;
  std::map<std::string, double> last_of_;  // one of so many blocks raises the flag
};

std::int64_t shared_bytes_of(const Kernel& kernel) {
  if (kernel.shared_bytes >= 0) return kernel.shared_bytes;
  std::int64_t bytes = 0;
  for (const Mem& mem : kernel.mems)
    if (mem.space == Space::shared && mem.alias.empty()) bytes += mem.byte_count();
  return bytes;
}

}  // namespace

void KernelStatistics::add(const KernelStatistics& other, double times) {
  product_flops += times * other.product_flops;
  element_flops += times * other.element_flops;
  transcendentals += times * other.transcendentals;
  shared.read += times * other.shared.read;
  shared.written += times * other.shared.written;
  for (const auto& [tensor, traffic] : other.global) {
    global[tensor].read += times * traffic.read;
    global[tensor].written += times * traffic.written;
  }
}

double KernelStatistics::global_bytes() const {
  double bytes = 0;
  for (const auto& [tensor, traffic] : global) bytes += traffic.read + traffic.written;
  return bytes;
}

double Statistics::flops() const {
  double total = 0;
  for (const KernelStatistics& kernel : kernels) total += kernel.product_flops + kernel.element_flops;
  return total;
}

double Statistics::global_bytes() const {
  double bytes = 0;
  for (const KernelStatistics& kernel : kernels) bytes += kernel.global_bytes();
  return bytes;
}

double Statistics::scratch_bytes() const {
  double bytes = 0;
  for (const TensorSize& tensor : tensors)
    if (tensor.role == Tensor::Role::scratch) bytes += tensor.bytes;
  return bytes;
}

std::optional<std::int64_t> value_without_data(const Expr& e, const std::map<std::string, std::int64_t>& values) {
  const Expr bound = tensors_read(e).empty() ? e : without_data(e);
  if (!tensors_read(bound).empty()) return std::nullopt;
  for (const std::string& name : free_variables(bound))
    if (!values.contains(name)) return std::nullopt;
  return evaluate_integer(bound, values);
}

std::set<std::string> control_names(const Block& block) {
  std::set<std::string> names;
  const auto limits = [&](const std::vector<Coordinate>* at) {
    if (!at) return;
    for (const Coordinate& coordinate : *at)
      if (coordinate.limit) add_names(names, *coordinate.limit);
  };
  walk(block, [&](const Stmt& stmt) {
    if (const auto* s = std::get_if<For>(&stmt.node)) {
      add_names(names, s->begin);
      add_names(names, s->end);
    }
    if (const auto* s = std::get_if<If>(&stmt.node)) add_names(names, s->condition);
    if (const auto* s = std::get_if<Map>(&stmt.node)) limits(&s->at);
    if (const auto* s = std::get_if<Mma>(&stmt.node)) {
      limits(coordinates_of(s->lhs));
      limits(coordinates_of(s->rhs));
    }
    if (const auto* s = std::get_if<Copy>(&stmt.node)) {
      limits(coordinates_of(s->dst));
      limits(coordinates_of(s->src));
    }
  });
  for (std::size_t before = 0; before != names.size();) {
    before = names.size();
    walk(block, [&](const Stmt& stmt) {
      const auto* let = std::get_if<Let>(&stmt.node);
      if (let && names.contains(let->name)) add_names(names, let->value);
    });
  }
  return names;
}

KernelStatistics statistics_of_tile(const Program& program, const Kernel& kernel,
                                    const std::map<std::string, std::int64_t>& extents) {
  bool exact = true;
  KernelStatistics out = Counter(program, kernel, exact).run_tile(extents);
  out.shared_bytes = shared_bytes_of(kernel);
  return out;
}

Statistics statistics_of(const Program& program, const std::map<std::string, std::int64_t>& extents) {
  Environment environment = extents;
  environment.insert(program.known.begin(), program.known.end());
  if (program.parts && !environment.contains(program.parts->extent))
    throw InternalError("no value is given for " + program.parts->extent);
  Statistics out;
  for (const Tensor& tensor : program.tensors) {
    double bytes = size_in_bytes(tensor.type);
    for (const Expr& dim : tensor.dims) bytes *= static_cast<double>(evaluate_integer(dim, environment));
    out.tensors.push_back({tensor.name, tensor.role, bytes});
  }
  for (const Kernel& kernel : program.kernels) {
    out.kernels.push_back(Counter(program, kernel, out.exact).run(environment));
    out.kernels.back().shared_bytes = shared_bytes_of(kernel);
  }
  return out;
}

}  // namespace astatide::tile
