#include "compiler/passes/take_turns.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "compiler/passes/names_in_kernel.h"

namespace astatide {
namespace {

using tile::Await;
using tile::Block;
using tile::For;
using tile::Kernel;
using tile::Mma;
using tile::Stmt;
using tile::Turn;

bool is_product(const Stmt& stmt) {
  const auto* mma = std::get_if<Mma>(&stmt.node);
  return mma && mma->by == Family::wgmma;
}

bool has_product(const Stmt& stmt) {
  bool found = false;
  tile::walk({stmt}, [&](const Stmt& inner) { found = found || is_product(inner); });
  return found;
}

/// What computes nothing: it may stand between the products of a turn.
bool is_idle(const Stmt& stmt) {
  return std::holds_alternative<Await>(stmt.node) || std::holds_alternative<tile::Acquire>(stmt.node) ||
         std::holds_alternative<tile::Release>(stmt.node) || std::holds_alternative<tile::Let>(stmt.node);
}

/// Products start, and are waited for by a statement of their own.
Block with_tokens(Block block, std::map<tile::TileName, std::string>& tokens, FreshNames& names) {
  return tile::transform_blocks(block, [&](const Block& inner) {
    Block out;
    for (const Stmt& stmt : inner) {
      out.push_back(stmt);
      if (!is_product(stmt)) continue;
      auto& mma = std::get<Mma>(out.back().node);
      if (!mma.token.empty()) continue;
      const auto [token, added] = tokens.emplace(mma.dst, "");
      if (added) token->second = names.fresh(mma.dst + "_done");
      mma.token = token->second;
      out.push_back({Await{mma.token}});
    }
    return out;
  });
}

/// Places the turns of one role.
class Turns {
 public:
  explicit Turns(const Block& body) {
    tile::walk(body, [&](const Stmt& stmt) {
      if (is_product(stmt)) tokens_.insert(std::get<Mma>(stmt.node).token);
    });
  }

  /// `leads`: behind the block the next thing is a product.
  Block run(const Block& block, bool leads) {
    Block out;
    for (std::size_t n = 0; n < block.size(); ++n) {
      const Stmt& stmt = block[n];
      const bool next = leads_from(block, n + 1).value_or(leads);
      if (is_product(stmt)) {
        take(out);
        out.push_back(stmt);
      } else if (const auto* await = std::get_if<Await>(&stmt.node); await && tokens_.contains(await->token)) {
        if (!next) pass(out);
        out.push_back(stmt);
      } else if (tile::nested_block(stmt) && has_product(stmt)) {
        if (keeps_turn(stmt)) take(out);
        Stmt copy = stmt;
        *tile::nested_block(copy) = run(*tile::nested_block(stmt), is_once(stmt) ? next : keeps_turn(stmt));
        out.push_back(std::move(copy));
        if (!next) pass(out);
      } else {
        out.push_back(stmt);
      }
    }
    return out;
  }

 private:
  void take(Block& out) {
    if (!held_) out.push_back({Turn{Turn::Do::take}});
    held_ = true;
  }
  void pass(Block& out) {
    if (held_) out.push_back({Turn{Turn::Do::pass}});
    held_ = false;
  }

  static bool is_once(const Stmt& stmt) {
    const auto* loop = std::get_if<For>(&stmt.node);
    return loop && loop->kind == For::Kind::once;
  }

  /// Whether a product comes next, in front of all that computes something; nothing where neither does.
  static std::optional<bool> leads_from(const Block& block, std::size_t first) {
    for (std::size_t n = first; n < block.size(); ++n) {
      if (is_product(block[n])) return true;
      if (is_idle(block[n])) continue;
      if (!is_once(block[n])) return keeps_turn(block[n]);
      if (const auto inside = leads_from(*tile::nested_block(block[n]), 0)) return inside;
    }
    return std::nullopt;
  }

  /// A loop whose iterations begin with a product, compute something, and end with a product and the wait for it.
  static bool keeps_turn(const Stmt& stmt) {
    const auto* loop = std::get_if<For>(&stmt.node);
    if (!loop || is_once(stmt) || !leads_from(loop->body, 0).value_or(false)) return false;
    const auto computes = [](const Stmt& inner) { return !is_idle(inner) && !is_product(inner); };
    return is_product(*std::find_if_not(loop->body.rbegin(), loop->body.rend(), is_idle)) &&
           std::any_of(loop->body.begin(), loop->body.end(), computes);
  }

  std::set<std::string> tokens_;
  bool held_ = false;
};

}  // namespace

tile::Program take_turns(const tile::Program& program, const Target&) {
  tile::Program out = program;
  for (Kernel& kernel : out.kernels) {
    if (!kernel.alternate) continue;
    FreshNames names = names_in_kernel(program, kernel);
    std::map<tile::TileName, std::string> tokens;
    for (Stmt& stmt : kernel.body)
      if (auto* role = std::get_if<tile::Role>(&stmt.node); role && has_product(stmt)) {
        role->body = with_tokens(std::move(role->body), tokens, names);
        role->body = Turns(role->body).run(role->body, false);
      }
    kernel.alternate = false;
  }
  return out;
}

}  // namespace astatide
