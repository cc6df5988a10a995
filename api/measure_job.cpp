#include <fmt/format.h>

#include "api/measure.h"

namespace astatide {

MeasureJob measure_job(const Algorithm& algorithm, const Device& device, ScalarType dtype,
                       const std::map<std::string, std::int64_t>& extents, const EngineOptions& engine) {
  MeasureJob job;
  job.algorithm = print_algorithm(algorithm);
  job.device = device;
  job.dtype = dtype;
  job.extents = extents;
  job.threads = engine.threads;
  job.cache_directory = engine.cache_directory;
  return job;
}

void check_measurable(const Algorithm& algorithm, const Device& device,
                      const std::vector<std::map<std::string, std::int64_t>>& shapes, const char* done,
                      const char* instead, Diagnostics& errors) {
  if (device.kind == Device::Kind::sim)
    errors.error({}, "a simulated GPU takes no time that says anything", {"measure on cpu or cuda"});
  for (const auto& extents : shapes)
    for (const Extent& extent : algorithm.extents)
      if (!extents.contains(extent.name)) errors.error({}, fmt::format("nothing says how large {} is", extent.name));
  for (const Input& input : algorithm.inputs)
    if (input.dtype && !is_floating(*input.dtype) && *input.dtype != ScalarType::boolean &&
        *input.dtype != ScalarType::u8)
      errors.error({},
                   fmt::format("{} is {}, and random indices mean nothing: {} can't be {}", input.name,
                               name_of(*input.dtype), algorithm.name, done),
                   {instead});
}

}  // namespace astatide
