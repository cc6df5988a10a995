// Loops that wait for memory: iterations in batches, whose loads are under way together.

#include <fmt/format.h>

#include <algorithm>

#include "compiler/cuda/kernel_emitter.h"
#include "compiler/support/contains.h"

namespace astatide::cuda {
namespace {

const tile::Copy* load_in(const tile::Stmt& stmt) {
  const auto* copy = std::get_if<tile::Copy>(&stmt.node);
  return copy && copy->via == tile::Via::load ? copy : nullptr;
}

/// A loop over a number of iterations that a launch says, of nothing but loads and what is computed of them.
const tile::For* batched_loop(const tile::Stmt& stmt) {
  const auto* loop = std::get_if<tile::For>(&stmt.node);
  if (!loop || loop->unroll <= 1 || loop->descending || (loop->begin.as<Integer>() && loop->end.as<Integer>()))
    return nullptr;
  const bool computes_of_loads = std::all_of(loop->body.begin(), loop->body.end(), [](const tile::Stmt& inner) {
    return load_in(inner) || std::holds_alternative<tile::Map>(inner.node);
  });
  return computes_of_loads ? loop : nullptr;
}

}  // namespace

KernelEmitter::LoopsOfBatch KernelEmitter::batched_loops(const tile::Block& block, std::size_t n) {
  LoopsOfBatch loops;
  for (; n < block.size(); ++n) {
    const tile::For* loop = batched_loop(block[n]);
    if (!loop) break;
    const tile::For& first = loops.empty() ? *loop : *loops.front();
    if (loop->var != first.var || !(loop->begin == first.begin) || !(loop->end == first.end)) break;
    loops.push_back(loop);
  }
  return loops;
}

/// Iterations from `next` on, at most `size` and up to `end`, of one loop after the other. All loads come first; a loop
/// takes from those before it what both load. Where loops are padded no branch stands between the iterations.
void KernelEmitter::emit_batch(const LoopsOfBatch& loops, const std::string& next, const std::string& end, int size) {
  const std::string& var = loops.front()->var;
  const std::string step = fresh("n"), inside = fmt::format("{} < {}", var, end);
  const bool padded = std::all_of(loops.begin(), loops.end(), [](const tile::For* loop) { return loop->padded; });
  std::vector<std::pair<const tile::Copy*, std::string>> loads;  // and the arrays of what they load
  for (const tile::For* loop : loops)
    for (const tile::Stmt& stmt : loop->body) {
      const tile::Copy* load = load_in(stmt);
      const auto is_same = [&](const auto& other) { return *other.first == *load; };
      if (!load || std::any_of(loads.begin(), loads.end(), is_same)) continue;
      loads.emplace_back(load, fresh(std::get<tile::TileName>(load->dst) + "_batch"));
    }
  const auto registers = [&](const tile::Copy& load) {
    const tile::Mem& dst = mem(std::get<tile::TileName>(load.dst));
    return fragment_of(dst, grid_of(dst)).registers();
  };
  // With the tiles that are loaded, or of those the ones that a loop reads.
  const auto open_iteration = [&](const tile::For* of) {
    out_.open_unrolled(step, size);
    out_.line(fmt::format("const int {} = {};", var, next == "0" ? step : next + " + " + step));
    for (const auto& [load, batch] : loads) {
      const auto& tile = std::get<tile::TileName>(load->dst);
      const auto reads_tile = [&](const tile::Stmt& stmt) { return contains(tile::effects_of(stmt).reads, tile); };
      if (!of || std::any_of(of->body.begin(), of->body.end(), reads_tile))
        out_.line(fmt::format("float(&{})[{}] = {}[{}];", tile, registers(*load), batch, step));
    }
    if (!padded) out_.open("if (" + inside + ")");
  };
  const auto close_iteration = [&] {
    if (!padded) out_.close();
    out_.close();
  };
  for (const auto& [load, batch] : loads) out_.line(fmt::format("float {}[{}][{}];", batch, size, registers(*load)));
  open_iteration(nullptr);
  if (padded) only_where_ = inside;
  for (const auto& [load, batch] : loads) emit(*load);
  only_where_.clear();
  close_iteration();
  for (const tile::For* loop : loops) {
    open_iteration(loop);
    for (const tile::Stmt& stmt : loop->body)
      if (!load_in(stmt)) emit_statement(stmt);
    close_iteration();
  }
}

/// Loops that run alike, in one batch if that holds all iterations: the second's loads don't wait for the first then.
void KernelEmitter::emit_batches(const LoopsOfBatch& loops) {
  const tile::For& first = *loops.front();
  integers_.insert(first.var);
  non_negative_.insert(first.var);
  const std::string begin = integer_text(first.begin, scope()), next = fresh(first.var + "_next");
  std::string end = integer_text(first.end, scope());
  if (end.find_first_of(" ?") != std::string::npos) end = "(" + end + ")";
  int size = first.unroll;
  for (const tile::For* loop : loops) size = std::min(size, loop->unroll);
  const auto one_by_one = [&] {
    for (const tile::For* loop : loops) {
      out_.line("#pragma unroll 1");
      out_.open(fmt::format("for (int {0} = {1}; {0} < {2}; {0} += {3})", next, begin, end, loop->unroll));
      emit_batch({loop}, next, end, loop->unroll);
      out_.close();
    }
  };
  if (loops.size() == 1) return one_by_one();
  out_.open(
      fmt::format("if ({} <= {})", end, begin == "0" ? std::to_string(size) : fmt::format("{} + {}", begin, size)));
  emit_batch(loops, begin, end, size);
  out_.close();
  out_.open("else");
  one_by_one();
  out_.close();
}

}  // namespace astatide::cuda
