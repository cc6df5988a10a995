#include "compiler/rewrite/value_of.h"

#include <cstdint>
#include <utility>

#include "compiler/support/diagnostic.h"
#include "compiler/support/match.h"

namespace astatide {

namespace {

double value_of_call(const Call& call, const Bindings& bindings) {
  if (call.op == Op::select) {
    return value_of(call.args[value_of(call.args[0], bindings) != 0 ? 1 : 2], bindings);
  }
  double args[3] = {0, 0, 0};
  for (std::size_t i = 0; i < call.args.size(); ++i) args[i] = value_of(call.args[i], bindings);
  return apply(call.op, args);
}

// FNV-1a, then the finalizer of splitmix64: spreads names that differ in one letter.
std::uint64_t hash_of(const std::string& key, unsigned seed) {
  std::uint64_t h = 14695981039346656037ULL ^ (seed * 0x9E3779B97F4A7C15ULL);
  for (unsigned char c : key) h = (h ^ c) * 1099511628211ULL;
  h = (h ^ (h >> 30)) * 0xBF58476D1CE4E5B9ULL;
  h = (h ^ (h >> 27)) * 0x94D049BB133111EBULL;
  return h ^ (h >> 31);
}

}  // namespace

double value_of(const Expr& e, const Bindings& bindings) {
  return match(
      e.node(), [](const Number& n) { return n.value; }, [](const Integer& n) { return static_cast<double>(n.value); },
      [&](const Variable& v) {
        auto found = bindings.variables.find(v.name);
        if (found == bindings.variables.end()) throw InternalError("value_of: nothing is bound to '" + v.name + "'");
        return found->second;
      },
      [&](const Call& c) { return value_of_call(c, bindings); },
      [&](const Read& r) {
        std::vector<double> indices;
        for (const Expr& index : r.indices) indices.push_back(value_of(index, bindings));
        return bindings.read(r, indices);
      },
      [](const Reduce&) -> double {
        throw InternalError("value_of: a reduction inside an expression of a recurrence");
      });
}

double RandomBindings::draw(const std::string& key) const {
  const double unit = static_cast<double>(hash_of(key, seed_) >> 11) * 0x1.0p-53;
  return low_ + unit * (high_ - low_);
}

double RandomBindings::operator()(const Expr& e) const {
  Bindings bindings;
  for (const std::string& name : free_variables(e)) {
    auto found = fixed_.find(name);
    bindings.variables[name] = found != fixed_.end() ? found->second : draw(name);
  }
  bindings.read = [this](const Read& read, const std::vector<double>&) {
    // The structure names the read: the same element of the same tensor is the same value.
    return draw(to_string(Expr(ExprNode(read))));
  };
  return value_of(e, bindings);
}

}  // namespace astatide
