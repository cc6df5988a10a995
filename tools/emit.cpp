#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <nlohmann/json.hpp>

#include "api/cpu_device.h"
#include "api/cuda_device.h"
#include "compiler/algorithm/names.h"
#include "compiler/cuda/emit.h"
#include "compiler/rewrite/cascade.h"
#include "compiler/rewrite/recurrence.h"
#include "runtime/environment.h"
#include "tools/commands.h"
#include "tools/disassemble.h"
#include "tools/request.h"

namespace astatide::tools {
namespace {

struct EmitWords {
  RequestWords request;
  std::string stage;
  std::string target;
  bool merge = false, json = false;
};

const std::vector<std::string> kStages = {"algorithm", "online", "tile", "passes", "cuda", "ptx", "sass", "llvm"};

/// Everything that a stage below the rewrite depends on.
struct Request {
  Algorithm algorithm;
  Schedule schedule;
  std::optional<Merge> merge;  // the kernel that merges parts, instead of one that makes them
  CompileOptions options;

  tile::Program compiled(const TraceHook& trace = {}) const {
    return merge ? compile_merge(*merge, options, trace) : compile(algorithm, schedule, options, trace);
  }
};

/// Which no schedule shapes.
Merge merge_of(const EmitWords& words) {
  if (!words.request.schedule.empty())
    throw UserError({"--schedule", 0, 0, {}}, "the kernel that merges parts has no schedule", {"leave it out"});
  return derive_merge(load_algorithm(words.request.algorithm));
}

Request read_request(const EmitWords& words) {
  Request request;
  request.algorithm = load_algorithm(words.request.algorithm);
  const std::string target = words.stage == "llvm" ? "cpu" : words.target;
  const DispatchRequest wanted = request_of(words.request, request.algorithm, target);
  request.options = {wanted.target, wanted.sizes, wanted.dtype};
  if (words.merge) {
    request.merge = merge_of(words);
    return request;
  }
  request.schedule = choose_schedule(words.request, request.algorithm, wanted).schedule;
  if (target.empty()) request.options.target = parse_target(request.schedule.target);
  return request;
}

/// The text of a stage, and the warnings of what made it.
struct Emitted {
  std::string text;
  std::vector<std::string> warnings;
};

std::string after_lowering(const Request& request, bool every_pass) {
  std::string text;
  request.compiled([&](std::string_view stage, const tile::Program& program) {
    if (!every_pass && stage != "lower") return;
    if (every_pass) text += fmt::format("{}# after {}\n", text.empty() ? "" : "\n", stage);
    text += tile::print(program);
  });
  return text;
}

std::string algorithm(const EmitWords& words) {
  return print_mathematics(words.merge ? merge_of(words).algorithm : load_algorithm(words.request.algorithm));
}

std::string online(const EmitWords& words) {
  if (!words.merge) return print_recurrence(derive_online(find_cascade(load_algorithm(words.request.algorithm))));
  const Merge merge = merge_of(words);
  return print_recurrence(merge.recurrence) + print_part_states(merge.recurrence, merge.states);
}

cuda::Source emit_cuda(const Request& request) {
  if (!request.options.target.is_cuda())
    throw UserError({"--target", 0, 0, {}}, "the target is cpu, which has no CUDA source",
                    {"--target names a GPU such as sm_90a, --stage llvm prints what the CPU runs"});
  return cuda::emit(request.compiled());
}

Emitted emit_binary(const Request& request, runtime::BinaryKind kind) {
  const cuda::Source source = emit_cuda(request);
  runtime::KernelCache cache(runtime::DiskCache::from_environment(runtime::read_environment()));
  const auto artifact =
      cache.compile(compile_request(source, request.algorithm.name, request.options.target.name, kind)).first;
  Emitted out{artifact->binary.bytes, cache.disk().take_warnings()};
  if (kind == runtime::BinaryKind::cubin) {
    // A newer target than NVRTC knows gives PTX, which only the driver turns into machine code.
    if (artifact->binary.kind != runtime::BinaryKind::cubin)
      throw MachineError(fmt::format("this NVRTC makes no machine code for {}", request.options.target.name));
    out.text = disassemble(artifact->binary.bytes);
  }
  return out;
}

Emitted emit(const EmitWords& words) {
  if (std::find(kStages.begin(), kStages.end(), words.stage) == kStages.end())
    throw UserError({"--stage", 0, 0, {}}, fmt::format("no stage '{}'", quoted(words.stage)),
                    suggestion(words.stage, kStages));
  if (words.stage == "llvm" && !words.target.empty() && words.target != "cpu")
    throw UserError({"--target", 0, 0, {}}, fmt::format("--stage llvm is for the CPU, not for '{}'", words.target));
  if (words.stage == "algorithm") return {algorithm(words), {}};
  if (words.stage == "online") return {online(words), {}};
  const Request request = read_request(words);
  if (words.stage == "tile") return {after_lowering(request, false), {}};
  if (words.stage == "passes") return {after_lowering(request, true), {}};
  if (words.stage == "cuda") return {emit_cuda(request).text, {}};
  if (words.stage == "ptx") return emit_binary(request, runtime::BinaryKind::ptx);
  if (words.stage == "sass") return emit_binary(request, runtime::BinaryKind::cubin);
  return {print_llvm(request.compiled()), {}};
}

int run(const EmitWords& words) {
  Emitted out = emit(words);
  if (!out.text.ends_with("\n")) out.text += "\n";
  if (words.json) {
    const nlohmann::json json = {{"ok", true}, {"stage", words.stage}, {"text", out.text}, {"warnings", out.warnings}};
    write_output(json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
    return kDone;
  }
  write_output(out.text);
  for (const std::string& warning : out.warnings) write_message("warning: " + warning + "\n");
  return kDone;
}

}  // namespace

Command add_emit_command(CLI::App& program) {
  const auto words = std::make_shared<EmitWords>();
  CLI::App* app = program.add_subcommand("emit", "Prints a stage of the compilation; needs no GPU.");
  add_request_options(*app, words->request);
  app->add_option("--stage", words->stage,
                  "algorithm: the mathematics\nonline: the streaming form\ntile: the tile program after lowering\n"
                  "passes: the same after each pass\ncuda: CUDA source\nptx, sass: what NVRTC makes of it\n"
                  "llvm: what the CPU runs")
      ->required();
  app->add_option("--target", words->target, "machine to compile for, such as sm_90a; else the schedule's own");
  app->add_flag("--merge", words->merge, "of the kernel that merges parts (astatide merge), which no schedule shapes");
  app->add_flag("--json", words->json, "one JSON object on standard output");
  return {app, [words] { return run(*words); }};
}

}  // namespace astatide::tools
