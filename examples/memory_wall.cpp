// The memory wall: attention that stores all scores, that keeps a row of them on chip, and that keeps a tile, against
// what the machine reaches. `memory_wall [--model] [--cpu] [--svg FILE] [N..]`: B1 H32 D128 f16 at 1024, 8192 and 16384
// without numbers. Measured on the GPU that is there; without one, or with --model, predicted for an H200.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "api/bench.h"
#include "compiler/cost/machine.h"
#include "compiler/explain.h"
#include "tools/plot/plot.h"

using namespace astatide;

int main(int argc, char** argv) try {
  bool model = false, cpu = false;
  std::string file;
  std::vector<std::int64_t> lengths;
  for (int n = 1; n < argc; ++n) {
    const std::string word = argv[n];
    if (word == "--model") {
      model = true;
    } else if (word == "--cpu") {
      cpu = true;
    } else if (word == "--svg" && n + 1 < argc) {
      file = argv[++n];
    } else if (const long long length = std::atoll(word.c_str()); length > 0) {
      lengths.push_back(length);
    } else {
      return std::fprintf(stderr, "memory_wall [--model] [--cpu] [--svg FILE] [N..]\n"), 2;
    }
  }
  if (lengths.empty()) lengths = {1024, 8192, 16384};

  std::optional<Device> device;
  if (cpu) {
    device = Device::cpu();
  } else if (!model) {
    try {
      target_of(Device::cuda(0));
      device = Device::cuda(0);
    } catch (const MachineError&) {
      std::puts("no GPU here: what follows is predicted");
    }
  }
  const Target target = device ? target_of(*device) : *find_target("sm_90a");
  const cost::Machine& machine = cost::machine_of(target);
  const ScalarType dtype = cpu ? ScalarType::f32 : ScalarType::f16;
  const std::int64_t heads = cpu ? 2 : 32, width = cpu ? 32 : 128;
  const Algorithm algorithm = load_algorithm("attention");
  std::vector<NamedSchedule> schedules;
  for (const char* name : {"simt/standard", "simt/fused_row", "sm80/flash2", "sm90/flash3"})
    if (!cpu || std::string(name).starts_with("simt/")) schedules.push_back({name, load_schedule(name)});
  if (cpu) schedules.push_back({"cpu/flash2", load_schedule("cpu/flash2")});
  BenchOptions options;
  options.dtype = dtype;
  for (const std::int64_t n : lengths)
    options.shapes.push_back(
        {{"B", 1}, {"Hq", heads}, {"Hkv", heads}, {"Sq", n}, {"Sk", n}, {"D", width}, {"Dv", width}});
  BenchResult measured;
  if (device) {
    options.device = *device;
    measured = bench(algorithm, schedules, options);
  }

  const std::string how =
      device ? "measured on " + measured.device : "predicted by the cost model for " + machine.product;
  std::printf("attention, B1 H%d D%d, %s\n%8s  %-16s %12s %12s %13s %12s\n", static_cast<int>(heads),
              static_cast<int>(width), how.c_str(), "N", "schedule", "ms", "MiB, model", "of the least", "TFLOP/s");
  plot::Roofline picture{{"The memory wall: attention, B1 H" + std::to_string(heads) + " D" + std::to_string(width),
                          "FLOP/byte of device memory (predicted)", "TFLOP/s", "times " + how},
                         machine.tensor_rate(),
                         machine.memory_rate,
                         {}};
  for (std::size_t shape = 0; shape < options.shapes.size(); ++shape)
    for (std::size_t n = 0; n < schedules.size(); ++n) {
      const BenchRow* row = device ? &measured.rows[shape * schedules.size() + n] : nullptr;
      std::string why_not = row && !row->failure.empty() ? row->message : "";
      try {
        if (why_not.empty()) {
          const cost::Cost cost =
              explain(algorithm, schedules[n].schedule, {target, options.shapes[shape], dtype}).cost;
          double flops = 0;
          for (const cost::KernelCost& kernel : cost.kernels) flops += kernel.product_flops;
          const double seconds = row ? row->median_ms / 1e3 : cost.seconds(), bytes = cost.memory_bytes();
          const double least = 4.0 * static_cast<double>(heads * lengths[shape] * width * size_in_bytes(dtype));
          std::printf("%8lld  %-16s %12.4f %12.1f %13.2f %12.4g\n", static_cast<long long>(lengths[shape]),
                      schedules[n].name.c_str(), 1e3 * seconds, bytes / (1 << 20), bytes / least,
                      flops / seconds / 1e12);
          if (bytes > 0)
            picture.dots.push_back(
                {schedules[n].name + ", N " + std::to_string(lengths[shape]), flops / bytes, flops / seconds});
        }
      } catch (const UserError& error) {
        why_not = error.what();
      }
      if (!why_not.empty())
        std::printf("%8lld  %-16s skipped: %s\n", static_cast<long long>(lengths[shape]), schedules[n].name.c_str(),
                    why_not.substr(0, why_not.find('\n')).c_str());
    }
  if (!file.empty()) {
    std::ofstream out(file);
    out << plot::to_svg(picture);
    if (!out.flush()) return std::fprintf(stderr, "%s can't be written\n", file.c_str()), 2;
  }
  return picture.dots.empty() ? 1 : 0;
} catch (const UserError& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
