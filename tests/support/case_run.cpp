#include "tests/support/case_run.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <random>

#include "api/random_tensors.h"
#include "runtime/buffer.h"
#include "runtime/driver.h"
#include "tests/support/schedule_cases.h"

namespace astatide::testing {
namespace {

/// The extents are over the schedule's bound, so that it says beforehand that it takes them not.
bool is_over_bound(const Case& c, const Schedule& schedule) {
  for (const auto& [extent, most] : schedule.bound)
    if (const auto given = c.extents.find(extent); given != c.extents.end() && given->second > most) return true;
  return false;
}

/// The tiles or fragments don't fit the machine.
bool is_over_budget(const UserError& error) {
  for (const Diagnostic& problem : error.diagnostics())
    if (problem.message.find("bytes of shared memory") == std::string::npos &&
        problem.message.find("registers") == std::string::npos &&
        problem.message.find("workspace of a core") == std::string::npos &&
        // Tensor cores take some types, TMA some strides and indices.
        problem.message.find("reads f16 or bf16") == std::string::npos &&
        problem.message.find("tma reads") == std::string::npos &&
        problem.message.find("tma copies") == std::string::npos &&
        problem.message.find("tma stores") == std::string::npos &&
        // Axes of items that differ in length are not fused.
        problem.message.find("takes no part in") == std::string::npos &&
        problem.message.find("tma writes") == std::string::npos)
      return false;
  return true;
}

TensorView view_of(const runtime::HostTensor& tensor) {
  return {tensor.data->empty() ? nullptr : tensor.origin(), tensor.dtype, tensor.shape, tensor.strides};
}

void launch_on_gpu(const Executable& executable, LaunchArguments& arguments, const HostTensors& inputs,
                   HostTensors& outputs, int ordinal) {
  const runtime::Context context = runtime::Context::primary(ordinal);
  const runtime::ScopedCurrent scope(context);
  const runtime::Stream stream = runtime::Stream::create(context);
  std::map<std::string, runtime::DeviceBuffer> buffers;
  const auto put = [&](const std::string& name, const runtime::HostTensor& tensor) {
    runtime::DeviceBuffer buffer(context, tensor.data->size());
    buffer.copy_from_host(*tensor.data, stream);
    if (buffer.size() > 0) arguments.tensors.at(name).data = reinterpret_cast<void*>(buffer.pointer() + tensor.offset);
    buffers.emplace(name, std::move(buffer));
  };
  for (const auto& [name, tensor] : inputs)
    if (!outputs.contains(name)) put(name, tensor);
  for (const auto& [name, tensor] : outputs) put(name, tensor);
  arguments.stream = stream.handle();
  executable.launch(arguments);
  for (auto& [name, tensor] : outputs) buffers.at(name).copy_to_host(*tensor.data, stream);
}

void visit_indices(const Index& shape, const std::function<void(const Index&)>& visit) {
  for (const std::int64_t extent : shape)
    if (extent == 0) return;
  Index index(shape.size(), 0);
  while (true) {
    visit(index);
    std::size_t axis = shape.size();
    while (true) {
      if (axis == 0) return;
      --axis;
      if (++index[axis] < shape[axis]) break;
      index[axis] = 0;
    }
  }
}

std::string text_of(const Index& index) {
  std::string text;
  for (const std::int64_t i : index) text += (text.empty() ? "" : ", ") + std::to_string(i);
  return "[" + text + "]";
}

}  // namespace

std::string missing_case_device(const Device& device) {
  if (device.kind == Device::Kind::cpu) return "";
  try {
    runtime::driver();
    return "";
  } catch (const MachineError& error) {
    return error.what();
  }
}

Engine& case_engine() {
  static Engine engine({.cache_directory = "", .use_disk_cache = false, .threads = 0});
  return engine;
}

std::vector<std::string> schedules_for(const Device& device) {
  std::vector<std::string> schedules;
  for (const std::string& name : shipped_schedules())
    // On the CPU the schedules of GPUs are those of the CPU with other tiles, which random schedules have too, save
    // what overlaps and waits: one of tensor cores. What rounds f32 to tf32 is not as exact as the cases ask.
    if (device.kind == Device::Kind::cpu ? name.starts_with("cpu/") || name == "sm90/flash3"
                                         : load_schedule(name).target != "cpu" && !takes_f32(name))
      schedules.push_back(name);
  return schedules;
}

Algorithm attention(const AttentionText& text) {
  std::string steps;
  for (const std::string& step : text.steps) steps += "  - " + step + "\n";
  const std::string read = text.steps.empty() ? "S" : "A";
  const std::string extents = text.extents.empty() ? "" : ", " + text.extents;
  const std::string inputs = text.inputs.empty() ? "" : ", " + text.inputs;
  const std::string scalars = text.scalars.empty() ? "" : ", " + text.scalars;
  return parse_algorithm(
      "algorithm: attention\n"
      "extents: [B, Hq, Hkv, Sq, Sk, D, Dv" +
          extents +
          "]\n"
          "scalars: {scale: " +
          text.scale + scalars +
          "}\n"
          "inputs: {Q: [B, Hq, Sq, D], K: [B, Hkv, Sk, D], V: [B, Hkv, Sk, Dv]" +
          inputs +
          "}\n"
          "define:\n"
          "  - S[b,h,i,j] = sum(d, Q[b,h,i,d] * K[b, h*Hkv/Hq, j, d]) * scale\n" +
          steps + "  - P[b,h,i,j] = softmax(j, " + read +
          "[b,h,i,j])\n"
          "  - O[b,h,i,e] = sum(j, P[b,h,i,j] * V[b, h*Hkv/Hq, j, e])\n"
          "  - L[b,h,i] = logsumexp(j, " +
          read +
          "[b,h,i,j])\n"
          "outputs: [O, L]\n",
      "attention of a case");
}

Algorithm attention_where(const std::string& predicate) {
  AttentionText text;
  text.steps = {"A[b,h,i,j] = S[b,h,i,j] where " + predicate};
  return attention(text);
}

Algorithm causal_attention() { return attention_where("j <= i + Sk - Sq"); }
Algorithm top_left_causal_attention() { return attention_where("j <= i"); }

HostTensors run_case(const Case& c, const Schedule& schedule, const Device& device) {
  return run_executable(c, case_engine().build(c.algorithm, schedule, {device, c.dtype, c.extents, {}}), device);
}

HostTensors run_executable(const Case& c, const Executable& executable, const Device& device) {
  LaunchArguments arguments;
  arguments.scalars = c.scalars;
  arguments.extents = c.extents;
  HostTensors outputs;
  for (const std::string& name : c.algorithm.outputs) {
    const TensorView wanted = describe_tensor(executable, name, c.extents);
    runtime::HostTensor tensor = runtime::zeros(wanted.dtype, wanted.shape);
    std::fill(tensor.data->begin(), tensor.data->end(), std::byte{0xff});
    outputs.emplace(name, std::move(tensor));
  }
  outputs.merge(prepare_updated(c.algorithm, c.inputs));
  for (const auto& [name, tensor] : c.inputs) arguments.tensors[name] = view_of(tensor);
  for (const auto& [name, tensor] : outputs) arguments.tensors[name] = view_of(tensor);
  if (device.kind == Device::Kind::cuda) {
    launch_on_gpu(executable, arguments, c.inputs, outputs, device.ordinal);
  } else {
    executable.launch(arguments);
  }
  return outputs;
}

HostTensors run_case(const Case& c, const std::string& schedule, const Device& device) {
  return run_case(c, load_schedule(schedule), device);
}

namespace {

/// Whether the schedule took the case.
bool check_under(const std::string& name, const Case& c, const std::function<void(const HostTensors& outputs)>& check,
                 const Device& device) {
  const Schedule schedule = load_schedule(name);
  if (is_over_bound(c, schedule)) return false;
  INFO("schedule " << name << ", " << name_of(c.dtype));
  HostTensors outputs;
  try {
    outputs = run_case(c, schedule, device);
  } catch (const UserError& error) {
    INFO(error.what());
    REQUIRE(is_over_budget(error));
    return false;
  } catch (const std::exception& error) {
    // The other schedules are worth hearing of too.
    FAIL_CHECK(error.what());
    return false;
  }
  check(outputs);
  return true;
}

/// How many of the schedules took the case. On the CPU parts of keys come in one of two ways: over the rows of a group
/// of heads where the case has groups and the schedule takes it, else over those of each head.
int check_under_each(const Case& c,
                     const std::function<void(const std::string& schedule, const HostTensors& outputs)>& check,
                     const Device& device) {
  const auto under = [&](const std::string& name) {
    return check_under(
        name, c, [&](const HostTensors& outputs) { check(name, outputs); }, device);
  };
  int taken = 0;
  const auto heads = c.extents.find("Hq"), groups = c.extents.find("Hkv");
  const bool grouped = heads != c.extents.end() && groups != c.extents.end() && heads->second > groups->second;
  const bool by_group = device.kind == Device::Kind::cpu && grouped && under("cpu/decode_gqa");
  if (by_group) ++taken;
  for (const std::string& name : schedules_for(device)) {
    const bool in_parts = name == "cpu/decode" || name == "cpu/decode_gqa";
    if (in_parts && (by_group || name == "cpu/decode_gqa")) continue;
    taken += under(name) ? 1 : 0;
  }
  return taken;
}

}  // namespace

std::map<std::string, HostTensors> results_by_schedule(const Case& c, const Device& device) {
  std::map<std::string, HostTensors> results;
  check_under_each(
      c, [&](const std::string& name, const HostTensors& outputs) { results[name] = outputs; }, device);
  return results;
}

void for_each_schedule(const Case& c, const std::function<void(const HostTensors& outputs)>& check,
                       const Device& device) {
  REQUIRE(check_under_each(
              c, [&](const std::string&, const HostTensors& outputs) { check(outputs); }, device) > 0);
}

void for_schedules_in_turn(const Case& c, std::size_t turn,
                           const std::function<void(const HostTensors& outputs)>& check, const Device& device) {
  const std::vector<std::string> schedules = schedules_for(device);
  bool taken = false;
  for (std::size_t n = 0; n < 2; ++n)
    taken = check_under(schedules[(turn + n * 4) % schedules.size()], c, check, device) || taken;
  // Where neither fits, any that does.
  for (std::size_t n = 0; n < schedules.size() && !taken; ++n) taken = check_under(schedules[n], c, check, device);
  REQUIRE(taken);
}

runtime::HostTensor filled(ScalarType type, const Index& shape, const std::function<double(const Index&)>& value) {
  runtime::HostTensor tensor = runtime::zeros(type, shape);
  visit_indices(shape, [&](const Index& index) { runtime::set(tensor, index, value(index)); });
  return tensor;
}

runtime::HostTensor constant(ScalarType type, const Index& shape, double value) {
  return filled(type, shape, [value](const Index&) { return value; });
}

runtime::HostTensor gaussian(ScalarType type, const Index& shape, std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<double> normal;
  return filled(type, shape, [&](const Index&) { return normal(generator); });
}

runtime::HostTensor with_strides(const runtime::HostTensor& tensor, const Index& strides) {
  std::int64_t reach = 1;
  for (std::size_t n = 0; n < strides.size(); ++n)
    if (tensor.shape[n] > 0) reach += strides[n] * (tensor.shape[n] - 1);
  runtime::HostTensor out = runtime::zeros(tensor.dtype, {reach});
  // What lies between the elements is never to be read.
  std::fill(out.data->begin(), out.data->end(), std::byte{0xff});
  out.shape = tensor.shape;
  out.strides = strides;
  visit_indices(tensor.shape, [&](const Index& index) { runtime::set(out, index, runtime::get(tensor, index)); });
  return out;
}

Index query_shape(const Case& c) {
  return {c.extents.at("B"), c.extents.at("Hq"), c.extents.at("Sq"), c.extents.at("D")};
}
Index key_shape(const Case& c) {
  return {c.extents.at("B"), c.extents.at("Hkv"), c.extents.at("Sk"), c.extents.at("D")};
}
Index value_shape(const Case& c) {
  return {c.extents.at("B"), c.extents.at("Hkv"), c.extents.at("Sk"), c.extents.at("Dv")};
}

void fill_gaussian(Case& c, std::uint64_t seed) {
  c.inputs["Q"] = gaussian(c.dtype, query_shape(c), seed);
  c.inputs["K"] = gaussian(c.dtype, key_shape(c), seed + 1);
  c.inputs["V"] = gaussian(c.dtype, value_shape(c), seed + 2);
}

void fill_zero_queries_and_ramp(Case& c) {
  c.inputs["Q"] = constant(c.dtype, query_shape(c), 0);
  c.inputs["K"] = gaussian(c.dtype, key_shape(c), 1);
  c.inputs["V"] = filled(c.dtype, value_shape(c), [](const Index& at) { return static_cast<double>(at[2] + 1) / 256; });
}

void for_each(const runtime::HostTensor& tensor, const std::function<void(const Index&, double)>& check) {
  visit_indices(tensor.shape, [&](const Index& index) { check(index, runtime::get(tensor, index)); });
}

void require_values(const runtime::HostTensor& tensor, const std::function<double(const Index&)>& expected,
                    const std::function<double(double)>& tolerance) {
  std::int64_t wrong = 0;
  std::string first;
  for_each(tensor, [&](const Index& at, double value) {
    const double wanted = expected(at);
    const bool right = std::isinf(wanted) ? value == wanted : std::fabs(value - wanted) <= tolerance(wanted);
    if (right) return;
    if (wrong++ == 0)
      first = "at " + text_of(at) + ": " + Catch::Detail::stringify(value) + ", wanted " +
              Catch::Detail::stringify(wanted) + " within " + Catch::Detail::stringify(tolerance(wanted));
  });
  INFO(first);
  REQUIRE(wrong == 0);
}

void require_same_bits(const runtime::HostTensor& a, const runtime::HostTensor& b) {
  REQUIRE(a.dtype == b.dtype);
  REQUIRE(a.shape == b.shape);
  REQUIRE(*runtime::dense_copy(a, a.dtype).data == *runtime::dense_copy(b, b.dtype).data);
}

double unit_in_last_place(ScalarType type, double value) {
  int fraction_bits = 23;
  int least_exponent = -126;
  if (type == ScalarType::f16) fraction_bits = 10, least_exponent = -14;
  if (type == ScalarType::bf16) fraction_bits = 7;
  const int exponent = value == 0 ? least_exponent : std::max(std::ilogb(value), least_exponent);
  return std::ldexp(1.0, exponent - fraction_bits);
}

std::function<double(double)> units(ScalarType type, double count) {
  return [type, count](double value) { return count * unit_in_last_place(type, value); };
}

double lse_tolerance(double expected) { return 1e-5 * std::max(1.0, std::fabs(expected)); }

}  // namespace astatide::testing
