#include <fmt/format.h>

#include <map>

#include "api/export_state.h"

namespace astatide {
namespace {

std::string kernel_table(const ExportedTarget& target, const std::string& suffix) {
  std::string out = fmt::format("static const astatide_kernel kernels_{}[] = {{\n", suffix);
  for (std::size_t n = 0; n < target.source.kernels.size(); ++n) {
    const cuda::Source::KernelInfo& kernel = target.source.kernels[n];
    const bool persistent = target.plan.kernels[n].is_persistent();
    out += fmt::format("    {{{}, {}, {}, {}, {}, {}, {}}},\n", c_string(kernel.name), kernel.threads,
                       kernel.shared_bytes, kernel.cluster, persistent ? 1 : 0,
                       persistent || (n == 0 && target.plan.chosen) ? 1 : 0, kernel.dependent ? 1 : 0);
  }
  return out + "};\n";
}

bool needs_maps(const ExportedTarget& target) {
  for (const KernelPlan& kernel : target.plan.kernels)
    for (const tile::Parameter& parameter : kernel.parameters)
      if (parameter.kind == tile::Parameter::Kind::tensor_map) return true;
  return false;
}

std::string defaults(const Export& exported) {
  std::string body;
  bool uses_fault = false;
  for (const auto& [name, value] : exported.program().known) body += fmt::format("  a->{} = {};\n", name, value);
  const CNames names = [&](const std::string& name) {
    return CName{"a->" + name, static_cast<double>(INT64_MIN), static_cast<double>(INT64_MAX)};
  };
  for (const DeclaredTensor& declared : exported.declared) {
    if (declared.dims.empty()) continue;
    std::vector<std::string> shape;
    for (const Expr& dim : declared.dims) shape.push_back(integer_in_c(dim, names, uses_fault));
    body += fmt::format(
        "  {{\n    const int64_t shape[] = {{{}}};\n    int64_t count = 0, end = 0;\n"
        "    fault |= !astatide_place_tensor({}, shape, {}, a->{}.strides, &count, &end);\n  }}\n",
        fmt::join(shape, ", "), declared.dims.size(), size_in_bytes(exported.tensor(declared.name).type),
        declared.name);
    uses_fault = true;
  }
  for (const Scalar& scalar : exported.request.algorithm.scalars) {
    if (!scalar.default_value) continue;
    const auto& algorithm = exported.request.algorithm;
    const auto in_c = [&](const std::string& name) {
      return algorithm.find_extent(name) != nullptr ? "(double)a->" + name : "a->" + name;
    };
    body += fmt::format("  a->{} = {};\n", scalar.name, real_in_c(*scalar.default_value, in_c));
  }
  std::string out = fmt::format("int {0}_defaults({0}_arguments* a, astatide_error* error) {{\n", exported.name);
  if (uses_fault) out += "  int fault = 0;\n";
  out += body;
  return out + (uses_fault ? "  return astatide_check_fault(fault, error);\n}\n"
                           : "  (void)error;\n  return ASTATIDE_OK;\n}\n");
}

/// A switch over the targets, those with the same functions together.
std::string choose(const std::vector<std::size_t>& functions, const std::string& call) {
  std::string out = "  switch (astatide_target_index(code, targets)) {\n";
  for (std::size_t n = 0; n < functions.size(); ++n)
    out += fmt::format("    case {}:\n      return {};\n", n, fmt::format(fmt::runtime(call), functions[n]));
  return out +
         "    default:\n      return astatide_fail(error, ASTATIDE_WRONG_CODE, \"the code was opened for other "
         "kernels, or "
         "not at all\");\n  }\n";
}

}  // namespace

std::string print_export_source(const Export& exported) {
  const std::string& name = exported.name;
  std::string out = fmt::format(
      "/* What a launch of {0} decides; see {0}.h. */\n#include \"{0}.h\"\n\n"
      "#if ASTATIDE_STUB_VERSION != 2\n#error \"{0}.c and astatide_stub.h are of different versions\"\n#endif\n\n",
      name);
  // Functions of targets that decide alike are there once.
  std::map<std::string, std::size_t> known;
  std::vector<std::size_t> functions;
  std::string tables, texts;
  for (const ExportedTarget& target : exported.targets) {
    const std::string plain = print_target_functions(exported, target, "N");
    const auto [entry, added] = known.try_emplace(plain, known.size());
    functions.push_back(entry->second);
    if (added) texts += "\n" + print_target_functions(exported, target, std::to_string(entry->second));
    out += fmt::format("extern const unsigned char {}_code_{}[];\n", name, target.target.name);
    tables += kernel_table(target, target.target.name);
  }
  out += "\n" + tables + "\nstatic const astatide_target targets[] = {\n";
  for (const ExportedTarget& target : exported.targets) {
    const int capability = target.target.compute_capability;
    out +=
        fmt::format("    {{{0}, {1}, {2}, {3}, {4}_code_{5}, kernels_{5}, {6}, {7}}},\n", c_string(target.target.name),
                    capability / 10, capability % 10, target.target.name.ends_with("a") ? 1 : 0, name,
                    target.target.name, target.source.kernels.size(), needs_maps(target) ? 1 : 0);
  }
  out += fmt::format(
      "}};\n{0}\nint {1}_open(astatide_code** code, astatide_error* error) {{\n"
      "  return astatide_open(targets, {2}, code, error);\n}}\n\n",
      texts, name, exported.targets.size());
  out += defaults(exported);
  out += fmt::format(
      "\nint {0}_workspace_bytes(const astatide_code* code, const {0}_arguments* a, int64_t* bytes, astatide_error* "
      "error) "
      "{{\n{1}}}\n",
      name, choose(functions, "workspace_{}(code, a, bytes, error)"));
  out += fmt::format(
      "\nint {0}_launch(const astatide_code* code, const {0}_arguments* a, void* workspace, int64_t workspace_bytes,\n"
      "    void* stream, astatide_error* error) {{\n{1}}}\n",
      name, choose(functions, "launch_{}(code, a, workspace, workspace_bytes, stream, error)"));
  return out;
}

std::string print_export_code(const Export& exported) {
  std::string out = fmt::format("/* Machine code of {}, a cubin a target. */\n", exported.name);
  for (const ExportedTarget& target : exported.targets) {
    const std::string symbol = fmt::format("{}_code_{}", exported.name, target.target.name);
    out += fmt::format("\nextern const unsigned char {0}[];\n_Alignas(64) const unsigned char {0}[{1}] = {{", symbol,
                       target.machine_code.size());
    for (std::size_t n = 0; n < target.machine_code.size(); ++n)
      out += fmt::format("{}{},", n % 24 == 0 ? "\n" : "", static_cast<unsigned char>(target.machine_code[n]));
    out += "\n};\n";
  }
  return out;
}

}  // namespace astatide
