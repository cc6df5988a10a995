#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "api/export_state.h"
#include "compiler/algorithm/names.h"

namespace astatide {
namespace {

using Kind = tile::Parameter::Kind;

/// The functions of one target: `prepare` checks the extents and finds the places of the workspace, `workspace` gives
/// its size, `launch` does the rest.
class LaunchWriter {
 public:
  LaunchWriter(const Export& exported, const ExportedTarget& target, const std::string& suffix)
      : exported_(exported),
        program_(target.program),
        plan_(target.plan),
        source_(target.source),
        target_(target.target),
        suffix_(suffix) {
    for (const KernelPlan& kernel : plan_.kernels)
      for (const tile::Parameter& parameter : kernel.parameters) {
        has_control_ = has_control_ || parameter.kind == Kind::counter || parameter.kind == Kind::arrivals;
        if (parameter.kind == Kind::tensor_map) mapped_.insert(parameter.name);
      }
  }

  std::string write() { return places() + prepare() + workspace() + launch(); }

 private:
  std::string arguments() const { return exported_.name + "_arguments"; }

  std::string in_c(const Expr& e) {
    const CNames names = [this](const std::string& name) { return name_of_extent(name); };
    return integer_in_c(e, names, uses_fault_);
  }

  CName name_of_extent(const std::string& name) const {
    if (name == LaunchPlan::kResident)
      return {fmt::format("astatide_resident_blocks(code, {})", plan_.chosen->kernel), 1, 0x1p40};
    if (plan_.chosen && name == plan_.chosen->extent) return {"places->chosen", 1, static_cast<double>(INT32_MAX)};
    double least = 0, most = static_cast<double>(kLargestExtent);
    if (const auto known = program_.known.find(name); known != program_.known.end())
      least = most = static_cast<double>(known->second);
    if (const auto bound = program_.bounds.find(name); bound != program_.bounds.end())
      most = static_cast<double>(bound->second);
    return {"a->" + name, least, most};
  }

  std::string places() const {
    std::string out = fmt::format(
        "/* Where a launch keeps what is its own, in bytes from the workspace on. */\ntypedef struct places_{} {{\n",
        suffix_);
    for (const tile::Tensor& tensor : plan_.scratch)
      out += fmt::format("  int64_t {0}_offset, {0}_strides[{1}];\n", tensor.name,
                         std::max<std::size_t>(1, tensor.dims.size()));
    for (const tile::Tensor& tensor : plan_.counters)
      out += fmt::format("  int64_t {0}_strides[{1}];\n", tensor.name, std::max<std::size_t>(1, tensor.dims.size()));
    if (plan_.chosen) out += fmt::format("  int64_t chosen; /* {} */\n", plan_.chosen->extent);
    return out + fmt::format(
                     "  int64_t cleared; /* counters and zeros, up to the end */\n  int64_t zero;\n  int64_t "
                     "bytes;\n}} places_{};\n",
                     suffix_);
  }

  // ---- checks of extents

  std::string check_extents() {
    std::string out;
    for (const Extent& extent : exported_.request.algorithm.extents) {
      const auto bound = program_.bounds.find(extent.name);
      out += fmt::format(
          "  ASTATIDE_TRY(astatide_check_extent({}, a->{}, {}, error));\n", c_string(extent.name), extent.name,
          bound == program_.bounds.end() ? "ASTATIDE_LARGEST_EXTENT" : fmt::format("INT64_C({})", bound->second));
    }
    for (const auto& [name, value] : program_.known)
      out += fmt::format("  ASTATIDE_TRY(astatide_check_known({}, a->{}, {}, error));\n", c_string(name), name, value);
    for (const Multiple& multiple : program_.multiples)
      out += fmt::format("  ASTATIDE_TRY(astatide_check_multiple({}, {}, {}, {}, error));\n",
                         c_string(to_string(multiple.value)), in_c(multiple.value), c_string(to_string(multiple.of)),
                         in_c(multiple.of));
    std::set<std::string> seen;
    for (const AxisGroup& group : exported_.groups)
      if (seen.insert(group.text).second)
        out += fmt::format("  ASTATIDE_TRY(astatide_check_groups({}, {}, {}, error));\n", c_string(group.text),
                           in_c(group.from), in_c(group.onto));
    for (const ReadSite& site : exported_.reads.sites) out += check_index(site);
    return out;
  }

