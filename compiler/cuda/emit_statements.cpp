#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "compiler/cuda/kernel_emitter.h"
#include "compiler/support/contains.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/match.h"

namespace astatide::cuda {
namespace {

[[noreturn]] void refuse(const char* instruction) {
  throw InternalError(fmt::format("no emitter for the instruction '{}' of a program of this family", instruction));
}

/// Whether `later`, right behind `branch`, runs where that does not.
bool is_other_branch(const tile::If& branch, const tile::If& later) {
  return branch.condition == negation(later.condition) && tile::keeps_condition(branch);
}

}  // namespace

void KernelEmitter::emit_block(const tile::Block& block) {
  for (std::size_t n = 0; n < block.size(); ++n) {
    if (starts_sum(block, n)) continue;
    if (const LoopsOfBatch loops = batched_loops(block, n); !loops.empty()) {
      emit_batches(loops);
      n += loops.size() - 1;
      continue;
    }
    const auto* branch = std::get_if<tile::If>(&block[n].node);
    const auto* before = branch && n > 0 ? std::get_if<tile::If>(&block[n - 1].node) : nullptr;
    if (before && is_other_branch(*before, *branch))
      emit_branch("else", *branch);
    else
      emit_statement(block[n]);
  }
}

// wgmma leaves out what its sum held where a predicate says so.
bool KernelEmitter::starts_sum(const tile::Block& block, std::size_t n) {
  const auto* branch = std::get_if<tile::If>(&block[n].node);
  const auto* fill = branch && branch->body.size() == 1 ? std::get_if<tile::Fill>(&branch->body[0].node) : nullptr;
  if (!fill || fill->value != 0) return false;
  do ++n;
  while (n < block.size() &&
         (std::holds_alternative<tile::Acquire>(block[n].node) || std::holds_alternative<tile::Turn>(block[n].node)));
  const auto* mma = n < block.size() ? std::get_if<tile::Mma>(&block[n].node) : nullptr;
  if (!mma || mma->by != Family::wgmma || !mma->accumulate || mma->dst != fill->dst) return false;
  sum_starts_ = branch->condition;
  return true;
}

void KernelEmitter::emit_statement(const tile::Stmt& stmt) {
  match(
      stmt.node, [&](const tile::For& s) { emit(s); }, [&](const tile::If& s) { emit(s); },
      [&](const tile::Role& s) { emit(s); }, [&](const tile::Let& s) { emit(s); },
      [&](const tile::Fill& s) { emit(s); }, [&](const tile::Map& s) { emit(s); },
      [&](const tile::RowReduce& s) { emit(s); }, [&](const tile::AllReduce& s) { emit(s); },
      [&](const tile::Vote& s) { emit(s); }, [&](const tile::Mma& s) { emit(s); },
      [&](const tile::Copy& s) { emit(s); }, [&](const tile::Await& s) { emit(s); },
      [](const tile::Advance&) { refuse("advance"); }, [&](const tile::Reserve& s) { emit(s); },
      [&](const tile::Acquire& s) { emit(s); }, [&](const tile::Release&) { emit(sync_.before(stmt)); },
      [&](const tile::Sync&) { emit(sync_.before(stmt)); }, [&](const tile::Turn&) { emit(sync_.before(stmt)); },
      [&](const tile::Arrive& s) { emit(s); });
}

void KernelEmitter::emit(const tile::For& loop) {
  const std::string begin = integer_text(loop.begin, scope()), end = integer_text(loop.end, scope());
  integers_.insert(loop.var);
  non_negative_.insert(loop.var);
  if (!loop.note.empty()) out_.line("// " + loop.note);
  if (loop.kind == tile::For::Kind::teams) {
    out_.open("");
    out_.line(fmt::format("const int {} = {};  // each team by itself", loop.var, claimed("team")));
  } else if (loop.kind == tile::For::Kind::once) {
    out_.open("");
    const bool used = std::any_of(loop.body.begin(), loop.body.end(), [&](const tile::Stmt& stmt) {
      return contains(tile::effects_of(stmt).reads, loop.var);
    });
    if (used) out_.line(fmt::format("const int {} = {};", loop.var, begin));
  } else {
    const std::string bound = end.find('?') == std::string::npos ? end : "(" + end + ")";
    if (loop.kind == tile::For::Kind::unrolled) out_.line("#pragma unroll");
    if (loop.unroll > 1) out_.line(fmt::format("#pragma unroll {}", loop.unroll));
    out_.open(loop.descending ? fmt::format("for (int {0} = {2} - 1; {0} >= {1}; --{0})", loop.var, begin, bound)
                              : fmt::format("for (int {0} = {1}; {0} < {2}; ++{0})", loop.var, begin, bound));
  }
  emit_block(loop.body);
  out_.close();
}

void KernelEmitter::emit(const tile::If& branch) {
  const std::string condition = condition_text(branch.condition, scope());
  emit_branch(branch.cold ? fmt::format("if (__builtin_expect({}, 0))", condition) : fmt::format("if ({})", condition),
              branch);
}

void KernelEmitter::emit_branch(const std::string& head, const tile::If& branch) {
  out_.open(head);
  // Addresses of what one block of many does would take registers from all of them.
  const auto* flag = branch.condition.as<Variable>();
  const bool rare = flag && flags_.contains(flag->name) && !votes_.contains(flag->name);
  const bool before = std::exchange(bases_in_front_, bases_in_front_ && !rare);
  emit_block(branch.body);
  bases_in_front_ = before;
  out_.close();
  emit(sync_.after(branch));
}

void KernelEmitter::emit(const tile::Let& let) {
  Expr value = let.value;
  if (let.own) value = substitute(*let.own, {{kernel_.warpgroup, variable(claimed("warpgroup"))}});
  out_.line(fmt::format("const int {} = {};", let.name, integer_text(value, scope())));
  note(let);
}

void KernelEmitter::note(const tile::Let& let) {
  integers_.insert(let.name);
  if (let.value.is_call(Op::count_below)) non_negative_.insert(let.name);
}

}  // namespace astatide::cuda
