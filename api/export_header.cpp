#include <fmt/format.h>

#include <algorithm>

#include "api/export_state.h"
#include "astatide/version.h"
#include "compiler/algorithm/names.h"

namespace astatide {
namespace {

/// Text in a comment of C can't end it.
std::string in_comment(std::string text) {
  for (std::size_t at = 0; (at = text.find("*/", at)) != std::string::npos;) text.replace(at, 2, "* /");
  return text;
}

std::string shape_text(const DeclaredTensor& declared) {
  std::vector<std::string> dims;
  for (const Expr& dim : declared.dims) dims.push_back(print_expr(dim, {}, true));
  return fmt::format("[{}]", fmt::join(dims, ", "));
}

std::string extents(const Export& exported) {
  std::string out = "  /* Lengths, in elements. */\n";
  for (const Extent& extent : exported.request.algorithm.extents) {
    std::string note = fmt::format("0 to {}", kLargestExtent);
    if (const auto known = exported.program().known.find(extent.name); known != exported.program().known.end())
      note = fmt::format("{}, no other", known->second);
    else if (const auto most = exported.program().bounds.find(extent.name); most != exported.program().bounds.end())
      note = fmt::format("0 to {}", most->second);
    out += fmt::format("  int64_t {}; /* {} */\n", extent.name, note);
  }
  return out;
}

std::string tensors(const Export& exported) {
  std::string out = "  /* Tensors in memory of the device; strides in elements, of any sign";
  out += ", of inputs that are not updated also 0. */\n";
  for (const DeclaredTensor& declared : exported.declared) {
    const bool is_map =
        std::any_of(exported.targets.begin(), exported.targets.end(), [&](const ExportedTarget& target) {
          return std::any_of(target.plan.kernels.begin(), target.plan.kernels.end(), [&](const KernelPlan& kernel) {
            return std::any_of(
                kernel.parameters.begin(), kernel.parameters.end(), [&](const tile::Parameter& parameter) {
                  return parameter.kind == tile::Parameter::Kind::tensor_map && parameter.name == declared.name;
                });
          });
        });
    const tile::Tensor& tensor = exported.tensor(declared.name);
    out +=
        fmt::format("  struct {{\n    {}void* data; /* {}, {}{}{} */\n    int64_t strides[{}];\n  }} {};\n",
                    declared.is_written() ? "" : "const ",
                    declared.output    ? "output"
                    : declared.updated ? "input, updated"
                                       : "input",
                    name_of(tensor.type), in_comment(shape_text(declared)),
                    is_map ? "; TMA: the address and all strides but the last are multiples of 16 bytes and the last "
                             "stride is 1"
                           : "",
                    std::max<std::size_t>(1, declared.dims.size()), declared.name);
  }
  return out;
}

std::string scalars(const Export& exported) {
  const std::vector<Scalar>& scalars = exported.request.algorithm.scalars;
  if (scalars.empty()) return "";
  std::string out = "  /* Numbers that the kernels take as f32. */\n";
  for (const Scalar& scalar : scalars)
    out +=
        fmt::format("  double {}; /* {} */\n", scalar.name,
                    scalar.default_value ? "default: " + in_comment(to_string(*scalar.default_value)) : "no default");
  return out;
}

/// What is read from data in device memory can't be checked before a launch.
std::string promises(const Export& exported) {
  std::vector<std::string> lines;
  for (const std::string& name : exported.reads.monotone)
    lines.push_back(fmt::format("{} does not decrease along its last dimension", name));
  for (const auto& [axis, length] : exported.reads.axis_lengths)
    lines.push_back(fmt::format("{} is 0 to {} for every item", print_expr(length, {}, true),
                                print_expr(exported.reads.axis_extents.at(axis), {}, true)));
  for (const ReadSite& site : exported.reads.sites) {
    if (tensors_read(site.index).empty()) continue;
    const std::string line =
        fmt::format("{} is 0 to {} - 1 wherever ", print_expr(site.index, {}, true), print_expr(site.length, {}, true));
    lines.push_back(line +
                    (site.stores()
                         ? fmt::format("{} is stored{}", site.tensor,
                                       site.use == ReadSite::Use::places ? ", and no two elements have one place" : "")
                         : fmt::format("{} is read", site.tensor)));
  }
  for (const UpdatePlaces& update : exported.reads.updates)
    lines.push_back(fmt::format("no two elements that an update stores into {} have one place", update.tensor));
  if (lines.empty()) return "";
  return fmt::format("/* The caller promises, and no launch checks:\n     {} */\n",
                     in_comment(fmt::format("{}", fmt::join(lines, "\n     "))));
}

}  // namespace

std::string print_export_header(const Export& exported) {
  const std::string& name = exported.name;
  std::string guard = name;
  std::transform(guard.begin(), guard.end(), guard.begin(), [](char letter) {
    return letter >= 'a' && letter <= 'z' ? static_cast<char>(letter - 'a' + 'A') : letter;
  });
  std::vector<std::string> targets;
  for (const ExportedTarget& target : exported.targets) targets.push_back(target.target.name);
  std::string out =
      fmt::format("/* {} under the schedule {}, compiled for {} by astatide {}:\n\n", exported.request.algorithm.name,
                  in_comment(exported.request.schedule_name), fmt::join(targets, ", "), ASTATIDE_VERSION);
  std::string mathematics = print_mathematics(exported.request.algorithm);
  while (mathematics.ends_with("\n")) mathematics.pop_back();
  out += in_comment(mathematics);
  out += fmt::format(R"(

   Compile {0}.c, {0}_code.c and astatide_stub.c, and link -ldl -lm. Functions give an astatide_status; why a call failed
   stands in the error, which may be NULL. */
#ifndef {1}_H
#define {1}_H

#include "astatide_stub.h"

#ifdef __cplusplus
extern "C" {{
#endif

typedef struct {0}_arguments {{
)",
                     name, guard);
  out += extents(exported) + tensors(exported) + scalars(exported);
  out += fmt::format("}} {}_arguments;\n{}", name, promises(exported));
  out += fmt::format(R"(
/* Loads the code for the device of the current CUDA context into that context. */
int {0}_open(astatide_code** code, astatide_error* error);

/* Sets what follows from the lengths, where nothing else is wished for: lengths that are fixed, strides of tensors without
   gaps, and scalars that have a default. */
int {0}_defaults({0}_arguments* arguments, astatide_error* error);

/* Bytes of device memory that a launch with these lengths needs; may be 0. */
int {0}_workspace_bytes(const astatide_code* code, const {0}_arguments* arguments, int64_t* bytes, astatide_error* error);

/* Puts the kernels into a stream (a CUstream, NULL for the default one) of the context, which is current, and does not
   wait. The workspace is the launch's own until it is done; its address is a multiple of {1}. Tensors and lengths are
   checked first: nothing is written where that fails. */
int {0}_launch(const astatide_code* code, const {0}_arguments* arguments, void* workspace, int64_t workspace_bytes,
    void* stream, astatide_error* error);

#ifdef __cplusplus
}}
#endif

#endif
)",
                     name, kScratchAlignment);
  return out;
}

}  // namespace astatide
