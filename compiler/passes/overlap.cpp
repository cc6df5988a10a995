#include "compiler/passes/overlap.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "compiler/passes/loop_chains.h"
#include "compiler/passes/names_in_kernel.h"
#include "compiler/passes/overlap_cover.h"
#include "compiler/passes/overlap_parts.h"
#include "compiler/support/contains.h"
#include "compiler/support/diagnostic.h"

namespace astatide {
namespace {

using tile::Block;
using tile::For;
using tile::Kernel;
using tile::Map;
using tile::Mma;
using tile::Stmt;

std::vector<std::string> forms_of(const Block& block) {
  std::vector<std::string> out;
  for (const Stmt& stmt : block) out.push_back(form_of(stmt));
  return out;
}

/// A row tile and the number in it with which a statement leaves `result` as it is.
struct Neutral {
  tile::TileName tile;
  double value = 0;
};

std::optional<Neutral> neutral_of(const Stmt& stmt, const tile::TileName& result, const Kernel& kernel) {
  const auto* map = std::get_if<Map>(&stmt.node);
  const auto* c = map && map->dst == result && !map->absent ? map->value.as<Call>() : nullptr;
  if (!c || c->args.size() != 2) return std::nullopt;
  const bool multiplies = c->op == Op::mul || c->op == Op::absorb;
  if (!multiplies && c->op != Op::add) return std::nullopt;
  for (const std::size_t side : {0, 1}) {
    const auto* factor = c->args[1 - side].as<Variable>();
    const bool in_order = side == 0 || c->op != Op::absorb;
    if (in_order && c->args[side] == variable(result) && factor && factor->name != result && kernel.find(factor->name))
      return Neutral{factor->name, multiplies ? 1.0 : 0.0};
  }
  return std::nullopt;
}

class Rotation {
 public:
  Rotation(const tile::Program& program, Kernel& kernel)
      : kernel_(kernel),
        request_(*kernel.overlap),
        names_(names_in_kernel(program, kernel)),
        ahead_(names_.fresh("ahead")),
        delayed_(names_.fresh("delayed")) {}

  Block run(Block block) {
    const auto wanted = [&](const For& loop) { return holds_product(loop, request_.product); };
    return replace_chains(std::move(block), wanted, [&](std::vector<For> loops, Block& out) {
      rotate(std::move(loops), out);
      rotated_ = true;
    });
  }
  bool rotated() const { return rotated_; }

 private:
  void rotate(std::vector<For> loops, Block& out) {
    const std::string var = loops.front().var;
    if (loops.size() == 1)
      refuse_overlap(request_, fmt::format("the loop over {} runs once, there is no next tile", var),
                     {"leave overlap out"});
    if (loops.front().kind != For::Kind::once) throw InternalError("overlap of " + var + " without a first iteration");
    std::vector<IterationParts> parts = agreed_parts(loops);
    Block delayed = general_tail(parts);
    std::get<Mma>(delayed.back().node).token = delayed_;
    make_neutral(parts.front(), delayed);

    const bool descending = loops.front().descending;
    const Expr before = descending ? variable(var) + 1 : variable(var) - 1;
    Block of_tile_before = tile::substitute(delayed, {{var, before}});
    restart_sum(parts.front(), of_tile_before, equal(before, loops.front().begin));
    For last = loops.front();
    last.note = "last";
    last.begin = descending ? loops.back().begin - 1 : loops.back().end;
    last.end = descending ? loops.back().begin : last.begin + 1;
    last.body = of_tile_before;
    last.body.push_back({tile::Await{delayed_}});

    for (std::size_t n = 0; n < loops.size(); ++n) {
      IterationParts& p = parts[n];
      std::get<Mma>(p.ahead.back().node).token = ahead_;
      const auto at = static_cast<std::ptrdiff_t>(first_conflict(p.middle, p.ahead.back()));
      p.middle.insert(p.middle.begin() + at, Stmt{tile::Await{ahead_}});
      Block body = p.ahead;
      if (n > 0) {
        body.insert(body.end(), of_tile_before.begin(), of_tile_before.end());
        p.middle = with_covered_await(std::move(p.middle), of_tile_before.back(), kernel_, names_);
      }
      body.insert(body.end(), p.middle.begin(), p.middle.end());
      loops[n].body = std::move(body);
      out.push_back({std::move(loops[n])});
    }
    out.push_back({std::move(last)});
  }

  /// The loops' parts, where all loops behind the first delay statements of the same forms. What only some could delay
  /// stays in the middle, behind the await.
  std::vector<IterationParts> agreed_parts(const std::vector<For>& loops) const {
    std::optional<std::set<std::string>> common;
    for (std::size_t n = 1; n < loops.size(); ++n) {
      const std::vector<std::string> forms = forms_of(parts_of(loops[n], request_, std::nullopt).delayed);
      std::set<std::string> own(forms.begin(), forms.end());
      if (common) std::erase_if(own, [&](const std::string& form) { return !common->contains(form); });
      common = std::move(own);
    }
    std::vector<IterationParts> out;
    for (const For& loop : loops) out.push_back(parts_of(loop, request_, common));
    const std::vector<std::string> wanted = forms_of(out[1].delayed);
    for (const IterationParts& parts : out) {
      const std::vector<std::string> found = forms_of(parts.delayed);
      auto next = found.begin();
      for (const std::string& form : wanted)
        if (next != found.end() && *next == form) ++next;
      const bool fits = &parts == &out.front() ? next == found.end() : found == wanted;
      if (!fits)
        refuse_overlap(request_,
                       fmt::format("the loops over {} delay different statements:\n{}{}", loops.front().var,
                                   text_of(wanted), text_of(found)),
                       {"leave overlap out"});
    }
    return out;
  }