  /// An index that no data is read for; what data says is the caller's promise.
  std::string check_index(const ReadSite& site) {
    if (!tensors_read(site.index).empty()) return "";
    const auto axis_range = [&](const std::string& name) -> std::string {
      const auto axis = exported_.reads.axis_extents.find(name);
      if (exported_.request.algorithm.find_extent(name) != nullptr)
        return fmt::format("astatide_of((double)a->{0}, (double)a->{0})", name);
      if (axis == exported_.reads.axis_extents.end()) return "astatide_unknown()";
      return fmt::format("astatide_of(0, (double)({}) - 1)", in_c(axis->second));
    };
    std::vector<std::string> filled;
    for (const std::string& name : site.axes)
      if (const auto axis = exported_.reads.axis_extents.find(name); axis != exported_.reads.axis_extents.end())
        filled.push_back(fmt::format("({}) > 0", in_c(axis->second)));
    const std::string check = fmt::format("ASTATIDE_TRY(astatide_check_index({}, {}, {}, {}, {}, error));\n",
                                          c_string(print_expr(site.index, {}, true)), c_string(site.tensor),
                                          site.dim + 1, range_in_c(site.index, axis_range), in_c(site.length));
    return filled.empty() ? "  " + check : fmt::format("  if ({})\n    {}", fmt::join(filled, " && "), check);
  }

  // ---- places

  std::string shape_in_c(const std::string& name, const std::vector<Expr>& dims) {
    std::vector<std::string> shape;
    for (const Expr& dim : dims) shape.push_back(in_c(dim));
    // C has no empty arrays.
    if (shape.empty()) shape.push_back("1");
    return fmt::format("const int64_t shape_{}[] = {{{}}};\n", name, fmt::join(shape, ", "));
  }

  std::string place(const tile::Tensor& tensor, const std::string& end) {
    return fmt::format("    {}    fault |= !astatide_place_tensor({}, shape_{}, {}, places->{}_strides, &count, {});\n",
                       shape_in_c(tensor.name, tensor.dims), tensor.dims.size(), tensor.name,
                       size_in_bytes(tensor.type), tensor.name, end);
  }

  std::string find_places() {
    std::string out = "  places->bytes = 0;\n";
    for (const tile::Tensor& tensor : plan_.scratch) {
      uses_fault_ = true;
      out += fmt::format("  {{\n    int64_t count = 0;\n    places->{}_offset = places->bytes;\n{}  }}\n", tensor.name,
                         place(tensor, "&places->bytes"));
    }
    out += "  places->cleared = places->bytes;\n";
    if (has_control_) {
      out += "  int64_t words = ASTATIDE_DEALING_WORDS;\n";
      for (const tile::Tensor& tensor : plan_.counters) {
        uses_fault_ = true;
        out += fmt::format(
            "  {{\n    int64_t count = 0, own = 0;\n{}"
            "    words = astatide_max(words, astatide_add(ASTATIDE_DEALING_WORDS, count, &fault));\n  }}\n",
            place(tensor, "&own"));
      }
      out +=
          "  {\n    int64_t stride = 0, count = 0;\n"
          "    fault |= !astatide_place_tensor(1, &words, 4, &stride, &count, &places->bytes);\n  }\n";
      uses_fault_ = true;
    }
    out += "  places->zero = places->bytes;\n";
    // A map of an empty tensor is one of a zero.
    std::vector<std::string> empty;
    for (const std::string& name : mapped_)
      for (const Expr& dim : exported_.tensor(name).dims) {
        const std::string test = fmt::format("({}) == 0", in_c(dim));
        if (std::find(empty.begin(), empty.end(), test) == empty.end()) empty.push_back(test);
      }
    if (!empty.empty())
      out += fmt::format(
          "  if ({})\n    places->bytes = astatide_add(places->bytes, ASTATIDE_SCRATCH_ALIGNMENT, &fault);\n",
          fmt::join(empty, " || "));
    uses_fault_ = uses_fault_ || !empty.empty();
    return out;
  }

