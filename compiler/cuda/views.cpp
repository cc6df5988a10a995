#include <fmt/format.h>

#include <algorithm>

#include "compiler/cuda/kernel_emitter.h"
#include "compiler/cuda/type_text.h"
#include "compiler/support/contains.h"
#include "compiler/support/diagnostic.h"

namespace astatide::cuda {

std::string type_text(ScalarType type) {
  switch (type) {
    case ScalarType::f32:
      return "float";
    case ScalarType::f64:
      return "double";
    case ScalarType::f16:
      return "f16";
    case ScalarType::bf16:
      return "bf16";
    case ScalarType::i32:
      return "int";
    case ScalarType::i64:
      return "long long";
    case ScalarType::u8:
    case ScalarType::boolean:
      return "unsigned char";
  }
  throw InternalError("a scalar type has no text");
}

std::string KernelEmitter::tensor_type(const std::string& tensor) const {
  const tile::Tensor* found = program_.find_tensor(tensor);
  if (!found) throw InternalError("unknown tensor " + tensor);
  return type_text(found->type);
}

std::string KernelEmitter::stride(const std::string& tensor, std::size_t dim) const {
  if (const auto known = tile::known_stride(program_, tensor, dim)) return std::to_string(*known);
  return claimed(fmt::format("{}_stride_{}", tensor, dim));
}

std::string KernelEmitter::address(const std::string& tensor, const std::vector<std::string>& indices) const {
  std::string text = tensor;
  for (std::size_t dim = 0; dim < indices.size(); ++dim) {
    if (indices[dim].empty()) continue;
    // An index may be 32 bits wide; its product with a stride is not.
    const bool atom = indices[dim].find(' ') == std::string::npos;
    const std::string index = atom ? indices[dim] : "(" + indices[dim] + ")";
    const auto known = tile::known_stride(program_, tensor, dim);
    if (known == 1) {
      text += " + " + index;
    } else {
      text += fmt::format(" + {} * {}", index, known ? fmt::format("{}LL", *known) : stride(tensor, dim));
    }
  }
  return text;
}

std::string KernelEmitter::address_without(std::size_t dim, const tile::View& view) const {
  std::vector<std::string> indices(view.indices.size());
  for (std::size_t n = 0; n < indices.size(); ++n)
    if (n != dim) indices[n] = integer_text(view.indices[n], scope());
  return address(view.tensor, indices);
}

std::string KernelEmitter::address_from_base(const tile::View& view, const std::set<std::size_t>& without) {
  std::vector<std::string> fixed(view.indices.size()), moving(view.indices.size());
  for (std::size_t n = 0; n < view.indices.size(); ++n) {
    if (without.contains(n)) continue;
    const std::set<std::string> names = free_variables(view.indices[n]);
    const bool is_fixed = bases_in_front_ && tensors_read(view.indices[n]).empty() && !kernel_.persistent &&
                          std::all_of(names.begin(), names.end(), [&](const std::string& name) {
                            return contains(program_.extents, name) ||
                                   std::any_of(kernel_.tiles.begin(), kernel_.tiles.end(),
                                               [&](const tile::TileAxis& axis) { return axis.var == name; });
                          });
    (is_fixed ? fixed : moving)[n] = integer_text(view.indices[n], scope());
  }
  std::string text = address(view.tensor, fixed);
  if (text != view.tensor) {
    const auto [base, is_new] = bases_.try_emplace(text, "");
    if (is_new) base->second = claim(view.tensor + "_base");
    text = base->second;
  }
  return text + address(view.tensor, moving).substr(view.tensor.size());
}

std::string KernelEmitter::declare_coordinates(const std::vector<tile::Coordinate>& at, const tile::Mem& shape,
                                               const Element& element) {
  std::string condition;
  for (const tile::Coordinate& coordinate : at) {
    const bool is_row = !shape.dims.empty() && shape.dims[0].axis == coordinate.axis;
    const bool is_column = shape.dims.size() == 2 && shape.dims[1].axis == coordinate.axis;
    std::string origin = integer_text(coordinate.origin, scope());
    std::string value = origin;
    if (is_row || is_column) {
      const std::string& offset = is_row ? element.row : element.column;
      value = origin == "0" ? offset : fmt::format("{} + ({})", origin, offset);
    }
    out_.line(fmt::format("const int {} = {};", coordinate.axis, value));
    integers_.insert(coordinate.axis);
    non_negative_.insert(coordinate.axis);
    if (!coordinate.limit || always_within(coordinate, shape)) continue;
    condition += fmt::format("{}{} < {}", condition.empty() ? "" : " && ", coordinate.axis,
                             limit_text(*coordinate.limit, scope()));
  }
  return condition;
}

bool KernelEmitter::always_within(const tile::Coordinate& coordinate, const tile::Mem& shape) const {
  const auto is_known = [&](const Expr& e) {
    const std::set<std::string> names = free_variables(e);
    return std::all_of(names.begin(), names.end(),
                       [&](const std::string& name) { return program_.known.contains(name); }) &&
           tensors_read(e).empty();
  };
  if (!coordinate.limit || !is_known(*coordinate.limit) || !is_known(coordinate.origin)) return false;
  return evaluate_integer(coordinate.origin, program_.known) + shape.extent_of(coordinate.axis) <=
         evaluate_integer(*coordinate.limit, program_.known);
}

std::vector<std::string> KernelEmitter::index_texts(const tile::View& view) const {
  std::vector<std::string> texts;
  for (const Expr& index : view.indices) texts.push_back(integer_text(index, scope()));
  return texts;
}

std::optional<std::size_t> KernelEmitter::contiguous_dim(const tile::View& view, const std::string& axis) const {
  std::optional<std::size_t> found;
  for (std::size_t dim = 0; dim < view.indices.size(); ++dim) {
    if (!free_variables(view.indices[dim]).contains(axis)) continue;
    const auto* name = view.indices[dim].as<Variable>();
    if (found || !name || name->name != axis) return std::nullopt;
    found = dim;
  }
  return found;
}

std::string KernelEmitter::vector_flag(const std::string& tensor, std::size_t dim, int vector) {
  const std::string name = fresh(fmt::format("{}_in_vectors_{}", tensor, vector));
  std::string condition =
      fmt::format("aligned({}, {})", tensor, vector * size_in_bytes(program_.find_tensor(tensor)->type));
  for (std::size_t d = 0; d < program_.find_tensor(tensor)->dims.size(); ++d) {
    const auto known = tile::known_stride(program_, tensor, d);
    if (known && (d == dim ? *known == 1 : *known % vector == 0)) continue;
    condition += d == dim ? fmt::format(" && {} == 1", stride(tensor, d))
                          : fmt::format(" && multiple({}, {})", stride(tensor, d), vector);
  }
  vector_flags_[name] = condition;
  return name;
}

}  // namespace astatide::cuda
