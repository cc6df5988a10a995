// The memory wall: attention that stores all scores, that keeps a row of them on chip, and that keeps a tile, against
// what the machine reaches. `memory_wall [--model] [--cpu] [--svg FILE] [N..]`: B1 H32 D128 f16 at 1024, 8192 and 16384
// without numbers. Measured on the GPU that is there; without one, or with --model, predicted for an H200.
// Bytes are predicted, of a whole launch; tests/perf/count_bytes.py puts those that ncu counts beside the model's.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "api/roofline.h"
#include "tools/plot/plot.h"

using namespace astatide;

int main(int argc, char** argv) try {
  bool model = false, cpu = false;
  std::string file;
  std::vector<std::int64_t> lengths;
  for (int n = 1; n < argc; ++n) {
    const std::string word = argv[n];
    model = model || word == "--model";
    cpu = cpu || word == "--cpu";
    if (word == "--svg" && n + 1 < argc)
      file = argv[++n];
    else if (const long long length = std::atoll(word.c_str()); length > 0)
      lengths.push_back(length);
    else if (word != "--model" && word != "--cpu")
      return std::fprintf(stderr, "memory_wall [--model] [--cpu] [--svg FILE] [N..]\n"), 2;
  }
  if (lengths.empty()) lengths = {1024, 8192, 16384};

  BenchOptions options;
  const std::optional<Device> gpu = model || cpu ? std::nullopt : find_gpu();
  options.device = gpu.value_or(Device::cpu());
  options.dtype = cpu ? ScalarType::f32 : ScalarType::f16;
  const std::int64_t heads = cpu ? 2 : 32, width = cpu ? 32 : 128;
  for (const std::int64_t n : lengths)
    options.shapes.push_back(
        {{"B", 1}, {"Hq", heads}, {"Hkv", heads}, {"Sq", n}, {"Sk", n}, {"D", width}, {"Dv", width}});
  std::vector<NamedSchedule> schedules;
  for (const char* name : {"simt/standard", "simt/fused_row", "sm80/flash2", "sm90/flash3", "cpu/flash2"})
    if (std::string(name).starts_with("simt/") || std::string(name).starts_with("cpu/") == cpu)
      schedules.push_back({name, load_schedule(name)});
  std::optional<Target> predicted;
  if (!gpu && !cpu) predicted = *find_target("sm_90a");
  const RooflineResult wall = roofline(load_algorithm("attention"), schedules, options, predicted);

  const std::string how = (wall.measured ? "measured on " : "predicted by the cost model for ") + wall.machine;
  const std::string what = "attention, B1 H" + std::to_string(heads) + " D" + std::to_string(width);
  std::printf("%s, %s\n%8s  %-16s %12s %12s %13s %12s\n", what.c_str(), how.c_str(), "N", "schedule", "ms",
              "MiB, model", "of the least", "TFLOP/s");
  plot::Roofline picture{
      {"The memory wall: " + what, "FLOP/byte of device memory (predicted)", "TFLOP/s", "times " + how},
      wall.rate,
      wall.bandwidth,
      {}};
  for (const RooflinePoint& point : wall.points) {
    const std::string n = std::to_string(lengths[point.shape]);
    std::printf("%8s  %-16s ", n.c_str(), point.schedule.c_str());
    if (!point.why_not.empty()) {
      std::printf("skipped: %s\n", point.why_not.substr(0, point.why_not.find('\n')).c_str());
      continue;
    }
    std::printf("%12.4f %12.1f %13.2f %12.4g\n", 1e3 * point.seconds, point.bytes / (1 << 20),
                point.bytes / point.least_bytes, point.rate() / 1e12);
    if (point.bytes > 0) picture.dots.push_back({point.schedule + ", N " + n, point.intensity(), point.rate()});
  }
  if (!file.empty() && !(std::ofstream(file) << plot::to_svg(picture)).flush())
    return std::fprintf(stderr, "%s can't be written\n", file.c_str()), 2;
  return picture.dots.empty() ? 1 : 0;
} catch (const UserError& error) {
  return std::fprintf(stderr, "%s\n", error.what()), 2;
}
