#include "compiler/algorithm/algorithm.h"

#include <algorithm>

#include "compiler/algorithm/names.h"

namespace astatide {
namespace {

template <class T>
const T* find_named(const std::vector<T>& items, const std::string& name) {
  const auto found = std::find_if(items.begin(), items.end(), [&](const T& item) { return item.name == name; });
  return found == items.end() ? nullptr : &*found;
}

}  // namespace

const Extent* Algorithm::find_extent(const std::string& wanted) const { return find_named(extents, wanted); }
const Scalar* Algorithm::find_scalar(const std::string& wanted) const { return find_named(scalars, wanted); }
const Input* Algorithm::find_input(const std::string& wanted) const { return find_named(inputs, wanted); }
bool Algorithm::updates_input(const std::string& wanted) const { return find_named(updates, wanted) != nullptr; }
const Func* Algorithm::find_func(const std::string& wanted) const { return find_named(define, wanted); }

bool equal(const Algorithm& a, const Algorithm& b) {
  const auto same_extent = [](const Extent& x, const Extent& y) { return x.name == y.name; };
  const auto same_scalar = [](const Scalar& x, const Scalar& y) {
    return x.name == y.name && x.default_value == y.default_value;
  };
  const auto same_input = [](const Input& x, const Input& y) {
    return x.name == y.name && x.dims == y.dims && x.dtype == y.dtype && x.monotone == y.monotone;
  };
  const auto same_func = [](const Func& x, const Func& y) {
    return x.name == y.name && x.indices == y.indices && x.value == y.value && x.where_predicate == y.where_predicate &&
           x.stored == y.stored;
  };
  return a.name == b.name &&
         std::equal(a.extents.begin(), a.extents.end(), b.extents.begin(), b.extents.end(), same_extent) &&
         std::equal(a.scalars.begin(), a.scalars.end(), b.scalars.begin(), b.scalars.end(), same_scalar) &&
         std::equal(a.inputs.begin(), a.inputs.end(), b.inputs.begin(), b.inputs.end(), same_input) &&
         std::equal(a.updates.begin(), a.updates.end(), b.updates.begin(), b.updates.end(), same_func) &&
         std::equal(a.define.begin(), a.define.end(), b.define.begin(), b.define.end(), same_func) &&
         a.outputs == b.outputs && a.output_dims == b.output_dims && a.sizes == b.sizes && a.axes == b.axes &&
         a.lengths == b.lengths;
}

Func make_update(const Algorithm& algorithm, const std::string& input, std::vector<Expr> places, Expr value,
                 std::optional<Expr> where_predicate, Location where) {
  Func out{input, {}, std::move(value), std::move(where_predicate), std::move(where), std::move(places)};
  const NameKinds names = name_kinds(algorithm);
  for (const Expr& place : out.stored) add_axes_of(place, names, out.indices);
  return out;
}

std::vector<Expr> shape_of(const Algorithm& algorithm, const std::string& func) {
  const Func* definition = algorithm.find_func(func);
  if (!definition) throw InternalError("no definition " + func);
  if (const auto dims = algorithm.output_dims.find(func); dims != algorithm.output_dims.end()) return dims->second;
  Diagnostics errors;
  const auto extents = infer_axis_extents(algorithm, errors);
  errors.throw_if_any();
  std::vector<Expr> shape;
  for (const std::string& axis : definition->indices) {
    const auto found = extents.find(axis);
    if (found == extents.end()) throw InternalError("axis " + axis + " of " + func + " has no extent");
    shape.push_back(found->second);
  }
  return shape;
}

}  // namespace astatide
