#include "compiler/algorithm/build.h"

#include "compiler/algorithm/names.h"
#include "compiler/algorithm/source_text.h"

namespace astatide {

Expr exp2(const Expr& a) { return call(Op::exp2, {a}); }
Expr sqrt(const Expr& a) { return call(Op::sqrt, {a}); }
Expr tanh(const Expr& a) { return call(Op::tanh, {a}); }
Expr sigmoid(const Expr& a) { return call(Op::sigmoid, {a}); }
Expr abs(const Expr& a) { return call(Op::abs, {a}); }
Expr sum(const std::string& axis, const Expr& body) { return reduce(Reduction::sum, axis, body); }
Expr max(const std::string& axis, const Expr& body) { return reduce(Reduction::max, axis, body); }
Expr min(const std::string& axis, const Expr& body) { return reduce(Reduction::min, axis, body); }
Expr softmax(const std::string& axis, const Expr& body) { return reduce(Reduction::softmax, axis, body); }
Expr logsumexp(const std::string& axis, const Expr& body) { return reduce(Reduction::logsumexp, axis, body); }

AlgorithmBuilder::AlgorithmBuilder(std::string name) { algorithm_.name = std::move(name); }

AlgorithmBuilder& AlgorithmBuilder::extents(const std::vector<std::string>& names) {
  for (const std::string& name : names) algorithm_.extents.push_back({name, {}});
  return *this;
}

AlgorithmBuilder& AlgorithmBuilder::scalar(const std::string& name, std::optional<Expr> default_value) {
  algorithm_.scalars.push_back({name, std::move(default_value), {}});
  return *this;
}

AlgorithmBuilder& AlgorithmBuilder::input(const std::string& name, std::vector<Expr> dims,
                                          std::optional<ScalarType> dtype) {
  algorithm_.inputs.push_back({name, std::move(dims), dtype, {}});
  return *this;
}

AlgorithmBuilder& AlgorithmBuilder::input(const std::string& name, const std::vector<std::string>& dims,
                                          std::optional<ScalarType> dtype) {
  return input(name, parsed_dims(name, dims), dtype);
}

std::vector<Expr> AlgorithmBuilder::parsed_dims(const std::string& name, const std::vector<std::string>& dims) const {
  const NameKinds names = name_kinds(algorithm_);
  std::vector<Expr> parsed;
  for (const std::string& dim : dims)
    parsed.push_back(parse_expr(SourceText(dim, Location{"a dimension of " + quoted(name), 1, 1, dim}), names, true));
  return parsed;
}

AlgorithmBuilder& AlgorithmBuilder::input(const std::string& name, std::initializer_list<const char*> dims,
                                          std::optional<ScalarType> dtype) {
  return input(name, std::vector<std::string>(dims.begin(), dims.end()), dtype);
}

AlgorithmBuilder& AlgorithmBuilder::define(const std::string& line) {
  const Location where{"definition " + std::to_string(algorithm_.define.size() + 1) + " of " + quoted(algorithm_.name),
                       1, 1, line};
  algorithm_.define.push_back(parse_definition(SourceText(line, where), name_kinds(algorithm_)));
  return *this;
}

AlgorithmBuilder& AlgorithmBuilder::define(const std::string& name, const std::vector<std::string>& indices, Expr value,
                                           std::optional<Expr> where) {
  algorithm_.define.push_back(
      {name, indices, std::move(value), std::move(where), Location{"definition of " + quoted(name), 0, 0, ""}});
  return *this;
}

AlgorithmBuilder& AlgorithmBuilder::update(const std::string& line) {
  const Location where{"update " + std::to_string(algorithm_.updates.size() + 1) + " of " + quoted(algorithm_.name), 1,
                       1, line};
  algorithm_.updates.push_back(parse_update(SourceText(line, where), name_kinds(algorithm_)));
  return *this;
}

AlgorithmBuilder& AlgorithmBuilder::update(const std::string& input, std::vector<Expr> places, Expr value,
                                           std::optional<Expr> where) {
  algorithm_.updates.push_back(make_update(algorithm_, input, std::move(places), std::move(value), std::move(where),
                                           Location{"update of " + quoted(input), 0, 0, ""}));
  return *this;
}

AlgorithmBuilder& AlgorithmBuilder::outputs(const std::vector<std::string>& names) {
  algorithm_.outputs.insert(algorithm_.outputs.end(), names.begin(), names.end());
  return *this;
}

AlgorithmBuilder& AlgorithmBuilder::size(const std::string& extent, std::int64_t value) {
  algorithm_.sizes[extent] = value;
  return *this;
}

AlgorithmBuilder& AlgorithmBuilder::output(const std::string& name, const std::vector<std::string>& dims) {
  algorithm_.outputs.push_back(name);
  algorithm_.output_dims.insert_or_assign(name, parsed_dims(name, dims));
  return *this;
}

AlgorithmBuilder& AlgorithmBuilder::monotone(const std::string& input) {
  for (Input& candidate : algorithm_.inputs)
    if (candidate.name == input) {
      candidate.monotone = true;
      return *this;
    }
  throw UserError("'" + quoted(input) + "' is no input of " + quoted(algorithm_.name) + " that can be monotone");
}

AlgorithmBuilder& AlgorithmBuilder::axis(const std::string& name, const Expr& extent) {
  add_axis(algorithm_, name, extent);
  return *this;
}

Algorithm AlgorithmBuilder::build() const {
  check_algorithm(algorithm_);
  return algorithm_;
}

}  // namespace astatide