  std::string prepare() {
    uses_fault_ = false;
    std::string body = check_extents();
    if (plan_.chosen) body += fmt::format("  places->chosen = {};\n", in_c(plan_.chosen->value));
    body += find_places();
    std::string out = fmt::format(
        "\nstatic int prepare_{0}(const astatide_code* code, const {1}* a, places_{0}* places, astatide_error* error) "
        "{{\n",
        suffix_, arguments());
    if (body.find("code,") == std::string::npos) out += "  (void)code;\n";
    if (body.find("a->") == std::string::npos) out += "  (void)a;\n";
    if (body.find("error)") == std::string::npos && !uses_fault_) out += "  (void)error;\n";
    if (uses_fault_) out += "  int fault = 0;\n";
    return out + body +
           (uses_fault_ ? "  return astatide_check_fault(fault, error);\n}\n" : "  return ASTATIDE_OK;\n}\n");
  }

  std::string workspace() const {
    return fmt::format(
        "\nstatic int workspace_{0}(const astatide_code* code, const {1}* a, int64_t* bytes, astatide_error* error) "
        "{{\n"
        "  places_{0} places;\n  ASTATIDE_TRY(prepare_{0}(code, a, &places, error));\n"
        "  *bytes = places.bytes;\n  return ASTATIDE_OK;\n}}\n",
        suffix_, arguments());
  }

  // ---- launch

  std::string check_tensors() {
    std::string out;
    for (const DeclaredTensor& declared : exported_.declared) {
      out += "  " + shape_in_c(declared.name, declared.dims);
      // An expression may be less than nothing.
      for (std::size_t n = 0; n < declared.dims.size(); ++n)
        if (declared.dims[n].as<Variable>() == nullptr)
          out += fmt::format("  ASTATIDE_TRY(astatide_check_extent({}, shape_{}[{}], INT64_MAX, error));\n",
                             c_string(fmt::format("dimension {} of {}", n + 1, declared.name)), declared.name, n);
      out += fmt::format(
          "  ASTATIDE_TRY(astatide_check_tensor(code, {0}, a->{1}.data, {2}, shape_{1}, a->{1}.strides, {3}, {4}, "
          "error));\n",
          c_string(declared.name), declared.name, declared.dims.size(),
          size_in_bytes(exported_.tensor(declared.name).type), declared.is_written() ? 1 : 0);
    }
    for (const Scalar& scalar : exported_.request.algorithm.scalars)
      out +=
          fmt::format("  ASTATIDE_TRY(astatide_check_scalar({}, a->{}, error));\n", c_string(scalar.name), scalar.name);
    return out;
  }

  std::string nothing_to_write() const {
    std::vector<std::string> empty;
    for (const DeclaredTensor& declared : exported_.declared) {
      if (!declared.is_written()) continue;
      std::vector<std::string> zero;
      for (std::size_t n = 0; n < declared.dims.size(); ++n)
        zero.push_back(fmt::format("shape_{}[{}] == 0", declared.name, n));
      if (zero.empty()) return "";
      empty.push_back(fmt::format("({})", fmt::join(zero, " || ")));
    }
    return fmt::format("  if ({}) return ASTATIDE_OK; /* nothing to write */\n", fmt::join(empty, " && "));
  }

