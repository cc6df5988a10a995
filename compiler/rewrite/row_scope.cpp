#include "compiler/rewrite/row_scope.h"

#include <cmath>

#include "compiler/support/diagnostic.h"

namespace astatide {

std::int64_t length_of(const std::map<std::string, Expr>& axis_extents, const std::string& axis,
                       const RowInputs& inputs) {
  const auto found = axis_extents.find(axis);
  if (found == axis_extents.end()) throw InternalError("axis " + axis + " has no extent");
  return static_cast<std::int64_t>(value_of(found->second, bindings_of(inputs)));
}

void for_each_index(const std::vector<std::string>& axes, const std::map<std::string, Expr>& axis_extents,
                    const RowInputs& inputs, std::map<std::string, double>& variables,
                    const std::function<void(std::size_t index)>& f) {
  const std::size_t size = size_of(axes, axis_extents, inputs);
  for (std::size_t index = 0; index < size; ++index) {
    std::size_t rest = index;
    for (std::size_t i = axes.size(); i-- > 0;) {
      const auto length = static_cast<std::size_t>(length_of(axis_extents, axes[i], inputs));
      variables[axes[i]] = static_cast<double>(rest % length);
      rest /= length;
    }
    f(index);
  }
}

std::size_t size_of(const std::vector<std::string>& axes, const std::map<std::string, Expr>& axis_extents,
                    const RowInputs& inputs) {
  std::size_t size = 1;
  for (const std::string& axis : axes) size *= static_cast<std::size_t>(length_of(axis_extents, axis, inputs));
  return size;
}

Bindings bindings_of(const RowInputs& inputs) {
  Bindings bindings;
  bindings.variables = inputs.variables;
  bindings.read = [&inputs](const Read& read, const std::vector<double>& indices) {
    std::vector<std::int64_t> whole;
    for (double index : indices) whole.push_back(static_cast<std::int64_t>(index));
    return inputs.read(read.tensor, whole);
  };
  return bindings;
}

PositionValues values_at(const std::vector<Element>& elements, const std::string& axis, std::int64_t position,
                         const std::map<std::string, Expr>& axis_extents, const RowInputs& inputs) {
  Bindings bindings = bindings_of(inputs);
  bindings.variables[axis] = static_cast<double>(position);
  PositionValues result;
  for (const Element& element : elements) {
    bool present = true;
    for (const Expr& predicate : element.where_predicates) present = present && value_of(predicate, bindings) != 0;
    double value = element.absent;
    if (present) {
      if (element.product) {
        const Product& product = *element.product;
        double sum = 0;
        Bindings inner = bindings;
        for (std::int64_t d = 0; d < length_of(axis_extents, product.axis, inputs); ++d) {
          inner.variables[product.axis] = static_cast<double>(d);
          sum += value_of(product.lhs, inner) * value_of(product.rhs, inner);
        }
        bindings.variables[element.name] = sum;
      }
      value = value_of(element.value, bindings);
    } else {
      result.absent.insert(element.name);
    }
    bindings.variables[element.name] = value;
    result.values[element.name] = value;
  }
  return result;
}

double reduced(Reduction op, double total, double value) {
  const double args[2] = {total, value};
  switch (op) {
    case Reduction::sum:
      return total + value;
    case Reduction::max:
      return apply(Op::max, args);
    case Reduction::min:
      return apply(Op::min, args);
    case Reduction::softmax:
    case Reduction::logsumexp:
      break;
  }
  throw InternalError("an abbreviation among the stages of a cascade");
}

}  // namespace astatide
