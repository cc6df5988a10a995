#include "compiler/rewrite/derive_merge.h"

#include <algorithm>

#include "compiler/rewrite/fresh_names.h"
#include "compiler/support/contains.h"
#include "compiler/support/diagnostic.h"

namespace astatide {
namespace {

std::vector<Expr> variables(const std::vector<std::string>& names) {
  std::vector<Expr> out;
  for (const std::string& name : names) out.push_back(variable(name));
  return out;
}

std::vector<std::string> joined(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// The merge as an algorithm: each slot a reduction over the parts, each output what finalize says.
class MergeText {
 public:
  MergeText(const Algorithm& of, Merge& merge, std::optional<ScalarType> parts_type)
      : of_(of), merge_(merge), parts_type_(parts_type), names_(taken_names()) {}

  void write() {
    Algorithm& out = merge_.algorithm;
    out.name = of_.name + "_merge";
    out.where = of_.where;
    merge_.count = names_.fresh("parts");
    part_ = names_.fresh("part");
    for (const std::string& output : of_.outputs) add_parts(output);
    for (const Slot& slot : merge_.recurrence.slots) slot_reads_.emplace(slot.name, read_of(slot));
    for (const Slot& slot : merge_.recurrence.slots) define(slot);
    for (const RowValue& value : merge_.recurrence.values) define(value);
    out.outputs = of_.outputs;
    out.output_dims = of_.output_dims;
    add_row_axes();
    add_what_is_read();
  }

 private:
  std::set<std::string> taken_names() const {
    std::set<std::string> names = names_of(of_);
    for (const Slot& slot : merge_.recurrence.slots) names.insert(slot.name);
    return names;
  }

  const RowValue& value_of(const std::string& output) const {
    for (const RowValue& value : merge_.recurrence.values)
      if (value.name == output) return value;
    throw InternalError("output " + output + " is not defined");
  }

  void add_parts(const std::string& output) {
    const RowValue& value = value_of(output);
    Input input;
    input.name = names_.fresh(output + "_parts");
    input.dims = shape_of(of_, output);
    input.dims.insert(input.dims.begin(), variable(merge_.count));
    const bool wide = std::any_of(value.indices.begin(), value.indices.end(),
                                  [&](const std::string& index) { return !contains(merge_.recurrence.rows, index); });
    input.dtype = wide ? parts_type_ : ScalarType::f32;
    merge_.algorithm.inputs.push_back(input);
    std::vector<Expr> indices = value.stored_at.empty() ? variables(value.indices) : value.stored_at;
    indices.insert(indices.begin(), variable(part_));
    part_reads_.emplace(output, read(input.name, std::move(indices)));
    merge_.parts_of.emplace(output, input.name);
  }

  Expr read_of(const Slot& slot) const { return read(slot.name, variables(axes_of(slot))); }

  std::vector<std::string> axes_of(const Slot& slot) const { return joined(merge_.recurrence.rows, slot.extra); }

  void define(const Slot& slot) {
    std::map<std::string, Expr> values = part_reads_;
    for (const auto& [name, whole] : slot_reads_) values.emplace(new_value_name(name), whole);
    merge_.algorithm.define.push_back({slot.name, axes_of(slot),
                                       reduce(slot.op, part_, substitute(move_of_part(slot, merge_.states), values)),
                                       std::nullopt, slot.where});
  }

  void define(const RowValue& value) {
    Func func{value.name, value.indices, substitute(value.value, slot_reads_), std::nullopt, value.where};
    for (const Expr& predicate : value.where_predicates)
      func.where_predicate = func.where_predicate ? logical_and(*func.where_predicate, predicate) : predicate;
    func.stored = value.stored_at;
    merge_.algorithm.define.push_back(std::move(func));
  }

  void add_row_axes() {
    Algorithm& out = merge_.algorithm;
    std::set<std::string> axes;
    for (const Func& func : out.define) axes.insert(func.indices.begin(), func.indices.end());
    for (const std::string& axis : axes) {
      out.axes.insert_or_assign(axis, merge_.recurrence.axis_extents.at(axis));
      if (const auto length = of_.lengths.find(axis); length != of_.lengths.end()) out.lengths.insert(*length);
    }
  }

  /// Of the algorithm's inputs, scalars and extents those that are still read.
  void add_what_is_read() {
    Algorithm& out = merge_.algorithm;
    std::set<std::string> names;
    const auto note = [&](const Expr& e) {
      names.merge(free_variables(e));
      names.merge(tensors_read(e));
    };
    for (const Func& func : out.define) {
      note(func.value);
      if (func.where_predicate) note(*func.where_predicate);
      for (const Expr& index : func.stored) note(index);
    }
    for (const auto& entries : {out.axes, out.lengths})
      for (const auto& [axis, length] : entries) note(length);
    for (const auto& [output, dims] : out.output_dims)
      for (const Expr& dim : dims) note(dim);
    for (const Input& input : of_.inputs)
      if (names.contains(input.name)) out.inputs.push_back(input);
    for (const Input& input : out.inputs)
      for (const Expr& dim : input.dims) note(dim);
    for (const Scalar& scalar : of_.scalars) {
      if (!names.contains(scalar.name)) continue;
      out.scalars.push_back(scalar);
      if (scalar.default_value) note(*scalar.default_value);
    }
    out.extents.push_back({merge_.count, of_.where});
    for (const Extent& extent : of_.extents) {
      if (!names.contains(extent.name)) continue;
      out.extents.push_back(extent);
      if (const auto size = of_.sizes.find(extent.name); size != of_.sizes.end()) out.sizes.insert(*size);
    }
    out.sizes.emplace(merge_.count, 2);
  }

  const Algorithm& of_;
  Merge& merge_;
  const std::optional<ScalarType> parts_type_;
  FreshNames names_;
  std::string part_;
  std::map<std::string, Expr> part_reads_, slot_reads_;
};

}  // namespace

Merge derive_merge(const Algorithm& algorithm, std::optional<ScalarType> parts_type) {
  Merge merge;
  merge.recurrence = derive_online(find_cascade(algorithm));
  merge.states = derive_part_states(merge.recurrence);
  MergeText(algorithm, merge, parts_type).write();
  return merge;
}

}  // namespace astatide