  std::string count_blocks(std::size_t n) {
    std::vector<std::string> counts;
    for (const KernelPlan::Axis& axis : plan_.kernels[n].grid)
      counts.push_back(fmt::format("/* {} */ {}", axis.var, in_c(axis.blocks)));
    if (counts.empty()) counts.push_back("1");
    return fmt::format(
        "  int64_t blocks_{0} = 0;\n  {{\n    const int64_t counts[] = {{{1}}};\n"
        "    ASTATIDE_TRY(astatide_count_blocks({2}, counts, {3}, INT64_C({4}), &blocks_{0}, error));\n  }}\n",
        n, fmt::join(counts, ", "), c_string(source_.kernels[n].name), counts.size(), target_.blocks_per_grid);
  }

  std::string make_map(std::size_t kernel, const tile::Parameter& parameter) {
    const tile::Tensor& tensor = exported_.tensor(parameter.name);
    const MapForm form = map_form(parameter, tensor.dims.size());
    std::vector<std::string> extents, strides, ones;
    for (const std::size_t dim : form.order) {
      extents.push_back(fmt::format("(uint64_t)shape_{}[{}]", parameter.name, dim));
      strides.push_back(fmt::format("a->{}.strides[{}]", parameter.name, dim));
      ones.push_back("1");
    }
    const std::string name = c_string(parameter.name);
    const std::string run = form.run ? in_c(*form.run) : "0";
    const std::string box =
        fmt::format("astatide_box_of_rows({}, {}, {}, tiled.box)", form.rows, form.run ? 1 : 0, run);
    const std::string refusal = fmt::format(
        "if (!{})\n      return astatide_fail(error, ASTATIDE_BAD_EXTENT, \"tma copies {} rows of %s at a time, "
        "which %lld does not divide\", {}, (long long)({}))",
        box, form.rows, name, run);
    return fmt::format(
        "  astatide_map map_{0}_{1};\n  {{\n"
        "    astatide_tiled_tensor tiled = {{(uint64_t)(uintptr_t)a->{1}.data, {2}, {3}, {{{4}}}, {{{5}}}, {{{6}}}}};\n"
        "    {7};\n"
        "    ASTATIDE_TRY(astatide_make_map(code, {8}, tiled, base + (uint64_t)places->zero, &map_{0}_{1}, error));\n"
        "  }}\n",
        kernel, parameter.name, tensor.type == ScalarType::bf16 ? 1 : 0, form.order.size(), fmt::join(extents, ", "),
        fmt::join(strides, ", "), fmt::join(ones, ", "), form.run ? refusal : box, name);
  }

  bool is_own(const std::string& name) const {
    const auto has = [&](const std::vector<tile::Tensor>& tensors) {
      return std::any_of(tensors.begin(), tensors.end(),
                         [&](const tile::Tensor& tensor) { return tensor.name == name; });
    };
    return has(plan_.scratch) || has(plan_.counters);
  }

  template <class T>
  static std::size_t place_of(const std::vector<T>& all, const T& one) {
    return static_cast<std::size_t>(std::find(all.begin(), all.end(), one) - all.begin());
  }

  std::string address_of(std::size_t kernel, const tile::Parameter& parameter) const {
    const std::string& name = parameter.name;
    switch (parameter.kind) {
      case Kind::pointer:
        return is_own(name) ? fmt::format("&address_{}", name) : fmt::format("(void*)&a->{}.data", name);
      case Kind::stride:
        return is_own(name) ? fmt::format("&places->{}_strides[{}]", name, parameter.dim)
                            : fmt::format("(void*)&a->{}.strides[{}]", name, parameter.dim);
      case Kind::extent:
        return fmt::format("&extents[{}]", place_of(program_.extents, name));
      case Kind::scalar:
        return fmt::format("&scalars[{}]", place_of(program_.scalars, name));
      case Kind::tensor_map:
        return fmt::format("&map_{}_{}", kernel, name);
      case Kind::counter:
        return "&tile_counter";
      case Kind::arrivals:
        return "&arrivals";
    }
    throw InternalError("a parameter of no kind");
  }

  bool has_kind(Kind kind) const {
    return std::any_of(plan_.kernels.begin(), plan_.kernels.end(), [&](const KernelPlan& kernel) {
      return std::any_of(kernel.parameters.begin(), kernel.parameters.end(),
                         [&](const tile::Parameter& parameter) { return parameter.kind == kind; });
    });
  }

