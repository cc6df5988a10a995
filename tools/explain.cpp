#include "compiler/explain.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <nlohmann/json.hpp>

#include "api/astatide.h"
#include "tools/commands.h"
#include "tools/explain_cost.h"
#include "tools/request.h"
#include "tools/run_result.h"

namespace astatide::tools {
namespace {

struct ExplainWords {
  RequestWords request;
  std::string target;
  bool measure = false, counters = false, json = false;
};

struct Explained {
  std::string algorithm, schedule;
  CompileOptions options;
  Explanation value;
  std::optional<MeasuredCost> measured;
};

/// Runs with random inputs on the first GPU, as `run` does.
MeasuredCost measure(const ExplainWords& words, const Algorithm& algorithm, const NamedSchedule& chosen,
                     const CompileOptions& options, std::size_t kernels) {
  MeasuredCost out;
  Result result;
  result.device = choose_device("cuda");
  result.extents = options.sizes;
  Engine engine;
  const Executable executable =
      engine.build(algorithm, chosen.schedule, {result.device.device, options.dtype, options.sizes, {}});
  result.launch(engine, executable, {}, {}, TimingWish{});
  out.device = result.device.model;
  out.time = result.time;
  if (!words.counters) return out;
  std::vector<std::string> again{words.request.algorithm,
                                 "--schedule",
                                 chosen.name,
                                 "--dtype",
                                 std::string(name_of(options.dtype)),
                                 "--device",
                                 "cuda",
                                 "--repeat",
                                 "1",
                                 "--json"};
  for (const auto& [name, value] : options.sizes) {
    again.emplace_back("--shape");
    again.push_back(fmt::format("{}={}", name, value));
  }
  out.counters = count_kernels(again, kernels);
  return out;
}

Explained compute(const ExplainWords& words) {
  Explained out;
  const Algorithm algorithm = load_algorithm(words.request.algorithm);
  out.algorithm = algorithm.name;
  const DispatchRequest request = request_of(words.request, algorithm, words.target);
  const NamedSchedule chosen = choose_schedule(words.request, algorithm, request);
  out.schedule = chosen.name;
  const bool measures = words.measure || words.counters;
  if (measures && !words.target.empty())
    throw UserError({"--target", 0, 0, {}}, "--measure is of the GPU that is there, --target of another",
                    {"one of the two"});
  Target target = words.target.empty() ? parse_target(chosen.schedule.target) : request.target;
  if (measures) target = target_of(choose_device("cuda").device);
  out.options = {target, request.sizes, request.dtype};
  out.value = explain(algorithm, chosen.schedule, out.options);
  if (measures) out.measured = measure(words, algorithm, chosen, out.options, out.value.kernels.size());
  return out;
}

std::string shape_text(const BufferUse& buffer) {
  std::string text;
  for (const tile::Dim& dim : buffer.dims)
    text += fmt::format("{}{}:{}", text.empty() ? "" : ", ", dim.axis, dim.extent);
  return (buffer.ring > 1 ? fmt::format("{} x ", buffer.ring) : "") + "[" + text + "]";
}

std::string place_of(const BufferUse& buffer, const Target& target) {
  if (buffer.space == Space::register_file) return target.is_cuda() ? "registers" : "memory of a core";
  return target.is_cuda() ? "shared memory" : "workspace of a core";
}

/// ", d padded from 72 to 80: 10.0 % of its products; 128 columns held: 43.8 % of its bytes"
std::string padding_text(const std::optional<Padding>& padding) {
  if (!padding) return "";
  std::string text = fmt::format(", {} padded from {}", padding->axis, padding->used);
  if (padding->computed > padding->used)
    text += fmt::format(" to {}: {:.1f} % of its products wasted", padding->computed, 100 * padding->wasted_work());
  if (padding->held > padding->used)
    text += fmt::format("{} {} columns held: {:.1f} % of its bytes", padding->computed > padding->used ? ";" : ":",
                        padding->held, 100 * padding->wasted_bytes());
  return text;
}

std::string kernel_text(const KernelUse& kernel, const Explained& out) {
  const tile::KernelStatistics& s = kernel.statistics;
  const Target& target = out.options.target;
  std::string text =
      fmt::format("kernel {}: {} {}", s.name, count_text(s.tiles), target.is_cuda() ? "blocks" : "tiles");
  if (target.is_cuda())
    text += fmt::format(" of {} threads; at least {} of {} registers a thread; at most {} blocks an SM ({})",
                        kernel.threads, kernel.registers, target.registers_per_thread, kernel.blocks_per_sm,
                        kernel.limited_by);
  text += fmt::format("\n  {:<14} {} of {}\n", target.is_cuda() ? "shared memory" : "workspace",
                      bytes_text(static_cast<double>(s.shared_bytes)),
                      bytes_text(static_cast<double>(target.shared_memory_per_block)));
  for (const BufferUse& buffer : kernel.buffers)
    text += fmt::format("    {:<12} {:<20} {:<5} {:>12}  {}{}{}\n", buffer.name, shape_text(buffer),
                        name_of(buffer.type), bytes_text(static_cast<double>(buffer.bytes)), place_of(buffer, target),
                        buffer.alias.empty() ? "" : ", shares " + buffer.alias, padding_text(buffer.padding));
  text += fmt::format("  {:<14} {} in products, {} in elements, {} special functions\n", "operations",
                      count_text(s.product_flops), count_text(s.element_flops), count_text(s.transcendentals));
  text += fmt::format("  {:<14} {} copied, {} at least\n", "global memory", bytes_text(s.global_bytes()),
                      bytes_text(kernel.compulsory_bytes));
  for (const auto& [name, traffic] : s.global)
    text += fmt::format("    {:<12} read {:>12}, written {:>12}\n", name, bytes_text(traffic.read),
                        bytes_text(traffic.written));
  text += fmt::format("  {:<14} read {}, written {}\n", target.is_cuda() ? "shared" : "workspace",
                      bytes_text(s.shared.read), bytes_text(s.shared.written));
  for (const std::string& range : kernel.ranges)
    text += fmt::format("  {:<14} {}\n", &range == &kernel.ranges.front() ? "ranges" : "", range);
  if (kernel.roofline)
    text += fmt::format("  {:<14} {} at least: {} binds (arithmetic {}, special functions {}, memory {})\n", "roofline",
                        time_text(kernel.roofline->least()), kernel.roofline->binds(),
                        time_text(kernel.roofline->arithmetic), time_text(kernel.roofline->transcendentals),
                        time_text(kernel.roofline->memory));
  return text;
}

/// From the leaves to the root: in which order a row's elements are summed.
std::string tree_text(const Explanation& value) {
  const ReductionTree& tree = value.tree;
  std::string text = fmt::format("reduction over {} = {}: tiles of {} in one state, one after the other", tree.axis,
                                 tree.elements, tree.tile);
  if (const auto& parts = value.parts)
    text += fmt::format(
        "\n  rfactor {}: {} tiles in {} parts of {} at most{}{}\n"
        "  merge: states of {} parts in their order, by {}; they are {} from and to global memory",
        parts->axis, parts->tiles, parts->parts, parts->tiles_each,
        parts->teams > 1 ? fmt::format(", each shared by {} teams of a block", parts->teams) : "",
        parts->chosen ? ", which a launch chooses: here for as many multiprocessors as the chip is sold with" : "",
        parts->parts, parts->merge == MergeBy::kernel ? "a second kernel" : "the last block to end",
        bytes_text(parts->merge_bytes));
  return text + fmt::format("\n  tree {:016x}: where it is the same, so are a row's bits\n", tree.hash);
}

std::string to_text(const Explained& out) {
  std::string text = fmt::format("{} with {} for {}, {}, {}\n", out.algorithm, out.schedule, out.options.target.name,
                                 name_of(out.options.dtype), extents_text(out.options.sizes));
  text += machine_text(cost::machine_of(out.options.target));
  for (std::size_t n = 0; n < out.value.kernels.size(); ++n) {
    const bool counted = out.measured && n < out.measured->counters.size();
    text += "\n" + kernel_text(out.value.kernels[n], out);
    text += kernel_cost_text(out.value.cost.kernels[n], counted ? &out.measured->counters[n] : nullptr);
  }
  text += fmt::format("\ntotal: {} operations, {} copied from and to global memory\n",
                      count_text(out.value.statistics.flops()), bytes_text(out.value.statistics.global_bytes()));
  text += cost_text(out.value.cost, out.measured);
  text += fmt::format("scratch in global memory: {}\n", bytes_text(out.value.statistics.scratch_bytes()));
  for (const tile::TensorSize& tensor : out.value.statistics.tensors)
    if (tensor.role == tile::Tensor::Role::scratch)
      text += fmt::format("    {:<12} {:>12}\n", tensor.name, bytes_text(tensor.bytes));
  text += tree_text(out.value);
  const double computed = product_flops(out.value.statistics);
  text += fmt::format("products: {} operations in the tiles that are computed, ", count_text(computed));
  if (const auto& visible = out.value.work.visible)
    text +=
        fmt::format("{} visible ({:.1f} %)\n", count_text(*visible), computed > 0 ? 100 * *visible / computed : 100);
  else
    text += fmt::format("how many are visible is not known: {}\n", out.value.work.why_not);
  if (out.value.skipped) text += fmt::format("work that `where` saves: {:.1f} %\n", 100 * *out.value.skipped);
  if (const auto& rescale = out.value.rescale) {
    const bool tries = rescale->mode == RescaleMode::optimistic;
    text += fmt::format(
        "rescale {}: references follow when weights pass 2^{}{}\n", name_of(rescale->mode), rescale->grow,
        tries ? fmt::format("; a tile whose sum passes 2^{} is computed again, never returned", rescale->over) : "");
    for (const auto& [tensor, largest] : rescale->largest)
      text += fmt::format("    |{}| < {:.3g} keeps sums finite\n", tensor, largest);
  }
  for (const ApproximationUse& use : out.value.approximations)
    text += fmt::format("fast_math: {} by {} in {}, off by up to 2^-{} of each result ({:.3g})\n",
                        info(use.approximation.op).name, use.approximation.instruction, fmt::join(use.kernels, ", "),
                        use.approximation.error_bits, std::ldexp(1.0, -use.approximation.error_bits));
  if (!out.value.statistics.exact)
    text += "loops that depend on data, or too many to count one by one, count in full\n";
  return text;
}

nlohmann::json kernel_json(const KernelUse& kernel) {
  const tile::KernelStatistics& s = kernel.statistics;
  nlohmann::json json = {{"name", s.name},
                         {"tiles", s.tiles},
                         {"threads", kernel.threads},
                         {"registers_at_least", kernel.registers},
                         {"blocks_per_sm_at_most", kernel.blocks_per_sm},
                         {"limited_by", kernel.limited_by},
                         {"ranges", kernel.ranges},
                         {"shared_bytes", s.shared_bytes},
                         {"product_flops", s.product_flops},
                         {"element_flops", s.element_flops},
                         {"special_functions", s.transcendentals},
                         {"compulsory_bytes", kernel.compulsory_bytes},
                         {"shared", {{"read", s.shared.read}, {"written", s.shared.written}}},
                         {"global", nlohmann::json::object()},
                         {"buffers", nlohmann::json::array()}};
  for (const auto& [name, traffic] : s.global)
    json["global"][name] = {{"read", traffic.read}, {"written", traffic.written}};
  for (const BufferUse& buffer : kernel.buffers) {
    nlohmann::json dims = nlohmann::json::object();
    for (const tile::Dim& dim : buffer.dims) dims[dim.axis] = dim.extent;
    json["buffers"].push_back({{"name", buffer.name},
                               {"space", name_of(buffer.space)},
                               {"dtype", name_of(buffer.type)},
                               {"dims", dims},
                               {"ring", buffer.ring},
                               {"bytes", buffer.bytes},
                               {"alias", buffer.alias}});
    if (const auto& padding = buffer.padding)
      json["buffers"].back()["padding"] = {{"axis", padding->axis},
                                           {"used", padding->used},
                                           {"computed", padding->computed},
                                           {"held", padding->held},
                                           {"wasted_work", padding->wasted_work()},
                                           {"wasted_bytes", padding->wasted_bytes()}};
  }
  if (kernel.roofline)
    json["roofline"] = {{"binds", kernel.roofline->binds()},
                        {"least_ms", 1e3 * kernel.roofline->least()},
                        {"arithmetic_ms", 1e3 * kernel.roofline->arithmetic},
                        {"special_functions_ms", 1e3 * kernel.roofline->transcendentals},
                        {"memory_ms", 1e3 * kernel.roofline->memory}};
  return json;
}

nlohmann::json to_json(const Explained& out) {
  nlohmann::json json = {{"ok", true},
                         {"algorithm", out.algorithm},
                         {"schedule", out.schedule},
                         {"target", out.options.target.name},
                         {"dtype", name_of(out.options.dtype)},
                         {"shape", out.options.sizes},
                         {"flops", out.value.statistics.flops()},
                         {"global_bytes", out.value.statistics.global_bytes()},
                         {"scratch_bytes", out.value.statistics.scratch_bytes()},
                         {"scratch", nlohmann::json::object()},
                         {"exact", out.value.statistics.exact},
                         {"kernels", nlohmann::json::array()}};
  for (const tile::TensorSize& tensor : out.value.statistics.tensors)
    if (tensor.role == tile::Tensor::Role::scratch) json["scratch"][tensor.name] = tensor.bytes;
  if (const auto& rescale = out.value.rescale) {
    json["rescale"] = {{"mode", name_of(rescale->mode)}, {"grow", rescale->grow}, {"largest", rescale->largest}};
    if (rescale->mode == RescaleMode::optimistic) json["rescale"]["over"] = rescale->over;
  }
  for (const ApproximationUse& use : out.value.approximations)
    json["fast_math"].push_back({{"function", info(use.approximation.op).name},
                                 {"instruction", use.approximation.instruction},
                                 {"kernels", use.kernels},
                                 {"relative_error", std::ldexp(1.0, -use.approximation.error_bits)}});
  if (const auto& parts = out.value.parts)
    json["rfactor"] = {{"axis", parts->axis},
                       {"parts", parts->parts},
                       {"tiles", parts->tiles},
                       {"tiles_each", parts->tiles_each},
                       {"teams", parts->teams},
                       {"chosen", parts->chosen},
                       {"merge", name_of(parts->merge)},
                       {"merge_bytes", parts->merge_bytes}};
  json["reduction"] = {{"axis", out.value.tree.axis},
                       {"elements", out.value.tree.elements},
                       {"tile", out.value.tree.tile},
                       {"tree", fmt::format("{:016x}", out.value.tree.hash)}};
  json["products"] = {{"computed", product_flops(out.value.statistics)}, {"all", out.value.work.all}};
  if (out.value.work.visible)
    json["products"]["visible"] = *out.value.work.visible;
  else
    json["products"]["not_visible"] = out.value.work.why_not;
  if (out.value.skipped) json["skipped_by_where"] = *out.value.skipped;
  if (out.value.peak)
    json["peak"] = {{"product", out.value.peak->product},
                    {"flops", out.value.peak->flops},
                    {"bytes_per_second", out.value.peak->bytes},
                    {"special_functions_per_second", out.value.peak->transcendentals}};
  for (const KernelUse& kernel : out.value.kernels) json["kernels"].push_back(kernel_json(kernel));
  json["predicted"] =
      nlohmann::json::parse(cost_json(out.value.cost, cost::machine_of(out.options.target), out.measured));
  return json;
}

int run(const ExplainWords& words) {
  const Explained out = compute(words);
  write_output(words.json ? to_json(out).dump(2) + "\n" : to_text(out));
  return kDone;
}

}  // namespace

Command add_explain_command(CLI::App& program) {
  const auto words = std::make_shared<ExplainWords>();
  CLI::App* app = program.add_subcommand(
      "explain", "What a schedule costs: memory of each tile, bytes, operations, time and what binds. Needs no GPU.");
  add_request_options(*app, words->request);
  app->add_option("--target", words->target, "machine to count for, such as sm_90a; else the schedule's own");
  app->add_flag("--measure", words->measure, "run it on the GPU that is there, too, with random inputs");
  app->add_flag("--counters", words->counters, "the same, and count by ncu, which is on PATH");
  app->add_flag("--json", words->json, "one JSON object on standard output");
  return {app, [words] { return run(*words); }};
}

}  // namespace astatide::tools