  static std::string text_of(const std::vector<std::string>& forms) {
    std::string out;
    for (const std::string& form : forms) out += form;
    return out;
  }

  /// What is delayed may belong to a tile of any of the loops: each statement is that of the loop that tests most.
  Block general_tail(const std::vector<IterationParts>& parts) const {
    Block out;
    for (const Stmt& stmt : parts[1].delayed) {
      std::vector<Stmt> candidates;
      for (const IterationParts& p : parts)
        for (Stmt candidate : p.delayed) {
          if (form_of(candidate) != form_of(stmt)) continue;
          if (auto* mma = std::get_if<Mma>(&candidate.node)) mma->accumulate = std::get<Mma>(stmt.node).accumulate;
          candidates.push_back(std::move(candidate));
        }
      const auto general = std::find_if(candidates.begin(), candidates.end(), [&](const Stmt& candidate) {
        return std::all_of(candidates.begin(), candidates.end(),
                           [&](const Stmt& other) { return generalises(candidate, other); });
      });
      if (general == candidates.end())
        refuse_overlap(request_, "the loops test different things where the delayed product reads",
                       {"leave overlap out"});
      out.push_back(*general);
    }
    return out;
  }

  /// Gives what the first tile's iteration leaves out of the delayed statements a value with which they do nothing.
  void make_neutral(IterationParts& first, const Block& delayed) const {
    const std::vector<std::string> own = forms_of(first.delayed);
    const tile::TileName& result = std::get<Mma>(delayed.back().node).dst;
    for (const Stmt& stmt : delayed) {
      if (contains(own, form_of(stmt))) continue;
      const auto* branch = std::get_if<tile::If>(&stmt.node);
      std::optional<Neutral> neutral;
      for (const Stmt& inner : branch ? branch->body : Block{stmt}) {
        neutral = neutral_of(inner, result, kernel_);
        if (!neutral || is_touched(first, neutral->tile))
          refuse_overlap(request_,
                         "the first tile does without `" + first_line(inner) +
                             "`, and there is no number with which it would do nothing there",
                         {"leave overlap out"});
        first.middle.push_back({tile::Fill{neutral->tile, neutral->value}});
      }
      const auto* flag = branch ? branch->condition.as<Variable>() : nullptr;
      // The number has just been written: the flag is down.
      if (flag) first.middle.push_back({tile::Vote{flag->name, less(Expr(neutral->value), variable(neutral->tile))}});
      if (branch && !flag)
        refuse_overlap(request_, "the condition of `" + first_line(stmt) + "` is no flag", {"leave overlap out"});
    }
  }

  /// The delayed product of the first tile starts the sum that those of the others add to.
  static void restart_sum(IterationParts& first, Block& delayed, const Expr& of_first) {
    const auto& product = std::get<Mma>(delayed.back().node);
    if (!product.accumulate || std::get<Mma>(first.delayed.back().node).accumulate) return;
    first.middle.push_back({tile::Fill{product.dst, std::numeric_limits<double>::quiet_NaN()}});
    const Stmt fill{tile::Fill{product.dst, 0}};
    delayed.insert(delayed.end() - 1, Stmt{tile::If{of_first, tile::If::Uniform::block, false, {fill}}});
  }

  static bool is_touched(const IterationParts& parts, const std::string& name) {
    const auto touches = [&](const Stmt& stmt) {
      if (std::get_if<tile::Fill>(&stmt.node)) return false;
      const tile::Effects effects = tile::effects_of(stmt);
      return contains(effects.reads, name) || contains(effects.writes, name);
    };
    return std::any_of(parts.ahead.begin(), parts.ahead.end(), touches) ||
           std::any_of(parts.middle.begin(), parts.middle.end(), touches);
  }

  Kernel& kernel_;
  const tile::Overlap request_;
  FreshNames names_;
  const std::string ahead_, delayed_;  // tokens
  bool rotated_ = false;
};

}  // namespace

tile::Program overlap(const tile::Program& program, const Target&) {
  tile::Program out = program;
  for (Kernel& kernel : out.kernels) {
    if (!kernel.overlap) continue;
    Rotation rotation(program, kernel);
    kernel.body = tile::transform_blocks(kernel.body, [&](Block block) { return rotation.run(std::move(block)); });
    if (!rotation.rotated())
      refuse_overlap(*kernel.overlap, "its product stands in no loop over tiles", {"leave overlap out"});
    kernel.overlap.reset();
  }
  return out;
}

}  // namespace astatide
