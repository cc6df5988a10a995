#include "api/export.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "api/cuda_device.h"
#include "api/export_state.h"
#include "compiler/algorithm/names.h"
#include "compiler/support/embedded.h"

namespace astatide {
namespace {

/// Words of C that names of an algorithm, which are identifiers of C++, may still be.
void check_name(const std::string& name, const std::string& what, Diagnostics& errors) {
  static const std::set<std::string> kWordsOfC = {"restrict", "errno", "assert"};
  std::string problem = problem_with_name(name);
  if (problem.empty() && (kWordsOfC.contains(name) || name.ends_with("_t"))) problem = "has a meaning in C";
  if (problem.empty() && name.starts_with("astatide")) problem = "begins as the names of the stub do";
  if (!problem.empty())
    errors.error({}, fmt::format("{} {} {}, so exported code can't have it", what, quoted(name), problem));
}

void check_names(const Export& exported) {
  Diagnostics errors;
  check_name(exported.name, "the name", errors);
  const Algorithm& algorithm = exported.request.algorithm;
  for (const Extent& extent : algorithm.extents) check_name(extent.name, "extent", errors);
  for (const Scalar& scalar : algorithm.scalars) check_name(scalar.name, "scalar", errors);
  for (const DeclaredTensor& declared : exported.declared) check_name(declared.name, "tensor", errors);
  errors.throw_if_any();
}

void check_targets(const ExportRequest& request) {
  Diagnostics errors;
  std::set<std::string> seen;
  if (request.targets.empty()) errors.error({}, "an export needs a target, such as sm_90a");
  for (const Target& target : request.targets) {
    if (!target.is_cuda())
      errors.error({"--target", 0, 0, {}},
                   fmt::format("the target is {}, and exported are kernels for GPUs", target.name),
                   {"--target names one such as sm_90a"});
    else if (!seen.insert(target.name).second)
      errors.error({"--target", 0, 0, {}}, fmt::format("{} is given twice", target.name));
  }
  errors.throw_if_any();
}

/// A stub looks at the values that an index has for all places, not at the conditions under which it is read.
void check_reads_without_conditions(const Export& exported) {
  Diagnostics errors;
  for (const auto& [axis, length] : exported.reads.axis_lengths)
    if (tensors_read(length).empty())
      errors.error(exported.request.algorithm.where,
                   fmt::format("axis {} has the length {}, which a launch of exported code does not check", axis,
                               print_expr(length, {}, true)),
                   {"lengths that are read from an input are the caller's promise"});
  errors.throw_if_any();
  ReadSites unconditional = exported.reads;
  for (ReadSite& site : unconditional.sites) site.predicates.clear();
  Diagnostics conditional, plain;
  check_reads(exported.reads, exported.request.sizes, {}, conditional);
  conditional.throw_if_any();
  check_reads(unconditional, exported.request.sizes, {}, plain);
  for (const Diagnostic& problem : plain.problems()) {
    std::vector<std::string> notes = problem.notes;
    notes.insert(notes.begin(), "a condition keeps it inside, and exported code checks indices without conditions");
    errors.error(problem.where, problem.message, notes);
  }
  errors.throw_if_any();
}

ExportedTarget compile_target(const Export& exported, const Target& target, runtime::KernelCache& cache) {
  const ExportRequest& request = exported.request;
  ExportedTarget out;
  out.target = target;
  out.program = compile(request.algorithm, request.schedule, {target, request.sizes, request.dtype});
  out.source = cuda::emit(out.program);
  out.plan = plan_launch(out.program);
  const auto artifact =
      cache.compile(compile_request(out.source, exported.name, target.name, runtime::BinaryKind::cubin)).first;
  // A newer target than NVRTC knows gives PTX, which only the driver turns into machine code.
  if (artifact->binary.kind != runtime::BinaryKind::cubin)
    throw MachineError(fmt::format("this NVRTC makes no machine code for {}", target.name));
  out.machine_code = artifact->binary.bytes;
  return out;
}

}  // namespace

std::vector<ExportedFile> export_kernels(const ExportRequest& request, runtime::KernelCache& cache) {
  check_algorithm(request.algorithm);
  check_targets(request);
  Export exported{request, request.name.empty() ? request.algorithm.name : request.name, {}, {}, {}, {}};
  exported.declared = declared_tensors(request.algorithm);
  exported.groups = find_axis_groups(request.algorithm);
  exported.reads = find_read_sites(request.algorithm);
  check_names(exported);
  Diagnostics errors;
  check_extents(request.algorithm, request.sizes, errors);
  errors.throw_if_any();
  check_reads_without_conditions(exported);
  for (const Target& target : request.targets) exported.targets.push_back(compile_target(exported, target, cache));

  std::vector<ExportedFile> files = {{exported.name + ".h", print_export_header(exported)},
                                     {exported.name + ".c", print_export_source(exported)},
                                     {exported.name + "_code.c", print_export_code(exported)}};
  for (const ExportedTarget& target : exported.targets)
    files.push_back({fmt::format("{}.{}.cubin", exported.name, target.target.name), target.machine_code});
  for (const EmbeddedFile& file : embedded_stub_files())
    files.push_back({std::string(file.name), std::string(file.text)});
  return files;
}

}  // namespace astatide