  /// What parameters point to.
  std::string values() const {
    std::string out;
    std::vector<std::string> extents, scalars;
    for (const std::string& name : program_.extents)
      extents.push_back(fmt::format("(int32_t){}", name_of_extent(name).text));
    for (const std::string& name : program_.scalars) scalars.push_back(fmt::format("(float)a->{}", name));
    if (has_kind(Kind::extent)) out += fmt::format("  int32_t extents[] = {{{}}};\n", fmt::join(extents, ", "));
    if (has_kind(Kind::scalar)) out += fmt::format("  float scalars[] = {{{}}};\n", fmt::join(scalars, ", "));
    for (const tile::Tensor& tensor : plan_.scratch)
      out += fmt::format("  uint64_t address_{0} = base + (uint64_t)places->{0}_offset;\n", tensor.name);
    if (has_kind(Kind::counter)) out += "  uint64_t tile_counter = base + (uint64_t)places->cleared;\n";
    if (has_kind(Kind::arrivals))
      out += "  uint64_t arrivals = base + (uint64_t)places->cleared + 4 * ASTATIDE_DEALING_WORDS;\n";
    return out;
  }

  std::string launch() {
    uses_fault_ = false;
    std::string body = check_tensors() + nothing_to_write();
    body += "  ASTATIDE_TRY(astatide_check_workspace(code, workspace, workspace_bytes, places->bytes, error));\n";
    const bool uses_base = has_control_ || !mapped_.empty() || !plan_.scratch.empty();
    if (uses_base) body += "  const uint64_t base = (uint64_t)(uintptr_t)workspace;\n";
    for (std::size_t n = 0; n < plan_.kernels.size(); ++n) body += count_blocks(n);
    for (std::size_t n = 0; n < plan_.kernels.size(); ++n)
      for (const tile::Parameter& parameter : plan_.kernels[n].parameters)
        if (parameter.kind == Kind::tensor_map) body += make_map(n, parameter);
    if (uses_fault_) body += "  ASTATIDE_TRY(astatide_check_fault(fault, error));\n";
    body += values();
    if (has_control_ || !mapped_.empty())
      body +=
          "  if (places->cleared < places->bytes)\n    ASTATIDE_TRY(astatide_clear(code, base + "
          "(uint64_t)places->cleared, "
          "places->bytes - places->cleared, stream, error));\n";
    for (std::size_t n = 0; n < plan_.kernels.size(); ++n) {
      std::vector<std::string> parameters;
      for (const tile::Parameter& parameter : plan_.kernels[n].parameters)
        parameters.push_back(address_of(n, parameter));
      body += fmt::format(
          "  if (blocks_{0} > 0) {{\n    void* parameters[] = {{{1}}};\n"
          "    ASTATIDE_TRY(astatide_launch(code, {0}, blocks_{0}, parameters, stream, error));\n  }}\n",
          n, fmt::join(parameters, ", "));
    }
    return fmt::format(
        "\nstatic int launch_{0}(const astatide_code* code, const {1}* a, void* workspace, int64_t workspace_bytes,\n"
        "    void* stream, astatide_error* error) {{\n{2}  places_{0} found;\n  places_{0}* const places = &found;\n"
        "  ASTATIDE_TRY(prepare_{0}(code, a, places, error));\n{3}  return ASTATIDE_OK;\n}}\n",
        suffix_, arguments(), uses_fault_ ? "  int fault = 0;\n" : "", body);
  }

  const Export& exported_;
  const tile::Program& program_;
  const LaunchPlan& plan_;
  const cuda::Source& source_;
  const Target& target_;
  const std::string& suffix_;
  bool has_control_ = false, uses_fault_ = false;
  std::set<std::string> mapped_;
};

}  // namespace

std::string print_target_functions(const Export& exported, const ExportedTarget& target, const std::string& suffix) {
  return LaunchWriter(exported, target, suffix).write();
}

}  // namespace astatide
